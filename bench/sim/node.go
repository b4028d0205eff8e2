package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/cluster/roster"
	"github.com/quorate/quorate/cluster/store"
	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/transport"
)

// stopWithin bounds a process that is asked to stop, and how long one that has died takes to be cleared away.
const stopWithin = 20 * time.Second

// node is a machine: its disk and its clock stay, processes come and go.
type node struct {
	w     *world
	slot  int
	host  string
	clock *clock
	turn  chan struct{} // holds a token while somebody starts, ends or replaces it

	gen    int                           // of its membership; for who has the turn
	idAt   atomic.Pointer[raft.ServerID] // of this membership, and its raft address
	diskAt atomic.Pointer[disk]

	up      atomic.Pointer[process] // nil: down
	damaged bool                    // what is on its disk must not be started; for who has the turn
	stalled atomic.Int64            // Unix ns until when its disk or its network was made to stand still, for the watchdog
}

// process is one life of a node.
type process struct {
	n     *node
	id    raft.ServerID
	disk  *disk
	halt  *store.Halt
	post  *post
	group *group.Group
	doors *transport.Server
	lis   *listener
	dead  atomic.Bool
	ended chan struct{} // closed when it has ended by itself
	fatal atomic.Pointer[error]
	wants atomic.Bool // it has been given a reason to end by itself
}

func (n *node) addr() string { return n.host + ":7340" }

// dial is how the process reaches another node's door, to send requests on, as long as it lives.
func (p *process) dial(ctx context.Context, addr string) (net.Conn, error) {
	if p.dead.Load() {
		return nil, errGone
	}
	return p.n.w.net.dial(ctx, p.n.host, addr)
}

func (n *node) id() raft.ServerID { return *n.idAt.Load() }
func (n *node) disk() *disk       { return n.diskAt.Load() }

func (n *node) take()    { n.turn <- struct{}{} }
func (n *node) release() { <-n.turn }

// rename gives the node its next membership.
func (n *node) rename() {
	n.gen++
	id := raft.ServerID(fmt.Sprintf("%s.%d", n.host, n.gen))
	n.idAt.Store(&id)
}

// wanted is why a process that was given a reason to end by itself does not start.
type wanted struct{ error }

// start begins a process on what the disk has. The turn is held.
func (n *node) start() error {
	w := n.w
	p := &process{n: n, id: n.id(), disk: n.disk(), ended: make(chan struct{})}
	p.halt = store.NewHalt(p.end)
	files := snaps{n.disk()}
	if newest, _ := files.newest(); newest > 0 && p.disk.end() > newest {
		w.count("started from a snapshot and what follows it")
	}
	w.rises(n)
	log := store.NewLog(n.disk(), p.halt, store.LogOptions{File: n.host + "/log", Floor: files.newest})
	p.post = newPost(p)
	cfg := group.Config{
		LocalID: n.id(), Clock: n.clock, Snapshots: files, Transport: p.post,
		Logs:       logs{log, p},
		Stable:     stable{store.NewStable(n.disk(), p.halt, n.host+"/stable"), p},
		ClientAddr: w.clientAddr,
		Digests:    w.digests,
		Fatal:      p.end,
		Failed:     p.halt.Tripped(),
		Tap:        func(index, term uint64, data []byte) { w.applied(p, index, term, data) },
		Raft: func(c *raft.Config) {
			e := time.Duration(w.plan.Raft) * time.Millisecond
			c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = e, e, e
			c.CommitTimeout = e / 4
			if w.plan.Batch > 0 {
				c.MaxAppendEntries = w.plan.Batch
			}
		},
		Limits: group.Limits{SnapshotBytes: w.plan.Snap, TrailingBytes: w.plan.Snap / 2},
	}
	if w.plan.NoCache {
		cfg.Limits.CacheBytes = 1
	}
	type opened struct {
		g   *group.Group
		err error
	}
	// As a node of the product: what is damaged shows itself in calls that do not return, or in a panic of raft's.
	done := make(chan opened, 1)
	go func() {
		defer func() {
			if v := recover(); v != nil {
				done <- opened{err: fmt.Errorf("start raft: %v", v)}
			}
		}()
		end := n.disk().end()
		if err := log.Settle(); err != nil {
			done <- opened{err: err}
			return
		}
		if n.disk().end() < end {
			w.count("log of a cut off install dropped")
		}
		g, err := group.New(cfg)
		n.disk().busy(8, 1000) // raft goes on meanwhile, and may end the process before it is up
		done <- opened{g, err}
	}()
	var o opened
	select {
	case o = <-done:
	case <-p.halt.Tripped():
		p.halt.Release()
		o = <-done
	}
	p.group = o.g
	if err := errors.Join(p.halt.Err(), o.err); err != nil {
		p.dead.Store(true)
		w.falls(n)
		_ = p.post.Close()
		p.halt.Release()
		if o.g != nil {
			w.graves.Go(func() { p.bury() })
		}
		if p.wants.Load() {
			return wanted{err}
		}
		return err
	}
	doors, err := transport.New(transport.Config{Broker: broker{transport.NodeBroker(hosted{n, p}), n}, Version: "sim", Dial: p.dial})
	if err != nil {
		return err
	}
	p.doors, p.lis = doors, w.net.listen(n.addr())
	w.graves.Go(func() {
		if err := doors.Serve(p.lis); err != nil && !p.dead.Load() {
			w.blame("%s: doors: %v", n.host, err)
		}
	})
	n.up.Store(p)
	p.halt.Arm()
	w.trace.say("%s runs", n.id())
	return nil
}

// end hears that the process must end.
func (p *process) end(err error) {
	if p.dead.Load() || p.fatal.Swap(&err) != nil {
		return
	}
	close(p.ended)
	p.n.w.graves.Go(func() { p.n.w.endedItself(p, err) })
}

// kill ends the process without a word. power: what its disk was writing is lost. The turn is held.
func (n *node) kill(power bool) {
	p := n.up.Load()
	if p == nil {
		return
	}
	w := n.w
	r := p.group.Raft()
	leads := r.State() == raft.Leader
	if leads && r.LastIndex() > r.CommitIndex() {
		w.count("leader killed with uncommitted entries")
	}
	p.dead.Store(true) // from here on nothing that it does is seen, and then its disk forgets
	n.up.Store(nil)
	_ = p.lis.Close()
	_ = p.post.Close()
	w.net.down(n.host, !power)
	n.diskAt.Store(p.disk.crash(power))
	w.killed(n, leads)
	w.falls(n)
	w.graves.Go(p.bury)
}

// bury ends what is left of a process that nobody hears any more.
func (p *process) bury() {
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	p.halt.Release()
	if p.doors != nil {
		now, cut := context.WithCancel(ctx)
		cut()
		_ = p.doors.Stop(now)
	}
	_ = p.group.Stop(ctx)
}

// stop ends the process in order. The turn is held.
func (n *node) stop() {
	p := n.up.Load()
	if p == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	p.doors.Drain()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		select {
		case <-p.halt.Tripped():
			p.halt.Release()
		case <-ctx.Done():
		}
	}()
	err := errors.Join(p.group.Stop(ctx), p.doors.Stop(ctx))
	if err != nil && p.fatal.Load() == nil && !n.w.shaken(n) {
		n.w.blame("%s: stop: %v", n.host, err)
	}
	cancel()
	<-gone
	p.dead.Store(true)
	n.up.Store(nil)
	n.diskAt.Store(p.disk.crash(false))
	_ = p.post.Close()
	n.w.net.down(n.host, true)
	_ = p.lis.Close()
	p.halt.Release()
	n.w.falls(n)
}

// logs is the product's log store. What it answers to a process that is being buried must not be an error, over which raft would
// panic; nor must it take what is damaged, which the real process would be no more to read: raft panics over a membership that it cannot decode.
type logs struct {
	*store.Log
	p *process
}

func (l logs) StoreLogs(all []*raft.Log) error {
	err := l.Log.StoreLogs(all)
	if err == nil || !l.p.dead.Load() {
		return err
	}
	for _, one := range all {
		if damage := store.Verify(one); damage != nil {
			return damage
		}
	}
	l.p.disk.keep(all)
	return nil
}

func (l logs) StoreLog(one *raft.Log) error { return l.StoreLogs([]*raft.Log{one}) }

func (l logs) GetLog(index uint64, out *raft.Log) error {
	err := l.Log.GetLog(index, out)
	if err != nil && l.p.dead.Load() {
		return l.p.disk.GetLog(index, out)
	}
	return err
}

// stable is the same of the product's stable store.
type stable struct {
	*store.Stable
	p *process
}

func (s stable) Set(key, val []byte) error { return s.unlessDead(s.Stable.Set(key, val)) }

func (s stable) SetUint64(key []byte, v uint64) error {
	return s.unlessDead(s.Stable.SetUint64(key, v))
}

func (s stable) unlessDead(err error) error {
	if s.p.dead.Load() {
		return nil
	}
	return err
}

// hosted is what the doors want of a node: this process, and the machine it is on. There is no gossip: members are those of the plan.
type hosted struct {
	*node
	p *process
}

func (h hosted) Group(uint16) *group.Group { return h.p.group }

func (h hosted) Ready() (bool, string) {
	if h.p.group.Status().Ready {
		return true, ""
	}
	return false, "no leader"
}

func (n *node) Label() string      { return n.host }
func (n *node) Clock() group.Clock { return n.clock }
func (n *node) Cluster() string    { return fmt.Sprintf("%x", clusterID) }

func (n *node) Members(context.Context) (roster.Members, error) {
	m := roster.Members{}
	for _, o := range n.w.nodes {
		m.Nodes = append(m.Nodes, roster.Member{Label: o.host, UUID: string(o.id()), Voter: true, Alive: o.up.Load() != nil, ClientAddr: o.addr()})
	}
	return m, nil
}

var errNotHere = errors.New("the plan alone changes the cluster")

func (n *node) Transfer(context.Context, string) error { return errNotHere }
func (n *node) Remove(context.Context, string) error   { return errNotHere }

// broker is what stands behind the doors: the group, and one who looks at who answers reads.
type broker struct {
	transport.Broker
	n *node
}

func (b broker) Group(number uint16) transport.Group { return watched{b.Broker.Group(number), b.n} }

type watched struct {
	transport.Group
	n *node
}

// Read counts how often a leader that is none any more has refused to answer.
func (g watched) Read(ctx context.Context, stale bool, fn func(*fsm.State)) (group.Stamp, *group.Error) {
	led := g.Status()
	at, err := g.Group.Read(ctx, stale, fn)
	if err != nil && !stale && led.Leader && g.n.w.leadsLater(g.n, led.Term) {
		g.n.w.count("deposed leader refused a read")
	}
	return at, err
}
