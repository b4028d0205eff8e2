package transport

import (
	"context"
	"sync"
	"time"

	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/fsm"
)

// fakeBroker stands for a node in tests of the doors alone. Its group completes every operation with success, in one
// place and order, unless a hook says otherwise.
type fakeBroker struct {
	fakeGroup
	ready  bool
	reason string
}

func (b *fakeBroker) Clock() group.Clock    { return realClock{} }
func (b *fakeBroker) Label() string         { return "n1" }
func (b *fakeBroker) Cluster() string       { return "000102030405060708090a0b0c0d0e0f" }
func (b *fakeBroker) Ready() (bool, string) { return b.ready, b.reason }
func (b *fakeBroker) Members(context.Context) (cluster.Members, error) {
	return cluster.Members{}, nil
}
func (b *fakeBroker) Transfer(context.Context, string) error { return b.nodeErr }
func (b *fakeBroker) Remove(context.Context, string) error   { return b.nodeErr }
func (b *fakeBroker) Group(uint16) Group                     { return &b.fakeGroup }

type fakeGroup struct {
	mu      sync.Mutex
	index   uint64                     // guarded by mu
	ops     []fsm.Op                   // guarded by mu: all that were proposed
	refuse  *group.Error               // guarded by mu: what every proposal gets
	refuses func(fsm.Op) *group.Error  // guarded by mu: what some get; nil: none
	held    []*group.Proposal          // guarded by mu: kept instead of completed while hold is set
	hold    bool                       // guarded by mu
	stuck   bool                       // guarded by mu: linearizable reads never end
	outcome func(fsm.Op) []fsm.Outcome // guarded by mu; nil: success
	status  group.Status
	nodeErr error
}

func (g *fakeGroup) Status() group.Status { return g.status }

func (g *fakeGroup) Propose(ps ...*group.Proposal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var flush group.Flusher
	for _, p := range ps {
		e, err := fsm.DecodeEntry(append(fsm.AppendEntryHeader(nil, 0, 0), p.Op...))
		if err != nil {
			panic(err)
		}
		g.ops = append(g.ops, e.Ops...)
		if g.hold {
			g.held = append(g.held, p)
			continue
		}
		flush, _ = p.Done.(group.Flusher)
		if g.refuse != nil {
			p.Done.Complete(p, nil, group.Stamp{}, nil, nil, g.refuse)
			continue
		}
		if g.refuses != nil {
			if err := g.refuses(e.Ops[0]); err != nil {
				p.Done.Complete(p, nil, group.Stamp{}, nil, nil, err)
				continue
			}
		}
		g.index++
		var out []fsm.Outcome
		if g.outcome != nil {
			out = g.outcome(e.Ops[0])
		}
		if out == nil {
			out = success(e.Ops[0], g.index)
		}
		p.Done.Complete(p, nil, group.Stamp{Index: g.index, Time: 1000}, out, nil, nil)
	}
	if flush != nil {
		flush.Flush()
	}
}

func success(op fsm.Op, index uint64) []fsm.Outcome {
	n := 1
	if keyed, ok := op.(*fsm.Idempotent); ok {
		op = keyed.Op
	}
	switch op := op.(type) {
	case *fsm.Enqueue:
		n = len(op.Messages)
	case *fsm.DeadDelete:
		n = len(op.IDs)
	}
	out := make([]fsm.Outcome, n)
	for i := range out {
		out[i].ID = fsm.MakeID(1, 0, index, uint32(i))
	}
	return out
}

func (g *fakeGroup) Read(ctx context.Context, stale bool, fn func(*fsm.State)) (group.Stamp, *group.Error) {
	g.mu.Lock()
	stuck := g.stuck
	g.mu.Unlock()
	if stuck && !stale {
		<-ctx.Done()
		return group.Stamp{}, &group.Error{Code: "timeout", Message: "no majority"}
	}
	st := fsm.New(0)
	defer st.Close()
	fn(st)
	return group.Stamp{Index: 1, Time: 1000}, nil
}

func (g *fakeGroup) SchemaVersion() uint64 { return 0 }

func (g *fakeGroup) Consumers(string) group.Consumers { return group.Consumers{} }

func (g *fakeGroup) Attach(fsm.ID, group.Conn) (Session, *group.Error) { return &fakeSession{}, nil }

func (g *fakeGroup) WaitTask(ctx context.Context, _ string, _ []byte) *group.Error {
	<-ctx.Done()
	return &group.Error{Code: "timeout", Message: "nothing ends here"}
}

func (g *fakeGroup) WaitResult(ctx context.Context, _ string, _ uint64) *group.Error {
	<-ctx.Done()
	return &group.Error{Code: "timeout", Message: "nothing is recorded here"}
}

func (g *fakeGroup) WaitDead(ctx context.Context, _ string, known int64) (int64, *group.Error) {
	<-ctx.Done()
	return known, &group.Error{Code: "timeout", Message: "nothing dies here"}
}

func (g *fakeGroup) WaitKV(ctx context.Context, _ uint64) *group.Error {
	<-ctx.Done()
	return &group.Error{Code: "timeout", Message: "nothing changes here"}
}

func (g *fakeGroup) Verify(context.Context) (uint64, []group.NodeDigest, group.Stamp, *group.Error) {
	return 0, nil, group.Stamp{}, &group.Error{Code: "not_leader", Message: "elsewhere", Leader: "127.0.0.1:1"}
}

type fakeSession struct{}

func (*fakeSession) Subscribe(uint32, string, int32, int64, string, ...fsm.Token) *group.Error {
	return nil
}
func (*fakeSession) Credit(uint32, int32) *group.Error { return nil }
func (*fakeSession) Unsubscribe(uint32) *group.Error   { return nil }
func (*fakeSession) Abandon(uint32) *group.Error       { return nil }
func (*fakeSession) Started(uint32, []fsm.Token)       {}
func (*fakeSession) Detach()                           {}
func (*fakeSession) Lease(*group.Proposal, string, fsm.Request, time.Duration) func() {
	return func() {}
}
func (*fakeSession) Settled(context.Context, uint32) *group.Error { return nil }

func (*fakeSession) Resume(context.Context, uint32, string, int32, int64, string, []fsm.Token, []fsm.Token, ...fsm.Token) ([]fsm.Token, group.Stamp, *group.Error) {
	return nil, group.Stamp{}, nil
}

// realClock is the machine's clock.
type realClock struct{}

var testStart = time.Now().Add(-time.Hour)

func (realClock) WallMillis() int64   { return time.Now().UnixMilli() }
func (realClock) Mono() time.Duration { return time.Since(testStart) }
