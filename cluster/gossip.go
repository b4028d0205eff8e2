package cluster

import (
	"errors"
	"fmt"
	"log"
	"net"
	"strconv"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/hashicorp/memberlist"

	"github.com/quorate/quorate/cluster/link"
	"github.com/quorate/quorate/cluster/store"
)

const (
	// leaveWithin is how long a stopping node waits for others to hear of it.
	leaveWithin = time.Second
	// redialEvery is how often a node dials members and join addresses that gossip does not see alive: memberlist forgets
	// the dead, after which neither side would ever dial again.
	redialEvery = 3 * time.Second
	// maxRedials bounds how many are dialled each time; the others have their turn the next times.
	maxRedials = 8
	// maxGossipVersion is how much of the version travels in gossip; the rest is in the status.
	maxGossipVersion = 32
)

// gossip is the membership by gossip. It tells where nodes are and whether they live; it never changes raft's voters.
type gossip struct {
	n    *Node
	ml   *memberlist.Memberlist
	addr string // where others reach it; kept, since memberlist writes to its own node unguarded when that is updated

	redials int // where redial begins the next time: all have their turn. For tend alone
}

// gossipMeta travels with every node, in at most 512 bytes of CBOR.
type gossipMeta struct {
	_           struct{} `cbor:",toarray"`
	UUID        store.UUID
	Incarnation uint64
	Label       string
	Cluster     store.UUID
	Raft        string
	Client      string
	Version     string
	Format      int
	Expect      int
	HasData     bool
}

// foreigner is a node of another cluster that gossip has met.
type foreigner struct {
	label, addr string
	cluster     store.UUID
}

var errNoMeta = errors.New("no node of ours")

func readMeta(b []byte) (m gossipMeta, err error) {
	if err := rpcDecoder.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("%w: %w", errNoMeta, err)
	}
	if m.UUID.IsZero() || m.Incarnation == 0 || checkAddr(m.Raft, false) != nil || len(m.Client) > maxClientAddr {
		return m, fmt.Errorf("%w: its facts are incomplete", errNoMeta)
	}
	return m, link.CheckLabel(m.Label)
}

func startGossip(n *Node) (*gossip, error) {
	g := &gossip{n: n}
	host, port, err := resolve(n.cfg.GossipAddr)
	if err != nil {
		return nil, fmt.Errorf("gossip address: %w", err)
	}
	c := memberlist.DefaultLANConfig()
	id := n.dir.Identity()
	// The name is that of one start: a node that comes back at another address is another name, and never in conflict with
	// what others still believe of the earlier one.
	c.Name = id.UUID.String() + "." + strconv.FormatUint(id.Incarnation, 10)
	c.BindAddr, c.BindPort = host, port
	c.AdvertisePort = port
	if n.cfg.GossipAdvertise != "" {
		if c.AdvertiseAddr, c.AdvertisePort, err = resolve(n.cfg.GossipAdvertise); err != nil {
			return nil, fmt.Errorf("advertised gossip address: %w", err)
		}
	}
	c.TCPTimeout = 3 * time.Second
	c.PushPullInterval = 10 * time.Second
	c.EnableCompression = false
	c.Delegate, c.Events, c.Alive = g, g, g
	c.LogOutput, c.Logger = nil, log.New(lineWriter{n.cfg.Logger.With("component", "gossip")}, "", 0)
	if n.cfg.gossip != nil {
		n.cfg.gossip(c)
	}
	if g.ml, err = memberlist.Create(c); err != nil {
		return nil, fmt.Errorf("gossip on %s: %w", n.cfg.GossipAddr, err)
	}
	l := g.ml.LocalNode()
	g.addr = net.JoinHostPort(l.Addr.String(), strconv.Itoa(int(l.Port)))
	return g, nil
}

// resolve turns host:port into an IP address and a port: memberlist would take a name for every interface there is.
func resolve(s string) (string, int, error) {
	a, err := net.ResolveTCPAddr("tcp", s)
	if err != nil {
		return "", 0, err
	}
	if a.IP == nil {
		return "0.0.0.0", a.Port, nil
	}
	return a.IP.String(), a.Port, nil
}

// stop leaves and shuts down; a node that is not polite just vanishes.
func (g *gossip) stop(polite bool) {
	if polite {
		if err := g.ml.Leave(leaveWithin); err != nil {
			g.n.log.Debug("gossip leave", "err", err)
		}
	}
	if err := g.ml.Shutdown(); err != nil {
		g.n.log.Debug("gossip shutdown", "err", err)
	}
}

// changed tells the others that this node's facts have changed.
func (g *gossip) changed() {
	if err := g.ml.UpdateNode(leaveWithin); err != nil {
		g.n.log.Debug("gossip update", "err", err)
	}
}

// redial joins who is not seen alive: members and known nodes first, then the configured addresses.
func (g *gossip) redial() {
	var targets []string
	alone := true
	for _, p := range g.n.peers.list() {
		if p.Alive {
			alone = false
		} else if p.Gossip != "" {
			targets = append(targets, p.Gossip)
		}
	}
	if alone || g.n.self().Cluster.IsZero() {
		targets = append(append([]string(nil), g.n.cfg.Join...), targets...)
	}
	me := g.addr
	from := g.redials
	g.redials += maxRedials
	for i := range min(len(targets), maxRedials) {
		if g.n.ctx.Err() != nil {
			return
		}
		a := targets[(from+i)%len(targets)]
		if a == me {
			continue
		}
		if _, err := g.ml.Join([]string{a}); err != nil {
			g.n.log.Debug("gossip join", "addr", a, "err", err)
		}
	}
}

// NodeMeta implements memberlist.Delegate.
func (g *gossip) NodeMeta(limit int) []byte {
	n := g.n
	self := n.self()
	b, err := cbor.Marshal(gossipMeta{
		UUID: self.UUID, Incarnation: self.Incarnation, Label: self.Label, Cluster: self.Cluster,
		Raft: n.link.Addr(), Client: n.cfg.ClientAddr, Version: n.cfg.Version[:min(len(n.cfg.Version), maxGossipVersion)], Format: store.Format,
		Expect: n.cfg.BootstrapExpect, HasData: n.hasData(),
	})
	if err != nil || len(b) > limit {
		n.log.Error("this node's facts do not fit into gossip", "bytes", len(b), "limit", limit, "err", err)
		return nil
	}
	return b
}

// NotifyMsg implements memberlist.Delegate; no messages are sent.
func (g *gossip) NotifyMsg([]byte) {}

// GetBroadcasts implements memberlist.Delegate; none.
func (g *gossip) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState implements memberlist.Delegate; none.
func (g *gossip) LocalState(bool) []byte { return nil }

// MergeRemoteState implements memberlist.Delegate; none.
func (g *gossip) MergeRemoteState([]byte, bool) {}

// NotifyAlive implements memberlist.AliveDelegate: nodes of other clusters, and what is no node of ours, are not let in.
func (g *gossip) NotifyAlive(o *memberlist.Node) error {
	m, err := readMeta(o.Meta)
	if err != nil {
		return fmt.Errorf("gossip from %s: %w", o.Address(), err)
	}
	if me := g.n.self().Cluster; !me.IsZero() && !m.Cluster.IsZero() && me != m.Cluster {
		g.n.foreign.CompareAndSwap(nil, &foreigner{m.Label, o.Address(), m.Cluster})
		return fmt.Errorf("gossip from %s: node %s belongs to cluster %s, this node to %s", o.Address(), m.Label, m.Cluster, me)
	}
	return nil
}

func (g *gossip) hear(o *memberlist.Node, alive bool) {
	m, err := readMeta(o.Meta)
	if err != nil {
		return
	}
	g.n.peers.hear(m.UUID, m.Incarnation, func(p *peer) {
		p.Label, p.Cluster, p.Raft, p.Client, p.Version = m.Label, m.Cluster, m.Raft, m.Client, m.Version
		p.Expect, p.HasData, p.Alive, p.Gossip = m.Expect, m.HasData, alive, o.Address()
	})
	g.n.kick()
}

// NotifyJoin implements memberlist.EventDelegate.
func (g *gossip) NotifyJoin(o *memberlist.Node) { g.hear(o, true) }

// NotifyUpdate implements memberlist.EventDelegate.
func (g *gossip) NotifyUpdate(o *memberlist.Node) { g.hear(o, true) }

// NotifyLeave implements memberlist.EventDelegate.
func (g *gossip) NotifyLeave(o *memberlist.Node) { g.hear(o, false) }
