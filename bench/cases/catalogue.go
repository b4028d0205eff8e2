package main

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

// fieldCase is one story from the field.
type fieldCase struct {
	number int
	name   string // what it is about, in our own words
	shows  []shows
	open   string // what of it no test shows yet, and what that waits for; "": nothing
}

// shows are tests of one package that show a case.
type shows struct {
	pkg   string   // folder below the module
	tests []string // in full, subtests behind slashes
	tags  string   // build tags that they need
	race  bool     // what they show only shows under the race detector
}

// build says how the tests must be built, where that is not as usual.
func (s shows) build() (text string) {
	if s.tags != "" {
		text += " -tags " + s.tags
	}
	if s.race {
		text += " -race"
	}
	return text
}

// most is what the tests of one case may take that run together.
const most = 5 * time.Minute

func in(pkg string, tests ...string) shows { return shows{pkg: pkg, tests: tests} }

// nodes are tests with real node processes.
func nodes(tests ...string) shows { return in("bench/chaos", tests...) }

// below are tests with real node processes that share one cluster.
func below(top string, subs ...string) shows {
	for i, s := range subs {
		subs[i] = top + "/" + s
	}
	return nodes(subs...)
}

func group(tests ...string) shows     { return in("cluster/group", tests...) }
func oneNode(tests ...string) shows   { return in("cluster", tests...) }
func store(tests ...string) shows     { return in("cluster/store", tests...) }
func sdk(tests ...string) shows       { return in("client", tests...) }
func door(tests ...string) shows      { return in("transport", tests...) }
func raced(s shows) shows             { s.race = true; return s }
func leaders(subs ...string) shows    { return below("TestLeaderChanges", subs...) }
func leasing(subs ...string) shows    { return below("TestLeases", subs...) }
func retrying(subs ...string) shows   { return below("TestRetriesAndDeadLetters", subs...) }
func atTheDoors(subs ...string) shows { return below("TestDoors", subs...) }

// pattern is what -test.run selects the tests by, all of which are right below the same one: for each depth the names there.
func pattern(names []string) string {
	var depths []string
	for i := range strings.Count(names[0], "/") + 1 {
		var here []string
		for _, n := range names {
			if part := regexp.QuoteMeta(underscored(strings.Split(n, "/")[i])); !slices.Contains(here, part) {
				here = append(here, part)
			}
		}
		depths = append(depths, "^("+strings.Join(here, "|")+")$")
	}
	return strings.Join(depths, "/")
}

// underscored is a test's name as the testing package has it.
func underscored(name string) string { return strings.ReplaceAll(name, " ", "_") }

const noAuth = "there is no authentication yet"

var catalogue = []fieldCase{
	{1, "a transfer that hangs leaves a leader that refuses every write", []shows{group("TestStuckTransfer"), leaders("leadership offered to a node that hangs")}, ""},
	{2, "leadership handed over under load comes straight back", []shows{group("TestTransfersUnderLoad"), leaders("leadership moves to and fro under load")}, ""},
	{3, "leadership offered to a node far behind stops all writing", []shows{leaders("leadership offered to a node that is far behind")}, ""},
	{4, "a node that was away for long never catches up", []shows{group("TestSnapshotRestartAndInstall", "TestSnapshotsByEntries"), nodes("TestLaggardIsGivenASnapshot")}, ""},
	{5, "a disk that fills up takes the leader with it", []shows{group("TestLowSpace", "TestSnapshotsWhereRoomIsLow"), oneNode("TestLowSpace"), nodes("TestFullDisk", "TestNoRoomEndsTheNode")}, ""},
	{6, "a node whose disk was full does not start again", []shows{nodes("TestNoRoomEndsTheNode")}, ""},
	{7, "a damaged log panics at the start, or starts as an empty one", []shows{store("TestFlippedBits", "TestMistreatedDirectory"), oneNode("TestDamagedNodeStops"), nodes("TestFlippedBit")}, ""},
	{8, "a snapshot is lost with the power", []shows{store("TestOlderSnapshotIsNotFallenBackTo", "TestPowerCuts"), nodes("TestPowerCuts")}, "a backup that finds no leader: there are no backups yet"},
	{9, "a crash tears the last record of the log", []shows{store("TestTornBatch", "TestKilledWriter"), nodes("TestKillAnyNode")}, ""},
	{10, "a node that was cut off comes back and deposes the leader", []shows{leaders("a node that was away deposes nobody")}, ""},
	{11, "a node removed while it was away disturbs the others, or cannot come back", []shows{oneNode("TestRemovedNodeLearnsIt", "TestRemovedWhileAway", "TestWipedNodeIsRefusedUnderItsLabel")}, ""},
	{12, "nodes that join at once are never promoted, or are elected too early", []shows{oneNode("TestTwoJoinAtOnce"), leaders("fast and mass restarts end in a whole cluster")}, ""},
	{13, "everybody comes back at another address", []shows{oneNode("TestAllComeBackOnNewPorts", "TestSwappedAddresses")}, ""},
	{14, "a quick restart is taken for a conflict of names", []shows{oneNode("TestAllComeBackOnNewPorts"), leaders("fast and mass restarts end in a whole cluster")}, ""},
	{15, "gossip never heals after a long cut", []shows{oneNode("TestGossipHealsAfterALongCut", "TestGossipWithoutPackets")}, ""},
	{16, "after a mass restart the living are taken for dead", []shows{oneNode("TestMassRestart"), leaders("fast and mass restarts end in a whole cluster")}, ""},
	{17, "lost leadership is taken for a failure, and the work is done twice", []shows{sdk("TestLostAnswerIsAskedForAgain"), group("TestLeaderKilledUnderLoad", "TestDeposedLeader")}, ""},
	{18, "calls wait for ever where there is no majority", []shows{group("TestNoQuorum"), leaders("without a majority calls end by their deadline")}, ""},
	{19, "a deposed leader answers reads and hands out work", []shows{group("TestDeposedLeader"), leaders("a deposed leader that wakes up hands out nothing"), door("TestListenAmongThree/a deposed leader (C19)")}, ""},
	{20, "big entries starve the heartbeats", []shows{group("TestBigEntries"), nodes("TestGreatestMessagesCostNoElection")}, ""},
	{21, "a snapshot of a large state stalls all else", []shows{nodes("TestSnapshotsOfALargeState")}, ""},
	{22, "an entry of a newer version ends the older nodes, again and again", []shows{group("TestNewerEntry", "TestUnreadableEntry"), oneNode("TestJoinRefusals/older entry format")}, "a new kind of entry that is held back until every member understands it: there is one kind of entry so far"},
	{23, "a node that is still starting looks ready", []shows{door("TestReadiness"), nodes("TestCommandsWithoutALeader/before the others have started")}, ""},
	{24, "requests are sent round in circles to a leader that is none", []shows{sdk("TestOpenFindsTheLeader", "TestFrozenLeader"), nodes("TestClientFindsTheLeader"), leaders("a rolling restart fails no call")}, ""},
	{25, "a fail-over ends all leases, or keeps those of the dead for minutes", []shows{sdk("TestResume"), group("TestLeasesUnderWallJumps"), leaders("living workers keep their leases, dead ones' come back")}, ""},
	{26, "whoever reaches the ports between nodes can take part", []shows{in("cluster/link", "TestGarbage", "TestHandshake"), oneNode("TestJoinRefusals", "TestGarbageRequests")}, "gossip with a wrong key, admin calls without a token: " + noAuth},
	{27, "a slow worker finishes what it has lost", []shows{sdk("TestLostLease"), leasing("a slow worker's late answers change nothing"), atTheDoors("a stopped worker's late ack changes nothing")}, ""},
	{28, "an ack that comes late, but before anybody else has the message", []shows{leasing("an expired lease is acked while nobody else has it", "a release leaves the ack open"), leaders("a late ack is good at the next leader too")}, ""},
	{29, "leases end only when somebody asks", []shows{group("TestLeasesEndUnasked"), leasing("leases end with nobody polling")}, ""},
	{30, "what waits for its retry fills the limit on what is out", []shows{in("fsm", "TestMaxInFlight"), leasing("waiting retries take no credit"), below("TestQueueLimits", "retries take nothing of max_in_flight")}, ""},
	{31, "after its last attempt a message is nowhere", []shows{leasing("the last attempt is followed by the dead letters", "a lower maximum holds at the next failure")}, ""},
	{32, "attempts are miscounted where workers die without a word", []shows{nodes("TestWorkerKilledInMidTask", "TestCrashLoopEndsInDeadLetters")}, ""},
	{33, "consumers stall after a change of leader while producers go on", []shows{group("TestConsumersAfterFailover"), leaders("idle consumers go on after the leader's death"), nodes("TestListenersOverALeadersDeath")}, ""},
	{34, "dedup keys are forgotten at a restart, a purge or an ack", []shows{leaders("dedup keys and delays survive everything")}, ""},
	{35, "a dedup window that runs from the last sight", []shows{leasing("dedup window")}, ""},
	{36, "a dedup key holds for more than was asked", []shows{leasing("dedup scope")}, ""},
	{37, "a message that failed goes first for ever and blocks the rest", []shows{below("TestOrder", "a message that is nacked lets others pass")}, ""},
	{38, "rolling deploys use up the attempts", []shows{leasing("drains cost no attempt"), nodes("TestWorkerStoppedCostsNoAttempt")}, ""},
	{39, "a drain that takes too long loses work, or holds it", []shows{sdk("TestDrain"), atTheDoors("a drain ends on time", "a worker killed while it drains")}, ""},
	{40, "a long task runs twice, a hung one for ever", []shows{sdk("TestExtension", "TestTaskTimeout"), leasing("a long task runs once", "a panic, a hang and a longer timeout")}, ""},
	{41, "what it means to extend a lease, and how far", []shows{leasing("what extend means and how far")}, ""},
	{42, "what was deleted while it was out is counted on", []shows{in("fsm", "TestEmptiedGivesEverythingBack"), leasing("work whose message is gone")}, ""},
	{43, "with one active consumer at a time none is active in the end", []shows{below("TestOrder", "one active consumer is followed by another")}, ""},
	{44, "priorities starve, or slots are held by the low ones", []shows{below("TestOrder", "priorities are strict")}, "the age of the oldest message of each priority: it is told of the queue"},
	{45, "one bad item spoils its batch", []shows{door("TestAcksTogether", "TestBatchWithBadMessages"), leasing("one bad item of a batch")}, ""},
	{46, "ways to fail that wait otherwise than the policy says", []shows{retrying("every way to fail waits as the policy says")}, ""},
	{47, "waits that overflow", []shows{in("fsm", "TestRetryDelay", "TestRetryModel"), retrying("waits never fall and never pass the cap")}, ""},
	{48, "one attempt too many or too few", []shows{retrying("exactly max_attempts runs")}, ""},
	{49, "what failed together comes back together", []shows{retrying("jitter spreads and is what the page says")}, ""},
	{50, "delayed messages come early after a restart", []shows{in("bench/load", "TestDelayed"), leaders("dedup keys and delays survive everything")}, ""},
	{51, "a delay longer than the lease delivers twice", []shows{leasing("a delay longer than the lease")}, ""},
	{52, "dead letters vanish in silence, or leave something behind", []shows{retrying("max_dead holds exactly"), below("TestDeadLetterQueues", "a missing, then a full dead-letter queue")}, ""},
	{53, "what the delivery counter counts", []shows{retrying("the attempt is the same at every door", "a dead letter's whole life"), below("TestDeadLetterQueues", "the whole life of what was moved")}, ""},
	{54, "a poison task kills workers for ever, or dies too soon", []shows{nodes("TestCrashLoopEndsInDeadLetters"), below("TestDeadLetterQueues", "a poison task dies after its attempts")}, ""},
	{55, "two writers on one socket", []shows{raced(door("TestEverythingAtOnce"))}, ""},
	{56, "a read limit that counts compressed bytes", []shows{door("TestHandshake/one of several", "TestCompressedMessage")}, ""},
	{57, "a peer whose connection is half open keeps its messages", []shows{sdk("TestHalfOpenConnection"), door("TestPingPong", "TestGiveUpAfter"), group("TestTurnsOfWhatIsDue"), atTheDoors("a consumer that fell silent keeps nothing")}, ""},
	{58, "a write time-out ends streams of events that are idle", []shows{door("TestSlowHead", "TestPollOutlivesTimeouts", "TestListenOutlivesTimeouts")}, ""},
	{59, "close codes that hide why, or are none", []shows{door("TestBadMessages", "TestDeadlines", "TestStop", "TestSessionReplaced", "TestPeersThatVanish")}, "a failed login: " + noAuth},
	{60, "bytes behind the last item pass unnoticed", []shows{in("wire", "TestNextRefuses", "TestEveryPrefixIsRefused"), in("fsm", "TestCodecVectors"), door("TestBadMessages/one byte after a frame", "TestManyFramesInOneMessage", "TestWrongRequests/two items (C60)")}, ""},
	{61, "numbers and byte strings change their type on the way", []shows{in("wire", "TestDecodeRefuses"), door("TestValuesKeepTheirType"), leaders("dedup keys and delays survive everything")}, ""},
	{62, "text that is not UTF-8, bodies that are empty, zero bytes", []shows{atTheDoors("bytes come out as they went in"), door("TestBodies", "TestListen/bytes that are no text (C62)")}, ""},
	{63, "ids lose digits in JSON", []shows{atTheDoors("ids are strings in JSON"), nodes("TestReadmeCurl")}, ""},
	{64, "names that escape from a route, a file or a label", []shows{door("TestQueueNames"), in("cmd/quorate", "TestWrongUse")}, ""},
	{65, "series of metrics that never go", []shows{atTheDoors("series go with their queues")}, ""},
	{66, "a command that failed says 0", []shows{in("cmd/quorate", "TestWrongUse", "TestLostOutputIsAnError"), nodes("TestCommandsWithoutALeader")}, ""},
}
