package fsm

import (
	"fmt"
	"testing"
)

func TestDeadLetterHoldsEverything(t *testing.T) {
	r := newRig(t)
	m := Message{
		TaskID: []byte("t"), Kind: []byte("k"), ContentType: []byte("a/b"), Key: []byte("key"), Body: []byte("body"), Priority: 7,
		Headers: []Header{{[]byte("n"), []byte("v")}}, TTLMillis: 90_000, TimeoutMillis: 40_000,
		Retry: RetryPolicy{Kind: RetrySchedule, Steps: []int64{5}},
	}
	id := r.put(m)
	r.ok(&Nack{Token: r.lease1(), Error: []byte("first"), DelayMillis: -1})
	r.tick(5)
	tok := r.lease1()
	r.tick(3)
	r.ok(&Nack{Token: tok, Error: []byte("second"), DelayMillis: -1})
	must(t, "told", r.fx.Tasks[0].Message, id)
	check := func(in *Info) {
		t.Helper()
		must(t, "texts", fmt.Sprintf("%s %s %s %s %s %s %s %s", in.TaskID, in.Kind, in.ContentType, in.Key, in.Body, in.Worker, in.Error, in.Queue), "t k a/b key body w second q")
		must(t, "header", string(in.Headers[0].Name)+string(in.Headers[0].Value), "nv")
		must(t, "numbers", fmt.Sprint(in.Priority, in.Attempts, in.MaxAttempts, in.State, in.Reason, in.Redrives), fmt.Sprint(7, 2, 2, StateDead, ReasonMaxAttempts, 0))
		must(t, "times", fmt.Sprint(in.EnqueuedAt, in.EndedAt, in.ExpiresAt), fmt.Sprint(t0, t0+8, t0+90_000))
		must(t, "history", fmt.Sprintf("%d %d %s %s", in.History[0].At, in.History[0].Number, in.History[0].Worker, in.History[0].Error), fmt.Sprintf("%d 1 w first", t0))
		must(t, "token", in.Token, tok)
	}
	var in Info
	if !r.s.DeadLetter(1, id, &in) {
		t.Fatal("no dead letter")
	}
	check(&in)
	b := restored(t, snapshot(t, r.s))
	defer b.Close()
	var again Info
	b.DeadLetter(1, id, &again)
	check(&again)

	// Requeued it starts afresh, at the end, under a new id and the same task id.
	r.put(Message{Body: []byte("other"), Priority: 7})
	again2 := r.ok(&DeadRequeue{Queue: []byte("q"), IDs: []ID{id, {1, 1}}[:1]}).ID
	must(t, "gone", r.s.DeadLetter(1, id, &in), false)
	r.s.Task("q", []byte("t"), &in)
	must(t, "id", in.ID, again2)
	must(t, "original", in.OriginalID, id)
	must(t, "times", fmt.Sprint(in.EnqueuedAt, in.OriginalEnqueuedAt, in.ExpiresAt), fmt.Sprint(r.now, t0, r.now+90_000))
	must(t, "afresh", fmt.Sprint(in.Attempts, len(in.History), in.Redrives, in.State, in.MaxAttempts), fmt.Sprint(0, 0, 1, StateReady, 2))
	must(t, "first at the end", r.lease1().Message == again2, false)
	must(t, "then it", r.lease1().Message, again2)
	var d Delivery
	r.s.Deliver(r.fx.Leases[0], &d)
	must(t, "redrives", d.Redrives, 1)
	must(t, "timeout", d.TimeoutMillis, 40_000)
	r.everywhere()
}

func TestDeadListing(t *testing.T) {
	r := newRig(t)
	var ids []ID
	for i := range 10 {
		ids = append(ids, r.put(text(fmt.Sprint(i))))
	}
	ts := r.lease(10)
	var ops []Op
	for i := range ts { // in one entry, last first: listed by id
		ops = append(ops, &Nack{Token: ts[9-i], Permanent: true})
		if i == 4 {
			r.apply(ops...)
			ops = nil
			r.now += 5
		}
	}
	r.apply(ops...)
	want := append(append([]ID(nil), ids[5:]...), ids[:5]...)
	list := func(at int64, id ID, n int) (got []ID) {
		r.s.Dead(1, at, id, func(in *Info) bool {
			got = append(got, in.ID)
			return len(got) < n
		})
		return got
	}
	same := func(what string, got, want []ID) {
		t.Helper()
		must(t, what, fmt.Sprint(got), fmt.Sprint(want))
	}
	same("all", list(0, ID{}, 99), want)
	same("behind a cursor", list(t0, ids[8], 3), want[4:7])
	same("behind the last", list(t0+5, ids[4], 3), nil)
	// The cursor's own letter is gone: the place is found all the same.
	r.ok(&DeadDelete{Queue: []byte("q"), IDs: []ID{ids[8]}})
	same("behind one that is gone", list(t0, ids[8], 2), []ID{ids[9], ids[0]})
	same("behind a time", list(t0+2, ID{}, 2), ids[0:2])
	r.refused(&DeadDelete{Queue: []byte("q"), IDs: []ID{ids[8]}}, NotFound, FieldNone)
	r.refused(&DeadDelete{Queue: []byte("p"), IDs: []ID{ids[8]}}, NotFound, FieldQueue)
	r.refused(&DeadRequeue{Queue: []byte("q"), IDs: []ID{{4, 4}}}, NotFound, FieldNone)
	o := r.apply(&DeadRequeue{Queue: []byte("q"), IDs: []ID{ids[0], {4, 4}, ids[1]}})
	must(t, "one bad does not stop the others", fmt.Sprint(o[0].Code, o[1].Code, o[2].Code), fmt.Sprint(OK, NotFound, OK))
	many := r.apply(&DeadDelete{Queue: []byte("q"), IDs: make([]ID, MaxDeadIDs+1)})
	must(t, "too many", many[0].Field, FieldBatch)
	live := r.put(text("live"))
	r.refused(&DeadDelete{Queue: []byte("q"), IDs: []ID{live}}, NotFound, FieldNone)
	r.everywhere()
}

func TestPeek(t *testing.T) {
	r := newRig(t)
	var ids []ID
	for i := range 6 {
		ids = append(ids, r.put(Message{Body: []byte(fmt.Sprint(i)), Priority: uint8(9 - i%2)}))
	}
	ts := r.lease(3) // 0 2 4
	r.ok(&Release{Token: ts[1]})
	r.put(Message{Body: []byte("s"), DelayMillis: 50})
	r.ok(&Nack{Token: ts[0], DelayMillis: 70})
	list := func(st MessageState, after ID) (out string) {
		r.s.Peek(1, st, after, func(in *Info) bool {
			must(t, "state", in.State, st)
			out += string(in.Body)
			return true
		})
		return out
	}
	must(t, "ready", list(StateReady, ID{}), "2135")
	must(t, "after a released one", list(StateReady, ids[2]), "135")
	must(t, "after a listed one", list(StateReady, ids[1]), "35")
	must(t, "after one that is out", list(StateReady, ids[4]), "2135")
	must(t, "leased", list(StateLeased, ID{}), "4")
	must(t, "scheduled", list(StateScheduled, ID{}), "s")
	must(t, "retrying", list(StateRetrying, ID{}), "0")
	must(t, "none after the last", list(StateRetrying, ids[0]), "")
	must(t, "oldest", r.s.Stats(1).OldestEnqueuedAt, t0)
}

func TestConsumers(t *testing.T) {
	r := newRig(t)
	for range 6 {
		r.put(text("x"))
	}
	a, b := Consumer{Session: ID{1, 1}, Sub: 1}, Consumer{Session: ID{1, 1}, Sub: 2}
	lease := func(c Consumer, n int32) (ts []Token) {
		r.ok(&Lease{Queue: []byte("q"), Consumer: c, Max: n})
		for _, l := range r.fx.Leases {
			must(t, "consumer", l.Consumer, c)
			ts = append(ts, l.Token)
		}
		return ts
	}
	as := lease(a, 2)
	bs := lease(b, 2)
	as = append(as, lease(a, 2)...)
	walk := func(s *State, c Consumer) (ts []Token) {
		s.ConsumerLeases(c, func(tok Token) bool { ts = append(ts, tok); return true })
		return ts
	}
	must(t, "a", fmt.Sprint(walk(r.s, a)), fmt.Sprint(as))
	r.ok(&Ack{Token: as[1]})
	must(t, "ended", r.fx.Ended[0], LeaseEnd{Token: as[1], Consumer: a})
	r.ok(&Release{Token: as[2]})
	must(t, "a", fmt.Sprint(walk(r.s, a)), fmt.Sprint([]Token{as[0], as[3]}))
	c := restored(t, snapshot(t, r.s))
	defer c.Close()
	must(t, "a restored", fmt.Sprint(walk(c, a)), fmt.Sprint([]Token{as[0], as[3]}))
	count := map[Consumer]int{}
	c.Consumers(func(who Consumer, q uint32, n int) bool {
		must(t, "queue", q, 1)
		count[who] = n
		return true
	})
	must(t, "counts", fmt.Sprint(count[a], count[b], len(count)), "2 2 2")
	for _, tok := range bs {
		r.ok(&Nack{Token: tok, DelayMillis: -1})
	}
	must(t, "b", len(walk(r.s, b)), 0)
	must(t, "consumers", r.s.consumers.Len(), 1)
}

func TestBootstrap(t *testing.T) {
	r := newRig(t)
	must(t, "epoch", r.s.Epoch(), 7)
	must(t, "cluster", r.s.Cluster(), [16]byte{1})
	r.refused(&Bootstrap{Cluster: [16]byte{2}, Epoch: 8}, FailedPrecondition, FieldNone)
	id := r.put(text("x"))
	must(t, "epoch of an id", id.Epoch(), 7)
	must(t, "group", id.Group(), 3)
	must(t, "index", id.Index(), r.index)
	must(t, "offset", id.Offset(), 0)
	s := New(3)
	defer s.Close()
	var fx Effects
	if err := s.Apply(1, AppendOp(AppendEntryHeader(nil, t0, 0), &Bootstrap{}), &fx); err != nil {
		t.Fatal(err)
	}
	must(t, "zero cluster", fx.Outcomes[0].Code, InvalidArgument)
}

func TestEffects(t *testing.T) {
	r := newRig(t)
	r.put(text("x"))
	o := r.apply(&Checkpoint{Nonce: 77}, &Enqueue{Queue: []byte("q"), Messages: []Message{text("a"), text("b")}},
		&Lease{Queue: []byte("q"), Max: 2}, &Enqueue{Queue: []byte("q")}, &Lease{Queue: []byte("q"), Max: 9})
	must(t, "ends", fmt.Sprint(r.fx.OpEnd), "[1 3 4 4 5]")
	must(t, "leases", fmt.Sprint(o[3].LeaseFrom, o[3].LeaseCount, o[4].LeaseFrom, o[4].LeaseCount), "0 2 2 1")
	must(t, "op", fmt.Sprint(r.fx.Leases[0].Op, r.fx.Leases[2].Op), "2 4")
	must(t, "checkpoints", fmt.Sprint(r.fx.Checkpoints), "[77]")
	must(t, "ready", fmt.Sprint(r.fx.Ready), "[1]")
	must(t, "index", r.fx.Index, r.index)
	// A queue deleted by the entry that leased from it.
	r.put(text("y"))
	r.apply(&Lease{Queue: []byte("q"), Max: 1}, &DeleteQueue{Name: []byte("q")})
	var d Delivery
	must(t, "delivered", r.s.Deliver(r.fx.Leases[0], &d), false)
	must(t, "nothing", d.Token, Token{})
}

func TestApplyRefusesWhatItCannotRead(t *testing.T) {
	r := newRig(t)
	before := digest(r.s)
	good := r.entry(0, &Enqueue{Queue: []byte("q"), AutoCreate: true, Messages: []Message{text("x")}})
	version := append([]byte(nil), good...)
	version[0]++
	for name, data := range map[string][]byte{
		"empty": nil, "version": version, "cut": good[:len(good)-1], "unknown op": append(append([]byte(nil), good...), 250),
	} {
		if err := r.s.Apply(r.index+1, data, &r.fx); err == nil {
			t.Fatalf("%s: no error", name)
		}
	}
	if err := r.s.Apply(r.index, good, &r.fx); err == nil {
		t.Fatal("an index again: no error")
	}
	must(t, "unchanged", digest(r.s), before)
	r.applyData(good)
}

// TestListingsAreBounded looks for what is not there behind more records than a call looks at.
func TestListingsAreBounded(t *testing.T) {
	r := newRig(t)
	r.quiet = true
	op := &Enqueue{Queue: []byte("q"), AutoCreate: true}
	for range MaxBatch {
		op.Messages = append(op.Messages, Message{DelayMillis: 1e6})
	}
	for range ListLimit/MaxBatch + 10 {
		r.apply(op)
	}
	calls := 0
	for after := (ID{}); ; calls++ {
		after = r.s.Peek(1, StateRetrying, after, func(*Info) bool { t.Fatal("listed"); return false })
		if after.IsZero() {
			break
		}
	}
	must(t, "partial calls", calls, 1)
	seen, after := 0, ID{}
	r.tick(1e6)
	for r.fx.More {
		r.tick(0)
	}
	for done := false; !done; {
		after = r.s.Peek(1, StateReady, after, func(*Info) bool { seen++; return true })
		done = after.IsZero()
	}
	must(t, "seen", seen, ListLimit+10*MaxBatch)
	var last Info
	for range ListLimit/MaxBatch + 10 {
		var nacks []Op
		for _, tok := range r.lease(MaxBatch) {
			nacks = append(nacks, &Nack{Token: tok, Permanent: true})
		}
		r.apply(nacks...)
	}
	seen = 0
	at, id := r.s.Dead(1, 0, ID{}, func(in *Info) bool { seen++; last.ID, last.EndedAt = in.ID, in.EndedAt; return true })
	must(t, "dead seen", seen, ListLimit)
	must(t, "cursor", id, last.ID)
	at, id = r.s.Dead(1, at, id, func(*Info) bool { seen++; return true })
	must(t, "all dead seen", seen, ListLimit+10*MaxBatch)
	must(t, "no cursor", at == 0 && id.IsZero(), true)
}
