package floor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/cluster/link"
	"github.com/quorate/quorate/cluster/store"
	"github.com/quorate/quorate/fsm"
)

// Member is what the others are told of a node.
type Member struct {
	UUID  store.UUID `json:"uuid"`
	Label string     `json:"label"`
	Raft  string     `json:"raft"` // where its nodes' port is, host:port
}

// Node is one member of a group that keeps a log and nothing else. It is made for one run on an empty directory.
type Node struct {
	dir     *store.Dir
	halt    *store.Halt
	disk    *store.Disk
	link    *link.Link
	trans   *link.Transport
	raft    *raft.Raft
	machine *counter
	members atomic.Pointer[map[raft.ServerID]string] // where each is
}

// maxMembers is how many nodes a group may be told of.
const maxMembers = 9

// Open makes a node in dir, which is empty or does not exist, and opens its port on addr (port 0: a free one). It waits for
// Found. kind is its log store, "" the default. fatal hears of a failed write, after which nothing is answered any more. Close it.
func Open(dir, label string, cluster store.UUID, addr string, kind store.Kind, fatal func(error)) (_ *Node, err error) {
	if left, err := os.ReadDir(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	} else if len(left) > 0 {
		return nil, fmt.Errorf("folder %s of a floor node has %d files, want an empty one", dir, len(left))
	}
	if err := link.CheckLabel(label); err != nil {
		return nil, err
	}
	n := &Node{machine: &counter{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
		}
	}()
	if n.dir, err = store.OpenDir(dir, label); err != nil {
		return nil, err
	}
	id := n.dir.Identity()
	id.Cluster = cluster
	if err := n.dir.Save(id); err != nil {
		return nil, err
	}
	n.halt = store.NewHalt(fatal)
	silent := hclog.New(&hclog.LoggerOptions{Output: io.Discard, Level: hclog.Off})
	snaps, err := store.OpenSnapshots(n.dir, n.halt)
	if err != nil {
		return nil, err
	}
	if n.disk, err = store.OpenDisk(n.dir, n.halt, store.LogOptions{Kind: kind, Floor: snaps.Newest}); err != nil {
		return nil, err
	}
	if n.link, err = link.Listen(link.Config{Addr: addr, Self: n.self}); err != nil {
		return nil, err
	}
	if n.trans, err = n.link.NewTransport(0, n.locate, silent); err != nil {
		return nil, err
	}
	cfg := group.Config{LocalID: raft.ServerID(id.UUID.String())}
	n.machine.log = group.NewAhead(n.disk.Log, 0)
	logs := group.NewLogCache(n.machine.log, group.DefaultCacheBytes)
	n.raft, err = raft.NewRaft(cfg.RaftConfig(), n.machine, logs, n.machine.log.Stable(n.disk.Stable), snaps, n.machine.log.Transport(n.trans))
	if err != nil {
		return nil, fmt.Errorf("start raft: %w", err)
	}
	n.halt.Arm()
	return n, nil
}

func (n *Node) self() link.Self {
	id := n.dir.Identity()
	return link.Self{Cluster: id.Cluster, UUID: id.UUID, Label: id.Label, Incarnation: id.Incarnation, Nonce: 1}
}

func (n *Node) locate(id raft.ServerID) (string, bool) {
	if m := n.members.Load(); m != nil {
		at, ok := (*m)[id]
		return at, ok
	}
	return "", false
}

// Member is this node, for the others.
func (n *Node) Member() Member {
	s := n.self()
	return Member{UUID: s.UUID, Label: s.Label, Raft: n.link.Addr()}
}

// Found makes the group of all its members; each is told the same.
func (n *Node) Found(members []Member) error {
	if len(members) < 1 || len(members) > maxMembers {
		return fmt.Errorf("%d members of a group, want 1 to %d", len(members), maxMembers)
	}
	at := make(map[raft.ServerID]string, len(members))
	var c raft.Configuration
	for _, m := range members {
		id := raft.ServerID(m.UUID.String())
		at[id] = m.Raft
		c.Servers = append(c.Servers, raft.Server{ID: id, Address: link.ServerAddress(m.Label, m.Raft)})
	}
	n.members.Store(&at)
	// The directory was empty: what raft has already it has from members that were told before and have begun to elect.
	if err := n.raft.BootstrapCluster(c).Error(); err != nil && !errors.Is(err, raft.ErrCantBootstrap) {
		return fmt.Errorf("found the group: %w", err)
	}
	return nil
}

// Leads waits until the group has a leader and says whether this node is it: then all that came before is applied. ctx ends
// the wait.
func (n *Node) Leads(ctx context.Context) (bool, error) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if addr, _ := n.raft.LeaderWithID(); addr != "" {
			if n.raft.State() != raft.Leader {
				return false, nil
			}
			return true, n.raft.Barrier(0).Error()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false, fmt.Errorf("the group has no leader: %w", ctx.Err())
		}
	}
}

// Apply proposes an entry that enqueues one message, on the node that leads. The returned function waits until it is on the
// disks of a majority and applied. Apply blocks while as many entries wait as raft takes in at once.
func (n *Node) Apply(body []byte) (wait func() error) {
	f := n.raft.ApplyLog(raft.Log{Data: entry(body)}, 0)
	return func() error {
		if err := f.Error(); err != nil {
			return err
		}
		err, _ := f.Response().(error)
		return err
	}
}

// entry is what a group's proposer would write for one message, but for its time.
func entry(body []byte) []byte {
	const rest = 96 // more than an entry's other fields take
	b := fsm.AppendEntryHeader(make([]byte, 0, len(body)+rest), 1, 0)
	return fsm.AppendOp(b, &fsm.Enqueue{Queue: []byte("bench.floor"), AutoCreate: true,
		Messages: []fsm.Message{{Body: body, Priority: fsm.DefaultPriority}}})
}

// Applied is how many entries the state machine has been given.
func (n *Node) Applied() uint64 { return n.machine.n.Load() }

// Close ends the node. What it wrote stays.
func (n *Node) Close() error {
	var errs []error
	if n.raft != nil {
		errs = append(errs, n.raft.Shutdown().Error())
	}
	if n.machine.log != nil {
		n.machine.log.Close()
	}
	if n.link != nil {
		errs = append(errs, n.link.Close())
	}
	if n.trans != nil {
		errs = append(errs, n.trans.Close())
	}
	if n.halt != nil {
		n.halt.Release()
	}
	if n.disk != nil {
		errs = append(errs, n.disk.Close())
	}
	if n.dir != nil {
		errs = append(errs, n.dir.Close())
	}
	return errors.Join(errs...)
}

// counter is a state machine that counts entries.
type counter struct {
	n   atomic.Uint64
	log *group.Ahead
}

var _ raft.BatchingFSM = (*counter)(nil)

// Apply counts one.
func (c *counter) Apply(l *raft.Log) any { return c.ApplyBatch([]*raft.Log{l})[0] }

// ApplyBatch counts, when entries are on this node's disk; the response is an error where they never will be.
func (c *counter) ApplyBatch(logs []*raft.Log) []any {
	responses := make([]any, len(logs))
	for i, l := range logs {
		if err := c.log.Wait(l.Index); err != nil {
			responses[i] = err
		} else if l.Type == raft.LogCommand {
			c.n.Add(1)
		}
	}
	return responses
}

func (c *counter) Snapshot() (raft.FSMSnapshot, error) {
	return nil, errors.New("a floor node takes no snapshots")
}

func (c *counter) Restore(r io.ReadCloser) error { return r.Close() }
