package fsm

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// replicas are states of one log that came about in different ways: each has its own seed of hashes, and other slots, sizes of tables
// and orders of lists than the others.
type replicas struct {
	t     *testing.T
	rng   *rand.Rand
	s     [3]*State // the first is never restored; the second often; the third now and then, and views of it are held
	fx    [3]Effects
	view  *View
	index uint64
	now   int64

	tokens []Token
	queue  string
	keys   int // how many there are

	unordered bool
}

// restore puts what a snapshot gives in the place of a state.
func (r *replicas) restore(i int) {
	s, err := Restore(3, bytes.NewReader(snapshot(r.t, r.s[i])))
	if err != nil {
		r.t.Fatal(err)
	}
	s.lim = r.s[i].lim
	r.s[i].Close()
	r.s[i] = s
}

func alike[T comparable](r *replicas, what string, i int, a, b []T) {
	r.t.Helper()
	if !slices.Equal(a, b) {
		r.t.Fatalf("entry %d: replica %d has other %s: %+v, want %+v", r.index, i, what, b, a)
	}
}

// apply applies an entry to all and wants the same of each, in its order.
func (r *replicas) apply(ops ...Op) {
	r.t.Helper()
	data := AppendEntryHeader(nil, r.now, 0)
	for _, op := range ops {
		data = AppendOp(data, op)
	}
	r.index++
	for i, s := range r.s {
		if err := s.Apply(r.index, data, &r.fx[i]); err != nil {
			r.t.Fatal(err)
		}
		a, b := &r.fx[0], &r.fx[i]
		for j := range b.Leases {
			b.Leases[j].Slot = 0
		}
		alike(r, "outcomes", i, a.Outcomes, b.Outcomes)
		alike(r, "leases", i, a.Leases, b.Leases)
		alike(r, "ends of tasks", i, a.Tasks, b.Tasks)
		alike(r, "cancelled leases", i, a.Cancelled, b.Cancelled)
		must(r.t, "more", b.More, a.More)
	}
	for _, l := range r.fx[0].Leases {
		r.tokens = append(r.tokens, l.Token)
	}
	switch r.rng.IntN(30) {
	case 0, 1:
		r.restore(1)
	case 2:
		r.restore(2)
	case 3:
		if r.view != nil {
			r.view.Release()
		}
		r.view = r.s[2].View()
	}
}

// options draws what decides about keys, often something close to what there is.
func (r *replicas) options(o QueueOptions) QueueOptions {
	switch r.rng.IntN(8) {
	case 0:
		o.MaxInFlightPerKey = int64(r.rng.IntN(4))
	case 1:
		o.RatePerKeyMilli = []int64{0, 500, 2000, 50_000, LimitRateMilli}[r.rng.IntN(5)]
	case 2:
		o.BurstPerKey = int64(r.rng.IntN(4))
	case 3, 4:
		o.FairBy = FairBy(r.rng.IntN(2))
	case 5:
		o.FairBy, o.FairWeights = FairByKey, []FairWeight{{"k0", int64(1 + r.rng.IntN(9))}, {"k1", int64(1 + r.rng.IntN(9))}, {"k2", 2}}
	case 6:
		o.MaxInFlightPerKey, o.RatePerKeyMilli, o.FairBy = 0, 0, FairByNone
	case 7:
		o.Overflow, o.MaxDepth = Overflow(r.rng.IntN(2)), int64(r.rng.IntN(2)*(50+r.rng.IntN(200)))
	}
	if o.Ordering != OrderUnordered {
		o.MaxInFlightPerKey, o.FairWeights = 0, nil
	}
	if o.Ordering == OrderFIFO {
		o.RatePerKeyMilli, o.FairBy = 0, FairByNone
	}
	if o.RatePerKeyMilli == 0 {
		o.BurstPerKey = 0
	}
	if o.FairBy == FairByNone {
		o.FairWeights = nil
	}
	return o
}

func (r *replicas) enqueue() *Enqueue {
	op := &Enqueue{Queue: []byte(r.queue), AutoCreate: true}
	most := 1 + r.rng.IntN(60)
	for range 1 + r.rng.IntN(most) {
		m := Message{Priority: DefaultPriority}
		if r.rng.IntN(8) > 0 {
			m.Key = fmt.Appendf(nil, "k%d", r.rng.IntN(r.keys))
		}
		switch r.rng.IntN(12) {
		case 0:
			if r.unordered {
				m.Priority = uint8(r.rng.IntN(10))
			}
		case 1:
			m.DelayMillis = []int64{1, 100, 1000}[r.rng.IntN(3)] // many are due at once
		case 2:
			m.TTLMillis = []int64{1, 100, 1000}[r.rng.IntN(3)]
		}
		op.Messages = append(op.Messages, m)
	}
	return op
}

// some takes up to n tokens, at random.
func (r *replicas) some(n int) (list []Token) {
	for ; n > 0 && len(r.tokens) > 0; n-- {
		i := r.rng.IntN(len(r.tokens))
		list = append(list, r.tokens[i])
		r.tokens = slices.Delete(r.tokens, i, i+1)
	}
	return list
}

// step makes an entry.
func (r *replicas) step(o *QueueOptions) {
	name := []byte(r.queue)
	r.now += []int64{0, 0, 0, 1, 1, 20, 99, 100, 1000, 5000}[r.rng.IntN(10)]
	var ops []Op
	for range 1 + r.rng.IntN(4) {
		switch p := r.rng.IntN(100); {
		case p < 25:
			ops = append(ops, r.enqueue())
		case p < 60:
			length := []int64{0, 100, 1000, 60_000}[r.rng.IntN(4)]
			ops = append(ops, &Lease{Queue: name, Consumer: someone, Worker: []byte("w"), LeaseMillis: length,
				Max: int32(1 + r.rng.IntN([]int{2, 6, 40}[r.rng.IntN(3)]))})
		case p < 80:
			for _, t := range r.some(1 + r.rng.IntN(20)) {
				switch r.rng.IntN(4) {
				case 0:
					ops = append(ops, &Release{Token: t})
				case 1:
					ops = append(ops, &Nack{Token: t, DelayMillis: int64(r.rng.IntN(3)) - 1, Permanent: r.rng.IntN(4) == 0})
				default:
					ops = append(ops, &Ack{Token: t, HasResult: r.rng.IntN(2) == 0})
				}
			}
		case p < 97:
			*o = r.options(*o)
			ops = append(ops, &SetQueue{Name: name, Options: *o})
		case p < 98:
			ops = append(ops, &PurgeQueue{Name: name})
		case p < 99:
			ops = append(ops, &DeleteQueue{Name: name}, &CreateQueue{Name: name, Options: *o})
		default:
			ops = append(ops, &DeadRequeue{Queue: []byte("d"), IDs: r.letters()})
		}
	}
	r.apply(ops...)
}

// letters are the first dead letters of d.
func (r *replicas) letters() (ids []ID) {
	if n, ok := r.s[0].QueueNumber([]byte("d")); ok {
		r.s[0].Dead(n, 0, ID{}, func(in *Info) bool { ids = append(ids, in.ID); return len(ids) < 20 })
	}
	return ids
}

// TestReplicasServeAlike applies one log to states that came about in different ways, with options about keys switched on and off over
// few keys and many, and wants the same answers and leases in the same order of all, entry by entry, and the same state in the end.
func TestReplicasServeAlike(t *testing.T) {
	length := 500
	if testing.Short() {
		length = 150
	}
	leases := 0
	for _, seed := range seeds(t, 9) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := &replicas{t: t, rng: rand.New(rand.NewPCG(seed, 11)), now: t0, queue: "q", keys: []int{3, 60, 900}[seed%3]}
			for i := range r.s {
				r.s[i] = New(3)
				r.s[i].lim.unparks, r.s[i].lim.reclaim, r.s[i].lim.garbage, r.s[i].lim.dueMoves = 7, 20, 8, 100
			}
			defer func() {
				if r.view != nil {
					r.view.Release()
				}
				for _, s := range r.s {
					s.Close()
				}
			}()
			o := QueueOptions{DeadLetterQueue: "d", Retry: RetryPolicy{Kind: RetryFixed, InitialMillis: 100, MaxAttempts: 3}}
			o.Ordering = []Ordering{OrderUnordered, OrderUnordered, OrderPerKey, OrderPerKey, OrderFIFO}[seed%5]
			r.unordered = o.Ordering == OrderUnordered
			r.apply(&Bootstrap{Cluster: [16]byte{1}, Epoch: 1}, &CreateQueue{Name: []byte("d")}, &CreateQueue{Name: []byte("q"), Options: o})
			for range length {
				r.step(&o)
				leases += len(r.fx[0].Leases)
			}
			o.Overflow, o.MaxDepth = OverflowReject, 0
			r.apply(&SetQueue{Name: []byte("q"), Options: r.options(o)}, r.enqueue())
			for range 40 { // what is left, in its order
				r.now += 1000
				r.apply(&Lease{Queue: []byte("q"), Consumer: someone, Max: 50, LeaseMillis: 600_000})
			}
			want := digest(r.s[0])
			for i, s := range r.s {
				if err := s.Check(); err != nil {
					t.Errorf("replica %d: %v", i, err)
				}
				must(t, fmt.Sprint("digest of replica ", i), digest(s), want)
			}
		})
	}
	if leases < 1000 {
		t.Errorf("%d leases: the logs do nothing", leases)
	}
}
