package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
	"github.com/quorate/quorate/wire"
)

// Bounds of a connection.
const (
	writeTimeout = 10 * time.Second
	closeTimeout = time.Second
	writeTarget  = 128 << 10 // a WebSocket message is closed at about this size
	pingMin      = 250 * time.Millisecond
	pingMax      = 30 * time.Second
	pingDefault  = 5 * time.Second
	readBufMax   = 1 << 20 // a larger read buffer is not kept
)

// conn is one connection to the leader, attached to the session. One goroutine reads it (the client's run), one writes.
type conn struct {
	c       *Client
	ws      *websocket.Conn
	addr    string
	self    string // how the node calls its own address; may differ from addr
	ping    time.Duration
	wake    chan struct{} // cap 1: something to write
	dead    chan struct{} // closed by failLocked
	written chan struct{} // closed when the writer has ended

	failed bool   // guarded by c.mu
	err    error  // guarded by c.mu: why
	hint   string // guarded by c.mu: where to go

	heard     atomic.Int64 // c.now() of the last message, ping or pong
	suspectAt int64        // guarded by c.mu: when to look whether it is silent
	asking    bool         // guarded by c.mu: the others are being asked

	// The writer's.
	buf   []byte
	fills uint64   // how often buf has been filled
	told  []*lease // whose started frame is in buf
	owes  bool     // there was no room in buf for started frames

	// The reader's.
	msg        []byte
	enqueued   wire.Enqueued
	ackedFrame wire.Acked
	ackedBatch wire.AckedBatch
	delivery   wire.Delivery
	strings    wire.Strings
	got        []*Delivery
	readUntil  time.Time
}

// failLocked ends a connection, once: the writer says goodbye and closes the socket, which ends the reader.
func (cn *conn) failLocked(err error, hint string) {
	if cn.failed {
		return
	}
	cn.failed, cn.err, cn.hint = true, err, hint
	close(cn.dead)
	_ = cn.ws.UnderlyingConn().SetWriteDeadline(time.Now().Add(closeTimeout)) // a writer that is stuck ends soon
}

func (cn *conn) fail(err error, hint string) {
	cn.c.mu.Lock()
	cn.failLocked(err, hint)
	cn.c.mu.Unlock()
}

// wakeWriter tells the writer, if there is one, that something is queued.
func (c *Client) wakeWriter() {
	if c.conn == nil {
		return
	}
	select {
	case c.conn.wake <- struct{}{}:
	default:
	}
}

// serve attaches a connection to the session and reads it until it ends. It returns why, and where the leader may be.
func (c *Client) serve(d *dialed) (hint string, err error) {
	defer func() { _ = d.ws.Close() }()
	stop := context.AfterFunc(c.life, func() { _ = d.ws.Close() })
	session, err := c.attach(d)
	if !stop() && err == nil {
		err = ErrClosed
	}
	if err != nil {
		var e *Error
		if errors.As(err, &e) {
			return e.Leader, err
		}
		return "", err
	}
	cn := &conn{
		c: c, ws: d.ws, addr: d.addr, self: d.welcome.Leader, ping: pingDefault,
		wake: make(chan struct{}, 1), dead: make(chan struct{}), written: make(chan struct{}),
	}
	if p := time.Duration(d.welcome.PingMillis) * time.Millisecond; p > 0 {
		cn.ping = min(max(p, pingMin), pingMax)
	}
	d.ws.SetPingHandler(func(data string) error {
		cn.alive()
		err := d.ws.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(writeTimeout))
		if errors.Is(err, websocket.ErrCloseSent) {
			return nil
		}
		return err
	})
	d.ws.SetPongHandler(func(string) error { cn.alive(); return nil })
	c.install(cn, session)
	c.log.Info("connected", "remote", cn.addr, "node", d.welcome.Node, "session", session)

	stop = context.AfterFunc(c.life, func() { cn.fail(ErrClosed, "") })
	defer stop()
	go cn.write()
	err = cn.read()
	cn.fail(err, "")
	<-cn.written
	return c.uninstall(cn)
}

// install makes cn the connection that is written to, and queues again all that the last one left without an answer.
func (c *Client) install(cn *conn, session string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session, c.sessionUsed = session, c.now()
	c.watchDeadline(c.sessionUsed + int64(sessionRefresh))
	c.conn, c.attached, c.lastErr, c.saidLost = cn, true, nil, false
	c.again = fifo{} // what it held is in the ring as well
	c.trimRingLocked()
	for _, cl := range c.ring[c.ringHead:] {
		if cl != nil && cl.number != 0 && cl.state != callDone && cl.state != callAnswered {
			cl.state = callQueued
			c.again.pushBack(cl)
		}
	}
	c.pruneLaterLocked() // those that waited are sent now
	c.stalled = false
	cn.suspectAt = c.now() + cn.silence()
	c.watchDeadline(cn.suspectAt)
	for _, s := range c.subs {
		s.attachLocked(cn)
	}
	c.once.Do(func() { close(c.first) })
	c.wakeWriter()
}

// uninstall takes the connection down: what was sent on it waits for the next one.
func (c *Client) uninstall(cn *conn) (hint string, err error) {
	c.mu.Lock()
	c.conn = nil
	c.lastErr = cn.err
	var rs []run
	var unnumbered []*call
	for tag, cl := range c.byTag {
		delete(c.byTag, tag)
		switch {
		case cl.state != callSent:
		case cl.acks != nil:
			unnumbered = cl.sentCalls(unnumbered)
		case cl.bound != nil:
			rs = append(rs, c.endLocked(cl, ended(errConnLost, true, false, nil, nil)))
		case cl.req == nil:
			unnumbered = append(unnumbered, cl)
		default:
			cl.state = callQueued
			c.again.pushBack(cl) // install puts them in order
		}
	}
	slices.SortStableFunc(unnumbered, func(a, b *call) int { return cmp.Compare(a.tag, b.tag) })
	for _, cl := range unnumbered {
		cl.state = callQueued
	}
	c.plain.prepend(unnumbered)
	for _, cl := range c.liveLocked() {
		if cl.bound == cn {
			rs = append(rs, c.endLocked(cl, ended(errConnLost, false, false, nil, nil)))
		}
	}
	for _, s := range c.subs {
		s.detachLocked()
	}
	hint, err = cn.hint, cn.err
	c.mu.Unlock()
	runAll(rs)
	return hint, err
}

// alive moves the read deadline. The server pings every cn.ping and so do we, so that silence for more than two periods
// means that the other side is gone, and one lost pong does not.
func (cn *conn) alive() {
	cn.heard.Store(cn.c.now())
	now := time.Now()
	until := now.Add(2*cn.ping + cn.ping/2)
	if until.Sub(cn.readUntil) < cn.ping/4 {
		return
	}
	cn.readUntil = until
	_ = cn.ws.SetReadDeadline(until)
}

// read handles what the server sends, until the connection ends.
func (cn *conn) read() error {
	cn.alive()
	for {
		kind, r, err := cn.ws.NextReader()
		if err != nil {
			return err
		}
		if kind != websocket.BinaryMessage {
			return protocolError("a text message, want binary")
		}
		if err := cn.readAll(r); err != nil {
			return err
		}
		cn.alive()
		for rest := cn.msg; ; {
			var f wire.Raw
			if f, rest, err = wire.Next(rest); err != nil {
				return err
			}
			if err := cn.handle(f); err != nil {
				return err
			}
			if len(rest) == 0 {
				break
			}
		}
		if cap(cn.msg) > readBufMax {
			cn.msg = nil
		}
	}
}

// readAll reads one message into the reused buffer; the read limit bounds it.
func (cn *conn) readAll(r io.Reader) error {
	b := cn.msg[:0]
	if cap(b) == 0 {
		b = make([]byte, 0, socketBuffer)
	}
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err != nil {
			cn.msg = b
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

func (cn *conn) handle(f wire.Raw) error {
	switch f.Type {
	case wire.TypeDelivery:
		return cn.deliver(f)
	case wire.TypeLeaseGone:
		var g wire.LeaseGone
		if err := f.Decode(&g); err != nil {
			return err
		}
		cn.c.gone(&g)
		return nil
	case wire.TypeLeaseCancelled:
		var g wire.LeaseCancelled
		if err := f.Decode(&g); err != nil {
			return err
		}
		cn.c.cancelled(&g)
		return nil
	case wire.TypeRedirect:
		var r wire.Redirect
		if err := f.Decode(&r); err != nil {
			return err
		}
		err := &Error{Code: wire.CodeNotLeader, Message: "redirected: " + r.Reason, Retry: true, Leader: r.Leader}
		cn.fail(err, r.Leader)
		return err
	case wire.TypeFault:
		if f.Tag == 0 {
			var fault wire.Fault
			if err := f.Decode(&fault); err != nil {
				return err
			}
			err := errorOf(&fault)
			cn.fail(err, fault.Leader)
			return err
		}
	}
	if f.Tag == 0 {
		return nil // a push of a later version
	}
	return cn.c.answered(cn, f)
}

// write sends what is queued, all of it in one WebSocket message up to writeTarget, as soon as the last message has been
// handed to the system; and pings.
func (cn *conn) write() {
	defer close(cn.written)
	ping := time.NewTicker(cn.ping)
	defer ping.Stop()
	for {
		select {
		case <-cn.dead:
			bye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
			_ = cn.ws.WriteControl(websocket.CloseMessage, bye, time.Now().Add(closeTimeout))
			_ = cn.ws.Close()
			return
		case <-ping.C:
			if err := cn.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(writeTimeout)); err != nil {
				cn.fail(err, "")
			}
			continue
		case <-cn.wake:
		}
		runtime.Gosched() // whoever is about to queue more may do so first: a system call costs more than many frames
		for cn.fill() {
			_ = cn.ws.SetWriteDeadline(time.Now().Add(writeTimeout))
			if err := cn.ws.WriteMessage(websocket.BinaryMessage, cn.buf); err != nil {
				cn.unflushed()
				cn.fail(err, "")
				break
			}
			cn.flushed()
		}
	}
}

// fill encodes what is queued into cn.buf and reports whether there is anything.
func (cn *conn) fill() bool {
	c := cn.c
	c.mu.Lock()
	var rs []run
	if cap(cn.buf) > 2*readBufMax {
		cn.buf = nil
	}
	cn.buf = cn.buf[:0]
	cn.fills++
	if !cn.failed {
		if cn.owes { // there was no room the last time
			cn.startedLocked()
		}
		for cn.next(&c.plain, &rs) || cn.next(&c.again, &rs) || cn.next(&c.fresh, &rs) {
		}
		cn.startedLocked() // last, when it is known which of them this very message acks
	}
	filled := len(cn.buf) > 0
	c.mu.Unlock()
	runAll(rs)
	return filled
}

// next appends the first call of a queue; false: the queue is empty, stalled, or the message is full.
func (cn *conn) next(q *fifo, rs *[]run) bool {
	c := cn.c
	cl := q.front()
	if cl == nil {
		return false
	}
	if cl.batch != nil {
		cl.size = 128 + cl.batch.size
	}
	limit := int(c.maxFrame.Load())
	if len(cn.buf) > 0 && (len(cn.buf) >= writeTarget || len(cn.buf)+cl.size > limit) {
		return false
	}
	if cl.joins() && cn.nextAcks(q) {
		return true
	}
	if cl.req != nil {
		if b := cl.batch; b != nil && b.live < len(b.msgs) {
			if cl.number == 0 {
				b.compact()
			} else {
				q.pop()
				runs := c.splitLocked(cl)
				for i := len(runs) - 1; i >= 0; i-- {
					q.pushFront(runs[i])
				}
				return true
			}
		}
		if b := cl.batch; b != nil {
			cl.count = uint64(len(b.msgs))
			b.body.Messages = b.msgs
		}
		if cl.number == 0 && !c.numberLocked(cl) {
			c.stalled = true
			return false
		}
		cl.req.Number, cl.req.Low = cl.number, c.lowLocked()
		c.sessionUsed = c.now()
	}
	q.pop()
	if cl.batch != nil && c.lanes[cl.batch.body.Queue] == cl {
		delete(c.lanes, cl.batch.body.Queue)
	}
	c.nextTag++
	cl.tag = c.nextTag
	body := cl.body
	if cl.rebuild != nil {
		body = cl.rebuild()
	}
	if cl.ackDone != nil {
		body = &cl.ack
	}
	from := len(cn.buf)
	cn.buf = wire.AppendFrame(cn.buf, cl.typ, cl.tag, body)
	if n := len(cn.buf) - from; n > limit {
		cn.buf = cn.buf[:from]
		cl.state = callWaiting
		*rs = append(*rs, c.endLocked(cl, &Error{
			Code: wire.CodeTooLarge, Message: fmt.Sprintf("the request is %d bytes long, the server takes %d", n, limit),
			Unknown: cl.unresolved > 0 && cl.changes(), // an earlier server took more
		}))
		return true
	}
	cn.sentLocked(cl)
	cn.ackingLocked(cl)
	cl.shared = nil
	cl.sends++
	cl.unresolved++
	return true
}

// sentLocked notes that a call is in the buffer.
func (cn *conn) sentLocked(cl *call) {
	c := cn.c
	cl.state = callSent
	cl.sentAt = c.now()
	if due := cl.sentAt + int64(suspectAfter); cn.suspectAt > due && !cl.waits() {
		cn.suspectAt = due
		c.watchDeadline(due)
	}
	c.byTag[cl.tag] = cl
}
