package client

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
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
	ready   []*fakeMsg
	retry   int
	results map[string]*wire.Result
	dead    []*fakeMsg
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
		n.listen("127.0.0.1:0")
		f.nodes = append(f.nodes, n)
	}
	t.Cleanup(func() {
		for _, n := range f.nodes {
			n.kill()
		}
	})
	return f
}

func (n *fakeNode) listen(addr string) {
	ln, err := net.Listen("tcp", addr)
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
				if !sub.started[tok] {
					f.release(f.msgs[tok])
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
			before := len(fc.out)
			fc.carryOut(raw)
			fc.out = fc.out[:before]
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

func (fc *fakeConn) carryOut(raw wire.Raw) {
	f := fc.f
	if raw.Type == wire.TypeHello {
		f.hellos++
		fc.push(wire.TypeWelcome, raw.Tag, &wire.Welcome{
			Version: wire.Version, Node: fmt.Sprintf("n%d", fc.n.i), Leader: f.leaderAddr(), IsLeader: fc.n.i == f.leader,
			MaxMessageBytes: f.maxMsg, MaxFrameBytes: wire.MaxFrameBytes(f.maxMsg), MaxBatch: wire.MaxBatch,
			PingMillis: f.ping.Milliseconds(), Server: "fake",
		})
		return
	}
	if fc.n.i != f.leader {
		fault := wire.NewFault(wire.CodeNotLeader, "n%d does not lead", fc.n.i)
		if f.leader < 0 {
			fault = wire.NewFault(wire.CodeNoLeader, "no leader")
		}
		fault.Leader = f.leaderAddr()
		fc.fault(raw.Tag, fault)
		return
	}
	f.index++
	if raw.Type == wire.TypeOpenSession {
		o := decode[wire.OpenSession](fc, raw)
		s := f.sessions[o.Session]
		switch {
		case o.Session == "":
			s = &fakeSession{id: f.id(), outcomes: map[uint64]wire.Outcome{}, raw: map[uint64]any{}, subs: map[uint32]*fakeSub{}}
			f.sessions[s.id] = s
		case s == nil:
			fc.fault(raw.Tag, wire.NewFault(wire.CodeSessionExpired, "no session %s", o.Session))
			return
		case s.conn == fc:
			f.touched++
		}
		f.attaches++
		s.conn, fc.session = fc, s
		fc.push(wire.TypeSessionOpened, raw.Tag, &wire.SessionOpened{Session: s.id, At: f.at()})
		return
	}
	s := fc.session
	if s == nil || f.sessions[s.id] == nil {
		fc.fault(raw.Tag, wire.NewFault(wire.CodeSessionExpired, "no session"))
		return
	}
	fc.request(s, raw)
	f.pump()
}

// number checks a request id; false: refused.
func (fc *fakeConn) number(s *fakeSession, raw wire.Raw, r wire.Request, n int) bool {
	s.low = max(s.low, r.Low)
	if r.Number == 0 || r.Number+uint64(n) > r.Low+wire.MaxRequestSpan {
		fc.f.t.Errorf("client sent number %d+%d with low %d", r.Number, n, r.Low)
	}
	if r.Number < s.low {
		fc.fault(raw.Tag, wire.NewFault(wire.CodeSessionExpired, "number %d is below low %d", r.Number, s.low))
		return false
	}
	for k := range s.outcomes {
		if k < s.low {
			delete(s.outcomes, k)
		}
	}
	return true
}

func (fc *fakeConn) request(s *fakeSession, raw wire.Raw) {
	f := fc.f
	switch raw.Type {
	case wire.TypeEnqueue:
		e := decode[wire.Enqueue](fc, raw)
		if fault := e.Validate(f.maxMsg); fault != nil {
			f.t.Errorf("client sent a bad batch: %v", fault)
		}
		f.numbers = append(f.numbers, e.Request.Number)
		if !fc.number(s, raw, e.Request, len(e.Messages)) {
			return
		}
		var a wire.Enqueued
		for i := range e.Messages {
			a.Outcomes = append(a.Outcomes, f.enqueue(fc, s, e.Queue, &e.Messages[i], e.Request.Number+uint64(i)))
		}
		a.At = f.at()
		fc.push(wire.TypeEnqueued, raw.Tag, &a)
	case wire.TypeQueueCreate:
		q := decode[wire.QueueWrite](fc, raw)
		if fc.number(s, raw, q.Request, 1) {
			f.queue(q.Queue)
			fc.push(wire.TypeOK, raw.Tag, &wire.OK{At: f.at()})
		}
	case wire.TypeQueueShow:
		r := decode[wire.QueueRef](fc, raw)
		q := f.queues[r.Queue]
		if q == nil {
			fc.fault(raw.Tag, wire.NewFault(wire.CodeNotFound, "no queue %s", r.Queue))
			return
		}
		info := wire.QueueInfo{Name: r.Queue, Pending: int64(len(q.ready)), Retrying: int64(q.retry), Totals: map[string]int64{}}
		for _, m := range f.msgs {
			if m.queue == r.Queue && m.state == "leased" {
				info.Processing++
			}
		}
		fc.push(wire.TypeQueueIs, raw.Tag, &wire.QueueIs{Queue: info, At: f.at()})
	case wire.TypeLease:
		l := decode[wire.Lease](fc, raw)
		if !fc.number(s, raw, l.Request, 1) {
			return
		}
		if old, ok := s.raw[l.Request.Number]; ok {
			fc.push(wire.TypeLeased, raw.Tag, old)
			return
		}
		a := &wire.Leased{At: f.at()}
		q := f.queue(l.Queue)
		for len(q.ready) > 0 && len(a.Messages) < int(l.Max) {
			a.Messages = append(a.Messages, f.hand(q, nil))
		}
		s.raw[l.Request.Number] = a
		fc.push(wire.TypeLeased, raw.Tag, a)
	case wire.TypeSubscribe:
		b := decode[wire.Subscribe](fc, raw)
		s.subs[b.Sub] = &fakeSub{num: b.Sub, queue: b.Queue, credit: int(b.Credit), out: map[string]bool{}, started: map[string]bool{}, attached: true}
		fc.push(wire.TypeOK, raw.Tag, &wire.OK{At: f.at()})
	case wire.TypeResume:
		r := decode[wire.Resume](fc, raw)
		sub := s.subs[r.Subscribe.Sub]
		if sub == nil {
			f.t.Errorf("client resumes unknown subscription %d", r.Subscribe.Sub)
			return
		}
		sub.attached, sub.credit = true, int(r.Subscribe.Credit)
		have := map[string]bool{}
		var lost []string
		for _, tok := range append(slices.Clone(r.Started), r.Held...) {
			have[tok] = true
			if !sub.out[tok] {
				lost = append(lost, tok)
			}
		}
		for tok := range sub.out {
			if !have[tok] {
				f.release(f.msgs[tok])
			}
		}
		for _, tok := range r.Started {
			sub.started[tok] = true
		}
		fc.push(wire.TypeResumed, raw.Tag, &wire.Resumed{Lost: lost, At: f.at()})
	case wire.TypeCredit:
		b := decode[wire.Credit](fc, raw)
		if sub := s.subs[b.Sub]; sub != nil {
			sub.credit = int(b.Credit)
		}
		fc.push(wire.TypeOK, raw.Tag, &wire.OK{At: f.at()})
	case wire.TypeUnsubscribe:
		b := decode[wire.Unsubscribe](fc, raw)
		delete(s.subs, b.Sub)
		fc.push(wire.TypeOK, raw.Tag, &wire.OK{At: f.at()})
	case wire.TypeStarted:
		b := decode[wire.Started](fc, raw)
		if sub := s.subs[b.Sub]; sub != nil {
			for _, tok := range b.Tokens {
				sub.started[tok] = true
			}
		}
	case wire.TypeAck:
		a := decode[wire.Ack](fc, raw)
		m := f.msgs[a.Token]
		switch {
		case m == nil:
			fc.fault(raw.Tag, wire.NewFault(wire.CodeNotFound, "no message"))
		case m.token != a.Token || m.state == "ready" && m.leases == 0 || m.state == "dead":
			fc.fault(raw.Tag, wire.NewFault(wire.CodeLeaseLost, "the lease is over"))
		default:
			if m.state != "done" {
				f.end(m, "done")
				m.result = &wire.Result{}
				if a.Result != nil {
					m.result.Output = slices.Clone(a.Result.Output)
				}
			}
			fc.push(wire.TypeAcked, raw.Tag, &wire.Acked{At: f.at()})
		}
	case wire.TypeNack:
		n := decode[wire.Nack](fc, raw)
		if m := f.live(fc, raw, n.Token); m != nil {
			m.err = n.Error
			f.end(m, "dead")
			if !n.Permanent {
				m.state = "ready"
				f.queue(m.queue).ready = append(f.queue(m.queue).ready, m)
			}
			fc.push(wire.TypeNacked, raw.Tag, &wire.Nacked{Dead: n.Permanent, At: f.at()})
		}
	case wire.TypeExtend:
		e := decode[wire.Extend](fc, raw)
		if m := f.live(fc, raw, e.Token); m != nil {
			fc.push(wire.TypeExtended, raw.Tag, &wire.Extended{LeaseLeftMillis: f.lease.Milliseconds(), At: f.at()})
		}
	case wire.TypeRelease:
		r := decode[wire.Release](fc, raw)
		if m := f.live(fc, raw, r.Token); m != nil {
			f.release(m)
			fc.push(wire.TypeOK, raw.Tag, &wire.OK{At: f.at()})
		}
	case wire.TypeResultGet:
		g := decode[wire.ResultGet](fc, raw)
		m := f.byID[g.Task.TaskID]
		switch {
		case m == nil:
			fc.fault(raw.Tag, wire.NewFault(wire.CodeNotFound, "no task"))
		case m.state == "done":
			fc.push(wire.TypeResultIs, raw.Tag, &wire.ResultIs{Status: "succeeded", Result: m.result, HasOutput: true, At: f.at()})
		case m.state == "dead":
			fc.push(wire.TypeResultIs, raw.Tag, &wire.ResultIs{Status: "dead", Dead: &wire.Task{ID: m.id, TaskID: m.id, Queue: m.queue, Status: "dead", Error: m.err}, At: f.at()})
		default:
			fc.fault(raw.Tag, wire.NewFault(wire.CodeTimeout, "not yet"))
		}
	case wire.TypeClusterStatus:
		fc.push(wire.TypeClusterIs, raw.Tag, &wire.ClusterIs{Leader: fmt.Sprintf("n%d", f.leader), Term: 1, At: f.at()})
	default:
		fc.fault(raw.Tag, wire.NewFault(wire.CodeInvalidArgument, "the fake does not know frame type %d", raw.Type))
	}
}

func (f *fake) live(fc *fakeConn, raw wire.Raw, tok string) *fakeMsg {
	m := f.msgs[tok]
	if m == nil {
		fc.fault(raw.Tag, wire.NewFault(wire.CodeNotFound, "no message"))
		return nil
	}
	if m.token != tok || m.state != "leased" {
		fc.fault(raw.Tag, wire.NewFault(wire.CodeLeaseLost, "the lease is over"))
		return nil
	}
	return m
}

func (f *fake) enqueue(fc *fakeConn, s *fakeSession, queue string, m *wire.Message, number uint64) wire.Outcome {
	if o, ok := s.outcomes[number]; ok {
		return o
	}
	if f.onMessage != nil {
		if fault := f.onMessage(fc, m); fault != nil {
			o := wire.Outcome{Fault: fault}
			s.outcomes[number] = o
			return o
		}
	}
	id := f.id()
	if f.keepLog {
		f.log = append(f.log, string(m.Body))
		f.seen[string(m.Body)]++
		q := f.queue(queue)
		c := *m
		c.Body = slices.Clone(m.Body)
		fm := &fakeMsg{id: id, queue: queue, m: c, state: "ready"}
		q.ready = append(q.ready, fm)
		f.byID[id] = fm
	}
	o := wire.Outcome{ID: id}
	s.outcomes[number] = o
	return o
}

func (f *fake) hand(q *fakeQueue, sub *fakeSub) wire.Delivered {
	m := q.ready[0]
	q.ready = q.ready[1:]
	m.leases++
	m.attempt++
	m.state, m.sub = "leased", sub
	m.token = m.id + f.id()
	f.msgs[m.token] = m
	if sub != nil {
		sub.out[m.token] = true
	}
	return wire.Delivered{
		ID: m.id, Token: m.token, Attempt: m.attempt, LeaseLeftMillis: f.lease.Milliseconds(), Body: m.m.Body, Priority: 4,
		EnqueuedAt: 1_700_000_000_000, TimeoutMillis: m.m.TimeoutMillis,
	}
}

func (f *fake) end(m *fakeMsg, state string) {
	m.state = state
	if m.sub != nil {
		delete(m.sub.out, m.token)
		delete(m.sub.started, m.token)
	}
}

// release gives a lease back, free.
func (f *fake) release(m *fakeMsg) {
	f.end(m, "ready")
	m.attempt--
	q := f.queue(m.queue)
	q.ready = slices.Insert(q.ready, 0, m)
}

// expire ends a lease as the clock would.
func (f *fake) expire(tok string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.msgs[tok]
	if m == nil || m.state != "leased" || m.token != tok {
		f.t.Errorf("lease %s is not live", tok)
		return
	}
	sub := m.sub
	f.end(m, "ready")
	m.leases = 0
	if sub != nil {
		for _, s := range f.sessions {
			if s.subs[sub.num] == sub && s.conn != nil {
				s.conn.push(wire.TypeLeaseGone, 0, &wire.LeaseGone{Sub: sub.num, Tokens: []string{tok}})
				s.conn.flush()
			}
		}
	}
	f.queue(m.queue).ready = append(f.queue(m.queue).ready, m)
}

// pump hands ready messages to subscriptions with room; under f.mu.
func (f *fake) pump() {
	for _, s := range f.sessions {
		if s.conn == nil || s.conn.n.i != f.leader {
			continue
		}
		for _, sub := range s.subs {
			q := f.queues[sub.queue]
			if q == nil || !sub.attached {
				continue
			}
			d := wire.Delivery{Sub: sub.num}
			for len(q.ready) > 0 && len(sub.out) < sub.credit {
				d.Messages = append(d.Messages, f.hand(q, sub))
			}
			if len(d.Messages) > 0 {
				s.conn.push(wire.TypeDelivery, 0, &d)
				s.conn.flush()
			}
		}
	}
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
	c, err := Open(t.Context(), o)
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
