//go:build linux

package netswitch

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Bounds of a pace.
const (
	paceLeast = 10 * time.Millisecond
	paceMost  = time.Minute
)

// cutting says whether an edge is to be cut.
type cutting func(from, to *place) bool

// change does something to the switch, unless it is closed.
func (s *Switch) change(f func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed != nil {
		return s.closed
	}
	f()
	return nil
}

// sever cuts edges, beside those that are cut.
func (s *Switch) sever(bad cutting) error {
	return s.change(func() {
		for e := range s.all {
			if bad(e.from, e.to) {
				e.setCut(true)
			}
		}
	})
}

// move cuts and heals by itself: what next names is cut, and nothing else of what move has cut, for as long as it says, again and again until
// the next move or Heal. The first is in force when move returns.
func (s *Switch) move(next func() (bad cutting, hold time.Duration)) error {
	return s.change(func() {
		s.rest()
		set := func() time.Duration {
			bad, hold := next()
			for e := range s.all {
				e.setMoving(bad(e.from, e.to))
			}
			return hold
		}
		stop, stopped := make(chan struct{}), make(chan struct{})
		timer := time.NewTimer(set())
		go func() {
			defer close(stopped)
			defer timer.Stop()
			for {
				select {
				case <-timer.C:
					timer.Reset(set())
				case <-stop:
					return
				}
			}
		}()
		s.still = func() {
			close(stop)
			<-stopped
			for e := range s.all {
				e.setMoving(false)
			}
		}
	})
}

// rest ends what moves; mu is held.
func (s *Switch) rest() {
	if s.still != nil {
		s.still()
		s.still = nil
	}
}

// node is the place of a node.
func (s *Switch) node(name string) (*place, error) {
	p, err := s.find(name)
	if err == nil && p.index == 0 {
		return nil, fmt.Errorf("%s is no node", name)
	}
	return p, err
}

func (s *Switch) pair(a, b string) (p, q *place, err error) {
	if p, err = s.find(a); err == nil {
		q, err = s.find(b)
	}
	if err == nil && p == q {
		err = fmt.Errorf("%s and %s are one place, want two", a, b)
	}
	return p, q, err
}

// Cut cuts two places off each other.
func (s *Switch) Cut(a, b string) error {
	p, q, err := s.pair(a, b)
	if err != nil {
		return err
	}
	return s.sever(func(from, to *place) bool { return from == p && to == q || from == q && to == p })
}

// CutOneWay drops what one place sends to another.
func (s *Switch) CutOneWay(from, to string) error {
	p, q, err := s.pair(from, to)
	if err != nil {
		return err
	}
	return s.sever(func(from, to *place) bool { return from == p && to == q })
}

// Isolate cuts a node off the other nodes; all: and off the clients.
func (s *Switch) Isolate(node string, all bool) error {
	p, err := s.node(node)
	if err != nil {
		return err
	}
	return s.sever(isolated(p, all))
}

func isolated(p *place, all bool) cutting {
	return func(from, to *place) bool {
		return (from == p || to == p) && (all || from.index > 0 && to.index > 0)
	}
}

// Halves cuts some nodes off the rest of the nodes. Clients reach all.
func (s *Switch) Halves(some []string) error {
	one := make([]bool, len(s.places))
	for _, name := range some {
		p, err := s.node(name)
		if err != nil {
			return err
		}
		one[p.index] = true
	}
	return s.sever(func(from, to *place) bool {
		return from.index > 0 && to.index > 0 && one[from.index] != one[to.index]
	})
}

// Ring lets each node hear a majority of all nodes, itself and those around it in the order, and no two the same one. Where that is an odd
// number, of five nodes or six three, they are its neighbours on both sides; of three nodes it is the one before it alone, so that each pair
// speaks in one direction and no connection works. The order has every node once. Clients reach all.
func (s *Switch) Ring(order []string) error {
	nodes := len(s.places) - 1
	at := make([]int, len(s.places)) // by the place's index, from 1 on; 0: not in the order
	for i, name := range order {
		p, err := s.node(name)
		if err != nil {
			return err
		}
		at[p.index] = i + 1
	}
	if len(order) != nodes || slices.Contains(at[1:], 0) {
		return fmt.Errorf("a ring of %v is not one of all %d nodes, each once", order, nodes)
	}
	others := nodes / 2 // of a majority
	before := (others + 1) / 2
	after := others - before
	return s.sever(func(from, to *place) bool {
		if from.index == 0 || to.index == 0 {
			return false
		}
		ahead := (at[to.index] - at[from.index] + nodes) % nodes
		return ahead > before && nodes-ahead > after
	})
}

// Bridge makes two halves of the other nodes that only this one reaches both of. Clients reach all.
func (s *Switch) Bridge(node string) error {
	p, err := s.node(node)
	if err != nil {
		return err
	}
	var left []*place
	for _, q := range s.places[1:] {
		if q != p && len(left) < (len(s.places)-2)/2 {
			left = append(left, q)
		}
	}
	return s.sever(func(from, to *place) bool {
		return from.index > 0 && to.index > 0 && from != p && to != p && slices.Contains(left, from) != slices.Contains(left, to)
	})
}

func checkPace(low, high time.Duration) error {
	if low < paceLeast || high < low || high > paceMost {
		return fmt.Errorf("the pace is %s to %s, want it to rise, from %s to %s at most", low, high, paceLeast, paceMost)
	}
	return nil
}

// Flap cuts a node off the other nodes and lets it back, each for a time drawn between the two, until Heal.
func (s *Switch) Flap(node string, seed uint64, low, high time.Duration) error {
	p, err := s.node(node)
	if err != nil {
		return err
	}
	if err := checkPace(low, high); err != nil {
		return err
	}
	dice := rand.New(rand.NewPCG(seed, uint64(p.index)))
	off := false
	return s.move(func() (cutting, time.Duration) {
		off = !off
		hold := low + time.Duration(dice.Int64N(int64(high-low)+1))
		if !off {
			return nothing, hold
		}
		return isolated(p, false), hold
	})
}

func nothing(_, _ *place) bool { return false }

// Swizzle cuts off all nodes, clients included, one after the other in a drawn order with a step between two, and brings them back in another
// order, again and again until Heal. (FoundationDB calls it swizzle-clog.)
func (s *Switch) Swizzle(seed uint64, step time.Duration) error {
	if err := checkPace(step, step); err != nil {
		return err
	}
	return s.move(swizzle(seed, len(s.places)-1, step))
}

// swizzle are the steps of one.
func swizzle(seed uint64, nodes int, step time.Duration) func() (cutting, time.Duration) {
	dice := rand.New(rand.NewPCG(seed, 0))
	off := make([]bool, nodes+1) // by the place's index
	var order []int
	return func() (cutting, time.Duration) {
		if len(order) == 0 {
			order = dice.Perm(nodes)
		}
		off[order[0]+1] = !off[order[0]+1]
		order = order[1:]
		return func(from, to *place) bool { return off[from.index] || off[to.index] }, step
	}
}

// Shape sets how bad the way from one place to another is.
func (s *Switch) Shape(from, to string, how Shape) error {
	p, q, err := s.pair(from, to)
	if err != nil {
		return err
	}
	if err := how.Validate(); err != nil {
		return err
	}
	return s.change(func() { s.edges[p.index][q.index].setShape(how) })
}

// ShapeAll sets how bad every way between two places is, each with chances of its own from the seed.
func (s *Switch) ShapeAll(how Shape) error {
	if err := how.Validate(); err != nil {
		return err
	}
	return s.change(func() {
		for e := range s.all {
			e.setShape(how)
		}
	})
}

// Reset ends every TCP connection of a place that has said something here, with a reset to both ends, through cuts and bad edges. It returns
// when those are sent; an end that said something meanwhile gets another.
func (s *Switch) Reset(name string) error {
	p, err := s.find(name)
	if err != nil {
		return err
	}
	return s.change(func() {
		for _, packet := range s.flows.doom(p.addr) {
			_, to, _ := ends(packet)
			s.inject(s.places[to[3]-1], packet)
		}
	})
}

// Heal ends every cut and makes every edge a good one. What is under way comes when it is due.
func (s *Switch) Heal() error {
	return s.change(func() {
		s.rest()
		for e := range s.all {
			e.setCut(false)
			e.setShape(Shape{})
		}
	})
}
