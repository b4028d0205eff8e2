package fsm

import (
	"fmt"
	"strings"
	"testing"
)

// newBatch makes a batch whose callback goes to queue "cb".
func (r *rig) newBatch() ID {
	r.t.Helper()
	return r.ok(&BatchCreate{Queue: []byte("cb"), AutoCreate: true, Callback: text("all done")}).ID
}

func memberOf(b ID, body string) Message {
	m := text(body)
	m.Batch = b
	return m
}

// batch is a line of what is known of a batch.
func (r *rig) batch(id ID) string {
	var in BatchInfo
	if !r.s.Batch(id, &in) {
		return "none"
	}
	return fmt.Sprintf("%d added, %d open, %d/%d/%d, sealed %t, done %t", in.Added, in.Open, in.Succeeded, in.Dead, in.Cancelled,
		in.Sealed, in.FinishedAt != 0)
}

// callbacks are what waits in queue "cb": bodies with their counts.
func (r *rig) callbacks() string {
	n, ok := r.s.QueueNumber([]byte("cb"))
	if !ok {
		return "no queue"
	}
	var out []string
	r.s.Peek(n, StateReady, ID{}, func(in *Info) bool {
		s := string(in.Body)
		for _, h := range in.Headers {
			if string(h.Name) != HeaderBatchID {
				s += " " + string(h.Value)
			}
		}
		out = append(out, s)
		return true
	})
	return strings.Join(out, ", ")
}

// How the only open member may end, and what the callback counts it as.
func TestBatchMemberEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(r *rig)
		want string // members succeeded dead cancelled
	}{
		{"acked", func(r *rig) { r.ok(&Ack{Token: r.lease1()}) }, "1 1 0 0"},
		{"result pushed", func(r *rig) {
			r.ok(&PushResult{Queue: []byte("q"), TaskID: []byte("t"), Result: Result{Output: []byte("x")}})
		}, "1 1 0 0"},
		{"dead", (*rig).kill, "1 0 1 0"},
		{"expired", func(r *rig) { r.tick(5000) }, "1 0 1 0"},
		{"attempts spent", func(r *rig) {
			r.ok(&SetQueue{Name: []byte("q"), Options: QueueOptions{Retry: RetryPolicy{Kind: RetryFixed, MaxAttempts: 1}}})
			r.lease1()
			r.tick(1000)
		}, "1 0 1 0"},
		{"cancelled", func(r *rig) { r.ok(&Cancel{Queue: []byte("q"), TaskID: []byte("t")}) }, "1 0 0 1"},
		{"cancelled while it is out", func(r *rig) {
			tok := r.lease1()
			r.ok(&Cancel{Queue: []byte("q"), TaskID: []byte("t")})
			r.refused(&Ack{Token: tok}, Cancelled, FieldToken)
		}, "1 0 0 1"},
		{"purged", func(r *rig) { r.ok(&PurgeQueue{Name: []byte("q")}) }, "1 0 0 1"},
		{"queue deleted", func(r *rig) { r.ok(&DeleteQueue{Name: []byte("q")}) }, "1 0 0 1"},
		{"queue deleted while it is out", func(r *rig) { r.lease1(); r.ok(&DeleteQueue{Name: []byte("q")}) }, "1 0 0 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			b := r.newBatch()
			m := memberOf(b, "x")
			m.TTLMillis, m.TaskID = 5000, []byte("t")
			r.put(m)
			r.ok(&BatchSeal{Batch: b})
			must(t, "before the end", r.callbacks(), "")
			c.end(r)
			must(t, "in the entry that ended it", r.callbacks(), "all done "+c.want)
			must(t, "hooks", r.s.Memory().Hooks, 0)
			r.tick(1)
			must(t, "once", r.callbacks(), "all done "+c.want)
			r.everywhere()
		})
	}
}

func TestBatchLife(t *testing.T) {
	r := newRig(t)
	ses := r.ok(&OpenSession{}).ID
	create := &BatchCreate{Request: Request{Session: ses, Number: 1}, Queue: []byte("cb"), AutoCreate: true, Callback: text("all done")}
	b := r.ok(create).ID
	must(t, "the same request", r.ok(create).ID, b)
	must(t, "one batch", r.s.Memory().Batches, 1)
	add := &Enqueue{Request: Request{Session: ses, Number: 2}, Queue: []byte("q"), AutoCreate: true,
		Messages: []Message{memberOf(b, "1"), memberOf(b, "2"), memberOf(b, "3")}}
	r.apply(add)
	r.apply(add)
	must(t, "added once", r.batch(b), "3 added, 3 open, 0/0/0, sealed false, done false")
	r.ok(&Ack{Token: r.lease1(), Then: []ThenMessage{{Queue: []byte("q"), Message: memberOf(b, "4")}}})
	r.kill()
	r.ok(&Ack{Token: r.lease1()})
	r.ok(&Ack{Token: r.lease1()})
	must(t, "all done, not sealed", r.batch(b), "4 added, 0 open, 3/1/0, sealed false, done false")
	must(t, "no callback before the seal", r.callbacks(), "")
	seal := &BatchSeal{Request: Request{Session: ses, Number: 5}, Batch: b}
	r.ok(seal)
	must(t, "callback with the seal", r.callbacks(), "all done 4 3 1 0")
	r.ok(seal)
	must(t, "sealed before", r.ok(&BatchSeal{Batch: b}).Duplicate, true)
	must(t, "one callback", r.callbacks(), "all done 4 3 1 0")
	r.refused(&Enqueue{Queue: []byte("q"), Messages: []Message{memberOf(b, "late")}}, FailedPrecondition, FieldBatchID)
	must(t, "it is kept for a while", r.batch(b), "4 added, 0 open, 3/1/0, sealed true, done true")
	r.tick(BatchKeepMillis)
	must(t, "and then not", r.batch(b), "none")
	must(t, "reclaimed", r.s.Memory().Batches, 0)
	r.refused(&BatchSeal{Batch: b}, NotFound, FieldBatchID)
	r.everywhere()
}

// A member that died was counted: that it is redriven, and succeeds then, changes nothing.
func TestBatchRequeue(t *testing.T) {
	r := newRig(t)
	b := r.newBatch()
	id := r.put(memberOf(b, "x"))
	r.put(memberOf(b, "y"))
	r.ok(&BatchSeal{Batch: b})
	r.kill()
	r.ok(&DeadRequeue{Queue: []byte("q"), IDs: []ID{id}})
	r.ok(&Ack{Token: r.lease1()})
	r.ok(&Ack{Token: r.lease1()})
	must(t, "counts", r.callbacks(), "all done 2 1 1 0")
	must(t, "batch", r.batch(b), "2 added, 0 open, 1/1/0, sealed true, done true")
	r.everywhere()
}

// A callback gets through whatever has become of its queue: it is full, deleted, or there is no room for another queue.
func TestBatchCallbackGetsThrough(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(r *rig)
		want string
	}{
		{"full of messages", func(r *rig) { r.s.lim.queueMessages, r.s.lim.groupMessages = 1, 1 }, "all done 1 1 0 0"},
		{"at its max_depth, and paused", func(r *rig) {
			r.ok(&SetQueue{Name: []byte("cb"), Options: QueueOptions{MaxDepth: 1, Paused: true}})
			m := text("in the way")
			m.DelayMillis = 1e6
			r.ok(&Enqueue{Queue: []byte("cb"), Messages: []Message{m}})
			r.refused(&Enqueue{Queue: []byte("cb"), Messages: []Message{m}}, QueueFull, FieldDepth)
		}, "all done 1 1 0 0"},
		{"ordered now, which takes no priority", func(r *rig) {
			r.ok(&SetQueue{Name: []byte("cb"), Options: QueueOptions{Ordering: OrderFIFO}})
		}, "all done 1 1 0 0"},
		{"full of dead letters", func(r *rig) {
			r.ok(&SetQueue{Name: []byte("cb"), Options: QueueOptions{MaxDead: 1}})
			r.ok(&Enqueue{Queue: []byte("cb"), Messages: []Message{text("dies")}})
			r.ok(&Lease{Queue: []byte("cb"), Consumer: someone, Max: 1})
			r.ok(&Nack{Token: r.fx.Leases[0].Token, Permanent: true})
		}, "all done 1 1 0 0"},
		{"deleted", func(r *rig) { r.ok(&DeleteQueue{Name: []byte("cb")}) }, "all done 1 1 0 0"},
		{"deleted, and no room", func(r *rig) { r.ok(&DeleteQueue{Name: []byte("cb")}); r.s.lim.queues = 1 }, "all done 1 1 0 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			m := text("all done")
			m.Priority, m.Key = 9, []byte("k")
			b := r.ok(&BatchCreate{Queue: []byte("cb"), AutoCreate: true, Callback: m}).ID
			r.put(memberOf(b, "x"))
			r.ok(&BatchSeal{Batch: b})
			c.do(r)
			r.ok(&Ack{Token: r.lease1()})
			must(t, "callback", r.callbacks(), c.want)
		})
	}
}

func TestBatchTableFills(t *testing.T) {
	r := newRig(t)
	r.s.lim.batches = 2
	a, b := r.newBatch(), r.newBatch()
	create := &BatchCreate{Queue: []byte("cb"), Callback: text("x")}
	o := r.refused(create, Overloaded, FieldBatches)
	must(t, "limit", o.Limit, 2)
	must(t, "counter", r.s.Memory().Batches, 2)
	r.tick(1000)
	r.ok(&BatchSeal{Batch: a}) // done at once, and kept for an hour
	must(t, "callback of nothing", r.callbacks(), "all done 0 0 0 0")
	r.refused(create, Overloaded, FieldBatches)
	r.tick(BatchKeepMillis)
	c := r.ok(create).ID
	// One that is never sealed ends after a week; its members go on without it.
	r.put(memberOf(b, "x"))
	r.now = t0 + BatchOpenMillis - 1
	r.tick(0)
	must(t, "one ms before its end", r.batch(b), "1 added, 1 open, 0/0/0, sealed false, done false")
	r.s.lim.reclaim = 0
	r.tick(1)
	must(t, "at its end", r.batch(b), "none")
	r.refused(&BatchSeal{Batch: b}, NotFound, FieldBatchID)
	r.refused(&Enqueue{Queue: []byte("q"), Messages: []Message{memberOf(b, "y")}}, NotFound, FieldBatchID)
	must(t, "not yet reclaimed", r.s.Memory().Batches, 2)
	r.s.lim.reclaim = MaxReclaim
	r.tick(0)
	must(t, "reclaimed", r.s.Memory().Batches, 1)
	r.ok(&Ack{Token: r.lease1()})
	r.ok(&BatchSeal{Batch: c})
	r.tick(BatchKeepMillis)
	r.ok(&PurgeQueue{Name: []byte("cb")})
	r.tick(TombstoneMillis)
	r.empty()
	r.everywhere()
}

func TestBatchCallbackBytesFill(t *testing.T) {
	r := newRig(t)
	r.s.lim.callbackBytes = 100
	big := &BatchCreate{Queue: []byte("cb"), AutoCreate: true, Callback: text(strings.Repeat("x", 80))}
	b := r.ok(big).ID
	o := r.refused(big, Overloaded, FieldBatches)
	must(t, "limit", o.Limit, 100)
	r.ok(&BatchSeal{Batch: b})
	r.ok(big) // its room is free again once it is a message
	r.everywhere()
}

func TestBatchMembersFill(t *testing.T) {
	r := newRig(t)
	r.s.lim.members = 2
	b := r.newBatch()
	r.put(memberOf(b, "1"))
	tok := r.lease1()
	then := func(n int) *Ack {
		op := &Ack{Token: tok, ThenAutoCreate: true}
		for range n {
			op.Then = append(op.Then, ThenMessage{Queue: []byte("q"), Message: memberOf(b, "then")})
		}
		return op
	}
	r.refused(then(2), QueueFull, FieldMembers) // the one that is acked is open still
	r.ok(then(1))
	r.put(memberOf(b, "3"))
	o := r.refused(&Enqueue{Queue: []byte("q"), Messages: []Message{memberOf(b, "4")}}, QueueFull, FieldMembers)
	must(t, "limit", o.Limit, 2)
	must(t, "batch", r.batch(b), "3 added, 2 open, 1/0/0, sealed false, done false")
	r.everywhere()
}

func TestBatchDuplicateIsNoMember(t *testing.T) {
	r := newRig(t)
	b := r.newBatch()
	m := memberOf(b, "x")
	m.HasDedup, m.DedupKey = true, HashDedup([]byte("k"))
	r.put(m)
	r.put(m)
	must(t, "batch", r.batch(b), "1 added, 1 open, 0/0/0, sealed false, done false")
	r.everywhere()
}

func TestBatchRefusals(t *testing.T) {
	r := newRig(t)
	callback := func(change func(m *Message)) *BatchCreate {
		op := &BatchCreate{Queue: []byte("cb"), AutoCreate: true, Callback: text("x")}
		change(&op.Callback)
		return op
	}
	headers := func(n, bytes int) func(m *Message) {
		return func(m *Message) {
			for i := range n {
				m.Headers = append(m.Headers, Header{Name: fmt.Append(nil, "h", i), Value: make([]byte, bytes)})
			}
		}
	}
	for _, c := range []struct {
		name string
		op   Op
		code Code
		f    Field
	}{
		{"no queue", &BatchCreate{}, InvalidArgument, FieldQueue},
		{"missing queue", &BatchCreate{Queue: []byte("none")}, NotFound, FieldQueue},
		{"task id", callback(func(m *Message) { m.TaskID = []byte("t") }), InvalidArgument, FieldCallback},
		{"dedup key", callback(func(m *Message) { m.HasDedup = true }), InvalidArgument, FieldCallback},
		{"keys", callback(func(m *Message) { m.Keys = [][]byte{kvk("a")} }), InvalidArgument, FieldCallback},
		{"another batch", callback(func(m *Message) { m.Batch = ID{1, 1} }), InvalidArgument, FieldCallback},
		{"a header of ours", callback(func(m *Message) { m.Headers = []Header{{Name: []byte("batch_dead")}} }), InvalidArgument, FieldCallback},
		{"60 headers", callback(headers(60, 1)), InvalidArgument, FieldCallback},
		{"too many header bytes", callback(headers(4, 4080)), InvalidArgument, FieldCallback},
		{"body", callback(func(m *Message) { m.Body = make([]byte, MaxCallbackBytes+1) }), TooLarge, FieldCallback},
		{"priority", callback(func(m *Message) { m.Priority = 10 }), InvalidArgument, FieldPriority},
		{"seal of none", &BatchSeal{Batch: ID{1, 1}}, NotFound, FieldBatchID},
		{"member of none", &Enqueue{Queue: []byte("q"), AutoCreate: true, Messages: []Message{memberOf(ID{1, 1}, "x")}}, NotFound, FieldBatchID},
	} {
		t.Run(c.name, func(t *testing.T) { r.refused(c.op, c.code, c.f) })
	}
	must(t, "batches", r.s.Memory().Batches, 0)
	b := r.ok(callback(headers(59, 100))).ID
	r.ok(&BatchSeal{Batch: b})
	r.everywhere()
}

// Everything a callback was given goes through.
func TestBatchCallbackFields(t *testing.T) {
	r := newRig(t)
	m := Message{
		Kind: []byte("kind"), ContentType: []byte("a/b"), Key: []byte("key"), Body: []byte("body"), Headers: []Header{{[]byte("own"), []byte("1")}},
		Priority: 7, DelayMillis: 100, TimeoutMillis: 5000, Retry: RetryPolicy{Kind: RetryFixed, MaxAttempts: 9},
	}
	b := r.ok(&BatchCreate{Queue: []byte("cb"), AutoCreate: true, Callback: m}).ID
	r.tick(1000)
	r.ok(&BatchSeal{Batch: b})
	var in BatchInfo
	r.s.Batch(b, &in)
	got := r.info(in.Callback)
	must(t, "state", got.State, StateScheduled)
	must(t, "due", got.DueAt, r.now+100)
	must(t, "fields", fmt.Sprintf("%s %s %s %s %d %d", got.Kind, got.ContentType, got.Key, got.Body, got.Priority, got.MaxAttempts), "kind a/b key body 7 9")
	must(t, "headers", fmt.Sprintf("%s", got.Headers), fmt.Sprintf("[{own 1} {batch_id %s} {batch_members 0} {batch_succeeded 0} {batch_dead 0} {batch_cancelled 0}]", b))
	r.everywhere()
}

// A purge ends many members a few an entry, and the callback comes with the last.
func TestBatchPurgeIsSwept(t *testing.T) {
	r := newRig(t)
	r.s.lim.reclaim = 3
	b := r.newBatch()
	for i := range 8 {
		r.put(memberOf(b, fmt.Sprint(i)))
	}
	r.ok(&BatchSeal{Batch: b})
	r.ok(&PurgeQueue{Name: []byte("q")})
	must(t, "the first three", r.batch(b), "8 added, 5 open, 0/0/3, sealed true, done false")
	r.tick(0)
	must(t, "not yet", r.callbacks(), "")
	r.tick(0)
	must(t, "with the last", r.callbacks(), "all done 8 0 0 8")
	r.everywhere()
}
