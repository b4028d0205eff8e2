package fsmtest

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/quorate/quorate/fsm"
)

// replica is a second state of the same group. It applies the same entries, is in no snapshot and comes from none, and has its own
// seed of hashes, its own slots and its own ways of growing: nothing that an entry answers may depend on any of these.
type replica struct {
	state *fsm.State
	fx    fsm.Effects
}

// apply applies an entry and compares its effects, all of them and in their order, with those that another state had.
func (r *replica) apply(index uint64, data []byte, other *fsm.State, want *fsm.Effects) error {
	if err := r.state.Apply(index, data, &r.fx); err != nil {
		return err
	}
	got := &r.fx
	if want.Index != got.Index || want.Time != got.Time || want.More != got.More || want.KV != got.KV {
		return fmt.Errorf("index, T, more and KV: %d %d %v %v and %d %d %v %v", want.Index, want.Time, want.More, want.KV, got.Index, got.Time, got.More, got.KV)
	}
	leases := func(list []fsm.Leased) []fsm.Leased {
		list = slices.Clone(list)
		for i := range list {
			list[i].Slot = 0 // where a state keeps it
		}
		return list
	}
	for _, err := range []error{
		same("outcomes", want.Outcomes, got.Outcomes), same("ends of operations", want.OpEnd, got.OpEnd),
		same("leases", leases(want.Leases), leases(got.Leases)), same("ends of tasks", want.Tasks, got.Tasks),
		same("cancelled leases", want.Cancelled, got.Cancelled), same("checkpoints", want.Checkpoints, got.Checkpoints),
		same("queues purged", want.Purged, got.Purged), same("queues with results", want.Results, got.Results),
		// A deleted queue's leases end at once, in no order.
		same("ended leases", sorted(want.Ended), sorted(got.Ended)),
	} {
		if err != nil {
			return err
		}
	}
	var a, b fsm.Delivery
	for i := range got.Leases {
		x, y := other.Deliver(want.Leases[i], &a), r.state.Deliver(got.Leases[i], &b)
		if x != y {
			return fmt.Errorf("delivery of %s: %v and %v", got.Leases[i].Token, x, y)
		}
		if diff := fieldDiff(a, b); x && diff != "" {
			return fmt.Errorf("delivery of %s:%s", got.Leases[i].Token, diff)
		}
	}
	return nil
}

func same[T comparable](what string, a, b []T) error {
	if len(a) != len(b) {
		return fmt.Errorf("%s: %d and %d", what, len(a), len(b))
	}
	for i := range a {
		if a[i] != b[i] {
			return fmt.Errorf("%s, number %d: %+v and %+v", what, i, a[i], b[i])
		}
	}
	return nil
}

func sorted(list []fsm.LeaseEnd) []fsm.LeaseEnd {
	return slices.SortedFunc(slices.Values(list), func(a, b fsm.LeaseEnd) int {
		return cmp.Or(a.Token.Message.Compare(b.Token.Message), a.Token.Lease.Compare(b.Token.Lease))
	})
}
