package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/quorate/quorate/cluster/store"
)

// Defaults of Config.
const (
	defaultHandshake     = 5 * time.Second
	defaultSilence       = 5 * time.Second // a leader whose disk stands still while it reads a snapshot must have time
	defaultConns         = 512
	defaultHandshakes    = 64
	defaultRPCs          = 64
	maxKnown             = 1024
	acceptBackoff        = 50 * time.Millisecond
	streamBacklog        = 16
	refusalWriteDeadline = time.Second
)

// Config of a Link.
type Config struct {
	Addr      string      // to listen on, host:port; port 0 takes a free one
	Advertise string      // what others dial; "": where it listens
	Self      func() Self // what this node says of itself now; called at each handshake
	Logger    *slog.Logger

	// Serve answers the requests of one node RPC connection until it ends; it must obey conn's deadlines. A stranger
	// belongs to no cluster yet. nil refuses RPC.
	Serve func(ctx context.Context, p Peer, conn net.Conn)
	// Seen hears of each peer that has passed a handshake in either direction; it must not block. nil: nobody.
	Seen func(p Peer)
	// Missed hears that another node answered where target was thought to be; it must not block. nil: nobody.
	Missed func(target store.UUID, addr string)
	// Unreached hears that nobody answered at addr, where target was thought to be; it must not block. nil: nobody.
	Unreached func(target store.UUID, addr string)
	// Superseded hears that another process lives under this node's identity; nil: nobody.
	Superseded func(err error)

	Handshake  time.Duration // longest handshake; default 5 s
	Silence    time.Duration // for how long a peer may send nothing within a raft request; default 5 s
	Conns      int           // connections from outside at once; default 512
	Handshakes int           // of them not yet through their handshake; default 64
	RPCs       int           // of them serving node RPC; default 64
}

// Peer is the other side of a connection whose handshake is done.
type Peer struct {
	Self
	Addr string // where the connection comes from, or went to
}

// Stranger tells whether the peer belongs to no cluster yet.
func (p Peer) Stranger() bool { return p.Cluster.IsZero() }

// Link is a node's only door to other nodes: one listener for raft of every group and for node RPC, and the dialer for the
// same. No byte of a connection reaches raft or the RPC decoder before its handshake is done.
type Link struct {
	cfg  Config
	ln   net.Listener
	addr string
	log  *slog.Logger

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu         sync.Mutex
	closed     bool
	conns      map[*conn]struct{}    // both directions
	incoming   int                   // conns from outside
	handshakes int                   // of them in their handshake
	rpcs       int                   // of them serving RPC
	streams    map[uint16]*Stream    // by group
	known      map[store.UUID]sender // the newest process of each node
}

type sender struct {
	incarnation, nonce uint64
}

// conn takes itself off the list when it is closed.
type conn struct {
	net.Conn
	l        *Link
	incoming bool
	once     sync.Once

	// guarded by l.mu
	peer  store.UUID
	as    sender
	shaky bool // handshake not done
	rpc   bool
}

func (c *conn) Close() error {
	c.once.Do(func() {
		c.l.mu.Lock()
		delete(c.l.conns, c)
		if c.incoming {
			c.l.incoming--
		}
		if c.shaky {
			c.l.handshakes--
		}
		if c.rpc {
			c.l.rpcs--
		}
		c.l.mu.Unlock()
	})
	return c.Conn.Close()
}

// Listen opens the door. Close it.
func Listen(cfg Config) (*Link, error) {
	if cfg.Handshake == 0 {
		cfg.Handshake = defaultHandshake
	}
	if cfg.Silence == 0 {
		cfg.Silence = defaultSilence
	}
	if cfg.Conns == 0 {
		cfg.Conns = defaultConns
	}
	if cfg.Handshakes == 0 {
		cfg.Handshakes = defaultHandshakes
	}
	if cfg.RPCs == 0 {
		cfg.RPCs = defaultRPCs
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	ln, err := net.Listen("tcp", cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("listen for other nodes: %w", err)
	}
	l := &Link{
		cfg: cfg, ln: ln, addr: cfg.Advertise, log: cfg.Logger.With("component", "link"),
		conns: map[*conn]struct{}{}, streams: map[uint16]*Stream{}, known: map[store.UUID]sender{},
	}
	if l.addr == "" {
		l.addr = ln.Addr().String()
		if a, ok := ln.Addr().(*net.TCPAddr); !ok || a.IP.IsUnspecified() {
			ln.Close()
			return nil, fmt.Errorf("listen for other nodes: %s is no address that others can dial: set an advertised one", l.addr)
		}
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.wg.Go(l.accept)
	return l, nil
}

// Addr is what others dial.
func (l *Link) Addr() string { return l.addr }

// Close closes the listener and every connection of either direction, and waits for what served them.
func (l *Link) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	open := make([]*conn, 0, len(l.conns))
	for c := range l.conns {
		open = append(open, c)
	}
	l.mu.Unlock()
	l.cancel()
	err := l.ln.Close()
	for _, c := range open {
		_ = c.Close()
	}
	l.wg.Wait()
	return err
}

// Remember takes what an earlier run knew of a peer, so that an older process is refused from the start.
func (l *Link) Remember(id store.UUID, incarnation uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.known[id]; s.incarnation < incarnation {
		l.known[id] = sender{incarnation: incarnation}
	}
}

func (l *Link) accept() {
	for {
		raw, err := l.ln.Accept()
		if err != nil {
			if l.ctx.Err() != nil {
				return
			}
			l.log.Warn("accept failed", "err", err)
			select {
			case <-time.After(acceptBackoff):
				continue
			case <-l.ctx.Done():
				return
			}
		}
		c, ok := l.track(raw, true)
		if !ok {
			// Over the bound a stranger is not worth an answer: it would cost what the bound is to save.
			raw.Close()
			continue
		}
		l.wg.Go(func() { l.greet(c) })
	}
}

func (l *Link) track(raw net.Conn, incoming bool) (*conn, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || incoming && (l.incoming >= l.cfg.Conns || l.handshakes >= l.cfg.Handshakes) {
		return nil, false
	}
	c := &conn{Conn: raw, l: l, incoming: incoming}
	l.conns[c] = struct{}{}
	if incoming {
		l.incoming++
		l.handshakes++
		c.shaky = true
	}
	return c, true
}

// greet does the handshake of a connection from outside and hands it to whom it is for.
func (l *Link) greet(c *conn) {
	keep := false
	defer func() {
		if !keep {
			_ = c.Close()
		}
	}()
	from := c.RemoteAddr().String()
	_ = c.SetDeadline(time.Now().Add(l.cfg.Handshake))
	h, err := readHello(c)
	if err != nil {
		l.log.Warn("refused a connection", "remote", from, "err", err)
		return
	}
	p := Peer{Self: h.self, Addr: from}
	if err := l.admit(c, h); err != nil {
		l.log.Warn("refused a node", "remote", from, "peer", p.Label, "uuid", p.UUID, "err", err)
		_ = c.SetDeadline(time.Now().Add(refusalWriteDeadline))
		_, _ = c.Write(answer{code: err.Code, reason: err.Reason, self: l.cfg.Self()}.append(nil))
		return
	}
	if _, err := c.Write(answer{self: l.cfg.Self()}.append(nil)); err != nil {
		return
	}
	_ = c.SetDeadline(time.Time{})
	if l.cfg.Seen != nil {
		l.cfg.Seen(p)
	}
	if h.kind == KindRaft {
		keep = l.stream(h.group).hand(c)
		return
	}
	l.cfg.Serve(l.ctx, p, c)
}

func refuse(code Code, format string, args ...any) *RefusedError {
	return &RefusedError{Code: code, Reason: fmt.Sprintf(format, args...)}
}

// admit decides on a hello. It marks c as the sender's.
func (l *Link) admit(c *conn, h hello) *RefusedError {
	if h.version != Version {
		return refuse(BadVersion, "this node speaks version %d of the node protocol, you speak %d", Version, h.version)
	}
	me := l.cfg.Self()
	switch {
	case h.self.UUID == me.UUID:
		return refuse(SecondProcess, "this is node %s itself", me.UUID)
	case h.target != me.UUID && !(h.target.IsZero() && h.kind == KindRPC):
		return refuse(WrongTarget, "node %s (%s) lives here, not %s", me.UUID, me.Label, h.target)
	case h.kind == KindRaft && me.Cluster.IsZero():
		return refuse(NotReady, "node %s belongs to no cluster yet", me.Label)
	case h.self.Cluster != me.Cluster && (h.kind == KindRaft || !me.Cluster.IsZero() && !h.self.Cluster.IsZero()):
		return refuse(WrongCluster, "this node belongs to cluster %s, you to %s", me.Cluster, h.self.Cluster)
	case h.kind == KindRaft && l.stream(h.group) == nil:
		return refuse(NoSuchService, "this node has no group %d", h.group)
	case h.kind != KindRaft && (h.kind != KindRPC || l.cfg.Serve == nil):
		return refuse(NoSuchService, "this node serves no %v", h.kind)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.kind == KindRPC && l.rpcs >= l.cfg.RPCs {
		return refuse(Busy, "%d node requests are being served, that is the limit", l.rpcs)
	}
	if err := l.know(h.self); err != nil {
		return err
	}
	c.peer, c.as = h.self.UUID, sender{h.self.Incarnation, h.self.Nonce}
	c.shaky = false
	l.handshakes--
	if h.kind == KindRPC {
		c.rpc = true
		l.rpcs++
	}
	return nil
}

// know compares a peer with the newest process of it; l.mu is held. A newer one takes the older's place and its
// connections end. Who belongs to no cluster yet is not remembered: there is no end to them.
func (l *Link) know(s Self) *RefusedError {
	if s.Cluster.IsZero() {
		return nil
	}
	old, ok := l.known[s.UUID]
	switch {
	case !ok && len(l.known) >= maxKnown:
		return refuse(Busy, "%d nodes are known here, that is the limit", len(l.known))
	case s.Incarnation < old.incarnation:
		return refuse(OldIncarnation, "start %d of node %s has been seen, you are start %d: another process, or a copy of this data directory, runs under the same identity; stop one and empty its directory", old.incarnation, s.UUID, s.Incarnation)
	case s.Incarnation == old.incarnation && old.nonce != 0 && old.nonce != s.Nonce:
		return refuse(SecondProcess, "another process of node %s is connected with the same start number %d: two copies of one data directory run; stop one and empty its directory", s.UUID, s.Incarnation)
	}
	now := sender{s.Incarnation, s.Nonce}
	if now == old {
		return nil
	}
	l.known[s.UUID] = now
	for c := range l.conns {
		if c.peer == s.UUID && c.as != now {
			_ = c.Conn.Close() // whoever serves it closes it properly
		}
	}
	return nil
}

// Dial connects to the node target at addr. A zero target means whoever lives there, for KindRPC alone. The connection is
// closed with the Link. Refusals, of either side, are a RefusedError.
func (l *Link) Dial(caller context.Context, addr string, target store.UUID, kind Kind, group uint16) (net.Conn, Peer, error) {
	ctx, cancel := context.WithTimeout(caller, l.cfg.Handshake)
	defer cancel()
	var d net.Dialer
	raw, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		l.unreached(caller, target, addr)
		return nil, Peer{}, err
	}
	c, ok := l.track(raw, false)
	if !ok {
		raw.Close()
		return nil, Peer{}, net.ErrClosed
	}
	p, err := l.introduce(ctx, c, addr, target, kind, group)
	if err != nil {
		_ = c.Close()
		var r *RefusedError
		if !errors.As(err, &r) {
			l.unreached(caller, target, addr)
		} else if l.cfg.Missed != nil && r.Code == WrongTarget {
			l.cfg.Missed(target, addr)
		}
		return nil, Peer{}, err
	}
	return c, p, nil
}

// unreached tells of an address that did not answer, unless whoever dialled has just given up.
func (l *Link) unreached(caller context.Context, target store.UUID, addr string) {
	if l.cfg.Unreached != nil && l.ctx.Err() == nil && !errors.Is(caller.Err(), context.Canceled) {
		l.cfg.Unreached(target, addr)
	}
}

func (l *Link) introduce(ctx context.Context, c *conn, addr string, target store.UUID, kind Kind, group uint16) (Peer, error) {
	end, _ := ctx.Deadline()
	_ = c.SetDeadline(end)
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	me := l.cfg.Self()
	if _, err := c.Write(hello{version: Version, kind: kind, group: group, target: target, self: me}.append(nil)); err != nil {
		return Peer{}, fmt.Errorf("handshake with %s: %w", addr, err)
	}
	a, err := readAnswer(c)
	var r *RefusedError
	if errors.As(err, &r) {
		r.Addr = addr
		return Peer{}, r
	}
	if err != nil {
		return Peer{}, fmt.Errorf("handshake with %s: %w", addr, err)
	}
	p := Peer{Self: a.self, Addr: addr}
	if a.code != Accepted {
		r := &RefusedError{Code: a.code, Reason: a.reason, Addr: addr}
		if (a.code == OldIncarnation || a.code == SecondProcess) && a.self.UUID != me.UUID && l.cfg.Superseded != nil {
			l.cfg.Superseded(r)
		}
		return p, r
	}
	switch {
	case !target.IsZero() && a.self.UUID != target:
		r = refuse(WrongTarget, "node %s (%s) lives there, not %s", a.self.UUID, a.self.Label, target)
	case kind == KindRaft && a.self.Cluster != me.Cluster:
		r = refuse(WrongCluster, "it belongs to cluster %s, this node to %s", a.self.Cluster, me.Cluster)
	case a.self.UUID.IsZero() || CheckLabel(a.self.Label) != nil:
		r = refuse(Refused, "it does not say who it is")
	default:
		l.mu.Lock()
		if r = l.know(a.self); r == nil {
			c.peer, c.as = a.self.UUID, sender{a.self.Incarnation, a.self.Nonce}
		}
		l.mu.Unlock()
	}
	if r != nil {
		r.Addr = addr
		return Peer{}, r
	}
	if !stop() {
		return Peer{}, ctx.Err()
	}
	_ = c.SetDeadline(time.Time{})
	if l.cfg.Seen != nil {
		l.cfg.Seen(p)
	}
	return p, nil
}
