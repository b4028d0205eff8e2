package history

import "github.com/quorate/quorate/fsm"

// batch makes a batch whose callback goes to a queue, and returns its id.
func (s *story) batch(queue, callback string) string {
	s.t.Helper()
	return s.batchUnder(s.request(), queue, callback)
}

// batchUnder is batch under a number, which may have come before.
func (s *story) batchUnder(r fsm.Request, queue, callback string) string {
	s.t.Helper()
	m := text(callback)
	call := s.call(Event{Op: Batch, Queue: queue, Session: r.Session.String(), Number: r.Number, Body: Sum(m.Body)})
	o := s.apply(&fsm.BatchCreate{Request: r, Queue: []byte(queue), Callback: m})
	s.ret(call, Batch, Event{Message: o.ID.String()}, o)
	return o.ID.String()
}

func (s *story) seal(batch string) {
	r := s.request()
	call := s.call(Event{Op: Seal, Message: batch, Session: r.Session.String(), Number: r.Number})
	o := s.apply(&fsm.BatchSeal{Request: r, Batch: parseID(batch)})
	s.ret(call, Seal, Event{}, o)
}

// member enqueues a member of a batch.
func (s *story) member(queue, batch string, m fsm.Message) string {
	m.Batch = parseID(batch)
	return s.enqueue(queue, m)
}

// batches has batches call back, once each: when the last of their members has ended, however it did, and at once where there is none.
func (s *story) batches() {
	s.t.Helper()
	s.queue("b", fsm.OrderUnordered)
	s.onceQueue("c", fsm.OrderUnordered)
	number := s.request()
	one := s.batchUnder(number, "b", "one is done")
	s.member("b", one, text("well"))
	s.ack(s.take("b"), "well done")
	s.member("b", one, text("badly"))
	badly := s.take("b")
	s.nack(badly, true)
	s.requeue("b", badly[:26]) // no member any more
	gone := s.member("b", one, text("not at all"))
	s.seal(one)
	s.seal(one)
	s.member("b", one, text("too late"))
	s.member("b", fsm.MakeID(1, 0, 1, 99).String(), text("of no batch"))
	s.ack(s.take("b"), "badly done after all")
	s.cancel("b", gone)
	s.ack(s.take("b"), "called back")
	if again := s.batchUnder(number, "b", "one is done"); again != one { // its answer was lost
		s.t.Errorf("the batch is %s, and %s when it is made again under its number", one, again)
	}

	empty := s.batch("b", "nothing to do")
	s.seal(empty)
	s.ack(s.take("b"), "called back at once")

	chained := s.batch("b", "behind a chain")
	s.member("b", chained, text("last"))
	s.seal(chained)
	s.ackThen(s.take("b"), "done", "b", "carried")
	s.ack(s.take("b"), "of what was carried")
	s.ack(s.take("b"), "of the callback")

	late := s.batch("b", "by time alone")
	m := text("expires")
	m.TTLMillis = 200
	s.member("b", late, m)
	once := text("handed over")
	s.member("c", late, once)
	s.seal(late)
	s.take("c")
	s.pass(300)
	s.ack(s.take("b"), "called back by time")
	open := s.batch("b", "never sealed")
	s.member("b", open, text("of an open batch"))
	s.ack(s.take("b"), "done")
}
