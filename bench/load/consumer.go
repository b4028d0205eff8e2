package load

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/quorate/quorate/client"
)

// consumer takes messages through a client of its own, checks each and acknowledges it by itself.
type consumer struct {
	r        *run
	number   int // from 0
	conn     Conn
	stop     func(context.Context) error // nil: not subscribed
	confirm  *latencies                  // of acks
	endToEnd *latencies
	hands    chan *taken // what it handles, in order of arrival; room for all that may be out
	idle     sync.WaitGroup
	places   []placed // what it has received, where the run keeps that
}

// taken is one delivery on its way to a confirmed ack.
type taken struct {
	c     *consumer
	seq   uint64
	from  time.Time
	token string
	done  func(client.Acked, error)
}

var takens sync.Pool

func newTaken() *taken {
	if t, ok := takens.Get().(*taken); ok {
		return t
	}
	t := new(taken)
	t.done = t.acked
	return t
}

func (r *run) openConsumers(ctx context.Context) ([]*consumer, error) {
	conns, err := r.openAll(ctx, "consumer", r.cfg.Consumers)
	if err != nil {
		return nil, err
	}
	cs := make([]*consumer, len(conns))
	for i, conn := range conns {
		c := &consumer{r: r, number: i, conn: conn, confirm: newLatencies(), endToEnd: newLatencies()}
		if r.drains() {
			r.confirm = append(r.confirm, c.confirm)
		}
		r.endToEnd = append(r.endToEnd, c.endToEnd)
		cs[i] = c
	}
	return cs, nil
}

// start subscribes to all queues of the run, or, if they are as many as consumers or more, to its part of them.
func (c *consumer) start(ctx context.Context) error {
	if shapes[c.r.cfg.Workload].slots {
		c.hands = make(chan *taken, 2*c.r.cfg.Window)
		c.idle.Go(c.handle)
	}
	var stops []func(context.Context) error
	c.stop = func(ctx context.Context) error {
		return each(len(stops), func(i int) error { return stops[i](ctx) })
	}
	for i, q := range c.r.queues {
		if n := c.r.cfg.Consumers; len(c.r.queues) >= n && i%n != c.number {
			continue // another's
		}
		stop, err := c.conn.Subscribe(ctx, q, c.r.cfg.Window, c.deliver)
		if err != nil {
			return fmt.Errorf("subscribe to queue %s: %w", q, err)
		}
		stops = append(stops, stop)
	}
	return nil
}

// startAll starts them all.
func startAll(ctx context.Context, cs []*consumer) error {
	return each(len(cs), func(i int) error { return cs[i].start(ctx) })
}

// startConsumers opens the consumers and starts them.
func (r *run) startConsumers(ctx context.Context) ([]*consumer, error) {
	cs, err := r.openConsumers(ctx)
	if err != nil {
		return nil, err
	}
	if err := startAll(ctx, cs); err != nil {
		closeConsumers(cs)
		return nil, err
	}
	return cs, nil
}

// openBoth opens the producers, and the consumers, which it starts; closing closes all.
func (r *run) openBoth(ctx context.Context) (ps []*producer, cs []*consumer, closing func(), err error) {
	if ps, err = r.openProducers(ctx); err != nil {
		return nil, nil, nil, err
	}
	if cs, err = r.startConsumers(ctx); err != nil {
		closeProducers(ps)
		return nil, nil, nil, err
	}
	return ps, cs, func() {
		closeConsumers(cs)
		closeProducers(ps)
	}, nil
}

// stopAll ends the subscriptions. What is out stays with the consumers, to be acknowledged.
func stopAll(cs []*consumer) {
	var wg sync.WaitGroup
	for _, c := range cs {
		stop := c.stop
		c.stop = nil
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
			defer cancel()
			_ = stop(ctx) // the client is closed later
		})
	}
	wg.Wait()
}

func closeConsumers(cs []*consumer) {
	var wg sync.WaitGroup
	for _, c := range cs {
		wg.Go(func() {
			if c.stop != nil {
				ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
				_ = c.stop(ctx) // the client is closed next
				cancel()
			}
			closeConn(c.conn) // no callback runs after it
			if c.hands != nil {
				close(c.hands)
				c.idle.Wait()
			}
		})
	}
	wg.Wait()
}

// deliver checks one message and acknowledges it.
func (c *consumer) deliver(d *client.Delivery) {
	now := time.Now()
	seq, ok := c.take(d, now)
	if !ok {
		return // not acknowledged: the message is left for a look at it
	}
	t := newTaken()
	t.c, t.seq, t.from, t.token = c, seq, now, d.Token
	c.r.acks.Add(1)
	if c.hands != nil {
		c.hands <- t // has room
		return
	}
	t.ack()
}

// take notes a delivery in the ledger; false where it is not one of the run's messages as it was sent.
func (c *consumer) take(d *client.Delivery, now time.Time) (seq uint64, ok bool) {
	r := c.r
	seq, due, sum, err := readBody(d.Body, r.id, r.cfg.Size)
	first := false
	if err != nil {
		r.ledger.unexpectedSeen.Add(1)
	} else {
		first, err = r.ledger.deliver(seq, sum)
	}
	if err != nil {
		r.failed("delivery", err)
		return 0, false
	}
	if first {
		if r.phase.Load() == phaseMeasure {
			c.endToEnd.record(now.Sub(r.origin) - due)
		}
		if r.judge != nil {
			r.judge(c, seq, due, d, now)
		}
		r.giveRoom()
	}
	return seq, true
}

// handle acknowledges what has come, one message in the time that one takes. What a timer that wakes late has cost is made up
// for.
func (c *consumer) handle() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var next time.Time
	for t := range c.hands {
		if next.Before(t.from) {
			next = t.from
		}
		next = next.Add(time.Duration(c.r.work.Load()))
		if rest := time.Until(next); rest > 0 {
			timer.Reset(rest)
			<-timer.C
		}
		t.from = time.Now()
		t.ack()
	}
}

// ack acknowledges the message.
func (t *taken) ack() {
	if r := t.c.r; r.settling != nil {
		r.settling(t.seq)
	}
	if err := t.c.conn.AckAsync(context.Background(), t.token, client.AckOptions{}, t.done); err != nil {
		t.acked(client.Acked{}, err)
	}
}

// acked takes the outcome of an ack.
func (t *taken) acked(_ client.Acked, err error) {
	c, seq, from := t.c, t.seq, t.from
	t.c, t.token = nil, ""
	takens.Put(t)
	r := c.r
	r.acks.Add(-1)
	if err != nil {
		r.failed("ack", err)
		return
	}
	if r.ledger.ack(seq) {
		r.completed.Add(1)
	}
	now := time.Now()
	if r.drains() {
		r.cfg.Confirms.Mark(now)
	}
	if r.phase.Load() == phaseMeasure {
		c.confirm.record(now.Sub(from))
		if r.drains() && r.ledger.acked.Load() >= r.ledger.confirmed.Load() {
			r.wake()
		}
		return
	}
	r.wake()
}
