package history

import "github.com/quorate/quorate/fsm"

// requeue brings a dead letter back and returns its new id, "" where that was refused.
func (s *story) requeue(queue, id string) string { return s.requeueAs(queue, id, s.request()) }

func (s *story) requeueAs(queue, id string, r fsm.Request) string {
	s.t.Helper()
	call := s.call(Event{Op: Requeue, Queue: queue, Message: id, Session: r.Session.String(), Number: r.Number})
	o := s.apply(&fsm.DeadRequeue{Request: r, Queue: []byte(queue), IDs: []fsm.ID{parseID(id)}})
	if o.Code != fsm.OK {
		s.ret(call, Requeue, Event{}, o)
		return ""
	}
	made := o.ID.String()
	s.ret(call, Requeue, Event{Message: made}, o)
	s.ids = append(s.ids, made)
	return made
}

func (s *story) deleteDead(queue, id string) {
	s.t.Helper()
	r := s.request()
	call := s.call(Event{Op: Delete, Queue: queue, Message: id, Session: r.Session.String(), Number: r.Number})
	s.ret(call, Delete, Event{}, s.apply(&fsm.DeadDelete{Request: r, Queue: []byte(queue), IDs: []fsm.ID{parseID(id)}}))
}

func (s *story) purgeDead(queue string) {
	s.t.Helper()
	r := s.request()
	call := s.call(Event{Op: Purge, Queue: queue, Session: r.Session.String(), Number: r.Number})
	o := s.apply(&fsm.DeadPurge{Request: r, Queue: []byte(queue)})
	s.ret(call, Purge, Event{Count: o.Count}, o)
}

// deadLetters has letters of queue d come back, once each, and with nothing of their attempts; and others deleted.
func (s *story) deadLetters() {
	s.t.Helper()
	s.queue("d", fsm.OrderUnordered)
	bury := func(body string) (id, token string) {
		id = s.enqueue("d", text(body))
		token = s.take("d")
		s.nack(token, true)
		return id, token
	}
	first, token := bury("comes back")
	s.enqueue("d", text("waits"))
	again := s.request()
	second := s.requeueAs("d", first, again)
	s.requeueAs("d", first, again) // the same request
	s.requeue("d", first)          // another
	s.requeue("d", second)         // it lives
	s.nack(token, true)
	s.ack(token, "of a life before")
	s.read(Read, "d", first)
	s.ack(s.take("d"), "waited done") // what comes back stands at the end
	for range 3 {
		s.nack(s.take("d"), false)
		s.pass(150)
	}
	s.read(Read, "d", first)
	third := s.requeue("d", second)
	s.ack(s.take("d"), "done after all")
	s.read(Read, "d", first)
	s.read(Read, "d", third)

	gone, _ := bury("deleted")
	s.deleteDead("d", gone)
	s.deleteDead("d", gone)
	s.requeue("d", gone)
	s.read(Read, "d", gone)
	bury("purged")
	bury("purged too")
	kept := s.enqueue("d", text("lives on"))
	s.purgeDead("d")
	s.purgeDead("d")
	s.read(Read, "d", kept)
	s.ack(s.take("d"), "lived on")
	bury("stays dead")
	worse, _ := bury("comes back in vain")
	s.requeue("d", worse)
	for range 3 {
		s.nack(s.take("d"), false)
		s.pass(150)
	}
	pushed, _ := bury("dead with a result")
	s.push("d", pushed, "from elsewhere")
	back := s.requeue("d", pushed)
	s.ack(s.take("d"), "mine")
	s.read(Read, "d", back)
}
