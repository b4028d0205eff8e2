// Package fsmtest is a second, slow and plain implementation of the replicated state machine, with a generator of
// random entries and a comparer that holds package fsm to it. It is for tests and benchmarks only.
//
//	           seed
//	            │
//	            ▼
//	        Generator ◀── looks for live tokens, dead letters, ends ──┐
//	            │ entry                                               │
//	    ┌───────┴────────┐                                            │
//	    ▼                ▼                                            │
//	fsm.State ◀─Cut─▶ snapshot     Model (slices, walked) ────────────┘
//	    │ outcomes, leases, queries  │
//	    └───────────▶ Pair ◀─────────┘      different: shrink the steps, print them
//
// Model knows the contract and nothing of how fsm keeps its state: of package fsm it uses the values (operations,
// options, outcomes, ids) and nothing else. Whoever changes the model must not look into fsm for the answer: a
// disagreement is settled by the contract, and where the contract is silent by a decision that is written down here.
// It is pure as fsm is: the same entries give the same answers.
//
// # What is compared
//
// After each entry: every outcome with all of its fields, the leases handed out in their order with token, consumer
// and attempt, which leases ended and how, and whether due moves remain; and with another state, which has applied the same log
// and was never restored, all of these and what the leader is told, each in its order. Now and then (and at each step of a
// shrunk failure): the state's own Check, clock, NextDue, queues, options, counters, every live message and dead letter
// with its fields, every lease as its worker sees it, status and result of every task by both of its names, sessions,
// remembered requests, consumers and their leases, and the counts in Memory. A cut writes a snapshot, restores it, wants
// equal digests and equal bytes from the restored state, and goes on with that. A view that is held while entries go on
// must be written as it was. In the end the log is applied to an empty state, which must have the same digest; then
// all work is done, purged or deleted, time passes, and every count of Memory must be back to zero.
//
// Where keys matter, what can be leased is compared by what is leased, in its order; what the leader is told of it beforehand must
// say whether there is something at T and later, and when to look again, not later than when there is; not how much.
//
// Not compared: QueueStats.Refused, RefusedBy and OldestEnqueuedAt (but for their being zero when a queue is empty),
// Outcome.Limit where it is not the maximum of a table, and what Effects.Tasks and Effects.Ready tell beyond what they must. Of
// several options that are wrong a refusal may name any, but none that is right; of a message's fields, the model follows fsm's order.
//
// Not covered: a full table of keys in debt.
//
// # Using it
//
//	go test ./fsm/fsmtest                                          10 seconds of seeds from 1 on
//	go test ./fsm/fsmtest -run TestModel -seed 7 -seeds 1          one seed again
//	go test ./fsm/fsmtest -run TestModel -seed 0 -for 1h -timeout 0  a campaign from a drawn seed, printed
//
//	go test ./fsm/fsmtest -run TestModel -seed 1 -seeds 20000 -ops 200 -timeout 0   20,000 sequences
//	go test ./fsm/fsmtest -run TestPrefixes -prefixes 500 -long 20                  snapshots at every index of 500 sequences
//	go test ./fsm/fsmtest -run TestTwin -twins 500                                  the metamorphic tests
//
// TestTwin… play one log in two ways that must come to the same: requests that are sent again, batches that are split, ids and names that are
// others, tokens that are stale. Each says where the contract has it otherwise. TestPrefixes, TestConcurrentStates and TestWasm are about
// one log that comes to one state: through snapshots at any index, on one thread or two while others read, and on another architecture
// (fsm/fsmtest/wasip1 runs it). TestPure reads the sources for what no run shows.
//
// TestCoverage runs the model alone, until every answer and branch that is wanted has been seen: whoever adds an operation
// adds what must be seen of it. TestGolden applies a log that earlier builds wrote; -update draws it anew, for when bytes of the
// log or of snapshots have changed.
//
// A history checker replays a log through Model alone: DecodeEntry, then Apply, then compare with what clients saw.
//
// # Decisions
//
// Where the contract leaves a choice, this is the reading (all 2026-11). Time:
//
//   - A dedup key still holds at T = first + window, since messages of one key are created more than a window apart; all
//     other records are over at T = end.
//   - A move made in an entry can make another one due in the same entry (a retry of delay 0 after an expiry): it is made
//     too, in its order, within the 1,024.
//   - A message with nack delay 0 is retrying until the next entry's due moves.
//   - The deadline of a lease is the earlier of its length and the attempt's timeout; time left is never below 0.
//   - A dead letter whose retention has passed stays gone when the option grows.
//   - The order of tables in reclaiming is dedup keys, results, tombstones, sessions, dead letters.
//
// Ids and places:
//
//   - The offset of an id counts what is made in the entry, from 0: messages, leases and sessions alike. What is refused
//     takes none.
//   - A place is drawn from one counter of the group; only its order within a queue can be seen.
//
// Enqueue:
//
//   - The checks are in this order: name, missing queue, bad field, dedup key, task id, too large, dead letters, results,
//     dedup table. So a repeat is told what there is even when the queue is full.
//   - A queue is not created for a message with a bad field.
//   - Names and texts (task id, kind, content type, headers, worker) are UTF-8; body, result and key are any bytes.
//   - A negative delay is refused, as one too long is, also beside an absolute time.
//   - The answer to a dedup hit names the result of the task that the first message's id names. After a redrive that is
//     found where the task id was the message id, and else not: only the id is remembered.
//   - A batch that is too large is refused message by message, field batch.
//
// Leases:
//
//   - ttl is judged when a message comes back, in the same operation or move, and before anything else: also before
//     permanent. At T = enqueue + ttl it is over.
//   - A free return beyond the sixteenth in a row costs the attempt and goes on as a release, to its old place, with
//     "released too often" in the history; it dies of max_attempts when that was the last. Nack and expiry end the row.
//   - A release for a stream that was closed costs the attempt and goes on as one, with "stream closed", and ends the row too.
//   - A repeated nack or release gets its first answer, whatever became of the message since.
//   - Ack, nack and extend judge their own fields only once the token has been found good.
//   - How many messages an entry hands out in all is the proposer's affair; Apply has no bound for it.
//   - A repeated lease request reads its tokens again by position, among the leases of the operation's consumer.
//
// Results:
//
//   - An ack again with the same result, or again without one, is a plain success; with another, or with one where there
//     was none or none where there was one, already_exists. Where the recorded one was pushed, it is a duplicate.
//   - A push on a task that is done without a result changes nothing (duplicate); on a dead one it is recorded, and the
//     dead letter stays; the task is then done, whatever its message does.
//   - A pushed result answers late acks of the message's last lease where that ended by expiry or release; while a dead
//     letter is there, that comes first, with lease_lost.
//   - The text of a message's first id names its task also after redrives and without a queue, where it is the task id and
//     there is more left of it than a tombstone.
//   - A push names its task by task id or by message id. Without a kind it takes the message's.
//   - A push for a task that is live or dead is taken by a full table, as an ack would be; for any other it is refused.
//   - When a redriven message is acked whose task has a pushed result, a tombstone keeps its token answerable.
//   - A result counts 128 bytes, its output, and its texts each with a length of one or two bytes; a task id that is the
//     message id counts nothing.
//   - then: any refusal refuses the ack, with the field of the message or "then"; a dedup key with the same content is
//     passed over. The holder of a taken task id is named, unless it is of the same list.
//
// Order and limits:
//
//   - Of an ordered group the message of lowest place among those that are ready, out or waiting for a retry is served; a
//     scheduled one has no place yet. One whose retry is due is ready at the place it had.
//   - The priority is judged once the queue is found, before the dedup key; a requeued message takes the default one.
//   - A message counts towards max_bytes its body and each field that is set, with the lengths before them; see size.
//   - What would not fit in the queue alone, or a chain that would not fit beside what it acks, is too large, also where the queue
//     is full: that comes before everything that ends by waiting. A requeue may name what else keeps it out.
//   - Depth and bytes are judged before dead letters and results; by a requeue bytes after results.
//   - max_age_ms is a ttl like one that was given, kept by a requeue.
//   - The ordering may be set to what it is at any time.
//
// Keys:
//
//   - A flow of an ordered key holds one message at a time: when that goes, whatever way, the flow is empty for a moment. So it
//     leaves its ring and comes again at the tail, and a key that was held is judged anew.
//   - So it is with a ready message that is rescheduled to be ready: it goes, and comes again.
//   - What an ack has ended is judged before what it enqueues comes in, link by link; then those die that made room.
//   - A lease whose key is full holds back what of the key is ready.
//   - The leader is told of a key that its rate holds when the first message comes to be held so; not again by time.
//   - Options about keys that are other numbers have every key judged, also where the rate that follows is the same.
//   - From T = 8e12, in the year 2223, rates hold nothing back, and what they have held until then is let out then.
//
// Requests, queues, dead letters:
//
//   - A repeated request gets the outcome as it was, without a mark; one id is remembered, which stands for the id and
//     finds the result, under it or under the redriven message whose first id it is. low takes effect before the number is judged.
//   - Purges and deletes count records that are over and not yet reclaimed; DeleteQueue counts live messages and dead
//     letters.
//   - With drop_oldest the oldest dead letters go when one dies, before it is added, until there is room, but not more than 1,024
//     where max_dead was lowered: the others go at the next deaths, and are there until then.
//   - A requeued message keeps its ttl, timeout, retry policy, key and original id; its history and error begin anew. A
//     full dead set does not refuse a requeue, full results do.
//   - What was moved to a dead-letter queue is a message of that queue with its retry policy and timeout; its ttl is the
//     queue's max_age_ms, and priority and ttl are its own again when it is requeued. Its status tells of the life that its
//     task had in the origin, and once it has died where it was moved to, of that death.
//   - It is named by (origin, task id), by its new id alone or with the queue where it is, and by its old id alone or with
//     the origin. An id that a result or message has comes before an old one.
//   - Nothing is moved twice, also where no queue names the dead-letter queue any more.
//   - A dead-letter queue that would refuse an enqueue is full. So is an origin for what comes back from there, by its dead
//     letters too: it makes no room among them.
//   - The ack of what was moved answers as an ack without a result, again and with whatever result, also where one was
//     pushed; a push for it leaves its token alone.
//   - The message of an edit is judged whole, also the fields that are not named.
//   - Where several tables are full, the refusal may name any of them.
//   - An unset policy field takes its default only for the kinds that use it.
//
// Tasks by their id:
//
//   - Whoever asks for a cancelled task finds its record; lists of what is out, and who holds what, have its message, in
//     state cancelled, as long as its lease lasts. To cancel it again says that it is out as long as it is.
//   - The token of a cancelled task is answered cancelled however that lease ended, as long as the task is remembered. A lease
//     of one that runs out counts as expired, one that is answered as nothing.
//   - A task that has a pushed result is done: it is neither cancelled nor rescheduled, though its message goes on.
//   - Cancel and reschedule of what has ended otherwise: failed_precondition, and no id.
//   - What is asked for that is due at T or before is ready, and so is a retry whose time is kept and has come.
//   - A replaced body must fit into max_bytes where it is longer than the one before.
//   - The text of an id names the task in its queue whose task id it is; without a queue nothing but the message of that
//     id, or what became of it.
//
// KV:
//
//   - A message names each key once. What it reserves counts, also where the key is there or another has reserved it.
//   - A key whose time is over becomes a kept deletion when it is reclaimed, at a position and T of its own. Until then it is among
//     no changes.
//   - Purges end hooks after the operations of the entry, in the order of their messages.
//
// Batches and schedules:
//
//   - A message is counted by its batch from its enqueue; full tables refuse it before its batch or keys do.
//   - A callback's priority is judged against the order of its queue when the batch is made, and set to the default where the
//     queue has been ordered since.
//   - A schedule is refused where its queue is missing and it would not make it. What it was declared as is compared with the
//     defaults of its policy filled in.
//   - A step is judged by schedule, generation, time and pause first, then by its own fields. One before the planned time and
//     its jitter is refused, whether it fires or not. A message that is refused makes no refused step.
//   - Pausing and going on plan anew, as another expression or zone does.
package fsmtest
