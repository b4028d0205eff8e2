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
		{"just below the bound", 341, false}, {"at the bound with one more", 342, false}, {"more than an entry looks at", 450, false}, {"a deleted queue", 400, true},
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

// TestSweepBounds has as many hooks as an entry looks at, one more and one less, gone and staying, with purges that come
// while a sweep is under way.
func TestSweepBounds(t *testing.T) {
	for _, n := range []int{1023, 1024, 1025, 2049} {
		for _, stay := range []int{0, 1, 300} {
			for _, ended := range []int{0, 300} {
				if ended > 0 && stay != 1 {
					continue
				}
				t.Run(fmt.Sprintf("%d of %d stay, %d had ended", stay, n, ended), func(t *testing.T) {
					s := newPairScript(t)
					b := s.do(1_000_000, &fsm.BatchCreate{Queue: []byte("done"), AutoCreate: true, Callback: fsm.Message{Priority: 4}}).Outcomes[0].ID
					put := func(queue string, n int) (ids []fsm.ID) {
						for n > 0 {
							op := &fsm.Enqueue{Queue: []byte(queue), AutoCreate: true}
							for range min(n, maxBatch) {
								op.Messages = append(op.Messages, fsm.Message{Priority: 4, Batch: b})
							}
							n -= len(op.Messages)
							for _, o := range s.do(1_000_000, op).Outcomes {
								ids = append(ids, o.ID)
							}
						}
						return ids
					}
					cancel := func(ids []fsm.ID) {
						var ops []fsm.Op
						for _, id := range ids {
							ops = append(ops, &fsm.Cancel{TaskID: []byte(id.String())})
						}
						s.do(1_000_000, ops...)
					}
					early := put("stay", ended)
					put("stay", stay)
					cancel(early)
					later := put("gone", n-stay+ended)
					cancel(later[:ended])
					s.do(1_000_000, &fsm.DeleteQueue{Name: []byte("gone")})
					put("gone", 5)
					s.do(1_000_000, &fsm.PurgeQueue{Name: []byte("gone")}, &fsm.PurgeQueue{Name: []byte("stay")})
					for range 4 {
						s.do(1_000_000)
					}
					s.look()
				})
			}
		}
	}
}
