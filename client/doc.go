// Package client is the Go SDK of Quorate: the way programs put messages into queues, work on them, and read results.
//
//	c, err := client.Open(ctx, client.Options{Addrs: []string{"10.0.0.1:7340", "10.0.0.2:7340"}})
//	r, err := c.Enqueue(ctx, "thumbnails", client.Message{Body: []byte("cat.jpg")})
//	err = c.Consume(ctx, "thumbnails", client.ConsumeOptions{Concurrency: 8}, handler)
//
// # What a caller may conclude
//
// A nil error is a promise: it is on a majority's disks. An error says one of two things. Refused: nothing happened and
// nothing will. Unknown (see Unknown): it may have happened, or may yet happen, at most once. Every call ends by its
// context, or by Options.Timeout where that has no deadline; EnqueueAsync and AckAsync call back by then. A call that
// could not be sent because nobody leads ends with ErrUnavailable, which is refused.
//
// A refusal speaks of its own sending, unless the log gave it under the call's number: then it is the outcome of that number, since the session
// remembers, and an earlier sending that had been applied would have been answered as it was then. So a call that was sent before without an answer,
// and is now refused at the server's door or by its leader before the log, ends as unknown if it ends with that. Reads are never unknown for that reason.
//
// What is tried again, and how, until the call has to end:
//
//	the server said                      then
//	not_leader, no_leader                nothing happened: same number, on the next connection
//	connection lost, no answer           unknown: same number, on the next connection, in ascending order
//	timeout                              unknown: same number, after a back-off
//	queue_full, no_space,                refused: a new number, after the server's retry_after or a back-off
//	overloaded, rate_limited             (FailWhenFull: returned at once); the same number while an earlier
//	                                     sending of it is unaccounted for and the log has not judged it
//	session_expired                      a new session; what may have been executed is returned as unknown
//	anything else                        returned
//
// The messages of a batch go into the log together or, where one of them is refused at the door, in parts that can fare differently. Each is judged by
// itself: those whose earlier sendings are unaccounted for keep their numbers, neighbours alike in one request; those that have certainly not been
// applied go together under new ones; the rest is returned.
//
// ack, nack, extend and release carry no number: the token is one, and repeating them is harmless. The log answers the repeat of an ack
// as the first time for as long as it knows the message (then not_found); that of a nack or a release until the message is leased again
// (then lease_lost). So a repeat of these that is told lease_lost or not_found, an ack not_found, ends as unknown. The lease is over in either
// case, and goes by the code: an extension that is told so ends the handler's context at once. An ack that is refused for its result is
// followed by a nack whatever became of its first sending, since the nack of what is acked is refused and changes nothing.
//
// # How it is built
//
//	callers ──call──▶ plain   acks, reads, …        ┌────────── conn ──────────┐
//	                  again   sent before, ascending ─▶ writer ──▶ WebSocket ──┼─▶ leader
//	callers ─message▶ fresh   open batch a queue    │                          │
//	                                                │  reader ◀────────────────┘
//	done, handlers ◀── byTag ◀── answers ───────────┘
//
//	run    dials, attaches the session, is the connection's reader; then does it again
//	write  one for each connection
//	watch  deadlines, back-offs, lease extensions, session refresh: one timer at the earliest of them
//
// All state is behind one mutex, held for short, never while a callback, a handler or a system call runs. There is no
// goroutine and no channel for an asynchronous message or ack.
//
// The writer sends everything that is queued in one WebSocket message (to about 128 KiB), and while it is in the system
// call the next one gathers: batches grow with load and no timer is needed. Messages of one queue that wait together are
// one Enqueue request (256 messages, 48 KiB: about one log entry); acks without a result and what comes then that wait together are one
// AckBatch (256), whoever made them. Before each message it yields once, so that whoever
// is runnable can queue first; on one core that is worth a factor of three to ten.
//
// # One session, one connection
//
// A client has one session in the cluster and one live connection, to the leader. Followers say where the leader is, a
// dead or silent node costs a rival dialled 200 ms later. A redirect is followed at once, a second one within a second is
// not: from then on waits are drawn from [0, 50 ms·2ⁿ], at most 500 ms. Both sides ping; silence of two and a half
// periods ends a connection, one lost pong does not. Sooner than that, when an answer is overdue by 1.5 s and nothing is
// heard, or a pong is late, the other nodes are asked who leads: a leader that stands still closes no connection.
//
// Numbers are consecutive, a batch of n takes n. low is the lowest without an answer; calls beyond low + 4,096 wait. A
// call that is given up counts as answered: low passes it, and the server will not execute it late. On a reconnect the
// numbered requests without an answer go first, ascending; a batch of which some messages were given up is cut, so that
// these are never sent again, since their callers may have changed the bodies.
//
// While a batch waits to be sent again, what was never sent to its queue is kept back, so that it does not overtake: unless the log has said that the
// queue is unordered. Of a queue of which it has said nothing yet, or by an answer in which it has judged nothing, that is not known.
//
// # Consume
//
//	         delivery            idle worker         written
//	server ───────────▶ held ───────────────▶ told ─────────▶ running ──▶ settling ──▶ over
//	                     │                      │ connection lost           ack, nack, release
//	                     ▼                      ▼
//	                 released, free           held
//
// The window (Prefetch) is the credit of the subscription. A worker gets a message only after the frame that says so has
// been written to the socket: what the server has not been told of it may take back free of cost. After a reconnect the
// subscription is resumed with the tokens that run and those that are held; what the cluster no longer counts as ours is
// given up. Leases of held, running and settling messages are extended when a third has passed. Their ends are kept on
// the monotonic clock, early by 6 % and 50 ms since the cluster's clock may run that much faster; then, at the message's
// timeout, or when the server says that the lease is gone, the handler's context ends and nothing is acked any more. A
// message whose ack was sent is not lost when the server says so: the ack may be what ended it, and repeating it tells.
//
// Draining: credit 0; what is held is released; handlers run on for DrainTimeout, are cancelled, get a second, and then
// their messages are released. A handler that still does not return is left behind and Consume says so: nothing can stop
// it, and its message is somebody else's by then.
//
// # At most once
//
// A queue may deliver at most once (Delivery.AtMostOnce). Such a message was done when the log leased it, before anything was sent: it
// comes here once or never, and this program is the only one that has it. So there is nothing to extend, to give back or to nack; an ack
// says what is so already, and one with a result or a chain is refused. A delivery runs though its connection is gone, and though Consume
// drains, which hands on nothing and runs what is held until DrainTimeout; what no handler has taken by then is lost, with a warning. So is
// what a handler fails at or panics over, and everything that is here when the process dies.
//
// Lost without a trace in this process is what never came: the leader died, or this connection did, between the commit and the last byte.
// That holds for a pull too: Lease is repeated under its number over a lost answer, and the repeat is told that what was taken then is not to
// be had any more (ErrFailedPrecondition).
// Nobody can tell these from messages that another worker has run; what must be accounted for belongs in a queue that delivers at least once,
// with a handler that can meet a message twice. The window counts such deliveries until their handlers have returned, over
// reconnects too (Subscribe.Unfinished), so that no more than Prefetch of them are at stake at a time.
//
// # Traces
//
// With Options.TracerProvider a message carries the span of its sending in its headers traceparent and tracestate, and its handler runs in a span
// that is a child of what the delivery brings: the broker's span of the delivery where the broker makes spans, else the sender's. A message with a traceparent of its own
// keeps it. Deliveries by Lease and Subscribe have TraceContext for those who make spans by hand. What an ack enqueues carries the span that its context is in.
//
// # Invariants
//
//   - A number is used for one thing only; sent and unanswered numbers are in ring, ascending, and low is its first.
//   - A call is in exactly one of plain, again, fresh (queued), byTag (sent; acks that share a frame stand there as one),
//     later (waiting), or has ended. Whoever but the clock takes one out of waiting prunes later.
//   - done, notify and waiters are called exactly once, never under the lock.
//   - pending ≤ MaxPending counts messages that somebody waits for; acks ≤ 65,536.
//   - A body is not read after its call has ended.
//   - The reader never blocks on a channel; run to a worker has room for one lease a worker.
//
// # Decisions
//
//   - 2026-11: Message.Priority is a pointer, since 0 is a priority of its own and the zero Message must mean the default.
//   - 2026-11: queue_full is retried like overloaded, because dead letters, dedup keys and results drain with time;
//     FailWhenFull is for producers that would rather know. Rejected: a retry count, which says nothing about time.
//   - 2026-11: whether a refusal is the log's is read from its place in the log (wire.Fault.At), not from its code: overloaded comes from
//     the door, the group and the log. Rejected: to keep the number after every refusal of what was sent before, which after one of the
//     log would be answered by that for ever.
//   - 2026-11: AckAsync refuses instead of blocking when 65,536 acks are out: it is made to be called from callbacks on
//     the reader, which alone could make room.
//   - 2026-11: frames are encoded under the lock. Encoding 64 KiB takes tens of microseconds; in return a caller that
//     gives up owns its body at once.
//   - 2026-11: what a WebSocket message acks is not told as started in it: the two would come together or not at all, and each started
//     frame takes the group's lock on its leader.
//   - 2026-11: a caller that gives up a pull lease leaves the request's tag behind; an answer that still comes is turned
//     into releases.
//   - 2026-11: StopWhenEmpty asks the leader for the queue's counters instead of watching for silence: a message that is
//     retrying, scheduled or with another worker is work to come.
//   - 2026-11: bulk operations on dead letters are walks of the client: it lists what passes the filter up to the log time at
//     which it began, and proposes 1,000 ids at a time at the rate asked for. A job on the leader would have to survive it, and
//     be listed, stopped and limited; a walk that is interrupted is begun again, and finds what is left.
//   - 2026-11: a cancelled task's lease is lost to its handler and still counts: it is released when the handler has
//     returned, since only then the place in the window is free. A release, whatever the handler returned: its answer is
//     cancelled, and nothing else can come of it.
//   - 2026-11: a stream of results is a row of requests that wait, not a subscription: the position is the client's, so
//     that nothing is left out or repeated over reconnects, and nobody is sent more than was asked for.
//   - 2026-11: results that cannot be recorded (too large, refused) nack their message with that text, so that the
//     handler's author sees it in the task's history.
package client
