// Package sim runs whole clusters on made-up time, networks, disks and clocks, with everything that goes wrong drawn from a seed,
// and holds what clients saw against the contract.
//
//	                        one process, one bubble of testing/synctest
//	┌─────────────────────────────────────────────────────────────────────────────────────────┐
//	│ workload, SDK clients ──▶ conn: streams, late, cut, reset ──▶ doors (transport, wire)     │
//	│       │                                                        group ─▶ raft ─▶ fsm      │
//	│       │ Recorder                 post: raft's messages ◀────────── │ store.Log, Stable    │
//	│       ▼                          lost, twice, late, overtaken      ▼                     │
//	│ bench/chaos/history ◀──────────── entries as applied ◀──── disk: lost, torn, failing,    │
//	│   Replay, Check                                            flipped, standing still       │
//	└─────────────────────────────────────────────────────────────────────────────────────────┘
//
// Real are hashicorp/raft, cluster/group, the state machine, the checks of cluster/store (Log, Stable, Halt), the doors with
// HTTP, WebSocket and wire, and package client. The load and the judge are those of bench/chaos.
//
// # A run
//
// A Plan is a run as data; Draw makes one of a seed. Like a swarm, each seed draws which faults there are at all, how often, and
// how bad network, disks and clocks are at their best; and which two of the sorts of queues that bench/chaos/workload has. There are
// two phases. Safety: the faults come at their times, several at once, while producers, workers and readers go on. Liveness: all is
// healed; a majority alone where the plan says so, and then all nodes, must have a leader and the same log within 30 s, the queues must
// drain, and the states' digests must be equal, and equal to that of the log replayed.
//
// Two plans of three have programs that write by HTTP with Idempotency-Keys (keyed.go), at any node, followers included, which send on to the
// leader: again after each answer and each silence, at two nodes at once, and once more in the end.
//
// Beside what history.Check demands (G1 to G15, G18), a run fails when
//
//   - a node applies an entry that is not on a majority's disks, or another one than a node before it at that index;
//   - two nodes store different entries of one index and term, or one sends as committed what was not applied (G15);
//   - two nodes send entries of one term (G19);
//   - a process has taken one snapshot from one leader three times (G7);
//   - a node stores an entry that was damaged on its way, or starts with a bit flipped on its disk (G16);
//   - a leader that was silent while another one was elected answers a read from before what had been applied anywhere when it was asked (G14);
//   - a node is still there 2 s after a write of its log or its term has failed (G17);
//   - a node ends itself, or does not start, for no reason that the plan gave it (a disk or network that stood still may set off its
//     watchdog);
//   - a subscription of the SDK ends;
//   - what was sent under an Idempotency-Key is in the log more than once within an hour of log time, or by half, or has two answers, or one that
//     is not in the log, or none in the end.
//
// Sometimes counters say what a run has met; Required are those that a row of seeds must have moved.
//
// # Twice the same
//
// Built for wasip1 and run by bench/sim/wasm, a plan gives the same run bit for bit: there is one thread and no preemption, random
// numbers come from the seed, and clocks move as they are looked at. Result.Trace is the sum over every message that arrived, every
// entry applied, every fault and every event of the clients, with its time. What the runtime does when, garbage collection
// included, is the same as well, so a trace holds for one build alone: another one, or another version of Go, may give another run.
//
// Natively a seed draws the same faults, but goroutines run as they like: that is for breadth, at ten times the speed, and for the race
// detector. A native failure is looked for again in wasm.
//
//	go test -race ./bench/sim -run TestSeeds -sim.seeds 20 -sim.for 1m -sim.seed 7 -sim.tell
//	go test ./bench/sim/wasm                                   twice the same, bit for bit; not with -race
//	go run ./bench/sim/run -wasm 200 -for 10m -native 500 -within 14m
//
// A plan that goes wrong is made smaller by leaving out faults as long as it still goes wrong in the same way, and kept in
// testdata/seeds. TestKept runs those for ever. planted-NN.json goes wrong where that bug is planted, and was made smaller there:
//
//	GOFLAGS=-tags=mutant_16 go run ./bench/sim/run -plan bench/sim/testdata/seeds/planted-16.json
//
// # What is not here
//
// Package cluster's own node: gossip (sockets of its own), joining by announcement, handshakes and TLS of node links, the
// log stores' files and the snapshot files (no mmap and no flock in wasip1): cluster, cluster/link, cluster/store and bench/chaos test
// those. Nodes leave and enter by raft's own calls, in the order that cluster uses: removed, emptied, non-voter, voter when caught up.
// What fails is a write of the log or of term and vote, not of a snapshot. A process that is paused cannot be stopped from
// within: for its peers and clients it is silent and its disk stands still, but its own timers run. The clients' clock is the true one.
// A stream loses nothing, as TCP: it is late, cut or reset.
//
// # Decisions (2026-11)
//
// Raft's messages travel singly instead of on streams through raft's own network transport: loss, doubling and overtaking are harder
// on raft than TCP would be, and cost less to simulate. They are encoded as that transport does. Every second snapshot comes once more, seconds
// later, as from a connection that its sender has given up and whose bytes were on their way, and so does one of eight messages that are lost. A
// snapshot's bytes may come piece by piece, or not to the end, with raft's loop waiting for them.
//
// Nothing is preempted in WebAssembly, and little natively. Where raft calls what is simulated it is held now and then: as it puts a request
// together (EncodePeer), reads an entry, looks for a snapshot, opens or ends one. Nothing is held under a mutex for which others wait: to the
// bubble that is no waiting, and its time would stand still.
//
// Election time-outs are 250 ms to 2 s, and commit time-outs a quarter of that instead of the product's 5 ms, which would be most of the
// messages and of a run's time.
//
// A plan draws how many faults and requests there are, not how often they come: a run of ten minutes has some more of them than one of
// a minute, and quiet times between them. In wasm a request costs a millisecond, all that it brings about taken together, and a try to
// reach a node nearly as much: at the rates of a short run, a long one took ten times the processor's time, most of it for clients that
// tried forty times a second to reach a leader that was not there. They wait longer with each try now, as the SDK does.
//
// Faults are a list with times instead of draws on the way: leaving one out leaves the others as they are, so a plan can be made smaller.
package sim
