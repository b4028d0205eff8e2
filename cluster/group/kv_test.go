package group

import (
	"context"
	"testing"
	"time"

	"github.com/quorate/quorate/fsm"
)

// A wait for the KV ends with a change, at once where there has been one, with its context, and with the leader.
func TestWaitKV(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, func(cfg *Config) { cfg.Limits.TaskWaiters = 2 })
		defer c.stop()
		l := c.leader()
		s, cn, _ := l.attach(t)
		must(t, s.Subscribe(1, "q", 10, 0, "w"))
		op := enqueue("q", "one", "two")
		op.Messages[0].Keys = [][]byte{fsm.AppendKVKey(nil, "k")}
		op.Messages[1].Keys = op.Messages[0].Keys
		l.do(t, op)
		got := cn.have(1)
		ends := make(chan *Error, 3)
		for range 3 {
			go func() { ends <- l.g.WaitKV(t.Context(), 0) }()
		}
		if err := <-ends; err == nil || err.Code != CodeOverloaded {
			t.Errorf("third watcher: %v, want overloaded", err)
		}
		l.do(t, &fsm.Nack{Token: got[0].token, Permanent: true})
		for range 2 {
			must(t, <-ends)
		}
		must(t, l.g.WaitKV(t.Context(), 0)) // at once now
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.g.WaitKV(ctx, 1); err == nil || err.Code != CodeTimeout || err.Unknown {
			t.Errorf("time-out: %v", err)
		}
		for range 2 { // the one that was given up left its place
			go func() { ends <- l.g.WaitKV(t.Context(), 1) }()
		}
		pass(50 * time.Millisecond)
		c.cut(l)
		for range 2 {
			if err := <-ends; err == nil || err.Code != CodeNoLeader && err.Code != CodeNotLeader {
				t.Errorf("after leadership: %v", err)
			}
		}
	})
}
