package fsmtest

import (
	"testing"

	"github.com/quorate/quorate/fsm"
)

// What random runs must be seen to reach: answers and branches of the model. Tables that a run cannot fill have scenarios
// instead.
var (
	wantAnswers  = [][]Answer{coreAnswers, tableAnswers, queueAnswers, deadAnswers, modeAnswers, keyAnswers, idemAnswers}
	wantBranches = [][]string{tableBranches, queueBranches, deadBranches, modeBranches, keyBranches, idemBranches, {"dead letters: the oldest is dropped"}}
)

// coreAnswers are those that the first coverSeeds seeds must have seen, which are compared with the state in every default
// run.
var coreAnswers = []Answer{
	{"Enqueue", fsm.QueueFull, fsm.FieldDead},
	{"Enqueue", fsm.QueueFull, fsm.FieldDedup},
	{"Enqueue", fsm.QueueFull, fsm.FieldResults},
	{"Enqueue", fsm.AlreadyExists, fsm.FieldTaskID},
	{"Enqueue", fsm.AlreadyExists, fsm.FieldDedupKey},
	{"Enqueue", fsm.InvalidArgument, fsm.FieldRequest},
	{"Enqueue", fsm.InvalidArgument, fsm.FieldKVKeys},
	{"Enqueue", fsm.SessionExpired, fsm.FieldRequest},
	{"Enqueue", fsm.NotFound, fsm.FieldQueue},
	{"Enqueue", fsm.FailedPrecondition, fsm.FieldBatchID},
	{"Ack", fsm.AlreadyExists, fsm.FieldResult},
	{"Ack", fsm.AlreadyExists, fsm.FieldThen},
	{"Ack", fsm.LeaseLost, fsm.FieldToken},
	{"Ack", fsm.NotFound, fsm.FieldToken},
	{"Ack", fsm.Cancelled, fsm.FieldToken},
	{"Cancel", fsm.FailedPrecondition, fsm.FieldTaskID},
	{"Reschedule", fsm.FailedPrecondition, fsm.FieldTaskID},
	{"KVDelete", fsm.NotFound, fsm.FieldKV},
	{"FireSchedule", fsm.FailedPrecondition, fsm.FieldSchedule},
	{"DeadRequeue", fsm.NotFound, fsm.FieldNone},
	{"Lease", fsm.InvalidArgument, fsm.FieldMax},
}

// missing lists all that was never seen.
func missing(seen *Coverage) (list []string) {
	for _, answers := range wantAnswers {
		list = append(list, seen.Missing(answers, nil)...)
	}
	for _, branches := range wantBranches {
		list = append(list, seen.Missing(nil, branches)...)
	}
	return list
}

// TestCoverage runs the model alone, over the seeds that TestModel goes through, until all that is wanted has been seen.
func TestCoverage(t *testing.T) {
	seen := NewCoverage()
	for seed := uint64(1); seed <= 2000; seed++ {
		m := NewModel(groupOf(seed))
		g := NewGenerator(seed, m)
		for ops := 0; ops < defaultOps; {
			index, e := g.Next()
			ops += len(e.Ops)
			g.Saw(e, m.Apply(index, e))
		}
		seen.Add(m.seen)
		if len(missing(seen)) == 0 {
			t.Logf("after %d seeds", seed)
			return
		}
	}
	for _, what := range missing(seen) {
		t.Errorf("never seen: %s", what)
	}
}
