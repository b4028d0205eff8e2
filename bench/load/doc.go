// Package load puts load on a Quorate cluster and measures it: the workloads behind `quorate bench`, behind the figures
// in the README, and behind the fault tests, which run one while they kill nodes.
//
//	       producers                                   consumers
//	┌──────────────────────┐                   ┌────────────────────────┐
//	│ slot: body, due time │──EnqueueAsync──▶  │ deliver: check, ack    │
//	│ ◀─ done: confirmed   │     cluster       │ ◀─ done: ack confirmed │
//	└─────────┬────────────┘                   └───────────┬────────────┘
//	          └────────────▶  ledger  ◀────────────────────┘
//	               sent · confirmed · received · acked, per message
//
// Every client is a client.Client of its own. W1 sends, as fast as confirmations come back; W2 drains a queue that was
// filled before, each message acknowledged and each ack confirmed; W3 does both at once; W4 does both at a given pace and
// counts latency from when a message was due, so that a stall is charged with all it held up; W5 sends one at a time.
//
// Four more measure manners rather than speed. Delayed fills a queue with messages that come due at a rate, in another order
// than the one they were sent in, and says how late each was received; half-way its caller may kill the leader. Priorities
// sends ten of them at half and at twice of what the consumers can handle and says how long each waited. Keys has two
// queues with the same keys, one unordered, one ordered with a part of the keys stuck, and compares their speeds by
// turns. Fair has many tenants share a queue, one of which floods it every other turn, and compares how long the rest waits. Flat does W3 with little and with much
// standing beside it (messages, queues, idle connections), by turns, and compares what a message costs the servers. Queued fills a queue and finds what that costs in
// memory, in snapshots and at restarts of nodes that it kills. Each judges what is its own as well: that nothing comes early, that the log shows no lease which passed over
// a message that had to go first, that no two messages of a key are out at once or change places.
//
// # Phases
//
// (W2: preload) → warm-up → measure → drain → judge. Rates, latencies and CPU are of the measured time only. Draining
// goes on until every enqueue has its outcome and, with consumers, every confirmed message has been received; twenty
// seconds without any progress end it. Then the ledger is read: no benchmark passes that loses, doubles or invents a
// message, whatever its speed.
//
// # Bounds
//
// Unconfirmed enqueues per producer, leases per consumer, messages in the queue (producers of W3 and W4 wait when consumers
// fall behind), messages of a run, errors of a run, and time everywhere. Closing a run's clients and deleting its queue
// have their own few seconds when the run was cancelled.
//
// # Decisions
//
// 2026-11: Bodies carry sequence number, run, due time and checksum, and the ledger the checksum that was sent: a
// consumer tells a repeated, foreign or changed message without a shared map.
//
// 2026-11: W3 has a bounded backlog. Without it the faster side runs away and the end-to-end latency only says for how
// long the run lasted.
//
// 2026-11: The pace of W4 is kept by a timer that wakes a millisecond late on some machines. That lateness is part of the
// latency, since a message is due when it is due, and is reported beside it (late_ms) rather than taken off.
//
// 2026-11: Lateness is judged in whole milliseconds, in which due times are given, against the wall clock of the consumers'
// process. Log time would be no witness: it is what is on trial.
//
// 2026-11: Order by priority is judged afterwards from the places in the log that ids and tokens carry, and only where it
// can be concluded: a message enqueued in the very entry of a lease may have come behind it. A message that the leader took
// back unsent, having been leased in its turn, would look like one that had been passed over; that takes a connection
// without room, which windows this small do not make.
//
// 2026-11: A consumer of given capacity acknowledges one message after the other. Giving each message a fixed time and
// limiting how many are out made the capacity depend on how long the way to the broker and back took.
//
// 2026-11: The speed of Keys is that of acknowledged messages: what is sent for stuck keys is work that comes to nothing, and the
// ordered queue is charged with it. Of what is sent for keys of which a tenth are stuck 0.9 can be acknowledged, so the ratio
// of what was sent is told too: it is the price of the order alone. Both queues may have as many messages more than were there before,
// those for stuck keys apart: with one bound for all the ordered queue took in for many seconds what it could not give back,
// and its figure was more of enqueuing than the other's. The sides change order every round: whatever slows a
// cluster down in the course of a run would else be the second one's.
//
// 2026-11: What is queued in Flat is in the very queue that is worked, in front of what is sent: what a consumer gets has then lain there for
// long, in memory that is cold. In a queue beside it only the size of the state would count. A turn fills and empties queues of its own,
// which takes much longer than measuring with millions of messages, and accounts for every one of them.
//
// 2026-11: Queued sees who writes a snapshot by the folder that its node has meanwhile, every 50 ms, and adds up what was done in all such
// times, and in all others, of one load that goes on until each node has written one. A rate just before and just after one would often
// be that beside another node's.
//
// 2026-11: A median over repetitions is the whole result of the median run, not a median figure by figure, and carries
// the sum of all runs' faults.
package load
