package fsm

import (
	"math"
	"testing"
)

// A rank that fell where the ids rise would order the heaps of two nodes, one of which took a snapshot, differently.
func TestIDRankNeverFalls(t *testing.T) {
	var last uint32
	var lastID ID
	for epoch := range uint16(80) {
		for _, index := range []uint64{1, 127, 128, 129, 1 << 20, 1<<31 - 1, 1 << 31, 1 << 32, math.MaxUint64} {
			for _, offset := range []uint32{0, 1, math.MaxUint32} {
				id := MakeID(epoch, 7, index, offset)
				if r := idRank(id); r < last || r>>30 != 0 {
					t.Fatalf("%s has rank %#x, the lower %s %#x", id, r, lastID, last)
				} else {
					last, lastID = r, id
				}
			}
		}
	}
	if idRank(MakeID(7, 1, 128, 0)) == idRank(MakeID(7, 1, 256, 0)) {
		t.Error("ranks tell nothing apart")
	}
}

func TestDueBy(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	name := []byte("q")
	r.ok(&CreateQueue{Name: name})
	for i := range int64(20) {
		r.ok(&Enqueue{Queue: name, Messages: []Message{{Body: []byte("b"), Priority: DefaultPriority, DelayMillis: 10 * (i + 1)}}})
	}
	q := r.ref("q")
	for _, c := range []struct {
		at         int64
		most, want int
	}{{0, 100, 0}, {9, 100, 0}, {10, 100, 1}, {155, 100, 15}, {155, 4, 4}, {1 << 40, 100, 20}, {1 << 40, 0, 0}} {
		if got := r.s.DueBy(q, t0+c.at, c.most); got != c.want {
			t.Errorf("by %d ms, %d at most: %d, want %d", c.at, c.most, got, c.want)
		}
	}
	if got := r.s.DueBy(r.ref("none"), 1<<50, 10); got != 0 {
		t.Errorf("%d due in a queue that is not there", got)
	}
}
