// Package mutant has one planted bug for each kind of fault that the tests are there to find: their positive controls.
//
//	go build -tags mutant_07 ./...    everything, with bug 7
//	make mutants                      which layer of tests catches which bug (bench/mutants)
//
// A bug is a constant here, and a line or two at the place where the real fault would be. Without a tag all constants are
// false: the compiler drops what depends on them, and a binary has nothing of this package (bench/mutants looks). With one
// tag one constant is true; with two it does not compile.
//
// Rejected: patches that are applied to the sources for a run, of which whoever changes the code would know nothing until
// they do not fit any more; a variable or the environment, since a node in service must have no switch for any of this.
package mutant

import "fmt"

// The bugs, in the order of their tags. What each breaks and who catches it is in bench/mutants.
const (
	NoSync                     = on == 1  // entries are written and not synced
	AckBeforeCommit            = on == 2  // a leader applies and answers what its own disk does not have
	TokenNotCheckedOnExtend    = on == 3  // any token of a message extends its lease
	TokenResetOnRestore        = on == 4  // a lease comes out of a snapshot with another token
	AttemptsNotInSnapshot      = on == 5  // attempts begin anew with a restore
	DedupNotInSnapshot         = on == 6  // dedup keys are forgotten with a restore
	MapOrderInSnapshot         = on == 7  // queues stand in a snapshot as a map gives them
	TimeNowInApply             = on == 8  // a result bears the wall clock of the node that applied it
	ReadWithoutLeaderCheck     = on == 9  // who believes to lead answers reads
	NoBarrierAfterElection     = on == 10 // a new leader serves before the entries of earlier terms are applied
	FollowerSkipsChecksum      = on == 11 // what the leader sends is stored unchecked
	ContinuesAfterEIO          = on == 12 // a failed write is an error like any other
	WipedNodeRejoins           = on == 13 // an emptied node comes back under its old label unasked
	ExpiryByWallClock          = on == 14 // log time follows the leader's wall clock at once
	DoubleDeadLetter           = on == 15 // a requeued dead letter stays, and is two when it dies again
	GroupOrderBrokenOnNack     = on == 16 // a message that is nacked lets others of its key pass
	RefusedAfterPropose        = on == 17 // what was proposed when leadership was lost is called refused
	RequestsNotInSnapshot      = on == 18 // outcomes of requests are forgotten with a restore
	SnapshotAtWrongIndex       = on == 19 // a snapshot says that it has an entry more than it has
	DedupEdgeOffByOne          = on == 20 // a dedup key ends a millisecond early
	ResultOverwrittenByLateAck = on == 21 // an ack records its result over one that was pushed before
	LeaseByDeposedLeader       = on == 22 // a worker that comes back is told that its leases live by who may lead no more
	QuotaBypass                = on == 23 // a queue takes more than max_depth and max_bytes
	KeysNotInSnapshot          = on == 24 // idempotency keys are forgotten with a restore
)

// Tag is the build tag of the bug that this build has, "" if it has none: what a test builds, it builds with the same.
func Tag() string {
	if on == 0 {
		return ""
	}
	return fmt.Sprintf("mutant_%02d", on)
}
