package history

import (
	"testing"

	"github.com/quorate/quorate/fsm"
)

// What was made by a mapping ends a lease while the queue has that mapping, and by another one it does not.
func mappingStory(t *testing.T) *story {
	s := tell(t)
	s.queue("next", fsm.OrderUnordered)
	s.apply(&fsm.CreateQueue{Name: []byte("maps"), Options: fsm.QueueOptions{
		LeaseMillis: 1000, DedupWindowMillis: 2000, Retry: fsm.RetryPolicy{Kind: fsm.RetryFixed, InitialMillis: 100, MaxAttempts: 3},
		MapTo: fsm.MapTo{Queue: "next", Expression: "body"},
	}})
	generation := s.index
	for _, body := range []string{"good", "bad", "stale"} {
		s.enqueue("maps", text(body))
	}
	tokens := s.lease("maps", 3)
	then := func(body string) []fsm.ThenMessage {
		return []fsm.ThenMessage{{Queue: []byte("next"), Message: text(body)}}
	}
	s.apply(&fsm.Ack{Token: s.token(tokens[0]), Mapping: generation, Then: then("made")})
	s.apply(&fsm.Nack{Token: s.token(tokens[1]), Mapping: generation, DelayMillis: -1, Error: []byte("map_to: 1:1")})
	s.apply(&fsm.Ack{Token: s.token(tokens[2]), Mapping: generation - 1, Then: then("not made")})
	s.apply(&fsm.Nack{Token: s.token(tokens[2]), Mapping: generation + 1, DelayMillis: -1})
	s.apply(&fsm.Ack{Token: s.token(tokens[2])})
	return s
}

func TestMappingStory(t *testing.T) {
	r := Check(mappingStory(t).history(), Config{MayBeVacuous: true})
	for _, what := range []string{"judge", "G2", "G4", "G6"} {
		if r.Breaks(what) {
			t.Errorf("%s is broken: %+v", what, r.Modes)
		}
	}
	for name, want := range map[string]int{"stale mapping refused": 2, "message died of its mapping": 1, "message enqueued by an ack": 1} {
		if got := r.Sometimes[name]; got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}
