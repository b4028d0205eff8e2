package sim

import (
	"context"
	"errors"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/fsm"
)

// clientHosts are where clients are.
var clientHosts = []string{"c1", "c2"}

// between are the edges between two groups of hosts, both ways.
func between(a, b []string) (es []edge) {
	for _, x := range a {
		for _, y := range b {
			if x != y {
				es = append(es, edge{x, y}, edge{y, x})
			}
		}
	}
	return es
}

// hosts are those of all nodes but one; nil: all.
func (w *world) hosts(but *node) (out []string) {
	for _, n := range w.nodes {
		if n != but {
			out = append(out, n.host)
		}
	}
	return out
}

// split is the nodes in two parts, by the bits of a mask.
func (w *world) split(mask int64) (a, b []string) {
	for i, n := range w.nodes {
		if mask>>i&1 == 1 {
			a = append(a, n.host)
		} else {
			b = append(b, n.host)
		}
	}
	return a, b
}

// target is the node that a fault is about.
func (w *world) target(f *Fault) *node {
	if f.Node >= 0 {
		return w.nodes[f.Node]
	}
	if l := w.leader(); l != nil {
		return l.n
	}
	return w.nodes[int(f.At)%len(w.nodes)]
}

// inflict carries out a fault and heals it.
func (w *world) inflict(f *Fault) {
	n := w.target(f)
	w.trace.say("%s: %s for %d ms, %d", f.What, n.host, f.For, f.Arg)
	w.mu.Lock()
	w.faults[f.What]++
	w.mu.Unlock()
	lasts := time.Duration(f.For) * time.Millisecond
	switch f.What {
	case cut:
		w.block(lasts, between([]string{n.host}, w.hosts(n)))
	case isolate:
		w.block(lasts, between([]string{n.host}, append(w.hosts(n), clientHosts...)))
	case deaf, mute:
		var es []edge
		for _, o := range w.hosts(n) {
			if f.What == deaf {
				es = append(es, edge{o, n.host})
			} else {
				es = append(es, edge{n.host, o})
			}
		}
		w.block(lasts, es)
	case halves:
		a, b := w.split(f.Arg)
		w.block(lasts, between(a, b))
	case bridge:
		a, b := w.split(f.Arg)
		without := func(hs []string) []string {
			return slices.DeleteFunc(hs, func(h string) bool { return h == n.host })
		}
		w.block(lasts, between(without(a), without(b)))
	case swizzle:
		w.swizzle(lasts)
	case flap:
		for end := time.Now().Add(lasts); time.Now().Before(end); {
			w.block(time.Duration(20+w.dice.upTo(400))*time.Millisecond, between([]string{n.host}, w.hosts(n)))
			if !w.hold(time.Duration(20+w.dice.upTo(400)) * time.Millisecond) {
				return
			}
		}
	case strand:
		w.block(lasts, between([]string{n.host}, clientHosts))
	case storm:
		heal := w.net.storm()
		defer heal()
		w.hold(lasts)
	case kill, power:
		if f.What == power && f.Arg%2 == 1 {
			w.midWrite(n)
		}
		w.fell(lasts, f.What == power, n)
	case killMost:
		all := slices.Clone(w.nodes)
		at := slices.Index(all, n)
		all[0], all[at] = all[at], all[0]
		w.fell(lasts, true, all[:w.quorum()]...)
	case killAll:
		w.fell(lasts, true, slices.Clone(w.nodes)...)
	case stop:
		n.take()
		n.stop()
		n.release()
		w.hold(lasts)
		w.restart(n)
	case stall:
		w.stand(n, lasts)
	case stallAll:
		for _, o := range w.nodes {
			w.stand(o, lasts)
		}
	case ioError:
		w.breakDisk(n, syscall.EIO, lasts)
	case full:
		w.breakDisk(n, syscall.ENOSPC, lasts)
	case flip:
		w.damage(n)
	case garble:
		w.garble(n)
	case pause:
		w.stand(n, lasts)
		var asked sync.WaitGroup
		asked.Go(func() { w.askDeposed(n, lasts) })
		w.block(lasts, between([]string{n.host}, append(w.hosts(n), clientHosts...)))
		asked.Wait()
	case jump:
		n.clock.jump(f.Arg)
	case rate:
		n.clock.run(f.Arg)
	case transfer:
		if p := w.leader(); p != nil {
			_ = p.group.Raft().LeadershipTransfer().Error() // nobody may be there to take it
		}
	case member:
		w.replace(n)
	case snapshots:
		if p := n.up.Load(); p != nil {
			_ = p.group.Raft().Snapshot().Error() // there may be nothing new
		}
	}
}

func (w *world) block(d time.Duration, es []edge) {
	heal := w.net.block(es...)
	defer heal()
	w.hold(d)
}

// swizzle cuts nodes off one after the other, and has them come back in another order.
func (w *world) swizzle(d time.Duration) {
	order := slices.Clone(w.nodes)
	for i := len(order) - 1; i > 0; i-- {
		j := int(w.dice.upTo(int64(i + 1)))
		order[i], order[j] = order[j], order[i]
	}
	order = order[:1+w.dice.upTo(int64(len(order)))]
	step := d / time.Duration(2*len(order))
	var heals []func()
	for _, n := range order {
		heals = append(heals, w.net.block(between([]string{n.host}, w.hosts(n))...))
		w.hold(step)
	}
	for len(heals) > 0 {
		i := int(w.dice.upTo(int64(len(heals))))
		heals[i]()
		heals = slices.Delete(heals, i, i+1)
		w.hold(step)
	}
}

// fell kills nodes at once and starts them again.
func (w *world) fell(d time.Duration, power bool, nodes ...*node) {
	slices.SortFunc(nodes, func(a, b *node) int { return a.slot - b.slot }) // all take turns in one order
	for _, n := range nodes {
		n.take()
	}
	for _, n := range nodes {
		n.kill(power)
		n.release()
	}
	w.hold(d)
	for _, n := range nodes {
		w.restart(n)
		w.hold(time.Duration(w.dice.upTo(300)) * time.Millisecond)
	}
}

// midWrite waits, for a while, until a node is writing several entries at once, which is when a power cut can tear them apart.
func (w *world) midWrite(n *node) {
	t := time.NewTimer(2 * time.Second)
	defer t.Stop()
	select {
	case <-n.disk().batch():
	case <-t.C:
	case <-w.healed:
	}
}

// stand has a node's disk stand still.
func (w *world) stand(n *node, d time.Duration) {
	n.shake(d)
	n.take()
	n.disk().stall(time.Now().Add(d))
	n.release()
}

// askDeposed asks a leader that is silent, as soon as another one leads: what it answers must hold all that had been applied
// anywhere by then (G14). Clients alone meet such a leader in one run of five.
func (w *world) askDeposed(n *node, within time.Duration) {
	p := n.up.Load()
	if p == nil {
		return
	}
	led := p.group.Status()
	if !led.Leader || !w.until(within, func() bool { return w.leadsLater(n, led.Term) }) {
		return
	}
	known := uint64(0)
	for _, o := range w.nodes {
		if p := o.up.Load(); p != nil {
			if at, err := p.group.Read(context.Background(), true, func(*fsm.State) {}); err == nil {
				known = max(known, at.Index)
			}
		}
	}
	led = p.group.Status()
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	switch at, err := p.group.Read(ctx, false, func(*fsm.State) {}); {
	case err == nil && at.Index < known:
		w.blame("G14: %s answers a read at index %d, and %d had been applied before it was asked", p.id, at.Index, known)
	case err != nil && led.Leader:
		w.count("deposed leader refused a read")
	}
}

// stopWanted is within what a node must have ended that has a reason to.
const stopWanted = 2 * time.Second

// breakDisk has a node's next write fail, upon which it must stop (G17).
func (w *world) breakDisk(n *node, err error, d time.Duration) {
	n.take()
	p := n.up.Load()
	if p != nil {
		p.wants.Store(true)
		p.disk.breakNext("", err)
	}
	n.release()
	if p == nil {
		return
	}
	if !w.until(d, func() bool { return !p.disk.broke().IsZero() || p.dead.Load() }) || p.dead.Load() {
		return // it has written nothing; what it writes later fails then
	}
	if !w.until(stopWanted, func() bool { return p.fatal.Load() != nil || p.dead.Load() }) {
		w.blame("G17: %s goes on after a write has failed with %v", p.id, err)
	}
}

// damage flips a bit on a node's disk while it is down. It must not start (G16), and is replaced.
func (w *world) damage(n *node) {
	select {
	case w.change <- struct{}{}:
	default:
		return // one at a time
	}
	defer func() { <-w.change }()
	n.take()
	n.kill(false)
	what := n.disk().flip()
	n.damaged = what != ""
	if n.damaged {
		w.trace.say("%s: damaged is %s", n.host, what)
		switch err := n.start(); {
		case err == nil:
			w.blame("G16: %s starts, with %s flipped", n.id(), what)
		case errors.As(err, new(wanted)): // an entry came garbled too, and nobody knows which of the two it ended for
			w.trace.say("%s does not start: %v", n.id(), err)
		default:
			w.trace.say("%s does not start: %v", n.id(), err)
			w.count("damage found")
		}
	}
	damaged := n.damaged
	n.release()
	if !damaged {
		w.restart(n)
		return
	}
	w.reenter(n)
}

// garble damages an entry on its way to a node, which must not store it (G16): the disk looks.
func (w *world) garble(n *node) {
	w.net.garble(n.host, func(p *process, m *raft.AppendEntriesRequest) bool {
		l := m.Entries[w.dice.upTo(int64(len(m.Entries)))]
		if len(l.Data) == 0 || len(l.Extensions) == 0 {
			return false
		}
		at := w.dice.upTo(int64(len(l.Data) * 8))
		l.Data[at/8] ^= 1 << (at % 8)
		p.wants.Store(true)
		w.count("entry garbled")
		return true
	})
}

// replace has a node leave, and come back empty as another member.
func (w *world) replace(n *node) {
	select {
	case w.change <- struct{}{}:
	default:
		return
	}
	defer func() { <-w.change }()
	w.reenter(n)
}

// Bounds of a membership change.
const (
	changeWithin = 2 * time.Second  // of raft's, each
	changeMost   = 90 * time.Second // of all tries
	changeLag    = 64               // entries by which a member may be behind that becomes a voter
)

// reenter removes a node from the cluster, empties its disk and brings it in again. The change token is held.
func (w *world) reenter(n *node) {
	old := n.id()
	if !w.asLeader(func(g *group.Group) error {
		return g.Raft().RemoveServer(old, 0, changeWithin).Error()
	}) {
		w.giveUp(n)
		return
	}
	n.take()
	n.kill(true)
	n.rename()
	n.diskAt.Store(n.disk().fresh(n.host))
	n.damaged = false
	err := n.start()
	id := n.id()
	n.release()
	if err != nil {
		w.blame("%s does not start empty: %v", id, err)
		return
	}
	if !w.asLeader(func(g *group.Group) error {
		return g.Raft().AddNonvoter(id, raft.ServerAddress(id), 0, changeWithin).Error()
	}) {
		w.giveUp(n)
		return
	}
	near := func() bool {
		l, p := w.leader(), n.up.Load()
		return l != nil && p != nil && p.group.Status().Applied+changeLag >= l.group.Status().Applied
	}
	if !w.until(changeMost, near) ||
		!w.asLeader(func(g *group.Group) error {
			return g.Raft().AddVoter(id, raft.ServerAddress(id), 0, changeWithin).Error()
		}) {
		w.giveUp(n)
	}
}

// giveUp is for a membership change that found no leader for very long, though faults had ended in between.
func (w *world) giveUp(n *node) {
	w.blame("G7: no leader changed the membership of %s within %v", n.host, changeMost)
}

// asLeader has a leader do something, until it is done or changeMost has passed since faults ended.
func (w *world) asLeader(f func(g *group.Group) error) bool {
	var healed time.Time
	for {
		if p := w.leader(); p != nil && f(p.group) == nil {
			if w.net.parted() {
				w.count("membership change under partition")
			}
			return true
		}
		select {
		case <-w.healed:
			if healed.IsZero() {
				healed = time.Now()
			} else if time.Since(healed) > changeMost {
				return false
			}
		default:
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// carryOut has the plan's faults come at their times, and returns when all are healed.
func (w *world) carryOut() {
	start := time.Now()
	var all sync.WaitGroup
	for i := range w.plan.Faults {
		f := &w.plan.Faults[i]
		time.Sleep(time.Until(start.Add(time.Duration(f.At) * time.Millisecond)))
		all.Go(func() { w.inflict(f) })
	}
	time.Sleep(time.Until(start.Add(time.Duration(w.plan.Millis) * time.Millisecond)))
	w.trace.say("faults end")
	close(w.healed)
	all.Wait()
}
