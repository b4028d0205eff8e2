package cluster

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/cluster/link"
	"github.com/quorate/quorate/cluster/store"
)

// fake is a member that follows, and has neither log nor state.
type fake struct {
	link.Self
	l     *link.Link
	trans *link.Transport

	stalled atomic.Bool            // it hears its leader and takes no entries, as one whose disk hangs
	asked   func(*request) *answer // before it says that all is well; nil from it: that
}

// newFake opens the door of one that n's raft can speak to as soon as it is in the configuration.
func newFake(t *testing.T, n *Node, label string) *fake {
	t.Helper()
	f := &fake{Self: link.Self{Cluster: n.self().Cluster, UUID: store.NewUUID(), Label: label, Incarnation: 1, Nonce: 1}}
	var err error
	if f.l, err = link.Listen(link.Config{Addr: "127.0.0.1:0", Self: func() link.Self { return f.Self }, Serve: f.serve}); err != nil {
		t.Fatal(err)
	}
	if f.trans, err = f.l.NewTransport(0, func(raft.ServerID) (string, bool) { return "", false }, hclog.NewNullLogger()); err != nil {
		t.Fatal(err)
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case rpc := <-f.trans.Consumer():
				f.follow(rpc)
			case <-done:
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(done)
		<-ended
		_ = f.l.Close()
		_ = f.trans.Close()
	})
	return f
}

func (f *fake) follow(rpc raft.RPC) {
	q, ok := rpc.Command.(*raft.AppendEntriesRequest)
	if !ok || f.stalled.Load() && len(q.Entries) > 0 {
		rpc.Respond(nil, errors.New("not now"))
		return
	}
	rpc.Respond(&raft.AppendEntriesResponse{RPCHeader: q.RPCHeader, Term: q.Term, LastLog: q.PrevLogEntry + uint64(len(q.Entries)), Success: true}, nil)
}

func (f *fake) serve(_ context.Context, _ link.Peer, c net.Conn) {
	for {
		_ = c.SetDeadline(time.Now().Add(rpcIdle))
		var q request
		if readFrame(c, &q) != nil {
			return
		}
		var a *answer
		if f.asked != nil {
			a = f.asked(&q)
		}
		if a == nil {
			a = &answer{Status: &statusAnswer{Role: "follower", Applied: 1 << 40, Informed: 1 << 40, LastLog: 1 << 40, Place: f.announcement()}}
		}
		if writeFrame(c, a) != nil {
			return
		}
	}
}

func (f *fake) id() raft.ServerID { return raft.ServerID(f.UUID.String()) }

func (f *fake) addr() raft.ServerAddress { return link.ServerAddress(f.Label, f.l.Addr()) }

func (f *fake) announcement() announcement {
	return announcement{Raft: f.l.Addr(), Format: store.Format, Entry: entryFormat}
}

// announces is n's answer to what f says of itself, as a member or as a stranger.
func (f *fake) announces(ctx context.Context, n *Node, stranger bool) *answer {
	p := link.Peer{Self: f.Self}
	if stranger {
		p.Cluster = store.UUID{}
	}
	a := f.announcement()
	return n.serveJoin(ctx, p, &a)
}

// alone is a cluster of one that tends nothing by itself, and leads as long as fakes let it.
func alone(t *testing.T) *Node {
	t.Helper()
	n := singleAs(t, func(c *Config) {
		c.Raft = func(r *raft.Config) {
			r.HeartbeatTimeout, r.ElectionTimeout, r.LeaderLeaseTimeout = time.Second, time.Second, time.Second
		}
	})
	err := errors.New("a test tends this node")
	n.failed.Store(&err)
	return n
}

// within is a context that ends after d, and with the test.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// ends fails the test if f does not end.
func ends(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s has not ended in 20 s", what)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// latest is n's latest configuration, committed or not, by label.
func latest(t *testing.T, n *Node) map[string]raft.ServerSuffrage {
	t.Helper()
	servers, err := n.servers()
	must(t, err)
	m := map[string]raft.ServerSuffrage{}
	for _, s := range servers {
		label, _ := link.SplitAddress(s.Address)
		m[label] = s.Suffrage
	}
	return m
}
