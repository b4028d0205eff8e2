package group

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/quorate/quorate/fsm"
)

// The tests run clusters of real rafts in one process, on fake time: a bubble of testing/synctest, which also fails a
// test that leaves a goroutine behind.

var testCluster16 = [16]byte{'t', 'e', 's', 't'}

// nodeClock is a node's clock. Its wall can be set off, and it runs on the bubble's time otherwise.
type nodeClock struct {
	start  time.Time
	offset atomic.Int64 // ms
}

func (c *nodeClock) WallMillis() int64   { return time.Now().UnixMilli() + c.offset.Load() }
func (c *nodeClock) Mono() time.Duration { return time.Since(c.start) + time.Hour }

type node struct {
	id      raft.ServerID
	addr    raft.ServerAddress
	logs    raft.LogStore
	stable  *raft.InmemStore
	snaps   raft.SnapshotStore
	trans   *raft.InmemTransport
	clock   *nodeClock
	g       *Group
	fatal   chan error
	stopped bool
}

type cluster struct {
	t     testing.TB
	nodes []*node
	tune  func(*Config)
}

// newCluster starts n nodes and waits for a leader that serves. tune may change each node's configuration.
func newCluster(t testing.TB, n int, tune func(*Config)) *cluster {
	t.Helper()
	c := &cluster{t: t, tune: tune}
	var servers []raft.Server
	for i := range n {
		nd := &node{
			id: raft.ServerID(fmt.Sprintf("node-%d", i+1)), addr: raft.ServerAddress(fmt.Sprintf("addr-%d", i+1)),
			stable: raft.NewInmemStore(), snaps: raft.NewInmemSnapshotStore(),
			clock: &nodeClock{start: time.Now()}, fatal: make(chan error, 4),
		}
		nd.logs = nd.stable
		c.nodes = append(c.nodes, nd)
		servers = append(servers, raft.Server{ID: nd.id, Address: nd.addr})
	}
	for _, nd := range c.nodes {
		c.start(nd)
	}
	for _, nd := range c.nodes {
		if err := nd.g.Bootstrap(testCluster16, servers); err != nil {
			t.Fatalf("bootstrap %s: %v", nd.id, err)
		}
	}
	c.leader()
	return c
}

func (c *cluster) start(nd *node) {
	c.t.Helper()
	_, nd.trans = raft.NewInmemTransportWithTimeout(nd.addr, 500*time.Millisecond)
	cfg := Config{
		LocalID: nd.id, Clock: nd.clock, Logs: sealing{nd.logs}, Stable: nd.stable, Snapshots: nd.snaps, Transport: nd.trans,
		ClientAddr: func(id raft.ServerID) string { return "client-of-" + string(id) },
		Fatal:      func(err error) { nd.fatal <- err },
		Digests: func(ctx context.Context, index uint64) (out []NodeDigest) {
			for _, other := range c.nodes {
				if other.stopped {
					continue
				}
				one := NodeDigest{ID: other.id}
				var err error
				if one.Digest, err = other.g.DigestAt(ctx, index); err != nil {
					one.Err = err.Error()
				}
				out = append(out, one)
			}
			return out
		},
	}
	if c.tune != nil {
		c.tune(&cfg)
	}
	g, err := New(cfg)
	if err != nil {
		c.t.Fatalf("start %s: %v", nd.id, err)
	}
	nd.g, nd.stopped = g, false
	c.join(nd)
}

// join connects a node with all that run.
func (c *cluster) join(nd *node) {
	for _, other := range c.nodes {
		if other.trans != nil && !other.stopped {
			nd.trans.Connect(other.addr, other.trans)
			other.trans.Connect(nd.addr, nd.trans)
		}
	}
}

// cut takes a node off the network, in both directions.
func (c *cluster) cut(nd *node) {
	nd.trans.DisconnectAll()
	for _, other := range c.nodes {
		if other != nd {
			other.trans.Disconnect(nd.addr)
		}
	}
}

// kill ends a node that nobody hears from again; its stores stay.
func (c *cluster) kill(nd *node) {
	c.cut(nd)
	c.halt(nd)
}

func (c *cluster) halt(nd *node) {
	c.t.Helper()
	if nd.stopped {
		return
	}
	nd.stopped = true
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := nd.g.Stop(ctx); err != nil {
		c.t.Errorf("stop %s: %v", nd.id, err)
	}
}

// stop ends the cluster and fails the test if a node had asked for its end.
func (c *cluster) stop() {
	c.t.Helper()
	for _, nd := range c.nodes {
		c.halt(nd)
	}
	pass(15 * time.Second) // raft's transfers and remote calls have time-outs of their own
	for _, nd := range c.nodes {
		select {
		case err := <-nd.fatal:
			c.t.Errorf("%s failed: %v", nd.id, err)
		default:
		}
	}
}

// stopNow ends a cluster outside of a bubble.
func (c *cluster) stopNow() {
	for _, nd := range c.nodes {
		c.halt(nd)
	}
}

// until waits for a condition, at most d of fake time.
func (c *cluster) until(d time.Duration, what string, ok func() bool) {
	c.t.Helper()
	end := time.NewTimer(d)
	defer end.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-end.C:
			c.t.Fatalf("after %v: %s", d, what)
		}
	}
}

// pass lets time go by.
func pass(d time.Duration) { <-time.After(d) }

// successor waits for a leader other than the one before, which may think that it still is one.
func (c *cluster) successor(before *node) (next *node) {
	c.until(10*time.Second, "no other leader", func() bool {
		for _, nd := range c.nodes {
			if nd != before && !nd.stopped && nd.g.Status().Leader {
				next = nd
			}
		}
		return next != nil
	})
	return next
}

// beyond waits for a leader of a later term.
func (c *cluster) beyond(term uint64) {
	c.t.Helper()
	c.until(30*time.Second, "no leader of a later term", func() bool { return c.leader().g.Status().Term > term })
}

func (c *cluster) leader() *node {
	c.t.Helper()
	var found *node
	c.until(30*time.Second, "no leader", func() bool {
		for _, nd := range c.nodes {
			if !nd.stopped && nd.g.Status().Leader && nd.g.Raft().VerifyLeader().Error() == nil {
				found = nd
				return true
			}
		}
		return false
	})
	return found
}

func (c *cluster) followers() (out []*node) {
	l := c.leader()
	for _, nd := range c.nodes {
		if nd != l && !nd.stopped {
			out = append(out, nd)
		}
	}
	return out
}

// agree checks that all running nodes have the same state.
func (c *cluster) agree() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	index, ds, _, err := c.leader().g.Verify(ctx)
	if err != nil {
		c.t.Fatalf("verify: %v", err)
	}
	for _, d := range ds {
		if d.Err != "" || d.Digest != ds[0].Digest {
			c.t.Fatalf("states differ at index %d: %s has %x %s, %s has %x", index, d.ID, d.Digest[:4], d.Err, ds[0].ID, ds[0].Digest[:4])
		}
	}
}

// answer is how a proposal ended.
type answer struct {
	at   Stamp
	out  []fsm.Outcome
	got  []delivered
	err  *Error
	when time.Time
}

// one is a Completer for one proposal.
type one struct {
	end     chan answer
	flushes atomic.Int32
}

func newOne() *one { return &one{end: make(chan answer, 2)} } // room for a second answer, which is an error

func (o *one) Complete(_ *Proposal, st *fsm.State, at Stamp, out []fsm.Outcome, leases []fsm.Leased, err *Error) {
	a := answer{at: at, out: append([]fsm.Outcome(nil), out...), err: err, when: time.Now()}
	for _, l := range leases {
		a.got = append(a.got, readDelivery(st, l))
	}
	o.end <- a
}

func (o *one) Flush() { o.flushes.Add(1) }

type delivered struct {
	token   fsm.Token
	attempt int32
	body    string
	left    int64
	t       int64 // log time of the lease
}

func readDelivery(st *fsm.State, l fsm.Leased) delivered {
	var d fsm.Delivery
	st.Deliver(l, &d)
	return delivered{token: d.Token, attempt: d.Attempt, body: string(d.Body), left: d.LeaseLeft, t: st.Time()}
}

// send proposes without waiting; the deadline is 5 s.
func (nd *node) send(op fsm.Op) *one {
	o := newOne()
	nd.g.Propose(&Proposal{Op: fsm.AppendOp(nil, op), Done: o, Deadline: nd.clock.Mono() + 5*time.Second})
	return o
}

func (o *one) wait(t testing.TB) answer {
	t.Helper()
	select {
	case a := <-o.end:
		return a
	case <-time.After(30 * time.Second):
		t.Fatal("no answer in 30 s")
		return answer{}
	}
}

// do proposes and wants success.
func (nd *node) do(t testing.TB, op fsm.Op) answer {
	t.Helper()
	a := nd.send(op).wait(t)
	if a.err != nil {
		t.Fatalf("%T: %v", op, a.err)
	}
	nd.g.mu.Lock()   // the apply pass that has answered delivers next: let it end
	nd.g.mu.Unlock() //nolint:staticcheck // see above
	for _, out := range a.out {
		if out.Code != fsm.OK {
			t.Fatalf("%T: outcome %+v", op, out)
		}
	}
	return a
}

func (nd *node) session(t testing.TB) fsm.ID {
	t.Helper()
	return nd.do(t, &fsm.OpenSession{}).out[0].ID
}

func enqueue(queue string, bodies ...string) *fsm.Enqueue {
	op := &fsm.Enqueue{Queue: []byte(queue), AutoCreate: true}
	for _, b := range bodies {
		op.Messages = append(op.Messages, fsm.Message{Body: []byte(b), Priority: fsm.DefaultPriority})
	}
	return op
}

// conn records what a session is sent.
type conn struct {
	mu        sync.Mutex
	full      bool
	got       map[uint32][]delivered
	gone      []fsm.Token
	cancelled []fsm.Token
	redirects []string
	flushes   int
	changed   chan struct{}
}

func newConn() *conn { return &conn{got: map[uint32][]delivered{}, changed: make(chan struct{}, 1)} }

func (c *conn) Deliver(sub uint32, st *fsm.State, l []fsm.Leased) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.full {
		return false
	}
	for _, one := range l {
		c.got[sub] = append(c.got[sub], readDelivery(st, one))
	}
	return true
}

func (c *conn) LeaseGone(_ uint32, tokens []fsm.Token) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = append(c.gone, tokens...)
}

func (c *conn) LeaseCancelled(_ uint32, tokens []fsm.Token) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancelled = append(c.cancelled, tokens...)
}

func (c *conn) Redirect(leader, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.redirects = append(c.redirects, strings.TrimSpace(reason+" "+leader))
}

func (c *conn) Flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flushes++
}

func (c *conn) have(sub uint32) []delivered {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]delivered(nil), c.got[sub]...)
}

func (c *conn) setFull(v bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.full = v
}

func (c *conn) sent() (redirects []string, gone []fsm.Token) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.redirects...), append([]fsm.Token(nil), c.gone...)
}

// attach opens a session and attaches a connection to it.
func (nd *node) attach(t testing.TB) (*Session, *conn, fsm.ID) {
	t.Helper()
	id := nd.session(t)
	cn := newConn()
	s, err := nd.g.Attach(id, cn)
	if err != nil {
		t.Fatalf("attach: %v", err)
	}
	return s, cn, id
}

func must(t testing.TB, err *Error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (nd *node) stats(queue string) (out fsm.QueueStats) {
	_, _ = nd.g.Read(context.Background(), true, func(st *fsm.State) {
		if n, ok := st.QueueNumber([]byte(queue)); ok {
			out = st.Stats(n)
		}
	})
	return out
}

// waiting is how many messages of a queue are ready in the state as it is, also of a group that answers no read any more.
func (nd *node) waiting(queue string) int64 {
	nd.g.mu.Lock()
	defer nd.g.mu.Unlock()
	n, ok := nd.g.st.QueueNumber([]byte(queue))
	if !ok {
		return 0
	}
	return nd.g.st.Stats(n).Ready
}

// bubble runs a test on fake time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

var errDisk = errors.New("injected: disk")
