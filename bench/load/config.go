package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/wire"
)

// Workloads. W1: confirmed enqueues. W2: draining a full queue, each message acknowledged by itself. W3: both at once, flat
// out. W4: both at a given pace. W5: enqueues one at a time. Delayed: messages that come due at a given rate. Priorities:
// ten of them, at half and at twice of what the consumers can handle. Keys: an ordered queue with stuck keys against an
// unordered one without. Fair: many tenants of a queue that is fair by key, with and without a flood by one. Flat: W3 with little and with
// much that stands beside it.
// Queued: what many messages in a queue cost in memory, in snapshots and at restarts.
const (
	W1         = "W1"
	W2         = "W2"
	W3         = "W3"
	W4         = "W4"
	W5         = "W5"
	Delayed    = "delayed"
	Priorities = "priority"
	Keys       = "keys"
	Fair       = "fair"
	Flat       = "flat"
	Queued     = "queued"
)

// Workloads lists them all.
func Workloads() []string {
	return []string{W1, W2, W3, W4, W5, Delayed, Priorities, Keys, Fair, Flat, Queued}
}

// Bounds and defaults of Config.
const (
	DefaultSize        = 256
	DefaultFor         = 10 * time.Second
	DefaultWarmUp      = 2 * time.Second
	DefaultOutstanding = 256
	DefaultWindow      = 256
	DefaultRate        = 2000
	DefaultPreload     = 200_000
	DefaultCount       = 200_000
	DefaultDueRate     = 20_000
	DefaultCapacity    = 2000
	DefaultKeys        = 100_000
	DefaultStuck       = 10
	DefaultRounds      = 3
	DefaultTenants     = 100
	DefaultFlood       = 1
	DefaultQueued      = 1000

	maxClients   = 256
	maxFor       = 24 * time.Hour
	maxRate      = 1_000_000
	maxInFlight  = 65536
	leaseTime    = time.Minute
	drainStall   = 20 * time.Second // without progress while draining: what is missing is lost
	maxErrors    = 10_000           // of a run, then it is given up
	faultErrors  = 100              // times as many in a fault run
	maxSamples   = 5                // of error texts that are kept
	drainRate    = 150_000          // messages a second that a preload is made to last for
	fillRate     = 25_000           // messages a second by which Delayed is expected to be filled at least
	slotWindow   = 64               // leases out a consumer where consumers handle messages at a given capacity
	maxKeys      = 10_000_000
	maxRounds    = 100
	maxTenants   = 1_000_000
	maxQueues    = 100_000
	maxSubs      = 1000 // of a connection, as the broker has it
	maxIdle      = 50_000
	closeTimeout = 5 * time.Second
)

// Config says what to run against which cluster. Zero values mean the default in every field that names one.
type Config struct {
	Workload string   // one of Workloads
	Addrs    []string // client addresses of a running cluster
	Nodes    int      // how many nodes it has, for the report; default len(Addrs)

	Queue       string        // default: a new name; whatever it is, it is deleted at the end
	Size        int           // of a body, bytes, 32 and more; default 256, of Delayed 64
	For         time.Duration // measured time; default 10 s
	WarmUp      time.Duration // before it; default 2 s; negative: none
	Producers   int           // clients that send; default 8 for W1 and preloading, 4 for W3 and W4, 1 for W5
	Consumers   int           // clients that receive; default 8 for W2, 4 for W3 and W4
	Outstanding int           // unconfirmed enqueues a producer; default 256
	HTTP        int           // W1, W3: enqueue by the HTTP API, so many messages a request; 0: by the SDK
	HTTPKeys    bool          // with HTTP: each request has an Idempotency-Key of its own
	Window      int           // leases out a consumer; default 256
	Rate        float64       // W4: messages a second; default 2000
	Preload     int           // W2: messages to drain; default 200,000, or more where For could use them up

	Count   int           // Delayed, Queued: messages; default 200,000
	DueRate float64       // Delayed: how many come due a second; default 20,000
	Lead    time.Duration // Delayed: from the first enqueue until the first message is due; default: what Count takes at 25,000/s, and 5 s
	// Disturb is called once, by Delayed, when half of the messages have been received: to kill a node, say. Nil: nothing is
	// done. Its error fails the run.
	Disturb func(ctx context.Context) error

	Capacity float64 // Priorities, Fair: messages a second that the consumers can handle together; default 2000
	Keys     int     // Keys: different keys; default 100,000
	Stuck    float64 // Keys: per cent of them that are stuck, 0 to 90; default 10; negative: none
	Rounds   int     // Keys, Fair, Flat: measured times of each side, by turns; default 3, of Flat 1
	Tenants  int     // Fair: keys in all; default 100
	Flood    int     // Fair: how many of them flood; default 1

	// Flat compares W3 with 1000 messages queued, in one queue, with no other connection, to W3 with these. One at least must be more.
	Queued int // messages that are queued when measuring begins and stay so; default 1000
	Queues int // take turns, message by message; default 1
	Idle   int // connections with a subscription that gets nothing; default 0

	// Backlog is how many messages of W3 and W4 may be sent and not yet received, beyond which producers wait. Default:
	// what producers and consumers together may have out, so that neither side starves.
	Backlog int

	CallTimeout time.Duration // of one enqueue or ack, retries included; default 30 s
	Seed        uint64        // of bodies; 0: random
	KeepQueue   bool          // leave the queue for a look at it
	FaultRun    bool          // errors and redeliveries are expected: more of them do not end the run

	// Cluster is the processes of the cluster, which Queued kills and starts again; others need none. See Self.
	Cluster *proc.Cluster
	// ServerCPU adds up the CPU time of all server processes so far; nil: not reported. See CPUOf.
	ServerCPU func() time.Duration
	// ServerGC is how much of that went into collecting garbage so far; nil, or false: not known.
	ServerGC func() (d time.Duration, ok bool)
	// ServerRSS is the resident memory of each server process, bytes; nil: not reported.
	ServerRSS func() []int64
	// Progress is told what goes on, about once a second; nil: nothing is. Confirmed counts all confirmed operations.
	Progress func(phase string, confirmed int64)
	// Confirms marks each confirmed enqueue (W2: ack); nil: an own one. Its longest gap is reported.
	Confirms *Gap
	Logger   *slog.Logger // nil: silent

	drainStall time.Duration // see drainStall; tests shorten it

	// Open makes one client; nil: package client's. For tests.
	Open func(ctx context.Context, name string) (Conn, error)
}

// shape is which parts a workload has.
type shape struct {
	producers, consumers int
	preload              bool // filled first, then drained: confirmations are those of acks
	slots                bool // consumers handle messages at Capacity
	size                 int  // of a body; 0: DefaultSize
}

var shapes = map[string]shape{
	W1: {producers: 8},
	W2: {producers: 8, consumers: 8, preload: true},
	W3: {producers: 4, consumers: 4},
	W4: {producers: 4, consumers: 4},
	W5: {producers: 1},

	Delayed:    {producers: 8, consumers: 8, preload: true, size: 64},
	Priorities: {producers: 4, consumers: 4, slots: true},
	Keys:       {producers: 4, consumers: 4},
	Fair:       {producers: 4, consumers: 4, slots: true},
	Flat:       {producers: 4, consumers: 4},
	Queued:     {producers: 4, consumers: 4},
}

func orDefault[T int | float64 | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// withDefaults checks c and fills in what is not set.
func (c Config) withDefaults() (Config, error) {
	s, ok := shapes[c.Workload]
	if !ok {
		return c, fmt.Errorf("workload %q: one of %s expected", c.Workload, strings.Join(Workloads(), ", "))
	}
	if len(c.Addrs) == 0 && c.Open == nil {
		return c, errors.New("no address of a cluster to put load on")
	}
	orDefault(&c.Nodes, len(c.Addrs))
	orDefault(&c.Size, cmp.Or(s.size, DefaultSize))
	orDefault(&c.For, DefaultFor)
	orDefault(&c.WarmUp, DefaultWarmUp)
	c.WarmUp = max(c.WarmUp, 0)
	orDefault(&c.Producers, s.producers)
	if c.Workload == Flat { // the same number for both sides
		s.consumers = max(s.consumers, (c.Queues+maxSubs-1)/maxSubs)
	}
	orDefault(&c.Consumers, s.consumers)
	orDefault(&c.Outstanding, DefaultOutstanding)
	if c.Workload == W5 {
		c.Outstanding, c.Producers = 1, 1
	}
	if s.consumers == 0 {
		c.Consumers = 0
	}
	if s.slots && c.Window == 0 {
		c.Window = slotWindow
	}
	orDefault(&c.Window, DefaultWindow)
	orDefault(&c.Rate, DefaultRate)
	orDefault(&c.Capacity, DefaultCapacity)
	orDefault(&c.Count, DefaultCount)
	orDefault(&c.DueRate, DefaultDueRate)
	orDefault(&c.Lead, 5*time.Second+time.Duration(float64(c.Count)/fillRate*float64(time.Second)))
	orDefault(&c.Keys, DefaultKeys)
	orDefault(&c.Stuck, DefaultStuck)
	c.Stuck = max(c.Stuck, 0)
	if c.Workload == Flat {
		orDefault(&c.Rounds, 1) // filling and draining take many times as long as measuring
	}
	orDefault(&c.Rounds, DefaultRounds)
	orDefault(&c.Queued, DefaultQueued)
	orDefault(&c.Queues, 1)
	orDefault(&c.Tenants, DefaultTenants)
	orDefault(&c.Flood, DefaultFlood)
	if c.Preload == 0 {
		c.Preload = max(DefaultPreload, int((c.For+c.WarmUp).Seconds()*drainRate))
		c.Preload = min(c.Preload, maxMessages)
	}
	orDefault(&c.Backlog, c.Producers*c.Outstanding+c.Consumers*c.Window)
	if s.slots { // more is sent than can be handled, and it shall wait in the broker
		c.Backlog = maxMessages
	}
	orDefault(&c.CallTimeout, 30*time.Second)
	orDefault(&c.drainStall, max(drainStall, c.CallTimeout))
	if c.Seed == 0 {
		c.Seed = rand.Uint64()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Progress == nil {
		c.Progress = func(string, int64) {}
	}
	if c.Confirms == nil {
		c.Confirms = new(Gap)
	}
	if c.Workload == Fair {
		c.Producers = max(c.Producers, 2) // one for those who flood
	}
	if c.Queue == "" {
		c.Queue = fmt.Sprintf("bench.%s.%x", c.Workload, rand.Uint32())
	}
	if c.Open == nil {
		c.Open = openSDK(&c)
	}
	if f := wire.CheckQueue("queue", c.Queue); f != nil {
		return c, f
	}
	for _, r := range []struct {
		name      string
		v         float64
		low, high float64
	}{
		{"size", float64(c.Size), MinSize, wire.HighestMaxMessageBytes},
		{"for (seconds)", c.For.Seconds(), 0.01, maxFor.Seconds()},
		{"warm-up (seconds)", c.WarmUp.Seconds(), 0, maxFor.Seconds()},
		{"producers", float64(c.Producers), 1, maxClients},
		{"consumers", float64(c.Consumers), float64(min(s.consumers, 1)), maxClients},
		{"outstanding", float64(c.Outstanding), 1, maxInFlight},
		{"window", float64(c.Window), 1, wire.MaxCredit},
		{"rate", c.Rate, 0.1, maxRate},
		{"preload", float64(c.Preload), 1, maxMessages},
		{"backlog", float64(c.Backlog), 1, maxMessages},
		{"count", float64(c.Count), 1, maxMessages},
		{"due rate", c.DueRate, 1, maxRate},
		{"lead (seconds)", c.Lead.Seconds(), 0.01, maxFor.Seconds()},
		{"capacity", c.Capacity, 1, maxRate},
		{"keys", float64(c.Keys), 2, maxKeys},
		{"stuck (per cent)", c.Stuck, 0, 90},
		{"rounds", float64(c.Rounds), 1, maxRounds},
		{"tenants", float64(c.Tenants), 2, maxTenants},
		{"flood", float64(c.Flood), 1, float64(max(c.Tenants-1, 1))},
		{"queued", float64(c.Queued), DefaultQueued, maxMessages / 2},
		{"queues", float64(c.Queues), 1, maxQueues},
		{"connections", float64(c.Idle), 0, maxIdle},
		{"http (messages a request)", float64(c.HTTP), 0, wire.MaxBatch},
	} {
		if !(r.v >= r.low && r.v <= r.high) { // NaN is out too
			return c, fmt.Errorf("%s is %g; %g to %g are allowed", r.name, r.v, r.low, r.high)
		}
	}
	if c.Workload == Queued && (c.Cluster == nil || c.ServerRSS == nil || len(c.Cluster.Nodes) < 2) {
		return c, errors.New("queued kills nodes and starts them again: it needs a cluster of two or more that was started for it (--self 3)")
	}
	if c.HTTPKeys && c.HTTP == 0 {
		return c, errors.New("http-keys without http: idempotency keys are of HTTP requests")
	}
	if c.HTTP > 0 && c.Workload != W1 && c.Workload != W3 {
		return c, fmt.Errorf("%s does not go by HTTP: %s and %s do", c.Workload, W1, W3)
	}
	if c.Workload == Flat && c.Queues > c.Consumers*maxSubs {
		return c, fmt.Errorf("queues is %d; %d consumers can have %d, each has %d subscriptions at most", c.Queues, c.Consumers, c.Consumers*maxSubs, maxSubs)
	}
	if c.Workload == Flat && c.Queued == DefaultQueued && c.Queues == 1 && c.Idle == 0 {
		return c, fmt.Errorf("nothing to compare with: one of queued (above %d), queues (above 1) and connections (above 0) is to be given", DefaultQueued)
	}
	return c, nil
}
