package fsm

import "testing"

func push(task, out string) *PushResult {
	return &PushResult{Queue: []byte("q"), TaskID: []byte(task), Kind: []byte("pushed"), Result: Result{Output: []byte(out)}}
}

func (r *rig) result(task string) (out string, found, has bool) {
	var res RecordedResult
	found, has = r.s.Result("q", []byte(task), &res)
	return string(res.Output), found, has
}

func (r *rig) wantResult(task, want string) {
	r.t.Helper()
	if out, _, has := r.result(task); !has || out != want {
		r.t.Fatalf("result of %s: %q (%t), want %q", task, out, has, want)
	}
}

func TestPushResult(t *testing.T) {
	m := func(task string) Message { m := text("x"); m.TaskID, m.Kind = []byte(task), []byte("mine"); return m }
	t.Run("never seen", func(t *testing.T) {
		r := newRig(t)
		r.ok(&CreateQueue{Name: []byte("q")})
		must(t, "first", r.ok(push("t", "1")), Outcome{})
		must(t, "told", r.fx.Tasks[0], TaskEnd{Queue: 1, TaskHash: HashTask("q", []byte("t"))})
		must(t, "second", r.ok(push("t", "2")), Outcome{Duplicate: true, HasResult: true})
		r.wantResult("t", "1")
		o := r.refused(&Enqueue{Queue: []byte("q"), Messages: []Message{m("t")}}, AlreadyExists, FieldTaskID)
		must(t, "has result", o.HasResult, true)
		r.tick(DefaultResultTTL)
		r.put(m("t"))
		r.everywhere()
	})
	t.Run("ready, scheduled, retrying: done at once", func(t *testing.T) {
		r := newRig(t)
		a := r.put(m("a"))
		r.ok(&Nack{Token: r.lease1(), DelayMillis: 100})
		b := r.put(m("b"))
		c := m("c")
		c.DelayMillis = 100
		cid := r.put(c)
		d := r.put(text("d")) // named by its id
		for task, id := range map[string]ID{"a": a, "b": b, "c": cid, d.String(): d} {
			must(t, "push", r.ok(push(task, "out of "+task)), Outcome{ID: id})
			must(t, "told", r.fx.Tasks[0].Message, id)
			r.wantState(id, StateDone)
			r.wantResult(task, "out of "+task)
		}
		must(t, "nothing left", len(r.lease(9)), 0)
		n, _ := r.s.QueueNumber([]byte("q"))
		must(t, "live", r.s.Memory().Messages, 0)
		must(t, "bytes", r.s.Stats(n).Bytes, 0)
		r.everywhere()
	})
	t.Run("out: the lease stays and its ack is a duplicate", func(t *testing.T) {
		r := newRig(t)
		id := r.put(m("t"))
		tok := r.lease1()
		must(t, "push", r.ok(push("t", "pushed")), Outcome{ID: id})
		must(t, "lease stays", len(r.fx.Ended), 0)
		must(t, "extend", r.ok(&Extend{Token: tok, LeaseMillis: 500}).Millis, 500)
		want := Outcome{Duplicate: true, HasResult: true, Task: id}
		ack := &Ack{Token: tok, HasResult: true, Result: Result{Output: []byte("worker's")}}
		must(t, "ack", r.ok(ack), want)
		must(t, "ack again", r.ok(ack), want)
		must(t, "nack after", r.one(&Nack{Token: tok}).Code, LeaseLost)
		r.wantResult("t", "pushed")
		r.everywhere()
	})
	t.Run("out, then back, then out again", func(t *testing.T) {
		r := newRig(t)
		id := r.put(m("t"))
		tok := r.lease1()
		r.ok(push("t", "pushed"))
		r.ok(&Release{Token: tok})
		tok = r.lease1()
		must(t, "ack", r.ok(&Ack{Token: tok}), Outcome{Duplicate: true, HasResult: true, Task: id})
		r.everywhere()
	})
	for _, c := range []struct {
		name string
		end  func(r *rig, tok Token)
		want Code
	}{
		{"expiry", func(r *rig, _ Token) { r.tick(1000) }, OK},
		{"release", func(r *rig, tok Token) { r.ok(&Release{Token: tok}) }, OK},
		{"nack", func(r *rig, tok Token) { r.ok(&Nack{Token: tok, DelayMillis: 50}) }, LeaseLost},
	} {
		t.Run("pushed after the lease ended by "+c.name+", then a late ack", func(t *testing.T) {
			r := newRig(t)
			id := r.put(m("t"))
			tok := r.lease1()
			c.end(r, tok)
			r.ok(push("t", "pushed"))
			r.wantState(id, StateDone)
			for _, ack := range []*Ack{{Token: tok}, {Token: tok, HasResult: true, Result: Result{Output: []byte("own")}}} {
				o := r.one(ack)
				must(t, "code", o.Code, c.want)
				if c.want == OK {
					must(t, "answer", o, Outcome{Duplicate: true, HasResult: true, Task: id})
				}
			}
			var res RecordedResult
			r.s.Result("q", []byte("t"), &res)
			must(t, "nobody's work", string(res.Worker), "")
			r.everywhere()
		})
	}
	t.Run("a token without a lease", func(t *testing.T) {
		r := newRig(t)
		id := r.put(m("t"))
		r.ok(push("t", "pushed"))
		r.refused(&Ack{Token: Token{Message: id}}, LeaseLost, FieldToken)
		r.refused(&Ack{Token: Token{Message: id}, HasResult: true, Result: Result{Output: []byte("pushed")}}, LeaseLost, FieldToken)
	})
	t.Run("out, and the result ends first", func(t *testing.T) {
		r := newRig(t)
		r.ok(&CreateQueue{Name: []byte("q"), Options: QueueOptions{ResultTTLMillis: 1000}})
		r.put(m("t"))
		r.ok(&Lease{Queue: []byte("q"), Max: 1, LeaseMillis: 60_000})
		tok := r.fx.Leases[0].Token
		r.ok(push("t", "pushed"))
		r.tick(1000)
		must(t, "ack", r.ok(&Ack{Token: tok, HasResult: true, Result: Result{Output: []byte("own")}}), Outcome{Millis: 1000})
		r.wantResult("t", "own")
		r.everywhere()
	})
	t.Run("after ack", func(t *testing.T) {
		r := newRig(t)
		a := r.put(m("a"))
		r.ok(&Ack{Token: r.lease1(), HasResult: true, Result: Result{Output: []byte("own")}})
		must(t, "with a result", r.ok(push("a", "pushed")), Outcome{Duplicate: true, HasResult: true, ID: a, Task: a})
		b := r.put(m("b"))
		r.ok(&Ack{Token: r.lease1()})
		must(t, "without", r.ok(push("b", "pushed")), Outcome{Duplicate: true, ID: b})
		_, found, has := r.result("b")
		must(t, "found", found, true)
		must(t, "has result", has, false)
		r.everywhere()
	})
	t.Run("dead, then requeued", func(t *testing.T) {
		r := newRig(t)
		id := r.put(text("x"))
		r.ok(&Nack{Token: r.lease1(), Permanent: true})
		r.ok(push(id.String(), "pushed"))
		n, _ := r.s.QueueNumber([]byte("q"))
		must(t, "still a dead letter", r.s.Stats(n).Dead, 1)
		r.ok(&DeadRequeue{Queue: []byte("q"), IDs: []ID{id}})
		o := r.ok(&Ack{Token: r.lease1(), HasResult: true, Result: Result{Output: []byte("own")}})
		must(t, "ack", o, Outcome{Duplicate: true, HasResult: true, Task: id})
		r.wantResult(id.String(), "pushed")
		r.everywhere()
	})
	t.Run("arguments", func(t *testing.T) {
		r := newRig(t)
		id := r.put(text("x"))
		r.refused(&PushResult{Queue: []byte("q")}, InvalidArgument, FieldTaskID)
		r.refused(&PushResult{TaskID: []byte("t")}, InvalidArgument, FieldQueue)
		r.refused(&PushResult{TaskID: []byte(ID{8, 8}.String())}, NotFound, FieldTaskID)
		r.refused(&PushResult{Queue: []byte("p"), TaskID: []byte("t")}, NotFound, FieldQueue)
		r.refused(&PushResult{Queue: []byte("q"), TaskID: []byte("t"), Kind: make([]byte, 200)}, InvalidArgument, FieldKind)
		r.refused(&PushResult{Queue: []byte("q"), TaskID: []byte("t"), Result: Result{ContentType: []byte{0xff}}}, InvalidArgument, FieldContentType)
		r.ok(&PushResult{TaskID: []byte(id.String())}) // a broker id needs no queue
		r.wantState(id, StateDone)
	})
}

func TestRecordedResult(t *testing.T) {
	r := newRig(t)
	m := text("x")
	m.Kind, m.TaskID = []byte("hash"), []byte("t1")
	id := r.put(m)
	r.ok(&Nack{Token: r.lease1(), DelayMillis: 0})
	r.tick(10)
	tok := r.lease1()
	r.tick(250)
	r.ok(&Ack{Token: tok, HasResult: true, Result: Result{Output: []byte("out"), ContentType: []byte("text/plain")}})
	must(t, "told", r.fx.Tasks[0], TaskEnd{Message: id, Queue: 1, TaskHash: HashTask("q", []byte("t1"))})
	var got RecordedResult
	if _, ok := r.s.Result("q", []byte("t1"), &got); !ok {
		t.Fatal("no result")
	}
	must(t, "message", got.Message, id)
	must(t, "texts", string(got.TaskID)+"|"+string(got.Kind)+"|"+string(got.ContentType)+"|"+string(got.Worker)+"|"+got.Queue, "t1|hash|text/plain|w|q")
	must(t, "attempts", got.Attempts, 2)
	must(t, "duration", got.DurationMillis, 250)
	must(t, "recorded", got.RecordedAt, r.now)
	must(t, "ends", got.EndsAt, r.now+DefaultResultTTL)
	must(t, "lease time sum", r.s.Stats(1).LeaseMillisSum, 250)
	var in Info
	r.s.Task("q", []byte("t1"), &in)
	must(t, "state", in.State, StateDone)
	must(t, "token", in.Token, tok)
	r.everywhere()
}

func TestTaskIDs(t *testing.T) {
	m := func(task string) *Enqueue {
		m := text("x")
		m.TaskID = []byte(task)
		return &Enqueue{Queue: []byte("q"), AutoCreate: true, Messages: []Message{m}}
	}
	t.Run("unique while live, dead and remembered", func(t *testing.T) {
		r := newRig(t)
		id := r.ok(m("t")).ID
		must(t, "live", r.refused(m("t"), AlreadyExists, FieldTaskID).ID, id)
		tok := r.lease1()
		must(t, "out", r.refused(m("t"), AlreadyExists, FieldTaskID).ID, id)
		r.ok(&Nack{Token: tok, Permanent: true})
		must(t, "dead", r.refused(m("t"), AlreadyExists, FieldTaskID).ID, id)
		again := r.ok(&DeadRequeue{Queue: []byte("q"), IDs: []ID{id}}).ID
		must(t, "requeued", r.refused(m("t"), AlreadyExists, FieldTaskID).ID, again)
		r.ok(&Ack{Token: r.lease1()})
		must(t, "done", r.refused(m("t"), AlreadyExists, FieldTaskID), Outcome{Code: AlreadyExists, Field: FieldTaskID, ID: again})
		must(t, "in another queue", r.ok(&Enqueue{Queue: []byte("p"), AutoCreate: true, Messages: m("t").Messages}).Code, OK)
		r.tick(TombstoneMillis)
		r.ok(m("t"))
		r.everywhere()
	})
	t.Run("the name of one that is named by its id", func(t *testing.T) {
		r := newRig(t)
		id := r.put(text("x"))
		must(t, "taken", r.refused(m(id.String()), AlreadyExists, FieldTaskID).ID, id)
		r.ok(&Ack{Token: r.lease1()})
		must(t, "remembered", r.refused(m(id.String()), AlreadyExists, FieldTaskID).ID, id)
		// One that has another name does not hold the name of its id.
		other := r.ok(m("named")).ID
		r.ok(m(other.String()))
		r.everywhere()
	})
	t.Run("twice in one batch", func(t *testing.T) {
		r := newRig(t)
		e := m("t")
		e.Messages = append(e.Messages, e.Messages[0])
		o := r.apply(e)
		must(t, "first", o[0].Code, OK)
		must(t, "second", o[1].Code, AlreadyExists)
	})
	t.Run("a redriven task is found by its first id", func(t *testing.T) {
		r := newRig(t)
		id := r.put(text("x"))
		r.ok(&Nack{Token: r.lease1(), Permanent: true})
		again := r.ok(&DeadRequeue{Queue: []byte("q"), IDs: []ID{id}}).ID
		for _, queue := range []string{"", "q"} {
			var in Info
			must(t, "found", r.s.Task(queue, []byte(id.String()), &in), true)
			must(t, "id", in.ID, again)
			must(t, "original", in.OriginalID, id)
			must(t, "task", string(in.TaskID), id.String())
			must(t, "redrives", in.Redrives, 1)
		}
		r.ok(&Nack{Token: r.lease1(), Permanent: true})
		third := r.ok(&DeadRequeue{Queue: []byte("q"), IDs: []ID{again}}).ID
		in := r.info(id)
		must(t, "id", in.ID, third)
		must(t, "redrives", in.Redrives, 2)
		must(t, "attempts", in.Attempts, 0)
		r.ok(&Ack{Token: r.lease1(), HasResult: true, Result: Result{Output: []byte("r")}})
		var res RecordedResult
		for _, queue := range []string{"", "q"} {
			_, has := r.s.Result(queue, []byte(id.String()), &res)
			must(t, "result", has, true)
			must(t, "of", res.Message, third)
			must(t, "task", string(res.TaskID), id.String())
		}
		r.everywhere()
	})
}

func TestThen(t *testing.T) {
	th := func(queue string, m Message) ThenMessage { return ThenMessage{Queue: []byte(queue), Message: m} }
	start := func(t *testing.T) (*rig, Token) {
		r := newRig(t)
		m := text("x")
		m.TaskID = []byte("own")
		r.put(m)
		return r, r.lease1()
	}
	t.Run("done and enqueued in one entry", func(t *testing.T) {
		r, tok := start(t)
		r.ok(&Ack{Token: tok, ThenAutoCreate: true, Then: []ThenMessage{th("q", text("a")), th("p", text("b")), th("p", text("c"))}})
		p, _ := r.s.QueueNumber([]byte("p"))
		must(t, "p", r.s.Ready(p), 2)
		must(t, "q", r.s.Ready(1), 1)
		must(t, "told", len(r.fx.Ready), 2)
		r.ok(&Ack{Token: tok, ThenAutoCreate: true, Then: []ThenMessage{th("p", text("b"))}})
		must(t, "not again", r.s.Ready(p), 2)
		r.everywhere()
	})
	full := text("x")
	full.HasDedup, full.DedupKey = true, HashDedup([]byte("other"))
	known := full
	known.DedupKey = HashDedup([]byte("known"))
	changed := known
	changed.DedupContent[0] = 1
	second := full
	second.DedupKey = HashDedup([]byte("second"))
	for _, c := range []struct {
		name  string
		then  []ThenMessage
		auto  bool
		code  Code
		field Field
	}{
		{"missing queue", []ThenMessage{th("q", text("a")), th("p", text("b"))}, false, NotFound, FieldThen},
		{"bad queue", []ThenMessage{th("?", text("a"))}, true, InvalidArgument, FieldThen},
		{"bad message", []ThenMessage{th("q", text("a")), th("q", Message{Priority: 11})}, true, InvalidArgument, FieldPriority},
		{"full of dead", []ThenMessage{th("dead", text("a"))}, false, QueueFull, FieldDead},
		{"full of dedup keys by itself", []ThenMessage{th("dedup", known), th("dedup", full), th("dedup", second)}, false, QueueFull, FieldDedup},
		{"known key in a full table", []ThenMessage{th("dedup", known), th("dedup", full)}, false, OK, FieldNone},
		{"taken task id", []ThenMessage{th("q", text("a")), th("q", Message{TaskID: []byte("taken")})}, false, AlreadyExists, FieldThen},
		{"its own task id", []ThenMessage{th("q", Message{TaskID: []byte("own")})}, false, AlreadyExists, FieldThen},
		{"task id twice", []ThenMessage{th("q", Message{TaskID: []byte("t")}), th("q", Message{TaskID: []byte("t")})}, false, AlreadyExists, FieldThen},
		{"task id twice in a new queue", []ThenMessage{th("n", Message{TaskID: []byte("t")}), th("n", Message{TaskID: []byte("t")})}, true, AlreadyExists, FieldThen},
		{"task id in two queues", []ThenMessage{th("n", Message{TaskID: []byte("t")}), th("q", Message{TaskID: []byte("t")})}, true, OK, FieldNone},
		{"dedup key with other content", []ThenMessage{th("dedup", changed)}, false, AlreadyExists, FieldThen},
		{"dedup key twice", []ThenMessage{th("dedup", full), th("dedup", full)}, false, OK, FieldNone},
		{"dedup key twice with other content", []ThenMessage{th("n", known), th("n", changed)}, true, AlreadyExists, FieldThen},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, tok := start(t)
			r.ok(&Enqueue{Queue: []byte("q"), Messages: []Message{{TaskID: []byte("taken")}}})
			r.ok(&CreateQueue{Name: []byte("dead"), Options: QueueOptions{MaxDead: 1}})
			r.ok(&Enqueue{Queue: []byte("dead"), Messages: []Message{text("x")}})
			r.ok(&Lease{Queue: []byte("dead"), Max: 1})
			r.ok(&Nack{Token: r.fx.Leases[0].Token, Permanent: true})
			r.ok(&CreateQueue{Name: []byte("dedup"), Options: QueueOptions{DedupMaxKeys: 2}})
			r.ok(&Enqueue{Queue: []byte("dedup"), Messages: []Message{known}})
			o := r.one(&Ack{Token: tok, Then: c.then, ThenAutoCreate: c.auto})
			must(t, "code", o.Code, c.code)
			must(t, "field", o.Field, c.field)
			if c.code != OK {
				r.wantState(tok.Message, StateLeased)
				must(t, "q", r.s.Ready(1), 1)
				r.ok(&Ack{Token: tok})
			}
			r.everywhere()
		})
	}
}
