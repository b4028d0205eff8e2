package main

import "time"

// Layers of tests, in the order of what they have of a real node.
const (
	model      = "model"      // the state machine against a second one (fsm/fsmtest)
	unit       = "unit"       // one package by itself
	simulation = "simulation" // real raft on made-up time and disks: groups (cluster/group), and whole clusters with clients (bench/sim)
	disk       = "disk"       // files, damage and failing writes (cluster/store)
	nodes      = "nodes"      // whole nodes in one process (cluster)
	process    = "process"    // real processes under kills and other faults (bench/chaos)
)

var layers = []string{model, unit, simulation, disk, nodes, process}

// slice is a part of the tests of one package.
type slice struct {
	layer string
	pkg   string        // below the module
	run   string        // as -run: one pattern for each depth, between slashes
	args  []string      // flags of the test binary
	most  time.Duration // that the tests may take
}

// mutant is a bug.
type mutant struct {
	number int
	name   string // its constant in fsm/mutant
	pkg    string // where it is planted
	breaks string // the guarantees
	// alone says why one layer is enough.
	alone  string
	slices []slice
}

// modelSlice is the model against random logs: the same ones each time.
func modelSlice() slice {
	return slice{model, "fsm/fsmtest", "^TestModel$", []string{"-seed", "1", "-seeds", "60", "-shrink", "0s"}, time.Minute}
}

func unitSlice(pkg, run string) slice { return slice{unit, pkg, run, nil, time.Minute} }

func simSlice(run string, args ...string) slice {
	return slice{simulation, "cluster/group", run, args, 90 * time.Second}
}

// clusterSlice is the simulation of whole clusters: the same seeds each time, up to the first that goes wrong.
func clusterSlice() slice {
	return slice{simulation, "bench/sim", "^TestSeeds$", []string{"-test.failfast", "-sim.seed", "1", "-sim.seeds", "64", "-sim.for", "20s"}, 3 * time.Minute}
}

func diskSlice(run string) slice { return slice{disk, "cluster/store", run, nil, time.Minute} }

func nodesSlice(run string) slice { return slice{nodes, "cluster", run, nil, 90 * time.Second} }

func processSlice(run string, args ...string) slice {
	return slice{process, "bench/chaos", run, args, 3 * time.Minute}
}

const (
	randomLogs  = "^TestRandomLogs$"
	simulations = "^TestSimulation$"
)

// catalogue is all of them.
var catalogue = []mutant{
	{1, "NoSync", "cluster/store", "G1", "", []slice{
		diskSlice("^TestSyncsAreAskedFor$"), processSlice("^TestPowerCuts$/^1_nodes$/^wal$", "-cuts", "0", "-single-cuts", "4"),
	}},
	{2, "AckBeforeCommit", "cluster/group", "G1", "a simulated power cut of what is applied and not on a majority's disks is all that it is about", []slice{
		simSlice("^TestAheadOfASlowLeader$"), simSlice("^TestCrashes$/^seed=", "-crash.seed", "1"), clusterSlice(),
	}},
	{3, "TokenNotCheckedOnExtend", "fsm", "G4", "", []slice{
		modelSlice(), unitSlice("fsm", "^TestLeaseEnds$"), processSlice("^TestLeases$/^a_slow_worker"), clusterSlice(),
	}},
	{4, "TokenResetOnRestore", "fsm", "G3 G15", "", []slice{
		modelSlice(), unitSlice("fsm", randomLogs), simSlice(simulations, "-sim.seed", "1"), clusterSlice(),
	}},
	{5, "AttemptsNotInSnapshot", "fsm", "G10", "", []slice{modelSlice(), unitSlice("fsm", randomLogs), clusterSlice()}},
	{6, "DedupNotInSnapshot", "fsm", "G8", "", []slice{
		modelSlice(), unitSlice("fsm", randomLogs), clusterSlice(),
	}},
	{7, "MapOrderInSnapshot", "fsm", "G15", "", []slice{modelSlice(), unitSlice("fsm", randomLogs)}},
	{8, "TimeNowInApply", "fsm", "G13 G15", "", []slice{
		modelSlice(), unitSlice("fsm", "^TestRecordedResult$"), processSlice("^TestAllNodesDown$/^wal$/^killed"),
	}},
	{9, "ReadWithoutLeaderCheck", "cluster/group", "G12 G14", "", []slice{
		simSlice("^TestDeposedLeader$"), processSlice("^TestLeaderChanges$/^without_a_majority"),
	}},
	{10, "NoBarrierAfterElection", "cluster/group", "G14", "a first read of a term while disks are slow is all that it is about", []slice{
		simSlice("^TestFirstReadOfATerm$"),
	}},
	{11, "FollowerSkipsChecksum", "cluster/store", "G16", "", []slice{
		diskSlice("^TestLogRefusesDamagedEntriesFromElsewhere$"), clusterSlice(),
	}},
	{12, "ContinuesAfterEIO", "cluster/store", "G17", "", []slice{
		diskSlice("^TestFailStop$"), nodesSlice("^TestFailedWriteEndsTheProcess$"),
	}},
	{13, "WipedNodeRejoins", "cluster", "G19", "a wiped node that comes back is all that it is about", []slice{
		nodesSlice("^TestJoinRefusals$/^label_taken$"), nodesSlice("^TestWipedNodeIsRefusedUnderItsLabel$"),
	}},
	{14, "ExpiryByWallClock", "cluster/group", "G13", "", []slice{
		unitSlice("cluster/group", "^TestLogTime$"), simSlice("^TestLeasesUnderWallJumps$|^TestLogTimeUnderClockFaults$"),
	}},
	{15, "DoubleDeadLetter", "fsm", "G6 G10", "", []slice{
		modelSlice(), unitSlice("fsm", randomLogs),
	}},
	{16, "GroupOrderBrokenOnNack", "fsm", "G9", "", []slice{
		modelSlice(), unitSlice("fsm", "^TestFIFO$|^TestPerKey$"), clusterSlice(),
	}},
	{17, "RefusedAfterPropose", "cluster/group", "G11", "", []slice{
		unitSlice("cluster/group", "^TestClassify$"), simSlice("^TestDeposedLeader$"),
	}},
	{18, "RequestsNotInSnapshot", "fsm", "G11", "", []slice{modelSlice(), unitSlice("fsm", "^TestRequestIDs$"), clusterSlice()}},
	{19, "SnapshotAtWrongIndex", "fsm", "G15", "", []slice{
		modelSlice(), unitSlice("fsm", randomLogs), simSlice("^TestSnapshotRestartAndInstall$"), clusterSlice(),
	}},
	{20, "DedupEdgeOffByOne", "fsm", "G8", "", []slice{{model, "fsm/fsmtest", "^TestDedupEdges$", nil, time.Minute}, unitSlice("fsm", "^TestDedupWindow$")}},
	{21, "ResultOverwrittenByLateAck", "fsm", "G5 G6", "", []slice{
		modelSlice(), unitSlice("fsm", "^TestPushResult$"),
	}},
	{22, "LeaseByDeposedLeader", "cluster/group", "G3 G12", "what a leader that is cut off answers is all that it is about", []slice{
		simSlice("^TestDeposedLeader$"),
	}},
	{23, "QuotaBypass", "fsm", "G18", "", []slice{
		modelSlice(), unitSlice("fsm", "^TestMaxDepth$|^TestMaxBytes$"),
	}},
	{24, "KeysNotInSnapshot", "fsm", "G11", "", []slice{modelSlice(), unitSlice("fsm", "^TestIdempotent$")}},
}

// quick are those that `make test` has caught.
var quick = []int{8, 20, 23}
