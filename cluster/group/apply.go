package group

import (
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/raft"
	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/fsm/mutant"
)

// machine is the group as raft sees it: raft.BatchingFSM. Its methods are called by raft's goroutines alone.
type machine struct{ g *Group }

var _ raft.BatchingFSM = machine{}

// Apply applies one entry.
func (m machine) Apply(l *raft.Log) any {
	m.ApplyBatch([]*raft.Log{l})
	return nil
}

// ApplyBatch applies committed entries, completes what this leader had proposed in them, deals out what they leased, and
// wakes each connection once.
func (m machine) ApplyBatch(logs []*raft.Log) []any {
	g := m.g
	if g.behind(logs[len(logs)-1].Index) {
		g.cfg.Aside(func() { g.applyAll(logs) })
	} else {
		g.applyAll(logs)
	}
	g.flushes.flush()
	g.kick() // room in flight, credit, releases, a tick
	for len(g.responses) < len(logs) {
		g.responses = append(g.responses, nil)
	}
	return g.responses[:len(logs)]
}

// behindBy is how many entries a follower lacks that leaves the CPU to others until it has caught up; behindFor is for how long
// after its start it does so: where the CPU is never free it is not to stay behind for ever.
const (
	behindBy  = 64
	behindFor = 30 * time.Second
)

// behind says whether what is committed is far ahead of an entry, here where nobody waits for it.
func (g *Group) behind(index uint64) bool {
	return g.cfg.Aside != nil && g.running.Load() && g.raft.State() != raft.Leader &&
		g.raft.CommitIndex() > index+behindBy && g.clock.Mono() < g.began+behindFor
}

func (g *Group) applyAll(logs []*raft.Log) {
	for _, l := range logs {
		if l.Index > g.ahead.written.Load() && !mutant.AckBeforeCommit {
			g.flushes.flush() // those who have their answers need not wait for it
			if err := g.ahead.Wait(l.Index); err != nil {
				g.fatal(fmt.Errorf("write entry %d of term %d: %w", l.Index, l.Term, err))
			}
		}
		if l.Type == raft.LogCommand && !g.broken.Load() {
			began := g.clock.Mono()
			g.apply(l, began)
			g.metrics.applied(g.clock.Mono() - began)
		}
		if l.Type == raft.LogConfiguration {
			g.members.committed(raft.DecodeConfiguration(l.Data), l.Index)
		}
		g.reached(l.Index)
	}
}

// apply applies one entry, from began on.
func (g *Group) apply(l *raft.Log, began time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.st.Apply(l.Index, l.Data, &g.fx); err != nil {
		g.fatal(fmt.Errorf("apply entry %d of term %d: %w; where a newer quorate has led the cluster, start this node with that version and it goes on from here", l.Index, l.Term, err))
		return
	}
	if g.cfg.Tap != nil {
		g.cfg.Tap(l.Index, l.Term, l.Data)
	}
	g.logBytes.Add(int64(len(l.Data)) + entryOverhead)
	g.logEntries.Add(1)
	since, live := g.made(l)
	g.time.applied(g.fx.Time, l.Term, since, live)
	if n := g.st.SchemaChanges(); n != g.schemasSeen {
		g.schemasSeen = n
		g.schemas.Add(1)
	}
	f := g.flights.match(l.Data)
	if f != nil {
		g.settle(f, began)
	}
	if len(g.fx.Checkpoints) > 0 {
		g.digests.take(l.Index, g.st)
	}
	if !g.serving {
		return
	}
	g.ended()
	if f != nil {
		g.dispatch.repay(f)
		g.flights.recycle(f)
	}
	g.tellCancelled()
	g.wakeTasks()
	g.wakeResults()
	g.wakeDeaths()
	if g.fx.KV {
		g.watchers.wake(nil)
	}
	for _, n := range g.fx.Ready {
		if q := g.dispatch.ready(g.st, n); q != nil {
			g.dispatch.mark(q)
		}
	}
	if due, ok := g.st.NextDue(); ok {
		g.armTimer(due)
	}
	if due, ok := g.st.NextSchedule(); ok {
		g.armTimer(due)
	}
}

// made is a moment at which an entry had been made, on Clock.Mono. live says that it had not been made long before: by this leader, or it
// came from another while it was (arrivals).
func (g *Group) made(l *raft.Log) (since time.Duration, live bool) {
	if at, ok := g.gate.arrivals.of(l.Index, l.Term); ok {
		return at, true
	}
	return g.clock.Mono(), g.running.Load() && g.raft.State() == raft.Leader && g.raft.CurrentTerm() == l.Term
}

// settle completes the proposals of an entry that this leader packed and books its leases. The state lock is held.
func (g *Group) settle(f *flight, began time.Duration) {
	fx, d := &g.fx, &g.dispatch
	if len(fx.OpEnd) != len(f.ops) {
		g.fatal(fmt.Errorf("entry %d was proposed with %d operations and applied with %d", fx.Index, len(f.ops), len(fx.OpEnd)))
		return
	}
	g.refusedSince, g.refusedLast = 0, 0
	g.committedAt = g.clock.Mono()
	g.metrics.committed(g.committedAt - f.packed)
	at := Stamp{Index: fx.Index, Time: fx.Time}
	from := int32(0)
	for i := range f.ops {
		op := &f.ops[i]
		if op.tail { // completed with the first of them
			continue
		}
		last := i
		for last+1 < len(f.ops) && f.ops[last+1].tail {
			last++
		}
		end := fx.OpEnd[last]
		out := fx.Outcomes[from:end:end]
		from = end
		var leases []fsm.Leased
		if len(out) == 1 && out[0].LeaseCount > 0 {
			leases = fx.Leases[out[0].LeaseFrom : out[0].LeaseFrom+out[0].LeaseCount]
		}
		switch op.kind {
		case opDeal:
			if len(leases) > 0 {
				op.found = true
				g.deliver(op.sub, leases)
			} else if c := out[0].Code; c != fsm.OK && c != fsm.NotFound { // again and again, otherwise
				d.block(op.sub, g.clock.Mono())
			}
		case opRelease:
			delete(d.releasing, op.token)
		default:
			p := op.p
			op.p = nil
			if op.kind == opPull && p != nil && len(leases) == 0 && out[0].Code == fsm.OK && !out[0].Replayed && g.waitOn(op.pull) {
				continue
			}
			if len(leases) > 0 && !out[0].Replayed && g.orphaned(p) {
				g.giveBack(leases)
			}
			if p == nil {
				continue // its deadline has passed: completed as unknown
			}
			p.session = nil
			p.Packed, p.Applying = f.packed, began
			done := p.Done
			done.Complete(p, g.st, at, out, leases, nil)
			g.flushes.add(done)
		}
	}
	g.landed(f)
}

// orphaned says whether a pull's leases have nobody to go to: its deadline has passed or its connection has gone.
func (g *Group) orphaned(p *Proposal) bool {
	return p == nil || p.session != nil && p.session.conn == nil
}

// deliver hands leases to their subscription's connection, or gives them back. The state lock is held.
func (g *Group) deliver(sub *subscription, leases []fsm.Leased) {
	d := &g.dispatch
	now := d.subs[sub.consumer] // not sub, if that has ended and perhaps begun anew, with another queue
	if leases[0].Once {
		g.deliverOnce(sub, now, leases)
		return
	}
	if now != nil {
		now.out += int32(len(leases))
		d.appetite(now)
	}
	conn := sub.session.conn
	switch {
	case now != sub:
	case sub.dormant: // undelivered until it is resumed, which gives them back
		g.unstarted(sub, leases)
		return
	case conn != nil && conn.Deliver(sub.consumer.Sub, g.st, leases):
		g.unstarted(sub, leases)
		g.flushes.add(conn)
		g.metrics.delivered(len(leases))
		return
	default:
		d.block(sub, g.clock.Mono())
	}
	g.giveBack(leases)
}

// deliverOnce hands over what is done already: what does not get through is lost. The state lock is held.
func (g *Group) deliverOnce(sub, now *subscription, leases []fsm.Leased) {
	conn := sub.session.conn
	if now != sub || sub.dormant || conn == nil || !conn.Deliver(sub.consumer.Sub, g.st, leases) {
		g.metrics.lost(len(leases))
		return
	}
	for i := range leases {
		sub.add(leases[i].Token)
	}
	g.dispatch.appetite(sub)
	g.flushes.add(conn)
	g.metrics.delivered(len(leases))
}

// giveBack releases leases that reached nobody. What is delivered at most once is lost then. The state lock is held.
func (g *Group) giveBack(leases []fsm.Leased) {
	for i := range leases {
		if leases[i].Once {
			g.metrics.lost(1)
			continue
		}
		g.dispatch.release(leases[i].Token)
	}
}

func (g *Group) unstarted(sub *subscription, leases []fsm.Leased) {
	for i := range leases {
		sub.unstarted[leases[i].Token] = struct{}{}
	}
}

// ended opens the windows of consumers whose leases have ended, and tells those whose leases ran out. The state lock is
// held.
func (g *Group) ended() {
	d := &g.dispatch
	ends := g.fx.Ended
	for i := range ends {
		e := &ends[i]
		if len(d.releasing) > 0 {
			delete(d.releasing, e.Token)
		}
		d.lent.remove(e.Token.Lease)
		sub := d.subs[e.Consumer]
		if sub != nil {
			sub.out--
			if len(sub.unstarted) > 0 {
				delete(sub.unstarted, e.Token)
			}
			d.appetite(sub)
		}
		if !e.Expired {
			continue
		}
		d.gone = append(d.gone, e.Token)
		if i+1 < len(ends) && ends[i+1].Expired && ends[i+1].Consumer == e.Consumer {
			continue
		}
		if conn := d.connOf(e.Consumer); conn != nil {
			conn.LeaseGone(e.Consumer.Sub, d.gone)
			g.flushes.add(conn)
		}
		d.gone = d.gone[:0]
	}
}

// reached notes how far the state has come, for reads that wait for it.
func (g *Group) reached(index uint64) {
	g.applied.Store(index)
	if want := g.wanted.Load(); want != 0 && index >= want {
		select {
		case g.arrived <- struct{}{}:
		default:
		}
	}
}

// Snapshot takes an immutable view; it is written while entries go on being applied.
func (m machine) Snapshot() (raft.FSMSnapshot, error) {
	g := m.g
	if g.broken.Load() {
		return nil, errBroken
	}
	began := g.clock.Mono()
	g.mu.Lock()
	view := g.st.View()
	g.mu.Unlock()
	g.metrics.held(g.clock.Mono() - began)
	return g.newSnapshot(view), nil
}

// Restore replaces the state by a snapshot's, or leaves it as it is and answers an error.
func (m machine) Restore(r io.ReadCloser) error {
	g := m.g
	in := &counted{r: r}
	st, err := fsm.Restore(g.cfg.Number, in)
	if err != nil {
		return fmt.Errorf("restore snapshot: %w", err)
	}
	g.snapshotSize.Store(in.n)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.st.Close()
	g.st = st
	g.schemasSeen = st.SchemaChanges()
	g.schemas.Add(1)
	g.logBytes.Store(0)
	g.logEntries.Store(0)
	g.time.applied(st.Time(), 0, g.clock.Mono(), false)
	g.reached(st.Index())
	g.digests.overtaken()
	return nil
}
