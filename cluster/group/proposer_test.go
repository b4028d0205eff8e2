package group

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/fsm"
)

// TestRoom: with an entry in flight the next waits until there is enough for it, by operations or by bytes, or until the one
// in flight has ended; then all that has come up goes together.
func TestRoom(t *testing.T) {
	for _, test := range []struct {
		name string
		send int // operations
		body int // bytes of each
		want int64
	}{
		{"one", 1, 10, 1},
		{"just too few", 512/fairOps - 1, 10, 1},
		{"enough operations", 512 / fairOps, 10, 2},
		{"just too few bytes", 3, 5000, 1},
		{"enough bytes", 4, 5000, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var disk *slowDisk
				c := newCluster(t, 1, func(cfg *Config) {
					disk = &slowDisk{LogStore: cfg.Logs}
					cfg.Logs = disk
				})
				l := c.leader()
				hang := make(chan struct{})
				disk.hang.Store(&hang)
				all := []*one{l.send(enqueue("q", "first"))}
				c.until(time.Second, "nothing in flight", func() bool { return l.g.inFlight.Load() == 1 })
				// Together, as a connection hands over what one message brought: the proposer sees none or all of it.
				var ps []*Proposal
				for i := range test.send {
					o := newOne()
					all = append(all, o)
					ps = append(ps, &Proposal{Op: fsm.AppendOp(nil, enqueue("q", fmt.Sprintf("%0*d", test.body, i))), Done: o})
				}
				l.g.Propose(ps...)
				synctest.Wait()
				if got := l.g.inFlight.Load(); got != test.want {
					t.Errorf("%d entries in flight, want %d", got, test.want)
				}
				disk.hang.Store(nil)
				close(hang)
				entries := map[uint64]int{}
				for _, o := range all {
					a := o.wait(t)
					if a.err != nil {
						t.Fatal(a.err)
					}
					entries[a.at.Index]++
				}
				if len(entries) != 2 {
					t.Errorf("entries by their operations: %v, want the first one and one with the rest", entries)
				}
				c.stop()
			})
		})
	}
}
