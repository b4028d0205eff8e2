package sim

import (
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// Whatever write of raft's fails, and however the process ends then, that is the end of this process alone: raft would panic over some of
// the errors, on goroutines of its own, which would be the end of the test. Nobody else is harmed, and the node comes back.
func TestEveryWriteFails(t *testing.T) {
	transferTo := func(l *process, n *node) {
		_ = l.group.Raft().LeadershipTransferToServer(n.id(), raft.ServerAddress(n.id())).Error() // it may be the one that fails
	}
	barrier := func(l *process) { l.group.Raft().Barrier(time.Second) } // nobody waits for the answer
	writes := []struct {
		name, what string
		leads      bool                                   // the node whose disk fails
		do         func(w *world, l *process, n, o *node) // has it write; o is a follower that is not n
	}{
		{"the term of who asks for a vote", "CurrentTerm", false, func(_ *world, l *process, _, o *node) { transferTo(l, o) }},
		{"the term of its own election", "CurrentTerm", false, func(_ *world, l *process, n, _ *node) { transferTo(l, n) }},
		{"the term of a vote", "LastVoteTerm", false, func(_ *world, l *process, _, o *node) { transferTo(l, o) }},
		{"a vote", "LastVoteCand", false, func(_ *world, l *process, _, o *node) { transferTo(l, o) }},
		{"a vote for itself", "LastVoteCand", false, func(_ *world, l *process, n, _ *node) { transferTo(l, n) }},
		{"a follower's entries", entries, false, func(_ *world, l *process, _, _ *node) { barrier(l) }},
		{"a leader's entries", entries, true, func(_ *world, l *process, _, _ *node) { barrier(l) }},
		{"the truncation of what another leader has overruled", removal, true, func(w *world, l *process, n, o *node) {
			heal := w.net.block(between([]string{n.host}, w.hosts(n))...)
			barrier(l)
			w.until(time.Minute, func() bool { now := w.leader(); return now != nil && now != l })
			barrier(w.leader())
			heal()
		}},
	}
	ends := []struct {
		name string
		end  func(n *node)
	}{
		{"it ends itself", nil},
		{"it is being stopped", (*node).stop},
		{"it is killed", func(n *node) { n.kill(false) }},
		{"its power is gone", func(n *node) { n.kill(true) }},
	}
	for _, wr := range writes {
		for _, e := range ends {
			t.Run(wr.name+", "+e.name, func(t *testing.T) {
				var w *world
				synctest.Test(t, func(t *testing.T) {
					p := Draw(1, time.Minute)
					p.Nodes, p.Raft, p.Faults, p.Net = 3, 1000, nil, Rates{Least: 100, Most: 1000}
					p.Gapless, p.Clocks = make([]bool, 3), make([]Tick, 3)
					w = newWorld(&p)
					defer w.close()
					if err := w.boot(); err != nil {
						t.Fatal(err)
					}
					if !w.converge("all", nil) {
						return
					}
					l := w.leader()
					n, o := l.n, w.nodes[(l.n.slot+1)%3]
					if !wr.leads {
						n, o = o, w.nodes[(l.n.slot+2)%3]
					}
					victim := n.up.Load()
					victim.wants.Store(true)
					victim.disk.breakNext(wr.what, syscall.ENOSPC)
					if e.end != nil {
						n.take() // before it is put away for having ended itself
					}
					w.graves.Go(func() { wr.do(w, l, n, o) })
					if !w.until(time.Minute, func() bool { return !victim.disk.broke().IsZero() }) {
						t.Error("nothing was written that could fail")
					}
					if e.end != nil {
						e.end(n)
						n.release()
						w.restart(n)
					}
					if !w.until(time.Minute, func() bool { now := n.up.Load(); return now != nil && now != victim }) {
						t.Errorf("%s has not come back", n.host)
					}
					w.converge("all", nil)
				})
				for _, wrong := range w.wrong {
					t.Error(wrong)
				}
			})
		}
	}
}
