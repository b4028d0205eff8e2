//go:build linux

package netswitch

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Clients is the place of this process, and so of all clients in it.
const Clients = "clients"

// Bounds of a switch.
const (
	nodesMost = 15
	lifeMost  = 12 * time.Hour
)

// Options of New.
type Options struct {
	Nodes []string      // labels of the places beside Clients, 1 to 15, each once
	Life  time.Duration // after which the switch closes by itself, up to 12 h
}

// Switch is the network. Close it. Its methods may be called from any goroutine.
type Switch struct {
	places []*place  // the clients' first
	edges  [][]*edge // by the places' indexes, from and to; nil from a place to itself
	flows  flows
	life   *time.Timer
	over   chan struct{} // closed by Close
	work   sync.WaitGroup
	strays atomic.Int64
	resets atomic.Int64
	failed atomic.Pointer[error] // the first thing that went wrong while packets were handed on

	mu     sync.Mutex
	closed error  // guarded by mu: why nothing can be done any more
	still  func() // guarded by mu: ends a fault that cuts and heals by itself; nil: there is none
	err    error  // guarded by mu: what Close says
}

// New makes the places and connects all of them, without any fault. This process must be an enclosed one (Enclose).
func New(o Options) (*Switch, error) {
	if err := Ready(); err != nil {
		return nil, err
	}
	if n := len(o.Nodes); n < 1 || n > nodesMost {
		return nil, fmt.Errorf("there are %d nodes, want 1 to %d", n, nodesMost)
	}
	if o.Life <= 0 || o.Life > lifeMost {
		return nil, fmt.Errorf("life is %s, want more than 0 and at most %s", o.Life, lifeMost)
	}
	s := &Switch{over: make(chan struct{})}
	for i, name := range append([]string{Clients}, o.Nodes...) {
		if name == "" || slices.Contains(o.Nodes[:max(i-1, 0)], name) || i > 0 && name == Clients {
			return nil, errors.Join(fmt.Errorf("a node is called %q, want each once, and none %q", name, Clients), s.Close())
		}
		p, err := newPlace(name, i, i == 0)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.places = append(s.places, p)
	}
	for _, from := range s.places {
		row := make([]*edge, len(s.places))
		for _, to := range s.places {
			if from != to {
				e := &edge{from: from, to: to, number: uint64(from.index<<8 | to.index)}
				e.setShape(Shape{})
				row[to.index] = e
			}
		}
		s.edges = append(s.edges, row)
	}
	for _, p := range s.places {
		s.work.Go(func() { s.read(p) })
		s.work.Go(func() { p.post.deliver(s.over) })
	}
	s.mu.Lock() // it may be over at once
	defer s.mu.Unlock()
	s.life = time.AfterFunc(o.Life, func() {
		_ = s.end(fmt.Errorf("the switch has closed after its life of %s", o.Life)) // Close tells
	})
	return s, nil
}

// Close takes the network away, and waits until nothing is handed on any more. Its error is what went wrong while there was one.
func (s *Switch) Close() error { return s.end(errors.New("the switch is closed")) }

func (s *Switch) end(why error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed != nil {
		return s.err
	}
	s.closed = why
	s.rest()
	if s.life != nil {
		s.life.Stop()
	}
	close(s.over)
	var err error
	for _, p := range s.places {
		err = errors.Join(err, p.close())
	}
	s.work.Wait()
	if failed := s.failed.Load(); failed != nil {
		err = errors.Join(*failed, err)
	}
	s.err = err
	return err
}

// read hands on what a place sends, until its device is closed.
func (s *Switch) read(p *place) {
	buf := make([]byte, 1<<16)
	for {
		n, err := p.tun.Read(buf)
		if err != nil {
			if !errors.Is(err, os.ErrClosed) {
				err = fmt.Errorf("read what %s sends: %w", p.name, err)
				s.failed.CompareAndSwap(nil, &err)
			}
			return
		}
		s.forward(p, buf[:n])
	}
}

// forward hands on one packet. IPv6, which hosts speak unasked when a device comes up, multicast, and what is for nobody here is dropped.
func (s *Switch) forward(p *place, packet []byte) {
	from, to, ok := ends(packet)
	i := int(to[3]) - 1
	if !ok || from != p.addr || i < 0 || i >= len(s.places) || s.places[i].addr != to || i == p.index {
		s.strays.Add(1)
		return
	}
	if pass, answer := s.flows.pass(packet); !pass {
		if answer != nil {
			s.inject(p, answer)
		}
		return
	}
	s.edges[p.index][i].carry(packet)
}

// inject hands a place a packet of the switch's own.
func (s *Switch) inject(p *place, packet []byte) {
	if _, err := p.tun.Write(packet); err == nil {
		s.resets.Add(1)
	}
}

// Host is the address of a place.
func (s *Switch) Host(name string) string { return s.must(name).host() }

// Wrap is the program, with its flags, that a program is started under to be at a place: nsenter(1), which becomes the program, process id and
// all.
func (s *Switch) Wrap(name string) []string {
	return []string{"nsenter", fmt.Sprintf("--net=/proc/%d/fd/%d", os.Getpid(), s.must(name).ns.Fd()), "--"}
}

// At calls f on a thread that is at a place: sockets that f itself makes, rather than a goroutine that it starts, are there from then on,
// whoever uses them.
func (s *Switch) At(name string, f func() error) error { return s.must(name).within(f) }

// Counts is what has become of the packets from one place to another.
func (s *Switch) Counts(from, to string) Counts {
	return s.edges[s.must(from).index][s.must(to).index].read()
}

// Total is what has become of all packets between places.
func (s *Switch) Total() (c Counts) {
	for e := range s.all {
		c = c.plus(e.read(), 1)
	}
	return c
}

// Resets is how many resets were sent.
func (s *Switch) Resets() int64 { return s.resets.Load() }

// all yields all edges.
func (s *Switch) all(yield func(*edge) bool) {
	for _, row := range s.edges {
		for _, e := range row {
			if e != nil && !yield(e) {
				return
			}
		}
	}
}

// find is the place of that name.
func (s *Switch) find(name string) (*place, error) {
	for _, p := range s.places {
		if p.name == name {
			return p, nil
		}
	}
	names := make([]string, 0, len(s.places))
	for _, p := range s.places {
		names = append(names, p.name)
	}
	return nil, fmt.Errorf("there is no place %q, only %s", name, strings.Join(names, ", "))
}

// must is find for what has no error to return: a name that is not there is a mistake of whoever wrote the call.
func (s *Switch) must(name string) *place {
	p, err := s.find(name)
	if err != nil {
		panic("netswitch: " + err.Error())
	}
	return p
}
