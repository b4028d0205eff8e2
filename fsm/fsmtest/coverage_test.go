package fsmtest

import (
	"testing"

	"github.com/quorate/quorate/fsm"
)

// What the first coverSeeds seeds of the default run must have seen. Those whose tables cannot be filled by a short run have
// scenarios instead.
var (
	wantAnswers  = [][]Answer{coreAnswers}
	wantBranches [][]string
)

var coreAnswers = []Answer{
	{"Enqueue", fsm.QueueFull, fsm.FieldDead},
	{"Enqueue", fsm.QueueFull, fsm.FieldDedup},
	{"Enqueue", fsm.QueueFull, fsm.FieldResults},
	{"Enqueue", fsm.AlreadyExists, fsm.FieldTaskID},
	{"Enqueue", fsm.AlreadyExists, fsm.FieldDedupKey},
	{"Enqueue", fsm.InvalidArgument, fsm.FieldRequest},
	{"Enqueue", fsm.InvalidArgument, fsm.FieldBatch},
	{"Enqueue", fsm.SessionExpired, fsm.FieldRequest},
	{"Enqueue", fsm.NotFound, fsm.FieldQueue},
	{"Ack", fsm.AlreadyExists, fsm.FieldResult},
	{"Ack", fsm.LeaseLost, fsm.FieldToken},
	{"Ack", fsm.NotFound, fsm.FieldToken},
	{"DeadRequeue", fsm.NotFound, fsm.FieldNone},
	{"DeadRequeue", fsm.QueueFull, fsm.FieldResults},
	{"PushResult", fsm.QueueFull, fsm.FieldResults},
	{"Lease", fsm.InvalidArgument, fsm.FieldMax},
}

// checkCoverage fails the test where something was never seen.
func checkCoverage(t *testing.T, seen *Coverage) {
	t.Helper()
	for _, list := range wantAnswers {
		for _, what := range seen.Missing(list, nil) {
			t.Errorf("never answered: %s", what)
		}
	}
	for _, list := range wantBranches {
		for _, what := range seen.Missing(nil, list) {
			t.Errorf("never seen: %s", what)
		}
	}
}
