package fsm

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// dropping is a rig whose queue q drops what waits.
func dropping(t testing.TB, o QueueOptions) *rig {
	o.Overflow = OverflowDropOldest
	return limited(t, o)
}

// dropped are the bodies of what was dropped from queue q and is a dead letter there.
func (r *rig) dropped() (bodies []string) {
	n, _ := r.s.QueueNumber([]byte("q"))
	r.s.Dead(n, 0, ID{}, func(in *Info) bool {
		if in.Reason == ReasonOverflow {
			bodies = append(bodies, string(in.Body))
		}
		return true
	})
	return bodies
}

func (r *rig) wantDropped(bodies ...string) {
	r.t.Helper()
	got := r.dropped()
	slices.Sort(got)
	bodies = slices.Sorted(slices.Values(bodies))
	if !slices.Equal(got, bodies) {
		r.t.Fatalf("dropped %q, want %q", got, bodies)
	}
	must(r.t, "counted", r.stats().Overflowed, int64(len(bodies)))
}

func (r *rig) wantLive(n int64) {
	r.t.Helper()
	s := r.stats()
	must(r.t, "live", s.Ready+s.Scheduled+s.Retrying+s.Leased, n)
}

func prio(body string, p uint8) Message {
	m := text(body)
	m.Priority = p
	return m
}

func delayed(body string, ms int64) Message {
	m := text(body)
	m.DelayMillis = ms
	return m
}

func withKey(body, key string) Message {
	m := text(body)
	m.Key = []byte(key)
	return m
}

// TestDropOldestOrder drops one message after another: the ready ones from the lowest priority up and by place, what came back
// by the place it had, then those that wait for their retry by when it is due, then the delayed ones, and never what is out.
func TestDropOldestOrder(t *testing.T) {
	r := dropping(t, QueueOptions{MaxDepth: 10})
	r.put(prio("released", 1))
	back := r.lease1()
	r.put(prio("low", 1))
	r.put(prio("high", 9))
	r.ok(&Release{Token: back})
	r.put(delayed("in 2 s", 2000))
	r.put(delayed("in 1 s", 1000))
	for i, ms := range []int64{900, 500} {
		r.put(prio(fmt.Sprint("retry ", i), 9))
		for _, tok := range r.lease(2) {
			var in Info
			r.s.Task("", []byte(tok.Message.String()), &in)
			if strings.HasPrefix(string(in.Body), "retry") {
				r.ok(&Nack{Token: tok, DelayMillis: ms})
			} else {
				r.ok(&Release{Token: tok})
			}
		}
	}
	r.put(prio("out", 9))
	for _, tok := range r.lease(2) {
		if string(r.info(tok.Message).Body) != "out" {
			r.ok(&Release{Token: tok})
		}
	}
	r.put(prio("middle", 4))
	r.put(prio("middle too", 4))
	r.wantLive(10)
	r.everywhere()

	var want []string
	for i, next := range []string{"released", "low", "middle", "middle too", "high"} {
		r.put(delayed(fmt.Sprint("new ", i), 100_000+int64(i)))
		want = append(want, next)
		r.wantDropped(want...)
		r.wantLive(10)
	}
	for i, next := range []string{"retry 1", "retry 0", "in 1 s", "in 2 s", "new 0"} {
		r.put(delayed(fmt.Sprint("newer ", i), 200_000))
		want = append(want, next)
		r.wantDropped(want...)
	}
	must(t, "out", r.stats().Leased, 1)
	r.put(delayed("a tie goes by id", 300_000))
	r.put(delayed("a tie goes by id", 300_000))
	r.put(delayed("a tie goes by id", 300_000))
	r.put(delayed("a tie goes by id", 300_000))
	r.wantDropped(append(want, "new 1", "new 2", "new 3", "new 4")...)
	r.put(text("x"))
	r.wantDropped(append(want, "new 1", "new 2", "new 3", "new 4", "newer 0")...)
	r.everywhere()
}

// TestDropOldestKeepsWhatIsOut refuses where everything is out, and where more than the format's number would have to go.
func TestDropOldestKeepsWhatIsOut(t *testing.T) {
	name := []byte("q")
	r := dropping(t, QueueOptions{MaxDepth: 2})
	r.put(text("a"))
	r.put(text("b"))
	must(t, "out", len(r.lease(2)), 2)
	must(t, "limit", r.refused(&Enqueue{Queue: name, Messages: []Message{text("c")}}, QueueFull, FieldDepth).Limit, 2)
	r.wantDropped()

	r = dropping(t, QueueOptions{MaxDepth: MaxVictims + 2})
	for i := range MaxVictims + 2 {
		r.put(text(fmt.Sprint(i)))
	}
	set := func(depth int64) {
		r.ok(&SetQueue{Name: name, Options: QueueOptions{MaxDepth: depth, Overflow: OverflowDropOldest}})
	}
	set(2) // 17 would have to go
	r.refused(&Enqueue{Queue: name, Messages: []Message{text("c")}}, QueueFull, FieldDepth)
	r.wantDropped()
	set(3)
	r.put(text("c"))
	must(t, "16 at once", r.stats().Overflowed, MaxVictims)
	r.wantLive(3)
	r.everywhere()
}

// TestDropOldestBytes makes room by bytes: as many as it takes, and none at all where 16 are too few or the message alone is too
// big.
func TestDropOldestBytes(t *testing.T) {
	name := []byte("q")
	r := dropping(t, QueueOptions{MaxBytes: 100})
	for i := range 10 {
		r.put(text(fmt.Sprint(i) + strings.Repeat("x", 9)))
	}
	r.put(text(strings.Repeat("y", 25)))
	must(t, "dropped", r.stats().Overflowed, 3)
	must(t, "bytes", r.stats().Bytes, 95)
	r.refused(&Enqueue{Queue: name, Messages: []Message{text(strings.Repeat("z", 101))}}, TooLarge, FieldBytes)
	must(t, "dropped", r.stats().Overflowed, 3)
	r.put(text(strings.Repeat("z", 100)))
	must(t, "bytes", r.stats().Bytes, 100)
	must(t, "dropped", r.stats().Overflowed, 11)
	r.ok(&PurgeQueue{Name: name})
	for range 20 {
		r.put(text("12345"))
	}
	must(t, "limit", r.refused(&Enqueue{Queue: name, Messages: []Message{text(strings.Repeat("z", 81))}}, QueueFull, FieldBytes).Limit, 100)
	must(t, "dropped", r.stats().Overflowed, 11)
	r.put(text(strings.Repeat("z", 80)))
	must(t, "dropped", r.stats().Overflowed, 27)
	// Where dropping would help the depth and not the size, the size is named.
	r.ok(&SetQueue{Name: name, Options: QueueOptions{MaxBytes: 100, MaxDepth: 5, Overflow: OverflowDropOldest}})
	r.refused(&Enqueue{Queue: name, Messages: []Message{text(strings.Repeat("z", 101))}}, TooLarge, FieldBytes)
	r.everywhere()
}

// TestDropOldestBatch judges each message of a batch in turn: a later one may push out an earlier one, never itself.
func TestDropOldestBatch(t *testing.T) {
	name := []byte("q")
	r := dropping(t, QueueOptions{MaxDepth: 2})
	out := r.apply(&Enqueue{Queue: name, Messages: []Message{prio("a", 5), prio("b", 3), prio("c", 7), prio("d", 0), prio("e", 9)}})
	for i, o := range out {
		must(t, fmt.Sprint("message ", i), o.Code, OK)
	}
	r.wantDropped("b", "a", "d")
	r.wantLive(2)
	r.everywhere()
}

// TestDropOldestOrdered drops the messages that wait in lanes by their places, the ready holder first, and never a head that is
// out or waits for its retry.
func TestDropOldestOrdered(t *testing.T) {
	for _, ordering := range []Ordering{OrderFIFO, OrderPerKey} {
		r := dropping(t, QueueOptions{MaxDepth: 3, Ordering: ordering})
		for _, b := range []string{"a", "b", "c", "d"} {
			r.put(withKey(b, "k"))
		}
		r.wantDropped("a")
		tok := r.lease1()
		must(t, "head", string(r.info(tok.Message).Body), "b")
		r.put(withKey("e", "k"))
		r.wantDropped("a", "c")
		r.ok(&Nack{Token: tok, DelayMillis: 100})
		r.put(withKey("f", "k"))
		r.put(withKey("g", "k"))
		r.wantDropped("a", "c", "d", "e")
		r.wantState(tok.Message, StateRetrying)
		must(t, "nothing is leasable", r.leasable(), 0)
		r.everywhere()
		r.tick(100)
		must(t, "head again", r.lease1().Message, tok.Message)
	}
	// Without a key there is no lane: what waits for its retry may go.
	r := dropping(t, QueueOptions{MaxDepth: 1, Ordering: OrderPerKey})
	r.put(text("a"))
	r.ok(&Nack{Token: r.lease1(), DelayMillis: 100})
	r.put(text("b"))
	r.wantDropped("a")
	r.everywhere()
}

// TestDropOldestThen plans a chain's room exactly: all of it or nothing, no message of the chain and never the one that is acked.
func TestDropOldestThen(t *testing.T) {
	name := []byte("q")
	setup := func(ordering Ordering) *rig {
		r := dropping(t, QueueOptions{MaxDepth: 4, Ordering: ordering})
		for _, b := range []string{"work", "a", "b", "c"} {
			r.put(text(b))
		}
		return r
	}
	chain := func(tok Token, n int) *Ack {
		op := &Ack{Token: tok}
		for i := range n {
			op.Then = append(op.Then, ThenMessage{Queue: name, Message: text(fmt.Sprint("then ", i))})
		}
		return op
	}
	t.Run("as many as wait", func(t *testing.T) {
		r := setup(OrderUnordered)
		tok := r.lease1()
		r.ok(chain(tok, 3))
		r.wantDropped("a", "b", "c")
		r.wantLive(3)
		r.everywhere()
	})
	t.Run("one more", func(t *testing.T) {
		r := setup(OrderUnordered)
		tok := r.lease1()
		r.refused(chain(tok, 4), TooLarge, FieldDepth)
		if s := r.stats(); s.Overflowed != 0 || s.Ready != 3 || s.Leased != 1 {
			t.Fatalf("a refused chain changed the queue: %+v", s)
		}
		r.ok(chain(tok, 1))
		r.wantDropped("a")
		r.everywhere()
	})
	t.Run("late", func(t *testing.T) { // it waits itself, and is not dropped for its own chain
		r := setup(OrderUnordered)
		tok := r.lease1()
		r.ok(&Release{Token: tok})
		r.refused(chain(tok, 4), TooLarge, FieldDepth)
		r.ok(chain(tok, 2))
		r.wantDropped("a", "b")
		must(t, "acked", r.stats().Acked, 1)
		r.everywhere()
	})
	t.Run("refused for another queue", func(t *testing.T) {
		r := setup(OrderUnordered)
		r.ok(&CreateQueue{Name: []byte("full"), Options: QueueOptions{MaxDepth: 1}})
		r.ok(&Enqueue{Queue: []byte("full"), Messages: []Message{text("x")}})
		tok := r.lease1()
		op := chain(tok, 2)
		op.Then = append(op.Then, ThenMessage{Queue: []byte("full"), Message: text("y")})
		r.refused(op, QueueFull, FieldDepth)
		r.wantDropped()
		r.put(text("d"))
		r.wantDropped("a") // the plan was undone in order
		r.everywhere()
	})
	t.Run("fifo", func(t *testing.T) {
		r := setup(OrderFIFO)
		tok := r.lease1()
		r.ok(chain(tok, 2))
		r.wantDropped("a", "b")
		must(t, "next", string(r.info(r.lease1().Message).Body), "c")
		r.everywhere()
	})
	t.Run("moved into the chain's other queue", func(t *testing.T) { // which has promised its room to the chain
		r := newRig(t)
		r.ok(&CreateQueue{Name: []byte("morgue"), Options: QueueOptions{MaxDepth: 1}})
		r.ok(&CreateQueue{Name: name, Options: QueueOptions{MaxDepth: 2, Overflow: OverflowDropOldest, DeadLetterQueue: "morgue"}})
		r.put(text("work"))
		r.put(text("a"))
		op := chain(r.lease1(), 1)
		op.Then = append(op.Then, ThenMessage{Queue: []byte("morgue"), Message: text("y")})
		r.ok(op)
		r.wantDropped("a") // it stayed
		must(t, "stayed", r.stats().Stayed, 1)
		n, _ := r.s.QueueNumber([]byte("morgue"))
		must(t, "morgue", r.s.Stats(n).Ready, 1)
		r.everywhere()
	})
}

// TestDropOldestElsewhere covers what else enqueues or dies: firings drop, requeues and moves of dead letters do not, callbacks are
// let in, and a victim's own dead-letter queue, hooks and batch hear of its death.
func TestDropOldestElsewhere(t *testing.T) {
	name := []byte("q")
	t.Run("firing", func(t *testing.T) {
		r := dropping(t, QueueOptions{MaxDepth: 1})
		r.put(text("a"))
		def := daily("d")
		def.Queue = name
		r.ok(&CreateSchedule{Schedule: def})
		r.ok(r.step(FireUnplanned, r.now+10, false))
		r.now += 10
		r.ok(r.step(r.now, r.now+60_000, true))
		r.wantDropped("a")
		r.everywhere()
	})
	t.Run("requeue", func(t *testing.T) {
		r := dropping(t, QueueOptions{MaxDepth: 1})
		a := r.put(text("a"))
		r.put(text("b"))
		r.refused(&DeadRequeue{Queue: name, IDs: []ID{a}}, QueueFull, FieldDepth)
		r.wantDropped("a")
		r.everywhere()
	})
	t.Run("moves", func(t *testing.T) {
		r := newRig(t)
		r.ok(&CreateQueue{Name: []byte("morgue"), Options: QueueOptions{MaxDepth: 1, Overflow: OverflowDropOldest}})
		r.ok(&CreateQueue{Name: name, Options: QueueOptions{MaxDepth: 1, Overflow: OverflowDropOldest, DeadLetterQueue: "morgue"}})
		r.put(text("a"))
		r.put(text("b")) // a is moved
		r.put(text("c")) // b finds the morgue full, and stays
		r.wantMorgue(1)
		s := r.stats()
		must(t, "moved", s.MovedOut, 1)
		must(t, "stayed", s.Stayed, 1)
		must(t, "overflowed", s.Overflowed, 2)
		r.ok(&Enqueue{Queue: []byte("morgue"), Messages: []Message{text("z")}}) // what was moved there can be dropped there
		r.wantMorgue(1)
		n, _ := r.s.QueueNumber([]byte("morgue"))
		must(t, "dead in the morgue", r.s.Stats(n).Dead, 1)
		r.everywhere()
	})
	t.Run("callback", func(t *testing.T) {
		r := dropping(t, QueueOptions{MaxDepth: 2})
		b := r.ok(&BatchCreate{Queue: name, Callback: text("callback")}).ID
		m := text("member")
		m.Batch = b
		r.put(m)
		r.ok(&BatchSeal{Batch: b})
		r.put(text("x"))
		r.put(text("y")) // the member dies, and its batch's callback comes in beyond the limit
		r.wantDropped("member")
		r.wantLive(3)
		r.put(text("z")) // two go for it
		r.wantDropped("member", "x", "y")
		r.everywhere()
	})
	t.Run("keys", func(t *testing.T) {
		r := dropping(t, QueueOptions{MaxDepth: 1})
		m := text("lost")
		m.Keys = [][]byte{AppendKVKey(nil, "k")}
		r.put(m)
		r.put(text("x"))
		var e KVEntry
		must(t, "written", r.s.KVGet(AppendKVKey(nil, "k"), &e), true)
		must(t, "value", string(e.Value), "lost")
		r.everywhere()
	})
	t.Run("dedup and task ids", func(t *testing.T) { // what is refused or there already drops nothing
		r := dropping(t, QueueOptions{MaxDepth: 1})
		m := text("a")
		m.TaskID, m.HasDedup, m.DedupKey = []byte("t"), true, [16]byte{1}
		r.put(m)
		must(t, "duplicate", r.ok(&Enqueue{Queue: name, Messages: []Message{m}}).Duplicate, true)
		m.HasDedup = false
		r.refused(&Enqueue{Queue: name, Messages: []Message{m}}, AlreadyExists, FieldTaskID)
		m.TaskID, m.Batch = nil, ID{1, 1}
		r.refused(&Enqueue{Queue: name, Messages: []Message{m}}, NotFound, FieldBatchID)
		r.wantDropped()
		r.everywhere()
	})
	t.Run("a full dead set", func(t *testing.T) {
		r := dropping(t, QueueOptions{MaxDepth: 1, MaxDead: 1})
		r.put(text("a"))
		r.put(text("b"))
		r.refused(&Enqueue{Queue: name, Messages: []Message{text("c")}}, QueueFull, FieldDead)
		r.wantDropped("a")
		r.everywhere()
	})
}

func (r *rig) wantMorgue(n int64) {
	r.t.Helper()
	num, _ := r.s.QueueNumber([]byte("morgue"))
	must(r.t, "in the morgue", r.s.Stats(num).Ready, n)
}

// TestOverflowSwitched turns the option on over messages in every state, off and on again, and over a purge.
func TestOverflowSwitched(t *testing.T) {
	name := []byte("q")
	r := limited(t, QueueOptions{MaxDepth: 4, Retry: RetryPolicy{Kind: RetryFixed, InitialMillis: 100, MaxAttempts: 3}})
	set := func(o Overflow) { r.ok(&SetQueue{Name: name, Options: QueueOptions{MaxDepth: 4, Overflow: o}}) }
	r.put(text("retrying"))
	r.ok(&Nack{Token: r.lease1(), DelayMillis: 5000})
	r.put(text("out"))
	r.lease1()
	r.put(delayed("scheduled", 9000))
	r.put(text("ready"))
	r.refused(&Enqueue{Queue: name, Messages: []Message{text("x")}}, QueueFull, FieldDepth)
	set(OverflowDropOldest)
	r.put(delayed("x", 10_000))
	r.wantDropped("ready")
	r.put(delayed("y", 10_000))
	r.wantDropped("ready", "retrying")
	set(OverflowReject)
	r.refused(&Enqueue{Queue: name, Messages: []Message{text("x")}}, QueueFull, FieldDepth)
	r.tick(800) // the lease is still good
	set(OverflowDropOldest)
	r.put(text("z"))
	r.wantDropped("ready", "retrying", "scheduled")
	r.ok(&PurgeQueue{Name: name})
	for _, b := range []string{"1", "2", "3", "4"} {
		r.put(text(b))
	}
	r.wantDropped("ready", "retrying", "scheduled", "1")
	r.ok(&DeleteQueue{Name: name})
	r.everywhere()
}

// victimsNaive are who must go so that m fits, by a scan and the words of the contract; false: nothing may go, it is refused.
func victimsNaive(s *State, q *queue, m *Message) (ids []ID, ok bool) {
	type waiting struct {
		m   message
		due int64
	}
	var all []waiting
	live, bytes := int64(0), int64(0)
	s.messages.Each(func(_ int32, m *message) bool {
		if m.queue != q.slot || !s.alive(m) || m.state == StateDead {
			return true
		}
		live++
		bytes += int64(s.arena.Size(m.body))
		w := waiting{m: *m}
		if m.hasSide() {
			w.due = s.sides.Get(m.side).due
		}
		holder := q.meta.options.Ordering == OrderFIFO || q.meta.options.Ordering == OrderPerKey && m.bits&hasKey != 0
		if m.state != StateLeased && (m.state != StateRetrying || !holder) {
			all = append(all, w)
		}
		return true
	})
	class := map[MessageState]int{StateReady: 0, StateRetrying: 1, StateScheduled: 2}
	slices.SortFunc(all, func(a, b waiting) int {
		switch x, y := class[a.m.state], class[b.m.state]; {
		case x != y:
			return x - y
		case x == 0 && a.m.priority != b.m.priority:
			return int(a.m.priority) - int(b.m.priority)
		case x == 0:
			return int(int64(a.m.place) - int64(b.m.place))
		case a.due != b.due:
			return int(a.due - b.due)
		}
		return a.m.id.Compare(b.m.id)
	})
	o, size := &q.meta.options, s.blobSize(m)
	for {
		if (o.MaxDepth == 0 || live < o.MaxDepth) && (o.MaxBytes == 0 || bytes+size <= o.MaxBytes) {
			return ids, true
		}
		if len(ids) == 16 || len(all) == 0 {
			return nil, false
		}
		ids = append(ids, all[0].m.id)
		live--
		bytes -= int64(s.arena.Size(all[0].m.body))
		all = all[1:]
	}
}

// TestDropOldestRandom plays random operations on queues that drop, of each ordering, with snapshots in between, and compares
// who dies by each enqueue with a scan.
func TestDropOldestRandom(t *testing.T) {
	n := 20
	if testing.Short() {
		n = 5
	}
	drops, refusals, more := 0, 0, 0
	for _, seed := range seeds(t, n) {
		rng := rand.New(rand.NewPCG(seed, 77))
		o := QueueOptions{Ordering: Ordering(rng.IntN(3)), MaxDepth: int64(3 + rng.IntN(25))}
		if rng.IntN(2) == 0 {
			o.MaxBytes = int64(50 + rng.IntN(400))
		}
		r := dropping(t, o)
		var tokens []Token
		for range 300 {
			r.now += rng.Int64N(40)
			switch rng.IntN(10) {
			case 0, 1:
				tokens = append(tokens, r.lease(int32(1+rng.IntN(3)))...)
			case 2:
				if len(tokens) > 0 {
					op := []Op{
						&Release{Token: tokens[0]}, &Nack{Token: tokens[0], DelayMillis: rng.Int64N(200)}, &Ack{Token: tokens[0]},
					}[rng.IntN(3)]
					r.apply(op)
					tokens = tokens[1:]
				}
			case 3:
				snap := snapshot(t, r.s)
				r.s.Close()
				r.s = restored(t, snap)
			default:
				m := Message{Body: make([]byte, rng.IntN(60)), Priority: DefaultPriority}
				if o.Ordering == OrderUnordered {
					m.Priority = uint8(rng.IntN(10))
				}
				if rng.IntN(3) != 0 {
					m.Key = []byte{'a' + byte(rng.IntN(3))}
				}
				if rng.IntN(3) == 0 {
					m.DelayMillis = rng.Int64N(200)
				}
				r.apply() // what is due moves first
				q := r.s.findQueueRead([]byte("q"))
				want, ok := victimsNaive(r.s, q, &m)
				out := r.one(&Enqueue{Queue: []byte("q"), Messages: []Message{m}})
				if (out.Code == OK) != ok {
					t.Fatalf("seed %d entry %d: code %d, want it to fit: %t", seed, r.index, out.Code, ok)
				}
				var got []ID
				for _, e := range r.fx.Tasks {
					got = append(got, e.Message)
				}
				if fresh := got[:min(len(want), len(got))]; !slices.Equal(fresh, want) || len(want) == 0 && r.stats().Overflowed != int64(drops) {
					t.Fatalf("seed %d entry %d: %v died, want %v", seed, r.index, got, want)
				}
				drops = int(r.stats().Overflowed)
				if !ok {
					refusals++
				}
				if len(want) > 1 {
					more++
				}
			}
		}
		if drops == 0 {
			t.Errorf("seed %d: nothing was dropped", seed)
		}
		drops = 0
		r.s.Close()
	}
	if refusals == 0 || more == 0 {
		t.Errorf("%d refusals and %d drops of several at once: the test does not reach what it is for", refusals, more)
	}
}

// BenchmarkDropOldest enqueues into a full queue that drops, small and large: the cost must not grow with what waits.
func BenchmarkDropOldest(b *testing.B) {
	for _, depth := range []int{1000, 1_000_000} {
		b.Run(fmt.Sprint(depth), func(b *testing.B) {
			r := dropping(b, QueueOptions{MaxDepth: int64(depth), MaxDead: 1, DeadOverflow: DeadDropOldest})
			r.quiet = true
			enqueue := func(n int) {
				op := &Enqueue{Queue: []byte("q")}
				for i := range n {
					m := prio("x", uint8(i%10))
					m.Body = binary.LittleEndian.AppendUint64(nil, uint64(i))
					op.Messages = append(op.Messages, m)
				}
				r.apply(op)
				r.log = nil
			}
			for range (depth + 999) / 1000 {
				enqueue(1000)
			}
			b.ResetTimer()
			for i := 0; i < b.N; i += 1000 {
				enqueue(1000)
			}
		})
	}
}
