package history

import (
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/fsm"
)

func report(t *testing.T, r *Report) string {
	t.Helper()
	var b strings.Builder
	if _, err := r.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// everything is what a run of all kinds of queues must have moved.
var everything = slices.Concat(RequiredOnce, RequiredRated, RequiredLetters, RequiredBatches, RequiredMoves, RequiredEmptied, RequiredKeyRates,
	RequiredBuried, RequiredEdits, RequiredKeys, RequiredSchedules)

// A true history passes, and is not vacuous.
func TestCleanStory(t *testing.T) {
	t.Parallel()
	r := Check(wholeStory(t), Config{Also: everything})
	if err := r.Err(); err != nil {
		t.Fatalf("%v\n%s", err, report(t, r))
	}
}

// Each kind of lie, told by hand, is caught.
func TestPlantsInStory(t *testing.T) {
	t.Parallel()
	h := wholeStory(t)
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			done := false
			for seed := range uint64(5) {
				r, ok := p.try(h, seed)
				if !ok {
					continue
				}
				done = true
				if err := p.caught(r); err != nil {
					t.Errorf("seed %d: %v\n%s", seed, err, report(t, r))
				}
			}
			if !done {
				t.Error("the story has no place for it")
			}
		})
	}
}

// What the checker does not judge, it says, rather than to call the run good.
func TestNotJudged(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		op   fsm.Op
		want bool
	}{
		{"a queue with max_depth", &fsm.CreateQueue{Name: []byte("q"), Options: fsm.QueueOptions{MaxDepth: 5}}, false},
		{"a queue with max_in_flight", &fsm.CreateQueue{Name: []byte("q"), Options: fsm.QueueOptions{MaxInFlight: 5}}, true},
		{"a paused queue", &fsm.CreateQueue{Name: []byte("q"), Options: fsm.QueueOptions{Paused: true}}, true},
		{"a purge", &fsm.PurgeQueue{Name: []byte("u")}, false},
		{"options that change", &fsm.SetQueue{Name: []byte("u"), Options: fsm.QueueOptions{MaxDepth: 1}}, true},
		{"a schedule of certain days", &fsm.CreateSchedule{Schedule: fsm.Schedule{Name: []byte("s"), Queue: []byte("u"), Cron: []byte("0 0 1 * *"), Message: text("m")}}, true},
		{"a schedule with a jitter", &fsm.CreateSchedule{Schedule: fsm.Schedule{Name: []byte("s"), Queue: []byte("u"), Cron: []byte("*/5 * * * * *"), JitterMillis: 5, Message: text("m")}}, true},
		{"a queue whose keys take turns", &fsm.CreateQueue{Name: []byte("q"), Options: fsm.QueueOptions{FairBy: fsm.FairByKey}}, true},
		{"a task id", &fsm.Enqueue{Queue: []byte("u"), Messages: []fsm.Message{{TaskID: []byte("t"), Priority: 4}}}, true},
		{"a queue that an enqueue makes", &fsm.Enqueue{Queue: []byte("new"), AutoCreate: true, Messages: []fsm.Message{{Priority: 4}}}, false},
		{"a checkpoint", &fsm.Checkpoint{}, false},
		{"nothing", &fsm.Nothing{}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := tell(t)
			s.queue("u", fsm.OrderUnordered)
			s.apply(tc.op)
			if r := Check(s.history(), Config{MayBeVacuous: true}); r.Breaks("judge") != tc.want {
				t.Errorf("said: %v, want %v\n%s", !tc.want, tc.want, report(t, r))
			}
		})
	}
}

// A run that has not met what it is about fails.
func TestVacuous(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.queue("u", fsm.OrderUnordered)
	s.enqueue("u", text("one"))
	s.ack(s.take("u"), "done")
	r := Check(s.history(), Config{})
	if r.Broken() > 0 || len(r.Vacuous) == 0 || r.Err() == nil {
		t.Errorf("%v\n%s", r.Err(), report(t, r))
	}
}
