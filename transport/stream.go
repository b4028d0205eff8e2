package transport

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/transport/httpapi"
	"github.com/quorate/quorate/wire"
)

// stream is a subscription by HTTP: a visit that stays. Its messages come through the shared session of a house into its outbox, from which
// the request's own goroutine takes and writes them. What is written is started: nobody says when a listener begins with it. When the stream ends,
// all that has not been answered goes back at once, what was written as a failed attempt, and what was not at no cost.
type stream struct {
	*conn
	house *house
	at    *attached // the house's session, as it was when the stream began
	sub   uint32
	left  bool
}

// streamBytes is how many bytes of deliveries a stream may have unwritten, passed by one batch at most; then it declines what comes, and the
// group takes that back. All streams together have Config.StreamBytes.
const streamBytes = 256 << 10

// Listen subscribes for one who comes by HTTP. ctx is of the request.
func (v visitors) Listen(ctx context.Context, req *wire.Subscribe) (httpapi.Feed, *wire.Fault) {
	req.Sub = 1 // the caller has no number; the house gives one
	if f := req.Validate(); f != nil {
		v.metrics.fault(f)
		return nil, f
	}
	c := newConn(v.Server, &http.Request{RemoteAddr: "http"})
	c.greeted, c.visit = true, ctx
	c.maxDeliver, c.maxAnswers, c.pool = streamBytes, streamBytes, &v.streamed
	s := &stream{conn: c}
	if f := s.begin(ctx, req); f != nil {
		s.Close()
		v.metrics.fault(f)
		return nil, f
	}
	return s, nil
}

// begin finds a house with room and subscribes there.
func (s *stream) begin(ctx context.Context, req *wire.Subscribe) *wire.Fault {
	h, n, f := s.srv.houses.enter(s.conn)
	if f != nil {
		return f
	}
	s.house, s.sub = h, n
	a, f := h.session(ctx)
	if f != nil {
		return f
	}
	s.at = a
	h.seat(n, a)
	if err := a.Subscribe(n, req.Queue, req.Credit, req.LeaseMillis, req.Worker); err != nil {
		f := sureFault(faultOf(err))
		if f.Code == wire.CodeFailedPrecondition { // the session has been given up for another
			f = wire.NewFault(wire.CodeNoLeader, "leadership is moving: try again")
		}
		return f
	}
	return nil
}

// Wake has something when there is something to Take.
func (s *stream) Wake() <-chan struct{} { return s.wake }

// Take gives what has come: a *wire.Delivery, *wire.LeaseGone, *wire.LeaseCancelled or *wire.Redirect each. over: there will be no more.
func (s *stream) Take() (got []any, over bool) {
	s.mu.Lock()
	out := s.out
	s.out, s.cuts, s.msgStart, s.frames = nil, s.cuts[:0], 0, 0
	s.taken, s.lentOut, s.lent = len(out), s.lentOut+s.lent, 0
	over = s.closing
	s.mu.Unlock()
	ok := s.unframe(out, func(_ wire.Raw, body any) { got = append(got, body) })
	return got, over || !ok
}

// Sends says which leases are about to be written.
func (s *stream) Sends(tokens ...string) { s.started(tokens) }

// Written says that what was taken has been written. once are tokens in it of what is delivered at most once.
func (s *stream) Written(once ...string) {
	s.mu.Lock()
	s.pool.add(-s.lentOut)
	s.taken, s.lentOut = 0, 0
	s.mu.Unlock()
	s.started(once)
}

func (s *stream) started(texts []string) {
	if len(texts) == 0 {
		return
	}
	tokens := make([]fsm.Token, 0, len(texts))
	for _, text := range texts {
		if t, err := fsm.ParseToken(text); err == nil { // it was ours
			tokens = append(tokens, t)
		}
	}
	s.at.Started(s.sub, tokens)
}

// Close ends the subscription; what has not been answered is given back in the next entry. Twice is fine.
func (s *stream) Close() {
	if s.left {
		return
	}
	s.left = true
	s.close(0, "") // what comes from here on is declined
	if s.at != nil {
		_ = s.at.Abandon(s.sub) // where the session is over here, nobody is subscribed
	}
	if s.house != nil {
		s.house.exit(s.sub)
	}
	s.mu.Lock()
	s.pool.add(-s.lent - s.lentOut)
	s.out, s.lent, s.lentOut, s.taken = nil, 0, 0, 0
	s.mu.Unlock()
	s.cancel()
	s.slow.Wait()
}

// pool is how many bytes of deliveries all streams of a node have not written yet. A nil one counts nothing and has room.
type pool struct {
	most int64
	used atomic.Int64
}

func (p *pool) add(n int) {
	if p != nil {
		p.used.Add(int64(n))
	}
}

// full says whether one who has so many bytes unwritten may add none. Who has written all that he was given has as much room again as those who
// have not, so that those who do not read hold up each other first.
func (p *pool) full(own int) bool {
	if p == nil {
		return false
	}
	used := p.used.Load()
	return used > p.most && (own > 0 || used > 2*p.most)
}

// tcpKey is where the context of an HTTP request has its connection.
type tcpKey struct{}

// streams says that a request is answered by a stream from here on. Whoever has vanished without a word is given up after as long as a silent
// WebSocket: what is written to him is acknowledged by nobody, and the kernel's own patience is a quarter of an hour.
func (s *Server) streams(r *http.Request) {
	if nc, ok := r.Context().Value(tcpKey{}).(net.Conn); ok {
		giveUpAfter(nc, s.cfg.PongTimeout)
	}
}
