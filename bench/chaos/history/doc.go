// Package history judges runs of real nodes: what clients saw, and what the committed log did, against the contract.
//
//	clients ──Call, Return, Deliver──▶ Recorder ──▶ events.jsonl ──────────────┐
//	                                                                           ▼
//	nodes (-tags chaos) ──applied entries──▶ *.tap ──ReadTaps──▶ Replay ──▶ effects ──▶ Check ──▶ Report
//	                                            │                  │
//	                            nodes that differ at an index     digests, to hold against the nodes' own
//
// # What is recorded
//
// An Event is one thing a client saw: a request before it is sent, its end (ok, refused, unknown), a message that arrived.
// All clients of a run share one process and one monotonic clock, so that "returned before that was sent" means something.
// Requests bear their session and number, answers the log index and log time at which they took effect.
//
// An Effect is one thing the log did: an entry with its T and ΣShift, an operation with its outcome, a lease that a due move
// ended, a task that came to its end. Effects are made by applying the entries that the nodes of a chaos build have written
// out as they applied them, from the first entry on and over snapshots and restarts. That no entry is missing is shown by
// the digest: the replayed state at the last checkpoint must be that of all nodes.
//
// # How it is judged
//
// The judge walks the effects with a book of its own: queues, messages, lanes and a clock, written from the contract and
// sharing nothing with the state machine but the formula of retry delays. It says of each operation what its outcome must
// be, which leases an entry's due moves must end, and which message must go out next, and reports where the log disagrees.
// The checker then holds each call against the log. Both take n log n in the number of events: heaps for places and
// deadlines, maps by request id and token, one sort by the clients' clock.
//
//	G1   every confirmed enqueue is in the log, can be read at the end, and stands there as the log has it; what an ack
//	     carries is enqueued in its entry; what a message leaves in the KV when it dies is there, and can be read at the end
//	G2   what is delivered, and what is in the log, was sent by somebody, byte for byte: bodies that were replaced or edited too, and what
//	     schedules make; a message goes out of its own queue
//	G3   tokens rise; a lease follows a nack, a release, or an expiry at its deadline as extended; no expiry is left out
//	G4   every ack, nack, extension and release gets the outcome that its token deserves, in the log and at the client
//	G5   acks of one token that succeed have one result; another result is refused with already_exists
//	G6   a message ends once, and an ack that is repeated enqueues nothing more; linearizable reads see that end, from its
//	     entry on and not before, with the same bytes; what is delivered at most once is done with its lease, never goes out or
//	     arrives again, and an ack of it records and enqueues nothing; a dead letter comes back once, and is gone once it has or was
//	     deleted; a batch calls back once, when its last member has ended; a death is moved to the dead-letter queue in its entry, once, with
//	     its origin, and comes back from there to where it died; a cancelled task goes out no more and takes no result; each time of a
//	     schedule makes one message; a key of the KV changes by a death and by its deletion alone
//	G7   the queues drain once faults end, and none hands nothing out for longer than Config.Within while a message is ready; no time of
//	     a schedule is passed over but as its policy for missed ones has it, and none is late by more once faults have ended
//	G8   a dedup key makes one message a window; duplicates name the first; other content is refused; nothing is forgotten, but with the
//	     queue
//	G9   each lease is the one that the mode demands: priority and place, the head of the queue, the head of the key; an
//	     enqueue that was confirmed before another was sent stands before it
//	G10  attempts have no gap, repeat after free returns only and stay within the policy; retries are due when they must be;
//	     a dead letter has the right reason, count and error; one that is requeued begins anew
//	G11  what was refused at the door is not in the log; an unknown request is there once or not at all; a request that is
//	     sent again gets its first answer and has one effect
//	G12  nothing succeeds from end to end while no majority is alive
//	G13  T and ΣShift never fall, and are what the answers say; a lease that ran out lasted by the clients' clock too; no schedule fires
//	     before its time
//	G14  the order of the log keeps that of real time, for all operations; each answer is what its entry did: a task is moved while it
//	     waits, and not while it is out, to the time that was asked for; purges and deletions take what is there, and count it; reads of
//	     the KV see the last change
//	G15  no two nodes applied different entries; the states are equal (ReadTaps, and the digests)
//	G18  a queue or a key with a rate hands out no more in any window of log time than the rate and its burst allow, and a key that is held
//	     back is no hindrance to another
//
// SecondOpinion asks Porcupine, message by message, whether any order explains what clients saw, without the log.
//
// Violations, and the counts of lost, unexpected, duplicated and recovered messages, are kept for each ordering mode. A run
// also has to have met what it is about: stale tokens, late acks, lost leases, unknown outcomes of both kinds … (see
// required). Where one of these counters is zero, the run is vacuous and fails.
//
// # What is not judged
//
// What bench/chaos/workload does not use: options of a queue that change, limits in flight, keys that take turns, task ids of
// the client's own, schedules of other expressions than every n-th second. It is reported under the guarantee "judge", so that nothing is
// passed over in silence. That an operation that is refused leaves the state as it was is shown by the model in fsm/fsmtest.
// Which of its ids a redriven message that ended without a result is still found by, or one whose result came before, is left open; and
// that what is delivered at most once gets through at all, which nobody promises: it is counted.
//
// # What a run goes through
//
// TestHistory kills leaders (-history-kills), freezes some until they are deposed, kills two nodes once, so that clients knock at a
// door without a majority, and all nodes once, which then start with wall clocks that are wrong by up to -history-skew:
// whoever leads may jump in time. Snapshots are taken every 256 KiB of log.
//
// # Using it
//
//	go test ./bench/chaos -run TestHistory -v                                        a short run, all modes
//	go test ./bench/chaos -run TestHistory -v -history-for 5m -history-kills 40 -timeout 20m
//	        -history-modes fifo -history-keep /tmp/h -history-race -seed 7
//	go run ./bench/chaos/history/recheck /tmp/h                                      judge a kept history again
//	go test ./bench/chaos/history -run Recording -from /tmp/h -times 20              plant lies in it
//
// # How it is known that it catches anything
//
// plant_*_test.go list kinds of lies, several for each guarantee. Each is put into a history told by hand (story_test.go) and,
// at random places, into one that real nodes made (testdata), and must be blamed on the right guarantee.
//
// # Decisions (2026-11)
//
// Effects rather than entries are what is judged and kept: a lie can then be planted in what the log did, and a kept
// history can be judged by a later build whose entries have another format.
//
// After a disagreement the judge follows the log. Stopping would hide what else is wrong; going its own way would report one fault
// a thousand times.
//
// A client that speaks the wire protocol itself makes most of the history, since the SDK hides request numbers, repeats
// and entry indexes; the SDK works beside it as a subscriber.
//
// Porcupine gets one message at a time and no log: for whole ordered queues its search is hopeless, for single messages it is
// milliseconds. What nobody can see (an expiry, a death by it) its model allows at any time, so it finds less than the
// judge does, but it shares nothing with it.
package history
