package load

import (
	"context"
	"sync"
	"time"

	"github.com/quorate/quorate/client"
)

// consumer takes messages through a client of its own, checks each and acknowledges it by itself.
type consumer struct {
	r        *run
	conn     Conn
	stop     func(context.Context) error // nil: not subscribed
	confirm  *latencies                  // of acks
	endToEnd *latencies
}

// taken is one delivery on its way to a confirmed ack.
type taken struct {
	c    *consumer
	seq  uint64
	from time.Time
	done func(client.Acked, error)
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
		c := &consumer{r: r, conn: conn, confirm: newLatencies(), endToEnd: newLatencies()}
		if r.cfg.Workload == W2 {
			r.confirm = append(r.confirm, c.confirm)
		}
		r.endToEnd = append(r.endToEnd, c.endToEnd)
		cs[i] = c
	}
	return cs, nil
}

func (c *consumer) start(ctx context.Context) (err error) {
	c.stop, err = c.conn.Subscribe(ctx, c.r.cfg.Queue, c.r.cfg.Window, c.deliver)
	return err
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
			closeConn(c.conn)
		})
	}
	wg.Wait()
}

// deliver checks one message and acknowledges it.
func (c *consumer) deliver(d *client.Delivery) {
	r := c.r
	now := time.Now()
	seq, due, sum, err := readBody(d.Body, r.id, r.cfg.Size)
	first := false
	if err != nil {
		r.ledger.unexpectedSeen.Add(1)
	} else {
		first, err = r.ledger.deliver(seq, sum)
	}
	if err != nil {
		r.failed("delivery", err) // not acknowledged: the message is left for a look at it
		return
	}
	if first {
		if r.phase.Load() == phaseMeasure {
			c.endToEnd.record(now.Sub(r.origin) - due)
		}
		r.giveRoom()
	}
	t := newTaken()
	t.c, t.seq, t.from = c, seq, now
	r.acks.Add(1)
	if err := c.conn.AckAsync(context.Background(), d.Token, client.AckOptions{}, t.done); err != nil {
		t.acked(client.Acked{}, err)
	}
}

// acked takes the outcome of an ack.
func (t *taken) acked(_ client.Acked, err error) {
	c, seq, from := t.c, t.seq, t.from
	t.c = nil
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
	if r.cfg.Workload == W2 {
		r.cfg.Confirms.Mark(now)
	}
	if r.phase.Load() == phaseMeasure {
		c.confirm.record(now.Sub(from))
		if r.cfg.Workload == W2 && r.ledger.acked.Load() >= r.ledger.confirmed.Load() {
			r.wake()
		}
		return
	}
	r.wake()
}
