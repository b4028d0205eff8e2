//go:build linux

package netswitch

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// reaching is who hears whom, by datagrams: "n1>n2".
type reaching struct {
	s     *Switch
	names []string
	socks map[string]*net.UDPConn

	mu    sync.Mutex
	heard map[string]bool // guarded by mu
}

func reachable(t *testing.T, s *Switch, names ...string) *reaching {
	t.Helper()
	r := &reaching{s: s, names: names, socks: map[string]*net.UDPConn{}, heard: map[string]bool{}}
	for _, to := range names {
		c := udp(t, s, to)
		r.socks[to] = c
		go func() {
			buf := make([]byte, 64)
			for {
				n, _, err := c.ReadFrom(buf)
				if err != nil {
					return
				}
				r.mu.Lock()
				r.heard[string(buf[:n])+">"+to] = true
				r.mu.Unlock()
			}
		}()
	}
	return r
}

// check sends a datagram from everybody to everybody and demands that those, and no others, are cut.
func (r *reaching) check(t *testing.T, what string, cut ...string) {
	t.Helper()
	r.mu.Lock()
	clear(r.heard)
	r.mu.Unlock()
	before, want := map[string]Counts{}, map[string]bool{}
	for _, from := range r.names {
		for _, to := range r.names {
			if from == to {
				continue
			}
			before[from+">"+to] = r.s.Counts(from, to)
			if !slices.Contains(cut, from+">"+to) {
				want[from+">"+to] = true
			}
			if _, err := r.socks[from].WriteTo([]byte(from), target(r.s, to)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for edge, b := range before {
		from, to, _ := strings.Cut(edge, ">")
		seen(t, r.s, from, to, b.Seen+1)
		c := r.s.Counts(from, to)
		if dropped := c.Cut > b.Cut; dropped == want[edge] {
			t.Errorf("%s: from %s to %s: dropped %v, want %v", what, from, to, dropped, !want[edge])
		}
	}
	eventually(t, func() string {
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.heard) < len(want) {
			return fmt.Sprintf("%s: heard is %v", what, slices.Sorted(maps.Keys(r.heard)))
		}
		return ""
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if !maps.Equal(r.heard, want) {
		t.Errorf("%s: heard is %v, want %v", what, slices.Sorted(maps.Keys(r.heard)), slices.Sorted(maps.Keys(want)))
	}
}

// both are both directions of pairs "n1 n2".
func both(pairs ...string) (cut []string) {
	for _, p := range pairs {
		a, b, _ := strings.Cut(p, " ")
		cut = append(cut, a+">"+b, b+">"+a)
	}
	return cut
}

// Who hears whom under each fault, and that all hear all when it is healed.
func TestWhoHearsWhom(t *testing.T) {
	type fault struct {
		name string
		do   func(s *Switch) error
		cut  []string
	}
	for _, tc := range []struct {
		nodes  int
		faults []fault
	}{
		{3, []fault{
			{"none", func(*Switch) error { return nil }, nil},
			{"cut", func(s *Switch) error { return s.Cut("n1", "n2") }, both("n1 n2")},
			{"cut off clients", func(s *Switch) error { return s.Cut("clients", "n3") }, both("clients n3")},
			{"one way", func(s *Switch) error { return s.CutOneWay("n1", "n2") }, []string{"n1>n2"}},
			{"the other way", func(s *Switch) error { return s.CutOneWay("n2", "n1") }, []string{"n2>n1"}},
			{"two cuts", func(s *Switch) error {
				return errors.Join(s.CutOneWay("n1", "n2"), s.CutOneWay("n1", "n3"))
			}, []string{"n1>n2", "n1>n3"}},
			{"isolated from nodes", func(s *Switch) error { return s.Isolate("n2", false) }, both("n2 n1", "n2 n3")},
			{"isolated from all", func(s *Switch) error { return s.Isolate("n2", true) }, both("n2 n1", "n2 n3", "n2 clients")},
			{"halves", func(s *Switch) error { return s.Halves([]string{"n3"}) }, both("n3 n1", "n3 n2")},
			{"bridge", func(s *Switch) error { return s.Bridge("n2") }, both("n1 n3")},
			{"ring", func(s *Switch) error { return s.Ring([]string{"n2", "n1", "n3"}) }, []string{"n1>n2", "n3>n1", "n2>n3"}},
			{"swizzle, first step", func(s *Switch) error { return s.Swizzle(1, paceMost) }, nil},
			{"flap, first step", func(s *Switch) error { return s.Flap("n1", 1, paceMost, paceMost) }, both("n1 n2", "n1 n3")},
		}},
		{5, []fault{
			{"halves", func(s *Switch) error { return s.Halves([]string{"n1", "n4"}) },
				both("n1 n2", "n1 n3", "n1 n5", "n4 n2", "n4 n3", "n4 n5")},
			{"bridge", func(s *Switch) error { return s.Bridge("n1") }, both("n2 n4", "n2 n5", "n3 n4", "n3 n5")},
			{"ring", func(s *Switch) error { return s.Ring([]string{"n1", "n2", "n3", "n4", "n5"}) },
				both("n1 n3", "n1 n4", "n2 n4", "n2 n5", "n3 n5")},
		}},
	} {
		t.Run(fmt.Sprint(tc.nodes), func(t *testing.T) {
			s := begin(t, tc.nodes)
			var names []string
			for _, p := range s.places {
				names = append(names, p.name)
			}
			r := reachable(t, s, names...)
			for _, f := range tc.faults {
				if err := f.do(s); err != nil {
					t.Fatalf("%s: %v", f.name, err)
				}
				cut := f.cut
				if strings.HasPrefix(f.name, "swizzle") { // one node is off, clients included: which one is drawn
					for e := range s.all {
						if e.moving {
							cut = append(cut, e.from.name+">"+e.to.name)
						}
					}
					if len(cut) != 2*tc.nodes {
						t.Errorf("a swizzle begins with %v", cut)
					}
				}
				r.check(t, f.name, cut...)
				if err := s.Heal(); err != nil {
					t.Fatal(err)
				}
				r.check(t, f.name+", healed")
			}
		})
	}
}

// A majority of each node, whatever their number, and no two the same.
func TestRingIsOfMajorities(t *testing.T) {
	for nodes := 3; nodes <= 9; nodes++ {
		s := paper(nodes)
		var order []string
		for _, p := range s.places[1:] {
			order = append(order, p.name)
		}
		if err := s.Ring(order); err != nil {
			t.Fatal(err)
		}
		hears := map[string]bool{}
		for _, to := range s.places[1:] {
			var all []string
			for _, from := range s.places[1:] {
				if from == to || !s.edges[from.index][to.index].cut {
					all = append(all, from.name)
				}
			}
			if len(all) != nodes/2+1 {
				t.Errorf("of %d nodes %s hears %v", nodes, to.name, all)
			}
			hears[fmt.Sprint(all)] = true
		}
		if len(hears) != nodes {
			t.Errorf("%d nodes hear %d majorities", nodes, len(hears))
		}
	}
}

// paper is a switch without devices.
func paper(nodes int) *Switch {
	s := &Switch{}
	for i := range nodes + 1 {
		name := Clients
		if i > 0 {
			name = fmt.Sprintf("n%d", i)
		}
		s.places = append(s.places, &place{name: name, index: i})
	}
	for _, from := range s.places {
		var row []*edge
		for _, to := range s.places {
			var e *edge
			if from != to {
				e = &edge{from: from, to: to}
			}
			row = append(row, e)
		}
		s.edges = append(s.edges, row)
	}
	return s
}

// What moves takes every step that it should: a flap cuts and heals in turn, a swizzle brings every node off and back.
func TestMoves(t *testing.T) {
	t.Run("flap", func(t *testing.T) {
		s := paper(3)
		if err := s.Flap("n2", seed(t), paceLeast, 2*paceLeast); err != nil {
			t.Fatal(err)
		}
		for i := range 6 {
			want := i%2 == 0
			eventually(t, func() string {
				e := s.edges[2][1]
				e.mu.Lock()
				defer e.mu.Unlock()
				if e.moving != want {
					return fmt.Sprintf("step %d: cut is %v", i, e.moving)
				}
				return ""
			})
		}
		if err := s.Heal(); err != nil {
			t.Fatal(err)
		}
		for e := range s.all {
			if e.moving {
				t.Errorf("%s>%s is cut when all is healed", e.from.name, e.to.name)
			}
		}
	})
	t.Run("swizzle", func(t *testing.T) {
		const nodes = 4
		steps := func(seed uint64) (all []string) {
			s := paper(nodes)
			// The steps themselves, rather than their times.
			next := swizzle(seed, nodes, time.Second)
			for range 4 * nodes {
				bad, _ := next()
				var off []string
				for _, p := range s.places[1:] {
					if bad(p, s.places[0]) && bad(s.places[0], p) {
						off = append(off, p.name)
					}
				}
				all = append(all, strings.Join(off, " "))
			}
			return all
		}
		seed := seed(t)
		got := steps(seed)
		for i, off := range got {
			want := i%(2*nodes) + 1
			if want > nodes {
				want = 2*nodes - want
			}
			if n := len(strings.Fields(off)); n != want {
				t.Errorf("step %d: %q are off, want %d nodes", i, off, want)
			}
		}
		if !slices.Equal(got, steps(seed)) {
			t.Error("the same seed takes other steps")
		}
	})
}

func TestWrongNames(t *testing.T) {
	s := paper(3)
	for says, err := range map[string]error{
		`no place "n4", only clients, n1, n2, n3`: s.Cut("n1", "n4"),
		"n2 and n2 are one place":                 s.Cut("n2", "n2"),
		"clients is no node":                      s.Isolate(Clients, true),
		`no place "x"`:                            s.Halves([]string{"n1", "x"}),
		"not one of all 3 nodes":                  s.Ring([]string{"n1", "n2", "n2"}),
		`no place "y"`:                            s.Bridge("y"),
		"the pace is 1ms":                         s.Swizzle(1, time.Millisecond),
		"the pace is 1s to 500ms":                 s.Flap("n1", 1, time.Second, time.Second/2),
		"loss is 101":                             s.ShapeAll(Shape{Loss: 101}),
		`no place "z"`:                            s.Reset("z"),
	} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %q", err, says)
		}
	}
	for e := range s.all {
		if e.cut || e.moving {
			t.Errorf("%s>%s is cut by what was refused", e.from.name, e.to.name)
		}
	}
}

// A connection lives through a cut, and what was sent meanwhile comes when it is healed.
func TestCutKeepsConnections(t *testing.T) {
	s := begin(t, 3)
	for _, n := range []string{"n2", "n3"} {
		echo(t, s, n)
	}
	c, other := dial(t, s, "n1", "n2"), dial(t, s, "n1", "n3")
	roundTrip(t, c)
	if err := s.CutOneWay("n2", "n1"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	before := s.Counts("n2", "n1").Cut
	eventually(t, func() string {
		if s.Counts("n2", "n1").Cut == before {
			return "an answer that is dropped"
		}
		return ""
	})
	roundTrip(t, other)
	var timeout net.Error
	if _, err := tryDial(s, "n1", "n2", 100*time.Millisecond); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("dialled through a cut: %v, want a time-out", err)
	}
	if err := s.Heal(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Errorf("after the cut: %v", err)
	}
	roundTrip(t, c)
}
