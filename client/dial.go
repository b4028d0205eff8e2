package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"time"

	"github.com/gorilla/websocket"
	"github.com/quorate/quorate/wire"
)

// Bounds of connecting.
const (
	dialTimeout  = 3 * time.Second        // TCP, upgrade and hello of one address
	dialStagger  = 200 * time.Millisecond // an address that has not answered by then gets a rival
	dialHops     = 4                      // redirects followed in one round
	attachLimit  = 10 * time.Second       // opening the session takes a commit
	backoffBase  = 50 * time.Millisecond
	backoffMax   = 500 * time.Millisecond
	roundSlack   = 500 * time.Millisecond // of a first round; doubles with failures up to dialTimeout
	settledAfter = time.Second            // a connection that lived this long ends a row of failures
	maxLearned   = 16                     // leader addresses remembered beside Options.Addrs

	socketBuffer = 64 << 10
)

// dialed is an open connection whose hello was answered.
type dialed struct {
	ws      *websocket.Conn
	addr    string
	welcome wire.Welcome
}

func protocolError(format string, args ...any) error {
	return fmt.Errorf("client: protocol error: "+format, args...)
}

// hello dials one address and exchanges hello and welcome. Nothing is left open on error or when ctx ends.
func (c *Client) hello(ctx context.Context, addr string) (*dialed, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var stop func() bool // the dialer watches ctx while it connects, but not while it waits for the upgrade
	d := websocket.Dialer{
		NetDialContext: func(dctx context.Context, _, addr string) (net.Conn, error) {
			nc, err := c.o.Dial(dctx, addr)
			if err == nil {
				stop = context.AfterFunc(ctx, func() { _ = nc.Close() })
			}
			return nc, err
		},
		HandshakeTimeout: dialTimeout,
		ReadBufferSize:   socketBuffer, WriteBufferSize: socketBuffer,
		Subprotocols: []string{wire.Subprotocol},
	}
	u := url.URL{Scheme: "ws", Host: addr, Path: "/v1/ws"}
	ws, resp, err := d.DialContext(ctx, u.String(), nil) //nolint:bodyclose // gorilla leaves nothing to close
	if err != nil {
		if stop != nil {
			stop()
		}
		if resp != nil {
			return nil, fmt.Errorf("connect to %s: %w: status %s", addr, err, resp.Status)
		}
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	if ws.Subprotocol() != wire.Subprotocol {
		_ = ws.Close()
		return nil, fmt.Errorf("connect to %s: the server speaks subprotocol %q, want %q", addr, ws.Subprotocol(), wire.Subprotocol)
	}
	ws.SetReadLimit(wire.MaxReadBytes)
	w := &dialed{ws: ws, addr: addr}
	err = exchange(ws, dialTimeout, wire.TypeHello, &wire.Hello{Versions: []uint16{wire.Version}, Client: c.o.Name}, wire.TypeWelcome, &w.welcome)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = ws.Close()
		return nil, fmt.Errorf("hello to %s: %w", addr, err)
	}
	return w, nil
}

// exchange sends one frame and waits for its answer, on a connection that has no reader or writer yet. A fault is
// returned as *Error.
func exchange(ws *websocket.Conn, limit time.Duration, t wire.Type, body any, want wire.Type, dst any) error {
	deadline := time.Now().Add(limit)
	_ = ws.SetWriteDeadline(deadline)
	_ = ws.SetReadDeadline(deadline)
	if err := ws.WriteMessage(websocket.BinaryMessage, wire.AppendFrame(nil, t, 1, body)); err != nil {
		return err
	}
	kind, msg, err := ws.ReadMessage()
	if err != nil {
		return err
	}
	if kind != websocket.BinaryMessage {
		return protocolError("a text message, want binary")
	}
	f, rest, err := wire.Next(msg)
	if err != nil {
		return err
	}
	switch {
	case f.Type == wire.TypeFault:
		var fault wire.Fault
		if err := f.Decode(&fault); err != nil {
			return err
		}
		return errorOf(&fault)
	case f.Type == wire.TypeRedirect:
		var r wire.Redirect
		if err := f.Decode(&r); err != nil {
			return err
		}
		return &Error{Code: wire.CodeNotLeader, Message: "redirected: " + r.Reason, Retry: true, Leader: r.Leader}
	case f.Type != want || len(rest) > 0:
		return protocolError("frame type %d and %d bytes after it, want type %d alone", f.Type, len(rest), want)
	}
	return f.Decode(dst)
}

// round tries to reach the leader once: hint first, then the other addresses, the next one starting when the last has
// failed or has been silent for dialStagger. Followers' hints are followed, dialHops times in all. On error nothing is
// left open; once somebody has answered, silent addresses are waited for no longer than slack, since the answer may be
// another one by then. hopeless tells that every address gave an answer that no repetition changes.
func (c *Client) round(ctx context.Context, hint string, slack time.Duration) (won *dialed, hopeless bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	type outcome struct {
		d   *dialed
		err error
		a   string
	}
	todo := c.addresses(hint)
	results := make(chan outcome)
	running := 0
	tried := make(map[string]bool)
	hops := 0
	last := time.Now()
	var errs []error
	hopeless = true
	defer func() {
		cancel()
		for ; running > 0; running-- {
			if r := <-results; r.d != nil {
				_ = r.d.ws.Close()
			}
		}
	}()
	start := func() {
		for len(todo) > 0 {
			a := todo[0]
			todo = todo[1:]
			if tried[a] {
				continue
			}
			tried[a] = true
			running++
			last = time.Now()
			go func() {
				d, err := c.hello(ctx, a)
				results <- outcome{d, err, a}
			}()
			return
		}
	}
	start()
	stagger := time.NewTicker(dialStagger)
	defer stagger.Stop()
	for running > 0 {
		select {
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		case <-stagger.C:
			start()
			if len(errs) > 0 && len(todo) == 0 && time.Since(last) > slack {
				return nil, false, errors.Join(errs...)
			}
			continue
		case r := <-results:
			running--
			if r.err != nil {
				var e *Error
				hopeless = hopeless && errors.As(r.err, &e) && !e.Retry
				errs = append(errs, r.err)
				start()
				continue
			}
			w := &r.d.welcome
			if w.IsLeader {
				return r.d, false, nil
			}
			_ = r.d.ws.Close()
			hopeless = false
			errs = append(errs, fmt.Errorf("%s (%s) does not lead", r.a, w.Node))
			if w.Leader != "" && !tried[w.Leader] && hops < dialHops {
				hops++
				c.learn(w.Leader)
				todo = slices.Insert(todo, 0, w.Leader)
			}
			start()
		}
	}
	return nil, hopeless, errors.Join(errs...)
}

// addresses lists whom to try, the likeliest first, in an order drawn anew each time.
func (c *Client) addresses(hint string) []string {
	c.learnedMu.Lock()
	rest := append(slices.Clone(c.o.Addrs), c.learned...)
	c.learnedMu.Unlock()
	c.jit.shuffle(rest)
	if hint != "" {
		rest = slices.Insert(rest, 0, hint)
	}
	return rest
}

// learn remembers a leader's address, so that the client outlives the nodes it was given.
func (c *Client) learn(addr string) {
	c.learnedMu.Lock()
	defer c.learnedMu.Unlock()
	if slices.Contains(c.o.Addrs, addr) || slices.Contains(c.learned, addr) {
		return
	}
	if len(c.learned) == maxLearned {
		c.learned = c.learned[1:]
	}
	c.learned = append(c.learned, addr)
}

// run keeps the client connected: one round of dialling after the other, with back-off and full jitter between failures
// and none before the first try or after a redirect from a connection that had worked.
func (c *Client) run() {
	defer c.wg.Done()
	failures, hint, free := 0, "", true
	for c.life.Err() == nil {
		if failures > 0 && !c.pause(c.jit.wait(failures, backoffBase, backoffMax, 0)) {
			return
		}
		d, hopeless, err := c.round(c.life, hint, min(roundSlack<<min(failures, 10), dialTimeout))
		hint = ""
		if err != nil {
			failures++
			c.notConnected(err, hopeless)
			continue
		}
		born := time.Now()
		next, err := c.serve(d)
		if c.life.Err() != nil {
			return
		}
		hint = next
		if hint != "" {
			c.learn(hint)
		}
		switch {
		case time.Since(born) >= settledAfter:
			failures, free = 0, true
		case hint != "" && hint != d.addr && free: // one redirect is followed at once, a row of them is not
			free = false
		default:
			failures++
		}
		c.notConnected(fmt.Errorf("connection to %s: %w", d.addr, err), false)
	}
}

func (c *Client) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.life.Done():
		return false
	}
}

func (c *Client) notConnected(err error, hopeless bool) {
	c.mu.Lock()
	level := slog.LevelDebug
	if !c.saidLost {
		level = slog.LevelInfo // the first of a row
	}
	c.saidLost = true
	c.lastErr = err
	if hopeless && !c.attached {
		c.hopeless = err
		c.once.Do(func() { close(c.first) })
	}
	c.mu.Unlock()
	if c.life.Err() == nil {
		c.log.Log(c.life, level, "not connected", "err", err)
	}
}
