package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/transport/httpapi"
	"github.com/quorate/quorate/wire"
)

// Server is the doors of one node: one HTTP server on the client address. Make it with New, run it with Serve, end it
// with Stop.
type Server struct {
	cfg      Config
	log      *slog.Logger
	metrics  *metrics
	http     *http.Server
	maxFrame int

	api        *httpapi.API
	houses     *houses
	schemas    *schemas
	streamed   pool // deliveries to streams that are not written yet
	pace       pace
	slow       *slowLog       // nil: nobody asked for one
	loops      sync.WaitGroup // goroutines that Serve has started
	turns      chan struct{}  // reads that copy out of the state
	staleTurns chan struct{}  // those that ask for local state
	scrapes    chan struct{}  // scrapes that are being answered

	draining atomic.Bool
	plain    atomic.Int64 // TCP connections that are not WebSockets (yet)

	mu     sync.Mutex
	conns  map[*conn]struct{} // guarded by mu
	closed bool               // guarded by mu: no more connections
	wg     sync.WaitGroup     // connections

	ctx    context.Context // of every connection; ended by Stop
	cancel context.CancelFunc
}

// New makes the doors. Metrics are registered in cfg.Registry here, so a registry serves one Server.
func New(cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, log: cfg.Logger.With("component", "transport"),
		maxFrame: int(wire.MaxFrameBytes(cfg.MaxMessageBytes)),
		conns:    make(map[*conn]struct{}),
		turns:    make(chan struct{}, readTurns), staleTurns: make(chan struct{}, readTurns), scrapes: make(chan struct{}, scrapesAtOnce),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if s.metrics, err = newMetrics(s); err != nil {
		s.cancel()
		return nil, err
	}
	beside, err := s.besides()
	if err != nil {
		s.cancel()
		s.metrics.unregister()
		return nil, fmt.Errorf("transport: %w", err)
	}
	mux := http.NewServeMux()
	for _, b := range beside {
		mux.Handle(b.pattern, b.serve)
	}
	s.houses, s.streamed.most = newHouses(s), int64(cfg.StreamBytes)
	s.schemas = newSchemas(s.group(""))
	s.pace.srv = s
	if cfg.SlowOver > 0 {
		s.slow = newSlowLog(cfg.SlowOver, s.log)
	}
	s.api, err = httpapi.New(httpapi.Config{
		Node: visitors{s}, Label: cfg.Broker.Label(), Version: cfg.Version, Beside: described(beside), Logger: s.log, MaxMessageBytes: cfg.MaxMessageBytes,
		Origins: cfg.Origins, CheckHost: RefuseOffLoopback, MaxRequests: cfg.MaxRequests, BodyTimeout: cfg.MessageTimeout,
		WriteTimeout: cfg.MessageTimeout, CallTimeout: cfg.CallTimeout, Observe: s.metrics.requested,
		MaxStreams: cfg.MaxStreams, EventTimeout: cfg.WriteTimeout, PingEvery: cfg.StreamPing, Streams: s.streams,
		Stalled: s.metrics.slowConsumers.WithLabelValues("stalled").Inc, Dial: cfg.Dial,
	})
	if err != nil {
		s.cancel()
		s.metrics.unregister()
		return nil, fmt.Errorf("transport: %w", err)
	}
	if err := s.metrics.watch(s.api); err != nil {
		s.cancel()
		return nil, err
	}
	s.http = &http.Server{
		Handler: s.accessed(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if s.api.Serves(r.URL.Path) { // before the mux, which would clean the paths of KV keys
				s.api.ServeHTTP(w, r)
				return
			}
			mux.ServeHTTP(w, r)
		})),
		ReadHeaderTimeout: cfg.HelloTimeout,
		ReadTimeout:       2 * cfg.HelloTimeout,
		WriteTimeout:      30 * time.Second, // of plain answers; an upgraded connection sets its own
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    cfg.MaxHTTPHeader,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		ConnState:         s.connState,
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, tcpKey{}, c) },
	}
	return s, nil
}

// Serve answers on l until Stop. It owns l. The error is nil after Stop.
func (s *Server) Serve(l net.Listener) error {
	s.log.Info("serving clients", "addr", l.Addr().String())
	s.mu.Lock()
	if !s.closed { // else Stop came first, and waits for nobody any more
		s.loops.Go(func() { s.pace.keep(s.ctx) })
		if s.slow != nil {
			s.loops.Go(func() { s.slow.keep(s.ctx.Done()) })
		}
		s.loops.Go(func() { s.houses.keep(s.ctx) })
	}
	s.mu.Unlock()
	if err := s.http.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve clients on %s: %w", l.Addr(), err)
	}
	return nil
}

// turnedAway is what a connection beyond the bound gets, unasked: whoever knows HTTP comes again.
const turnedAway = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

const turnAwayTime = 100 * time.Millisecond

// plainBound is how many TCP connections that are no WebSockets there may be.
func (s *Server) plainBound() int64 {
	n := int64(s.cfg.MaxRequests + s.cfg.MaxStreams + httpReserve)
	if s.cfg.Hooks != nil {
		n += hookReserve
	}
	return n
}

// connState bounds the TCP connections that are not WebSockets. An upgraded one is counted in conns instead.
func (s *Server) connState(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if s.plain.Add(1) > s.plainBound() {
			s.metrics.refused.Inc()
			_ = c.SetWriteDeadline(time.Now().Add(turnAwayTime))
			_, _ = io.WriteString(c, turnedAway) // into an empty buffer, with no promise that it is read
			_ = c.Close()                        // the server sees a read error and counts it out
		}
	case http.StateHijacked, http.StateClosed:
		s.plain.Add(-1)
	}
}

// Drain is the first half of stopping, before the node hands its leadership away: /readyz says no, new connections and
// sessions are refused, every client is told to move, and streams of events end. It waits up to FlushTimeout until what those had out has been given
// back. Connections go on being served until Stop. Twice is fine.
func (s *Server) Drain() {
	if s.draining.Swap(true) {
		return
	}
	s.log.Info("draining clients")
	leader := s.otherLeader()
	for _, c := range s.all() {
		c.redirect(leader, group.RedirectStopping)
		c.Flush()
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.FlushTimeout)
	defer cancel()
	s.houses.drain(ctx) // before its streams end, each of which would give back by itself, in an entry that nobody waits for
	s.api.Drain()
}

// otherLeader is the leader's client address when that is another node, else empty.
func (s *Server) otherLeader() string {
	if st := s.group("").Status(); !st.Leader {
		return st.LeaderAddr
	}
	return ""
}

func (s *Server) all() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	cs := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		cs = append(cs, c)
	}
	return cs
}

// Stop drains, lets the answers of requests under way out for up to FlushTimeout or until ctx ends, closes every
// WebSocket with 1001, and then ends the HTTP server. The error says that ctx ended first: what was left has been cut.
func (s *Server) Stop(ctx context.Context) error {
	s.Drain()
	flush, cancel := context.WithTimeout(ctx, s.cfg.FlushTimeout)
	for _, c := range s.all() {
		c.quiet(flush)
	}
	cancel()

	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	for _, c := range s.all() {
		c.close(CloseStopping, "this node is stopping")
	}
	gone := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(gone)
	}()
	var err error
	select {
	case <-gone:
	case <-ctx.Done():
		err = fmt.Errorf("stop doors: connections cut: %w", ctx.Err())
		for _, c := range s.all() {
			c.cut()
		}
		<-gone
	}
	s.cancel()
	s.loops.Wait()
	if herr := s.http.Shutdown(ctx); herr != nil {
		_ = s.http.Close()
		if err == nil {
			err = fmt.Errorf("stop doors: plain HTTP cut: %w", herr)
		}
	}
	s.houses.close()
	s.api.Close()
	s.metrics.unregister()
	return err
}

// join counts a connection in; false: the bound is reached or the server is stopping.
func (s *Server) join(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.conns) >= s.cfg.MaxConnections {
		return false
	}
	s.conns[c] = struct{}{}
	s.wg.Add(1)
	s.metrics.connections.Set(float64(len(s.conns)))
	return true
}

func (s *Server) leave(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.metrics.connections.Set(float64(len(s.conns)))
	s.mu.Unlock()
	s.wg.Done()
}

// group finds the group that a queue belongs to. There is one; what names no queue (sessions, cluster verbs) is its too.
func (s *Server) group(string) Group { return s.cfg.Broker.Group(0) }
