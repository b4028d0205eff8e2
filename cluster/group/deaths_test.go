package group

import (
	"context"
	"testing"
	"time"

	"github.com/quorate/quorate/fsm"
)

func TestWaitDead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, func(cfg *Config) { cfg.Limits.ResultWaiters = 3 })
		defer c.stop()
		l := c.leader()
		l.do(t, &fsm.CreateQueue{Name: []byte("q"), Options: fsm.QueueOptions{DeadLetterQueue: "d"}})
		l.do(t, &fsm.CreateQueue{Name: []byte("d")})
		s, _, _ := l.attach(t)
		leased := func(queue string) fsm.Token {
			t.Helper()
			one := newOne()
			s.Lease(leaseOp(s, one, queue, 1), queue, fsm.Request{}, time.Minute)
			a := one.wait(t)
			if len(a.got) != 1 {
				t.Fatalf("leased %+v of %s", a, queue)
			}
			return a.got[0].token
		}
		die := func(queue string) { l.do(t, &fsm.Nack{Token: leased(queue), Permanent: true}) }
		if _, err := l.g.WaitDead(t.Context(), "none", -1); err == nil || err.Code != CodeNotFound {
			t.Errorf("no such queue: %v", err)
		}
		type end struct {
			now int64
			err *Error
		}
		ends := make(chan end, 5)
		wait := func(queue string, known int64) {
			go func() {
				now, err := l.g.WaitDead(t.Context(), queue, known)
				ends <- end{now, err}
			}()
			pass(10 * time.Millisecond)
		}
		woken := func(want int64) {
			t.Helper()
			if e := <-ends; e.err != nil || e.now != want {
				t.Fatalf("woken with %d, %v, want %d", e.now, e.err, want)
			}
		}
		still := func(what string) {
			t.Helper()
			pass(10 * time.Millisecond)
			select {
			case e := <-ends:
				t.Fatalf("%s: woken, %+v", what, e)
			default:
			}
		}
		wait("q", -1)
		woken(0) // at once
		wait("q", 0)
		wait("d", 0)
		l.do(t, enqueue("q", "a"))
		l.do(t, &fsm.Ack{Token: leased("q")})
		still("a message that is done")
		l.do(t, enqueue("q", "b"))
		die("q")
		woken(1) // of each: it died in one and came to the other
		woken(1)
		wait("d", 1)
		die("d")
		woken(2)
		wait("d", 2)
		l.do(t, &fsm.PurgeQueue{Name: []byte("d")})
		still("a purge, which nothing came by")
		l.do(t, &fsm.DeleteQueue{Name: []byte("d")})
		if e := <-ends; e.err == nil || e.err.Code != CodeNotFound {
			t.Errorf("deleted: %+v", e)
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if now, err := l.g.WaitDead(ctx, "q", 1); err == nil || err.Code != CodeTimeout || err.Unknown || now != 1 {
			t.Errorf("time-out: %d, %v", now, err)
		}
		for range 4 {
			wait("q", 1)
		}
		if e := <-ends; e.err == nil || e.err.Code != CodeOverloaded {
			t.Errorf("fourth waiter: %+v, want overloaded", e)
		}
		c.cut(l)
		for range 3 {
			if e := <-ends; e.err == nil || e.err.Code != CodeNoLeader && e.err.Code != CodeNotLeader {
				t.Errorf("after leadership: %+v", e)
			}
		}
	})
}
