package arena

import (
	"bytes"
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"sync"
	"testing"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random tests; 0 draws one")

func newRand(t testing.TB) *rand.Rand {
	t.Helper()
	s := *seedFlag
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("seed %d", s)
	return rand.New(rand.NewPCG(s, 0))
}

// pattern fills b with bytes that depend on key alone, so that any mix-up shows.
func pattern(b []byte, key uint64) {
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, key)
		key = key*6364136223846793005 + 1442695040888963407
		b = b[8:]
	}
	for i := range b {
		b[i] = byte(key >> (8 * i))
	}
}

func matches(b []byte, key uint64) bool {
	for len(b) >= 8 {
		if binary.LittleEndian.Uint64(b) != key {
			return false
		}
		key = key*6364136223846793005 + 1442695040888963407
		b = b[8:]
	}
	for i := range b {
		if b[i] != byte(key>>(8*i)) {
			return false
		}
	}
	return true
}

// owner is the record a blob belongs to in the tests.
type owner struct {
	ref Ref
	key uint64
	n   int
}

func TestModel(t *testing.T) {
	t.Parallel()
	rnd := newRand(t)
	a := New()
	defer a.Close()
	records := map[uint64]owner{}
	type picture struct {
		p       *Pin
		records map[uint64]owner
	}
	var pins []picture
	checkPin := func(w picture) {
		for slot, o := range w.records {
			if b := w.p.Get(o.ref); len(b) != o.n || !matches(b, o.key) {
				t.Fatalf("pinned blob of owner %d: %d bytes of %d, wrong", slot, len(b), o.n)
			}
		}
	}
	size := func() int {
		switch r := rnd.IntN(1000); {
		case r == 0:
			return rnd.IntN(3 << 20)
		case r < 20:
			return rnd.IntN(64 << 10)
		case r < 100:
			return 0
		default:
			return rnd.IntN(600)
		}
	}
	next := uint64(1)
	var slots []uint64
	for step := range 60_000 {
		grow := 60
		if step > 30_000 {
			grow = 25
		}
		if rnd.IntN(100) < grow {
			n := size()
			slot := next | uint64(rnd.IntN(3))<<32
			r, b := a.Put(slot, n)
			if r == 0 || len(b) != n || cap(b) != n {
				t.Fatalf("Put %d: ref %d, %d bytes, cap %d", n, r, len(b), cap(b))
			}
			pattern(b, next)
			records[slot] = owner{r, next, n}
			slots = append(slots, slot)
			next++
		} else if len(slots) > 0 {
			i := rnd.IntN(len(slots))
			slot := slots[i]
			o := records[slot]
			if b := a.Get(o.ref); !matches(b, o.key) || len(b) != o.n || a.Size(o.ref) != o.n || a.Owner(o.ref) != slot {
				t.Fatalf("blob of owner %#x is wrong: %d bytes of %d, owner %#x", slot, len(b), o.n, a.Owner(o.ref))
			}
			if rnd.IntN(8) == 0 { // another record takes it over
				to := slot ^ 7<<36
				a.SetOwner(o.ref, to)
				delete(records, slot)
				records[to], slots[i] = o, to
				continue
			}
			a.Free(o.ref)
			delete(records, slot)
			slots[i] = slots[len(slots)-1]
			slots = slots[:len(slots)-1]
		}
		if rnd.IntN(5) == 0 {
			a.Compact(1+rnd.IntN(8), func(o uint64, r Ref) bool { return records[o].ref == r && r != 0 },
				func(o uint64, from, to Ref) {
					w := records[o]
					if w.ref != from {
						t.Fatalf("owner %#x moved from %d, has %d", o, from, w.ref)
					}
					w.ref = to
					records[o] = w
				})
		}
		if step%4001 == 0 {
			w := make(map[uint64]owner, len(records))
			for s, o := range records {
				w[s] = o
			}
			pins = append(pins, picture{a.Pin(), w})
		}
		if step%2503 == 0 && len(pins) > 0 {
			k := rnd.IntN(len(pins))
			checkPin(pins[k])
			pins[k].p.Release()
			pins[k].p.Release()
			pins = append(pins[:k], pins[k+1:]...)
		}
	}
	for _, w := range pins {
		checkPin(w)
		w.p.Release()
	}
	want := int64(0)
	for slot, o := range records {
		if b := a.Get(o.ref); !matches(b, o.key) || len(b) != o.n {
			t.Fatalf("blob of owner %#x is wrong at the end", slot)
		}
		if o.n+headSize > largeMin {
			want += int64((room(o.n) + largeRound - 1) / largeRound * largeRound)
		} else {
			want += int64(room(o.n))
		}
	}
	if a.Live() != want {
		t.Errorf("Live %d, want %d", a.Live(), want)
	}
	for _, o := range records {
		a.Free(o.ref)
	}
	if a.Live() != 0 || a.Held() > (spareMax+1)*chunkSize+spareLarge || a.Sparse() != 0 || len(a.limbo) != 0 {
		t.Errorf("emptied: live %d, held %d, %d sparse, %d in limbo", a.Live(), a.Held(), a.Sparse(), len(a.limbo))
	}
}

func TestCompactGivesMemoryBack(t *testing.T) {
	t.Parallel()
	a := New()
	defer a.Close()
	const n, keep = 100_000, 50 // one blob of fifty lives on, and pins its chunk
	refs := make([]Ref, n)
	for i := range refs {
		r, b := a.Put(uint64(i), 256)
		pattern(b, uint64(i))
		refs[i] = r
	}
	full := a.Held()
	for i, r := range refs {
		if i%keep != 0 {
			a.Free(r)
			refs[i] = 0
		}
	}
	if a.Held() < full*9/10 {
		t.Fatalf("held %d before compaction: nothing to compact", a.Held())
	}
	calls := 0
	holds := func(o uint64, r Ref) bool { return refs[o] == r }
	moved := func(o uint64, _, to Ref) { refs[o] = to }
	p := a.Pin()
	if a.Compact(1000, holds, moved) != 0 {
		t.Error("compaction under a pin")
	}
	p.Release()
	for a.Sparse() > 0 {
		if seen := a.Compact(64, holds, moved); seen > 64 {
			t.Fatalf("looked at %d blobs, want at most 64", seen)
		}
		if calls++; calls > n {
			t.Fatal("compaction does not end")
		}
	}
	if limit := int64(spareMax+2)*chunkSize + a.Live()*4; a.Held() > limit {
		t.Errorf("held %d of %d after compaction, live %d, want at most %d", a.Held(), full, a.Live(), limit)
	}
	for i, r := range refs {
		if i%keep == 0 && !matches(a.Get(r), uint64(i)) {
			t.Fatalf("blob %d is wrong after its move", i)
		}
	}
}

// TestCompactUnheld: a blob whose owner does not own up to it must neither move nor make Compact loop.
func TestCompactUnheld(t *testing.T) {
	t.Parallel()
	a := New()
	defer a.Close()
	var refs []Ref
	for range 10_000 {
		refs = append(refs, a.PutBytes(1, make([]byte, 256)))
	}
	for _, r := range refs[1:] {
		a.Free(r)
	}
	if a.Sparse() == 0 {
		t.Fatal("no sparse chunk")
	}
	seen := a.Compact(1<<20, func(uint64, Ref) bool { return false }, func(uint64, Ref, Ref) { t.Error("moved") })
	if seen == 0 || a.Sparse() != 0 {
		t.Errorf("looked at %d blobs, %d chunks left", seen, a.Sparse())
	}
	if len(a.Get(refs[0])) != 256 {
		t.Error("blob is gone")
	}
}

// TestPinConcurrent reads pins in other goroutines while the owner frees, fills and grows.
func TestPinConcurrent(t *testing.T) {
	t.Parallel()
	rnd := newRand(t)
	a := New()
	defer a.Close()
	records := make([]owner, 20_000)
	put := func(i int, key uint64) {
		n := rnd.IntN(300)
		if rnd.IntN(2000) == 0 {
			n = 300 << 10
		}
		r, b := a.Put(uint64(i), n)
		pattern(b, key)
		records[i] = owner{r, key, n}
	}
	for i := range records {
		put(i, uint64(i))
	}
	var readers sync.WaitGroup
	for round := range uint64(12) {
		p := a.Pin()
		picture := append([]owner(nil), records...)
		readers.Go(func() {
			defer p.Release()
			for i, o := range picture {
				if b := p.Get(o.ref); len(b) != o.n || !matches(b, o.key) {
					t.Errorf("round %d: blob %d changed under the pin", round, i)
					return
				}
			}
		})
		for i := range records {
			if rnd.IntN(2) == 0 {
				a.SetOwner(records[i].ref, uint64(i)|1<<39)
			}
			a.Free(records[i].ref)
			put(i, uint64(i)+round<<32)
		}
	}
	readers.Wait()
	for _, o := range records {
		a.Free(o.ref)
	}
	if a.Held() > (spareMax+1)*chunkSize+spareLarge {
		t.Errorf("emptied: held %d", a.Held())
	}
}

func TestCloseUnderPin(t *testing.T) {
	t.Parallel()
	a := New()
	small, big := []byte("small"), bytes.Repeat([]byte("x"), 3<<20)
	r, s := a.PutBytes(1, small), a.PutBytes(2, big)
	p, q := a.Pin(), a.Pin()
	a.Free(s)
	a.Close()
	p.Release()
	if !bytes.Equal(q.Get(r), small) || !bytes.Equal(q.Get(s), big) {
		t.Error("a pin lost its blobs when the arena was closed")
	}
	q.Release()
	if a.held != 0 || a.chunks != nil {
		t.Error("memory is held after the last pin")
	}
}

func TestPutParts(t *testing.T) {
	a := New()
	defer a.Close()
	parts := [][]byte{[]byte("a"), nil, []byte("bcd"), {}}
	if got := a.Get(a.PutParts(1, parts...)); string(got) != "abcd" {
		t.Errorf("got %q", got)
	}
	if got := a.Get(a.PutParts(1)); len(got) != 0 {
		t.Errorf("got %q for no part", got)
	}
	x, y := make([]byte, 100), make([]byte, 50)
	if n := testing.AllocsPerRun(1000, func() { a.Free(a.PutParts(1, x, y)) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func TestMisuse(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(a *Arena){
		"owner too big": func(a *Arena) { a.Put(MaxOwner+1, 1) },
		"set owner":     func(a *Arena) { a.SetOwner(a.PutBytes(1, nil), MaxOwner+1) },
		"negative":      func(a *Arena) { a.Put(1, -1) },
		"too big":       func(a *Arena) { a.Put(1, MaxBlob+1) },
		"freed twice":   func(a *Arena) { r := a.PutBytes(1, nil); a.Free(r); a.Free(r) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := New()
			defer a.Close()
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f(a)
		})
	}
}

func BenchmarkArena(b *testing.B) {
	body := make([]byte, 256)
	b.Run("put-free", func(b *testing.B) {
		a := New()
		defer a.Close()
		for b.Loop() {
			a.Free(a.PutBytes(1, body))
		}
	})
	b.Run("fifo-100k", func(b *testing.B) { // one in, the oldest out
		a := New()
		defer a.Close()
		ring := make([]Ref, 100_000)
		for i := range ring {
			ring[i] = a.PutBytes(1, body)
		}
		i := 0
		b.ResetTimer()
		for b.Loop() {
			a.Free(ring[i])
			ring[i] = a.PutBytes(1, body)
			if i++; i == len(ring) {
				i = 0
			}
		}
	})
	b.Run("put-fresh", func(b *testing.B) { // memory from the system
		a := New()
		defer a.Close()
		n := 0
		for b.Loop() {
			a.PutBytes(1, body)
			if n++; n == 4_000_000 {
				b.StopTimer()
				a.Close()
				a, n = New(), 0
				b.StartTimer()
			}
		}
	})
	b.Run("large", func(b *testing.B) {
		a := New()
		defer a.Close()
		for b.Loop() {
			r, _ := a.Put(1, 1<<20)
			a.Free(r)
		}
	})
}
