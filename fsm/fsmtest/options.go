package fsmtest

import "github.com/quorate/quorate/fsm"

// setOptions draws the options of a change: mostly those that the queue has with one or two drawn anew, so that each
// option is changed under whatever the queue holds.
func (g *Generator) setOptions(name string) fsm.QueueOptions {
	q := g.model.queue(name)
	if q == nil || g.chance(15) {
		return g.options()
	}
	o := q.options
	for n := 1 + g.rng.IntN(2); n > 0; n-- {
		g.changeOption(&o)
	}
	return o
}

// changeOption draws one option anew.
func (g *Generator) changeOption(o *fsm.QueueOptions) {
	from := g.options()
	switch g.rng.IntN(14) {
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
		o.MaxInFlight = from.MaxInFlight
	case 11:
		o.MaxAgeMillis = from.MaxAgeMillis
	case 12:
		o.Paused = !o.Paused
	case 13:
		o.Paused = false
	}
}

// limit draws the limits of a queue, small enough to be met.
func (g *Generator) limit(o *fsm.QueueOptions) {
	if g.chance(60) {
		o.MaxDepth = pick[int64](g, 0, 1, 2, 5, 10, 400, 100_000_000)
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
	if g.chance(20) {
		g.limit(o)
	}
	if g.chance(30) {
		o.MaxInFlight = pick[int64](g, 1, 2, 3, 10, 10_000_000)
	}
	if g.chance(15) {
		o.MaxAgeMillis = pick(g, 1, 2, 1000, 5000, 60_000, maxDelay)
	}
	o.Paused = g.chance(6)
	if g.chance(3) {
		switch g.rng.IntN(5) {
		case 0:
			o.MaxDepth = pick[int64](g, -1, 100_000_001)
		case 1:
			o.MaxBytes = pick[int64](g, -1, 1<<40+1)
		case 2:
			o.MaxInFlight = pick[int64](g, -1, 10_000_001)
		case 3:
			o.MaxAgeMillis = pick(g, -1, maxDelay+1)
		case 4:
			o.Ordering = fsm.OrderPerKey + 1
		}
	}
}
