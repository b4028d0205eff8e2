package cluster

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/cluster/link"
	"github.com/quorate/quorate/cluster/store"
)

const (
	// tendEvery is the pace of everything a node does about membership when nothing has called for it sooner.
	tendEvery = 250 * time.Millisecond
	// devElection is raft's heartbeat and election timeout of a node in memory, which has nobody to wait for.
	devElection = 50 * time.Millisecond
	// abortWithin bounds the wait for the goroutines of a node that is aborted.
	abortWithin = 10 * time.Second
)

// Node is one member of a cluster, or on its way to be one: its disk, its door to others, its groups.
type Node struct {
	cfg   Config
	log   *slog.Logger
	nonce uint64

	dir    *store.Dir // nil in memory
	halt   *store.Halt
	disk   *store.Disk     // nil in memory
	link   *link.Link      // nil in memory
	trans  *link.Transport // nil in memory
	gossip *gossip         // nil in memory
	peers  *peers
	group  *group.Group
	meters *meters

	memory store.Identity // who this node is without a disk

	ctx     context.Context // ends when the node stops
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	kicked  chan struct{} // holds one wake-up of tend
	started chan struct{} // closed when Start has a node to return

	changes chan struct{} // holds one while somebody changes the membership: see turn
	promise promise

	fatalOnce sync.Once
	failed    atomic.Pointer[error]
	up        atomic.Bool // Start has returned a node
	stopping  atomic.Bool
	removed   atomic.Bool
	rejected  atomic.Pointer[string]    // why a leader did not let this node in
	hasLog    atomic.Bool               // the log had entries at the start, or the node has joined
	foreign   atomic.Pointer[foreigner] // the first node of another cluster that gossip met
	led       atomic.Bool               // there has been a leader since the start
	lowSpace  atomic.Bool               // there is little room on this node's disk
	lowOther  atomic.Pointer[string]    // where this node leads, the label of a voter that has little
	stopOnce  sync.Once
	stopErr   error
	lonely    time.Time // since when there has been no leader; zero: there is one. For tend alone
	redialled time.Time // for tend alone
	saved     time.Time // for tend alone
	announced time.Time // for tend alone
}

// Start starts a node. When it returns the node's doors are open and its group is running; whether it can serve is Ready's
// to tell. ctx bounds the start alone. Stop the node.
func Start(ctx context.Context, cfg Config) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.defaults()
	n := &Node{cfg: cfg, kicked: make(chan struct{}, 1), changes: make(chan struct{}, 1), started: make(chan struct{})}
	n.log = cfg.Logger.With("component", "cluster", "node", cfg.NodeID)
	n.ctx, n.cancel = context.WithCancel(context.Background())
	var seed [8]byte
	_, _ = rand.Read(seed[:]) // never fails
	n.nonce = binary.BigEndian.Uint64(seed[:]) | 1
	n.halt = store.NewHalt(n.fatal)

	var err error
	if cfg.DataDir == "" {
		err = n.startInMemory()
	} else {
		err = n.startOnDisk(ctx)
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.Background(), abortWithin)
		defer cancel()
		if downErr := n.tearDown(ctx, false); downErr != nil {
			n.log.Debug("after a failed start", "err", downErr)
		}
		return nil, err
	}
	n.up.Store(true)
	close(n.started)
	n.halt.Arm()
	n.wg.Go(n.tend)
	if n.dir != nil {
		n.wg.Go(n.watchSpace)
		n.wg.Go(n.watchVoters)
	}
	return n, nil
}

func (n *Node) startInMemory() error {
	n.memory = store.Identity{Format: store.Format, UUID: store.NewUUID(), Label: n.cfg.NodeID, Cluster: store.NewUUID(), Incarnation: 1}
	n.peers = newPeers(n.memory.UUID, "")
	if err := n.startMeters(); err != nil {
		return err
	}
	addr, trans := raft.NewInmemTransport(link.ServerAddress(n.cfg.NodeID, "memory"))
	cfg, err := n.groupConfig(group.Config{
		Logs:      store.NewLog(raft.NewInmemStore(), n.halt, store.LogOptions{File: "the log in memory", Observer: n.meters.stored}),
		Stable:    raft.NewInmemStore(),
		Snapshots: raft.NewInmemSnapshotStore(),
		Transport: trans,
		Raft: func(c *raft.Config) {
			c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = devElection, devElection, devElection/2
			if n.cfg.Raft != nil {
				n.cfg.Raft(c)
			}
		},
	})
	if err != nil {
		return err
	}
	g, err := group.New(cfg)
	if err != nil {
		return err
	}
	n.group = g
	return g.Bootstrap(n.memory.Cluster, []raft.Server{{ID: n.id(), Address: addr}})
}

// startOnDisk opens the data directory, then the doors, then raft, which reads the log.
func (n *Node) startOnDisk(ctx context.Context) (err error) {
	if n.dir, err = store.OpenDir(n.cfg.DataDir, n.cfg.NodeID); err != nil {
		return err
	}
	n.peers = newPeers(n.dir.Identity().UUID, n.cfg.DataDir)
	if err := n.peers.load(); err != nil {
		n.log.Warn("peers will be found by gossip alone", "err", err)
	}
	if err := n.startMeters(); err != nil {
		return err
	}
	// Whatever is damaged shows itself here, in calls that do not return then.
	type opened struct {
		g   *group.Group
		err error
	}
	done := make(chan opened, 1)
	go aside(func() {
		defer func() {
			// raft panics on a log entry that it cannot read at the start.
			if p := recover(); p != nil {
				done <- opened{err: fmt.Errorf("start raft: %v", p)}
			}
		}()
		g, err := n.openGroup()
		done <- opened{g, err}
	})
	var o opened
	select {
	case o = <-done:
	case <-n.halt.Tripped():
		n.halt.Release()
		o = <-done
	}
	n.group = o.g
	if err := n.halt.Err(); err != nil {
		return err
	}
	if o.err != nil {
		return o.err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if n.gossip, err = startGossip(n); err != nil {
		return err
	}
	n.log.Info("node started", "uuid", n.self().UUID, "cluster", n.self().Cluster, "incarnation", n.self().Incarnation,
		"raft", n.link.Addr(), "gossip", n.gossip.addr, "log_store", n.disk.Kind())
	return nil
}

func (n *Node) openGroup() (*group.Group, error) {
	hc := newHCLog(n.cfg.Logger.With("node", n.cfg.NodeID), "raft")
	snaps, err := store.OpenSnapshots(n.dir, n.halt)
	if err != nil {
		return nil, err
	}
	opts := store.LogOptions{Kind: store.Kind(n.cfg.LogStore), Floor: snaps.Newest, Observer: n.meters.stored}
	if n.disk, err = store.OpenDisk(n.dir, n.halt, opts); err != nil {
		return nil, err
	}
	last, err := n.disk.Log.LastIndex()
	if err != nil {
		return nil, err
	}
	snapped, _ := snaps.Newest()
	logged := last > 0 || snapped > 0
	n.hasLog.Store(logged || !n.dir.Identity().Cluster.IsZero())
	begun := n.dir.Identity().Founding && !logged
	if err := n.endFounding(logged); err != nil {
		return nil, err
	}
	if begun { // raft may have noted its first term, and would take that for a cluster: the log is made anew
		if err := n.disk.Close(); err != nil {
			return nil, err
		}
		if n.disk, err = store.OpenDisk(n.dir, n.halt, opts); err != nil {
			return nil, err
		}
	}
	n.link, err = link.Listen(link.Config{
		Addr: n.cfg.RaftAddr, Advertise: n.cfg.RaftAdvertise, Self: n.self, Logger: n.cfg.Logger.With("node", n.cfg.NodeID),
		Serve: n.serve, Seen: n.seen, Missed: n.peers.missed, Unreached: n.peers.unreached, Superseded: n.superseded,
	})
	if err != nil {
		return nil, err
	}
	for _, p := range n.peers.list() {
		n.link.Remember(p.UUID, p.Proved)
	}
	trans, err := n.link.NewTransport(0, n.peers.locate, hc)
	if err != nil {
		return nil, err
	}
	n.trans = trans
	var logs raft.LogStore = n.disk.Log
	if n.cfg.logs != nil {
		logs = n.cfg.logs(n.disk.Log)
	}
	cfg, err := n.groupConfig(group.Config{
		HCLog: hc, Logs: logs, Stable: n.disk.Stable, Snapshots: snaps, Transport: trans, Raft: n.cfg.Raft,
	})
	if err != nil {
		return nil, err
	}
	return group.New(cfg)
}

// groupConfig fills in what is the same on disk and in memory.
func (n *Node) groupConfig(c group.Config) (group.Config, error) {
	c.LocalID = n.id()
	c.Cluster = n.self().Cluster
	c.Logger = n.cfg.Logger.With("node", n.cfg.NodeID)
	c.Clock = n.cfg.Clock
	c.MaxMessageBytes = n.cfg.MaxMessageBytes
	c.Limits.MemoryBytes = n.cfg.MemoryBytes
	c.ClientAddr = n.clientAddr
	c.Digests = n.digests
	c.Fatal = n.fatal
	c.Failed = n.halt.Tripped()
	c.Metrics = n.meters.group
	c.Aside = aside
	return n.tapped(c)
}

// fatal ends the process, once. What fails while the node is being stopped anyway does not.
func (n *Node) fatal(err error) {
	if n.stopping.Load() {
		n.log.Warn("failure while stopping", "err", err)
		return
	}
	n.fatalOnce.Do(func() {
		n.failed.Store(&err)
		n.cfg.Fatal(err)
	})
}

// superseded hears that another process has this node's identity.
func (n *Node) superseded(err error) {
	go n.fatal(fmt.Errorf("this node's identity is in use elsewhere: %w", err))
}

// self is what this node says in handshakes.
func (n *Node) self() link.Self {
	id := n.memory
	if n.dir != nil {
		id = n.dir.Identity()
	}
	return link.Self{Cluster: id.Cluster, UUID: id.UUID, Label: id.Label, Incarnation: id.Incarnation, Nonce: n.nonce}
}

func (n *Node) id() raft.ServerID { return raft.ServerID(n.self().UUID.String()) }

func (n *Node) hasData() bool { return n.hasLog.Load() }

// Group returns a group by its number, nil if this node has no such group. There is group 0.
func (n *Node) Group(number uint16) *group.Group {
	if number != 0 {
		return nil
	}
	return n.group
}

// Label is the node's name in the configuration.
func (n *Node) Label() string { return n.cfg.NodeID }

// UUID is the node's identity for ever.
func (n *Node) UUID() string { return n.self().UUID.String() }

// Cluster is the cluster's id, "" as long as the node belongs to none.
func (n *Node) Cluster() string {
	c := n.self().Cluster
	if c.IsZero() {
		return ""
	}
	return c.String()
}

// RaftAddr is where other nodes reach this one, "" in memory.
func (n *Node) RaftAddr() string {
	if n.link == nil {
		return ""
	}
	return n.link.Addr()
}

// GossipAddr is where the gossip of other nodes reaches this one, "" in memory.
func (n *Node) GossipAddr() string {
	if n.gossip == nil {
		return ""
	}
	return n.gossip.addr
}

// seen hears of each handshake.
func (n *Node) seen(p link.Peer) {
	n.peers.learn(p.UUID, p.Incarnation, func(k *peer) { k.Label, k.Cluster = p.Label, p.Cluster })
}

// kick wakes tend.
func (n *Node) kick() {
	select {
	case n.kicked <- struct{}{}:
	default:
	}
}

// Stop hands leadership away, says good-bye and closes everything; ctx bounds how politely. Where raft has not ended by then, since the disk
// hangs, its error comes back and the data directory stays open and held until the process ends, as it then should. A second call waits for
// the first. A store that has failed is an error.
func (n *Node) Stop(ctx context.Context) error {
	n.stopOnce.Do(func() {
		n.log.Info("node stops")
		n.stopErr = n.tearDown(ctx, true)
	})
	return n.stopErr
}

// Abort ends the node as a crash of its process would, as far as that goes from within: nobody is told anything. For tests.
func (n *Node) Abort() error {
	n.stopOnce.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), abortWithin)
		defer cancel()
		n.stopErr = n.tearDown(ctx, false)
	})
	return n.stopErr
}

// tearDown closes whatever of the node there is, in order: readiness, group, gossip, door, disk. The disk stays as it is, and held, where ctx
// ends before raft does.
func (n *Node) tearDown(ctx context.Context, polite bool) error {
	n.stopping.Store(true)
	n.cancel()
	var errs []error
	if !polite {
		if n.link != nil {
			errs = append(errs, n.link.Close())
		}
		if n.gossip != nil {
			n.gossip.stop(false)
		}
	}
	n.wg.Wait()
	// A store that fails now, or has failed, must not hold up who waits for raft to end.
	down := make(chan struct{})
	var released sync.WaitGroup
	released.Go(func() {
		select {
		case <-n.halt.Tripped():
			n.halt.Release()
		case <-down:
		}
	})
	defer released.Wait()
	defer close(down)
	running := false // raft and its log go on: there was no time to wait for them
	if n.group != nil {
		err := n.group.Stop(ctx)
		running = err != nil && errors.Is(err, ctx.Err())
		if err != nil && !errors.Is(err, context.Canceled) {
			errs = append(errs, err)
		}
	}
	if polite && n.gossip != nil {
		n.gossip.stop(true)
	}
	if n.link != nil {
		errs = append(errs, n.link.Close())
	}
	if n.trans != nil {
		errs = append(errs, n.trans.Close()) // raft closes it only if somebody waits for its shutdown
	}
	n.stopMeters()
	if n.dir != nil && polite {
		if err := n.peers.save(); err != nil {
			n.log.Warn("known peers not saved", "err", err)
		}
	}
	errs = append(errs, n.halt.Err()) // fatal is silent by now
	if running {
		// What they still write is theirs, and the directory is nobody else's: the process ends, and takes both with it.
		return errors.Join(errs...)
	}
	n.halt.Release()
	if n.disk != nil {
		errs = append(errs, n.disk.Close())
	}
	if n.dir != nil {
		errs = append(errs, n.dir.Close())
	}
	return errors.Join(errs...)
}
