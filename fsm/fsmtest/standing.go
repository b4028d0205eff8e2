package fsmtest

import (
	"fmt"

	"github.com/quorate/quorate/fsm"
)

// compareStanding holds what is said to keep a queue's messages back to what the contract says keeps them back, at T and later.
func (p *Pair) compareStanding(name string, n uint32) error {
	q, t := p.Model.queue(name), p.Model.t
	for _, at := range []int64{t, t + 1, t + 1000, t + 60_000} {
		want := fsm.Standing{}
		for _, x := range q.messages {
			switch x.state {
			case fsm.StateReady:
				want.Ready++
			case fsm.StateScheduled, fsm.StateRetrying:
				back := x.due
				if x.expiresAt != 0 {
					back = min(back, x.expiresAt)
				}
				if want.Due == 0 || back < want.Due {
					want.Due = back
				}
			}
		}
		got := p.State.Standing(n, at)
		if want.Ready > 0 {
			want.Due = 0
			want.Leasable = got.Leasable // judged below
			want.Paused = q.options.Paused
			want.Full = q.options.Delivery == fsm.DeliverAtLeastOnce && q.options.MaxInFlight != 0 && q.out() >= q.options.MaxInFlight
			if b := q.rate(); b.tokens(q.tat, at) == 0 {
				want.RateUntil = b.next(q.tat)
			}
			first := q.unblocked()
			want.Behind = len(first) == 0
			if q.keyed() && !want.Behind {
				want.Keys = true
				for _, x := range first {
					want.Keys = want.Keys && !q.openAt(x.key, at)
				}
				for _, k := range q.keys {
					if want.Keys && k.hold == holdRate && (want.KeysUntil == 0 || k.until < want.KeysUntil) {
						want.KeysUntil = k.until
					}
				}
			}
		}
		if want != got {
			return fmt.Errorf("queue %s: standing at T+%d:%s", name, at-t, fieldDiff(want, got))
		}
		held := got.Paused || got.Full || got.RateUntil != 0 || got.Behind || got.Keys
		if got.Ready > 0 && held == (got.Leasable > 0) {
			return fmt.Errorf("queue %s: at T+%d something is leasable or nothing keeps it back, and not both: %+v", name, at-t, got)
		}
	}
	return nil
}
