package transport

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/quorate/quorate/wire"
)

// outbox is what a connection owes its peer: frames appended by anybody, written by the writer alone.
type outbox struct {
	mu   sync.Mutex
	wake chan struct{} // one token: something is to be written

	// All guarded by mu.
	out      []byte // frames not yet taken by the writer
	cuts     []int  // offsets in out at which a new WebSocket message begins
	msgStart int    // the last of them, or 0
	frames   int    // in out
	taken    int    // bytes that the writer has in hand
	lent     int    // bytes of deliveries in out
	lentOut  int    // and in the writer's hand
	spare    []byte // the writer's other buffer
	spareCut []int
	tags     map[uint64]struct{} // requests under way
	pong     []byte
	owesPong bool

	closing   bool // nothing is appended any more
	closeCode int  // 0: nobody to tell
	closeText string
	kicked    bool          // the writer has ended: the reader's deadline is final
	clean     bool          // a close frame went out
	calm      chan struct{} // somebody waits until nothing is under way; closed then

	bytesOut int64 // of WebSocket messages; the writer's

	maxFrame, maxAnswers, maxDeliver, maxTags int
	pool                                      *pool // that deliveries count in together with those of others; nil: none

	delivery
}

func (o *outbox) init(s *Server) {
	o.wake = make(chan struct{}, 1)
	o.tags = make(map[uint64]struct{})
	o.maxFrame = s.maxFrame
	o.maxAnswers = s.cfg.OutBytes / 2
	o.maxDeliver = s.cfg.OutBytes - o.maxAnswers
	o.maxTags = s.cfg.MaxUnderWay
}

func (c *conn) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Flush wakes the writer. The group calls it once after each batch of completions and deliveries.
func (c *conn) Flush() { c.signal() }

// begin counts a request in. A tag under way twice ends the connection: which of the two an answer is for could not be
// told. ok false: the request has been answered, or the connection is over (alive false).
func (c *conn) begin(raw wire.Raw) (ok, alive bool) {
	if raw.Tag == 0 {
		return false, c.breach("a frame of type %d carries tag 0: a request's tag is above 0", raw.Type)
	}
	c.mu.Lock()
	_, twice := c.tags[raw.Tag]
	full := len(c.tags) >= c.maxTags
	if !twice && !full {
		c.tags[raw.Tag] = struct{}{}
	}
	c.mu.Unlock()
	switch {
	case twice:
		return false, c.breach("tag %d is under way already: a request's tag is unique among those not yet answered", raw.Tag)
	case full:
		f := wire.NewFault(wire.CodeOverloaded, "%d requests of this connection are under way: wait for answers", c.maxTags)
		f.RetryAfterMillis = 100
		c.push(wire.TypeFault, raw.Tag, f)
		return false, true
	}
	return true, true
}

// appendFrame adds a frame. mu is held. It reports whether the frame was taken: it is not when the connection is closing,
// nor when the answers owed have passed their bound, which closes it.
func (c *conn) appendFrame(t wire.Type, tag uint64, body any) bool {
	if tag != 0 {
		delete(c.tags, tag)
	}
	if c.closing {
		return false
	}
	start := len(c.out)
	if owed := start - c.lent; owed > c.maxAnswers {
		c.srv.metrics.slowConsumers.WithLabelValues("closed").Inc()
		c.log.Warn("client reads too slowly, connection closed", "bytes", owed)
		c.pool.add(-c.lent)
		c.out, c.cuts, c.msgStart, c.frames, c.lent = nil, c.cuts[:0], 0, 0, 0
		c.closeWith(CloseSlowConsumer, "the answers owed passed the bound: read faster, or ask for less at once")
		c.signal()
		return false
	}
	c.out = wire.AppendFrame(c.out, t, tag, body)
	if start > c.msgStart && len(c.out)-c.msgStart > c.maxFrame {
		c.cuts = append(c.cuts, start)
		c.msgStart = start
	}
	c.frames++
	if t == wire.TypeDelivery {
		c.lent += len(c.out) - start
		c.pool.add(len(c.out) - start)
	}
	return true
}

// push adds a frame and wakes the writer.
func (c *conn) push(t wire.Type, tag uint64, body any) {
	c.mu.Lock()
	c.appendFrame(t, tag, body)
	c.mu.Unlock()
	c.signal()
}

// fault answers a request with an error.
func (c *conn) fault(tag uint64, f *wire.Fault) bool {
	c.srv.metrics.fault(f)
	c.push(wire.TypeFault, tag, f)
	return true
}

// fail tells the peer what it did wrong and closes.
func (c *conn) fail(code int, f *wire.Fault) {
	c.srv.metrics.fault(f)
	c.log.Info("client at fault, connection closed", "code", code, "err", f.Message)
	c.mu.Lock()
	c.appendFrame(wire.TypeFault, 0, f)
	c.closeWith(code, f.Message)
	c.mu.Unlock()
	c.signal()
}

// close lets out what is pending and then closes. Only the first close counts.
func (c *conn) close(code int, text string) {
	c.mu.Lock()
	c.closeWith(code, text)
	c.mu.Unlock()
	c.signal()
}

// closeWith: mu is held.
func (c *conn) closeWith(code int, text string) {
	if c.closing {
		return
	}
	c.closing, c.closeCode, c.closeText = true, code, wire.CutText(text, maxCloseText)
	c.endJudging()
}

// gone ends the writer: the reader has ended. A close that was asked for before still goes out.
func (c *conn) gone() { c.close(0, "") }

// cut closes the socket under everybody.
func (c *conn) cut() {
	c.gone()
	if c.ws != nil {
		_ = c.ws.NetConn().Close()
	}
}

func (c *conn) isKicked() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kicked
}

func (c *conn) closedCleanly() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clean
}

// owePong answers a ping, the last one where several came before the writer got to it.
func (c *conn) owePong(data string) {
	c.mu.Lock()
	c.pong = append(c.pong[:0], data...)
	c.owesPong = true
	c.mu.Unlock()
	c.signal()
}

// quiet waits until no request is under way and everything owed has been written, the connection is closing, or ctx ends.
func (c *conn) quiet(ctx context.Context) {
	c.mu.Lock()
	if c.calm == nil {
		c.calm = make(chan struct{})
		c.settle()
	}
	calm := c.calm
	c.mu.Unlock()
	select {
	case <-calm:
	case <-ctx.Done():
	}
}

// settle tells who waits in quiet. mu is held.
func (c *conn) settle() {
	if c.calm == nil || !c.closing && (len(c.tags) > 0 || len(c.out) > 0 || c.taken > 0) {
		return
	}
	select {
	case <-c.calm:
	default:
		close(c.calm)
	}
}

// write is the writer: the only goroutine that sends data, pings, pongs and close frames.
func (c *conn) write() {
	defer close(c.wrote)
	ping := time.NewTicker(c.srv.cfg.PingEvery)
	defer ping.Stop()
	var pong []byte
	for {
		pingDue := false
		select {
		case <-c.wake:
		case <-ping.C:
			pingDue = true
		}
		c.mu.Lock()
		buf, cuts, frames := c.out, c.cuts, c.frames
		c.out, c.cuts, c.msgStart, c.frames = c.spare[:0], c.spareCut[:0], 0, 0
		c.spare, c.spareCut = nil, nil
		c.taken, c.lentOut, c.lent = len(buf), c.lent, 0
		owesPong := c.owesPong
		c.owesPong = false
		pong = append(pong[:0], c.pong...)
		closing, code, text := c.closing, c.closeCode, c.closeText
		c.mu.Unlock()

		err := c.send(buf, cuts, frames)
		if err == nil && owesPong {
			err = c.control(websocket.PongMessage, pong)
		}
		if err == nil && pingDue && !closing {
			err = c.control(websocket.PingMessage, nil)
		}
		if err == nil && closing && code != 0 {
			err = c.control(websocket.CloseMessage, websocket.FormatCloseMessage(code, text))
		}

		c.mu.Lock()
		c.taken, c.lentOut = 0, 0
		if cap(buf) <= keepBufferBytes || len(buf) > cap(buf)/4 && cap(buf) <= c.maxFrame {
			c.spare = buf
		}
		c.spareCut = cuts
		if err != nil || closing {
			c.closing, c.kicked = true, true
			c.clean = err == nil && code != 0
			c.out, c.spare, c.cuts = nil, nil, nil
			_ = c.ws.SetReadDeadline(time.Unix(1, 0)) // ends a read under way; on a closed socket it has ended
		}
		c.settle()
		c.mu.Unlock()
		if err != nil {
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				c.srv.metrics.slowConsumers.WithLabelValues("stalled").Inc()
				c.log.Warn("client does not read, connection dropped", "took", c.srv.cfg.WriteTimeout)
			}
			return
		}
		if closing {
			return
		}
	}
}

// send writes the frames of buf as WebSocket messages, cut where cuts says.
func (c *conn) send(buf []byte, cuts []int, frames int) error {
	if len(buf) == 0 {
		return nil
	}
	c.srv.metrics.sent(len(buf), frames)
	c.bytesOut += int64(len(buf))
	start := 0
	for i := 0; i <= len(cuts); i++ {
		end := len(buf)
		if i < len(cuts) {
			end = cuts[i]
		}
		_ = c.ws.SetWriteDeadline(time.Now().Add(c.srv.cfg.WriteTimeout)) // gorilla: always nil
		if err := c.ws.WriteMessage(websocket.BinaryMessage, buf[start:end]); err != nil {
			return err
		}
		start = end
	}
	return nil
}

func (c *conn) control(kind int, data []byte) error {
	err := c.ws.WriteControl(kind, data, time.Now().Add(c.srv.cfg.WriteTimeout))
	if errors.Is(err, websocket.ErrCloseSent) && kind == websocket.CloseMessage {
		return nil // gorilla has told a peer of its breach of RFC 6455 already
	}
	return err
}
