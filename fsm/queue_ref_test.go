package fsm

import (
	"bytes"
	"testing"
)

// A QueueRef is of its queue in its state as long as that exists, and of none in all other ways.
func TestQueueRef(t *testing.T) {
	r := newRig(t)
	name := []byte("q")
	must(t, "none", r.s.Lookup(name), QueueRef{})
	must(t, "zero", r.s.Holds(QueueRef{}), false)
	must(t, "zero number", QueueRef{}.Number(), uint32(0))
	options := QueueOptions{Ordering: OrderFIFO, Paused: true}
	r.ok(&CreateQueue{Name: name, Options: options})
	r.ok(&CreateQueue{Name: []byte("other")})
	r.ok(&Enqueue{Queue: name, Messages: []Message{{Body: []byte("b"), Priority: DefaultPriority, DelayMillis: 10}}})
	ref := r.s.Lookup(name)
	look := func(what string, s *State, ref QueueRef, there bool) {
		t.Helper()
		must(t, what+": held", s.Holds(ref), there)
		paused, _ := s.Throttled(ref)
		must(t, what+": paused", paused, there)
		must(t, what+": ordered", s.QueueOrdering(ref) == OrderFIFO, there)
		must(t, what+": due", s.DueBy(ref, 1<<50, 10) == 1, there)
	}
	look("at first", r.s, ref, true)
	must(t, "number", ref.Number(), r.number("q"))
	must(t, "looked up again", r.s.Lookup(name), ref)

	var snapshot bytes.Buffer
	v := r.s.View()
	if _, err := v.WriteTo(&snapshot); err != nil {
		t.Fatal(err)
	}
	v.Release()
	restored, err := Restore(3, &snapshot)
	if err != nil {
		t.Fatal(err)
	}
	defer restored.Close()
	look("in another state", restored, ref, false)
	look("looked up there", restored, restored.Lookup(name), true)
	look("that one here", r.s, restored.Lookup(name), false)

	r.ok(&SetQueue{Name: name, Options: options})
	look("after a change", r.s, ref, true)
	r.ok(&DeleteQueue{Name: name})
	look("deleted", r.s, ref, false)
	r.ok(&CreateQueue{Name: name, Options: options})
	r.ok(&Enqueue{Queue: name, Messages: []Message{{Body: []byte("b"), Priority: DefaultPriority, DelayMillis: 10}}})
	look("made anew", r.s, ref, false)
	look("the new one", r.s, r.s.Lookup(name), true)
	must(t, "reads allocate", testing.AllocsPerRun(10, func() { r.s.Holds(ref); r.s.Lookup(name) }), 0.0)
}
