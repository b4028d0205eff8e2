package fsmtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/fsm"
)

// pairScript plays entries by hand on model and state together.
type pairScript struct {
	t     *testing.T
	p     *Pair
	index uint64
}

func newPairScript(t *testing.T) *pairScript {
	s := &pairScript{t: t, p: NewPair(0, true)}
	t.Cleanup(func() { s.p.Close() })
	s.do(1_000_000, &fsm.Bootstrap{Cluster: [16]byte{1}, Epoch: 1})
	return s
}

// do applies an entry, fails the test where the answers differ, and returns the model's.
func (s *pairScript) do(now int64, ops ...fsm.Op) *fsm.Effects {
	s.t.Helper()
	s.index++
	fx, err := s.p.Apply(s.index, fsm.Entry{Now: now, Ops: ops})
	if err != nil {
		s.t.Fatalf("entry %d: %v", s.index, err)
	}
	return fx
}

// look compares all queries, after a snapshot and restore.
func (s *pairScript) look() {
	s.t.Helper()
	if err := s.p.Cut(); err != nil {
		s.t.Fatal(err)
	}
	if err := s.p.CompareQueries(); err != nil {
		s.t.Fatal(err)
	}
}

func batch(n int, x fsm.Message) *fsm.Enqueue {
	op := &fsm.Enqueue{Queue: []byte("q"), AutoCreate: true}
	for range n {
		op.Messages = append(op.Messages, x)
	}
	return op
}

// TestDedupEdges enqueues under one dedup key at the edges of its window, which a random T hardly ever meets.
func TestDedupEdges(t *testing.T) {
	const window = 5000
	x := fsm.Message{Priority: 4, HasDedup: true, DedupKey: [16]byte{1}, DedupContent: [16]byte{2}}
	for _, c := range []struct {
		after     int64
		duplicate bool
	}{{window - 1, true}, {window, true}, {window + 1, false}} {
		s := newPairScript(t)
		s.do(1_000_000, &fsm.CreateQueue{Name: []byte("q"), Options: fsm.QueueOptions{DedupWindowMillis: window}}, batch(1, x))
		if o := s.do(1_000_000+c.after, batch(1, x)).Outcomes[0]; o.Duplicate != c.duplicate {
			t.Errorf("%d ms after the first: %+v, want a duplicate: %v", c.after, o, c.duplicate)
		}
		s.look()
	}
}

// TestSessionsFull fills the table of sessions and waits until they end.
func TestSessionsFull(t *testing.T) {
	s := newPairScript(t)
	var ops []fsm.Op
	for range 5000 {
		ops = append(ops, &fsm.OpenSession{})
	}
	for range 4 {
		s.do(1_000_000, ops...)
	}
	if o := s.do(1_000_001, &fsm.OpenSession{}).Outcomes[0]; o.Code != fsm.Overloaded {
		t.Fatalf("session 20,001: %+v", o)
	}
	// All are over now, but what is not reclaimed still counts, and an entry reclaims after its operations.
	if o := s.do(1_000_000+sessionIdle, &fsm.OpenSession{}).Outcomes[0]; o.Code != fsm.Overloaded {
		t.Fatalf("before the first are reclaimed: %+v", o)
	}
	if fx := s.do(1_000_000+sessionIdle, ops[:1025]...); fx.Outcomes[1023].Code != fsm.OK || fx.Outcomes[1024].Code != fsm.Overloaded {
		t.Fatalf("after 1,024 were reclaimed: %+v, %+v", fx.Outcomes[1023], fx.Outcomes[1024])
	}
}

// TestManyMoves has more due at once than an entry moves, of all four kinds.
func TestManyMoves(t *testing.T) {
	s := newPairScript(t)
	s.do(1_000_000, batch(600, fsm.Message{Priority: 4}), batch(600, fsm.Message{Priority: 4, DelayMillis: 1000}))
	s.do(1_000_000, batch(600, fsm.Message{Priority: 4, TTLMillis: 1000}),
		&fsm.Lease{Queue: []byte("q"), Max: 600, MaxBytes: maxLeaseBytes, LeaseMillis: 1000})
	s.look()
	for i, more := range []bool{true, false} {
		if fx := s.do(1_001_000); fx.More != more {
			t.Fatalf("entry %d: more is %v", i, fx.More)
		}
		s.look()
	}
	// The order of the moves is that of the places.
	s.do(1_001_000, &fsm.Lease{Queue: []byte("q"), Max: 1000, MaxBytes: maxLeaseBytes})
	s.do(1_002_000, &fsm.Lease{Queue: []byte("q"), Max: 1000, MaxBytes: maxLeaseBytes})
	s.look()
}

// TestFreeReturns releases one message until its returns are no longer free, and then until it dies of them.
func TestFreeReturns(t *testing.T) {
	s := newPairScript(t)
	policy := fsm.RetryPolicy{Kind: fsm.RetryFixed, InitialMillis: 1, MaxAttempts: 3}
	s.do(1_000_000, batch(1, fsm.Message{Priority: 4, Retry: policy}))
	var attempts []int32
	for now := int64(1_000_000); ; now++ {
		fx := s.do(now, &fsm.Lease{Queue: []byte("q"), Max: 1, MaxBytes: 1})
		if len(fx.Leases) == 0 {
			break
		}
		attempts = append(attempts, fx.Leases[0].Attempt)
		s.do(now, &fsm.Release{Token: fx.Leases[0].Token})
		s.do(now, &fsm.Release{Token: fx.Leases[0].Token})
		s.look()
	}
	// Sixteen are free, so that attempt 1 is seen seventeen times; the third that costs is the last.
	if len(attempts) != 19 || attempts[16] != 1 || attempts[17] != 2 || attempts[18] != 3 {
		t.Errorf("attempts %v", attempts)
	}
}

// TestHistory nacks one message more often than is remembered.
func TestHistory(t *testing.T) {
	s := newPairScript(t)
	policy := fsm.RetryPolicy{Kind: fsm.RetryExponential, InitialMillis: 1, MaxMillis: 5000, MaxAttempts: 12, JitterMillis: 50}
	s.do(1_000_000, batch(1, fsm.Message{Priority: 4, Retry: policy}))
	now := int64(1_000_000)
	for n := 1; n <= 12; n++ {
		fx := s.do(now, &fsm.Lease{Queue: []byte("q"), Max: 1, MaxBytes: 1, Worker: []byte(fmt.Sprint("w", n))})
		s.do(now+1, &fsm.Nack{Token: fx.Leases[0].Token, DelayMillis: -1, Error: []byte(strings.Repeat("語", 80+n))})
		s.look()
		now += 10_000
	}
	dead := s.p.Model.Dead("q")
	if len(dead) != 1 || len(dead[0].History) != maxHistory || dead[0].History[0].Number != 5 || len(dead[0].History[0].Error) != 255 {
		t.Errorf("dead letters %+v", dead)
	}
	if got := s.do(now, &fsm.DeadRequeue{Queue: []byte("q"), IDs: []fsm.ID{dead[0].ID}}); got.Outcomes[0].Code != fsm.OK {
		t.Errorf("requeue: %+v", got.Outcomes)
	}
	s.look()
}

// TestDeadDropOldest lets more die than are kept, and then keeps fewer.
func TestDeadDropOldest(t *testing.T) {
	s := newPairScript(t)
	options := func(n int64) fsm.QueueOptions {
		return fsm.QueueOptions{MaxDead: n, DeadOverflow: fsm.DeadDropOldest}
	}
	s.do(1_000_000, &fsm.CreateQueue{Name: []byte("q"), Options: options(5)})
	for i := range int64(4) {
		s.do(1_000_000+i*10, batch(3, fsm.Message{Priority: 4, TTLMillis: 5}))
		s.look()
	}
	s.do(1_000_100, &fsm.SetQueue{Name: []byte("q"), Options: options(2)})
	s.look()
	s.do(1_000_100, batch(1, fsm.Message{Priority: 4, TTLMillis: 5}))
	s.do(1_000_105)
	s.look()
	if st, _ := s.p.Model.Stats("q"); st.Dead != 2 || st.Died != 13 || st.DeadDropped != 11 {
		t.Errorf("dead %d of %d, dropped %d", st.Dead, st.Died, st.DeadDropped)
	}
	for i, o := range []fsm.DeadOverflow{fsm.DeadRefuse, fsm.DeadDropOldest} {
		s.do(1_000_106, &fsm.SetQueue{Name: []byte("q"), Options: fsm.QueueOptions{MaxDead: 2, DeadOverflow: o}})
		if got := s.do(1_000_106, batch(1, fsm.Message{Priority: 4})).Outcomes[0]; (got.Code == fsm.QueueFull) != (i == 0) {
			t.Errorf("overflow %d: %+v", o, got)
		}
	}
}

// TestDeadLowered has more dead letters than a death makes go, once fewer are kept.
func TestDeadLowered(t *testing.T) {
	s := newPairScript(t)
	var tokens []fsm.Token
	var nacks []fsm.Op
	nack := func(t fsm.Token) fsm.Op { return &fsm.Nack{Token: t, DelayMillis: -1, Permanent: true} }
	for range 3 {
		fx := s.do(1_000_000, batch(maxReclaims/2+1, fsm.Message{Priority: 4}), &fsm.Lease{Queue: []byte("q"), Max: maxBatch, MaxBytes: maxLeaseBytes})
		for _, l := range fx.Leases {
			tokens = append(tokens, l.Token)
			nacks = append(nacks, nack(l.Token))
		}
	}
	s.do(1_000_001, nacks...)
	s.do(1_000_002, &fsm.SetQueue{Name: []byte("q"), Options: fsm.QueueOptions{MaxDead: 1, DeadOverflow: fsm.DeadDropOldest}})
	for _, forgotten := range []int{maxReclaims, len(tokens)} {
		fx := s.do(1_000_003, batch(1, fsm.Message{Priority: 4}), &fsm.Lease{Queue: []byte("q"), Max: 1, MaxBytes: maxLeaseBytes})
		s.do(1_000_003, nack(fx.Leases[0].Token))
		s.look()
		for i, o := range s.do(1_000_004, nacks...).Outcomes {
			if (o.Code == fsm.NotFound) != (i < forgotten) {
				t.Fatalf("letter %d of %d, with %d forgotten: %+v", i, len(tokens), forgotten, o)
			}
		}
	}
}

// TestSeveralFaults has options with more than one fault refused: for any of them, and for nothing that is right.
func TestSeveralFaults(t *testing.T) {
	weights := []fsm.FairWeight{{Key: "a", Weight: 1}}
	for _, c := range []struct {
		name    string
		options fsm.QueueOptions
		wrong   int
	}{
		{"one", fsm.QueueOptions{LeaseMillis: 1}, 1},
		{"weights without fair_by, in flight by key of an ordered queue", fsm.QueueOptions{
			Ordering: fsm.OrderPerKey, MaxInFlightPerKey: 1, FairWeights: weights,
		}, 2},
		{"weights without fair_by, rate by key of a fifo queue", fsm.QueueOptions{Ordering: fsm.OrderFIFO, RatePerKeyMilli: 1, FairWeights: weights}, 2},
		{"weights and turns of a fifo queue", fsm.QueueOptions{Ordering: fsm.OrderFIFO, FairBy: fsm.FairByKey, FairWeights: []fsm.FairWeight{{}}}, 2},
		{"many", fsm.QueueOptions{
			LeaseMillis: 1, MaxDead: -1, MaxDepth: -1, MaxBytes: -1, MaxInFlight: -1, MaxAgeMillis: -1, RateMilli: -1, Burst: -1,
			Overflow: 9, Delivery: 9, Ordering: 9, DeadLetterQueue: "-", RatePerKeyMilli: -1, BurstPerKey: -1, FairBy: 9,
			MaxInFlightPerKey: -1, FairWeights: []fsm.FairWeight{{}}, Retry: fsm.RetryPolicy{JitterMillis: -1},
		}, 18},
	} {
		t.Run(c.name, func(t *testing.T) {
			wrong := faultsOf("q", withDefaults(c.options))
			if len(wrong) != c.wrong {
				t.Fatalf("wrong are %v", wrong)
			}
			s := newPairScript(t)
			request := fsm.Request{Session: s.do(1_000_000, &fsm.OpenSession{}).Outcomes[0].ID, Number: 1}
			s.do(1_000_000, batch(1, fsm.Message{}), &fsm.SetQueue{Name: []byte("q"), Options: c.options})
			create := &fsm.CreateQueue{Request: request, Name: []byte("q"), Options: c.options}
			for range 2 { // and its repeat
				s.look()
				fx := s.do(1_000_000, &fsm.CreateQueue{Name: []byte("other")}, create)
				for f := fsm.Field(1); f < 100; f++ {
					err := s.p.compareOutcome(1, fx.Outcomes[1], refuse(fsm.InvalidArgument, f), fx, fx)
					if slices.Contains(wrong, f) != (err == nil) {
						t.Errorf("wrong are %v, refused for %d: %v", wrong, f, err)
					}
				}
				if s.p.compareOutcome(0, fx.Outcomes[1], refuse(fsm.InvalidArgument, wrong[len(wrong)-1]), fx, fx) == nil && c.wrong > 1 {
					t.Error("good for another operation of the entry")
				}
			}
		})
	}
}

// TestReclaimed fills the dedup table with keys that have ended and sees the table refuse until they are reclaimed.
func TestReclaimed(t *testing.T) {
	s := newPairScript(t)
	s.do(1_000_000, &fsm.CreateQueue{Name: []byte("q"), Options: fsm.QueueOptions{DedupMaxKeys: 1500, DedupWindowMillis: 1000}})
	key := func(i int) fsm.Message {
		return fsm.Message{Priority: 4, HasDedup: true, DedupKey: hash16(fmt.Sprint(i))}
	}
	op := &fsm.Enqueue{Queue: []byte("q")}
	for i := range 1000 {
		op.Messages = append(op.Messages, key(i))
	}
	more := &fsm.Enqueue{Queue: []byte("q")}
	for i := range 501 {
		more.Messages = append(more.Messages, key(1000+i))
	}
	fx := s.do(1_000_000, op, more)
	if o := fx.Outcomes[len(fx.Outcomes)-1]; o.Code != fsm.QueueFull || o.Field != fsm.FieldDedup {
		t.Fatalf("key 1,501: %+v", o)
	}
	one := &fsm.Enqueue{Queue: []byte("q"), Messages: []fsm.Message{key(0)}}
	if o := s.do(1_001_000, one).Outcomes[0]; !o.Duplicate {
		t.Fatalf("a window after the first: %+v", o)
	}
	if o := s.do(1_001_001, one).Outcomes[0]; o.Code != fsm.QueueFull {
		t.Fatalf("ended but not reclaimed: %+v", o)
	}
	if o := s.do(1_001_001, one).Outcomes[0]; o.Code != fsm.OK || o.Duplicate {
		t.Fatalf("after the reclaim: %+v", o)
	}
	s.look()
}

// TestTombstonesFull fills a queue's tombstones. The model is too slow for that, so the state is asked alone.
func TestTombstonesFull(t *testing.T) {
	p := NewPair(0, false)
	defer p.Close()
	index := uint64(0)
	apply := func(ops ...fsm.Op) *fsm.Effects {
		t.Helper()
		index++
		if err := p.State.Apply(index, p.encode(fsm.Entry{Now: 1_000_000, Ops: ops}), &p.fx); err != nil {
			t.Fatal(err)
		}
		return &p.fx
	}
	apply(&fsm.Bootstrap{Cluster: [16]byte{1}, Epoch: 1})
	var tokens []fsm.Token
	for len(tokens) < maxTombstones+1 {
		apply(batch(1000, fsm.Message{Priority: 4}))
		fx := apply(&fsm.Lease{Queue: []byte("q"), Max: 1000, MaxBytes: maxLeaseBytes})
		var acks []fsm.Op
		for _, l := range fx.Leases {
			if len(tokens) < maxTombstones+1 {
				tokens = append(tokens, l.Token)
				acks = append(acks, &fsm.Ack{Token: l.Token})
			}
		}
		apply(acks...)
	}
	n, _ := p.State.QueueNumber([]byte("q"))
	if st := p.State.Stats(n); st.Tombstones != maxTombstones || st.TombstonesDropped != 1 {
		t.Errorf("tombstones %d, dropped %d", st.Tombstones, st.TombstonesDropped)
	}
	fx := apply(&fsm.Ack{Token: tokens[0]}, &fsm.Ack{Token: tokens[1]})
	if fx.Outcomes[0].Code != fsm.NotFound || fx.Outcomes[1].Code != fsm.OK {
		t.Errorf("the oldest and the next: %s, %s", outcomeText(fx.Outcomes[0]), outcomeText(fx.Outcomes[1]))
	}
	if err := p.State.Check(); err != nil {
		t.Error(err)
	}
}
