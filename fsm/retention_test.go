package fsm

import (
	"bytes"
	"fmt"
	"testing"
)

// What a record of each kind answers while it is remembered and after its end, whatever became of the option that says for how
// long: asked one millisecond before the end, at it, one after, and once the record is reclaimed; in a state that went all the
// way and in one restored from a snapshot.

const (
	keepFor  = 10_000 // ms that the options say when a record is made
	changeAt = 4000   // ms later they are changed
)

// A retained is a kind of record that time ends.
type retained struct {
	name   string
	option func(ms int64) QueueOptions // nil: no option says for how long, it is keeps
	keeps  int64
	follow bool // the end follows the option as it stands, where all others fix theirs when they are made
	last   bool // it is there at its end still
	make   func(r *rig)
	asks   []ask
}

// ask is a question and the answers to it.
type ask struct {
	name        string
	ask         func(r *rig) string
	there, gone string
}

// said is an outcome in a word or two.
func said(o Outcome) string {
	names := map[Code]string{
		OK: "ok", InvalidArgument: "invalid", NotFound: "not found", AlreadyExists: "exists", LeaseLost: "lost", Cancelled: "cancelled",
		QueueFull: "full", Overloaded: "overloaded", FailedPrecondition: "precondition", SessionExpired: "expired",
	}
	s := names[o.Code]
	if o.Duplicate {
		s += " duplicate"
	}
	if o.Dead {
		s += " dead"
	}
	if o.HasResult {
		s += " result"
	}
	return s
}

func does(op func(r *rig) Op) func(r *rig) string {
	return func(r *rig) string { return said(r.one(op(r))) }
}

// tasked is a message with the task id "t" and, for the asking, a dedup key that outlives everything here.
func tasked(key string) Message {
	m := text("x")
	m.TaskID = []byte("t")
	if key != "" {
		m.HasDedup, m.DedupKey, m.DedupContent = true, HashDedup([]byte(key)), HashContent(nil, m.Body)
	}
	return m
}

func stateOf(r *rig) string {
	r.tick(0)
	var in Info
	if !r.s.Task("q", []byte("t"), &in) {
		return "unknown"
	}
	return map[MessageState]string{StateReady: "pending", StateDone: "done", StateDead: "dead"}[in.State]
}

var errOut = Result{Output: []byte("other")}

func retainedKinds() []retained {
	out := Result{Output: []byte("out")}
	return []retained{
		{
			name: "dedup key", last: true,
			option: func(ms int64) QueueOptions { return QueueOptions{DedupWindowMillis: ms} },
			make:   func(r *rig) { r.ok(one(tasked("k"))); r.ok(&Ack{Token: r.lease1()}) },
			asks: []ask{
				{"the same again", does(func(*rig) Op { m := tasked("k"); m.TaskID = nil; return one(m) }), "ok duplicate", "ok"},
				{"with another body", does(func(*rig) Op {
					m := tasked("k")
					m.TaskID, m.DedupContent = nil, HashContent(nil, []byte("other"))
					return one(m)
				}), "exists", "ok"},
				{"twice in one entry", func(r *rig) string {
					m := tasked("k")
					m.TaskID = nil
					o := r.apply(one(m), one(m))
					return said(o[0]) + ", " + said(o[1])
				}, "ok duplicate, ok duplicate", "ok, ok duplicate"},
				{"as the next of a chain", func(r *rig) string {
					r.put(text("first"))
					m := tasked("k")
					m.TaskID = nil
					tok := r.lease1()
					before := r.stats().Ready
					s := said(r.one(&Ack{Token: tok, Then: []ThenMessage{{q0, m}}}))
					return fmt.Sprint(s, ", ", r.stats().Ready-before, " more")
				}, "ok, 0 more", "ok, 1 more"},
			},
		},
		{
			name:   "result",
			option: func(ms int64) QueueOptions { return QueueOptions{ResultTTLMillis: ms} },
			make: func(r *rig) {
				r.ok(one(tasked("k")))
				r.token = r.lease1()
				r.ok(&Ack{Token: r.token, HasResult: true, Result: out})
			},
			asks: []ask{
				{"status", stateOf, "done", "unknown"},
				{"result", func(r *rig) string {
					r.tick(0)
					var res RecordedResult
					_, has := r.s.Result("q", []byte("t"), &res)
					return fmt.Sprint(has, string(res.Output))
				}, "trueout", "false"},
				{"list", func(r *rig) string {
					r.tick(0)
					n := 0
					r.s.Results(1, 0, func(*RecordedResult) bool { n++; return true })
					return fmt.Sprint(n)
				}, "1", "0"},
				{"the task's name", does(func(*rig) Op { return one(tasked("")) }), "exists result", "ok"},
				{"its dedup key", does(func(*rig) Op { return one(tasked("k")) }), "ok duplicate result", "ok duplicate"},
				{"ack again", does(func(r *rig) Op { return &Ack{Token: r.token, HasResult: true, Result: out} }), "ok", "not found"},
				{"ack with another", does(func(r *rig) Op { return &Ack{Token: r.token, HasResult: true, Result: errOut} }), "exists result", "not found"},
				{"nack", does(func(r *rig) Op { return &Nack{Token: r.token} }), "lost", "not found"},
				{"push another", does(func(*rig) Op { return &PushResult{Queue: q0, TaskID: []byte("t"), Result: errOut} }), "ok duplicate result", "ok"},
				{"cancel", does(func(*rig) Op { return &Cancel{Queue: q0, TaskID: []byte("t")} }), "precondition", "not found"},
				{"reschedule", does(func(*rig) Op { return &Reschedule{Queue: q0, TaskID: []byte("t"), When: AfterDelay} }), "precondition", "not found"},
			},
		},
		{
			name:   "pushed result",
			option: func(ms int64) QueueOptions { return QueueOptions{ResultTTLMillis: ms} },
			make:   func(r *rig) { r.ok(&PushResult{Queue: q0, TaskID: []byte("t"), Result: out}) },
			asks: []ask{
				{"status", stateOf, "done", "unknown"},
				{"the task's name", does(func(*rig) Op { return one(tasked("")) }), "exists result", "ok"},
				{"push another", does(func(*rig) Op { return &PushResult{Queue: q0, TaskID: []byte("t"), Result: errOut} }), "ok duplicate result", "ok"},
			},
		},
		{
			name: "tombstone", keeps: TombstoneMillis,
			make: func(r *rig) { r.ok(one(tasked("k"))); r.token = r.lease1(); r.ok(&Ack{Token: r.token}) },
			asks: []ask{
				{"status", stateOf, "done", "unknown"},
				{"the task's name", does(func(*rig) Op { return one(tasked("")) }), "exists", "ok"},
				{"ack again", does(func(r *rig) Op { return &Ack{Token: r.token} }), "ok", "not found"},
				{"ack with a result", does(func(r *rig) Op { return &Ack{Token: r.token, HasResult: true, Result: out} }), "exists", "not found"},
				{"push a result", does(func(*rig) Op { return &PushResult{Queue: q0, TaskID: []byte("t"), Result: out} }), "ok duplicate", "ok"},
			},
		},
		{
			name: "dead letter", follow: true,
			option: func(ms int64) QueueOptions { return QueueOptions{DeadRetentionMillis: ms} },
			make: func(r *rig) {
				r.ok(one(tasked("k")))
				r.token = r.lease1()
				r.ok(&Nack{Token: r.token, Permanent: true})
			},
			asks: []ask{
				{"status", stateOf, "dead", "unknown"},
				{"list", func(r *rig) string {
					r.tick(0)
					n := 0
					r.s.Dead(1, 0, ID{}, func(*Info) bool { n++; return true })
					return fmt.Sprint(n)
				}, "1", "0"},
				{"get", func(r *rig) string {
					r.tick(0)
					var in Info
					return fmt.Sprint(r.s.DeadLetter(1, r.token.Message, &in))
				}, "true", "false"},
				{"requeue", does(func(r *rig) Op { return &DeadRequeue{Queue: q0, IDs: []ID{r.token.Message}} }), "ok", "not found"},
				{"requeue with an edit", does(func(r *rig) Op { return &DeadEdit{Queue: q0, ID: r.token.Message, Fields: EditPriority} }), "ok", "not found"},
				{"delete", does(func(r *rig) Op { return &DeadDelete{Queue: q0, IDs: []ID{r.token.Message}} }), "ok", "not found"},
				{"nack again", does(func(r *rig) Op { return &Nack{Token: r.token, Permanent: true} }), "ok dead", "not found"},
				{"ack", does(func(r *rig) Op { return &Ack{Token: r.token} }), "lost", "not found"},
				{"the task's name", does(func(*rig) Op { return one(tasked("")) }), "exists", "ok"},
				{"cancel", does(func(*rig) Op { return &Cancel{Queue: q0, TaskID: []byte("t")} }), "precondition", "not found"},
				{"push a result", func(r *rig) string {
					o := r.one(&PushResult{Queue: q0, TaskID: []byte("t"), Result: out})
					return fmt.Sprint(said(o), o.ID == r.token.Message)
				}, "oktrue", "okfalse"},
			},
		},
		{
			name:   "message of some age",
			option: func(ms int64) QueueOptions { return QueueOptions{MaxAgeMillis: ms} },
			make:   func(r *rig) { r.put(tasked("")) },
			asks: []ask{
				{"status", stateOf, "pending", "dead"},
				{"lease", func(r *rig) string { return fmt.Sprint(len(r.lease(1))) }, "1", "0"},
				{"reason", func(r *rig) string { r.tick(0); return fmt.Sprint(r.stats().DiedByReason[ReasonExpired]) }, "0", "1"},
			},
		},
		{
			name: "session", keeps: SessionIdleMillis,
			make: func(r *rig) {
				r.session = r.ok(&OpenSession{}).ID
				r.ok(&Enqueue{Request: Request{Session: r.session, Number: 1}, Queue: q0, Messages: []Message{text("x")}})
			},
			asks: []ask{
				{"touch", does(func(r *rig) Op { return &TouchSession{Session: r.session} }), "ok", "expired"},
				{"the same request", func(r *rig) string {
					o := r.one(&Enqueue{Request: Request{Session: r.session, Number: 1}, Queue: q0, Messages: []Message{text("x")}})
					return fmt.Sprint(said(o), r.stats().Enqueued)
				}, "ok1", "expired1"},
				{"another request", does(func(r *rig) Op {
					return &PurgeQueue{Request: Request{Session: r.session, Number: 2}, Name: q0}
				}), "ok", "expired"},
			},
		},
		{
			name: "KV key", keeps: KVTTLMillis,
			make: func(r *rig) { r.put(keyed("v", "k")); r.kill() },
			asks: []ask{
				{"get", func(r *rig) string { r.tick(0); return r.kvGet("k") }, "v", "-"},
				{"list", func(r *rig) string { r.tick(0); return r.kvList() }, "k=v", ""},
				{"delete", does(func(*rig) Op { return &KVDelete{Key: kvk("k")} }), "ok", "not found"},
			},
		},
		{
			name: "open batch", keeps: BatchOpenMillis,
			make: func(r *rig) { r.batchID = r.newBatch() },
			asks: []ask{
				{"seal", does(func(r *rig) Op { return &BatchSeal{Batch: r.batchID} }), "ok", "not found"},
				{"add", does(func(r *rig) Op { return one(memberOf(r.batchID, "x")) }), "ok", "not found"},
			},
		},
		{
			name: "batch that is done", keeps: BatchKeepMillis,
			make: func(r *rig) { r.batchID = r.newBatch(); r.ok(&BatchSeal{Batch: r.batchID}) },
			asks: []ask{
				{"seal again", does(func(r *rig) Op { return &BatchSeal{Batch: r.batchID} }), "ok duplicate", "not found"},
				{"add", does(func(r *rig) Op { return one(memberOf(r.batchID, "x")) }), "precondition", "not found"},
			},
		},
	}
}

// fork is a rig that goes on from here by itself: from a snapshot, or by all entries again. Its state is the caller's to close.
func (r *rig) fork(t *testing.T, restore bool) *rig {
	t.Helper()
	f := *r
	f.t, f.fx, f.log = t, Effects{}, nil
	if restore {
		s, err := Restore(3, bytes.NewReader(snapshot(t, r.s)))
		if err != nil {
			t.Fatal(err)
		}
		f.s = s
	} else {
		f.s = New(3)
	}
	f.s.lim = r.s.lim
	if !restore {
		for i, data := range r.log {
			if err := f.s.Apply(uint64(i+1), data, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	return &f
}

// TestRetention asks every kind about its end under every change of its option.
func TestRetention(t *testing.T) {
	for _, k := range retainedKinds() {
		changes := []struct {
			name string
			to   []int64 // one after the other
			ends int64   // of a kind whose end follows the option
		}{
			{"unchanged", nil, keepFor},
			{"raised", []int64{2 * keepFor}, 2 * keepFor},
			{"lowered", []int64{keepFor - 3000}, keepFor - 3000},
			{"lowered below its age", []int64{2000}, changeAt},
			{"lowered below its age and raised again", []int64{2000, 2 * keepFor}, changeAt},
			{"raised and lowered again", []int64{2 * keepFor, keepFor - 1000}, keepFor - 1000},
		}
		if k.option == nil {
			changes = changes[:1]
		}
		for _, c := range changes {
			t.Run(k.name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				k.hold(t, c.to, c.ends)
			})
		}
	}
}

// hold makes the record, changes the option, and asks around the end.
func (k *retained) hold(t *testing.T, to []int64, follows int64) {
	r := newRig(t)
	r.s.lim.reclaim = 0 // what has ended stays in its table, and must not show
	ends := int64(keepFor)
	var o QueueOptions
	if k.option != nil {
		o = k.option(keepFor)
	}
	r.queue(o)
	k.make(r)
	r.now += changeAt
	for _, ms := range to {
		r.ok(&SetQueue{Name: q0, Options: k.option(ms)})
	}
	switch {
	case k.keeps > 0:
		ends = k.keeps
	case k.follow:
		ends = follows
	}
	for _, at := range []int64{ends - 1, ends, ends + 1} {
		if t0+at < r.now {
			continue
		}
		there := at < ends || at == ends && k.last
		for _, q := range k.asks {
			want := q.gone
			if there {
				want = q.there
			}
			for _, restore := range []bool{false, true} {
				f := r.fork(t, restore)
				f.now = t0 + at
				must(t, fmt.Sprintf("%s at the end%+d, restored %t", q.name, at-ends, restore), q.ask(f), want)
				f.s.Close()
				if there {
					continue
				}
				f = r.fork(t, restore)
				f.s.lim.reclaim = MaxReclaim
				f.now = t0 + at
				f.tick(0)
				f.tick(0)
				must(t, fmt.Sprintf("%s at the end%+d and reclaimed, restored %t", q.name, at-ends, restore), q.ask(f), want)
				f.s.Close()
			}
		}
	}
}

// TestMaximaChange lowers and raises the maximum of what is kept above and below what is held. The record that is one too many is
// refused, or lets the oldest go; what is held stays, and counts until it is reclaimed.
func TestMaximaChange(t *testing.T) {
	const held = 4
	resultSize := int64(resultCost + 2 + 1 + 1 + 1 + 3)
	for _, c := range []struct {
		name  string
		of    func(n int64) QueueOptions
		add   func(r *rig, i int)
		field Field
		count func(r *rig) int64
		extra int64 // ms that the record is there at its end still
	}{
		{"dedup_max_keys", func(n int64) QueueOptions { return QueueOptions{DedupMaxKeys: n, DedupWindowMillis: keepFor} },
			func(r *rig, i int) { r.ok(one(deduped(i))) }, FieldDedup, func(r *rig) int64 { return r.stats().DedupKeys }, 1},
		{"max_results_bytes", func(n int64) QueueOptions {
			return QueueOptions{MaxResultsBytes: n * resultSize, ResultTTLMillis: keepFor}
		}, func(r *rig, i int) {
			r.ok(&PushResult{Queue: q0, TaskID: []byte{'a' + byte(i)}, Result: Result{Output: []byte("out")}})
		}, FieldResults, func(r *rig) int64 { return r.stats().Results }, 0},
		{"max_dead", func(n int64) QueueOptions { return QueueOptions{MaxDead: n, DeadRetentionMillis: keepFor} },
			func(r *rig, i int) { r.dead(i) }, FieldDead, func(r *rig) int64 { return r.stats().Dead }, 0},
	} {
		for _, to := range []int64{held + 1, held, held - 1, 1} {
			t.Run(fmt.Sprintf("%s/%d of %d", c.name, held, to), func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				r.queue(c.of(held + 1))
				for i := range held {
					c.add(r, i)
				}
				if c.name == "max_results_bytes" {
					must(t, "a result counts", r.stats().ResultBytes, held*resultSize)
				}
				r.now += changeAt
				r.ok(&SetQueue{Name: q0, Options: c.of(to)})
				must(t, "held", c.count(r), held)
				ask := func(when string, at int64, full bool, left int64) {
					t.Helper()
					for _, restore := range []bool{false, true} {
						f := r.fork(t, restore)
						f.now = t0 + at
						o := f.one(one(deduped(-1)))
						want := Outcome{Code: QueueFull, Field: c.field, Limit: o.Limit}
						if !full {
							want = Outcome{ID: o.ID}
						}
						must(t, fmt.Sprintf("%s, restored %t", when, restore), o, want)
						if c.name != "dedup_max_keys" {
							must(t, when+", left", c.count(f), left)
						}
						f.s.Close()
					}
				}
				ask("before the end", changeAt, to <= held, held)
				ask("at its last moment", keepFor+c.extra-1, to <= held, held)
				ask("in the entry after the end", keepFor+c.extra, to <= held, 0)
				r.tick(keepFor + c.extra - changeAt)
				must(t, "reclaimed", c.count(r), 0)
				ask("after reclaim", keepFor+c.extra, false, 0)
			})
		}
	}
	t.Run("dead_overflow drop_oldest, lowered", func(t *testing.T) {
		for _, to := range []int64{held + 1, held, held - 1, 1} {
			r := newRig(t)
			r.queue(QueueOptions{MaxDead: held + 1, DeadOverflow: DeadDropOldest})
			for i := range held {
				r.dead(i)
				r.now++
			}
			r.ok(&SetQueue{Name: q0, Options: QueueOptions{MaxDead: to, DeadOverflow: DeadDropOldest}})
			must(t, "a lower maximum takes nothing away", r.stats().Dead, held)
			r.dead(100)
			must(t, "dead", r.stats().Dead, min(held+1, to))
			must(t, "dropped", r.stats().DeadDropped, held+1-min(held+1, to))
			r.wantState(r.lastDead(), StateDead)
			// And back to refusing: the table is full, and says so.
			r.ok(&SetQueue{Name: q0, Options: QueueOptions{MaxDead: 1}})
			r.refused(one(text("x")), QueueFull, FieldDead)
			r.everywhere()
		}
	})
}

// lastDead is the youngest dead letter of queue q.
func (r *rig) lastDead() (id ID) {
	r.s.Dead(1, 0, ID{}, func(in *Info) bool { id = in.ID; return true })
	return id
}
