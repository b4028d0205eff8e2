package fsmtest

import "github.com/quorate/quorate/fsm"

// changeable are the options by their bit in an OptionSet.
func changeable(to, from *fsm.QueueOptions) map[int]func() {
	return map[int]func(){
		1:  func() { to.LeaseMillis = from.LeaseMillis },
		2:  func() { to.Retry = from.Retry },
		3:  func() { to.MaxDead = from.MaxDead },
		4:  func() { to.DeadOverflow = from.DeadOverflow },
		5:  func() { to.DeadRetentionMillis = from.DeadRetentionMillis },
		6:  func() { to.DedupWindowMillis = from.DedupWindowMillis },
		7:  func() { to.DedupMaxKeys = from.DedupMaxKeys },
		8:  func() { to.ResultTTLMillis = from.ResultTTLMillis },
		9:  func() { to.MaxResultsBytes = from.MaxResultsBytes },
		20: func() { to.Ordering = from.Ordering },
		21: func() { to.MaxDepth = from.MaxDepth },
		22: func() { to.MaxBytes = from.MaxBytes },
		23: func() { to.Overflow = from.Overflow },
		24: func() { to.MaxInFlight = from.MaxInFlight },
		25: func() { to.Paused = from.Paused },
		26: func() { to.MaxAgeMillis = from.MaxAgeMillis },
		27: func() { to.Delivery = from.Delivery },
		28: func() { to.MaxInFlightPerKey = from.MaxInFlightPerKey },
		29: func() { to.RateMilli = from.RateMilli },
		30: func() { to.Burst = from.Burst },
		31: func() { to.RatePerKeyMilli = from.RatePerKeyMilli },
		32: func() { to.BurstPerKey = from.BurstPerKey },
		33: func() { to.FairBy = from.FairBy },
		34: func() { to.FairWeights = from.FairWeights },
		40: func() { to.DeadLetterQueue = from.DeadLetterQueue },
		41: func() { to.PushURL = from.PushURL },
		42: func() { to.PushConcurrency = from.PushConcurrency },
		43: func() { to.PushTimeoutMillis = from.PushTimeoutMillis },
		44: func() { to.PushSecrets = from.PushSecrets },
		45: func() { to.PushPermanent = from.PushPermanent },
		46: func() { to.PushHeaders = from.PushHeaders },
		47: func() { to.Schema = from.Schema },
		48: func() { to.Map = from.Map },
		49: func() { to.MapTo = from.MapTo },
	}
}

// merged are the options of a queue with those of another set that are named.
func merged(o fsm.QueueOptions, only fsm.OptionSet, from fsm.QueueOptions) fsm.QueueOptions {
	for bit, set := range changeable(&o, &from) {
		if only&(1<<bit) != 0 {
			set()
		}
	}
	return o
}

// changeQueue sets some options, and leaves the others.
func (m *Model) changeQueue(op *fsm.ChangeQueue) fsm.Outcome {
	switch {
	case !validQueueName(string(op.Name)):
		return refuse(fsm.InvalidArgument, fsm.FieldQueue)
	case op.Only == 0:
		return refuse(fsm.InvalidArgument, fsm.FieldOptions)
	}
	q := m.queue(string(op.Name))
	if q == nil {
		return refuse(fsm.NotFound, fsm.FieldQueue)
	}
	return m.setQueue(&fsm.SetQueue{Name: op.Name, Options: merged(q.options, op.Only, op.Options)})
}

// change draws a change of some options: mostly what changes is named and all else given another value, which is not to be looked at.
func (g *Generator) change() *fsm.ChangeQueue {
	o := &fsm.ChangeQueue{Name: g.queueName()}
	o.Options = g.setOptions(string(o.Name))
	q := g.model.queue(string(o.Name))
	for bit, most := 0, 64; bit < most; bit++ {
		if _, known := changeable(&o.Options, &o.Options)[bit]; known && g.chance(12) {
			o.Only |= 1 << bit
		}
	}
	if q == nil {
		return o
	}
	if g.chance(25) {
		o.Only |= 1 << 25
		o.Options.Paused = !q.options.Paused
	}
	// Options that contradict each other, but none that is wrong by itself: that is for sets.
	whole := merged(q.options, o.Only, o.Options)
	mended := whole
	g.mend(&mended)
	if len(faultsOf(q.name, withDefaults(mended))) > 0 {
		o.Only = 1 << 25
	}
	return o
}

// changeOnce has a change of some options of a queue, whose options an operation before it in the entry has changed, pause it or let it
// go on alone: what others come to together cannot be foreseen, and would mostly be refused.
func (g *Generator) changeOnce(ops []fsm.Op) {
	changed := map[string]bool{}
	for i, op := range ops {
		switch o := bare(op).(type) {
		case *fsm.CreateQueue:
			changed[string(o.Name)] = true
		case *fsm.SetQueue:
			changed[string(o.Name)] = true
		case *fsm.DeleteQueue:
			changed[string(o.Name)] = true
		case *fsm.ChangeQueue:
			name := string(o.Name)
			if o.Only != 0 && (changed[name] || i > 0 && g.model.queue(name) == nil) { // any operation may have made it
				c := *o
				c.Only = 1 << 25
				ops[i] = &c
			}
			changed[name] = true
		}
	}
}
