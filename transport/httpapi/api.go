package httpapi

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/wire"
)

// Node is what the API needs of the node that it is a door of.
type Node interface {
	// Leader says who leads: this node (here), or the client address of another, "" if that is not known.
	Leader() (addr string, here bool)
	// Do carries out requests of one caller together and gives their answers in the same order. When ctx ends, waits end as if they had
	// been that long; when gone ends, the caller has gone, and Do returns what there is.
	Do(ctx, gone context.Context, reqs ...Request) []Answer
	// Listen subscribes for one caller, whose context is ctx.
	Listen(ctx context.Context, req *wire.Subscribe) (Feed, *wire.Fault)
	// WaitDead waits until more or fewer messages than known have ever come to a queue's dead letters, and says how many; or until wait is over, or ctx
	// ends, and then says known.
	WaitDead(ctx context.Context, queue string, known int64, wait time.Duration) (int64, *wire.Fault)
	// GiveBack returns leases whose tokens never reached the caller.
	GiveBack(tokens ...string)
	// Kept says whether an operation with this key has been carried out, and what note came with it.
	Kept(ctx context.Context, key *Idempotency) (note []byte, kept bool, f *wire.Fault)
	// Nothing keeps under a request's key that it has found nothing to do, with the key's note. Where the request had been carried out before, or
	// another has the key, it is as with Do: the key counts a repeat and has the note of the first, or there is a fault.
	Nothing(ctx context.Context, key *Idempotency) (wire.At, *wire.Fault)
	// LastToken is the token of a message's last lease, that of one which is done too.
	LastToken(ctx context.Context, id string) (string, *wire.Fault)
}

// Request is one of the protocol's requests, a struct of package wire.
type Request struct {
	Type        wire.Type
	Body        any
	Idempotency *Idempotency // the caller's key, the same one in all that are carried out together; nil: there is none
}

// Answer is what became of a Request: a Fault, or a Body, a pointer to a struct of package wire.
type Answer struct {
	Type  wire.Type
	Body  any
	Fault *wire.Fault
}

// Config is what an API needs. Node, Label, MaxMessageBytes, CheckHost and the durations are required.
type Config struct {
	Node            Node
	Label           string   // of this node, told to those that it forwards to
	Version         string   // of the binary, in the OpenAPI document
	Beside          []Beside // what is served beside this API, for the OpenAPI document
	Logger          *slog.Logger
	MaxMessageBytes int64
	Origins         []string           // scheme://host[:port] of pages that may use the API from another origin
	CheckHost       func(string) error // judges the host:port that a request was sent to

	// Dial opens the connection to another node's client address, for who is on a network of his own. Nil: TCP, within a second.
	Dial func(ctx context.Context, addr string) (net.Conn, error)

	MaxRequests  int                 // at once, streams apart
	MaxStreams   int                 // at once
	BodyTimeout  time.Duration       // from the first to the last byte of a request's body
	WriteTimeout time.Duration       // of an answer
	EventTimeout time.Duration       // of each write to a stream
	PingEvery    time.Duration       // between pings of a stream
	CallTimeout  time.Duration       // of a request beyond its own wait
	Streams      func(*http.Request) // told of each request that is answered by a stream from here on; nil: nobody is
	Stalled      func()              // told of each stream that is ended because its reader does not read; nil: nobody is
	Observe      func(route string, status int, took time.Duration)
}

// API is the HTTP API of one node. Make it with New; it is an http.Handler for the paths that Serves knows.
type API struct {
	cfg    Config
	log    *slog.Logger
	mux    *http.ServeMux
	routes []*route
	docs   func() ([]byte, error) // the OpenAPI document, made when it is first asked for

	maxBody int64
	bodies  budget
	answers budget
	under   atomic.Int64 // requests under way
	streams atomic.Int64 // and streams
	peers   *http.Client // to the leader

	drained context.Context // ended by Drain
	drain   context.CancelFunc
}

// New makes the API. It panics if the table of routes contradicts itself, which a test would have found.
func New(cfg Config) (*API, error) {
	for _, o := range cfg.Origins {
		if err := CheckOrigin(o); err != nil {
			return nil, err
		}
	}
	a := &API{cfg: cfg, log: cfg.Logger, mux: http.NewServeMux(), routes: table()}
	// Base64 is four bytes for three.
	a.maxBody = wire.MaxFrameBytes(cfg.MaxMessageBytes)/3*4 + 1<<20
	a.bodies.most = max(bodiesBytes, 4*a.maxBody)
	a.answers.most = max(answersBytes, 4*a.maxBody)
	a.drained, a.drain = context.WithCancel(context.Background())
	a.peers = newPeers(cfg.Dial)
	for _, r := range a.routes {
		if r.path == "/v1/kv/{key...}" {
			continue // its path is taken apart by hand: see route
		}
		a.mux.Handle(r.method+" "+r.path, r)
	}
	a.docs = sync.OnceValues(func() ([]byte, error) { return document(a.routes, cfg.Beside, cfg.Version) })
	return a, nil
}

// Serves says whether a path is the API's.
func (a *API) Serves(path string) bool {
	return strings.HasPrefix(path, "/queue/") || strings.HasPrefix(path, "/v1/") && path != "/v1/ws"
}

// Drain has those who wait answered now, and refuses requests from here on. Twice is fine.
func (a *API) Drain() { a.drain() }

// Close lets go of connections to other nodes.
func (a *API) Close() {
	a.drain()
	a.peers.CloseIdleConnections()
}

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	x := &exchange{api: a, w: w, r: r, id: Identify(w, r), control: http.NewResponseController(w),
		path: pathValues{}, query: map[string]string{}, queries: map[string][]string{}}
	// The server's own time-outs are absolute, and would end what waits.
	_ = x.control.SetWriteDeadline(time.Time{}) // set anew before the answer is written; without deadlines there are none to move
	defer func() {
		a.bodies.give(x.held)
		name := "none"
		if x.route != nil {
			name = x.route.method + " " + x.route.path
		}
		if a.cfg.Observe != nil {
			a.cfg.Observe(name, x.status, time.Since(began))
		}
	}()
	if n := a.under.Add(1); n > int64(a.cfg.MaxRequests) {
		a.under.Add(-1)
		x.refuse(later(wire.NewFault(wire.CodeOverloaded, "this node answers %d HTTP requests at once and no more: try again, or ask another", a.cfg.MaxRequests), time.Second))
		return
	}
	x.place = &a.under
	defer func() { x.place.Add(-1) }()
	if f := a.admit(x); f != nil {
		x.refuse(f)
		return
	}
	if x.preflight() {
		return
	}
	if f := x.find(); f != nil {
		x.refuse(f)
		return
	}
	r.Pattern = x.route.method + " " + x.route.path // as net/http's mux does: for whoever logs requests
	if f := x.params(); f != nil {
		x.refuse(f)
		return
	}
	if f := x.read(); f != nil {
		x.refuse(f)
		return
	}
	if a.drained.Err() != nil {
		w.Header().Set("Connection", "close")
		x.decline(later(wire.NewFault(wire.CodeNoLeader, "this node is stopping: ask another"), time.Second))
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(a.drained, cancel)()
	x.ctx = ctx
	if x.route.stream {
		if f := x.takeSeat(); f != nil {
			x.refuse(f)
			return
		}
	}
	x.carryOut()
}

// carryOut does what was asked here where that can be, else has the leader do it.
func (x *exchange) carryOut() {
	until := time.Now().Add(x.api.cfg.CallTimeout)
	f := x.serve()
	for f != nil && x.passes(f) && x.pause(until) {
		f = x.serve()
	}
	if f != nil {
		x.decline(f)
	}
}

// serve answers, or says why nobody has.
func (x *exchange) serve() *wire.Fault {
	if x.route.local || x.query["stale"] == "true" {
		return x.route.serve(x)
	}
	addr, here := x.api.cfg.Node.Leader()
	if !here {
		return x.forward(addr)
	}
	f := x.route.serve(x)
	if f != nil && f.Code == wire.CodeNotLeader && !f.Unknown {
		return x.forward(f.Leader) // leadership has moved meanwhile, and nothing happened here
	}
	return f
}

// UnderWay is how many requests are being answered, without streams.
func (a *API) UnderWay() int64 { return a.under.Load() }

// Streams is how many streams are open.
func (a *API) Streams() int64 { return a.streams.Load() }
