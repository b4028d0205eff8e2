package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/wire"
)

// broker is queues in memory, ordered by key if asked to be, with priorities and delays, and with what can go wrong built in. Like the real client, each connection runs its
// callbacks on one goroutine of its own.
type broker struct {
	mu      sync.Mutex
	waiting []*fakeMessage       // in order
	ordered map[string]bool      // queues
	out     map[string]int       // leased messages by queue and key, of ordered queues
	levels  bool                 // there have been messages of other priorities
	served  map[string]int       // of a queue that is fair by key: when each last had its turn
	index   uint64               // of the log
	leased  map[int]*fakeMessage // by number
	subs    []*fakeSub
	next    int // token number
	count   int // enqueued
	turn    int
	created []string
	deleted []string
	deepest int // most messages not yet delivered at once

	// What goes wrong, all optional. n is the message's number from 0.
	answer      func(n int) error         // outcome of an enqueue; a refused message is not stored
	keep        func(n int) bool          // false: confirmed and not stored
	change      func(n int, body []byte)  // of the copy that is delivered
	again       func(n int) bool          // deliver twice
	ackErr      func(n int) error         // outcome of an ack
	storeFailed bool                      // store what is refused too
	hold        func() bool               // true: deliver nothing now
	early       func(n int) bool          // deliver before it is due
	last        func(n int) bool          // when this one is the next, deliver the one that came last
	loose       func(n int) bool          // deliver though another message of its key is out
	before      func(n int) (wait func()) // runs on the connection's goroutine before an enqueue is answered
	openErr     func(name string) error   // of Open
	open        atomic.Int64              // connections
	flying      [maxClients]atomic.Int64  // enqueues without an answer, by connection
	most        atomic.Int64              // the most of them on one connection
}

type fakeMessage struct {
	n        int
	body     []byte
	queue    string
	key      []byte
	priority int
	due      time.Time
	id       string
}

// idAt is the id of a place in the log.
func idAt(index uint64, offset uint32) string {
	hi, lo := index>>32, index<<32|uint64(offset)
	b := make([]byte, wire.IDBytes)
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = crockford[lo&31]
		lo = lo>>5 | hi<<59
		hi >>= 5
	}
	return string(b)
}

type fakeSub struct {
	c       *fakeConn
	queue   string
	credit  int
	deliver func(*client.Delivery)
}

type fakeConn struct {
	b     *broker
	num   int64
	work  chan func()
	done  chan struct{}
	ended chan struct{}
	once  sync.Once
}

func (b *broker) Open(_ context.Context, name string) (Conn, error) {
	if b.openErr != nil {
		if err := b.openErr(name); err != nil {
			return nil, err
		}
	}
	c := &fakeConn{b: b, num: b.open.Add(1) % maxClients, work: make(chan func(), 1<<17), done: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		for {
			select {
			case f := <-c.work:
				f()
			case <-c.done:
				return
			}
		}
	}()
	return c, nil
}

func (c *fakeConn) Close(context.Context) error {
	c.once.Do(func() { close(c.done) })
	<-c.ended
	return nil
}

func (c *fakeConn) CreateQueue(_ context.Context, name string, o client.QueueOptions) error {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	if c.b.ordered == nil {
		c.b.ordered, c.b.out, c.b.leased = map[string]bool{}, map[string]int{}, map[int]*fakeMessage{}
	}
	c.b.ordered[name] = o.Ordering == "per_key"
	if o.FairBy == "key" {
		c.b.served = map[string]int{}
	}
	c.b.created = append(c.b.created, name)
	return nil
}

func (c *fakeConn) DeleteQueue(_ context.Context, name string) error {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	c.b.deleted = append(c.b.deleted, name)
	return nil
}

func (c *fakeConn) Enqueue(ctx context.Context, queue string, m client.Message) (client.Receipt, error) {
	got := make(chan error, 1)
	if err := c.EnqueueAsync(ctx, queue, m, func(_ client.Receipt, err error) { got <- err }); err != nil {
		return client.Receipt{}, err
	}
	return client.Receipt{}, <-got
}

func (c *fakeConn) EnqueueAsync(_ context.Context, queue string, m client.Message, done func(client.Receipt, error)) error {
	b := c.b
	if n := b.flying[c.num].Add(1); n > b.most.Load() {
		b.most.Store(n)
	}
	b.mu.Lock()
	n := b.count
	b.count++
	b.index++
	priority := 4
	if m.Priority != nil {
		priority, b.levels = *m.Priority, true
	}
	var err error
	if b.answer != nil {
		err = b.answer(n)
	}
	if (err == nil || b.storeFailed) && (b.keep == nil || b.keep(n)) {
		copies := 1
		if b.again != nil && b.again(n) {
			copies = 2
		}
		for range copies {
			fm := &fakeMessage{
				n: n, body: slices.Clone(m.Body), queue: queue, key: slices.Clone(m.Key), priority: priority, due: m.EnqueueAt,
				id: idAt(b.index, uint32(n)),
			}
			if wait := time.Until(fm.due); wait > 0 {
				time.AfterFunc(wait+time.Millisecond, b.dispatch)
			}
			if b.change != nil {
				b.change(n, fm.body)
			}
			b.waiting = append(b.waiting, fm)
		}
		b.deepest = max(b.deepest, len(b.waiting))
	}
	wait := func() {}
	if b.before != nil {
		wait = b.before(n)
	}
	b.mu.Unlock()
	c.work <- func() {
		wait()
		b.flying[c.num].Add(-1)
		done(client.Receipt{}, err)
	}
	b.dispatch()
	return nil
}

func (b *broker) dispatch() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.hold != nil && b.hold() {
		return
	}
	for idle := 0; len(b.waiting) > 0 && idle < len(b.subs); {
		s := b.subs[b.turn%len(b.subs)]
		b.turn++
		var d *client.Delivery
		if s.credit > 0 {
			d = b.take(s.queue)
		}
		if d == nil {
			idle++
			continue
		}
		idle = 0
		s.credit--
		s.c.work <- func() { s.deliver(d) }
	}
}

// take leases the next message of a queue, nil where none can be had. b.mu is held.
func (b *broker) take(queue string) *client.Delivery {
	now, at, last := time.Now(), -1, -1
	for i, m := range b.waiting {
		switch {
		case m.queue != queue:
		case m.due.After(now) && (b.early == nil || !b.early(m.n)):
		case b.ordered[queue] && len(m.key) > 0 && b.out[queue+string(m.key)] > 0 && (b.loose == nil || !b.loose(m.n)):
		default:
			last = i
			if at < 0 || m.priority > b.waiting[at].priority ||
				b.served != nil && b.served[string(m.key)] < b.served[string(b.waiting[at].key)] {
				at = i
			}
		}
		if at >= 0 && !b.levels && b.last == nil && b.served == nil {
			break
		}
	}
	if at < 0 {
		return nil
	}
	if b.last != nil && b.last(b.waiting[at].n) {
		at = last
	}
	m := b.waiting[at]
	if at == 0 {
		b.waiting = b.waiting[1:]
	} else {
		b.waiting = slices.Delete(b.waiting, at, at+1)
	}
	if b.ordered[queue] {
		b.out[queue+string(m.key)]++
	}
	b.index++
	b.next++
	if b.served != nil {
		b.served[string(m.key)] = b.next
	}
	b.leased[m.n] = m
	return &client.Delivery{ID: m.id, Token: m.id + idAt(b.index, 0), Body: m.body, Priority: m.priority, Key: m.key}
}

func (c *fakeConn) Lease(_ context.Context, queue string, o client.LeaseOptions) (ds []*client.Delivery, err error) {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	for len(ds) < o.Max {
		d := c.b.take(queue)
		if d == nil {
			break
		}
		ds = append(ds, d)
	}
	return ds, nil
}

func (c *fakeConn) Subscribe(_ context.Context, queue string, credit int, deliver func(*client.Delivery)) (func(context.Context) error, error) {
	s := &fakeSub{c: c, queue: queue, credit: credit, deliver: deliver}
	c.b.mu.Lock()
	c.b.subs = append(c.b.subs, s)
	c.b.mu.Unlock()
	c.b.dispatch()
	return func(context.Context) error {
		c.b.mu.Lock()
		c.b.subs = slices.DeleteFunc(c.b.subs, func(o *fakeSub) bool { return o == s })
		c.b.mu.Unlock()
		delivered := make(chan struct{}) // what was on its way
		c.work <- func() { close(delivered) }
		select {
		case <-delivered:
		case <-c.ended:
		}
		return nil
	}, nil
}

func (c *fakeConn) AckAsync(_ context.Context, token string, _ client.AckOptions, done func(client.Acked, error)) error {
	b := c.b
	p, ok := positionOf(token[:wire.IDBytes])
	if !ok {
		return fmt.Errorf("%q is no token", token)
	}
	n := int(p.offset)
	b.mu.Lock()
	if m := b.leased[n]; m != nil && b.ordered[m.queue] {
		b.out[m.queue+string(m.key)]--
	}
	for _, s := range b.subs {
		if s.c == c {
			s.credit++
		}
	}
	var err error
	if b.ackErr != nil {
		err = b.ackErr(n)
	}
	b.mu.Unlock()
	c.work <- func() { done(client.Acked{}, err) }
	b.dispatch()
	return nil
}

var (
	errRefusedForTest = &client.Error{Code: wire.CodeQueueFull, Message: "full"}
	errUnknownForTest = &client.Error{Code: wire.CodeTimeout, Message: "lost", Unknown: true}
	errOpenForTest    = errors.New("no door")
)

// quick is a short run against b.
func (b *broker) quick(workload string) Config {
	return Config{
		Workload: workload, Open: b.Open, Nodes: 1, For: 150 * time.Millisecond, WarmUp: 20 * time.Millisecond,
		Producers: 2, Consumers: 2, Outstanding: 16, Window: 16, Rate: 2000, Preload: 40_000, Backlog: 500,
		Count: 1000, DueRate: 5000, Lead: 150 * time.Millisecond, Capacity: 2000, Keys: 200, Rounds: 2, Tenants: 20, Queues: 5,
		CallTimeout: time.Second,
	}
}
