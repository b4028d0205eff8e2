package fsm

import (
	"fmt"
	"slices"
	"testing"
)

// answersEverywhere cuts the rig's log at every index, restores there, and applies the rest: it must be answered as it was, and
// end in the same state.
func (r *rig) answersEverywhere() {
	r.t.Helper()
	var fx Effects
	var answers [][]Outcome
	var cuts [][]byte
	a := New(3)
	a.lim = r.s.lim
	defer a.Close()
	apply := func(s *State, i int) []Outcome {
		r.t.Helper()
		if err := s.Apply(uint64(i+1), r.log[i], &fx); err != nil {
			r.t.Fatal(err)
		}
		return fx.Outcomes
	}
	for i := range r.log {
		answers = append(answers, slices.Clone(apply(a, i)))
		cuts = append(cuts, snapshot(r.t, a))
	}
	must(r.t, "replayed", digest(a), digest(r.s))
	for i := range cuts {
		b := restored(r.t, cuts[i])
		b.lim = r.s.lim
		for j := i + 1; j < len(r.log); j++ {
			if got := apply(b, j); !slices.Equal(got, answers[j]) {
				r.t.Fatalf("restored at entry %d: entry %d is answered %+v, want %+v", i+1, j+1, got, answers[j])
			}
		}
		must(r.t, fmt.Sprintf("restored at %d", i+1), digest(b), digest(r.s))
		b.Close()
	}
}

// TestForgottenDeadLetter is that a dead letter answers its last token for as long as it is there, and no longer, whenever its
// memory is given back, on every replica.
func TestForgottenDeadLetter(t *testing.T) {
	kill := func(r *rig, queue string) {
		r.t.Helper()
		must(r.t, "dead", r.ok(&Nack{Token: r.leaseOf(queue), Permanent: true}).Dead, true)
	}
	another := func(r *rig, queue string) {
		r.t.Helper()
		r.ok(&Enqueue{Queue: []byte(queue), Messages: []Message{text("another")}})
		kill(r, queue)
	}
	set := func(r *rig, queue string, o QueueOptions) {
		r.t.Helper()
		r.ok(&SetQueue{Name: []byte(queue), Options: o})
	}
	type forget func(r *rig, queue string, id ID)
	letter := map[string]forget{ // of a queue's own dead set
		"pushed out": func(r *rig, queue string, _ ID) {
			set(r, queue, QueueOptions{MaxDead: 1, DeadOverflow: DeadDropOldest})
			another(r, queue)
		},
		"past retention": func(r *rig, queue string, _ ID) {
			set(r, queue, QueueOptions{DeadRetentionMillis: 5000})
			r.tick(5000)
		},
		"past a retention that was made longer after that": func(r *rig, queue string, _ ID) {
			set(r, queue, QueueOptions{DeadRetentionMillis: 5000})
			r.now += 5000
			set(r, queue, QueueOptions{DeadRetentionMillis: 90_000})
		},
		"dead set purged": func(r *rig, queue string, _ ID) { r.ok(&DeadPurge{Queue: []byte(queue)}) },
	}
	either := map[string]forget{ // also of what was moved there
		"deleted":       func(r *rig, queue string, id ID) { r.ok(&DeadDelete{Queue: []byte(queue), IDs: []ID{id}}) },
		"requeued":      func(r *rig, queue string, id ID) { r.ok(&DeadRequeue{Queue: []byte(queue), IDs: []ID{id}}) },
		"queue deleted": func(r *rig, queue string, _ ID) { r.ok(&DeleteQueue{Name: []byte(queue)}) },
	}
	moved := map[string]forget{
		"closed":       func(r *rig, queue string, _ ID) { r.ok(&Ack{Token: r.leaseOf(queue)}) },
		"queue purged": func(r *rig, queue string, _ ID) { r.ok(&PurgeQueue{Name: []byte(queue)}) },
	}
	run := func(where, how string, make func(t *testing.T) *rig, queue string, again bool, f forget) {
		for _, reclaim := range []int{0, 1, MaxReclaim} {
			t.Run(fmt.Sprintf("%s/%s/%d reclaimed an entry", where, how, reclaim), func(t *testing.T) {
				r := make(t)
				r.s.lim.reclaim = reclaim
				id := r.put(text("x"))
				tok := r.lease1()
				nack := &Nack{Token: tok, Permanent: true}
				must(t, "dead", r.ok(nack).Dead, true)
				if again {
					kill(r, queue)
				}
				must(t, "repeated", r.ok(nack).Dead, true)
				r.refused(&Ack{Token: tok}, LeaseLost, FieldToken)
				f(r, queue, id)
				r.refused(nack, NotFound, FieldToken)
				r.refused(&Ack{Token: tok}, NotFound, FieldToken)
				r.refused(&Extend{Token: tok}, NotFound, FieldToken)
				r.refused(&Release{Token: tok}, NotFound, FieldToken)
				r.tick(1)
				r.refused(nack, NotFound, FieldToken)
				r.answersEverywhere()
			})
		}
	}
	own := func(t *testing.T) *rig {
		r := newRig(t)
		r.ok(&CreateQueue{Name: []byte("q")})
		return r
	}
	for _, of := range []map[string]forget{letter, either} {
		for how, f := range of {
			run("in its queue", how, own, "q", false, f)
			run("dead again where it was moved to", how, deadRig, "d", true, f)
		}
	}
	for _, of := range []map[string]forget{moved, either} {
		for how, f := range of {
			run("moved", how, deadRig, "d", false, f)
		}
	}
}

// TestLoweredMaxDead is that a death makes so many dead letters go and no more, and that the others are there until the next one.
func TestLoweredMaxDead(t *testing.T) {
	for _, c := range []struct {
		name    string
		letters int
		most    int64
		gone    []int // oldest ones, all in all, after each of the next deaths
	}{
		{"as many as are kept", 3, 3, []int{1, 2}},
		{"one", 1, 1, []int{1}},
		{"as many as go at once", MaxReclaim, 1, []int{MaxReclaim}},
		{"one more than go at once", MaxReclaim + 1, 1, []int{MaxReclaim, MaxReclaim + 2}},
		{"so many that the third death ends it", 2*MaxReclaim + 7, 5, []int{MaxReclaim, 2 * MaxReclaim, 2*MaxReclaim + 5, 2*MaxReclaim + 6}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			var nacks []Op
			for n := c.letters; n > 0; {
				k := min(n, MaxBatch)
				n -= k
				r.apply(&Enqueue{Queue: []byte("q"), AutoCreate: true, Messages: slices.Repeat([]Message{text("x")}, k)})
				for _, tok := range r.lease(int32(k)) {
					nacks = append(nacks, &Nack{Token: tok, Permanent: true})
				}
			}
			r.apply(nacks...)
			r.ok(&SetQueue{Name: []byte("q"), Options: QueueOptions{MaxDead: c.most, DeadOverflow: DeadDropOldest}})
			must(t, "none go before one dies", r.s.Stats(1).Dead, int64(c.letters))
			for deaths, forgotten := range c.gone {
				r.put(text("another"))
				last := &Nack{Token: r.lease1(), Permanent: true}
				r.ok(last)
				st := r.s.Stats(1)
				must(t, "counted", fmt.Sprint(st.Dead, st.DeadDropped), fmt.Sprint(c.letters+deaths+1-forgotten, forgotten))
				listed := 0
				r.s.Dead(1, 0, ID{}, func(*Info) bool { listed++; return true })
				must(t, "listed", int64(listed), st.Dead)
				for i, o := range r.apply(nacks...) {
					if gone := i < forgotten; gone && o != refuse(NotFound, FieldToken, 0) || !gone && o != (Outcome{Dead: true}) {
						t.Fatalf("letter %d of %d after death %d, with %d forgotten: %+v", i, c.letters, deaths+1, forgotten, o)
					}
				}
				must(t, "the last one", r.ok(last).Dead, true)
			}
			r.answersEverywhere()
		})
	}
}
