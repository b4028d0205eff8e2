package history

import "github.com/quorate/quorate/fsm"

// ratedQueue makes a queue with a rate of a second, in thousandths.
func (s *story) ratedQueue(name string, milli, burst int64) {
	s.apply(&fsm.CreateQueue{Name: []byte(name), Options: fsm.QueueOptions{
		LeaseMillis: 1000, DedupWindowMillis: 2000, RateMilli: milli, Burst: burst,
		Retry: fsm.RetryPolicy{Kind: fsm.RetryFixed, InitialMillis: 100, MaxAttempts: 3},
	}})
}

// rates has queue r, which hands out two a second, three at once, give as much as it may whenever it may.
func (s *story) rates() {
	s.t.Helper()
	s.ratedQueue("r", 2000, 3)
	for range 9 {
		s.enqueue("r", text("at a rate"))
	}
	for got, want := 0, 3; got < 9; want = 1 {
		tokens := s.lease("r", 9)
		if len(tokens) != want {
			s.t.Fatalf("leased %d after %d, want %d", len(tokens), got, want)
		}
		got += len(tokens)
		for _, t := range tokens {
			s.ack(t, "done at a rate")
		}
		s.pass(500)
	}
	s.pass(5000) // the burst is back, and no more than it
	for range 5 {
		s.enqueue("r", text("at once"))
	}
	if tokens := s.lease("r", 9); len(tokens) != 3 {
		s.t.Fatalf("leased %d at once, want 3", len(tokens))
	} else {
		for _, t := range tokens {
			s.ack(t, "done at once")
		}
	}
	s.pass(1000)
	for _, t := range s.lease("r", 9) {
		s.ack(t, "done")
	}
}
