package table

import (
	"testing"
)

// checkIndex verifies every invariant of an index against the values that it should hold.
func checkIndex(t *testing.T, x *Index, want map[int32]uint64) {
	t.Helper()
	if x.Len() != len(want) {
		t.Fatalf("Len %d, want %d", x.Len(), len(want))
	}
	n, slots := 0, 0
	var pages [indexDepthMax + 1]int32
	for i := 0; i < len(x.dir); {
		p := x.dir[i]
		span := 1 << (32 - x.shift - p.bits)
		if i%span != 0 {
			t.Fatalf("page of %d bits begins at directory entry %d of %d", p.bits, i, len(x.dir))
		}
		for j := i; j < i+span; j++ {
			if x.dir[j] != p {
				t.Fatalf("directory entry %d is not the page of entry %d", j, i)
			}
		}
		here := 0
		for k, e := range p.slots {
			if e.val == 0 {
				continue
			}
			here++
			v := int32(e.val - 1)
			if h, ok := want[v]; !ok || fold(h) != e.hash {
				t.Fatalf("value %d with hash %#x, want %#x %v", v, e.hash, fold(want[v]), ok)
			}
			if x.dir[e.hash>>x.shift] != p {
				t.Fatalf("value %d is in the wrong page", v)
			}
			mask := uint32(len(p.slots) - 1)
			for q := e.hash & mask; q != uint32(k); q = (q + 1) & mask {
				if p.slots[q].val == 0 {
					t.Fatalf("value %d cannot be reached: gap at %d", v, q)
				}
			}
		}
		if here != p.n {
			t.Fatalf("page counts %d, holds %d", p.n, here)
		}
		n += here
		slots += len(p.slots)
		pages[p.bits]++
		i += span
	}
	if n != x.live || slots != x.slots || pages != x.pages {
		t.Fatalf("live %d of %d, slots %d of %d, pages %v of %v", x.live, n, x.slots, slots, x.pages, pages)
	}
}

func TestIndexModel(t *testing.T) {
	t.Parallel()
	rnd := newRand(t)
	for _, c := range []struct {
		name string
		hash func(v int32) uint64
		n    int32
	}{
		{"spread", func(v int32) uint64 { return HashID(1<<48, uint64(v)) }, 20_000},
		{"sixteen to a hash", func(v int32) uint64 { return HashID(0, uint64(v/16)) }, 8000},
		{"low bits only", func(v int32) uint64 { return uint64(v % 1024) }, 2500},
		{"high bits only", func(v int32) uint64 { return uint64(v%1024) << 54 }, 5000},
		{"one hash", func(int32) uint64 { return 7 }, 1500},
	} {
		t.Run(c.name, func(t *testing.T) {
			var x Index
			want := map[int32]uint64{}
			for _, grow := range []int{90, 50, 10, 70, 0} { // percent of insertions
				for range int(c.n) {
					v := rnd.Int32N(c.n)
					h := c.hash(v)
					_, in := want[v]
					got, ok := x.Find(h, func(o int32) bool { return o == v })
					if ok != in || ok && got != v {
						t.Fatalf("Find %d: %d %v, want %v", v, got, ok, in)
					}
					switch {
					case rnd.IntN(100) < grow && !in:
						x.Insert(h, v)
						want[v] = h
					case rnd.IntN(100) >= grow:
						if x.Delete(h, v) != in {
							t.Fatalf("Delete %d, want %v", v, in)
						}
						delete(want, v)
					}
				}
				checkIndex(t, &x, want)
			}
			for v, h := range want {
				if !x.Delete(h, v) {
					t.Fatalf("Delete %d: not there", v)
				}
			}
			checkIndex(t, &x, map[int32]uint64{})
			if x.Bytes() > 8*pageSize*2 {
				t.Errorf("empty index holds %d bytes", x.Bytes())
			}
		})
	}
}

func TestIndexReplace(t *testing.T) {
	t.Parallel()
	var x Index
	if x.Replace(1, 1, 2) || x.Delete(1, 1) {
		t.Error("found something in an empty index")
	}
	x.Insert(1, 10)
	x.Insert(1, 0)
	if !x.Replace(1, 10, 11) || x.Replace(1, 10, 12) || x.Replace(2, 11, 12) {
		t.Error("Replace: want only the first to find its value")
	}
	checkIndex(t, &x, map[int32]uint64{11: 1, 0: 1})
}

func TestIndexPauseBounded(t *testing.T) {
	t.Parallel()
	// Growth touches one page at a time: between two insertions at most one page comes in, whatever the size.
	var x Index
	for v := range int32(200_000) {
		before := x.slots
		x.Insert(HashID(3, uint64(v)<<32), v)
		if got := x.slots - before; got > pageSize {
			t.Fatalf("insertion %d made %d slots at once", v, got)
		}
	}
	if per := float64(x.Bytes()) / 200_000; per > 24 {
		t.Errorf("%.1f bytes a value, want at most 24", per)
	}
}

func BenchmarkIndex(b *testing.B) {
	const n = 1 << 20
	fill := func() *Index {
		x := new(Index)
		for v := range int32(n) {
			x.Insert(HashID(1, uint64(v)), v)
		}
		return x
	}
	b.Run("insert", func(b *testing.B) {
		var x Index
		v := int32(0)
		for b.Loop() {
			x.Insert(HashID(1, uint64(v)), v)
			v++
		}
	})
	b.Run("find", func(b *testing.B) {
		x := fill()
		b.ResetTimer()
		v := int32(0)
		for b.Loop() {
			v = (v + 7919) & (n - 1)
			if _, ok := x.Find(HashID(1, uint64(v)), func(o int32) bool { return o == v }); !ok {
				b.Fatal("lost", v)
			}
		}
	})
	b.Run("churn", func(b *testing.B) { // one in, one out, at a million
		x := fill()
		b.ResetTimer()
		v := int32(n)
		for b.Loop() {
			x.Insert(HashID(1, uint64(v)), v)
			x.Delete(HashID(1, uint64(v-n)), v-n)
			v++
		}
	})
}

func TestIndexPeek(t *testing.T) {
	t.Parallel()
	var x Index
	if v, ok := x.Peek(7); ok {
		t.Errorf("an empty index shows %d", v)
	}
	for v := range int32(10_000) {
		x.Insert(HashID(1, uint64(v)), v)
	}
	for v := range int32(10_000) {
		h := HashID(1, uint64(v))
		got, ok := x.Peek(h)
		if !ok || got != v && fold(HashID(1, uint64(got))) != fold(h) {
			t.Fatalf("value %d: %d, %t", v, got, ok)
		}
	}
	missed := 0
	for v := range uint64(10_000) {
		if _, ok := x.Peek(HashID(2, v)); !ok {
			missed++
		}
	}
	if missed < 9_000 {
		t.Errorf("%d of 10,000 that are not there are not found, want nearly all", missed)
	}
}
