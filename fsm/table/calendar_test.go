package table

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// calendarModel is a calendar and what it should hold.
type calendarModel struct {
	t    *testing.T
	c    Calendar
	pos  map[int32]int32
	keys map[int32]int64
}

func newCalendarModel(t *testing.T, rank func(int32) uint32) *calendarModel {
	m := &calendarModel{t: t, pos: map[int32]int32{}, keys: map[int32]int64{}}
	m.c = Calendar{
		Less: func(a, b int32) bool { return a > b }, // not the default order
		Rank: rank,
		Moved: func(slot, pos int32) {
			if pos == -1 {
				delete(m.pos, slot)
			} else {
				m.pos[slot] = pos
			}
		},
	}
	return m
}

func (m *calendarModel) push(key int64, slot int32) {
	m.c.Push(key, slot)
	m.keys[slot] = key
}

func (m *calendarModel) remove(slot int32) {
	m.c.Remove(m.pos[slot])
	delete(m.keys, slot)
	if _, there := m.pos[slot]; there {
		m.t.Fatalf("removed slot %d has position %d", slot, m.pos[slot])
	}
}

// sorted is what is there, lowest first.
func (m *calendarModel) sorted() (slots []int32) {
	for s := range m.keys {
		slots = append(slots, s)
	}
	slices.SortFunc(slots, func(a, b int32) int {
		return cmp.Or(cmp.Compare(m.keys[a], m.keys[b]), cmp.Compare(b, a))
	})
	return slots
}

func (m *calendarModel) check() {
	m.t.Helper()
	c := &m.c
	seats := make([]int32, len(c.seats))
	for i, s := range c.seats {
		seats[i] = s.pos
	}
	checkHeap(m.t, &c.near, seats)
	checkHeap(m.t, &c.order, nil)
	if c.Len() != len(m.keys) || len(m.pos) != len(m.keys) {
		m.t.Fatalf("Len %d and %d positions, want %d", c.Len(), len(m.pos), len(m.keys))
	}
	found := 0
	for pos := c.First(); pos != -1; pos = c.After(pos) {
		key, slot := c.At(pos)
		if want, ok := m.keys[slot]; !ok || want != key || m.pos[slot] != pos {
			m.t.Fatalf("slot %d with key %d is at %d, want %d at %d (there: %t)", slot, key, pos, want, m.pos[slot], ok)
		}
		found++
	}
	if found != len(m.keys) {
		m.t.Fatalf("%d slots are walked, want %d", found, len(m.keys))
	}
	room, there := int64(0), 0
	for no := range c.sheets {
		s := &c.sheets[no]
		if len(s.nodes) == 0 {
			continue
		}
		there++
		room += int64(cap(s.nodes))
		least := s.nodes[0]
		for _, n := range s.nodes[1:] {
			if c.before(&n, &least) {
				least = n
			}
		}
		if s.least != least {
			m.t.Fatalf("sheet %d has %+v as its least, want %+v", no, s.least, least)
		}
		if got, ok := c.filled.Find(HashID(1, s.span), func(v int32) bool { return int(v) == no }); ok == s.full {
			m.t.Fatalf("sheet %d is full: %t, and is filled: %t (%d)", no, s.full, ok, got)
		}
		if cap(s.nodes) > sheetFirst && cap(s.nodes) >= 8*len(s.nodes) {
			m.t.Fatalf("sheet %d has room for %d and holds %d", no, cap(s.nodes), len(s.nodes))
		}
	}
	if c.room != room || c.order.Len() != there {
		m.t.Fatalf("room %d and %d sheets in order, want %d and %d", c.room, c.order.Len(), room, there)
	}
	if len(m.keys) == 0 {
		return
	}
	want := m.sorted()[0]
	if k, s, ok := c.Min(); !ok || s != want || k != m.keys[want] {
		m.t.Fatalf("Min %d %d %t, want %d %d", k, s, ok, m.keys[want], want)
	}
}

func TestCalendarModel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		rank func(int32) uint32
		key  func(rnd *rand.Rand, now int64) int64
	}{
		{"near", nil, func(r *rand.Rand, now int64) int64 { return now + r.Int64N(300) }},
		{"one instant", nil, func(*rand.Rand, int64) int64 { return 1 << 40 }},
		{"minutes", nil, func(r *rand.Rand, now int64) int64 { return now + r.Int64N(300_000) }},
		{"minutes, ranks", func(s int32) uint32 { return uint32(60_000-s) >> 3 },
			func(r *rand.Rand, now int64) int64 { return now + r.Int64N(300)*1000 }},
		{"a year", nil, func(r *rand.Rand, now int64) int64 { return now + int64(1)<<r.IntN(35) + r.Int64N(1000) }},
		{"from the far end", nil, func(r *rand.Rand, now int64) int64 { return 1<<45 - now*1000 + r.Int64N(5000) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rnd := newRand(t)
			m := newCalendarModel(t, c.rank)
			const slots = 20_000
			now := int64(1_700_000_000_000)
			for step := range 100_000 {
				s := rnd.Int32N(slots)
				_, in := m.keys[s]
				switch r := rnd.IntN(10); {
				case !in && (step < 50_000 || r < 8):
					m.push(c.key(rnd, now), s)
				case in && r < 3:
					m.remove(s)
				case in && r < 5:
					if key, s, ok := m.c.Min(); ok {
						now = max(now, key)
						m.remove(s)
					}
				}
				if step%4999 == 0 {
					m.check()
				}
			}
			if m.check(); len(m.keys) < 100 {
				t.Fatalf("only %d are left to pop", len(m.keys))
			}
			for _, want := range m.sorted() {
				if _, s, ok := m.c.Min(); !ok || s != want {
					t.Fatalf("Min is slot %d with key %d, want %d with %d", s, m.keys[s], want, m.keys[want])
				}
				m.remove(want)
			}
			if m.check(); m.c.Bytes() > 4096 {
				t.Errorf("an empty calendar holds %d bytes", m.c.Bytes())
			}
		})
	}
}

// What is far off must lie in sheets: a calendar that keeps all in its heap is right, and no better than one.
func TestCalendarKeepsTheFarApart(t *testing.T) {
	t.Parallel()
	rnd := newRand(t)
	var pos Ints
	c := Calendar{Moved: pos.Set}
	const n, second = 400_000, 2000
	for i, nth := range rnd.Perm(n) {
		c.Push(int64(nth)*1000/second, int32(i))
		if c.near.Len() > 4*nearLeast {
			t.Fatalf("the heap holds %d of %d", c.near.Len(), c.Len())
		}
	}
	if per := float64(c.Bytes()) / n; per > 17.5 {
		t.Errorf("a slot takes %.1f bytes, want hardly more than the 16 of its node", per)
	}
	last := int64(-1)
	for c.Len() > 0 {
		key, slot, _ := c.Min()
		if key < last {
			t.Fatalf("key %d after %d", key, last)
		}
		last = key
		c.Remove(pos.Get(slot))
		if c.near.Len() > 4*nearLeast {
			t.Fatalf("the heap holds %d of %d", c.near.Len(), c.Len())
		}
	}
}

// Few slots in wide times must not take a sheet each without bound.
func TestCalendarOfAYear(t *testing.T) {
	t.Parallel()
	rnd := newRand(t)
	var pos Ints
	c := Calendar{Moved: pos.Set}
	const n = 100_000
	for i := range int32(n) {
		c.Push(rnd.Int64N(366*24*3600*1000), i)
	}
	if per := float64(c.Bytes()) / n; per > 40 {
		t.Errorf("a slot takes %.1f bytes in %d sheets", per, c.order.Len())
	}
}

func TestCalendarBadPosition(t *testing.T) {
	t.Parallel()
	var pos Ints
	c := Calendar{Moved: pos.Set}
	c.Push(1, 1)
	for _, at := range []int32{-1, 1, -2, -1 << 31} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Remove(%d): no panic", at)
				}
			}()
			c.Remove(at)
		}()
	}
	if c.Len() != 1 {
		t.Errorf("Len is %d, want 1", c.Len())
	}
}

func BenchmarkCalendar(b *testing.B) {
	const waiting = 1_000_000
	for _, way := range []string{"heap", "calendar"} {
		b.Run(way, func(b *testing.B) { // each popped one comes back a round later, in no order
			var pos Ints
			h, c := Heap{Moved: pos.Set}, Calendar{Moved: pos.Set}
			push, pop := c.Push, func() int32 {
				_, s, _ := c.Min()
				c.Remove(pos.Get(s))
				return s
			}
			if way == "heap" {
				push, pop = h.Push, func() int32 {
					_, s, _ := h.Pop()
					return s
				}
			}
			rnd := rand.New(rand.NewPCG(1, 2))
			for s := range int32(waiting) {
				push(rnd.Int64N(waiting/20), s)
			}
			now := int64(0)
			b.ResetTimer()
			for i := 0; b.Loop(); i++ {
				now = int64(i) / 20
				push(now+waiting/20+rnd.Int64N(waiting/20), pop())
			}
		})
	}
}

func TestCalendarAhead(t *testing.T) {
	t.Parallel()
	var pos Ints
	c := Calendar{Moved: pos.Set}
	if got := c.Ahead(1<<40, 10, nil); len(got) != 0 {
		t.Errorf("an empty calendar has %d ahead", len(got))
	}
	for s := range int32(300) {
		c.Push(int64(s*7919%300), s)
	}
	for _, n := range []int{0, 5, 100, 1000} {
		got := c.Ahead(99, n, []int32{-7})
		if got[0] != -7 || len(got) > 1+min(n, 100) || n > 0 && len(got) == 1 || n == 1000 && len(got) != 101 {
			t.Fatalf("%d of 100 asked for: %v", n, got)
		}
		seen := map[int32]bool{}
		for _, s := range got[1:] {
			if key, _ := c.At(pos.Get(s)); key > 99 || seen[s] {
				t.Errorf("slot %d has key %d, want one of at most 99 (there before: %t)", s, key, seen[s])
			}
			seen[s] = true
		}
	}
}
