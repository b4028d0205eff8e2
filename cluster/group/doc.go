// Package group is one Raft group on one node: its log's leader side, its state machine, and the memory that only a
// leader has. A node owns groups; a group knows nothing of files, sockets, gossip or the client protocol. Clock, stores
// and transport are parameters and the package builds for GOOS=wasip1, so that a whole cluster of groups can be run in one
// process on made-up time.
//
// # The way of an operation
//
//	doors ──Propose──▶ intake ──▶ proposer ──entry──▶ raft ═══▶ apply ──Complete──▶ doors
//	       (encoded)   bounded    one goroutine        log,      (every node; the rest on the leader)
//	                   queue       │   ▲               majority    │
//	                               │   └── room, credit, ready ────┤
//	                               ▼                               ▼
//	                           dispatcher ◀──── ends of leases ── books ──Deliver──▶ connections
//	                           who waits, with what window
//
// Propose puts operations, encoded by the door's goroutine, into the intake and returns. The proposer packs what has
// arrived into an entry (64 KiB or 512 operations; a larger operation travels alone, none is split, nor are several that are one proposal), adds what the leader
// itself has to say, stamps log time last and gives the entry to raft. There is no timer in this path: with none in
// flight an operation goes at once; while one is, the next waits until an eighth of its operations or a quarter of its bytes are
// there, and while 8 are, all wait: so entries grow under load. The apply pass, on
// raft's state machine goroutine, applies the entry, completes the proposals in it, deals out what it leased, and flushes
// each connection once.
//
// # Outcomes
//
// A proposal is completed exactly once, with outcomes or with an Error. An Error that is not Unknown is certain: the
// operation is not in the log and never will be (not packed, or raft answered at its door). Everything else (leadership
// lost, deadline after packing, a failed log, shutdown) is Unknown. An entry in flight is known again by the address of
// its bytes, which raft hands to the state machine of the leader that proposed it and which nothing else uses while the
// flight lasts: an entry of an earlier term that commits after its flight was given up finds nobody, so what was called
// unknown is not called anything else later.
//
// Before an entry is proposed it is decoded once as every node will decode it. An operation that the log cannot carry is
// refused to its sender: committed, it would stop all nodes at every start.
//
// # Both disks at once
//
// Raft writes an entry to the leader's disk before it sends it. Ahead, between the log cache and the store, takes the leader's
// own commands at once and has them written by a goroutine of its own, so that they are on their way to the followers
// meanwhile. Nothing of what raft calls committed on the strength of that is applied here, or told to a follower, before this node's
// disk has it; its comment says how, and why that is all there is to keep back. One message alone then takes the longer of the
// leader's and a follower's write and not their sum, and raft's main loop is free to hear of commits while the disk works.
//
// # Votes and heartbeats
//
// A vote is judged by the logs alone, and not by who votes in the configuration that the voter has (ballot): of three with one dead, a
// node that is behind a change of the membership must still elect the one that is not.
//
// A vote is written so that half of one is a vote for nobody new (ballotBox).
//
// A heartbeat is answered at once, disk or no disk, where that changes nothing; state and term are changed by raft's own loop alone (beat).
//
// # What raft would take too literally
//
// A follower commits what a request has shown to be in the leader's log as well, and no more; and what is committed is not compared again
// with what comes, since its log need not have it any more (known). A snapshot that comes when this node has long more is not installed; one
// that ends within this node's log, whose end is another leader's, ends the process, since raft does not notice that the log is gone, and
// the next start goes on (late). A leader that is none any more sends no entries (gate).
//
// # Leases that ride along
//
// The dispatcher holds, by queue, a ring of those who can be given messages: subscriptions with free window and pulls.
// When the entry being packed will make messages ready there (enqueue, release, an ack's followers, due moves), or the
// queue has some, lease operations go into the same entry, so that from enqueue to delivery there is one commit. What
// entries in flight will add and take is kept in books beside the state; the books are an estimate, a lease exists when it
// is applied, and the end of a flight takes its part out and has the queue looked at again. Every event that could let a
// message go out (ready, window opened, flight ended, subscription made) marks the queue, and only a look at a marked
// queue unmarks it: no wake-up is lost.
//
// Where all windows are full, the entry that ends leases hands out the next ones: its acks, nacks and releases come before its lease
// operations, so what they will free is lent to their subscriptions while it is packed. What was not dealt is taken back at once,
// the rest counts until the end of that very lease has been applied. Lent on are only ends that are certain: of leases live in
// the applied state, each once at a time, by operations that nothing before them can have refused with the lease still live. An ack
// with a chain can be, for want of room in another queue; its credit comes when it has been applied, as does that of a window
// that was made smaller than what is out, and of queues that deliver at most once.
//
// Rounds give each waiter of a queue an even share, and queues take turns, at most 1,024 messages and 128 operations an
// entry. The window of a subscription is counted from the state when it is made and from lease and end of lease after
// that, so it is exact. A lease that cannot be delivered (connection gone, no room) is given back in the next entry, free;
// what was delivered and not started is given back when the connection goes; what was started stays with its worker.
//
// # At most once
//
// The lease of a queue that delivers at most once is its own ack: when the entry is applied the messages are done, and the leader's apply pass
// hands their bodies to the connection in the same breath, since the state keeps them until the next entry only. From there on they have no
// second owner. Lost, and counted (Metrics.Lost), is what finds no one: the subscription has ended, lies dormant or was made anew
// while the entry was in flight, the connection is gone, or a pull's caller has given up. Lost and counted nowhere is what a leader had not
// written when it died, and what an entry took whose flight had been given up before it committed: a later leader applies that entry
// for a consumer that it does not know, and every other node applies it for nobody.
//
// Since nothing can be taken back, the dispatcher asks before it deals: a subscription of such a queue has one operation in flight at a time,
// and gets one when its connection has room. Its window is counted by what the worker has finished and not by ends of leases, of which there
// are none; a worker that comes back says what it still has in hand (Subscribe.Unfinished).
//
// # Rates
//
// What a rate lets out comes with time and not with an entry. A look at a queue reckons with the T that the entry will be
// stamped with (fsm.State.Outlook); where somebody waits and only a rate holds him back, the queue stands in the refills by the T
// at which there is more, and the timer has it looked at then. At most 100 entries a second are written for that alone, so a rate
// above 100 a second needs a burst of a hundredth of it to be reached by consumers that only wait; leases that ride along with
// other entries are not counted. Where nobody waits or nothing is ready there is no timer and no entry.
//
// # Leadership
//
//	          elected            barrier applied,          lost, term changed,
//	following ───────▶ beginning first op written ▶ serving ─────────────────▶ following
//	                       │  fails: look again                (stop: the same, after a farewell)
//
// Raft's leadership channel may drop values, so it only means "look". Beginning waits for a barrier: entries of earlier
// terms are in the state before anything is answered. An empty log first gets the cluster's id. On loss the intake is
// refused, flights are unknown, sessions are redirected and the dispatcher forgets everything; the next leader learns it
// from resumed sessions and the state. A leader that commits nothing of what it proposes for 10 s (a hanging disk, a
// transfer that raft does not end, hashicorp/raft#696) hands over or, failing that, asks for the end of the process.
//
// Raft tells nobody which configuration is committed, and at which index. Members does, by the entries and snapshots that pass here; what
// is decided about a member is decided upon that, by a leader that has answered a read.
//
// # Reads
//
// A linearizable read waits for one confirmation of leadership, shared by all that came before it began, by answers of a majority to
// what was sent after that (contacts: raft's own check takes any answer that comes in), in the term whose barrier has passed, and until the state has what was committed when it began. Raft's applied index counts what was handed
// to the state machine, so the group counts for itself. Only commands are waited for: a start on a snapshot that ends with raft's
// own entries does not bring those again. Stale reads take the state as it is.
// Who could be given messages (Consumers) is in no state; it is told to the functions that Read runs, so that both are of one moment.
//
// # Time
//
// Log time T is made by the leader: from (T, monotonic clock) of the last entry that it applied, by its monotonic
// clock, with 5 % of slew towards its wall clock. A leader's anchor is its own last stamp, not the last apply: under load
// entries are applied long after they were stamped, and T would run slow. For the same reason an entry counts from when it came and not
// from when it was applied, and a follower remembers the entry of this leader that came with the least delay, and lets its T run 7 % slow
// (the slew, and 2 % that clocks may differ by): a new leader that was a few seconds behind would otherwise make all that is due late by as
// much, until the slew had made up for it, twenty seconds a second. An earlier leader's entries say nothing: where T began lower under the
// one after it, leases given by that one would be cut short by what the next one took back.
//
// An idle group writes nothing, so the last entry may be hours old when a node first gets it. Live is an entry that came before its leader
// had called it committed, or within an election time-out of it, or that this node made; what is in the log at a start, comes to catch up
// with, or in a snapshot, is not (arrivals). A leader whose last entry was not live jumps: to where T would be by its monotonic clock since
// its last live entry, and to its wall clock only where it has seen none since its start. It says by how much (Shift), by which leases are
// prolonged, in every entry until one has been applied: raft may refuse the first and take the next. To take a live entry for an old one
// costs a jump of moments by the node's own clock; to take an old one for live has T behind by hours, for weeks. What is due is driven by a
// timer here.
//
// # Schedules
//
// keepTime wakes one goroutine when a schedule is due. It copies what is due, computes without the lock which times follow
// (cluster/calendar), and proposes steps the ordinary way; then it waits for all of them. A step names the fire time that
// it starts from, and the state takes each once: two leaders, a lost answer or a repeated round fire nothing twice. A time
// is missed when it is a minute late, which no election, transfer or restart is; until then it is fired late. A leader that
// cannot read an expression (its time zone data are older) says so once and leaves the schedule to others.
//
// # Invariants
//
//   - mu guards the state and all leader memory; intake.mu the intake. Neither is taken under the other.
//   - Log.Data is shared with raft, its cache and followers for an unknown time: never changed, never used again.
//   - inFlight ≤ Limits.InFlight, its bytes ≤ Limits.InFlightBytes plus one entry; what waits is bounded by count and bytes.
//   - sum over subscriptions of out = live leases of attached consumers; reserved = what flights have reserved; lent = the leases that
//     flights have lent on, each live and in one flight only, never more of a subscription than is reserved for it.
//   - A token in releases or releasing is on its way back exactly once.
//   - Pulls whose wait is over have one question who leads under way, however long its answer takes.
//   - After Fatal nothing is applied, answered with success or snapshotted.
//   - Each goroutine ends in Stop, in this order: farewell to sessions, flights, leadership, loops, raft, state.
//
// # Decisions
//
//   - 2026-11: a snapshot rests twice as long as it works. At full speed three nodes that share two processors and a disk gave entries
//     0.2 to 0.5 of their rate for a second, with a million queued; now 0.6 to 0.8 for three. In a hurry, when the log grows faster than
//     that, it does not rest: what it pins of the state and the log behind it are memory and time to start.
//   - 2026-11: the next one is due when the log has grown by as much as the last has, 128 MiB at least, and above 1 GiB by half of it.
//     What a start has to read and what snapshots cost a message are then both in proportion to the state. With half throughout, a
//     million queued cost W3 a sixth of its CPU.
//   - 2026-11: where room on disk is low (Space) a snapshot is due as soon as it gives back more than it takes: acks are few bytes of log,
//     and what they let go would stay on disk until 128 MiB of them have been written. One that would not fit is not begun.
//   - 2026-11: completion by the apply pass and not by futures: a future is a channel and a wake-up an entry, and its
//     goroutine would contend with the apply pass for the state. Futures are watched by one goroutine, for errors only.
//   - 2026-11: one lock over state and leader memory. The apply pass needs both at every operation; two locks would be taken
//     together always. The proposer takes it once an entry, doors for a subscription or a read.
//   - 2026-11: entries go to followers while the leader writes them (Ahead): a message alone took 0.70 of the time it had taken, 2,000 a
//     second 0.55, on one disk for three nodes. Rejected: to have the leader not count itself until it has written, since raft has
//     no hook for it and three nodes would then need both followers.
//   - 2026-11: a small entry waits for the one in flight. At 2,000 messages a second each had an entry of its own, and the disk
//     three syncs for it; together they took 0.72 of the time and 0.9 of the CPU, and W3 ran 1.1 times as fast. Two in
//     flight before waiting were no better than eight.
//   - 2026-11: credit is lent to the entry that frees it. W3 by turns against the tree without it, three pairs: 49, 76 and 79 thousand
//     messages a second against 65, 61 and 76, sent to received 35, 24 and 22 ms (p50) against 30, 32 and 25. An enqueue is confirmed
//     later there, after 12 to 19 ms against 8 to 10: so many are out at a time, and they now wait before they are confirmed instead of
//     behind that, in the queue.
//   - 2026-11: a queue is looked up once and held by reference (fsm.QueueRef). With ten thousand queues that take turns, hashing and
//     comparing its name at each step was a tenth of the leader's time.
//   - 2026-11: entries are not recycled. The log cache and a follower's pipeline hold the bytes for an unknown time.
//   - 2026-11: a pull's empty answer is given after a leader check and writes nothing: polling does not grow the log. A pull
//     of a queue that does not exist goes through the log, which says so. One whose message expires, or is purged, in the entry
//     that was to lease it is put back: in the log it is an operation that is not remembered unless it found something.
//     Of two with one idempotency key that wait, one finds something; the other is given the same, or told to ask again when its time
//     is over, since there is an answer now that it has not got.
//   - 2026-11: a connection without room pauses its subscription for 100 ms. Leasing and giving back would otherwise turn in
//     the log as fast as entries commit.
//   - 2026-11: a second connection of a session takes it over and its subscriptions lie dormant until resumed, rather than
//     being given back: the client has come back before its first connection was known to be dead, and still holds them.
//   - 2026-11: a subscription may be made before its queue exists: workers start before producers.
//   - 2026-11: raft's ShutdownOnRemove is off. What a removed member does is the node's to say, and a raft that stops by itself
//     can thus only be a failure.
//   - 2026-11: a worker whose task is cancelled is told by a call of its own, LeaseCancelled, and again when it resumes:
//     the lease is live, so it is not among those that are gone.
//   - 2026-11: who waits for results waits by queue and is woken by every result of it; kinds are for the reader to tell
//     apart. An index by kind would be paid for by each ack.
//   - 2026-11: while the state has something to give back and no entries come, the leader proposes empty ones, one a second, and
//     forty where there is more than one entry does. Without them a node that is full of what a purge has left, or of what has
//     ended, would refuse enqueues for want of memory and so never see the entry that frees it.
//   - 2026-11: members take their snapshots an eighth of the log's growth apart, by the order of their ids. Their logs grow alike:
//     all would copy what changes, and write, at once. Nobody asks anybody, so a restart or an install may bring two together.
//   - 2026-11: the watch over wall clocks against the voters' median (10 s) is not here yet.
package group
