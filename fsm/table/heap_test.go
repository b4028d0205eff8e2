package table

import (
	"cmp"
	"slices"
	"testing"
)

func checkHeap(t *testing.T, h *Heap, pos []int32) {
	t.Helper()
	for i := range h.n {
		n := h.node(i)
		if pos != nil && pos[n.slot] != i {
			t.Fatalf("slot %d is at %d, was told %d", n.slot, i, pos[n.slot])
		}
		if i > 0 && h.before(n, h.node((i-1)/heapArity)) {
			t.Fatalf("node %d comes before its parent", i)
		}
	}
}

func TestHeapModel(t *testing.T) {
	t.Parallel()
	t.Run("without ranks", func(t *testing.T) { testHeapModel(t, nil) })
	t.Run("ranks", func(t *testing.T) { testHeapModel(t, func(s int32) uint32 { return uint32(6000-s) >> 3 }) })
}

func testHeapModel(t *testing.T, rank func(int32) uint32) {
	rnd := newRand(t)
	const slots = 6000
	pos := make([]int32, slots)
	for i := range pos {
		pos[i] = -1
	}
	tie := func(a, b int32) bool { return a > b } // not the default order
	h := Heap{Less: tie, Rank: rank, Moved: func(slot, p int32) { pos[slot] = p }}
	keys := map[int32]int64{}
	lowest := func() (slot int32) {
		slot = -1
		for s, k := range keys {
			if slot < 0 || k < keys[slot] || k == keys[slot] && s > slot {
				slot = s
			}
		}
		return slot
	}
	for step := range 60_000 {
		s := rnd.Int32N(slots)
		key := rnd.Int64N(50) - 25
		_, in := keys[s]
		switch r := rnd.IntN(10); {
		case !in && (r < 7 || step < 20_000):
			h.Push(key, s)
			keys[s] = key
		case in && r < 3:
			h.Fix(pos[s], key)
			keys[s] = key
		case in && (r < 6 || step > 40_000):
			h.Remove(pos[s])
			delete(keys, s)
			if pos[s] != -1 {
				t.Fatalf("removed slot %d has position %d", s, pos[s])
			}
		}
		if h.Len() != len(keys) {
			t.Fatalf("step %d: Len %d, want %d", step, h.Len(), len(keys))
		}
		if step%997 == 0 {
			checkHeap(t, &h, pos)
			if len(keys) > 0 {
				want := lowest()
				if k, s, ok := h.Min(); !ok || s != want || k != keys[want] {
					t.Fatalf("Min %d %d %v, want %d %d", k, s, ok, keys[want], want)
				}
			}
		}
	}
	type node struct {
		key  int64
		slot int32
	}
	var want, got []node
	for s, k := range keys {
		want = append(want, node{k, s})
	}
	slices.SortFunc(want, func(a, b node) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(b.slot, a.slot)) })
	for {
		k, s, ok := h.Pop()
		if !ok {
			break
		}
		got = append(got, node{k, s})
		if pos[s] != -1 {
			t.Fatalf("popped slot %d has position %d", s, pos[s])
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("order of %d popped differs from the sorted %d", len(got), len(want))
	}
	if h.Bytes() > 64*16 {
		t.Errorf("empty heap holds %d bytes", h.Bytes())
	}
}

func TestHeapZeroValue(t *testing.T) {
	t.Parallel()
	var h Heap
	if _, _, ok := h.Pop(); ok {
		t.Error("popped from an empty heap")
	}
	for s := range int32(5000) {
		h.Push(int64(s%3), s)
	}
	checkHeap(t, &h, nil)
	lastKey, lastSlot := int64(-1), int32(-1)
	for range 5000 {
		k, s, ok := h.Pop()
		if !ok || k < lastKey || k == lastKey && s <= lastSlot || k != int64(s%3) {
			t.Fatalf("popped %d %d %v after %d %d", k, s, ok, lastKey, lastSlot)
		}
		lastKey, lastSlot = k, s
	}
	defer func() {
		if recover() == nil {
			t.Error("Remove from an empty heap: no panic")
		}
	}()
	h.Remove(0)
}

func BenchmarkHeap(b *testing.B) {
	for _, n := range []int32{10_000, 1_000_000} {
		name := map[int32]string{10_000: "10k", 1_000_000: "1M"}[n]
		b.Run(name, func(b *testing.B) { // leases: pushed with rising deadlines, removed from anywhere
			var pos Ints
			h := Heap{Moved: pos.Set}
			for s := range n {
				h.Push(int64(s), s)
			}
			k, s := int64(n), int32(0)
			b.ResetTimer()
			for b.Loop() {
				s = (s + 7919) % n
				h.Remove(pos.Get(s))
				h.Push(k, s)
				k++
			}
		})
	}
}
