package history

import (
	"slices"

	"github.com/quorate/quorate/fsm"
)

// asked applies an operation as a client asks for it, and notes the answer.
func (s *story) asked(e Event, op fsm.Op, r fsm.Request, ret func(o *fsm.Outcome) Event) *fsm.Outcome {
	s.t.Helper()
	e.Session, e.Number = r.Session.String(), r.Number
	call := s.call(e)
	o := s.apply(op)
	s.ret(call, e.Op, ret(o), o)
	return o
}

func plain(*fsm.Outcome) Event { return Event{} }

// move gives a task that waits another time, another body where one is given, or both.
func (s *story) move(id string, op fsm.Reschedule, body string) {
	s.t.Helper()
	op.Request, op.TaskID = s.request(), []byte(id)
	e := Event{Op: Move, Message: id}
	if body != "" {
		op.HasBody, op.Body, e.Body = true, []byte(body), Sum([]byte(body))
	}
	s.asked(e, &op, op.Request, func(o *fsm.Outcome) Event { return Event{Message: id, Millis: o.Count} })
}

// moves has tasks of queue m moved while they wait, and not while they are out.
func (s *story) moves() {
	s.t.Helper()
	s.queue("m", fsm.OrderUnordered)
	s.queue("mk", fsm.OrderPerKey)
	now := fsm.Reschedule{When: fsm.AfterDelay}
	later := fsm.Reschedule{When: fsm.AfterDelay, Time: 300}
	id := s.enqueue("m", text("put off"))
	s.move(id, later, "")
	s.move(id, fsm.Reschedule{When: fsm.AtTime, Time: s.now + 200}, "")
	s.move(id, fsm.Reschedule{}, "put off, and other")
	s.pass(150)
	s.move(id, fsm.Reschedule{When: fsm.AfterDelay, Time: 400, MaxWaitMillis: 300}, "")
	s.pass(200)
	first := s.take("m")
	s.move(id, later, "")
	s.nack(first, false)
	s.move(id, fsm.Reschedule{}, "voids the token")
	s.nack(first, false)
	s.ack(first, "of another body")
	s.move(id, now, "")
	s.ack(s.take("m"), "moved done")
	s.move(id, now, "")
	one, two := s.enqueue("m", text("one")), s.enqueue("m", text("two"))
	s.move(one, fsm.Reschedule{}, "goes to the end")
	s.ack(s.take("m"), two)
	tok := s.take("m")
	s.pass(1050)
	s.move(one, later, "") // the token is good still
	s.ack(tok, "late, before its new time")
	a, b := text("a"), text("b")
	a.Key, b.Key = []byte("x"), []byte("x")
	head := s.enqueue("mk", a)
	s.enqueue("mk", b)
	s.move(head, later, "")
	s.ack(s.take("mk"), "b goes first")
	s.pass(350)
	s.ack(s.take("mk"), "a")
	s.move(fsm.MakeID(1, 0, 1, 99).String(), now, "")
}

// purge has what waits in a queue go.
func (s *story) purge(queue string) {
	s.t.Helper()
	r := s.request()
	s.asked(Event{Op: Empty, Queue: queue}, &fsm.PurgeQueue{Request: r, Name: []byte(queue)}, r, func(o *fsm.Outcome) Event { return Event{Count: o.Count} })
}

// drop deletes a queue.
func (s *story) drop(queue string) {
	s.t.Helper()
	r := s.request()
	s.asked(Event{Op: Drop, Queue: queue}, &fsm.DeleteQueue{Request: r, Name: []byte(queue)}, r, plain)
}

// look reads a key of the KV.
func (s *story) look(parts ...string) {
	s.t.Helper()
	ret, o := Event{Name: KeyName(parts)}, &fsm.Outcome{}
	call := s.call(Event{Op: Look, Name: ret.Name})
	var e fsm.KVEntry
	if s.st.KVGet(fsm.AppendKVKey(nil, parts...), &e) {
		ret.Body, ret.Message = Sum(e.Value), e.Message.String()
	} else {
		o.Code = fsm.NotFound
	}
	s.ret(call, Look, ret, o)
}

// erase deletes a key of the KV.
func (s *story) erase(parts ...string) {
	s.t.Helper()
	r := s.request()
	s.asked(Event{Op: Erase, Name: KeyName(parts)}, &fsm.KVDelete{Request: r, Key: fsm.AppendKVKey(nil, parts...)}, r, plain)
}

// emptied has queue e purged and deleted.
func (s *story) emptied() {
	s.t.Helper()
	s.event(Event{Kind: Mark, Note: LogAlone, Queue: "e"})
	s.queue("e", fsm.OrderUnordered)
	b := s.batch("b", "of what was purged")
	s.enqueue("e", text("out"))
	out := s.take("e")
	gone := s.enqueue("e", text("waits"))
	delayed := text("is delayed")
	delayed.DelayMillis = 500
	s.enqueue("e", delayed)
	s.enqueue("e", text("waits for its retry"))
	again := s.take("e") // "waits": its token is void with it
	s.nack(again, false)
	s.member("e", b, text("of a batch"))
	s.seal(b)
	s.purge("e")
	s.purge("e")
	s.nack(again, false)
	s.ack(again, "purged")
	s.read(Read, "e", gone)
	s.cancel("e", gone)
	s.release(out)
	s.ack(s.take("b"), "called back by a purge")
	out = s.take("e")
	s.ack(out, "was out at the purge")
	s.enqueue("e", dedup("same", "k"))
	s.drop("e")
	s.drop("e")
	s.purge("e")
	s.ack(out, "was out at the purge")
	s.read(Read, "e", out[:26])
	s.lease("e", 1)
	s.enqueue("e", text("to no queue"))
	s.queue("e", fsm.OrderUnordered)
	s.enqueue("e", dedup("same", "k"))
	s.ack(s.take("e"), "of the new queue")
	told := s.enqueue("e", text("has a result when it is purged"))
	s.take("e")
	s.push("", told, "from elsewhere")
	s.pass(1150)
	s.purge("e")
	s.read(Read, "e", told) // it is known by its result, until its queue goes
	s.enqueue("e", text("out when it goes"))
	out = s.take("e")
	s.drop("e")
	s.read(Read, "e", told)
	s.extend(out)
	r := s.request()
	call := s.call(Event{Op: Enqueue, Queue: "e", Session: r.Session.String(), Number: r.Number, Body: Sum([]byte("makes it"))})
	o := s.apply(&fsm.Enqueue{Request: r, Queue: []byte("e"), AutoCreate: true, Messages: []fsm.Message{text("makes it")}})
	s.ret(call, Enqueue, Event{Message: o.ID.String()}, o)
	s.ids = append(s.ids, o.ID.String())
	s.ack(s.take("e"), "made it")
}

// keyRates has queue g hand out of each key what its rate lets it, and of the others meanwhile.
func (s *story) keyRates() {
	s.t.Helper()
	s.keyRatedQueue("g", 2000, 2)
	for i := range 12 {
		m := text("at the rate of its key")
		m.Key = []byte{'a' + byte(i%2)}
		if i > 8 {
			m.Key = nil
		}
		s.enqueue("g", m)
	}
	for done := 0; done < 12; s.pass(250) {
		for _, t := range s.lease("g", 9) {
			done++
			s.ack(t, "done at the rate of its key")
		}
	}
}

func (s *story) keyRatedQueue(name string, milli, burst int64) {
	s.apply(&fsm.CreateQueue{Name: []byte(name), Options: fsm.QueueOptions{
		LeaseMillis: 1000, DedupWindowMillis: 2000, RatePerKeyMilli: milli, BurstPerKey: burst,
		Retry: fsm.RetryPolicy{Kind: fsm.RetryFixed, InitialMillis: 100, MaxAttempts: 3},
	}})
}

// buriedQueue makes a queue whose dead letters go to another.
func (s *story) buriedQueue(name, to string) {
	s.event(Event{Kind: Mark, Note: LogAlone, Queue: name})
	s.event(Event{Kind: Mark, Note: LogAlone, Queue: to})
	s.queue(to, fsm.OrderUnordered)
	s.apply(&fsm.CreateQueue{Name: []byte(name), Options: fsm.QueueOptions{
		LeaseMillis: 1000, DedupWindowMillis: 2000, DeadLetterQueue: to,
		Retry: fsm.RetryPolicy{Kind: fsm.RetryFixed, InitialMillis: 100, MaxAttempts: 2},
	}})
}

// buried has what dies in queue w moved to queue z, where it is closed, requeued, deleted, or dies again.
func (s *story) buried() {
	s.t.Helper()
	s.buriedQueue("w", "z")
	die := func(body string) (id, token string) {
		id = s.enqueue("w", text(body))
		token = s.take("w")
		s.nack(token, true)
		return id, token
	}
	id, token := die("is closed")
	s.nack(token, true)
	s.read(Read, "w", id)
	there := s.take("z")
	s.read(Read, "z", there[:26])
	s.requeue("z", there[:26]) // it is out
	s.deleteDead("z", there[:26])
	s.ack(there, "")
	s.ack(there, "again, with a result")
	s.read(Read, "w", id)
	s.requeue("z", there[:26])

	id, _ = die("comes back")
	there = s.take("z")
	s.release(there)
	back := s.requeue("z", there[:26])
	s.requeue("z", there[:26])
	s.ack(there, "it has come back")
	s.nack(s.take("w"), false)
	s.pass(150)
	s.nack(s.take("w"), false) // and dies again
	s.read(Read, "w", id)
	s.requeue("z", id) // no: it is not known there by the first one
	s.requeue("z", back)
	s.ack(s.take("w"), "done after all")
	s.read(Read, "w", id)

	die("is deleted")
	there = s.take("z")
	s.nack(there, false)
	s.deleteDead("z", there[:26])

	died, _ := die("dies there too")
	for range 3 {
		s.nack(s.take("z"), false)
		s.pass(150)
	}
	s.read(Read, "w", died)
	last, _ := die("stays there")
	m := text("expires")
	m.TTLMillis = 100
	s.enqueue("w", m)
	s.pass(200)
	s.ack(s.take("z"), "") // "stays there" is closed, and what expired stays
	s.read(Read, "w", last)
	s.take("z")
	s.pass(1150) // by an expiry
	s.nack(s.take("z"), true)

	died, _ = die("is purged, and its task has a result")
	s.push("", died, "from elsewhere")
	there = s.take("z")
	s.nack(there, false)
	s.purge("z")
	s.nack(there, false) // of a task that is known still
	s.ack(there, "too late")
	s.release(there)
	s.extend(there)
	s.read(Read, "w", died)

	m = text("comes back, and expires again, with a result that was pushed under the id that it had here")
	m.TTLMillis = 100
	died = s.enqueue("w", m)
	s.pass(200)
	there = s.take("z")
	s.push("", died, "from elsewhere")
	s.release(there)
	s.read(Read, "", s.requeue("z", there[:26]))
	s.pass(200)
	s.ack(s.take("z"), "")
}

// edit brings a dead letter back with other fields.
func (s *story) edit(queue, id string, fields fsm.EditFields, m fsm.Message) string {
	s.t.Helper()
	r := s.request()
	e := Event{Op: Edit, Queue: queue, Message: id}
	if fields&fsm.EditBody != 0 {
		e.Body = Sum(m.Body)
	}
	o := s.asked(e, &fsm.DeadEdit{Request: r, Queue: []byte(queue), ID: parseID(id), Fields: fields, Message: m}, r, func(o *fsm.Outcome) Event {
		if o.Code != fsm.OK {
			return Event{}
		}
		return Event{Message: o.ID.String()}
	})
	if o.Code != fsm.OK {
		return ""
	}
	s.ids = append(s.ids, o.ID.String())
	return o.ID.String()
}

// edits has dead letters of queue d come back with other fields.
func (s *story) edits() {
	s.t.Helper()
	bury := func(body string) string {
		id := s.enqueue("d", text(body))
		s.nack(s.take("d"), true)
		return id
	}
	id := bury("to be edited")
	m := text("edited")
	m.Priority, m.DelayMillis, m.TTLMillis = 9, 200, 900
	s.enqueue("d", text("waits"))
	made := s.edit("d", id, fsm.EditBody|fsm.EditPriority|fsm.EditDelay, m)
	s.edit("d", id, fsm.EditBody, m)
	s.pass(250)
	s.ack(s.take("d"), "edited done")
	s.ack(s.take("d"), "waited done")
	s.read(Read, "d", made)
	id = bury("to expire")
	s.edit("d", id, fsm.EditTTL|fsm.EditRetry|fsm.EditTimeout, fsm.Message{Priority: 4, TTLMillis: 300, TimeoutMillis: 100, Retry: fsm.RetryPolicy{Kind: fsm.RetryFixed, InitialMillis: 50, MaxAttempts: 9}})
	s.take("d")
	s.pass(160)
	s.take("d")
	s.pass(400)
}

// kvKeys has messages that die leave their bodies under keys of the KV.
func (s *story) kvKeys() {
	s.t.Helper()
	s.queue("kv", fsm.OrderUnordered)
	key := func(parts ...string) []byte { return fsm.AppendKVKey(nil, parts...) }
	with := func(body string, keys ...[]byte) fsm.Message {
		m := text(body)
		m.Keys = keys
		return m
	}
	s.enqueue("kv", with("dies", key("k", "1"), key("k", "2")))
	tok := s.take("kv")
	s.look("k", "1")
	s.nack(tok, true)
	s.look("k", "1")
	s.enqueue("kv", with("lives", key("k", "1")))
	s.ack(s.take("kv"), "lived")
	s.look("k", "1")
	back := s.requeue("kv", tok[:26])
	s.enqueue("kv", with("dies too", key("k", "1")))
	s.ack(s.take("kv"), back)
	s.nack(s.take("kv"), true)
	s.look("k", "1")
	s.erase("k", "2")
	s.look("k", "2")
	s.erase("k", "2")
	m := with("expires", key("k", "3"))
	m.TTLMillis = 100
	s.enqueue("kv", m)
	s.cancel("kv", s.enqueue("kv", with("is cancelled", key("k", "4"))))
	s.pass(150)
	s.look("k", "4")
	s.looks = append(s.looks, func() {
		for _, k := range []string{"1", "2", "3", "4"} {
			s.look("k", k)
		}
	})
}

// declare makes a schedule, or sets it.
func (s *story) declare(set bool, c fsm.Schedule) {
	s.t.Helper()
	r := s.request()
	var op fsm.Op = &fsm.CreateSchedule{Request: r, Schedule: c}
	if set {
		op = &fsm.SetSchedule{Request: r, Schedule: c}
	}
	s.asked(Event{Op: Plan, Queue: string(c.Queue), Name: string(c.Name), Body: Sum(c.Message.Body)}, op, r, plain)
}

// step moves a schedule on, as its leader does.
func (s *story) step(name string, next int64, fire bool, skipped int64) {
	s.t.Helper()
	in, ok := s.st.Schedule([]byte(name))
	if !ok {
		s.t.Fatalf("there is no schedule %s", name)
	}
	op := &fsm.FireSchedule{Name: []byte(name), Generation: in.Generation, At: in.Next, Next: next, Fire: fire, Skipped: skipped}
	if o := s.apply(op); o.Code != fsm.OK {
		s.t.Fatalf("schedule %s at %d: %v", name, in.Next, o.Code)
	} else if fire {
		s.ids = append(s.ids, o.ID.String())
	}
	if fire { // another one that thinks it leads
		if o := s.apply(op); o.Code == fsm.OK {
			s.t.Fatalf("schedule %s is fired twice at %d", name, op.At)
		}
	}
}

// fired works on one message of a schedule.
func (s *story) fired(queue string) {
	s.t.Helper()
	tok := s.take(queue)
	for i := range slices.Backward(s.events) { // what the worker saw
		if e := &s.events[i]; e.Kind == Deliver && e.Token == tok {
			var in fsm.Info
			s.st.Task("", []byte(e.Message), &in)
			e.Firing = string(in.TaskID)
			break
		}
	}
	s.ack(tok, "done as planned")
}

// schedules has schedules fire: in their time, over changes of the term, and late, by what each of them wants then.
func (s *story) schedules() {
	s.t.Helper()
	s.queue("s", fsm.OrderUnordered)
	plan := func(name string, p fsm.MissedPolicy) fsm.Schedule {
		return fsm.Schedule{Name: []byte(name), Queue: []byte("s"), Cron: []byte("*/1 * * * * *"), Policy: p, Message: text(name)}
	}
	up := func(n int64) int64 { return (s.now/1000 + n) * 1000 }
	s.declare(false, plan("skip", fsm.MissedSkip))
	s.declare(false, plan("skip", fsm.MissedSkip))
	s.declare(false, plan("skip", fsm.MissedOnce))
	s.step("skip", up(1), false, 0)
	for range 2 {
		s.pass(1000)
		s.step("skip", up(1), true, 0)
		s.fired("s")
		s.term++
	}
	s.pass(3400) // late, and yet nothing is passed over
	for range 3 {
		in, _ := s.st.Schedule([]byte("skip"))
		s.step("skip", in.Next+1000, true, 0)
		s.fired("s")
	}
	s.declare(false, plan("once", fsm.MissedOnce))
	s.declare(false, plan("all", fsm.MissedAll))
	s.step("once", up(1), false, 0)
	s.step("all", up(1), false, 0)
	s.now += 200_000
	s.apply()
	for name, kept := range map[string]int64{"skip": 0, "once": 1, "all": 100} {
		in, _ := s.st.Schedule([]byte(name))
		lastMissed := up(-60)
		n := (lastMissed-in.Next)/1000 + 1 - kept
		if to := in.Next + 1000*n; n > 0 {
			s.step(name, to, false, n)
		}
		for range kept + 2 {
			in, _ := s.st.Schedule([]byte(name))
			s.step(name, in.Next+1000, true, 0)
			s.fired("s")
		}
		s.declare(true, fsm.Schedule{Name: []byte(name), Queue: []byte("s"), Cron: []byte("*/2 * * * * *"), Policy: fsm.MissedSkip, Message: text(name)})
		r := s.request()
		s.asked(Event{Op: Unplan, Name: name}, &fsm.DeleteSchedule{Request: r, Name: []byte(name)}, r, plain)
	}
	r := s.request()
	s.asked(Event{Op: Unplan, Name: "skip"}, &fsm.DeleteSchedule{Request: r, Name: []byte("skip")}, r, plain)
}
