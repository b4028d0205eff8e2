package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/quorate/quorate/wire"
)

// hopHeader marks a request that another node has sent on, with that node's label: it is not sent on again.
const hopHeader = "Quorate-Forwarded-By"

// SentOnBy is the label of the node that has sent a request on, "" where it came from its caller. Anybody can claim it.
func SentOnBy(r *http.Request) string {
	by := r.Header.Get(hopHeader)
	return by[:min(len(by), 64)]
}

// newPeers is the client that forwards. Waits are the requests' own, so an answer may take long to begin.
func newPeers(dial func(ctx context.Context, addr string) (net.Conn, error)) *http.Client {
	if dial == nil {
		d := net.Dialer{Timeout: time.Second}
		dial = func(ctx context.Context, addr string) (net.Conn, error) { return d.DialContext(ctx, "tcp", addr) }
	}
	return &http.Client{
		Transport: &http.Transport{
			DialContext:         func(ctx context.Context, _, addr string) (net.Conn, error) { return dial(ctx, addr) },
			MaxIdleConnsPerHost: 64,
			IdleConnTimeout:     30 * time.Second, // less than what the other side waits
			DisableCompression:  true,             // what the caller accepts is between him and the leader
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// forwarded are the headers that go to the leader, answered the ones that come back. All others are between two neighbours.
var (
	forwarded = []string{"Accept", "Accept-Encoding", "Content-Type", keyHeader, "If-None-Match", "Last-Event-ID", "Traceparent", "Tracestate", "User-Agent"}
	returned  = []string{"Allow", "Content-Disposition", "Content-Encoding", "Content-Length", "Content-Type", replayedHeader, "Link", "Quorate-Content-Type", "Quorate-Index", "Quorate-Time", "Retry-After"}
)

// forward has the leader answer. It is asked once, and does not send on: while nodes disagree about who leads there is none to go to.
// A fault says that nobody has answered.
func (x *exchange) forward(leader string) *wire.Fault {
	none := func(why string) *wire.Fault {
		return later(wire.NewFault(wire.CodeNoLeader, "%s: try again", why), time.Second)
	}
	by := x.r.Header.Get(hopHeader)
	switch {
	case by != "":
		return none("leadership is moving: another node sent the request here, and this one does not lead")
	case leader == "":
		return none("there is no leader at present")
	}
	wait := time.Duration(x.waitMillis()) * time.Millisecond
	ctx, silent, cancel := cutWhenSilent(x.ctx, wait+2*x.api.cfg.CallTimeout)
	defer cancel()
	// Where a connection that was kept breaks before the first byte of an answer, net/http sends what has a key again by itself, on a new one. That
	// this one could not be made says nothing of what has been sent.
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	req, err := http.NewRequestWithContext(ctx, x.r.Method, "http://"+leader+x.r.URL.RequestURI(), bytes.NewReader(x.body))
	if err != nil {
		return wire.NewFault(wire.CodeInternal, "the request cannot be sent on: %v", err)
	}
	for _, name := range forwarded {
		if v := x.r.Header.Get(name); v != "" {
			req.Header.Set(name, v)
		}
	}
	req.Header.Set("X-Request-Id", x.id)
	req.Header.Set(hopHeader, x.api.cfg.Label)
	resp, err := x.api.peers.Do(req)
	if err != nil {
		return x.unreached(leader, err, sent.Load())
	}
	defer resp.Body.Close()
	if x.route.stream && resp.StatusCode >= http.StatusInternalServerError {
		if f := leaderless(resp); f != nil {
			return f
		}
	}
	h := x.w.Header()
	for _, name := range returned {
		if v := resp.Header.Get(name); v != "" {
			h.Set(name, v)
		}
	}
	for _, v := range resp.Header.Values("Vary") {
		h.Add("Vary", v)
	}
	if x.route.stream && resp.StatusCode == http.StatusOK {
		x.relay(resp, silent)
		return nil
	}
	x.status = resp.StatusCode
	_ = x.control.SetWriteDeadline(time.Now().Add(x.api.cfg.WriteTimeout)) // without deadlines there are none to move
	x.w.WriteHeader(x.status)
	if _, err := io.Copy(x.w, resp.Body); err != nil {
		x.api.log.Debug("a forwarded answer was cut", "request", x.id, "err", err)
	}
	return nil
}

// leaderless reads a refusal that says that who was asked leads no more, or not well, which a stream waits out; nil: it says something else, which
// is passed on.
func leaderless(resp *http.Response) *wire.Fault {
	b, _ := io.ReadAll(io.LimitReader(resp.Body, answersLarge))
	var p Problem
	if json.Unmarshal(b, &p) == nil && passing(wire.Code(p.Code)) {
		return later(wire.NewFault(wire.CodeNoLeader, "%s", p.Detail), time.Second)
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(b), resp.Body), resp.Body}
	return nil
}

// unreached is for a leader that gave no answer. Nothing happened where it was sent nothing, or the request writes nothing.
func (x *exchange) unreached(leader string, err error, sent bool) *wire.Fault {
	var op *net.OpError
	if undialed := errors.As(err, &op) && op.Op == "dial"; undialed && !sent || !x.route.writes() {
		return later(wire.NewFault(wire.CodeNoLeader, "the leader at %s cannot be reached: %v", leader, err), time.Second)
	}
	return wire.NewFault(wire.CodeTimeout, "the leader at %s gave no answer: %v", leader, err)
}

// waitMillis is how long the request asks to be kept waiting.
func (x *exchange) waitMillis() int64 {
	if n := x.int("wait_ms"); n > 0 {
		return n
	}
	if x.route.path == leasePath {
		var in leaseRequest
		if unmarshal(x.body, &in) == nil && in.WaitMillis > 0 {
			return min(in.WaitMillis, wire.MaxWaitMillis)
		}
	}
	if x.route.path == verifyPath {
		return time.Minute.Milliseconds()
	}
	return 0
}
