// Package nemesis runs real nodes under a schedule of faults, has what clients saw judged, and tells what came of it.
//
//	seed ─▶ Draw ─▶ Schedule (JSON) ─▶ engine ─▶ nodes (bench/proc), disks (forgetfs), Network
//	                                     │            ▲
//	                 workload ───────────┼────────────┘ requests
//	                     │ events        │ who was hit by what, and when it was healed
//	                     ▼               ▼
//	              history.Judge ──▶ Result ──▶ report.html, report.json, a line of a ledger
//
// # A run
//
// Nodes are of the chaos build: a snapshot every 8 KiB of log, half of it left behind one, so that who was away for a second is sent a
// snapshot; elections after raft's usual 250 ms. Clients work on seven queues (bench/chaos/workload) while faults strike, every 3 to 8
// seconds, each when the last is healed and a second has gone by, but for those that belong together. Then there is a quiet of ten
// seconds, every node must become an alive voter, all queues must become empty, and all nodes must tell the digest that the log of
// their taps gives.
//
// A schedule is data: it is kept beside the history, can be changed by hand, and is run again with -schedule. Who leads is settled when
// a fault strikes; what a fault draws comes from the schedule's seed and its number.
//
// # Kinds of runs
//
//	none       no fault: what is wrong then is wrong in any case
//	kill       SIGKILL of the leader, a minority, a majority, all at once
//	pause      SIGSTOP of the leader, a follower, a majority, 0.1 to 8 s; workers that stand still past their leases; 5 % of a CPU
//	partition  isolated leader, halves, ring, bridge, deaf, mute, flapping, swizzle       on a Network
//	net        delay, loss, duplicates, reordering, a narrow link, resets                 on a Network
//	clock      wall clocks that jump or go to and fro by 1 s to 1 h, monotonic clocks that are others after a start
//	member     transfer, remove and join again, replace the dead, a wiped disk under an old name; leaders killed, or cut off, meanwhile
//	disk       EIO of syncs, ENOSPC, read-only, syncs that take up to 5 s, power cuts; one node's together with a pause of the others
//	mixed      all of it
//
// # What fails a run
//
//   - What the checker or Porcupine finds, and nodes whose states or entries differ (bench/chaos/history).
//   - Problems: a node that ends, or does not come back, where no fault explains it; that goes on though its disk has failed, or ends
//     without saying what failed (G17); a node without its disk that is taken for the one that it was; a cluster that is not whole, or
//     queues that are not empty, a while after the last fault (G7); data races and panics in logs.
//   - Counters at zero: what every history must have met, each kind of fault that was planned, and by the kind of run elections,
//     snapshot installs, leaders killed.
//
// A fault that finds no node to strike, since others have them all, is skipped, which the report says.
//
// # What the report says of a fault
//
// Its gap is the longest time without a success of a request that changes something, from when it began until the first success of one
// that was sent after it was healed; its recovery is how long the latter took. Both by the clients' clock, over all queues.
//
// # What it cannot show
//
// All nodes and clients share a machine of a few cores: times are those of nodes that get in each other's way. A worker that is stopped is
// a goroutine that stands still, not a process; for nodes it is the same. What disks cannot show is in bench/chaos/forgetfs.
//
// Decisions (2026-11)
//
//   - A node is at one fault at a time (member.token): two that start and end one process could not tell whose doing its end was.
//     Faults of the network take no nodes, and there is one of them at a time.
//   - One node is out of the cluster at a time. Where one of three is out, with its disk empty, and another is taken away to be replaced, what
//     is left can decide nothing any more, and no product could help.
//   - Faults are functions in this process, not agents beside the nodes: all nodes are on this machine.
//   - Nodes are on a Network (bench/chaos/netswitch) where the schedule has faults for it, and on loopback otherwise: it takes root, and a
//     process that began with Enclose.
//   - Elections and installs are counted in the nodes' logs: metrics die with their process.
package nemesis
