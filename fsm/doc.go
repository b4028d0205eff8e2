// Package fsm is the replicated state of one group and its rules: what every node computes from the log, and nothing else.
//
// # Purpose
//
// A node hands every committed entry to [State.Apply], in the order of the log. Apply gives each operation its [Outcome] and
// tells the leader through [Effects] what it has to pass on: leases handed out, leases and tasks that ended, queues that have
// something ready. Everything else here is reading ([State.Task], [State.Stats], [State.Dead] …), pictures for snapshots and
// digests ([View], [Restore]), and the formats of entries and snapshots.
//
// The result of an entry depends on the entries before it alone: no clock but the log's, nothing random, no floating point, no
// map, no goroutine. Apply does not fail: what a client can do wrong is an outcome, the same on every node. An error means that
// this build cannot read the entry, and then nothing has changed.
//
// # An entry
//
//	T, ΣShift ── due moves ── operations ── reclaim ── (local) garbage, compaction
//	             ≤ MaxDueMoves  in order     ≤ MaxReclaim
//
// T is the greatest Now seen. Shift says how much of T's step was a jump of clocks: lease time is T − ΣShift, so a jump ends no
// lease early. Due moves are what time does to messages: a delay over, a retry due, a lease at its deadline, a ttl over, in the
// order of (due, kind of move, message id) over all queues. A lease lives until the move that ends it, never by comparison with
// T. Everything else that time ends (dedup keys, results, tombstones, sessions, idempotency keys, dead letters past retention) is gone for every
// look-up once T has passed its end, and is taken out of its table by reclaim, in the order of (table, end, position); a
// table's maximum counts what is not yet reclaimed. That asks for no entry of its own (NextDue); [State.Untidy] says when one
// would give something back.
//
// # Where things are
//
//	message 64 B ──body──▶ arena: optional fields │ body           (fsm/arena, off the Go heap)
//	   │ next, prev: ready list of (queue, priority), or dead list
//	   └─side──▶ side 88 B: due, ttl, lease, attempts, how the last lease ended ──history──▶ arena
//	                │ heapPos: the queue's calendar (T) or lease heap (lease time)
//	                ├ older, newer: the consumer's leases           └ worker (shared text)
//	queue ── ready[0..9] lists, released heap, due, leases, dedups, results heaps, results in order, dead list, tombstone list
//	clocks ─ one heap of queues for each kind of end, by the earliest in each
//
// A message that is only queued is its record, its blob and a slot in the id index. It gets a side when it is delayed, given a
// ttl, leased or dead, and keeps it: the side remembers the last token and how that lease ended, which is what makes repeated
// acks and nacks answerable. A message that is done becomes a result or a tombstone, one that is cancelled a tombstone. Where it
// is out then, its record stays, flagged, for its lease alone: everyone but the holder of the token finds the tombstone. Its task is found by message id, or by
// (queue, task id) where one was given: the default task id is the message id and is in no second index. A redriven message
// keeps its task id; where that was its first id, it is found by that too.
//
// What dies where a dead-letter queue is named is moved to it in the same entry: an ordinary message there, under a new id, with
// a move (fsm/moved.go) that keeps its old id, last token, history and reason, and the number and name of its origin. Its task
// is still the origin's: (origin, task id) is in the task index and leads to it. Dead letters stand in sorted pages by
// (failed_at, id), all of a queue's, those of each reason, and those of each (reason, kind), its own and the moved ones apart.
//
// Ready messages are served by priority, then place. Places are numbers taken group-wide when a message becomes ready; one that
// is released keeps its place and waits in a small heap beside the list.
//
// # Order
//
// An ordered group of messages (all of a fifo queue; of a per_key queue those of one key) is a lane, found by (queue, key):
//
//	holder: the one message that can be leased, is out or waits for its retry ──▶ row 24 B ── head ⇄ … ⇄ the last one
//	index ── the last message of the lane, or the holder alone ─────────────────────────────────────▲
//
// Only holders stand in the queue's ready lists, so whatever is leased is free to be leased, and a lane that is stuck is not
// looked at again before it moves, however much waits in it. The holder keeps its place until it is done or dead; then the
// first one behind it becomes the holder, at the place it has. Messages without a key have no lane in a per_key queue. A lane
// goes with its last message. All of it follows from the states and places of the messages: a snapshot has no lanes.
//
// A lane of one message is a slot in the index and nothing else. What waits behind the holder is in a row, which messages of the
// lane know, so that a lease looks up no key, and an end only where the lane ends with it. With a million keys each look-up waits
// for memory. The queue's ready lists, one for each priority, serve an ordered queue, which knows one priority, as up to ten
// lists in the order of places: holders change in the order of acks, and a heap would be entered by nearly all of them.
//
// # Keys
//
// Where keys matter beyond their order (max_in_flight_per_key, rate_per_key, fair_by = key) what can be leased is in flows, one for
// each (key, priority), and not in the queue's lists:
//
//	keyRec 80 B ── flows ──▶ flow 52 B ── head ⇄ … ⇄ tail: messages by place
//	  │ ready, out, tat, state     │└── tree: those that came back to an older place (a pairing heap, flow_tree.go)
//	  ├─ debts: heap by tat        ├─ open, without fair_by: in the queue's heads, a heap by (priority, place) of the first message
//	  └─ held: heap by the T at    └─ open, with fair_by: in the ring of its priority
//	     which its rate lets it
//
// A key is idle, open, full (as much of it is out as may be) or held (by its rate), and only the flows of open keys stand where
// serving looks. A key is judged when something of it happens and when its time has come, never by a scan: what is parked costs
// nothing, however much it is. The queue's heads or ring say in one step what is next. Of the records only debts, what is held
// and the rings are in snapshots; the rest follows from the messages.
//
// Having keys matter, or no more, sorts all that waits in the entry that says so: for a million messages of a thousand keys about
// 0.2 s, of a million keys 0.4 s to 0.8 s (on); 0.1 s to 0.5 s (off). Other limits of keys are one pass over the keys, 0.3 s to
// 0.5 s for a million. A key with its flow takes about 150 bytes and its text.
//
// Records lie in pages (fsm/table) that a View shares until they are written to. Indexes, lists and heaps are not in views or
// snapshots: Restore makes them anew. Slots, chunks, page contents of free records and the order within a heap differ from node
// to node; nothing of them shows in an answer, a snapshot or a digest.
//
// # Invariants
//
// [State.Check] proves them by scanning:
//   - a message that can be seen is linked in exactly one place, the one of its state, and counted there;
//   - each message of an ordered queue that is ready, out or retrying is in its lane: one holds it, with the lowest place, and
//     only ready ones wait;
//   - a queue stands in each clock with the earliest of what it holds;
//   - each message that can be leased of a queue whose keys matter is in its flow; a key's counts are those of its messages, leases
//     and flows; its state is the one that its counts and its rate demand, but that one whose time has come is held until that
//     is noticed; exactly the flows of open keys stand in the heads, or once in their ring, whose head alone may have a turn;
//   - every blob in the arena is held by the one record that its owner says;
//   - every index holds exactly the records that it should;
//   - no table is over its maximum, but for dead letters and results of what was already in, which are never refused.
//
// # Tables
//
//	table          ends                         maximum                         when full
//	dedup keys     window, last ms included     dedup_max_keys                  queue_full, FieldDedup
//	results        result_ttl_ms                max_results_bytes               enqueue, push: queue_full, FieldResults
//	tombstones     TombstoneMillis              MaxTombstones a queue           the oldest goes, counted (done and cancelled)
//	sessions       SessionIdleMillis idle       MaxSessions, MaxSessionBytes    overloaded, FieldSessions
//	outcomes       low passes                   RequestWindow; MaxSessionBytes  invalid_argument; overloaded
//	idempotency    IdempotencyMillis            MaxIdempotencyKeys, -Bytes      overloaded, FieldIdempotency
//	keys
//	dead letters   failed_at + retention now    max_dead                        queue_full, FieldDead, or the oldest goes
//	KV keys        KVTTLMillis, deletion        MaxKVRecords, reserved included  queue_full, FieldKV
//	KV deletions   KVTombMillis                 MaxKVDeletions                  the oldest goes, counted; watches from before it list again
//	batches        BatchOpenMillis unsealed,    MaxBatches, MaxCallbacksBytes   overloaded, FieldBatches
//	               BatchKeepMillis done
//	members        their messages end           MaxMembers open in a batch      queue_full, FieldMembers
//	hooks          the message ends             those of live messages          as those
//	moves          their message goes           one a live message or dead letter, which are bounded: the letter stays, counted
//	queues         deletion                     MaxQueues                       overloaded, FieldQueues
//	lanes          with the last message         one a live message, at most      –
//	keys, flows    with message, lease and debt  one a live message or debt     –
//	keys in debt   the rate's instant           MaxKeyDebts a queue             queue_full, FieldRatePerKey, for what has a key
//	schedules      deletion                     MaxSchedules, MaxScheduleBytes  overloaded, FieldSchedules
//	schemas, mappings  change, deletion          MaxMappingBytes of text         overloaded, FieldMapping
//	live messages  done or dead                  max_depth, max_bytes            queue_full, FieldDepth, FieldBytes, or what waits dies;
//	                                                                             too_large for what could not be in it alone
//	live messages  done or dead                 MaxQueueMessages, MaxGroupMessages  queue_full; overloaded; FieldTasks
//
// # Formats
//
// An entry begins with entryFormat, a snapshot with the format of frame.go. A build that finds a format, an operation or an option in the log that
// it does not know stops before that entry, names it, and starts again where it stood once it is a newer one: it never applies half of it, nor
// something else. A node whose newest entry format is older than the cluster's is not let in.
//
// Until 1.0 nothing more is needed, and nothing more is there: what was added to the first operations (AckMapped, NackMapped and Idempotent were the
// last: 24 and on) and to the presence bits of options is written as soon as who leads knows it, whatever the others know, and bumps no
// number; a cluster is upgraded by running one build on all of its nodes. What is read otherwise than before bumps the number of its format.
//
// From 1.0 on, what is new in the log (an operation, a field, a bit, an option, a meaning) is part of the next entryFormat and of nothing
// less. Who leads proposes it only once each member, voter or not, has announced that format (the announcement's Entry, which joins and the
// members' status carry); until then the door refuses with failed_precondition and names the members that are behind. What all understand is
// written down in the log by an operation of its own, so that a member that comes later is measured by it and not by who happens to lead. An
// operation is never taken back or given another meaning.
//
// # Decisions (2026-11)
//
// Heaps and lists belong to queues, and a second level orders the queues: a purge or a deletion swaps them for empty ones in one
// step, and what they held is given back a bounded number of records an entry, unseen. With one heap for all, a million purged
// messages would have to be picked out of it, or stand in the way of those that are due.
//
// Ids in one entry are numbered by one counter over messages, leases and sessions: all that is asked of them is that they
// are unique and rise.
//
// Two outcomes of requests are not remembered: the refusal of a request for want of room for its outcome (overloaded, FieldSessions), and that
// of a lease that waits and found nothing, which is not its answer yet.
//
// An idempotency key stands in the log before the operation that it is for, and belongs to it: there is no moment at which one has happened
// and the other has not, so whoever was not answered may send both again, through any leader, and is answered with the outcomes of the
// first time. What is kept are outcomes and not the answer's bytes, which nobody knows before the entry is applied: keeping those would
// take a second entry, and a leader that dies before it leaves a key without an answer. Like outcomes side by side are kept as one, so that a batch
// of a thousand is a record. What the proposer must know besides, to give the same answer, is the note, which means nothing here. A repeated lease
// has those of its messages that are still out, whoever asks: the first consumer is kept with it. Several operations of one request are its
// parts, under one key, so that a key which is another request's refuses all of them.
//
// An answer of queue_full or overloaded, of which nothing happened, is not kept: it says to try again, and the key would stand in
// the way. All other refusals are. Where a request has looked and found nothing to do, what is kept is the outcome of Nothing, an operation
// that does nothing, with what it found in the note. Where there is no room to keep an answer the operation is refused before it is carried out, for which as much room
// is asked for as any may need. Keys end in the order in which they came, so their table is a list. A million keys of one answer each take
// 162 MB.
//
// Rejected: a session for each caller by HTTP, which is an entry in the log for each, where acks and the like have no request id; evicting the oldest
// key, since then nobody can rely on one.
//
// A ttl that has run out while a message was out decides before anything else when it comes back: the reason is expired, also
// where the worker said permanent or the attempts were spent.
//
// The result of an ack is the same only with equal output: none and some differ. A task that was done without a result keeps
// that end: a result pushed later is answered as a duplicate, without one.
//
// A result pushed for a dead letter is recorded beside it; the letter stays. A message that goes on although its task has a
// result (it was out when that was pushed) lives by the ordinary rules until an ack finds the result, or it dies.
//
// An ack's then is all or nothing: a task id that is taken, or a dedup key that stands for other content, refuses the ack as a
// full queue does. Storing the others would lose a link of a chain in silence.
//
// A result pushed after a lease ended by expiry or release is the answer to the late ack of that lease, as it would have been
// had it come while the lease was live.
//
// A late ack's result counts the attempts that cost one: a message released on its first delivery and acked after all has none.
//
// A dead letter that dies into a full drop_oldest table pushes out the oldest other one, never itself: its nack can still be
// answered. Where max_dead was lowered, a death makes MaxReclaim go at most, and the next one goes on: an entry's work stays bounded.
// Until then the others are there for everyone, counted and answered for. Rejected: a cut that hides them at once, as a purge does,
// since it would have to be found by position in a list that is walked.
//
// A requeued message has its ttl anew, as long as it was. It is not refused for max_dead, since it makes room there.
//
// The tombstone of a redriven task is found by (queue, task id) and by its last message id, not by its first without the
// queue: 64 bytes hold no third name.
//
// Cancelling a task that has ended otherwise, dead letters included, is failed_precondition: it has one end. Cancelling again
// is the same success. The task id of a cancelled task is free when its tombstone goes, also where its lease is still out.
//
// An extend that is answered cancelled ends nothing: the worker is still at it, and the slot is its until it says otherwise or
// the deadline, which no extend moves any more. After a repeated pull cancelled leases are not handed out again.
//
// A rescheduled or replaced message is scheduled or ready, also where it was retrying: it gives up its place, its head of an
// ordered group with it. Attempts, history, ttl and dedup key are the message's and stay. A replaced body voids the last
// token, since a late ack would end work that nobody has done; another time alone does not.
//
// A debounce's longest wait counts from the enqueue of the message at hand: a redriven one's from its requeue.
//
// Results are listed by a row of chunks that restore makes anew, not by an ordered heap: results end in the order of their
// retention, which options change, and are read in the order of recording.
//
// Ready counts all messages in that state, those that wait behind another of their key too: they are pending to whoever asks
// for them. What can be leased is [State.Ready]. The difference is QueueStats.Blocked.
//
// A queue is made for a message that nothing keeps out: one that is refused leaves no queue behind, whoever sent it.
//
// max_depth and max_bytes count all that is live, what is out included, by the size that the state keeps. A chain is judged
// while the message that is acked still counts: an ack makes no room for what it enqueues. A lower limit takes nothing away.
//
// A queue counts what it refused by kind (fsm/refused.go), as state like its other totals: a leader that is new knows what the last one
// counted. Refusals at the door, which never reach the log, are not among them. Rejected: counting by (code, field) pairs as they come, a
// table that would need a maximum.
//
// What could not be taken though all else of the queue had ended is too_large and not queue_full, since waiting does not help it: a
// message of more than max_bytes, enqueued, fired, requeued or given another body, and a chain of more for one queue than max_depth or
// max_bytes, what is acked counted. It is judged before every other limit, of a chain link by link, and drops nothing. What dies and would not fit in its dead-letter
// queue stays, like any that finds it full.
//
// With overflow drop_oldest an enqueue picks whom it drops before it changes anything, and they die when what it brings is in: what
// is refused drops nothing, and no victim takes the room that was made. A chain picks for all its messages, among what waited
// before it: dropping a link of the chain for the next one would be the loss that a chain is there to prevent. Dead letters that
// are requeued or moved, longer bodies of waiting messages and callbacks drop nothing. The victims' heap is apart from the lists
// that serve (fsm/overflow.go), so that the choice costs the same in a queue of any order, whatever waits.
// Rejected: taking victims from the heads of the ready lists, which are not where blocked messages are, nor retrying ones by due
// time; a heap cleaned only now and then, which stops an entry for a second at the wrong moment.
//
// Of push delivery there are the options, which nothing in the state follows from (fsm/push.go). They stand in a snapshot section of their own that
// is only there where a queue has some, so that a snapshot without push is what it was before. Secrets are named and not kept.
//
// Of schemas and mappings there are the texts, each with a place of its own in a snapshot, as with push (fsm/mapping.go). What an expression
// comes to depends on the build that evaluates it, so it is evaluated before it is proposed, by who leads, and the log has what came of it:
// an ack with what it enqueues, or a nack. Both carry the generation of the mapping, which is the index of the entry that has set it: no
// other has it, nor will one, whatever is set or deleted in between. An ack of another generation is refused and the lease stays, so that from
// the entry on that changes a mapping nothing comes of the old one. A nack too: what was mended is not to die of what was broken. Repeats of
// what was done are answered as ever. Schemas are judged at the doors alone, by the state as they have it: a body that is on its way while a
// schema is set may have been judged by the one before.
//
// Messages that are mapped go on without anybody's doing, so no option may close a ring of map_to and dead_letter_queue with a map_to in
// it (mapsRound). Rejected: counting hops in the messages, which lets a mapping that makes two of one make 2^hops of it first.
//
// What is delivered at most once is done when it is leased, in one operation, and its body is parked until the next entry for the
// leader to send (fsm/handover.go). Its token answers an ack, so that a worker need not know, but for one with a result or a chain:
// those would be lost in silence. Several messages of one key may go in one operation, since nothing is out that the next one would
// have to wait for. Rejected: a lease that nobody holds, which would need every table of leases to look away.
//
// max_in_flight counts leases of cancelled tasks until they end. It bounds what is leased from the entry on that sets it.
//
// A rate is one instant, in ns of log time (fsm/rate.go). Every lease is a delivery, also of what comes back unused: nothing is
// paid back, and a purge forgives nothing. An instant of another rate is cut once, in the entry that sets the new one, and not at
// every decision: a bound that moves with now would hold a queue back until the old debt had run out after all. From the year
// 2223 on rates hold nothing back.
//
// A key in debt is remembered without a message, so debts have a maximum. It refuses enqueues, and what is in already may pass it, as
// with results: the alternative, to lease nothing of a key that finds no room, would stop keys that owe nothing.
//
// What is ready, done and dead by kind is counted beside the state (fsm/kinds.go), on each node from when it read its state: it serves
// metrics alone, whose readers know counters that begin anew. As state it would need a table with a maximum, and a kind that found
// none left would be counted otherwise on nodes that were restored.
//
// Rejected for keys: a heap of keys by virtual time instead of rings (state that drifts apart for ever, and floats or large numbers
// for weights); skipping parked flows where serving looks (a scan that grows with what is parked); the place of a released message
// found by walking its flow; a tree for all messages of a flow, where nearly all come in order. Debts end by reclaim and not when
// somebody looks, or nodes that were restored would count other debts than those that were not.
//
// What is out at a purge holds its key afterwards still, against messages that come later: it may come back.
//
// A dead letter from before its queue was ordered is requeued with the default priority: the order knows no other.
//
// A message knows the row of its lane by a field that it has no other use for at the time, which differs between states. A field
// of its own would make every message 72 bytes, for the sake of those that have a key. Looking rows up by key took a fifth of a
// follower's time where a million keys were in use. Records for lanes in which nobody waits were 40 bytes and another wait
// for memory for each key.
//
// What was moved is a dead letter to every operation on tasks and dead letters, and a message to its queue: it is leased, dies
// and expires there by that queue's options. Its retention begins when it dies there; until then it lives as long as any
// message. A dlq purge takes a queue's own dead set; what was moved is deleted by ids, since it stands among other messages. What
// a worker has cannot be requeued or deleted: failed_precondition.
//
// A dead-letter queue is one that any queue names. What dies in it stays in it, also what was enqueued there, so that no chain and
// no ring of them moves anything twice. A dead letter that stays says why: missing, full, or that it died in one.
//
// A queue that was deleted and made anew is another: what came from the first has no origin any more, cannot be requeued, and is
// found by its ids. Acked, deleted or requeued it goes; a closed one leaves a tombstone that answers the token alone.
//
// More than a thousand pairs of reason and kind are not kept apart: letters beyond are looked for among all of their reason.
//
// Digest is the hash of the snapshot's bytes: one canonical order to keep right, not two.
//
// What a message is to do at its end lies in a hook beside it, found by its id, from its enqueue on. unhook is called where
// a message ends (finish, die). A purge and a deletion take messages without looking at them: a sweep then goes over all hooks,
// MaxReclaim an entry, asks for ticks until it is through, and ends those whose message is gone. It sees that by the message's
// id and never by how far garbage has come, so every node ends the same hook in the same entry.
//
// keys_if_undelivered are written once, when the message dies. A dead letter that is redriven has spent them: it reserves and
// writes none again, since to reserve them anew could refuse the redrive.
//
// A batch's callback is enqueued in the entry, and right behind the step, that ends its last member. Nothing keeps it out: not
// a full queue or group, since there are at most MaxBatches of them, and not the deletion of its queue, which is made anew with
// default options. Its counts are headers, so that its body stays the creator's own. Members that a purge or a deletion takes
// count as cancelled. One that died was counted as dead; that it is redriven, or succeeds then, changes nothing. A duplicate by
// dedup key is no member. Members of a batch that was never sealed go on without it when its time is over.
//
// Rejected for batches: refusing the deletion of a queue that has callbacks to come, which would let a forgotten batch keep it
// for ever; a callback that waits for room, which would need a table and a clock of its own.
//
// A KV key is one byte string (kv_key.go) whose order is the list's and whose prefixes are the list's. Its value is the body,
// one copy for all keys of a message. Keys and kept deletions stand in the order of their last change, which is also the order
// of their ends: it serves reclaim, and watches, which need no log of changes. A watch sees the last change of each key.
//
// A schedule is a definition that views share and a small record that firings change. The state understands neither its
// expression nor its zone: the leader says what time follows, and a step names the time it starts from and the generation
// of the definition, so that one made twice, or made for what has been replaced, changes nothing. A fire time whose queue
// is missing, full or holds its task id already is counted as refused and not tried again: it would pile up behind the queue.
// What a schedule may do over time zones, and when a time is missed, is the leader's to decide and may change without a
// new format.
//
// Rejected: one record for everything (96 bytes for each message against 64 and a side for some); a list for leased and for
// waiting messages (the heaps enumerate them as well); remembering outcomes in rings by session (a number far ahead would make
// them big; a list in pages costs what is in it).
package fsm
