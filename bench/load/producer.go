package load

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/client"
)

// producer sends messages through a client of its own, with a bounded number without confirmation. Each of them has a
// slot, whose body is used again when the confirmation is there.
type producer struct {
	r       *run
	conn    Conn
	free    chan *slot
	confirm *latencies
}

type slot struct {
	p    *producer
	body []byte
	seq  uint64
	from time.Duration // since the run's origin: latency counts from here
	out  atomic.Bool   // sent and without an outcome
	tag  int           // what kind of message it is, as the workload says
	key  []byte        // of the message, where the workload sets one
	done func(client.Receipt, error)
}

func (r *run) openProducers(ctx context.Context) ([]*producer, error) {
	conns, err := r.openAll(ctx, "producer", r.cfg.Producers)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(r.cfg.Seed, 2))
	ps := make([]*producer, len(conns))
	for i, c := range conns {
		p := &producer{r: r, conn: c, free: make(chan *slot, r.cfg.Outstanding), confirm: newLatencies()}
		for range r.cfg.Outstanding {
			s := &slot{p: p, body: filler(rng, r.cfg.Size)}
			s.done = s.confirmed
			p.free <- s
		}
		r.confirm = append(r.confirm, p.confirm)
		ps[i] = p
	}
	return ps, nil
}

func closeProducers(ps []*producer) {
	var wg sync.WaitGroup
	for _, p := range ps {
		wg.Go(func() { closeConn(p.conn) })
	}
	wg.Wait()
}

// fill makes the slot's next message, due at the given time.
func (s *slot) fill(due time.Duration) bool {
	r := s.p.r
	seq, err := r.ledger.open()
	if err != nil {
		r.fatal(err)
		return false
	}
	s.seq, s.from = seq, due
	s.out.Store(true)
	if r.due != nil {
		due = r.due(seq)
	}
	r.ledger.send(seq, stamp(s.body, r.id, seq, due))
	return true
}

// confirmed takes the outcome of the slot's message.
func (s *slot) confirmed(_ client.Receipt, err error) {
	r := s.p.r
	if !s.out.Swap(false) {
		r.ledger.answeredTwice.Add(1)
		return
	}
	now := time.Now()
	o := outcomeOf(err)
	r.ledger.settle(s.seq, o)
	if o == outConfirmed {
		if !r.drains() {
			r.cfg.Confirms.Mark(now)
		}
		if r.cfg.Consumers == 0 {
			r.completed.Add(1)
		}
		if r.phase.Load() == phaseMeasure {
			s.p.confirm.record(now.Sub(r.origin) - s.from)
		}
	} else {
		r.failed("enqueue", err)
	}
	s.p.free <- s // has room for all slots
	if r.phase.Load() != phaseMeasure {
		r.wake()
	}
}

// start hands the slot's message to the client. What the client refuses at once ends the run.
func (s *slot) start() bool {
	r := s.p.r
	// Not the run's context: what has been sent is to have its outcome, within the call's own time.
	m := client.Message{Body: s.body}
	if r.dress != nil {
		r.dress(s, &m)
	}
	err := s.p.conn.EnqueueAsync(context.Background(), r.queues[s.seq%uint64(len(r.queues))], m, s.done)
	if err != nil {
		s.confirmed(client.Receipt{}, err)
		if outcomeOf(err) == outRefused && !r.cfg.FaultRun {
			r.fatal(err)
			return false
		}
	}
	return true
}

// send sends as fast as confirmations come, until ctx ends or, with a share, that is used up.
func (p *producer) send(ctx context.Context, share *atomic.Int64) {
	for {
		var s *slot
		select {
		case s = <-p.free:
		case <-ctx.Done():
			return
		}
		if share != nil {
			if share.Add(-1) < 0 {
				p.free <- s
				return
			}
		} else if !p.r.waitRoom(ctx) {
			return
		}
		if ctx.Err() != nil || !s.fill(p.r.now()) || !s.start() {
			return
		}
	}
}

// sendAll has all of them send until ctx ends; then the channel is closed.
func sendAll(ctx context.Context, ps []*producer) <-chan struct{} {
	done := make(chan struct{})
	var wg sync.WaitGroup
	for _, p := range ps {
		wg.Go(func() { p.send(ctx, nil) })
	}
	go func() {
		wg.Wait()
		close(done)
	}()
	return done
}

// waitRoom waits while the backlog is at its bound. Without consumers there is none.
func (r *run) waitRoom(ctx context.Context) bool {
	if r.cfg.Consumers == 0 {
		return true
	}
	for r.backlog() >= int64(r.cfg.Backlog) {
		select {
		case <-r.room:
		case <-ctx.Done():
			return false
		}
	}
	// Others may wait for the same token.
	if len(r.room) == 0 && r.backlog() < int64(r.cfg.Backlog) {
		r.giveRoom()
	}
	return true
}

func (r *run) backlog() int64 {
	l := &r.ledger
	n := l.sent.Load() - l.distinct.Load() - l.refused.Load() - l.unknown.Load()
	if r.parked != nil {
		n -= r.parked()
	}
	return n
}

func (r *run) giveRoom() {
	if len(r.room) == 0 {
		select {
		case r.room <- struct{}{}:
		default:
		}
	}
}

// oneByOne sends a message only when the one before is confirmed.
func (p *producer) oneByOne(ctx context.Context) {
	r := p.r
	for ctx.Err() == nil {
		s := <-p.free // given back by confirmed, below
		if !s.fill(r.now()) {
			return
		}
		rec, err := p.conn.Enqueue(context.Background(), r.cfg.Queue, client.Message{Body: s.body})
		s.confirmed(rec, err)
	}
}

// pace sends messages at the times they are due, evenly spread, whatever became of those before: latency counts from
// the due time, so a server that stalls is charged for all that should have been sent meanwhile. How late the generator
// itself was is recorded too. tag, if not nil, says what kind the i-th message is.
func (r *run) pace(ctx context.Context, ps []*producer, rate float64, tag func(i int) int) {
	start := r.now()
	interval := float64(time.Second) / rate
	t := time.NewTimer(0)
	defer t.Stop()
	for i := 0; ; {
		due := start + time.Duration(float64(i)*interval)
		now := r.now()
		if due > now {
			t.Reset(due - now)
			select {
			case <-t.C:
			case <-ctx.Done():
				return
			}
			continue
		}
		p := ps[i%len(ps)]
		var s *slot
		select {
		case s = <-p.free:
		case <-ctx.Done():
			return
		}
		if tag != nil {
			s.tag = tag(i)
		}
		if !r.waitRoom(ctx) || !s.fill(due) {
			return
		}
		if r.phase.Load() == phaseMeasure {
			r.late.record(r.now() - due)
		}
		if !s.start() {
			return
		}
		i++
	}
}
