package history

import "github.com/quorate/quorate/fsm"

// atMostOnce has queue o deliver at most once: what goes out is done, whatever its worker says, and one that was lost on the way stays
// lost, also for whoever asks again.
func (s *story) atMostOnce() {
	s.t.Helper()
	s.onceQueue("o", fsm.OrderUnordered)
	for _, body := range []string{"one", "two", "lost", "three"} {
		s.enqueue("o", text(body))
	}
	both := s.lease("o", 2)
	s.ack(both[0], "")
	s.ack(both[0], "a result, which has no place")
	s.ackThen(both[0], "", "o", "carried in vain")
	s.nack(both[1], false)
	s.release(both[1])
	s.extend(both[1])
	lost := s.request()
	s.pull("o", 1, lost, false)
	if got := s.pull("o", 1, lost, true); len(got) != 0 {
		s.t.Fatalf("a lost delivery came after all: %q", got)
	}
	twice := s.request() // of which the first answer was lost, and the message too
	s.send("o", text("sent twice, and lost"), twice, true, false)
	s.ack(s.take("o"), "")
	s.pull("o", 1, s.request(), false)
	s.send("o", text("sent twice, and lost"), twice, true, true)
	s.enqueue("o", text("four"))
	s.pass(1500) // no lease runs out
	s.ack(s.take("o"), "")
	s.read(Read, "o", both[1][:26])
	if got := s.lease("o", 9); len(got) != 0 {
		s.t.Fatalf("leased %d more, want none", len(got))
	}
}
