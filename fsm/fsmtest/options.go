package fsmtest

import "github.com/quorate/quorate/fsm"

// newOptions draws the options of a new queue.
func (g *Generator) newOptions(name string) fsm.QueueOptions {
	o := g.options()
	switch {
	case !g.letters:
	case name == "dlq" && g.chance(80):
		o.DeadLetterQueue, o.Paused = pick(g, "", "", "missing"), false
	case name != "dlq" && g.chance(80):
		o.DeadLetterQueue, o.Paused = "dlq", false
	}
	if g.byKey && g.chance(80) {
		g.keyed(&o)
	}
	g.mend(&o)
	g.fault(name, &o)
	return o
}

// setOptions draws the options of a change: mostly those that the queue has with one or two drawn anew, so that each
// option is changed under whatever the queue holds.
func (g *Generator) setOptions(name string) fsm.QueueOptions {
	o := g.options()
	if q := g.model.queue(name); q != nil && !g.chance(15) {
		o = q.options
		for n := 1 + g.rng.IntN(2); n > 0; n-- {
			g.changeOption(&o)
		}
		if out := q.out(); out > 1 && g.chance(40) {
			o.MaxInFlight = out - 1
		}
		if len(q.dead) > 0 && g.chance(25) {
			o.DeadRetentionMillis = pick(g, 1000, 3000, 60_000, 100*day)
		}
	}
	if g.byKey && g.chance(40) {
		g.keyed(&o)
	}
	g.mend(&o)
	g.fault(name, &o)
	return o
}

// changeOption draws one option anew.
func (g *Generator) changeOption(o *fsm.QueueOptions) {
	from := g.options()
	switch g.rng.IntN(20) {
	case 0:
		o.LeaseMillis, o.Retry = from.LeaseMillis, from.Retry
	case 1:
		o.MaxDead, o.DeadOverflow = from.MaxDead, from.DeadOverflow
	case 2:
		o.DeadRetentionMillis = from.DeadRetentionMillis
	case 3:
		o.DedupWindowMillis = from.DedupWindowMillis
	case 4:
		o.DedupMaxKeys = from.DedupMaxKeys
	case 5:
		o.ResultTTLMillis = from.ResultTTLMillis
	case 6:
		o.MaxResultsBytes = from.MaxResultsBytes
	case 7:
		o.Ordering = from.Ordering
	case 8:
		o.MaxDepth, o.MaxBytes = 0, 0
	case 9:
		g.limit(o)
	case 10:
		if o.MaxInFlight = from.MaxInFlight; g.chance(50) {
			o.MaxInFlight = pick[int64](g, 0, 1, 1)
		}
	case 11:
		o.MaxAgeMillis = from.MaxAgeMillis
	case 12:
		o.Paused = !o.Paused
	case 13:
		o.Paused = false
	case 15:
		o.Overflow = from.Overflow
	case 16:
		o.Delivery = from.Delivery
	case 17:
		o.RateMilli, o.Burst = from.RateMilli, from.Burst
	case 14:
		o.DeadLetterQueue = from.DeadLetterQueue
	case 18:
		g.pushed(o)
	case 19:
		g.mapped(o)
	}
}

// limit draws the limits of a queue, small enough to be met.
func (g *Generator) limit(o *fsm.QueueOptions) {
	if g.chance(60) {
		o.MaxDepth = pick[int64](g, 0, 1, 2, 3, 5, 8, 20, 100_000_000)
	}
	if g.chance(60) {
		o.MaxBytes = pick[int64](g, 0, 1, 30, 100, 300, 20_000, 1<<40)
	}
}

// shape draws the options that decide what is served: order and limits.
func (g *Generator) shape(o *fsm.QueueOptions) {
	if g.chance(45) {
		o.Ordering = pick(g, fsm.OrderFIFO, fsm.OrderPerKey, fsm.OrderPerKey)
	}
	if g.chance(30) {
		g.limit(o)
	}
	if g.chance(30) {
		o.MaxInFlight = pick[int64](g, 1, 2, 3, 10, 10_000_000)
	}
	if g.chance(15) {
		o.MaxAgeMillis = pick(g, 1, 2, 1000, 5000, 60_000, maxDelay)
	}
	o.Paused = g.chance(6)
	if g.chance(35) {
		o.Overflow = fsm.OverflowDropOldest
	}
	if g.chance(8) {
		o.Delivery = fsm.DeliverAtMostOnce
	}
	if g.chance(20) {
		o.RateMilli = pick[int64](g, 1, 100, 333, 1000, 2500, 100_000, 1_000_000_000)
		o.Burst = pick[int64](g, 0, 0, 1, 2, 3, 1_000_000)
	}
	if g.chance(10) {
		g.pushed(o)
	}
	if g.chance(15) {
		g.mapped(o)
	}
	if g.letters && g.chance(60) {
		o.DeadLetterQueue = pick(g, "dlq", "dlq", pick(g, g.queues...), "missing")
	}
}

// spoilOptions puts one option beyond its range.
func (g *Generator) spoilOptions(o *fsm.QueueOptions) {
	if g.byKey && g.chance(40) {
		g.spoilKeys(o)
		return
	}
	switch g.rng.IntN(22) {
	case 0:
		o.LeaseMillis = pick(g, minLease-1, maxLease+1, -1)
	case 1:
		o.MaxDead = pick[int64](g, -1, 10_000_001)
	case 2:
		o.DeadRetentionMillis = pick(g, 999, 3660*day+1)
	case 3:
		o.DedupWindowMillis = pick(g, 999, 366*day+1)
	case 4:
		o.ResultTTLMillis = pick(g, 999, 366*day+1)
	case 5:
		o.MaxResultsBytes = pick[int64](g, -1, 1<<40+1)
	case 6:
		o.MaxDepth = pick[int64](g, -1, 100_000_001)
	case 7:
		o.MaxBytes = pick[int64](g, -1, 1<<40+1)
	case 8:
		o.MaxInFlight = pick[int64](g, -1, 10_000_001)
	case 9:
		o.MaxAgeMillis = pick(g, -1, maxDelay+1)
	case 10:
		o.Ordering = fsm.OrderPerKey + 1
	case 11, 13, 14, 15:
		o.DeadLetterQueue = pick(g, "-x", "a b")
	case 16:
		o.Overflow = fsm.OverflowDropOldest + 1
	case 17:
		o.Delivery = fsm.DeliverAtMostOnce + 1
	case 18:
		o.RateMilli = pick[int64](g, -1, 1_000_000_001)
	case 19:
		if o.Burst = 1; o.RateMilli > 0 {
			o.Burst = pick[int64](g, -1, 1_000_001)
		}
	case 12:
		o.DedupMaxKeys = pick[int64](g, -1, 10_000_001)
	case 20:
		g.spoilPush(o)
	case 21:
		g.spoilMapping(o)
	}
}

// fault leaves options with one fault at most and not often, so that most of them are taken.
func (g *Generator) fault(name string, o *fsm.QueueOptions) {
	if o.MapTo.Queue == name && g.chance(90) {
		o.MapTo = fsm.MapTo{}
	}
	switch {
	case o.DeadLetterQueue == name && g.chance(80):
		o.DeadLetterQueue = ""
	case o.DeadLetterQueue == name: // its fault
	case g.chance(8):
		g.spoilOptions(o)
	}
}
