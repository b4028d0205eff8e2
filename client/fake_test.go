package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/quorate/quorate/wire"
)

// verdict is what a fake node does with a request.
type verdict int

const (
	pass     verdict = iota
	lose             // carry it out, never answer
	ignore           // neither carry it out nor answer
	hangUp           // close the connection without carrying it out
	loseHang         // carry it out, then close the connection without an answer
)

// fake is a cluster of fake nodes that share one broker: sessions that remember request numbers, queues, leases, results.
// It is the plainest thing that keeps the protocol's promises, with hooks to break the network's.
type fake struct {
	t     testing.TB
	nodes []*fakeNode

	mu       sync.Mutex
	leader   int // −1: none
	index    uint64
	sessions map[string]*fakeSession
	queues   map[string]*fakeQueue
	msgs     map[string]*fakeMsg // by token of the last lease
	byID     map[string]*fakeMsg
	ids      int
	conns    map[*fakeConn]bool
	hellos   int // connections that said hello
	attaches int

	hook      func(fc *fakeConn, f wire.Raw) (verdict, *wire.Fault) // under mu
	ordered   bool                                                  // queues are
	onMessage func(fc *fakeConn, m *wire.Message) *wire.Fault       // under mu: a refusal in the log
	hint      string                                                // what followers say instead of the leader's address
	ping      time.Duration
	maxMsg    int64
	lease     time.Duration
	touched   int
	deaf      *fakeNode // while it leads: its connections stop reading
	log       []string  // enqueued bodies in log order
	keepLog   bool
	seen      map[string]int // enqueued bodies
	numbers   []uint64       // of Enqueue requests in order of arrival
}

type fakeSession struct {
	id       string
	low      uint64
	outcomes map[uint64]wire.Outcome
	raw      map[uint64]any // of other requests
	conn     *fakeConn
	subs     map[uint32]*fakeSub
}

type fakeSub struct {
	num      uint32
	queue    string
	credit   int
	out      map[string]bool // tokens
	started  map[string]bool
	attached bool
}

type fakeQueue struct {
	once    bool // delivers at most once
	ready   []*fakeMsg
	retry   int
	results map[string]*wire.Result
}

type fakeMsg struct {
	id, queue string
	m         wire.Message
	attempt   int32
	token     string
	state     string // ready leased done dead
	sub       *fakeSub
	err       string
	leases    int
	result    *wire.Result
}

type fakeNode struct {
	f    *fake
	i    int
	addr string
	srv  *http.Server
	ln   net.Listener
	down bool

	killed chan struct{} // closed by kill
}

type fakeConn struct {
	f       *fake
	n       *fakeNode
	ws      *websocket.Conn
	wmu     sync.Mutex
	out     []byte // under f.mu
	session *fakeSession
	mute    bool // reads, says nothing: half open
	deaf    bool
	stop    chan struct{}
	hung    bool
}

func newFake(t testing.TB, nodes int) *fake {
	f := &fake{
		t: t, sessions: map[string]*fakeSession{}, queues: map[string]*fakeQueue{}, msgs: map[string]*fakeMsg{},
		byID: map[string]*fakeMsg{}, conns: map[*fakeConn]bool{}, ping: 2 * time.Second, maxMsg: 1 << 20, lease: 30 * time.Second,
		seen: map[string]int{},
	}
	for i := range nodes {
		n := &fakeNode{f: f, i: i}
		n.listen("")
		f.nodes = append(f.nodes, n)
	}
	t.Cleanup(func() {
		for _, n := range f.nodes {
			n.kill()
		}
	})
	return f
}

// listen begins to serve at an address, "": at one of its own. It is none of those that systems give to outgoing connections, one of which
// could have it just when a node that was killed comes back.
func (n *fakeNode) listen(addr string) {
	at := func() string {
		if addr != "" {
			return addr
		}
		return fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(22_000))
	}
	ln, err := net.Listen("tcp", at())
	for tries := 0; err != nil && addr == "" && tries < 100; tries++ {
		ln, err = net.Listen("tcp", at())
	}
	if err != nil {
		n.f.t.Fatal(err)
	}
	n.ln, n.addr, n.killed = ln, ln.Addr().String(), make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/ws", n.serve)
	n.srv = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = n.srv.Serve(ln) }()
	n.f.mu.Lock()
	n.down = false
	n.f.mu.Unlock()
}

// kill ends a node's listener and connections.
func (n *fakeNode) kill() {
	n.f.mu.Lock()
	if !n.down {
		close(n.killed)
	}
	n.down = true
	var cs []*fakeConn
	for fc := range n.f.conns {
		if fc.n == n {
			cs = append(cs, fc)
		}
	}
	n.f.mu.Unlock()
	_ = n.srv.Close()
	for _, fc := range cs {
		_ = fc.ws.UnderlyingConn().Close()
	}
}

func (f *fake) addrs() []string {
	var a []string
	for _, n := range f.nodes {
		a = append(a, n.addr)
	}
	return a
}

// lead moves leadership and tells the old leader's connections.
func (f *fake) lead(i int, redirect bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.leader
	f.leader = i
	if !redirect || old < 0 {
		return
	}
	for fc := range f.conns {
		if fc.n.i == old {
			fc.push(wire.TypeRedirect, 0, &wire.Redirect{Leader: f.leaderAddr(), Reason: "not_leader"})
			fc.flush()
		}
	}
}

func (f *fake) leaderAddr() string {
	if f.hint != "" {
		return f.hint
	}
	if f.leader < 0 {
		return ""
	}
	return f.nodes[f.leader].addr
}

func (f *fake) queue(name string) *fakeQueue {
	q := f.queues[name]
	if q == nil {
		q = &fakeQueue{results: map[string]*wire.Result{}}
		f.queues[name] = q
	}
	return q
}

func (f *fake) id() string {
	f.ids++
	return fmt.Sprintf("%026d", f.ids)
}

func (f *fake) at() wire.At { return wire.At{Index: f.index, Time: 1_700_000_000_000 + int64(f.index)} }

var upgrader = websocket.Upgrader{
	Subprotocols: []string{wire.Subprotocol}, ReadBufferSize: 64 << 10, WriteBufferSize: 64 << 10,
}

func (n *fakeNode) serve(w http.ResponseWriter, r *http.Request) {
	ws, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	f := n.f
	fc := &fakeConn{f: f, n: n, ws: ws, stop: make(chan struct{})}
	ws.SetPingHandler(func(data string) error {
		f.mu.Lock()
		mute := fc.mute
		f.mu.Unlock()
		if mute {
			return nil
		}
		fc.wmu.Lock()
		defer fc.wmu.Unlock()
		_ = ws.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(time.Second))
		return nil
	})
	f.mu.Lock()
	if n.down {
		f.mu.Unlock()
		_ = ws.Close()
		return
	}
	f.conns[fc] = true
	f.mu.Unlock()
	defer fc.gone()
	for {
		_, msg, err := ws.ReadMessage()
		if err != nil {
			return
		}
		f.mu.Lock()
		if f.deaf == n && f.leader == n.i || fc.deaf { // stops reading, for good
			fc.deaf, fc.mute = true, true
			f.mu.Unlock()
			<-n.killed
			return
		}
		for rest := msg; len(rest) > 0 && !fc.hung; {
			var raw wire.Raw
			if raw, rest, err = wire.Next(rest); err != nil {
				f.t.Errorf("client sent a bad frame: %v", err)
				f.mu.Unlock()
				return
			}
			fc.handle(raw)
		}
		hung := fc.hung
		fc.flush()
		for other := range f.conns {
			if other != fc {
				other.flush()
			}
		}
		f.mu.Unlock()
		if hung {
			return
		}
	}
}

// gone is what the leader does when a connection dies: subscriptions end, what was not started goes back, free.
func (fc *fakeConn) gone() {
	f := fc.f
	_ = fc.ws.Close()
	close(fc.stop)
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, fc)
	if s := fc.session; s != nil && s.conn == fc {
		s.conn = nil
		for _, sub := range s.subs {
			sub.attached = false
			for tok := range sub.out {
				if m := f.msgs[tok]; m != nil && !sub.started[tok] { // what is delivered at most once is not there any more
					f.release(m)
				}
			}
		}
	}
	f.pump()
}

func (fc *fakeConn) push(t wire.Type, tag uint64, body any) {
	fc.out = wire.AppendFrame(fc.out, t, tag, body)
}

// flush hands what is queued to a writer; under f.mu.
func (fc *fakeConn) flush() {
	if len(fc.out) == 0 || fc.mute {
		return
	}
	b := fc.out
	fc.out = nil
	_ = fc.ws.SetWriteDeadline(time.Now().Add(5 * time.Second))
	fc.wmu.Lock()
	_ = fc.ws.WriteMessage(websocket.BinaryMessage, b)
	fc.wmu.Unlock()
}

func (fc *fakeConn) fault(tag uint64, f *wire.Fault) { fc.out = wire.AppendFault(fc.out, tag, f) }

func decode[T any](fc *fakeConn, raw wire.Raw) *T {
	v := new(T)
	if err := raw.Decode(v); err != nil {
		fc.f.t.Errorf("client sent a bad body of type %d: %v", raw.Type, err)
	}
	return v
}

// carryOutQuietly drops the answer, and nothing else.
func (fc *fakeConn) carryOutQuietly(raw wire.Raw) {
	mute := fc.mute
	fc.mute = true // nothing leaves before the answer is out of it
	fc.carryOut(raw)
	fc.mute = mute
	var kept []byte
	for rest := fc.out; len(rest) > 0; {
		frame := rest
		var r wire.Raw
		var err error
		if r, rest, err = wire.Next(rest); err != nil {
			fc.f.t.Errorf("the fake made a bad frame: %v", err)
			break
		}
		if r.Tag != raw.Tag {
			kept = append(kept, frame[:len(frame)-len(rest)]...)
		}
	}
	fc.out = kept
}

func (fc *fakeConn) handle(raw wire.Raw) {
	f := fc.f
	if f.hook != nil {
		v, fault := f.hook(fc, raw)
		switch v {
		case ignore:
			return
		case hangUp:
			fc.hung = true
			return
		case lose, loseHang:
			fc.carryOutQuietly(raw)
			fc.hung = v == loseHang
			return
		}
		if fault != nil {
			fc.fault(raw.Tag, fault)
			return
		}
	}
	fc.carryOut(raw)
}

// do runs fn with the broker locked, then hands out what has become ready.
func (f *fake) do(fn func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fn()
	f.pump()
}

// put makes ready messages without a client.
func (f *fake) put(queue string, bodies ...string) (ids []string) {
	f.do(func() {
		for _, b := range bodies {
			m := &fakeMsg{id: f.id(), queue: queue, m: wire.Message{Body: []byte(b)}, state: "ready"}
			f.byID[m.id] = m
			f.queue(queue).ready = append(f.queue(queue).ready, m)
			ids = append(ids, m.id)
		}
	})
	return ids
}

// state counts a queue's messages by state.
func (f *fake) state(queue string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := map[string]int{}
	for _, m := range f.byID {
		if m.queue == queue {
			n[m.state]++
		}
	}
	var parts []string
	for _, k := range []string{"ready", "leased", "done", "dead"} {
		if n[k] > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", k, n[k]))
		}
	}
	return strings.Join(parts, ", ")
}

// until waits for a condition of the fake, with a bound.
func until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited 10 s for %s", what)
		}
	}
}

// open connects a client that the test closes.
func open(t testing.TB, f *fake, o Options) *Client {
	t.Helper()
	if o.Addrs == nil {
		o.Addrs = f.addrs()
	}
	o.Seed = seed()
	opening, opened := context.WithTimeout(t.Context(), 10*time.Second) // and not Options.Timeout, which may be short
	defer opened()
	c, err := Open(opening, o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.Close(ctx)
	})
	return c
}
