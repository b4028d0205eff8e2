package fsm

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
)

// ordered is a rig whose queue q has an ordering.
func ordered(t testing.TB, o Ordering) *rig {
	r := newRig(t)
	r.ok(&CreateQueue{Name: []byte("q"), Options: QueueOptions{
		Ordering: o, Retry: RetryPolicy{Kind: RetryFixed, InitialMillis: 100, MaxAttempts: 3},
	}})
	return r
}

func ofKey(key, body string) Message {
	m := text(body)
	m.Key = []byte(key)
	return m
}

// take leases up to n and returns their bodies, and the tokens by body.
func (r *rig) take(n int32) (string, map[string]Token) {
	r.t.Helper()
	ts := r.lease(n)
	of := map[string]Token{}
	out := bodies(r)
	for i := range ts {
		of[out[i:i+1]] = ts[i]
	}
	return out, of
}

func (r *rig) stats() QueueStats {
	n, _ := r.s.QueueNumber([]byte("q"))
	return r.s.Stats(n)
}

// leasable is what the dispatcher is told.
func (r *rig) leasable() int {
	n, _ := r.s.QueueNumber([]byte("q"))
	return r.s.Ready(n)
}

func TestFIFO(t *testing.T) {
	r := ordered(t, OrderFIFO)
	for i, k := range []string{"x", "", "y", "x"} { // the key says nothing here
		r.put(ofKey(k, string('a'+rune(i))))
	}
	must(t, "leasable", r.leasable(), 1)
	must(t, "ready", r.stats().Ready, 4)
	must(t, "blocked", r.stats().Blocked, 3)
	got, of := r.take(10)
	must(t, "one at a time", got, "a")
	must(t, "leasable", r.leasable(), 0)
	got, _ = r.take(10)
	must(t, "none while it is out", got, "")

	// The head keeps its place while it retries.
	r.ok(&Nack{Token: of["a"], DelayMillis: -1})
	got, _ = r.take(10)
	must(t, "none while it retries", got, "")
	r.tick(100)
	must(t, "told", len(r.fx.Ready), 1)
	got, of = r.take(10)
	must(t, "the head again", got, "a")

	// Released, it is first again; acked, the next one is told of and served.
	r.ok(&Release{Token: of["a"]})
	must(t, "told", len(r.fx.Ready), 1)
	got, of = r.take(10)
	must(t, "after release", got, "a")
	r.ok(&Ack{Token: of["a"]})
	must(t, "told", len(r.fx.Ready), 1)
	got, of = r.take(10)
	must(t, "the next", got, "b")

	// A dead head frees the next.
	r.ok(&Nack{Token: of["b"], Permanent: true})
	got, of = r.take(10)
	must(t, "after death", got, "c")
	r.everywhere()
	r.ok(&Ack{Token: of["c"]})
	got, of = r.take(10)
	must(t, "the last", got, "d")
	r.ok(&Ack{Token: of["d"]})
	must(t, "no lane is left", r.s.Memory().Lanes, 0)
	r.everywhere()
}

func TestPerKey(t *testing.T) {
	r := ordered(t, OrderPerKey)
	for _, m := range []Message{
		ofKey("x", "a"), ofKey("x", "b"), ofKey("y", "c"), text("d"), text("e"), ofKey("y", "f"), ofKey("x", "g"),
	} {
		r.put(m)
	}
	must(t, "leasable", r.leasable(), 4)
	got, of := r.take(10)
	must(t, "heads and those without a key", got, "acde")
	// x is stuck; y and what has no key go on.
	r.ok(&Ack{Token: of["c"]})
	got, of2 := r.take(10)
	must(t, "y goes on", got, "f")
	r.ok(&Nack{Token: of["d"], DelayMillis: 50}) // no key: a new place, nobody waits
	r.ok(&Nack{Token: of2["f"], DelayMillis: 50})
	r.put(ofKey("y", "h"))
	r.put(text("i"))
	got, of3 := r.take(10)
	must(t, "y is held", got, "i")
	r.everywhere()
	r.tick(50)
	got, of4 := r.take(1)
	must(t, "a head has its old place", got, "f")
	got, _ = r.take(9)
	must(t, "a retry without a key has a new one", got, "d")
	for _, tok := range []Token{of["a"], of["e"], of3["i"], of4["f"]} {
		r.ok(&Ack{Token: tok})
	}
	got, of = r.take(10)
	must(t, "by place among the heads", got, "bh")
	r.ok(&Ack{Token: of["b"]})
	got, _ = r.take(10)
	must(t, "x to its end", got, "g")
	r.everywhere()
}

// TestLaneTable walks one key through what can happen to its head and to those behind it.
func TestLaneTable(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(r *rig, a Token, ids []ID) // a is out; b and c wait
		want string                          // leased afterwards, acking each
	}{
		{"ack", func(r *rig, a Token, _ []ID) { r.ok(&Ack{Token: a}) }, "bc"},
		{"late ack after release", func(r *rig, a Token, _ []ID) { r.ok(&Release{Token: a}); r.ok(&Ack{Token: a}) }, "bc"},
		{"late ack after expiry", func(r *rig, a Token, _ []ID) {
			r.tick(1000)
			r.wantState(a.Message, StateRetrying)
			r.ok(&Ack{Token: a})
		}, "bc"},
		{"late ack after expiry and retry", func(r *rig, a Token, _ []ID) { r.tick(1000); r.tick(100); r.ok(&Ack{Token: a}) }, "bc"},
		{"expiry", func(r *rig, _ Token, _ []ID) {
			r.tick(1000)
			got, _ := r.take(9)
			must(r.t, "while the head retries", got, "")
			r.tick(100)
		}, "abc"},
		{"expiry to death", func(r *rig, _ Token, _ []ID) {
			for range 2 {
				r.tick(1000)
				r.tick(100)
				r.lease1()
			}
			r.tick(1000)
		}, "bc"},
		{"nack with a delay", func(r *rig, a Token, _ []ID) { r.ok(&Nack{Token: a, DelayMillis: 5000}); r.tick(5000) }, "abc"},
		{"released too often", func(r *rig, a Token, _ []ID) {
			r.s.lim.freeReturns = 0
			for range 2 {
				r.ok(&Release{Token: a})
				a = r.lease1()
			}
			must(r.t, "dies", r.ok(&Release{Token: a}).Dead, true)
		}, "bc"},
		{"given back spent", func(r *rig, a Token, _ []ID) { r.ok(&Release{Token: a, Spent: true}) }, "abc"},
		{"given back spent, to death", func(r *rig, a Token, _ []ID) {
			for range 2 {
				must(r.t, "dies", r.ok(&Release{Token: a, Spent: true}).Dead, false)
				a = r.lease1()
			}
			must(r.t, "dies", r.ok(&Release{Token: a, Spent: true}).Dead, true)
		}, "bc"},
		{"pushed result of the head that is out", func(r *rig, a Token, ids []ID) {
			r.ok(&PushResult{Queue: []byte("q"), TaskID: []byte(ids[0].String())})
			got, _ := r.take(9)
			must(r.t, "it is out still", got, "")
			must(r.t, "its ack", r.ok(&Ack{Token: a}).Duplicate, true)
		}, "bc"},
		{"pushed result of the head that retries", func(r *rig, a Token, ids []ID) {
			r.ok(&Nack{Token: a, DelayMillis: 50})
			r.ok(&PushResult{Queue: []byte("q"), TaskID: []byte(ids[0].String())})
		}, "bc"},
		{"pushed result of one that waits", func(r *rig, a Token, ids []ID) {
			r.ok(&PushResult{Queue: []byte("q"), TaskID: []byte(ids[1].String())})
			r.ok(&Ack{Token: a})
		}, "c"},
		{"delayed takes its place when due", func(r *rig, a Token, _ []ID) {
			m := ofKey("k", "d")
			m.DelayMillis = 50
			r.put(m)
			r.put(ofKey("k", "e"))
			r.tick(50)
			r.put(ofKey("k", "f"))
			r.ok(&Ack{Token: a})
		}, "bcedf"},
		{"ttl of one that waits", func(r *rig, a Token, _ []ID) {
			m := ofKey("k", "d")
			m.TTLMillis = 50
			r.put(m)
			r.put(ofKey("k", "e"))
			r.tick(50)
			r.ok(&Ack{Token: a})
		}, "bce"},
		{"ttl of the head", func(r *rig, a Token, _ []ID) {
			r.ok(&Ack{Token: a})
			r.ok(&Nack{Token: r.lease1(), Permanent: true})
			r.ok(&Ack{Token: r.lease1()})
			m := ofKey("k", "d")
			m.TTLMillis = 50
			r.put(m)
			r.put(ofKey("k", "e"))
			r.tick(50)
		}, "e"},
		{"ttl of the head while it retries", func(r *rig, a Token, _ []ID) {
			r.ok(&Ack{Token: a})
			r.ok(&Ack{Token: r.lease1()})
			m := ofKey("k", "d")
			m.TTLMillis = 50
			r.put(m)
			r.ok(&Ack{Token: r.lease1()})
			r.put(ofKey("k", "e"))
			r.ok(&Nack{Token: r.lease1(), DelayMillis: 500})
			r.tick(50)
		}, "e"},
		{"requeued goes to the end", func(r *rig, a Token, ids []ID) {
			r.ok(&Nack{Token: a, Permanent: true})
			r.ok(&DeadRequeue{Queue: []byte("q"), IDs: ids[:1]})
		}, "bca"},
		{"purge leaves what is out, and it holds the key", func(r *rig, a Token, _ []ID) {
			must(r.t, "purged", r.ok(&PurgeQueue{Name: []byte("q")}).Count, 2)
			r.put(ofKey("k", "d"))
			got, _ := r.take(9)
			must(r.t, "held", got, "")
			r.ok(&Nack{Token: a, DelayMillis: 0})
			r.tick(0)
		}, "ad"},
		{"purge of a head that retries", func(r *rig, a Token, _ []ID) {
			r.ok(&Nack{Token: a, DelayMillis: 500})
			r.ok(&PurgeQueue{Name: []byte("q")})
			r.put(ofKey("k", "d"))
		}, "d"},
		{"cancelled while it is out, it holds the key until its worker answers", func(r *rig, a Token, ids []ID) {
			r.ok(&Cancel{TaskID: []byte(ids[0].String())})
			got, _ := r.take(9)
			must(r.t, "held", got, "")
			r.refused(&Ack{Token: a}, Cancelled, FieldToken)
		}, "bc"},
		{"cancelled while it is out and never answered", func(r *rig, _ Token, ids []ID) {
			r.ok(&Cancel{TaskID: []byte(ids[0].String())})
			r.tick(1000)
		}, "bc"},
		{"cancelled while it retries", func(r *rig, a Token, ids []ID) {
			r.ok(&Nack{Token: a, DelayMillis: 500})
			r.ok(&Cancel{TaskID: []byte(ids[0].String())})
		}, "bc"},
		{"cancelled while it waits", func(r *rig, a Token, ids []ID) {
			r.ok(&Cancel{TaskID: []byte(ids[1].String())})
			r.ok(&Ack{Token: a})
		}, "c"},
		{"the head rescheduled gives its place up", func(r *rig, a Token, ids []ID) {
			r.ok(&Nack{Token: a, DelayMillis: 500})
			r.ok(&Reschedule{TaskID: []byte(ids[0].String()), When: AfterDelay, Time: 50})
			r.tick(50)
		}, "bca"},
		{"one that waits rescheduled", func(r *rig, a Token, ids []ID) {
			r.ok(&Reschedule{TaskID: []byte(ids[1].String()), When: AfterDelay, Time: 0})
			r.ok(&Ack{Token: a})
		}, "cb"},
		{"deleted and made again", func(r *rig, a Token, _ []ID) {
			r.ok(&DeleteQueue{Name: []byte("q")})
			r.ok(&CreateQueue{Name: []byte("q"), Options: QueueOptions{Ordering: OrderPerKey}})
			r.put(ofKey("k", "d"))
			r.put(ofKey("k", "e"))
			r.refused(&Ack{Token: a}, NotFound, FieldToken)
		}, "de"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := ordered(t, OrderPerKey)
			var ids []ID
			for _, b := range []string{"a", "b", "c"} {
				ids = append(ids, r.put(ofKey("k", b)))
			}
			a := r.lease1()
			c.do(r, a, ids)
			var got string
			for range 20 {
				b, of := r.take(9)
				if b == "" {
					break
				}
				must(t, "at once", len(b), 1)
				r.ok(&Ack{Token: of[b]})
				got += b
			}
			must(t, "served", got, c.want)
			must(t, "waiting", r.stats().Blocked, 0)
			r.everywhere()
			r.ok(&DeleteQueue{Name: []byte("q")})
			for range 3 {
				r.tick(0)
			}
			m := r.s.Memory()
			must(t, "lanes", m.Lanes, 0)
			must(t, "garbage", m.Garbage, 0)
		})
	}
}

func TestOrderingRefusals(t *testing.T) {
	name := []byte("q")
	r := ordered(t, OrderPerKey)
	for _, p := range []uint8{0, 3, 5, 9} {
		o := r.refused(&Enqueue{Queue: name, Messages: []Message{{Priority: p}}}, InvalidArgument, FieldPriority)
		must(t, "right would be", o.Limit, DefaultPriority)
	}
	r.refused(&SetQueue{Name: name, Options: QueueOptions{Ordering: 3}}, InvalidArgument, FieldOrdering)
	r.refused(&CreateQueue{Name: []byte("p"), Options: QueueOptions{Ordering: 200}}, InvalidArgument, FieldOrdering)

	// One bad message of a batch is refused alone.
	out := r.apply(&Enqueue{Queue: name, Messages: []Message{ofKey("k", "a"), {Priority: 9}, ofKey("k", "b")}})
	must(t, "codes", fmt.Sprint(out[0].Code, out[1].Code, out[2].Code), fmt.Sprint(OK, InvalidArgument, OK))

	// Of a chain it refuses the ack.
	r.ok(&CreateQueue{Name: []byte("p")})
	r.ok(&Enqueue{Queue: []byte("p"), Messages: []Message{text("x")}})
	r.ok(&Lease{Queue: []byte("p"), Max: 1})
	tok := r.fx.Leases[0].Token
	r.refused(&Ack{Token: tok, Then: []ThenMessage{{Queue: name, Message: Message{Priority: 9}}}}, InvalidArgument, FieldPriority)
	r.wantState(tok.Message, StateLeased)
	r.ok(&Ack{Token: tok, Then: []ThenMessage{{Queue: name, Message: ofKey("k", "c")}}})

	// The ordering changes only without live messages, out, delayed and retrying ones included; all else does at any time.
	change := &SetQueue{Name: name, Options: QueueOptions{Ordering: OrderFIFO}}
	r.refused(change, FailedPrecondition, FieldOrdering)
	r.ok(&SetQueue{Name: name, Options: QueueOptions{Ordering: OrderPerKey, LeaseMillis: 500}})
	for range 3 {
		tok := r.lease1()
		r.refused(change, FailedPrecondition, FieldOrdering)
		r.ok(&Nack{Token: tok, DelayMillis: 10})
		r.refused(change, FailedPrecondition, FieldOrdering)
		r.tick(10)
		r.ok(&Ack{Token: r.lease1()})
	}
	r.ok(change)
	must(t, "ordering", r.stats().Options.Ordering, OrderFIFO)
	r.put(Message{Priority: DefaultPriority, DelayMillis: 50})
	r.refused(&SetQueue{Name: name}, FailedPrecondition, FieldOrdering)
	r.everywhere()
}

// TestRequeueIntoOrdered requeues a dead letter of a priority that an ordered queue does not take: it comes with the default.
func TestRequeueIntoOrdered(t *testing.T) {
	r := newRig(t)
	id := r.put(Message{Body: []byte("a"), Priority: 9})
	r.ok(&Nack{Token: r.lease1(), Permanent: true})
	r.ok(&SetQueue{Name: []byte("q"), Options: QueueOptions{Ordering: OrderFIFO}})
	r.put(text("b"))
	r.ok(&DeadRequeue{Queue: []byte("q"), IDs: []ID{id}})
	r.everywhere()
	got, of := r.take(9)
	must(t, "first", got, "b")
	r.ok(&Ack{Token: of["b"]})
	got, _ = r.take(9)
	must(t, "second", got, "a")
}

// TestStuckKeys has most keys held by messages that are out, with many behind them: what is left is served as if they were
// not there, and listings find everything.
func TestStuckKeys(t *testing.T) {
	r := ordered(t, OrderPerKey)
	r.quiet = true
	const keys, deep = 300, 20
	for k := range keys {
		op := &Enqueue{Queue: []byte("q")}
		for i := range deep {
			op.Messages = append(op.Messages, ofKey(fmt.Sprint(k), fmt.Sprint(i)))
		}
		r.apply(op)
	}
	r.ok(&Lease{Queue: []byte("q"), Max: keys - 1, LeaseMillis: MaxLeaseMillis}) // stuck
	must(t, "stuck", len(r.fx.Leases), keys-1)
	for i := range deep {
		r.ok(&Lease{Queue: []byte("q"), Max: 10, LeaseMillis: 1000})
		must(t, "leased", len(r.fx.Leases), 1)
		var d Delivery
		r.s.Deliver(r.fx.Leases[0], &d)
		must(t, "in order", string(d.Key)+" "+string(d.Body), fmt.Sprint(keys-1, " ", i))
		r.ok(&Ack{Token: d.Token})
	}
	if err := r.s.Check(); err != nil {
		t.Fatal(err)
	}
	n, _ := r.s.QueueNumber([]byte("q"))
	seen := map[ID]bool{}
	var after ID
	for range keys * deep {
		got := 0
		r.s.Peek(n, StateReady, after, func(in *Info) bool {
			if seen[in.ID] {
				t.Fatalf("message %s is listed twice", in.ID)
			}
			seen[in.ID], after = true, in.ID
			got++
			return got < 7
		})
		if got == 0 {
			break
		}
	}
	must(t, "listed", len(seen), (keys-1)*(deep-1))
	// Purged, they go a bounded number an entry, and memory is back to nothing.
	r.ok(&PurgeQueue{Name: []byte("q")})
	for range (keys*deep+keys)/garbagePerEntry + 2 {
		r.tick(0)
		if err := r.s.Check(); err != nil {
			t.Fatal(err)
		}
	}
	must(t, "lanes of what is out", r.s.Memory().Lanes, keys-1)
	must(t, "rows", r.s.rows.Len(), 0)
	must(t, "garbage", r.s.Memory().Garbage, 0)
}

// TestLanesOfAnotherOrder purges lanes and gives their queue another order before they are given back: nothing is left of them.
func TestLanesOfAnotherOrder(t *testing.T) {
	for _, was := range []Ordering{OrderPerKey, OrderFIFO} {
		for _, is := range []Ordering{OrderUnordered, OrderFIFO, OrderPerKey} {
			r := ordered(t, was)
			r.s.lim.garbage = 1
			for range 3 {
				for _, key := range []string{"a", "b", "c"} {
					r.put(ofKey(key, key))
				}
			}
			r.ok(&PurgeQueue{Name: []byte("q")})
			r.ok(&SetQueue{Name: []byte("q"), Options: QueueOptions{Ordering: is}})
			r.put(ofKey("a", "a"))
			for r.s.Memory().Garbage > 0 {
				r.tick(0)
			}
			lanes := int64(1)
			if is == OrderUnordered {
				lanes = 0
			}
			must(t, "lanes", r.s.Memory().Lanes, lanes)
			r.everywhere()
			r.ok(&Ack{Token: r.lease1()})
			must(t, "lanes", r.s.Memory().Lanes, 0)
			must(t, "rows", r.s.rows.Len(), 0)
		}
	}
}

// TestHoldersOutOfOrder has holders change in every order of acks: what comes next is served by place all the same, and a listing
// page by page shows each once.
func TestHoldersOutOfOrder(t *testing.T) {
	const keys = 40 // more than there are ready lists
	for _, c := range []struct {
		name string
		ack  func(i int) int // the order of acks
	}{
		{"in order", func(i int) int { return i }},
		{"backwards", func(i int) int { return keys - 1 - i }},
		{"four in turn", func(i int) int { return i%4*(keys/4) + i/4 }},
		{"strewn", func(i int) int { return i * 17 % keys }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := ordered(t, OrderPerKey)
			var want []ID
			for round := range 3 {
				for k := range keys {
					id := r.put(ofKey(strconv.Itoa(k), "x"))
					if round == 1 {
						want = append(want, id)
					}
				}
			}
			tokens := r.lease(keys)
			for i := range tokens {
				r.ok(&Ack{Token: tokens[c.ack(i)]})
			}
			r.everywhere()
			n, _ := r.s.QueueNumber([]byte("q"))
			seen := map[ID]bool{}
			var after ID
			for more := true; more; {
				more = false
				r.s.Peek(n, StateReady, after, func(in *Info) bool {
					if seen[in.ID] {
						t.Fatalf("message %s is listed twice", in.ID)
					}
					seen[in.ID], after, more = true, in.ID, true
					return len(seen)%3 != 0
				})
			}
			must(t, "listed", len(seen), 2*keys)
			var got []ID
			for range keys / 5 {
				for _, token := range r.lease(5) {
					got = append(got, token.Message)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("served %v, want %v", got, want)
			}
		})
	}
}
