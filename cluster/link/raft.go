package link

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/cluster/store"
)

// Stream is the raft.StreamLayer of one group.
type Stream struct {
	l     *Link
	group uint16
	in    chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *Link) stream(group uint16) *Stream {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.streams[group]
}

// open makes the stream layer of a group; from now on handshakes that name it pass.
func (l *Link) open(group uint16) (*Stream, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.streams[group] != nil {
		return nil, fmt.Errorf("group %d has its stream layer already", group)
	}
	s := &Stream{l: l, group: group, in: make(chan net.Conn, streamBacklog), done: make(chan struct{})}
	l.streams[group] = s
	return s, nil
}

// hand gives a connection to raft; false: nobody takes it.
func (s *Stream) hand(c net.Conn) bool {
	if s == nil {
		return false
	}
	select {
	case s.in <- c:
		return true
	case <-s.done:
	case <-s.l.ctx.Done():
	}
	return false
}

// Accept implements net.Listener.
func (s *Stream) Accept() (net.Conn, error) {
	select {
	case c := <-s.in:
		return &incoming{Conn: c, silence: s.l.cfg.Silence}, nil
	case <-s.done:
	case <-s.l.ctx.Done():
	}
	return nil, net.ErrClosed
}

// Close implements net.Listener: no more connections of this group.
func (s *Stream) Close() error {
	s.once.Do(func() {
		close(s.done)
		s.l.mu.Lock()
		delete(s.l.streams, s.group)
		s.l.mu.Unlock()
	})
	return nil
}

type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }

// Addr implements net.Listener.
func (s *Stream) Addr() net.Addr { return addr(s.l.addr) }

// Dial implements raft.StreamLayer. The address is UUID@host:port, as Transport writes it.
func (s *Stream) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	id, hostPort, ok := strings.Cut(string(address), "@")
	if !ok {
		return nil, fmt.Errorf("dial %s: no node id before the address", address)
	}
	target, err := store.ParseUUID(id)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	ctx, cancel := context.WithTimeout(s.l.ctx, timeout)
	defer cancel()
	c, _, err := s.l.Dial(ctx, hostPort, target, KindRaft, s.group)
	return c, err
}

// ServerAddress is what stands for a node in raft's configuration: its label and where it was last, label@host:port. The
// label makes the configuration the one replicated place that knows which label belongs to which UUID, and lets two nodes
// swap addresses one change at a time.
func ServerAddress(label, hostPort string) raft.ServerAddress {
	return raft.ServerAddress(label + "@" + hostPort)
}

// SplitAddress is ServerAddress undone.
func SplitAddress(a raft.ServerAddress) (label, hostPort string) {
	label, hostPort, _ = strings.Cut(string(a), "@")
	return label, hostPort
}

// RaftPool is how many connections a node keeps to each other node, a group, for the requests to come; more are opened by need and closed
// when they have been used. Votes, heartbeats and entries beside a pipeline want one each at the same time.
const RaftPool = 3

const (
	raftTimeout = 2 * time.Second // InstallSnapshot has this times its 256 KiB pieces
	raftRPCs    = 2
)

// Transport is raft's transport for one group over a Link. Whatever address raft's configuration holds, a node is dialled
// where it was last seen, and by its UUID, which the handshake checks: entries never go to another node that has taken its
// place.
type Transport struct {
	*raft.NetworkTransport
	local  raft.ServerAddress
	locate func(raft.ServerID) (hostPort string, ok bool)
}

// NewTransport opens the transport of a group. locate is asked before each dial; where it knows nothing, the
// configuration's address is taken.
func (l *Link) NewTransport(group uint16, locate func(raft.ServerID) (string, bool), logger hclog.Logger) (*Transport, error) {
	s, err := l.open(group)
	if err != nil {
		return nil, err
	}
	return &Transport{
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream: s, Logger: logger, MaxPool: RaftPool, MaxRPCsInFlight: raftRPCs, Timeout: raftTimeout,
		}),
		local:  ServerAddress(l.cfg.Self().Label, l.addr),
		locate: locate,
	}, nil
}

// target is the pool key and dial string for a node.
func (t *Transport) target(id raft.ServerID, a raft.ServerAddress) raft.ServerAddress {
	hostPort, ok := t.locate(id)
	if !ok {
		_, hostPort = SplitAddress(a)
	}
	return raft.ServerAddress(string(id) + "@" + hostPort)
}

// LocalAddr implements raft.Transport.
func (t *Transport) LocalAddr() raft.ServerAddress { return t.local }

// AppendEntriesPipeline implements raft.Transport.
func (t *Transport) AppendEntriesPipeline(id raft.ServerID, a raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := t.NetworkTransport.AppendEntriesPipeline(id, t.target(id, a))
	if err != nil {
		return nil, err
	}
	return newPipeline(p), nil
}

// AppendEntries implements raft.Transport.
func (t *Transport) AppendEntries(id raft.ServerID, a raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	return t.NetworkTransport.AppendEntries(id, t.target(id, a), args, resp)
}

// RequestVote implements raft.Transport.
func (t *Transport) RequestVote(id raft.ServerID, a raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	return t.NetworkTransport.RequestVote(id, t.target(id, a), args, resp)
}

// RequestPreVote implements raft.WithPreVote.
func (t *Transport) RequestPreVote(id raft.ServerID, a raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return t.NetworkTransport.RequestPreVote(id, t.target(id, a), args, resp)
}

// InstallSnapshot implements raft.Transport.
func (t *Transport) InstallSnapshot(id raft.ServerID, a raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	return t.NetworkTransport.InstallSnapshot(id, t.target(id, a), args, resp, data)
}

// TimeoutNow implements raft.Transport.
func (t *Transport) TimeoutNow(id raft.ServerID, a raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	return t.NetworkTransport.TimeoutNow(id, t.target(id, a), args, resp)
}

// Close ends the transport: pooled connections, the listener's and those that others have opened for the group.
func (t *Transport) Close() error {
	err := t.NetworkTransport.Close()
	t.CloseStreams()
	return err
}
