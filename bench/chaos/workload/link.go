package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"time"

	"github.com/gorilla/websocket"
	"github.com/quorate/quorate/bench/chaos/history"
	"github.com/quorate/quorate/wire"
)

// link is a client of the plainest kind: one request at a time, its number and its answer in plain sight, sent again under
// the same number until it is answered or given up. The SDK hides all this, which is what a history is about. It is used
// by one goroutine.
type link struct {
	addrs   []string
	dial    func(ctx context.Context, addr string) (net.Conn, error) // nil: TCP
	rng     *rand.Rand
	rec     *history.Recorder
	worker  int
	ws      *websocket.Conn
	session string
	number  uint64 // the last one drawn
	tag     uint64
	hint    string
	most    time.Duration // between two tries; 0: that of those in a hurry
	misses  int           // tries in a row that came to nothing
}

// Patience of a link.
const (
	linkAnswer = 2 * time.Second // for an answer, before the connection is taken for dead
	linkCall   = 8 * time.Second // for a call, through reconnects
)

var errNoAnswer = errors.New("no answer")

func (l *link) drop() {
	if l.ws != nil {
		_ = l.ws.Close()
		l.ws = nil
	}
}

// hurry is how long a link waits between two tries at most that has not been told to wait longer.
const hurry = 60 * time.Millisecond

// backOff waits a little, drawn, as long as ctx lives. With every try that came to nothing it is longer, up to most.
func (l *link) backOff(ctx context.Context) error {
	up := hurry << min(l.misses, 16)
	l.misses++
	return linger(ctx, 5*time.Millisecond+time.Duration(l.rng.Int64N(int64(min(up, max(l.most, hurry))))))
}

// linger lets time pass, which is what leases, delays and slow workers are about.
func linger(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// due waits for the next tick; false: ctx has ended, also where the tick has come in the same moment.
func due(ctx context.Context, tick *time.Ticker) bool {
	select {
	case <-tick.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// connect finds the leader and attaches the session, trying until ctx ends.
func (l *link) connect(ctx context.Context) error {
	for l.ws == nil {
		addr := l.hint
		if addr == "" {
			addr = l.addrs[l.rng.IntN(len(l.addrs))]
		}
		l.hint = ""
		err := l.try(ctx, addr)
		if err == nil {
			l.misses = 0
			return nil
		}
		l.drop()
		if l.hint != "" {
			continue
		}
		if l.backOff(ctx) != nil {
			return fmt.Errorf("connect: %w (last: %w)", ctx.Err(), err)
		}
	}
	return nil
}

func (l *link) try(ctx context.Context, addr string) error {
	d := websocket.Dialer{HandshakeTimeout: time.Second, Subprotocols: []string{wire.Subprotocol}}
	if l.dial != nil {
		d.NetDialContext = func(ctx context.Context, _, addr string) (net.Conn, error) { return l.dial(ctx, addr) }
	}
	u := url.URL{Scheme: "ws", Host: addr, Path: "/v1/ws"}
	ws, _, err := d.DialContext(ctx, u.String(), nil)
	if err != nil {
		return err
	}
	ws.SetReadLimit(wire.MaxReadBytes)
	l.ws = ws
	raw, err := l.exchange(wire.TypeHello, &wire.Hello{Versions: []uint16{wire.Version}, Client: "history"})
	if err != nil {
		return err
	}
	var w wire.Welcome
	if err := raw.Decode(&w); err != nil {
		return err
	}
	if !w.IsLeader {
		if w.Leader != addr {
			l.hint = w.Leader
		}
		return fmt.Errorf("%s does not lead", addr)
	}
	for {
		raw, err := l.exchange(wire.TypeOpenSession, &wire.OpenSession{Session: l.session})
		if err != nil {
			return err
		}
		if raw.Type == wire.TypeFault {
			var f wire.Fault
			if err := raw.Decode(&f); err != nil {
				return err
			}
			if f.Code == wire.CodeSessionExpired && l.session != "" {
				l.session = ""
				continue
			}
			return fmt.Errorf("open session: %s: %s", f.Code, f.Message)
		}
		var o wire.SessionOpened
		if err := raw.Decode(&o); err != nil {
			return err
		}
		if o.Session != l.session {
			l.session, l.number = o.Session, 0
		}
		return nil
	}
}

// exchange sends one request and reads until its answer.
func (l *link) exchange(t wire.Type, body any) (wire.Raw, error) {
	l.tag++
	tag := l.tag
	patience := linkAnswer
	if pull, ok := body.(*wire.Lease); ok { // is answered when there is something, or its wait is over
		patience += time.Duration(pull.WaitMillis) * time.Millisecond
	}
	deadline := time.Now().Add(patience)
	_ = l.ws.SetWriteDeadline(deadline)
	if err := l.ws.WriteMessage(websocket.BinaryMessage, wire.AppendFrame(nil, t, tag, body)); err != nil {
		return wire.Raw{}, fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	for {
		_ = l.ws.SetReadDeadline(deadline)
		_, msg, err := l.ws.ReadMessage()
		if err != nil {
			return wire.Raw{}, fmt.Errorf("%w: %w", errNoAnswer, err)
		}
		for len(msg) > 0 {
			var raw wire.Raw
			if raw, msg, err = wire.Next(msg); err != nil {
				return wire.Raw{}, err
			}
			if raw.Tag == tag {
				return raw, nil
			}
		}
	}
}

// abandon sends a request and is gone before the answer; cut: in the middle of the request, so that it never arrives whole.
func (l *link) abandon(ctx context.Context, t wire.Type, body any, cut bool) {
	if l.connect(ctx) != nil {
		return
	}
	l.tag++
	b := wire.AppendFrame(nil, t, l.tag, body)
	if cut { // the head of a masked frame that says more than follows (RFC 6455 section 5.2)
		_, _ = l.ws.NetConn().Write(append([]byte{0x82, 0x80 | 120, 0, 0, 0, 0}, b[:min(len(b), 20)]...))
	} else {
		_ = l.ws.WriteMessage(websocket.BinaryMessage, b)
	}
	l.drop()
}

// answer is what a call came to.
type answer struct {
	class history.Class
	code  string
	at    wire.At
	fault wire.Fault
	raw   wire.Raw // where class is OK
	open  bool     // there is an earlier sending of which nobody knows what became
}

// understood is what an answer of success says. One that cannot be decoded has an unknown outcome.
func understood[T any](a *answer) (got T, ok bool) {
	if a.class != history.OK {
		return got, false
	}
	if err := a.raw.Decode(&got); err != nil {
		*a = answer{class: history.Unknown}
		return got, false
	}
	return got, true
}

// ask sends one request until it is answered for good, or patience ends. The number in body stays as it is.
func (l *link) ask(ctx context.Context, t wire.Type, body any) (a answer) {
	ctx, cancel := context.WithTimeout(ctx, linkCall)
	defer cancel()
	open := 0 // sendings of which nobody knows what became
	session := l.session
	for first := true; ; first = false {
		if !first && l.backOff(ctx) != nil {
			return giveUp(open)
		}
		if l.connect(ctx) != nil {
			return giveUp(open)
		}
		if session == "" {
			session = l.session
		}
		if l.session != session { // its number means nothing any more
			return giveUp(open)
		}
		raw, err := l.exchange(t, body)
		if err != nil {
			l.drop()
			open++
			continue
		}
		if raw.Type != wire.TypeFault {
			return answer{class: history.OK, raw: raw, open: open > 0}
		}
		var f wire.Fault
		if err := raw.Decode(&f); err != nil {
			l.drop()
			open++
			continue
		}
		a = answer{class: history.Refused, code: string(f.Code), fault: f}
		if f.At != nil {
			a.at = *f.At
		}
		switch {
		case f.Code == wire.CodeNotLeader || f.Code == wire.CodeNoLeader:
			l.hint = f.Leader
			l.drop()
			if open == 0 && f.Code == wire.CodeNoLeader && l.rng.IntN(4) == 0 {
				return a
			}
		case f.Unknown:
			open++
		case a.at.Index == 0 && open > 0: // this sending was refused; an earlier one may be in the log
		case f.Code == wire.CodeSessionExpired && open > 0:
			return giveUp(open)
		default:
			return a
		}
	}
}

// part is what an answer says of one message or id, with the place of the answer: a refusal that the log gave has its place, and one that has none
// speaks of this sending alone.
func (a answer) part(at wire.At, f *wire.Fault) answer {
	if f == nil {
		return answer{class: history.OK, at: at}
	}
	p := answer{class: history.Refused, code: string(f.Code)}
	if f.At != nil {
		p.at = *f.At
	}
	if f.Unknown || a.open && p.at.Index == 0 {
		p.class = history.Unknown
	}
	return p
}

func giveUp(open int) answer {
	if open > 0 {
		return answer{class: history.Unknown}
	}
	return answer{class: history.Refused, code: "unsent"}
}

// request draws count numbers. It gives up where no session is to be had for a while, so that nobody waits for ever whose ctx does not end.
func (l *link) request(ctx context.Context, count int) (wire.Request, error) {
	ctx, cancel := context.WithTimeout(ctx, linkCall)
	defer cancel()
	if err := l.connect(ctx); err != nil { // a session first
		return wire.Request{}, err
	}
	first := l.number + 1
	l.number += uint64(count)
	return wire.Request{Number: first, Low: max(1, first-min(first, 200))}, nil
}

// ended notes the end of a call that has no more to say than its class.
func (l *link) ended(e history.Event, a answer) {
	e.Kind, e.Class, e.Code = history.Return, a.class, a.code
	if a.class != history.Unknown {
		e.Index, e.Time = a.at.Index, a.at.Time
	}
	l.rec.Add(e)
}
