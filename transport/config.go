package transport

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/transport/push"
	"github.com/quorate/quorate/transport/spans"
	"github.com/quorate/quorate/wire"
)

// Config is what a Server needs. Zero values mean the default in every field that names one.
type Config struct {
	Broker   Broker               // the node behind the doors; required
	Registry *prometheus.Registry // collects and serves /metrics; nil: an empty one of its own
	Logger   *slog.Logger         // nil: silent
	Version  string               // of the binary, shown in welcome
	Debug    http.Handler         // served below /debug/; nil, as in every build but the chaos one: nothing is
	Hooks    http.Handler         // served below /hook/; nil: one that knows of no hook
	// PushState says how the push of a queue that has one stands on this node. It is called with the state lock held; nil: nobody knows.
	PushState func(queue string) push.State
	// MappingState is as PushState for a queue with map_to.
	MappingState func(queue string) string

	AccessLog *slog.Logger  // a line, of level info, for every HTTP request and for the begin and end of every WebSocket; nil: none
	SlowOver  time.Duration // operations that take longer from their arrival to their answer are logged, with the time of each phase; 0: none are

	// Dial opens the connection to the client address of the node that leads, to send HTTP requests on, for who is on a network of his own. Nil:
	// TCP, within a second.
	Dial func(ctx context.Context, addr string) (net.Conn, error)

	Spans *spans.Recorder // makes the broker's part of traces; nil: none

	MaxMessageBytes int64 // of one body; default 1 MiB, at most 16 MiB
	MaxConnections  int   // WebSocket connections at once; default 10,000
	MaxRequests     int   // of the HTTP API at once, each on a connection of its own; default 4,096
	MaxStreams      int   // of Server-Sent Events at once, beside those; default 10,000
	NoAutoCreate    bool  // refuse an enqueue to a queue that does not exist (default: make it with default options)

	Origins []string // scheme://host[:port] of pages that may use the HTTP API from another origin; default none

	PingEvery      time.Duration // between pings, also those of clients, who take two and a half without a word for a dead node; default 3 s
	PongTimeout    time.Duration // silence after which a peer is gone; default 25 s, more than two pings so that one lost pong costs nothing
	WriteTimeout   time.Duration // of each write to a socket; default 10 s
	HelloTimeout   time.Duration // HTTP head, and then the hello frame; default 5 s
	MessageTimeout time.Duration // from the first to the last byte of one WebSocket message; default 60 s
	CallTimeout    time.Duration // of one request beyond its own wait; default 10 s
	FlushTimeout   time.Duration // how long Stop lets answers out; default 3 s
	StreamPing     time.Duration // between pings of a stream of events; default 15 s
	Linger         time.Duration // how long a closed peer may take to read its close frame; default 1 s

	OutBytes      int // bytes a connection may owe its peer, half of it deliveries, half answers, each passed by one frame or batch at most, and as much again in the writer's hand; default 16 MiB or four frames, whichever is more
	StreamBytes   int // of deliveries that all streams of events together may not have written yet, and as much again for those who have written all of theirs; default 64 MiB or four frames, whichever is more
	MaxUnderWay   int // unanswered requests a connection may have; default 32,768
	MaxSlow       int // of them, waits and reads at once; default 1,024
	MetricQueues  int // queues with series of their own in /metrics, the first by name; default 1,000
	MaxHTTPHeader int // bytes of an HTTP head; default 16 KiB
}

const (
	httpReserve     = 512  // TCP connections beyond the WebSockets and MaxRequests: health checks, scrapes, handshakes under way
	hookReserve     = 4096 // more of them where there are hooks: what senders open at once in a burst
	pageExamine     = 50000
	pageHold        = 500 // records looked at in one hold of the state, well below a millisecond
	pageTasksHold   = 64  // the same where each record is copied out with its body
	pageDefault     = 100
	peekDefault     = 10
	readTurns       = 16          // answers of up to 4 MiB, or one body beyond, that are being copied at once
	scrapesAtOnce   = 4           // answers of up to a few MB each
	verifyWait      = time.Minute // hashing ten million messages on a busy machine takes a while
	keepBufferBytes = 128 << 10
)

func (c Config) withDefaults() (Config, error) {
	if c.Broker == nil {
		return c, fmt.Errorf("transport: Broker is missing: the doors need a node behind them")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
	}
	if c.MaxMessageBytes == 0 {
		c.MaxMessageBytes = wire.DefaultMaxMessageBytes
	}
	if c.MaxMessageBytes < 1 || c.MaxMessageBytes > wire.HighestMaxMessageBytes {
		return c, fmt.Errorf("transport: max_message_bytes is %d: 1 to %d would be right", c.MaxMessageBytes, wire.HighestMaxMessageBytes)
	}
	for _, d := range []struct {
		p    *time.Duration
		def  time.Duration
		name string
	}{
		{&c.SlowOver, 0, "SlowOver"},
		{&c.PingEvery, 3 * time.Second, "PingEvery"},
		{&c.PongTimeout, 25 * time.Second, "PongTimeout"},
		{&c.WriteTimeout, 10 * time.Second, "WriteTimeout"},
		{&c.HelloTimeout, 5 * time.Second, "HelloTimeout"},
		{&c.MessageTimeout, time.Minute, "MessageTimeout"},
		{&c.CallTimeout, 10 * time.Second, "CallTimeout"},
		{&c.FlushTimeout, 3 * time.Second, "FlushTimeout"},
		{&c.Linger, time.Second, "Linger"},
		{&c.StreamPing, 15 * time.Second, "StreamPing"},
	} {
		if *d.p == 0 {
			*d.p = d.def
		}
		if *d.p < 0 {
			return c, fmt.Errorf("transport: %s is %s: a duration above zero would be right", d.name, *d.p)
		}
	}
	if c.PongTimeout <= c.PingEvery {
		return c, fmt.Errorf("transport: PongTimeout %s must be longer than PingEvery %s, or one late pong ends a healthy connection", c.PongTimeout, c.PingEvery)
	}
	frame := int(wire.MaxFrameBytes(c.MaxMessageBytes))
	for _, n := range []struct {
		p    *int
		def  int
		name string
	}{
		{&c.MaxConnections, 10000, "MaxConnections"},
		{&c.MaxRequests, 4096, "MaxRequests"},
		{&c.MaxStreams, 10000, "MaxStreams"},
		{&c.OutBytes, max(16<<20, 4*frame), "OutBytes"},
		{&c.StreamBytes, max(64<<20, 4*frame), "StreamBytes"},
		{&c.MaxUnderWay, 32768, "MaxUnderWay"},
		{&c.MaxSlow, 1024, "MaxSlow"},
		{&c.MetricQueues, 1000, "MetricQueues"},
		{&c.MaxHTTPHeader, 16 << 10, "MaxHTTPHeader"},
	} {
		if *n.p == 0 {
			*n.p = n.def
		}
		if *n.p < 0 {
			return c, fmt.Errorf("transport: %s is %d: a number above zero would be right", n.name, *n.p)
		}
	}
	return c, nil
}
