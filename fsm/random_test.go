package fsm

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// dice draws from a stream of bytes; when it is used up every draw is 0.
type dice struct{ b []byte }

func (d *dice) n(n int) int {
	if len(d.b) == 0 {
		return 0
	}
	v := int(d.b[0])
	d.b = d.b[1:]
	if n > 256 && len(d.b) > 0 {
		v = v<<8 | int(d.b[0])
		d.b = d.b[1:]
	}
	return v % n
}

func (d *dice) one(in int) bool { return d.n(in) == in-1 }

func pick[T any](d *dice, from []T) (v T) {
	if len(from) == 0 {
		return v
	}
	return from[d.n(len(from))]
}

// player makes valid entries that make sense: few names, tokens and ids that were seen, times near the edges.
type player struct {
	d        *dice
	s        *State
	fx       Effects
	index    uint64
	now      int64
	tokens   []Token
	ids      []ID
	sessions []ID
	batches  []ID
	number   uint64
	log      [][]byte
}

// tight makes every table small enough to fill.
func tight(s *State) {
	s.lim.queues, s.lim.sessions, s.lim.tombstones = 4, 4, 6
	s.lim.sessionBytes = 4*sessionCost + 40*outcomeCost
	s.lim.queueMessages, s.lim.groupMessages = 40, 90
	s.lim.kvKeys, s.lim.kvTombs = 12, 4
	s.lim.batches, s.lim.members, s.lim.callbackBytes = 4, 6, 150
	s.lim.dueMoves, s.lim.reclaim, s.lim.garbage, s.lim.freeReturns = 5, 3, 4, 3
	s.lim.schedules, s.lim.scheduleBytes = 4, 5*(scheduleCost+64)
	s.lim.deadGroups = 2
	s.lim.keyDebts, s.lim.unparks = 3, 2
	s.lim.idemKeys, s.lim.idemBytes = 4, idemRoom+6*(idemKeyCost+idemAnswerCost)
}

func newPlayer(d *dice) *player {
	p := &player{d: d, s: New(3), now: t0}
	tight(p.s)
	p.apply(AppendOp(AppendEntryHeader(nil, p.now, 0), &Bootstrap{Cluster: [16]byte{9}, Epoch: 2}))
	return p
}

func (p *player) apply(data []byte) error {
	p.index += uint64(1 + p.d.n(2))
	if err := p.s.Apply(p.index, data, &p.fx); err != nil {
		return err
	}
	p.log = append(p.log, append(binary.BigEndian.AppendUint64(nil, p.index), data...))
	for _, l := range p.fx.Leases {
		p.tokens = append(p.tokens, l.Token)
	}
	for _, o := range p.fx.Outcomes {
		if !o.ID.IsZero() {
			p.ids = append(p.ids, o.ID)
		}
		var in BatchInfo
		if p.s.Batch(o.ID, &in) {
			p.batches = append(p.batches, o.ID)
		}
	}
	p.tokens = p.tokens[max(0, len(p.tokens)-12):]
	p.ids = p.ids[max(0, len(p.ids)-20):]
	p.batches = p.batches[max(0, len(p.batches)-3):]
	p.sessions = p.sessions[max(0, len(p.sessions)-5):]
	return nil
}

func (p *player) queue() []byte {
	return []byte(pick(p.d, []string{"a", "a", "a", "b", "c", "d", "e"}))
}

func (p *player) request() (r Request) {
	if p.d.n(3) == 0 || len(p.sessions) == 0 {
		return r
	}
	r.Session = pick(p.d, p.sessions)
	p.number += uint64(p.d.n(4))
	r.Number = p.number - min(p.number, uint64(p.d.n(8)))
	r.Low = r.Number - min(r.Number, uint64(p.d.n(12)))
	if p.d.one(40) {
		r.Number += RequestWindow
	}
	return r
}

func (p *player) message() Message {
	d := p.d
	m := Message{Body: make([]byte, d.n(40)), Priority: uint8(pick(d, []int{4, 4, 4, 9, 0, 10}))}
	switch d.n(8) {
	case 0:
		m.DelayMillis = int64(d.n(300))
	case 1:
		m.DueAt = p.now + int64(d.n(300)) - 20
	case 2:
		m.TTLMillis = 1 + int64(d.n(400))
	case 3:
		m.TTLMillis, m.DelayMillis = 1+int64(d.n(200)), int64(d.n(200))
	}
	if d.n(4) == 0 {
		m.TaskID = []byte(pick(d, []string{"t1", "t2", "t3"}))
		if d.n(4) == 0 && len(p.ids) > 0 {
			m.TaskID = []byte(pick(d, p.ids).String())
		}
	}
	if d.n(4) == 0 {
		m.HasDedup, m.DedupKey = true, HashDedup([]byte{byte(d.n(5))})
		m.DedupContent[0] = byte(d.n(2))
	}
	if d.n(5) == 0 {
		m.Kind, m.Key, m.ContentType = []byte(pick(d, []string{"k", "k", "l", "m"})), []byte("key"), []byte("text/plain")
		m.Headers = []Header{{[]byte("a"), []byte("b")}, {[]byte("c"), nil}}
	}
	if d.n(3) != 0 {
		m.Key = []byte(pick(d, []string{"k1", "k2", "k3", "k4", "k5"}))
	}
	if d.n(6) == 0 {
		m.TimeoutMillis = int64(d.n(500))
	}
	if d.n(3) == 0 {
		m.Batch = pick(d, p.batches)
	}
	if d.n(4) == 0 {
		for range 1 + d.n(3) {
			m.Keys = append(m.Keys, AppendKVKey(nil, p.kvParts()...))
		}
	}
	switch d.n(10) {
	case 0:
		m.Retry = RetryPolicy{Kind: RetryFixed, InitialMillis: 50, MaxAttempts: int32(1 + d.n(3))}
	case 1:
		m.Retry = RetryPolicy{Kind: RetryExponential, InitialMillis: 20, MaxAttempts: 4, JitterMillis: 10}
	case 2:
		m.Retry = RetryPolicy{Kind: RetrySchedule, Steps: []int64{0, 30}}
	}
	return m
}

// kvParts is a key of few.
func (p *player) kvParts() (parts []string) {
	for range 1 + p.d.n(2) {
		parts = append(parts, pick(p.d, []string{"a", "b", "c", "\x00", ""}))
	}
	return parts
}

func (p *player) result() Result {
	return Result{Output: make([]byte, p.d.n(30)), ContentType: []byte(pick(p.d, []string{"", "x/y"}))}
}

func (p *player) task() []byte {
	if p.d.n(2) == 0 {
		return []byte(pick(p.d, p.ids).String())
	}
	return []byte(pick(p.d, []string{"t1", "t2", "t3", "t4"}))
}

func (p *player) options() (o QueueOptions) {
	d := p.d
	o.Normalize()
	switch d.n(4) {
	case 0:
		o.MaxDead = int64(1 + d.n(4))
		o.DeadOverflow = DeadOverflow(d.n(2))
	case 1:
		o.DedupMaxKeys, o.DedupWindowMillis = int64(1+d.n(4)), 1000
	case 2:
		o.MaxResultsBytes, o.ResultTTLMillis = 400, 1000
	case 3:
		o.DeadRetentionMillis, o.LeaseMillis = 1000+int64(d.n(1000)), 100
	}
	o.Ordering = pick(d, []Ordering{OrderUnordered, OrderUnordered, OrderPerKey, OrderPerKey, OrderFIFO})
	o.Overflow, o.Delivery = Overflow(d.n(2)), pick(d, []DeliveryMode{DeliverAtLeastOnce, DeliverAtLeastOnce, DeliverAtMostOnce})
	switch d.n(8) {
	case 0, 6:
		o.MaxDepth = int64(1 + d.n(12))
	case 7:
		o.MaxDepth, o.MaxBytes = int64(1+d.n(12)), int64(1+d.n(400))
	case 1:
		o.MaxBytes = int64(1 + d.n(400))
	case 2:
		o.MaxInFlight = int64(1 + d.n(3))
	case 3:
		o.MaxAgeMillis = int64(1 + d.n(400))
	case 4:
		o.Paused = d.n(3) == 0
	}
	if d.n(5) == 0 {
		o.RateMilli, o.Burst = pick(d, []int64{500, 5000, 30_000, 1_000_000}), int64(d.n(4))
	}
	if o.Ordering != OrderFIFO && d.n(2) == 0 {
		p.keyedOptions(&o)
	}
	o.DeadLetterQueue = pick(d, []string{"", "", "", "a", "b", "b", "c", "e"})
	o.Retry = RetryPolicy{Kind: RetryLinear, InitialMillis: 40, MaxMillis: 100, MaxAttempts: int32(1 + d.n(4))}
	o.Retry.Normalize()
	return o
}

// keyedOptions has keys matter in some way.
func (p *player) keyedOptions(o *QueueOptions) {
	d := p.d
	if o.Ordering == OrderUnordered && d.n(2) == 0 {
		o.MaxInFlightPerKey = int64(1 + d.n(3))
	}
	if d.n(2) == 0 {
		o.RatePerKeyMilli, o.BurstPerKey = pick(d, []int64{500, 5000, 30_000, 1_000_000}), int64(d.n(4))
	}
	if d.n(2) == 0 {
		o.FairBy = FairByKey
		if o.Ordering == OrderUnordered && d.n(2) == 0 {
			o.FairWeights = []FairWeight{{"k1", int64(1 + d.n(4))}, {"k3", 2}}[:1+d.n(2)]
		}
	}
}

// dead is one of the dead letters that there are.
func (p *player) dead() (id ID) {
	var ids []ID
	p.s.Queues("", func(n uint32, _ string) bool {
		p.s.Dead(n, 0, ID{}, func(in *Info) bool {
			ids = append(ids, in.ID)
			return true
		})
		return true
	})
	return pick(p.d, ids)
}

func (p *player) op() Op {
	d := p.d
	switch d.n(45) {
	case 39:
		return &BatchCreate{Request: p.request(), Queue: p.queue(), AutoCreate: d.n(2) == 0, Callback: Message{Body: make([]byte, d.n(50)), DelayMillis: int64(d.n(3)) * 50}}
	case 40, 41:
		return &BatchSeal{Request: p.request(), Batch: pick(d, p.batches)}
	case 33, 34:
		return &KVDelete{Request: p.request(), Key: AppendKVKey(nil, p.kvParts()...)}
	case 35, 36, 37, 38:
		return p.scheduleOp()
	case 0:
		return &OpenSession{}
	case 1:
		return &TouchSession{Session: pick(d, p.sessions)}
	case 2:
		return &CreateQueue{Request: p.request(), Name: p.queue(), Options: p.options()}
	case 3:
		if d.n(2) == 0 {
			only := OptionSet(0)
			for range 1 + d.n(3) {
				only |= 1 << pick(d, changeables[:]).key
			}
			return &ChangeQueue{Request: p.request(), Name: p.queue(), Only: only, Options: p.options()}
		}
		return &SetQueue{Request: p.request(), Name: p.queue(), Options: p.options()}
	case 4:
		if d.n(4) == 0 {
			return &DeleteQueue{Request: p.request(), Name: p.queue()}
		}
		return &PurgeQueue{Request: p.request(), Name: p.queue()}
	case 5, 6, 7, 8, 9, 10:
		op := &Enqueue{Request: p.request(), Queue: p.queue(), AutoCreate: d.n(8) != 0}
		for range 1 + d.n(5) {
			op.Messages = append(op.Messages, p.message())
		}
		return op
	case 11, 12, 13, 14, 15:
		return &Lease{
			Request: p.request(), Queue: p.queue(), Consumer: Consumer{Session: ID{1, 1}, Sub: uint32(d.n(3))},
			Worker: []byte(pick(d, []string{"", "w1", "w2"})), Max: int32(1 + d.n(4)), MaxBytes: int64(d.n(120)),
			LeaseMillis: pick(d, []int64{0, 100, 200, 500}),
		}
	case 16, 17, 18:
		op := &Ack{Token: pick(d, p.tokens), HasResult: d.n(2) == 0, ThenAutoCreate: d.n(2) == 0}
		if op.HasResult {
			op.Result = p.result()
		}
		if d.n(4) == 0 {
			for range 1 + d.n(3) {
				op.Then = append(op.Then, ThenMessage{Queue: p.queue(), Message: p.message()})
			}
		}
		return op
	case 19, 20:
		return &Nack{Token: pick(d, p.tokens), Error: make([]byte, d.n(600)), DelayMillis: pick(d, []int64{-1, -1, 0, 70}), Permanent: d.n(6) == 0}
	case 21:
		return &Extend{Token: pick(d, p.tokens), LeaseMillis: pick(d, []int64{0, 100, 400})}
	case 22, 23:
		return &Release{Token: pick(d, p.tokens)}
	case 24:
		return &PushResult{Request: p.request(), Queue: pick(d, [][]byte{[]byte("a"), nil, []byte("b")}), TaskID: p.task(), Kind: []byte("pk"), Result: p.result()}
	case 25:
		return &DeadRequeue{Request: p.request(), Queue: p.queue(), IDs: []ID{pick(d, p.ids), pick(d, p.ids)}}
	case 27, 28, 29:
		return &Cancel{Request: p.request(), Queue: pick(d, [][]byte{[]byte("a"), nil, []byte("b")}), TaskID: p.task()}
	case 30, 31:
		op := &Reschedule{
			Request: p.request(), Queue: pick(d, [][]byte{[]byte("a"), nil, []byte("b")}), TaskID: p.task(),
			When: When(d.n(int(whenEnd))), HasBody: d.n(2) == 0,
		}
		if op.HasBody {
			op.Body, op.ContentType = make([]byte, d.n(40)), []byte(pick(d, []string{"", "text/html"}))
		}
		switch op.When {
		case AfterDelay:
			op.Time, op.MaxWaitMillis = int64(d.n(300)), pick(d, []int64{0, 0, 100, 400})
		case AtTime:
			op.Time = p.now + int64(d.n(300)) - 20
		}
		return op
	case 26:
		return &DeadDelete{Request: p.request(), Queue: p.queue(), IDs: []ID{pick(d, p.ids)}}
	case 42:
		m := p.message()
		if d.n(4) != 0 {
			m.TaskID, m.HasDedup, m.DedupKey, m.DedupContent, m.Keys, m.Batch = nil, false, [16]byte{}, [16]byte{}, nil, ID{}
		}
		return &DeadEdit{Request: p.request(), Queue: p.queue(), ID: p.dead(), Fields: EditFields(d.n(1024)), Message: m}
	case 43:
		return &DeadRequeue{Request: p.request(), Queue: p.queue(), IDs: []ID{p.dead(), p.dead()}}
	}
	if d.n(3) == 0 {
		return &DeadPurge{Request: p.request(), Queue: p.queue()}
	}
	if d.n(2) == 0 {
		return &Nothing{}
	}
	return &Checkpoint{Nonce: 5}
}

// keyed gives every sixth operation one of a few idempotency keys.
func (p *player) keyed(op Op) Op {
	d := p.d
	if d.n(6) != 5 {
		return op
	}
	o := under(pick(d, []string{"a", "b", "c", "d", "e", "f", "g"}), op)
	o.Print[0] += byte(d.n(8) / 7)
	o.Part, o.Note = uint32(d.n(3)), make([]byte, d.n(3)*40)
	return o
}

// play applies one entry of random operations.
func (p *player) play() error {
	d := p.d
	shift := int64(0)
	switch d.n(10) {
	case 0:
		p.now += int64(d.n(2000))
	case 1:
		step := int64(d.n(5000))
		p.now, shift = p.now+step, step-int64(d.n(100))
	case 2:
		if d.one(20) {
			p.now += KVTTLMillis
		}
		if d.one(10) {
			p.now += BatchKeepMillis
		}
		if d.one(6) {
			p.now += SessionIdleMillis + int64(d.n(3)) - 1
		}
	default:
		p.now += int64(d.n(60))
	}
	data := AppendEntryHeader(nil, p.now, shift)
	opened := false
	for range d.n(6) {
		op := p.op()
		if _, ok := op.(*OpenSession); ok {
			opened = true
		}
		data = AppendOp(data, p.keyed(op))
	}
	if err := p.apply(data); err != nil {
		return err
	}
	if opened {
		for _, o := range p.fx.Outcomes {
			if p.s.SessionKnown(o.ID) {
				p.sessions = append(p.sessions, o.ID)
			}
		}
	}
	return nil
}

// reads calls every reader, for panics.
func (p *player) reads() {
	var d Delivery
	var in Info
	var r RecordedResult
	for _, l := range p.fx.Leases {
		p.s.Deliver(l, &d)
	}
	for _, t := range p.tokens {
		p.s.Lease(t, &d)
		p.s.LeaseCancelled(t)
	}
	for _, id := range p.ids {
		p.s.Task("", []byte(id.String()), &in)
		p.s.Result("a", []byte(id.String()), &r)
	}
	p.s.Task("a", []byte("t1"), &in)
	p.s.Result("a", []byte("t2"), &r)
	p.s.Consumers(func(c Consumer, _ uint32, n int) bool {
		p.s.ConsumerLeases(c, func(Token) bool { n--; return true })
		return n == 0
	})
	p.s.Queues("", func(n uint32, _ string) bool {
		p.s.Stats(n)
		for st := StateScheduled; st <= StateRetrying; st++ {
			p.s.Peek(n, st, pick(p.d, p.ids), func(*Info) bool { return true })
		}
		last := uint64(0)
		p.s.Results(n, uint64(p.d.n(50)), func(r *RecordedResult) bool {
			if r.Seq <= last {
				panic("results out of order")
			}
			last = r.Seq
			return true
		})
		p.s.QueueResult(n)
		p.s.Dead(n, p.now-100, pick(p.d, p.ids), func(in *Info) bool { return p.s.DeadLetter(n, in.ID, in) })
		w := DeadFilter{Reason: DeadReason(p.d.n(6)), Since: p.now - 200}
		p.s.DeadWhere(n, &w, 0, ID{}, func(in *Info) bool { return p.s.DeadLetter(n, in.ID, in) })
		return true
	})
	var e KVEntry
	p.s.KVGet(AppendKVKey(nil, p.kvParts()...), &e)
	p.s.KVList(AppendKVKey(nil, p.kvParts()[:1]...), nil, func(*KVEntry) bool { return true })
	st := p.s.KVStats()
	p.s.KVChanges(nil, st.Oldest, func(*KVEntry) bool { return true })
	p.s.Memory()
	p.s.NextDue()
	p.s.ScheduleTotals()
	p.s.Schedules("a", func(in *ScheduleInfo) bool { _, ok := p.s.Schedule([]byte(in.Name)); return ok })
}

func seeds(t *testing.T, n int) []uint64 {
	if *seedFlag != 0 {
		return []uint64{*seedFlag}
	}
	var s []uint64
	for i := range n {
		s = append(s, uint64(i+1))
	}
	return s
}

// TestRandomLogs plays random logs with every table small, checks every invariant after each entry, and restores from
// snapshots taken on the way: each restored state must go on to the same end.
func TestRandomLogs(t *testing.T) {
	n, length := 60, 120
	if testing.Short() {
		n = 20
	}
	overflowed := int64(0)
	for _, seed := range seeds(t, n) {
		src := make([]byte, 1<<14)
		rng := rand.New(rand.NewPCG(seed, 1))
		for i := range src {
			src[i] = byte(rng.Uint32())
		}
		p := newPlayer(&dice{src})
		type cut struct {
			at   int
			snap []byte
		}
		var cuts []cut
		for i := range length {
			if err := p.play(); err != nil {
				t.Fatalf("seed %d entry %d: %v", seed, i, err)
			}
			if err := p.s.Check(); err != nil {
				t.Fatalf("seed %d entry %d: %v", seed, i, err)
			}
			p.reads()
			if rng.IntN(12) == 0 {
				cuts = append(cuts, cut{len(p.log), snapshot(t, p.s)})
			}
		}
		p.s.Queues("", func(n uint32, _ string) bool {
			overflowed += p.s.Stats(n).Overflowed
			return true
		})
		want := digest(p.s)
		for _, c := range cuts {
			s := restored(t, c.snap)
			s.lim = p.s.lim
			for _, e := range p.log[c.at:] {
				if err := s.Apply(binary.BigEndian.Uint64(e), e[8:], nil); err != nil {
					t.Fatal(err)
				}
				if err := s.Check(); err != nil {
					t.Fatalf("seed %d restored at %d: %v", seed, c.at, err)
				}
			}
			if got := digest(s); got != want {
				t.Fatalf("seed %d restored at entry %d of %d: another end", seed, c.at, len(p.log))
			}
			s.Close()
		}
		p.s.Close()
	}
	if overflowed == 0 && *seedFlag == 0 {
		t.Error("no queue that was there at the end of a log has dropped anything")
	}
}

// FuzzApply reads the fuzzer's bytes as choices of valid operations: nothing panics, and every invariant holds.
func FuzzApply(f *testing.F) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 2))
		src := make([]byte, 600)
		for i := range src {
			src[i] = byte(rng.Uint32())
		}
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		p := newPlayer(&dice{src})
		defer p.s.Close()
		for n := 0; len(p.d.b) > 0 && n < 400; n++ {
			if err := p.play(); err != nil {
				t.Fatal(err)
			}
			if err := p.s.Check(); err != nil {
				t.Fatal(err)
			}
			p.reads()
		}
		s := restored(t, snapshot(t, p.s))
		s.Close()
	})
}
