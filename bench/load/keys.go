package load

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/client"
)

// side is one of the queues that Keys compares: a run of its own in the same cluster.
type side struct {
	*run
	name    string
	holders uint64 // its first messages, one for each stuck key, which are leased and not acknowledged until the end
	held    []held // them
	waiting atomic.Int64
	swapped atomic.Int64
	stride  uint64
	out     []atomic.Bool // by key: one of it is out; nil where that is no fault
	last    []position    // by key: of the last one received; written by whoever has set out
	rates   []float64
	sent    []float64
}

// held is a message that makes its key stuck.
type held struct {
	seq   uint64
	token string
}

// keys sends and receives flat out over Keys different keys on two queues by turns: an unordered one, and one ordered by
// key, of which Stuck per cent are stuck, a message of theirs being leased for good, so that what comes for them waits
// behind it. One message of each key waits in each queue before the first turn, and both may have the same number more waiting
// for who is not stuck. Rates are of messages received and acknowledged, so what is sent for the stuck keys costs the ordered
// queue and does not count for it: with a tenth of the keys stuck its ratio is at most 0.9 times that of what was sent, which is
// told beside it.
//
// In the end the stuck keys are let go and everything is received: on the ordered queue one message of a key at a
// time and in the order in which they were enqueued, else it is counted as out of order.
func (r *run) keys(ctx context.Context, admin Conn) (*Result, error) {
	cfg := &r.cfg
	plain, err := r.newSide(ctx, admin, "unordered", 0)
	if err != nil {
		return nil, err
	}
	defer plain.dropQueue(ctx, admin)
	ordered, err := r.newSide(ctx, admin, "per_key", uint64(float64(cfg.Keys)*cfg.Stuck/100))
	if err != nil {
		return nil, err
	}
	defer ordered.dropQueue(ctx, admin)
	if err := ordered.stick(ctx, admin); err != nil {
		return nil, err
	}
	sides := []*side{plain, ordered}
	for _, s := range sides {
		if err := s.preload(ctx, cfg.Keys); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	var turns []*Result
	for range cfg.Rounds {
		slices.Reverse(sides) // neither is always the one that comes later
		for _, s := range sides {
			res, err := s.turn(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
			s.rates, s.sent = append(s.rates, res.Rate), append(s.sent, res.sent)
			if s == ordered {
				turns = append(turns, res)
			}
		}
	}
	slices.SortStableFunc(turns, func(a, b *Result) int { return cmp.Compare(a.Rate, b.Rate) })
	res := turns[(len(turns)-1)/2]
	for _, s := range []*side{plain, ordered} {
		if err := s.finish(ctx, admin); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		var sum Result
		s.close(&sum)
		res.add(&sum)
		res.OutOfOrder += s.swapped.Load()
		res.Parts = append(res.Parts, Part{Name: s.name, Messages: s.ledger.distinct.Load(), Rate: middle(s.rates), Runs: s.rates, Sent: middle(s.sent)})
	}
	res.Confirm, res.EndToEnd = quantiles(ordered.confirm), quantiles(ordered.endToEnd)
	res.Ratio = middle(ordered.rates) / middle(plain.rates)
	res.RatioSent = middle(ordered.sent) / middle(plain.sent)
	return res, nil
}

func middle(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[(len(s)-1)/2]
}

// newSide makes a queue and what is known of it.
func (r *run) newSide(ctx context.Context, admin Conn, ordering string, stuck uint64) (*side, error) {
	cfg := r.cfg
	cfg.Queue += "." + ordering
	cfg.Confirms = new(Gap)
	cfg.Backlog += cfg.Keys - int(stuck) // what waits for stuck keys is parked
	s := &side{run: newRun(cfg, r.fatal), name: ordering, holders: stuck, stride: coprime(cfg.Keys)}
	if ordering == "per_key" {
		s.out, s.last = make([]atomic.Bool, cfg.Keys), make([]position, cfg.Keys)
	}
	s.dress = s.setKey
	s.judge, s.settling = s.received, s.settled
	s.parked = s.waiting.Load
	if err := admin.CreateQueue(ctx, cfg.Queue, client.QueueOptions{Ordering: ordering}); err != nil {
		return nil, fmt.Errorf("create queue %s: %w", cfg.Queue, err)
	}
	return s, nil
}

// key is that of a message: the holders' are the first ones; the others go through all, neighbours apart.
func (s *side) key(seq uint64) uint64 {
	if seq < s.holders {
		return seq
	}
	n := uint64(s.cfg.Keys)
	return (seq - s.holders) % n * s.stride % n
}

func (s *side) setKey(sl *slot, m *client.Message) {
	k := s.key(sl.seq)
	sl.key = strconv.AppendUint(append(sl.key[:0], "key-"...), k, 10)
	m.Key = sl.key
	if k < s.holders {
		s.waiting.Add(1)
	}
}

// received judges the order of a delivery.
func (s *side) received(_ *consumer, seq uint64, _ time.Duration, d *client.Delivery, _ time.Time) {
	if s.out == nil {
		return
	}
	k := s.key(seq)
	p, ok := positionOf(d.ID)
	if s.out[k].Swap(true) || !ok || p.compare(s.last[k]) <= 0 {
		s.swapped.Add(1)
		return
	}
	s.last[k] = p
}

func (s *side) settled(seq uint64) {
	if s.out != nil {
		s.out[s.key(seq)].Store(false)
	}
}

// longLease outlives every run but the longest.
const longLease = 12 * time.Hour

// pullBatch is how many messages one pull asks for, the most that the broker gives.
const pullBatch = 1000

// stick sends a message for each stuck key and leases it for good.
func (s *side) stick(ctx context.Context, admin Conn) error {
	if s.holders == 0 {
		return nil
	}
	if err := s.preload(ctx, int(s.holders)); err != nil {
		return fmt.Errorf("messages that make keys stuck: %w", err)
	}
	defer s.progress("stick")()
	c := s.holder(admin)
	for uint64(len(s.held)) < s.holders {
		ds, err := admin.Lease(ctx, s.cfg.Queue, client.LeaseOptions{Max: pullBatch, Wait: s.cfg.drainStall, Lease: longLease})
		switch {
		case err != nil:
			return fmt.Errorf("lease a message of each stuck key: %w", err)
		case len(ds) == 0:
			return fmt.Errorf("lease a message of each stuck key: only %d of %d came", len(s.held), s.holders)
		}
		for _, d := range ds {
			if seq, ok := c.take(d, time.Now()); ok {
				s.held = append(s.held, held{seq, d.Token})
			}
		}
	}
	s.waiting.Store(0) // they have been received
	return nil
}

// holder is who has the messages that make keys stuck.
func (s *side) holder(admin Conn) *consumer {
	return &consumer{r: s.run, conn: admin, confirm: newLatencies(), endToEnd: newLatencies()}
}

// turn puts load on the queue for the measured time and leaves it as it is, with nothing out but what holds stuck keys.
func (s *side) turn(ctx context.Context) (*Result, error) {
	ps, cs, closing, err := s.openBoth(ctx)
	if err != nil {
		return nil, err
	}
	defer closing()
	sending, stop := context.WithCancel(ctx)
	defer stop()
	s.phase.Store(phaseWarm)
	done := sendAll(sending, ps)
	res, err := s.measure(ctx)
	stop()
	<-done
	if err != nil {
		return nil, err
	}
	stopAll(cs)
	err = s.await(ctx, func() bool { return s.ledger.settled.Load() == s.ledger.sent.Load() && s.acks.Load() == 0 }, false)
	return res, err
}

// finish lets the stuck keys go and receives all that is left.
func (s *side) finish(ctx context.Context, admin Conn) error {
	defer s.progress("drain")()
	cs, err := s.startConsumers(ctx)
	if err != nil {
		return err
	}
	defer closeConsumers(cs)
	c, most := s.holder(admin), int64(s.cfg.Outstanding)
	for _, h := range s.held {
		t := newTaken()
		t.c, t.seq, t.from, t.token = c, h.seq, time.Now(), h.token
		s.acks.Add(1)
		t.ack()
		if err := s.await(ctx, func() bool { return s.acks.Load() < most }, false); err != nil {
			return fmt.Errorf("let go of the stuck keys: %w", err)
		}
	}
	return s.await(ctx, s.drained, true)
}
