package fsm

import (
	"testing"
)

var cancelX = &Cancel{Queue: []byte("q"), TaskID: []byte("x")}

// putX enqueues a message with task id x that may be tried twice.
func putX(r *rig) ID {
	m := text("body")
	m.TaskID = []byte("x")
	m.Retry = RetryPolicy{Kind: RetryFixed, InitialMillis: 100, MaxAttempts: 2}
	return r.put(m)
}

// taskStates bring a fresh task x into each state; tok is that of its last lease.
var taskStates = []struct {
	name  string
	make  func(r *rig) (id ID, tok Token)
	state MessageState
}{
	{"scheduled", func(r *rig) (ID, Token) {
		m := text("body")
		m.TaskID, m.DelayMillis = []byte("x"), 500
		return r.put(m), Token{}
	}, StateScheduled},
	{"ready", func(r *rig) (ID, Token) { return putX(r), Token{} }, StateReady},
	{"ready with a ttl", func(r *rig) (ID, Token) {
		m := text("body")
		m.TaskID, m.TTLMillis = []byte("x"), 500
		return r.put(m), Token{}
	}, StateReady},
	{"released", func(r *rig) (ID, Token) {
		id, tok := putX(r), r.lease1()
		r.ok(&Release{Token: tok})
		return id, tok
	}, StateReady},
	{"out", func(r *rig) (ID, Token) { id := putX(r); return id, r.lease1() }, StateLeased},
	{"retrying", func(r *rig) (ID, Token) {
		id, tok := putX(r), r.lease1()
		r.ok(&Nack{Token: tok, DelayMillis: -1})
		return id, tok
	}, StateRetrying},
	{"retrying after expiry", func(r *rig) (ID, Token) {
		id, tok := putX(r), r.lease1()
		r.tick(1000)
		return id, tok
	}, StateRetrying},
	{"retry due", func(r *rig) (ID, Token) {
		id, tok := putX(r), r.lease1()
		r.tick(1000)
		r.tick(100)
		return id, tok
	}, StateReady},
	{"out again", func(r *rig) (ID, Token) {
		id, tok := putX(r), r.lease1()
		r.ok(&Nack{Token: tok, DelayMillis: 0})
		r.tick(1)
		return id, r.lease1()
	}, StateLeased},
	{"done", func(r *rig) (ID, Token) {
		id, tok := putX(r), r.lease1()
		r.ok(&Ack{Token: tok})
		return id, tok
	}, StateDone},
	{"done with a result", func(r *rig) (ID, Token) {
		id, tok := putX(r), r.lease1()
		r.ok(&Ack{Token: tok, HasResult: true, Result: Result{Output: []byte("r")}})
		return id, tok
	}, StateDone},
	{"out with a pushed result", func(r *rig) (ID, Token) {
		id, tok := putX(r), r.lease1()
		r.ok(&PushResult{Queue: []byte("q"), TaskID: []byte("x"), Result: Result{Output: []byte("r")}})
		return id, tok
	}, StateDone},
	{"pushed alone", func(r *rig) (ID, Token) {
		r.ok(&CreateQueue{Name: []byte("q")})
		r.ok(&PushResult{Queue: []byte("q"), TaskID: []byte("x"), Result: Result{Output: []byte("r")}})
		return ID{}, Token{}
	}, StateDone},
	{"dead", func(r *rig) (ID, Token) {
		id, tok := putX(r), r.lease1()
		r.ok(&Nack{Token: tok, Permanent: true})
		return id, tok
	}, StateDead},
	{"requeued", func(r *rig) (ID, Token) {
		id, tok := putX(r), r.lease1()
		r.ok(&Nack{Token: tok, Permanent: true})
		return r.ok(&DeadRequeue{Queue: []byte("q"), IDs: []ID{id}}).ID, Token{}
	}, StateReady},
}

func (r *rig) stateX() MessageState {
	r.t.Helper()
	var in Info
	if !r.s.Task("q", []byte("x"), &in) {
		return StateUnknown
	}
	return in.State
}

func TestCancel(t *testing.T) {
	for _, c := range taskStates {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			id, tok := c.make(r)
			must(t, "state before", r.stateX(), c.state)
			live := c.state != StateDone && c.state != StateDead
			o := r.one(cancelX)
			if !live { // its end is another already, and stays
				must(t, "outcome", o, Outcome{Code: FailedPrecondition, Field: FieldTaskID})
				must(t, "state", r.stateX(), c.state)
				r.everywhere()
				return
			}
			want := Outcome{ID: id}
			if c.state == StateLeased {
				want.Count = 1
			}
			must(t, "outcome", o, want)
			must(t, "tasks told", len(r.fx.Tasks), 1)
			must(t, "task told", r.fx.Tasks[0].Message, id)
			must(t, "leases to be told", len(r.fx.Cancelled), int(want.Count))
			must(t, "leases ended", len(r.fx.Ended), 0)
			must(t, "state", r.stateX(), StateCancelled)
			r.wantState(id, StateCancelled)
			n, _ := r.s.QueueNumber([]byte("q"))
			st := r.s.Stats(n)
			must(t, "live", st.Ready+st.Scheduled+st.Retrying, 0)
			must(t, "leased", st.Leased, want.Count)
			must(t, "counted", st.Cancelled, 1)
			must(t, "remembered", st.Tombstones, 1)

			want.Duplicate = true
			must(t, "again", r.ok(cancelX), want)
			must(t, "by id", r.ok(&Cancel{TaskID: []byte(id.String())}), want)
			m := text("another")
			m.TaskID = []byte("x")
			o = r.one(&Enqueue{Queue: []byte("q"), Messages: []Message{m}})
			must(t, "its name is taken", o, Outcome{Code: AlreadyExists, Field: FieldTaskID, ID: id})
			r.refused(&PushResult{Queue: []byte("q"), TaskID: []byte("x")}, Cancelled, FieldTaskID)
			r.refused(&Reschedule{Queue: []byte("q"), TaskID: []byte("x"), When: AfterDelay}, FailedPrecondition, FieldTaskID)
			var res RecordedResult
			found, has := r.s.Result("q", []byte("x"), &res)
			must(t, "result", [2]bool{found, has}, [2]bool{true, false})
			if !tok.Lease.IsZero() && c.state != StateLeased {
				for _, op := range []Op{&Ack{Token: tok}, &Nack{Token: tok, DelayMillis: -1}, &Extend{Token: tok}, &Release{Token: tok}} {
					r.refused(op, Cancelled, FieldToken)
				}
			}
			r.tick(5000) // no deadline, delay or retry brings it back
			must(t, "leased later", len(r.lease(5)), 0)
			r.tick(TombstoneMillis)
			must(t, "forgotten", r.stateX(), StateUnknown)
			st = r.s.Stats(n)
			must(t, "left", st.Ready+st.Scheduled+st.Retrying+st.Leased+st.Dead+st.Bytes+st.Tombstones, 0)
			mem := r.s.Memory()
			must(t, "records", mem.Messages+mem.Garbage+mem.Tombstones+mem.ArenaLive, 0)
			r.everywhere()
		})
	}
}

// The lease of a task that was cancelled while out, ended in every way, and asked about before and after.
func TestCancelledLease(t *testing.T) {
	answers := map[string]func(tok Token) Op{
		"ack": func(tok Token) Op {
			return &Ack{Token: tok, HasResult: true, Result: Result{Output: []byte("r")}, ThenAutoCreate: true,
				Then: []ThenMessage{{Queue: []byte("next"), Message: text("then")}}}
		},
		"nack":            func(tok Token) Op { return &Nack{Token: tok, DelayMillis: -1} },
		"nack, permanent": func(tok Token) Op { return &Nack{Token: tok, Permanent: true} },
		"release":         func(tok Token) Op { return &Release{Token: tok} },
		"extend":          func(tok Token) Op { return &Extend{Token: tok} },
		"expiry":          nil,
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			id := putX(r)
			tok := r.lease1()
			n, _ := r.s.QueueNumber([]byte("q"))
			r.ok(cancelX)
			must(t, "told", r.fx.Cancelled[0], LeaseEnd{Token: tok, Consumer: someone})
			must(t, "lease is cancelled", r.s.LeaseCancelled(tok), true)
			var in Info
			r.s.Task("q", []byte("x"), &in)
			must(t, "worker", string(in.Worker), "w")
			must(t, "deadline", in.Deadline, r.now+1000)
			must(t, "ended", in.EndedAt, r.now)
			out := func() (n int) {
				r.s.ConsumerLeases(someone, func(Token) bool { n++; return true })
				return n
			}
			must(t, "the slot is taken", out(), 1)
			r.refused(&Extend{Token: tok, LeaseMillis: 60_000}, Cancelled, FieldToken)
			must(t, "an extension frees nothing", out(), 1)
			r.refused(&Ack{Token: Token{Message: id, Lease: ID{1, 1}}}, LeaseLost, FieldToken)
			r.ok(&PurgeQueue{Name: []byte("q")})
			must(t, "what is out at a purge stays", r.s.Stats(n).Leased, 1)

			r.now += 999
			if answer == nil || name == "extend" {
				r.tick(1)
				must(t, "expired", len(r.fx.Ended) == 1 && r.fx.Ended[0].Expired, true)
				must(t, "counted", r.s.Stats(n).Expired, 1)
			} else {
				r.refused(answer(tok), Cancelled, FieldToken)
				must(t, "ended", r.fx.Ended[0], LeaseEnd{Token: tok, Consumer: someone})
				must(t, "tasks told again", len(r.fx.Tasks), 0)
			}
			must(t, "the slot is free", out(), 0)
			st := r.s.Stats(n)
			must(t, "nothing is left", st.Leased+st.Retrying+st.Ready+st.Dead+st.Bytes+st.Results, 0)
			must(t, "acked, nacked", st.Acked+st.Nacked, 0)
			if _, ok := r.s.QueueNumber([]byte("next")); ok {
				t.Fatal("then was carried out")
			}
			if answer != nil {
				r.refused(answer(tok), Cancelled, FieldToken) // again: the same
			}
			must(t, "state", r.stateX(), StateCancelled)
			r.tick(TombstoneMillis)
			r.refused(&Ack{Token: tok}, NotFound, FieldToken)
			must(t, "memory", r.s.Memory().Messages+r.s.Memory().ArenaLive, 0)
			r.everywhere()
		})
	}
}

// A lease that outlives the memory of its task: the name is free, the token still tells.
func TestCancelledLeaseOutlivesItsTombstone(t *testing.T) {
	r := newRig(t)
	r.s.lim.tombstones = 1
	id := putX(r)
	r.ok(&Lease{Queue: []byte("q"), Consumer: someone, Worker: []byte("w"), Max: 1, LeaseMillis: 3_600_000})
	tok := r.fx.Leases[0].Token
	r.ok(cancelX)
	r.tick(TombstoneMillis)
	must(t, "task", r.stateX(), StateUnknown)
	r.wantState(id, StateUnknown)
	r.refused(cancelX, NotFound, FieldTaskID)
	again := putX(r)
	must(t, "the name has another bearer", r.stateX(), StateReady)
	r.refused(&Extend{Token: tok}, Cancelled, FieldToken)
	r.ok(cancelX) // the new one
	r.wantState(again, StateCancelled)
	r.refused(&Nack{Token: tok, DelayMillis: -1}, Cancelled, FieldToken)
	r.refused(&Nack{Token: tok, DelayMillis: -1}, NotFound, FieldToken)
	must(t, "the other's end stays", r.stateX(), StateCancelled)
	r.everywhere()

	t.Run("its queue is deleted", func(t *testing.T) {
		r := newRig(t)
		putX(r)
		tok := r.lease1()
		r.ok(cancelX)
		r.ok(&DeleteQueue{Name: []byte("q")})
		must(t, "ended", len(r.fx.Ended), 1)
		r.refused(&Ack{Token: tok}, NotFound, FieldToken)
		r.tick(1)
		must(t, "memory", r.s.Memory().ArenaLive+r.s.Memory().Garbage, 0)
		r.everywhere()
	})
}

func TestCancelFillsTombstones(t *testing.T) {
	r := newRig(t)
	r.s.lim.tombstones = 2
	var ids []ID
	for range 3 {
		id := r.put(text("x"))
		r.ok(&Cancel{TaskID: []byte(id.String())})
		ids = append(ids, id)
	}
	n, _ := r.s.QueueNumber([]byte("q"))
	must(t, "tombstones", r.s.Stats(n).Tombstones, 2)
	must(t, "dropped", r.s.Stats(n).TombstonesDropped, 1)
	r.wantState(ids[0], StateUnknown)
	r.wantState(ids[2], StateCancelled)
	r.everywhere()
}

func TestCancelRefusals(t *testing.T) {
	long := make([]byte, MaxTaskID+1)
	for i := range long {
		long[i] = 'a'
	}
	for _, c := range []struct {
		name        string
		queue, task string
		code        Code
		field       Field
	}{
		{"no task id", "q", "", InvalidArgument, FieldTaskID},
		{"long task id", "q", string(long), InvalidArgument, FieldTaskID},
		{"task id no text", "q", "\xff", InvalidArgument, FieldTaskID},
		{"no queue", "", "x", InvalidArgument, FieldQueue},
		{"bad queue", "-", "x", InvalidArgument, FieldQueue},
		{"unknown queue", "other", "x", NotFound, FieldQueue},
		{"unknown task", "q", "y", NotFound, FieldTaskID},
		{"unknown id", "", MakeID(1, 1, 1, 1).String(), NotFound, FieldTaskID},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			putX(r)
			r.refused(&Cancel{Queue: []byte(c.queue), TaskID: []byte(c.task)}, c.code, c.field)
			r.refused(&Reschedule{Queue: []byte(c.queue), TaskID: []byte(c.task), When: AfterDelay}, c.code, c.field)
			must(t, "state", r.stateX(), StateReady)
		})
	}
}

// A repeated request gets its first answer, whatever has become of the task.
func TestCancelRequests(t *testing.T) {
	r := newRig(t)
	ses := r.ok(&OpenSession{}).ID
	id := putX(r)
	tok := r.lease1()
	op := *cancelX
	op.Request = Request{Session: ses, Number: 1}
	first := r.ok(&op)
	must(t, "first", first, Outcome{ID: id, Count: 1})
	r.refused(&Release{Token: tok}, Cancelled, FieldToken)
	must(t, "again", r.ok(&op), first)
	m := text("later")
	m.TaskID, m.DelayMillis = []byte("y"), 1000
	y := r.put(m)
	re := &Reschedule{Request: Request{Session: ses, Number: 2}, Queue: []byte("q"), TaskID: []byte("y"), When: AfterDelay, Time: 7000}
	first = r.ok(re)
	must(t, "first", first, Outcome{ID: y, Count: r.now + 7000})
	r.tick(10)
	must(t, "again", r.ok(re), first)
	r.everywhere()
}

// A repeated pull does not hand out what was cancelled meanwhile.
func TestPullAgainWithoutTheCancelled(t *testing.T) {
	r := newRig(t)
	ses := r.ok(&OpenSession{}).ID
	putX(r)
	r.put(text("other"))
	op := &Lease{Request: Request{Session: ses, Number: 1}, Queue: []byte("q"), Consumer: Consumer{Session: ses}, Max: 2, LeaseMillis: 1000}
	r.ok(op)
	must(t, "leased", len(r.fx.Leases), 2)
	r.ok(cancelX)
	r.ok(op)
	must(t, "leased again", len(r.fx.Leases), 1)
	r.everywhere()
}

// What a message has reserved in the KV is free when it is cancelled, also while it is out, and is never written.
func TestCancelFreesKeys(t *testing.T) {
	for _, out := range []bool{false, true} {
		r := newRig(t)
		m := text("body")
		m.TaskID, m.Keys = []byte("x"), [][]byte{AppendKVKey(nil, "lost", "x")}
		r.put(m)
		var tok Token
		if out {
			tok = r.lease1()
		}
		must(t, "reserved", r.s.KVStats().Reserved, 1)
		r.ok(cancelX)
		must(t, "reserved", r.s.KVStats().Reserved, 0)
		if out {
			r.refused(&Nack{Token: tok, Permanent: true}, Cancelled, FieldToken)
		}
		must(t, "keys", r.s.KVStats().Keys, 0)
		r.everywhere()
	}
}

// A replaced body is what the keys get if the message dies.
func TestReplacedBodyInKeys(t *testing.T) {
	r := newRig(t)
	key := AppendKVKey(nil, "lost", "x")
	m := text("old")
	m.TaskID, m.Keys = []byte("x"), [][]byte{key}
	r.put(m)
	r.ok(&Reschedule{Queue: []byte("q"), TaskID: []byte("x"), HasBody: true, Body: []byte("new")})
	r.ok(&Nack{Token: r.lease1(), Permanent: true})
	var e KVEntry
	must(t, "there", r.s.KVGet(key, &e), true)
	must(t, "value", string(e.Value), "new")
	r.everywhere()
}
