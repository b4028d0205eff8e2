package client

import (
	"errors"
	"sync"
	"testing"

	"github.com/quorate/quorate/wire"
)

func TestSubscribe(t *testing.T) {
	f := newFake(t, 1)
	c := open(t, f, Options{})
	f.put("q", numbers(500)...)
	var wg sync.WaitGroup
	wg.Add(500)
	most := 0
	out := 0
	s, err := c.Subscribe(t.Context(), "q", SubscribeOptions{Credit: 20}, func(d *Delivery) {
		out++
		most = max(most, out)
		if err := c.AckAsync(t.Context(), d.Token, AckOptions{}, func(_ Acked, err error) {
			out--
			if err != nil {
				t.Error(err)
			}
			wg.Done()
		}); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if got := f.state("q"); got != "done 500" {
		t.Errorf("state %s", got)
	}
	if most > 20 {
		t.Errorf("%d out at once", most)
	}
	for range 2 {
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if !errors.Is(s.Err(), ErrClosed) {
		t.Errorf("err %v", s.Err())
	}
	c.mu.Lock()
	if len(c.leases) != 0 || len(c.subs) != 0 || c.acks != 0 {
		t.Errorf("left: %d leases, %d subscriptions, %d acks", len(c.leases), len(c.subs), c.acks)
	}
	c.mu.Unlock()
}

// What a subscriber has in hands is resumed; what the cluster took back meanwhile is reported.
func TestSubscribeResumes(t *testing.T) {
	f := newFake(t, 1)
	c := open(t, f, Options{})
	f.put("q", "keep", "lose")
	got := make(chan *Delivery, 10)
	lost := make(chan *Delivery, 10)
	if _, err := c.Subscribe(t.Context(), "q", SubscribeOptions{Credit: 2, OnLost: func(d *Delivery) { lost <- d }},
		func(d *Delivery) { got <- d }); err != nil {
		t.Fatal(err)
	}
	started := func(d *Delivery) {
		t.Helper()
		until(t, "the started frame", func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.msgs[d.Token].sub.started[d.Token]
		})
	}
	keep, lose := <-got, <-got
	started(lose)
	f.do(func() {
		f.leader = -1
		for fc := range f.conns {
			_ = fc.ws.UnderlyingConn().Close()
		}
	})
	until(t, "the connection to be missed", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.conn == nil })
	f.do(func() { f.release(f.msgs[lose.Token]); f.leader = 0 })
	if d := <-lost; d.Token != lose.Token {
		t.Errorf("lost %s", d.Body)
	}
	again := <-got
	if string(again.Body) != "lose" || again.Token == lose.Token {
		t.Errorf("got %s again under token %s", again.Body, again.Token)
	}
	started(again)                                           // or the node would give it back with the connection, and it would be lost indeed
	f.do(func() { f.hook = nth(wire.TypeAck, 1, loseHang) }) // and OnLost must keep quiet of this one
	if a, err := c.Ack(t.Context(), keep.Token, AckOptions{}); err != nil {
		t.Errorf("ack: %+v, %v", a, err)
	}
	select {
	case d := <-lost:
		t.Errorf("told that %s was lost", d.Body)
	default:
	}
}
