package transport

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/wire"
)

// conn is one WebSocket. Its reader is the goroutine of the HTTP handler, its writer a second one; the group's goroutine
// adds answers and deliveries to its outbox and never waits for it.
type conn struct {
	srv    *Server
	log    *slog.Logger
	remote string // the peer's address
	ws     *websocket.Conn
	ctx    context.Context // of its slow requests; ended when the reader ends
	cancel context.CancelFunc
	// judging ends when nobody waits any more for what is judged by a schema: as soon as the connection is closing, which the reader, who
	// judges, learns last.
	judging    context.Context
	endJudging context.CancelFunc
	slow       sync.WaitGroup
	seats      atomic.Int32  // taken by slow requests
	wrote      chan struct{} // closed when the writer has ended

	attached atomic.Pointer[attached]
	opening  atomic.Bool

	outbox

	// From here on: the reader's own.
	reader
	in        []byte
	roomy     int // messages in a row that left most of in unused
	greeted   bool
	inMessage bool
	bytesIn   int64         // of WebSocket messages
	now       time.Time     // when the WebSocket message at hand had been read
	deadline  time.Duration // on the broker's clock, of the requests in it
	props     []*group.Proposal
	visit     context.Context // there is no socket, see visit.go; when it ends, waits end as if they had been that long. nil: there is one
	waits     []func()        // of a visit: each ends the wait of a pull
	key       *idempotencyKey // of the operations of a visit; nil: they have none
	repeats   repeats
}

func newConn(s *Server, r *http.Request) *conn {
	c := &conn{
		srv: s,
		log: s.log.With("remote", r.RemoteAddr), remote: r.RemoteAddr,
		wrote: make(chan struct{}),
	}
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	c.judging, c.endJudging = context.WithCancel(c.ctx)
	c.init(s)
	return c
}

// serve runs the connection to its end and waits for everything it started.
func (c *conn) serve(ws *websocket.Conn) {
	c.ws = ws
	defer c.logged()()
	ws.SetPingHandler(func(data string) error {
		c.alive()
		c.owePong(data)
		return nil
	})
	ws.SetPongHandler(func(string) error {
		c.alive()
		return nil
	})
	ws.SetCloseHandler(func(code int, _ string) error {
		c.close(code, "")
		return nil
	})
	c.setReadDeadline(time.Now().Add(c.srv.cfg.HelloTimeout))
	go c.write()
	c.read()

	c.cancel() // before looking for the session: attach looks at ctx after storing it
	if a := c.attached.Load(); a != nil {
		a.leave()
	}
	c.gone()
	<-c.wrote
	c.linger()
	_ = ws.Close() // nothing can be done about it, and nothing depends on it
	c.slow.Wait()
	c.log.Debug("connection ended")
}

// alive says that the peer has been heard.
func (c *conn) alive() {
	if c.greeted && !c.inMessage {
		c.setReadDeadline(time.Now().Add(c.srv.cfg.PongTimeout))
	}
}

// setReadDeadline moves the reader's deadline unless the writer has ended and told the reader to end too.
func (c *conn) setReadDeadline(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.kicked {
		_ = c.ws.SetReadDeadline(t) // fails on a closed socket, which the next read reports
	}
}

var errTooBig = errors.New("message too big")

// read takes in messages until the connection is over.
func (c *conn) read() {
	for {
		kind, r, err := c.ws.NextReader()
		var msg []byte
		if err == nil {
			c.inMessage = true
			if c.greeted {
				c.setReadDeadline(time.Now().Add(c.srv.cfg.MessageTimeout))
			}
			msg, err = c.readMessage(r)
		}
		if err != nil {
			c.readError(err)
			return
		}
		c.inMessage = false
		c.now = time.Now()
		c.srv.metrics.received(len(msg))
		c.bytesIn += int64(len(msg))
		if kind != websocket.BinaryMessage {
			c.fail(CloseText, wire.NewFault(wire.CodeInvalidArgument, "a text message: frames travel in binary messages"))
			return
		}
		if !c.message(msg) {
			return
		}
		if c.greeted {
			c.setReadDeadline(c.now.Add(c.srv.cfg.PongTimeout))
		}
	}
}

// readMessage reads one WebSocket message into the reused buffer. The buffer grows with what has arrived, never with
// what a length field promises.
func (c *conn) readMessage(r io.Reader) ([]byte, error) {
	if cap(c.in) > keepBufferBytes && c.roomy > 16 {
		c.in = nil
		c.roomy = 0
	}
	b := c.in[:0]
	for {
		if len(b) == cap(b) {
			b = append(b, make([]byte, max(512, len(b)))...)[:len(b)]
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if len(b) > c.srv.maxFrame {
			return nil, errTooBig
		}
		if err == io.EOF {
			c.in = b
			if len(b) < cap(b)/4 {
				c.roomy++
			} else {
				c.roomy = 0
			}
			return b, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// readError ends the connection for the reason that reading ended.
func (c *conn) readError(err error) {
	var timeout net.Error
	switch {
	case errors.Is(err, errTooBig) || errors.Is(err, websocket.ErrReadLimit):
		c.fail(CloseTooBig, wire.NewFault(wire.CodeTooLarge,
			"a WebSocket message of more than %d bytes (max_frame_bytes in welcome): split the batch", c.srv.maxFrame))
	case errors.As(err, &timeout) && timeout.Timeout():
		switch {
		case c.isKicked():
		case !c.greeted:
			c.fail(CloseLate, wire.NewFault(wire.CodeInvalidArgument, "no hello frame within %s of connecting", c.srv.cfg.HelloTimeout))
		case c.inMessage:
			c.fail(CloseLate, wire.NewFault(wire.CodeInvalidArgument, "a WebSocket message was not complete within %s", c.srv.cfg.MessageTimeout))
		default:
			c.srv.metrics.silent.Inc()
			c.log.Info("client silent, connection dropped", "took", c.srv.cfg.PongTimeout)
		}
	}
}

// linger lets the peer read its close frame: a socket closed over unread input is reset, and the reset overtakes what
// was sent. Bounded in time and bytes.
func (c *conn) linger() {
	nc := c.ws.NetConn()
	if !c.closedCleanly() {
		return
	}
	if half, ok := nc.(interface{ CloseWrite() error }); ok {
		if half.CloseWrite() != nil {
			return
		}
	}
	if nc.SetReadDeadline(time.Now().Add(c.srv.cfg.Linger)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, nc, int64(c.srv.maxFrame)) // whatever ends it, the socket is closed next
}

// message handles one WebSocket message: a sequence of frames, whose proposals go to the group together and in order.
// False: the connection is over.
func (c *conn) message(msg []byte) bool {
	c.deadline = c.srv.cfg.Broker.Clock().Mono() + c.srv.cfg.CallTimeout
	ok := true
	frames := 0
	for ok {
		var raw wire.Raw
		var err error
		if raw, msg, err = wire.Next(msg); err != nil {
			ok = c.badFrame(err)
			break
		}
		frames++
		ok = c.frame(raw)
		if len(msg) == 0 {
			break
		}
	}
	c.srv.metrics.framesIn.Add(float64(frames))
	c.submit()
	return ok
}

// submit hands the proposals collected so far to the group.
func (c *conn) submit() {
	if len(c.props) == 0 {
		return
	}
	c.srv.metrics.proposed.Observe(float64(len(c.props)))
	c.srv.group("").Propose(c.props...)
	clear(c.props)
	c.props = c.props[:0]
}

// badFrame ends the connection over bytes that are no frame.
func (c *conn) badFrame(err error) bool {
	f := wire.NewFault(wire.CodeInvalidArgument, "%s", err.Error())
	c.fail(CloseBadFrame, f)
	return false
}

// breach ends the connection over a frame that is out of turn.
func (c *conn) breach(format string, args ...any) bool {
	c.fail(CloseBadFrame, wire.NewFault(wire.CodeInvalidArgument, format, args...))
	return false
}
