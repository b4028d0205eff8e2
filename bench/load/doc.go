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
// 2026-11: A median over repetitions is the whole result of the median run, not a median figure by figure, and carries
// the sum of all runs' faults.
package load
