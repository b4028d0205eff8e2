package fsm

import "testing"

// mixed fills queue q with messages in every state and returns their ids and tokens.
func mixed(r *rig) (ready, released, scheduled, retrying, out, dead ID, tok Token) {
	m := func(task string, delay, ttl int64) Message {
		m := text("body of " + task)
		m.TaskID, m.DelayMillis, m.TTLMillis = []byte(task), delay, ttl
		return m
	}
	dead = r.put(m("dead", 0, 0))
	r.ok(&Nack{Token: r.lease1(), Permanent: true})
	retrying = r.put(m("retrying", 0, 0))
	r.ok(&Nack{Token: r.lease1(), DelayMillis: 500})
	out = r.put(m("out", 0, 0))
	tok = r.lease1()
	released = r.put(m("released", 0, 700))
	r.ok(&Release{Token: r.lease1()})
	ready = r.put(m("ready", 0, 700))
	scheduled = r.put(m("scheduled", 400, 0))
	return
}

func TestPurge(t *testing.T) {
	for _, garbage := range []int{1, 1000} {
		r := newRig(t)
		r.s.lim.garbage = garbage
		ready, released, scheduled, retrying, out, dead, tok := mixed(r)
		n, _ := r.s.QueueNumber([]byte("q"))
		o := r.ok(&PurgeQueue{Name: []byte("q")})
		must(t, "count", o.Count, 4)
		must(t, "purged", len(r.fx.Purged), 1)
		st := r.s.Stats(n)
		must(t, "ready", st.Ready+st.Scheduled+st.Retrying, 0)
		must(t, "leased", st.Leased, 1)
		must(t, "dead", st.Dead, 1)
		must(t, "bytes", st.Bytes, int64(len("body of out")+len("out")+1))
		for _, id := range []ID{ready, released, scheduled, retrying} {
			r.wantState(id, StateUnknown)
			r.refused(&Ack{Token: Token{Message: id}}, NotFound, FieldToken)
		}
		r.wantState(out, StateLeased)
		r.wantState(dead, StateDead)
		var in Info
		must(t, "task id", r.s.Task("q", []byte("ready"), &in), false)
		must(t, "nothing to lease", len(r.lease(9)), 0)
		m := text("again")
		m.TaskID = []byte("ready")
		r.put(m)
		r.everywhere()
		// What was out comes back, and what time would have done to the purged does not happen.
		r.ok(&Release{Token: tok})
		r.tick(1000)
		st = r.s.Stats(n)
		must(t, "ready", st.Ready, 2)
		must(t, "died", st.Died, 1)
		for range 10 {
			r.tick(1)
		}
		must(t, "garbage", r.s.Memory().Garbage, 0)
		must(t, "messages", r.s.messages.Len(), 3)
		must(t, "purge again", r.ok(&PurgeQueue{Name: []byte("q")}).Count, 2)
		must(t, "purge of nothing", r.ok(&PurgeQueue{Name: []byte("q")}).Count, 0)
		r.refused(&PurgeQueue{Name: []byte("p")}, NotFound, FieldQueue)
		r.everywhere()
	}
}

func TestDeadPurge(t *testing.T) {
	r := newRig(t)
	r.s.lim.garbage = 1
	_, _, _, _, _, dead, _ := mixed(r)
	tok := r.info(dead).Token
	n, _ := r.s.QueueNumber([]byte("q"))
	must(t, "count", r.ok(&DeadPurge{Queue: []byte("q")}).Count, 1)
	r.wantState(dead, StateUnknown)
	r.refused(&Nack{Token: tok}, NotFound, FieldToken)
	r.s.Dead(n, 0, ID{}, func(*Info) bool { t.Fatal("listed"); return false })
	r.refused(&DeadPurge{Queue: []byte("p")}, NotFound, FieldQueue)
	r.everywhere()
}

func TestDeleteQueue(t *testing.T) {
	for _, garbage := range []int{1, 1000} {
		r := newRig(t)
		r.s.lim.garbage = garbage
		_, _, _, _, out, dead, tok := mixed(r)
		m := text("x")
		m.HasDedup, m.DedupKey = true, HashDedup([]byte("k"))
		for range 3 {
			m.DedupKey[0]++
			r.put(m)
		}
		r.ok(&Lease{Queue: []byte("q"), Consumer: someone, Max: 1})
		r.ok(&Ack{Token: r.fx.Leases[0].Token, HasResult: true, Result: Result{Output: []byte("o")}})
		r.ok(&Lease{Queue: []byte("q"), Consumer: someone, Max: 1})
		r.ok(&Ack{Token: r.fx.Leases[0].Token})
		old, _ := r.s.QueueNumber([]byte("q"))
		r.ok(&DeleteQueue{Name: []byte("q")})
		must(t, "ended", len(r.fx.Ended), 1)
		must(t, "token", r.fx.Ended[0].Token, tok)
		must(t, "name", r.s.QueueName(old), "")
		must(t, "stats", r.s.Stats(old).Name, "")
		r.refused(&DeleteQueue{Name: []byte("q")}, NotFound, FieldQueue)
		for _, id := range []ID{out, dead} {
			r.wantState(id, StateUnknown)
		}
		r.refused(&Ack{Token: tok}, NotFound, FieldToken)
		// The same name is a new queue with nothing of the old one, while that is still being given back.
		id := r.put(Message{TaskID: []byte("out")})
		m.DedupKey = HashDedup([]byte("k"))
		m.DedupKey[0]++
		must(t, "dedup", r.ok(&Enqueue{Queue: []byte("q"), Messages: []Message{m}}).Duplicate, false)
		now, _ := r.s.QueueNumber([]byte("q"))
		must(t, "another number", now == old, false)
		must(t, "enqueued", r.s.Stats(now).Enqueued, 2)
		r.everywhere()
		for range 30 {
			r.tick(1)
		}
		r.wantState(id, StateReady)
		must(t, "messages", r.s.messages.Len(), 2)
		must(t, "slots", r.s.tallies.Len(), 1)
		must(t, "results", r.s.results.Len(), 0)
		must(t, "tombstones", r.s.tombs.Len(), 0)
		must(t, "dedup keys", r.s.dedups.Len(), 1)
		r.everywhere()
	}
}

// TestEmptiedGivesEverythingBack ends with nothing held but what is remembered of the queue.
func TestEmptiedGivesEverythingBack(t *testing.T) {
	r := newRig(t)
	for range 5 {
		mixed(r)
		r.ok(&DeleteQueue{Name: []byte("q")})
	}
	r.tick(TombstoneMillis)
	r.tick(0)
	m := r.s.Memory()
	if m.Messages+m.Dead+m.Results+m.Tombstones+m.DedupKeys+m.Sessions+m.RequestOutcomes+m.Queues+m.Garbage+m.ArenaLive != 0 {
		t.Fatalf("memory %+v, want nothing", m)
	}
}

func TestQueueOptionsOperations(t *testing.T) {
	r := newRig(t)
	name := []byte("q")
	r.ok(&CreateQueue{Name: name, Options: QueueOptions{LeaseMillis: 500}})
	must(t, "again", r.ok(&CreateQueue{Name: name, Options: QueueOptions{LeaseMillis: 500, MaxDead: DefaultMaxDead}}).Duplicate, true)
	r.refused(&CreateQueue{Name: name}, AlreadyExists, FieldOptions)
	r.refused(&CreateQueue{Name: []byte(".q")}, InvalidArgument, FieldQueue)
	r.refused(&CreateQueue{Name: []byte("p"), Options: QueueOptions{LeaseMillis: 1}}, InvalidArgument, FieldLease)
	r.refused(&SetQueue{Name: []byte("p")}, NotFound, FieldQueue)
	r.refused(&SetQueue{Name: name, Options: QueueOptions{Retry: RetryPolicy{Kind: 9}}}, InvalidArgument, FieldRetry)
	r.refused(&SetQueue{Name: []byte("?")}, InvalidArgument, FieldQueue)
	r.refused(&Enqueue{Queue: []byte("p"), Messages: []Message{text("x")}}, NotFound, FieldQueue)
	r.refused(&Enqueue{Queue: []byte("?"), AutoCreate: true, Messages: []Message{text("x")}}, InvalidArgument, FieldQueue)
	r.refused(&Enqueue{Queue: []byte("p"), AutoCreate: true, Messages: []Message{{Priority: 10}}}, InvalidArgument, FieldPriority)
	_, ok := r.s.QueueNumber([]byte("p"))
	must(t, "nothing of it stored", ok, false)
	r.put(text("x"))
	r.ok(&Lease{Queue: name, Max: 1})
	var d Delivery
	r.s.Deliver(r.fx.Leases[0], &d)
	must(t, "the queue's lease", d.LeaseLeft, 500)
	r.ok(&SetQueue{Name: name, Options: QueueOptions{LeaseMillis: 800}})
	must(t, "new lease at once", r.ok(&Extend{Token: d.Token}).Millis, 800)
	n, _ := r.s.QueueNumber(name)
	must(t, "options", r.s.QueueOptions(n).LeaseMillis, 800)
	var names []string
	r.ok(&CreateQueue{Name: []byte("a")})
	r.ok(&CreateQueue{Name: []byte("z")})
	r.s.Queues("a", func(_ uint32, name string) bool { names = append(names, name); return true })
	must(t, "names", len(names), 2)
	must(t, "first", names[0], "q")
	r.everywhere()
}
