package group

import (
	"testing"

	"github.com/quorate/quorate/fsm"
)

// A queue that was dropped while it was marked does not come to stand for the one that has its name since: what becomes ready there
// would wake nobody.
func TestDroppedQueue(t *testing.T) {
	t.Parallel()
	st := fsm.New(0)
	defer st.Close()
	var fx fsm.Effects
	apply := func(index uint64, op fsm.Op) {
		t.Helper()
		check(t, st.Apply(index, fsm.AppendOp(fsm.AppendEntryHeader(nil, 1000, 0), op), &fx))
	}
	apply(1, &fsm.Bootstrap{Cluster: testCluster16, Epoch: 1})
	var d dispatcher
	d.reset()
	old := d.hold("q") // which does not exist yet
	w := &waiter{sub: &subscription{queue: old}}
	d.enlist(old, w)
	d.mark(old)
	d.delist(old, w)
	d.drop(old)
	apply(2, &fsm.CreateQueue{Name: []byte("q")})
	q := d.hold("q")
	if q == old || !d.find(q, st) {
		t.Fatal("the queue is not found, or is the one that was dropped")
	}
	d.deal(st, 1000, nil, &flight{}, 64<<10)
	if number, _ := st.QueueNumber([]byte("q")); d.ready(st, number) != q {
		t.Error("the queue that was dropped is told what becomes ready")
	}
	d.drop(q)
	if len(d.numbers) != 0 || len(d.queues) != 0 {
		t.Errorf("%d numbers and %d queues are left of none", len(d.numbers), len(d.queues))
	}
}
