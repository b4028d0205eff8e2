package table

import (
	"sync"
	"testing"
)

type record struct {
	id, sum uint64
	pad     [10]uint64
}

func TestPagesModel(t *testing.T) {
	t.Parallel()
	rnd := newRand(t)
	var p Pages[record]
	want := map[int32]uint64{}
	type picture struct {
		v    *View[record]
		want map[int32]uint64
	}
	var views []picture
	next := uint64(1)
	for step := range 60_000 {
		limit := 90
		if step > 30_000 {
			limit = 20
		}
		if rnd.IntN(100) < limit && len(want) < 9000 {
			i := p.Alloc()
			if _, in := want[i]; in {
				t.Fatalf("slot %d given twice", i)
			}
			if *p.Get(i) != (record{}) {
				t.Fatalf("slot %d is not zero", i)
			}
			*p.Mut(i) = record{id: next}
			want[i] = next
			next++
		} else {
			for i := range want {
				if rnd.IntN(2) == 0 {
					p.Mut(i).id = next
					want[i] = next
					next++
				} else {
					p.Free(i)
					delete(want, i)
				}
				break
			}
		}
		if p.Len() != len(want) {
			t.Fatalf("Len %d, want %d", p.Len(), len(want))
		}
		if step%3001 == 0 {
			w := make(map[int32]uint64, len(want))
			for i, id := range want {
				w[i] = id
			}
			views = append(views, picture{p.View(), w})
		}
		if step%5003 == 0 && len(views) > 0 {
			k := rnd.IntN(len(views))
			checkView(t, views[k].v, views[k].want)
			views[k].v.Release()
			views[k].v.Release()
			views = append(views[:k], views[k+1:]...)
		}
	}
	for _, w := range views {
		checkView(t, w.v, w.want)
		w.v.Release()
	}
	n := 0
	last := int32(-1)
	p.Each(func(i int32, r *record) bool {
		if i <= last || r.id != want[i] || !p.Live(i) {
			t.Fatalf("slot %d after %d: id %d, want %d", i, last, r.id, want[i])
		}
		last = i
		n++
		return true
	})
	if n != len(want) {
		t.Errorf("Each saw %d, want %d", n, len(want))
	}
	for i := range want {
		p.Free(i)
	}
	if p.held > 1 || p.Len() != 0 {
		t.Errorf("emptied table holds %d pages and %d records, want at most one page", p.held, p.Len())
	}
}

func checkView(t *testing.T, v *View[record], want map[int32]uint64) {
	t.Helper()
	n := 0
	v.Each(func(i int32, r *record) bool {
		if r.id != want[i] {
			t.Fatalf("view: slot %d has id %d, want %d", i, r.id, want[i])
		}
		if r.id != 0 {
			n++
		}
		return true
	})
	if n != len(want) {
		t.Fatalf("view has %d records, want %d", n, len(want))
	}
}

func TestPagesFreeTwice(t *testing.T) {
	t.Parallel()
	var p Pages[record]
	i := p.Alloc()
	p.Alloc()
	p.Free(i)
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	p.Free(i)
}

// TestPagesConcurrentView reads views in other goroutines while the owner writes; every record carries its own check.
func TestPagesConcurrentView(t *testing.T) {
	t.Parallel()
	rnd := newRand(t)
	var p Pages[record]
	const n = 5000
	for i := range uint64(n) {
		*p.Mut(p.Alloc()) = record{id: i + 1, sum: ^(i + 1)}
	}
	var readers sync.WaitGroup
	defer readers.Wait()
	for round := range uint64(20) {
		v := p.View()
		readers.Go(func() {
			defer v.Release()
			live := 0
			v.Each(func(i int32, r *record) bool {
				if r.id == 0 {
					return true
				}
				live++
				if r.sum != ^r.id || r.pad[0] != round {
					t.Errorf("round %d, slot %d: torn or late record %+v", round, i, r)
					return false
				}
				return true
			})
			if live != n {
				t.Errorf("round %d: %d records, want %d", round, live, n)
			}
		})
		for i := range int32(n) { // every record becomes the next round's, some in another slot
			r := *p.Get(i)
			if rnd.IntN(10) == 0 {
				p.Free(i)
				if got := p.Alloc(); got != i {
					t.Fatalf("Alloc gave %d, want the only free slot %d", got, i)
				}
			}
			r.id += n
			r.sum = ^r.id
			r.pad[0] = round + 1
			*p.Mut(i) = r
		}
	}
}

func TestInts(t *testing.T) {
	t.Parallel()
	var x Ints
	if x.Get(1<<30) != 0 {
		t.Error("not zero at first")
	}
	x.Set(5000, 0)
	if x.Bytes() != 0 {
		t.Error("zero takes memory")
	}
	x.Set(5000, -7)
	x.Set(5001, 8)
	if x.Get(5000) != -7 || x.Get(5001) != 8 || x.Get(4999) != 0 || x.Get(100_000) != 0 {
		t.Error("wrong numbers")
	}
	x.Set(5000, 0)
	x.Set(5001, 0)
	x.Set(5001, 0)
	if x.held != 0 || x.Get(5001) != 0 {
		t.Errorf("%d pages held for zeroes", x.held)
	}
}

func BenchmarkPages(b *testing.B) {
	const n = 1 << 20
	var p Pages[[12]uint64]
	for range n {
		p.Mut(p.Alloc())[0] = 1
	}
	b.Run("mut", func(b *testing.B) {
		i := int32(0)
		for b.Loop() {
			i = (i + 7919) & (n - 1)
			p.Mut(i)[1]++
		}
	})
	b.Run("alloc-free", func(b *testing.B) {
		for b.Loop() {
			p.Free(p.Alloc())
		}
	})
	b.Run("view", func(b *testing.B) {
		for b.Loop() {
			p.View().Release()
		}
	})
	b.Run("mut-under-view", func(b *testing.B) { // page copies included, a new view each 4096 writes
		v := p.View()
		i, k := int32(0), 0
		for b.Loop() {
			i = (i + 7919) & (n - 1)
			if k++; k&4095 == 0 {
				v.Release()
				v = p.View()
			}
			p.Mut(i)[1]++
		}
		v.Release()
	})
}
