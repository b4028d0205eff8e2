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
