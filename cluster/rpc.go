package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/cluster/link"
	"github.com/quorate/quorate/cluster/store"
)

const (
	// maxFrame bounds a request or answer between nodes; the largest is a prepare with 32 members.
	maxFrame = 16 << 10
	// rpcIdle is how long a connection may wait for its next request, rpcWrite how long an answer may take to leave.
	rpcIdle  = 10 * time.Second
	rpcWrite = 5 * time.Second
	// rpcServe bounds the work on one request.
	rpcServe = 10 * time.Second
	// rpcCall bounds a call that has no deadline of its own.
	rpcCall = 2 * time.Second
	// digestTurn is how long a node holds a question for a digest that it is still hashing: well below rpcCall, so that
	// whoever asks can tell a big state from a dead node, and asks again.
	digestTurn = time.Second
)

// Operations of node RPC, append-only.
const (
	opStatus  = 1
	opJoin    = 2
	opDigest  = 3
	opPrepare = 4
	opAdopt   = 5
)

// Codes of an answer beside "".
const (
	codeNotLeader = "not_leader"
	codeRemoved   = "removed"
	codeRefused   = "refused"
	codeTimeout   = "timeout"
)

// request is one question of a node to another, a CBOR map behind a 4-byte length.
type request struct {
	Op      int              `cbor:"1,keyasint"`
	Join    *announcement    `cbor:"2,keyasint,omitempty"`
	Digest  uint64           `cbor:"3,keyasint,omitempty"`
	Cluster *clusterProposal `cbor:"4,keyasint,omitempty"`
}

// announcement is a node that wants to be a member, or a member that says where it is now.
type announcement struct {
	Raft    string `cbor:"1,keyasint"`
	Gossip  string `cbor:"2,keyasint"`
	Client  string `cbor:"3,keyasint"`
	Version string `cbor:"4,keyasint"`
	Format  int    `cbor:"5,keyasint"` // of the data directory
	Entry   int    `cbor:"6,keyasint"` // newest log entry format it can apply
}

// clusterProposal is a cluster that is to be, or has been, made.
type clusterProposal struct {
	ID      store.UUID   `cbor:"1,keyasint"`
	Members []store.UUID `cbor:"2,keyasint"`
}

// answer is what comes back.
type answer struct {
	Code    string        `cbor:"1,keyasint,omitempty"` // "": done
	Message string        `cbor:"2,keyasint,omitempty"`
	Leader  *place        `cbor:"3,keyasint,omitempty"` // not_leader
	Status  *statusAnswer `cbor:"4,keyasint,omitempty"`
	Cluster store.UUID    `cbor:"5,keyasint,omitempty"` // join
	Digest  []byte        `cbor:"6,keyasint,omitempty"`
}

// place is where a node's node port is.
type place struct {
	UUID store.UUID `cbor:"1,keyasint"`
	Raft string     `cbor:"2,keyasint"`
}

// statusAnswer is a node as it sees itself.
type statusAnswer struct {
	Role    string     `cbor:"1,keyasint"` // leader, follower, candidate
	Term    uint64     `cbor:"2,keyasint"`
	Applied uint64     `cbor:"3,keyasint"` // the newest entry in the state: raft's own are not
	Commit  uint64     `cbor:"4,keyasint"`
	LastLog uint64     `cbor:"5,keyasint"`
	Ready   bool       `cbor:"6,keyasint"`
	Why     string     `cbor:"7,keyasint"`
	HasData bool       `cbor:"8,keyasint"` // it belongs to a cluster or has log entries
	Expect  int        `cbor:"9,keyasint"`
	Leader  store.UUID `cbor:"10,keyasint"`

	Place announcement `cbor:"11,keyasint"`
	Wall  int64        `cbor:"12,keyasint"` // its wall clock, Unix milliseconds

	LowSpace bool   `cbor:"13,keyasint,omitempty"` // there is little room on its disk
	Informed uint64 `cbor:"14,keyasint,omitempty"` // raft has gone through what is committed up to here, its own entries included
}

var rpcDecoder = func() cbor.DecMode {
	m, err := cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden,
		MaxNestedLevels: 8, MaxArrayElements: 64, MaxMapPairs: 64, UTF8: cbor.UTF8RejectInvalid,
	}.DecMode()
	if err != nil {
		panic(err) // the options are constants
	}
	return m
}()

func writeFrame(w io.Writer, v any) error {
	b, err := cbor.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > maxFrame {
		return fmt.Errorf("frame of %d bytes, the limit is %d", len(b), maxFrame)
	}
	out := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(b)), uint32(len(b)))
	_, err = w.Write(append(out, b...))
	return err
}

func readFrame(r io.Reader, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n == 0 || n > maxFrame {
		return fmt.Errorf("frame of %d bytes, want 1 to %d", n, maxFrame)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return err
	}
	return rpcDecoder.Unmarshal(b, v)
}

// serve answers the requests of one connection.
func (n *Node) serve(ctx context.Context, p link.Peer, c net.Conn) {
	select {
	case <-n.started: // the door opens before the log has been read
	case <-ctx.Done():
		return
	}
	for {
		_ = c.SetDeadline(time.Now().Add(rpcIdle))
		var q request
		if err := readFrame(c, &q); err != nil {
			if !errors.Is(err, io.EOF) && ctx.Err() == nil {
				n.log.Debug("node request unreadable", "peer", p.Label, "remote", p.Addr, "err", err)
			}
			return
		}
		ctx, cancel := context.WithTimeout(ctx, rpcServe)
		a := n.handle(ctx, p, &q)
		cancel()
		_ = c.SetDeadline(time.Now().Add(rpcWrite))
		if err := writeFrame(c, a); err != nil {
			return
		}
	}
}

func (n *Node) handle(ctx context.Context, p link.Peer, q *request) *answer {
	// A node that belongs to no cluster may ask who we are and ask to join, and agree on a new cluster with others like it.
	stranger := p.Stranger() || n.self().Cluster.IsZero()
	switch {
	case q.Op == opStatus:
		return &answer{Status: n.status()}
	case q.Op == opJoin && q.Join != nil:
		return n.serveJoin(ctx, p, q.Join)
	case q.Op == opPrepare && q.Cluster != nil:
		return n.servePrepare(p, q.Cluster)
	case q.Op == opAdopt && q.Cluster != nil:
		return n.serveAdopt(p, q.Cluster)
	case stranger:
		return refuse("operation %d is not for a node that belongs to no cluster", q.Op)
	case q.Op == opDigest:
		ctx, cancel := context.WithTimeout(ctx, digestTurn)
		defer cancel()
		d, err := n.group.DigestAt(ctx, q.Digest)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return &answer{Code: codeTimeout, Message: err.Error()}
		case err != nil:
			return refuse("%v", err)
		}
		return &answer{Digest: d[:]}
	default:
		return refuse("operation %d is unknown to version %s", q.Op, n.cfg.Version)
	}
}

func refuse(format string, args ...any) *answer {
	return &answer{Code: codeRefused, Message: fmt.Sprintf(format, args...)}
}

// call asks the node target at addr one thing; a zero target is whoever lives there. An answer with a code is not an error.
func (n *Node) call(ctx context.Context, addr string, target store.UUID, q *request) (*answer, link.Peer, error) {
	ctx, cancel := context.WithTimeout(ctx, rpcCall)
	defer cancel()
	if n.link == nil || addr == "" {
		return nil, link.Peer{}, &group.Error{Code: group.CodeNoLeader, Message: "it is not known where that node is"}
	}
	a, p, err := callOver(ctx, n.link, addr, target, q)
	if err == nil && a.Status != nil {
		n.note(p, a.Status)
	}
	return a, p, err
}

func callOver(ctx context.Context, l *link.Link, addr string, target store.UUID, q *request) (*answer, link.Peer, error) {
	c, p, err := l.Dial(ctx, addr, target, link.KindRPC, 0)
	if err != nil {
		return nil, p, err
	}
	defer c.Close()
	end, _ := ctx.Deadline()
	_ = c.SetDeadline(end)
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := writeFrame(c, q); err != nil {
		return nil, p, fmt.Errorf("ask %s: %w", addr, err)
	}
	var a answer
	if err := readFrame(c, &a); err != nil {
		return nil, p, fmt.Errorf("answer of %s: %w", addr, err)
	}
	return &a, p, nil
}

// ask is call to a node by its UUID, where it was last.
func (n *Node) ask(ctx context.Context, id store.UUID, addr string, q *request) (*answer, error) {
	a, _, err := n.call(ctx, n.peers.where(raft.ServerID(id.String()), addr), id, q)
	return a, err
}
