package client

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/quorate/quorate/wire"
)

// Client is a connection to the cluster: one session, one live WebSocket to the leader, found again whenever it moves.
// All methods are safe for concurrent use.
type Client struct {
	o     Options
	log   *slog.Logger
	jit   *jitter
	epoch time.Time

	tracer trace.Tracer // nil: nothing is traced

	life context.Context // ends with Close
	stop context.CancelCauseFunc
	wg   sync.WaitGroup // every goroutine of the client

	maxMessage atomic.Int64 // as the last Welcome said
	maxFrame   atomic.Int64

	alarm chan struct{} // cap 1: the watch must look at its next time again
	first chan struct{} // closed when first attached, or when that is hopeless
	once  sync.Once

	learnedMu sync.Mutex
	learned   []string // guarded by learnedMu: leader addresses beside o.Addrs

	mu          sync.Mutex // guards what follows, and every call and batch
	closing     bool       // no new calls
	closed      bool       // nothing is retried any more
	attached    bool       // at least once
	hopeless    error      // why Open cannot succeed
	conn        *conn      // attached to the session; nil while there is none
	lastErr     error      // of the last attempt to connect
	saidLost    bool       // that there is no connection has been logged
	session     string
	sessionGone bool  // the server does not know it
	sessionUsed int64 // c.now() of the last numbered request

	byTag    map[uint64]*call // sent on conn, without an answer
	nextTag  uint64
	plain    fifo    // calls without a number
	again    fifo    // numbered calls to be sent again, ascending
	fresh    fifo    // calls that will get a number
	later    []*call // waiting to be sent again
	ring     []*call // numbered, not answered, ascending; nil or number 0: answered
	ringHead int
	next     uint64           // the next free number
	stalled  bool             // fresh waits for low to rise
	lanes    map[string]*call // the open batch of each queue, in fresh or kept back
	ordered  map[string]bool  // whether a queue is ordered, where that is known
	held     map[string]*hold // queues, ordered for all that is known, of which something waits to be sent again

	deadQueued int // ended calls still in plain, again or fresh
	pending    int // enqueued messages without an answer
	acks       int // AckAsync calls without an answer
	slots      []*slot
	idle       chan struct{} // closed when pending and acks are 0; made by Close

	subs    map[uint32]*subscription
	nextSub uint32
	leases  map[string]*lease // by token, of subscriptions

	alarmAt int64 // c.now() the watch wakes at, 0: none
}

// Open connects to the leader and opens a session, trying until ctx ends (or Options.Timeout). The client then lives
// until Close; it is never closed by a failure of the cluster.
func Open(ctx context.Context, o Options) (*Client, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Client{
		o: o, log: o.Logger.With("component", "client"), jit: newJitter(o.Seed), epoch: time.Now(),
		alarm: make(chan struct{}, 1), first: make(chan struct{}),
		byTag: make(map[uint64]*call), lanes: make(map[string]*call),
		ordered: make(map[string]bool), held: make(map[string]*hold),
		subs: make(map[uint32]*subscription), leases: make(map[string]*lease), next: 1,
	}
	if o.TracerProvider != nil {
		c.tracer = o.TracerProvider.Tracer(tracerName)
	}
	c.maxMessage.Store(wire.HighestMaxMessageBytes)
	c.maxFrame.Store(wire.MaxFrameBytes(wire.DefaultMaxMessageBytes))
	c.life, c.stop = context.WithCancelCause(context.Background())
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.Timeout, errCallTimeout)
		defer cancel()
	}
	c.wg.Add(2)
	go c.run()
	go c.watch()
	select {
	case <-c.first:
	case <-ctx.Done():
		c.mu.Lock()
		if !c.attached {
			c.hopeless = ended(context.Cause(ctx), false, false, nil, c.lastErr)
		}
		c.mu.Unlock()
	}
	c.mu.Lock()
	err = c.hopeless
	c.mu.Unlock()
	if err != nil {
		c.shut()
		return nil, err
	}
	return c, nil
}

// now is the time since the client was made, on the monotonic clock, in nanoseconds; never 0.
func (c *Client) now() int64 { return int64(time.Since(c.epoch)) + 1 }

// Close ends the client. Enqueues and acks under way may still be answered, until ctx ends (or Options.Timeout); what
// then has no answer ends with an error that says whether it may have been applied. All other calls end at once, and so
// do subscriptions, whose leases go back as after a lost connection: end Consume first. Close returns when every goroutine
// of the client has ended, so it must not be called from a callback; a second Close waits for the first and returns nil.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		c.wg.Wait()
		return nil
	}
	c.closing = true
	rs := c.endOthersLocked()
	c.wakeSlotsLocked(len(c.slots))
	c.idle = make(chan struct{})
	idle := c.idle
	c.idleLocked()
	c.mu.Unlock()
	runAll(rs)

	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.o.Timeout, errCallTimeout)
		defer cancel()
	}
	var err error
	select {
	case <-idle:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	c.shut()
	return err
}

// idleLocked tells Close that nothing is left to wait for.
func (c *Client) idleLocked() {
	if c.idle != nil && c.pending == 0 && c.acks == 0 {
		close(c.idle)
		c.idle = nil
	}
}

// endOthersLocked ends all calls but enqueues and acks.
func (c *Client) endOthersLocked() []run {
	var rs []run
	for _, cl := range c.liveLocked() {
		if cl.batch == nil && cl.ackDone == nil {
			cl.cancelled = true
			rs = append(rs, c.endLocked(cl, ended(ErrClosed, cl.unresolved > 0, true, cl.last, nil)))
		}
	}
	for _, s := range c.subs {
		s.endLocked(ErrClosed)
	}
	return rs
}

// shut ends everything and waits for the goroutines.
func (c *Client) shut() {
	c.mu.Lock()
	c.closing, c.closed = true, true
	c.mu.Unlock()
	c.stop(ErrClosed)
	c.wg.Wait() // the reader has ended: no call is callAnswered any more
	c.mu.Lock()
	var rs []run
	for _, cl := range c.liveLocked() {
		rs = append(rs, c.endLocked(cl, ended(ErrClosed, cl.unresolved > 0, true, cl.last, nil)))
	}
	for _, s := range c.subs {
		s.endLocked(ErrClosed)
	}
	c.wakeSlotsLocked(len(c.slots))
	c.mu.Unlock()
	runAll(rs)
}

// liveLocked lists all calls that have not ended, except those whose answer is being handled.
func (c *Client) liveLocked() []*call {
	var live []*call
	keep := func(cls []*call, state callState) {
		for _, cl := range cls {
			if cl != nil && cl.state == state {
				live = append(live, cl)
			}
		}
	}
	keep(c.plain.a[c.plain.head:], callQueued)
	keep(c.again.a[c.again.head:], callQueued)
	keep(c.fresh.a[c.fresh.head:], callQueued)
	keep(c.later, callWaiting)
	for _, h := range c.held {
		keep(h.calls, callQueued)
	}
	for _, cl := range c.byTag {
		live = cl.sentCalls(live)
	}
	return live
}

// watchDeadline makes the watch wake at t at the latest.
func (c *Client) watchDeadline(t int64) {
	if t == 0 || (c.alarmAt != 0 && c.alarmAt <= t) {
		return
	}
	c.alarmAt = t
	select {
	case c.alarm <- struct{}{}:
	default:
	}
}

// watch ends calls at their deadlines, sends waiting ones again, and keeps the session alive. One goroutine, whose timer
// stands at the earliest of these times.
func (c *Client) watch() {
	defer c.wg.Done()
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	for {
		c.mu.Lock()
		rs := c.tickLocked()
		wait := time.Minute
		if c.alarmAt != 0 {
			wait = max(time.Duration(c.alarmAt-c.now()), 0)
		}
		c.mu.Unlock()
		runAll(rs)
		t.Reset(wait)
		select {
		case <-t.C:
		case <-c.alarm:
		case <-c.life.Done():
			return
		}
	}
}

// tickLocked does what is due and sets alarmAt to the next time.
func (c *Client) tickLocked() []run {
	now := c.now()
	if c.alarmAt == 0 || c.alarmAt > now {
		return nil
	}
	c.alarmAt = 0
	var rs []run
	next := int64(0)
	at := func(t int64) {
		if t != 0 && (next == 0 || t < next) {
			next = t
		}
	}
	for _, cl := range c.liveLocked() {
		if cl.batch != nil {
			for i := range cl.batch.meta {
				p := &cl.batch.meta[i]
				switch {
				case p.dead || p.deadline == 0:
				case p.deadline <= now:
					rs = append(rs, c.dropLocked(cl, p, ended(errCallTimeout, cl.unresolved > 0, c.conn != nil, cl.last, c.lastErr)))
				default:
					at(p.deadline)
				}
			}
			c.reapLocked(cl)
			continue
		}
		if cl.deadline != 0 && cl.deadline <= now {
			rs = append(rs, c.endLocked(cl, ended(errCallTimeout, cl.unresolved > 0, c.conn != nil, cl.last, c.lastErr)))
			continue
		}
		at(cl.deadline)
	}
	n := 0
	for _, cl := range c.later {
		switch {
		case cl.state != callWaiting:
		case cl.retryAt <= now:
			c.queueLocked(cl)
		default:
			at(cl.retryAt)
			c.later[n] = cl
			n++
		}
	}
	clear(c.later[n:])
	c.later = c.later[:n]
	if c.conn != nil {
		if due := c.sessionUsed + int64(sessionRefresh); due <= now {
			c.touchLocked()
			at(c.sessionUsed + int64(sessionRefresh))
		} else {
			at(due)
		}
	}
	for _, s := range c.subs {
		at(s.tendLocked(now, &rs))
	}
	at(c.suspectLocked(now))
	if c.alarmAt == 0 || (next != 0 && next < c.alarmAt) {
		c.alarmAt = next
	}
	return rs
}
