package transport

import (
	"context"
	"strings"
	"time"

	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/cluster/roster"
	"github.com/quorate/quorate/fsm"
)

// Broker is what the doors need of a node. NodeBroker makes one of a Node; tests put their own behind the doors.
type Broker interface {
	Label() string
	Cluster() string       // 32 hex digits, empty while not known
	Ready() (bool, string) // and why not, or what it cannot serve though it is
	Clock() group.Clock    // the node's; deadlines of proposals are read on it
	Members(ctx context.Context) (roster.Members, error)
	Transfer(ctx context.Context, label string) error
	Remove(ctx context.Context, labelOrUUID string) error
	Group(number uint16) Group
}

// Group is what the doors need of one Raft group; the methods are group.Group's.
type Group interface {
	Status() group.Status
	Propose(ps ...*group.Proposal)
	Read(ctx context.Context, stale bool, fn func(*fsm.State)) (group.Stamp, *group.Error)
	Consumers(queue string) group.Consumers // from within Read's fn
	Attach(session fsm.ID, c group.Conn) (Session, *group.Error)
	WaitTask(ctx context.Context, queue string, task []byte) *group.Error
	WaitResult(ctx context.Context, queue string, after uint64) *group.Error
	WaitDead(ctx context.Context, queue string, known int64) (int64, *group.Error)
	WaitKV(ctx context.Context, after uint64) *group.Error
	SchemaVersion() uint64 // see group.Group
	Verify(ctx context.Context) (uint64, []group.NodeDigest, group.Stamp, *group.Error)
}

// Session is a client session attached to a connection; the methods are group.Session's.
type Session interface {
	Subscribe(sub uint32, queue string, credit int32, leaseMillis int64, worker string, unfinished ...fsm.Token) *group.Error
	Credit(sub uint32, credit int32) *group.Error
	Unsubscribe(sub uint32) *group.Error
	Abandon(sub uint32) *group.Error
	Started(sub uint32, tokens []fsm.Token)
	Settled(ctx context.Context, sub uint32) *group.Error
	Resume(ctx context.Context, sub uint32, queue string, credit int32, leaseMillis int64, worker string, started, held []fsm.Token, unfinished ...fsm.Token) ([]fsm.Token, group.Stamp, *group.Error)
	Lease(p *group.Proposal, queue string, req fsm.Request, wait time.Duration) (end func())
	Detach()
}

// Node is a node as package cluster makes it.
type Node interface {
	Label() string
	Cluster() string // a UUID with dashes, empty while not known
	Ready() (bool, string)
	Clock() group.Clock
	Members(ctx context.Context) (roster.Members, error)
	Transfer(ctx context.Context, label string) error
	Remove(ctx context.Context, labelOrUUID string) error
	Group(number uint16) *group.Group
}

// NodeBroker puts a node behind the doors.
func NodeBroker(n Node) Broker { return nodeBroker{n} }

type nodeBroker struct{ Node }

// Cluster is the node's without dashes, as the protocol has it.
func (b nodeBroker) Cluster() string { return strings.ReplaceAll(b.Node.Cluster(), "-", "") }

func (b nodeBroker) Group(number uint16) Group { return nodeGroup{b.Node.Group(number)} }

type nodeGroup struct{ *group.Group }

func (g nodeGroup) Attach(session fsm.ID, c group.Conn) (Session, *group.Error) {
	s, err := g.Group.Attach(session, c)
	if err != nil {
		return nil, err
	}
	return s, nil
}
