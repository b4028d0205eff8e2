package fsmtest

import "github.com/quorate/quorate/fsm"

// keyed draws one or two of the options about keys anew, small enough to be met. What then contradicts is for mend.
func (g *Generator) keyed(o *fsm.QueueOptions) {
	if o.Ordering == fsm.OrderFIFO {
		return
	}
	for n := 1 + g.rng.IntN(3); n > 0; n-- {
		switch g.rng.IntN(6) {
		case 0:
			o.MaxInFlightPerKey = pick[int64](g, 0, 1, 1, 2, 3, 10_000_000)
		case 1, 5:
			o.RatePerKeyMilli = pick[int64](g, 0, 1, 1, 10, 100, 300, 1000, 5000, 1_000_000_000)
			o.BurstPerKey = pick[int64](g, 0, 0, 0, 1, 1, 2, 3, 1_000_000)
		case 2:
			o.FairBy = fsm.FairByKey
		case 3:
			o.FairBy = fsm.FairBy(g.rng.IntN(2))
		case 4:
			o.FairBy, o.FairWeights = fsm.FairByKey, nil
			for _, key := range []string{"", "a", "b", "c"} {
				if key != "" && g.chance(60) {
					o.FairWeights = append(o.FairWeights, fsm.FairWeight{Key: key, Weight: pick[int64](g, 1, 2, 2, 3, 4, 100)})
				}
			}
		}
	}
}

// mend takes out what contradicts.
func (g *Generator) mend(o *fsm.QueueOptions) {
	if o.Ordering != fsm.OrderUnordered {
		o.MaxInFlightPerKey, o.FairWeights = 0, nil
	}
	if o.Ordering == fsm.OrderFIFO {
		o.RatePerKeyMilli, o.FairBy = 0, fsm.FairByNone
	}
	if o.RatePerKeyMilli == 0 {
		o.BurstPerKey = 0
	}
	if o.FairBy == fsm.FairByNone {
		o.FairWeights = nil
	}
	if o.PushURL != "" || o.Delivery != fsm.DeliverAtLeastOnce {
		o.MapTo = fsm.MapTo{}
	}
}

// spoilKeys puts one option about keys beyond its range, or has it contradict another one.
func (g *Generator) spoilKeys(o *fsm.QueueOptions) {
	switch g.rng.IntN(7) {
	case 0:
		o.MaxInFlightPerKey = pick[int64](g, -1, 10_000_001)
	case 1:
		o.RatePerKeyMilli = pick[int64](g, -1, 1_000_000_001)
	case 2:
		if o.BurstPerKey = 1; o.RatePerKeyMilli > 0 {
			o.BurstPerKey = pick[int64](g, -1, 1_000_001)
		}
	case 3:
		o.FairBy, o.FairWeights = fsm.FairByKey+1, nil
	case 4:
		if o.FairWeights = []fsm.FairWeight{{Key: "a", Weight: 1}}; o.FairBy != fsm.FairByNone { // a fault without fair_by
			o.FairWeights = pick(g, []fsm.FairWeight{{Key: "a", Weight: 0}}, []fsm.FairWeight{{Key: "a", Weight: 101}}, []fsm.FairWeight{{Key: "", Weight: 1}},
				[]fsm.FairWeight{{Key: "b", Weight: 1}, {Key: "a", Weight: 1}}, []fsm.FairWeight{{Key: "a", Weight: 1}, {Key: "a", Weight: 1}})
		}
	case 5:
		if o.MaxInFlightPerKey = 1; o.Ordering == fsm.OrderUnordered {
			o.MaxInFlightPerKey = -1
		}
	case 6:
		switch o.Ordering {
		case fsm.OrderFIFO:
			o.FairBy = fsm.FairByKey
		case fsm.OrderPerKey:
			o.FairBy, o.FairWeights = fsm.FairByKey, []fsm.FairWeight{{Key: "a", Weight: 1}}
		default:
			o.RatePerKeyMilli, o.BurstPerKey = 0, 1
		}
	}
}
