package fsmtest

import (
	"fmt"
	"testing"

	"github.com/quorate/quorate/fsm"
)

// TestSweep purges more members of batches than an entry looks at, among others that stay, with slots of hooks used again:
// each batch is done in the entry that ends its last member.
func TestSweep(t *testing.T) {
	for _, c := range []struct {
		name    string
		members int // of each of three batches
		delete  bool
	}{
		{"just below the bound", 341, false}, {"at the bound with one more", 342, false}, {"more than two entries look at", 700, false}, {"a deleted queue", 500, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newPairScript(t)
			var batches []fsm.ID
			for range 3 {
				o := s.do(1_000_000, &fsm.BatchCreate{Queue: []byte("done"), AutoCreate: true, Callback: fsm.Message{Priority: 4}}).Outcomes[0]
				batches = append(batches, o.ID)
			}
			// Some in each queue are done at once, so that what comes after them takes the places they had.
			member := func(queue string, i int) *fsm.Enqueue {
				return &fsm.Enqueue{Queue: []byte(queue), AutoCreate: true, Messages: []fsm.Message{{
					Priority: 4, Batch: batches[i%3], Keys: [][]byte{fsm.AppendKVKey(nil, fmt.Sprint(i))},
				}}}
			}
			for i := range 3 * c.members {
				queue := "gone"
				if i%7 == 0 {
					queue = "stays"
				}
				fx := s.do(1_000_000, member(queue, i))
				if i%5 == 0 {
					s.do(1_000_000, &fsm.Cancel{TaskID: []byte(fx.Outcomes[0].ID.String())})
				}
			}
			for _, b := range batches {
				s.do(1_000_000, &fsm.BatchSeal{Batch: b})
			}
			s.look()
			var purge fsm.Op = &fsm.PurgeQueue{Name: []byte("gone")}
			if c.delete {
				purge = &fsm.DeleteQueue{Name: []byte("gone")}
			}
			s.do(1_000_000, purge)
			for range 4 {
				s.look()
				s.do(1_000_000)
			}
			s.do(1_000_000, &fsm.PurgeQueue{Name: []byte("stays")}, member("gone", 1))
			for range 4 {
				s.do(1_000_000)
				s.look()
			}
			for _, b := range batches {
				if in, ok := s.p.Model.Batch(b); !ok || in.Open != 0 || in.Callback.IsZero() {
					t.Fatalf("a batch is not done: %+v", in)
				}
			}
		})
	}
}
