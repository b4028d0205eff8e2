// Package transport is a node's doors: one HTTP server on the client address that turns what clients send into operations
// of the group, and outcomes, deliveries and state into what clients read. Served today: the WebSocket protocol of package
// wire at GET /v1/ws, the JSON API below /v1/ and /queue/ (package httpapi), /healthz, /readyz and /metrics, and below /hook/
// what package hook answers. What is served beside the API is one table (beside.go), of which the OpenAPI document is made too. Package push sends the messages of queues that have a push URL to their endpoints, package mapper makes
// messages of messages for queues that have map_to.
//
//	           one WebSocket message = many frames                    one WebSocket message = all that is owed
//	socket ──▶ reader ──▶ decode, check, encode op                     writer ──▶ socket
//	             │            │ pooled call (group.Proposal)              ▲ swaps the two buffers
//	             │            ▼                                           │ one wake-up for each applied batch
//	             │        group.Propose(all of the message, in order)  ┌──┴─────┐
//	             │            │                                        │ outbox │ bounded in bytes
//	             │            ▼                                        └──▲─────┘
//	             │        log, commit, apply ──▶ conn.Complete ───────────┤   (group's goroutine, state lock held)
//	             │                          ──▶ conn.Deliver, LeaseGone ──┤
//	             └── reads, waits, cluster verbs: ≤ MaxSlow goroutines ───┘
//
// # One connection
//
// The HTTP handler's goroutine reads, one more writes; nobody else touches the socket. The reader takes in one WebSocket
// message at a time, decodes its frames into memory that it uses again, judges them (wire's Validate), encodes the
// operations and proposes them together, so that their order in the log is that of their sending. It does not wait for
// them. Completions run on the group's goroutine: they append the answer's frame to the outbox under its mutex and
// return. What would wait (a result, a resumption), read pages of the state, or ask other nodes runs in goroutines of its
// own, bounded in number and time, cancelled and waited for when the connection ends.
//
// Lock order: the group's state lock, then the outbox's mutex. With the outbox's mutex held nothing of the group is
// called but Propose.
//
// # Requests by HTTP
//
// Package httpapi turns a request into one or more of the protocol's and hands them to visitors.Do. There each is a connection without a socket, a
// visit: its frames go through the same reader, the same judges, the same proposals in one entry, and the answers that come to stand in
// its outbox are what the request is answered with. It ends with its request.
//
// Leases need a session. All visits of a leader share one, the house's: opened when the first lease is asked for, touched every twenty minutes,
// attached anew after a change of leadership. A pull answers the visit that asked for it; its wait can be ended by itself, when its caller
// goes or the node stops. What is leased to a visit that has gone is given back, free.
//
//	httpapi ──structs of wire──▶ visitors.Do ──frames──▶ conn (no socket) ──▶ group
//	                                 ▲                      │ outbox
//	                                 └──────── frames ──────┘
//
// A caller's Idempotency-Key goes into every operation that a visit proposes, with the operation's number in the request, so that each is in the log together
// with its key; what the state says of each, done now or before, goes back with the answers. Leases that are handed out again are not given back when
// their caller has gone: whoever had them first may be at work.
//
// # Streams
//
// A stream of messages (Server-Sent Events) is a subscription of such a session and a visit that stays: the group deals and delivers to it
// as to a WebSocket's, into its outbox, from which the request's own goroutine takes what it writes.
//
//	group ──Deliver(number)──▶ houseConn ──▶ outbox of the stream ──Take──▶ httpapi ──event──▶ socket
//
// A session has a thousand subscriptions at most, so streams live in as many houses as they need; a number in a house is never used again.
// Sessions with streams in them are kept from resting too long. What a stream is about to write is called started. Whatever ends it, the group gives
// back what has not been answered, at once and to its old place: what had been started at the cost of an attempt (stream closed), the rest free, as
// of a worker that has gone with a full buffer. At most once is called finished when it has been written.
//
// When leadership is lost the streams are told and end; what they had out stays out, and its tokens are good with the next leader until the
// leases end. When the node stops, Drain ends the subscriptions and waits until what they had out has been given back in the log, since the next
// leader would not do it.
//
// # Bounds
//
// Connections; streams, each's deliveries that are not written (256 KiB and a batch) and those of all (StreamBytes, twice that for streams that have
// written theirs); HTTP requests, each on a connection of its own (httpapi's page has what bounds them further); TCP connections that are not yet either; bytes and time of an HTTP head; time until hello; bytes and
// time of a WebSocket message; requests without an answer; slow requests; copies of the
// state that are being made at once; bytes owed to the peer; time of a write; time
// without a sign of life; records looked at and time of holding the state in a listing; queues with metrics; and the time
// that a stop may take. A stream whose peer acknowledges nothing for PongTimeout is ended by the kernel, on Linux. A read buffer grows with what has arrived, never with what a length promises.
//
// # A peer that does not read
//
// What it is owed is counted in two accounts, each half of OutBytes. While unwritten deliveries pass theirs, Deliver
// declines and the group takes the leases back, free. When unwritten answers pass theirs, what is owed is dropped and the
// connection closes (4410); the client finds out what became of its requests by asking again. In both the frames that pass
// the bound are still accepted, so that the largest message can be delivered and the largest answer given: 4 MiB of bodies
// and their headers. A write that does not end within WriteTimeout ends the connection without a word.
//
// What is delivered at most once is never declined, since it could not be given back: it is taken in beyond the bound, after Room has said
// that there was some before it was leased. It is safe with the client when the client has read it, and not before: what
// stands in the outbox, in the kernel or on the way when the connection or the node ends is lost, and so is the answer to a pull that is too large
// to send or whose connection has gone. There is no answer to wait for, so the lease-to-ack histogram leaves it out.
//
// # Wrong input
//
// Three degrees, and nobody else notices any of them. A request that is well-formed and wrong gets a fault with its tag,
// which names the field, its value or length, the limit and what would be right. Bytes that are no frame, or a frame out of
// turn, get a fault of tag 0 and a close frame (see the codes in close.go): whoever sends them does not speak this protocol,
// and no later byte of his can be trusted to begin a frame. What precedes them in the same message was valid and is carried
// out. Breaches of RFC 6455 itself are answered by the WebSocket library with 1002 and a reason. A message of a batch that is
// bad by itself is refused by itself: the batch is then proposed as several operations around it, since request numbers of
// one operation have no gaps.
//
// A refusal says who gave it. What the log refused carries its place there (Fault.At): of a whole request, of a message or an id of a batch, of a
// token of several acks. Under a number that is the number's outcome for good. What was refused at the door, or by the group before the log or
// for want of an answer, carries none, also where it stands beside others of its batch that do: it speaks of this sending, and a client that has sent
// the request before without an answer knows no more of that. An Enqueued of which the log has judged nothing has no place in it either, and
// does not know whether the queue is ordered.
//
// # Stopping
//
// Drain, then the node's own stop, then Stop: readiness goes off and new connections, sessions and HTTP requests are refused; polls that wait
// are answered with what there is; streams end, and give back what they had; every client is told to move; the node hands its leadership away and completes what is under way; what is owed is written, for up to
// FlushTimeout; every socket is closed with 1001; the HTTP server ends last. A closed socket lingers for a second, so that
// the peer can read its close frame before a reset overtakes it.
//
// # Metrics
//
// The doors' own numbers are counters of this process. Those of queues come straight from the state, from the leader
// alone, at the moment of asking, so that they agree with the state after any fail-over and vanish with their queue. The
// lease-to-ack histogram is by log time, from the entry that leased to the one that acked, whatever connections they came by. An ack of what
// had been done before is left out.
//
// Series are bounded. The first MetricQueues queues by name have some forty each; quorate_queues_unexported says how many
// have none. The kind label has 100 values a queue and 10,000 in all, those first seen; beyond it is "other". The counters with it
// (quorate_queue_ack_total, quorate_queue_dead_total) are the state's by queue, in their sum; by kind they begin anew when a node starts,
// and what was counted before is under the empty kind. No label holds what clients number: ids, keys, sessions.
//
// A scrape holds the state for 64 queues at a time, or for the sizes of 500, some 50 µs, and gives it back in between. Scrapes at once
// are bounded, and answered in the text format alone.
//
// # Why a queue is not moving
//
// holdups.go says it, once: the frame, the HTTP API, the SDK, the CLI and the metric quorate_queue_held show its words. What keeps messages
// back comes from the state (fsm.Standing), as of the T of this moment; who would take them from the leader's memory (group.Consumers), read in
// the same hold. All reasons that hold are named, since all have to end. A node that does not lead knows of no consumers, and says that it does not.
// Of a queue with a push URL the one who would take them is the push (push.State): while it rests that is the reason, and while it pushes there is
// no want of consumers, whether its subscription is there at that moment or not.
//
// # Schemas and mappings
//
// A body that is to come into a queue with a schema is judged before it is proposed (schemas.go), whatever it comes by: an enqueue, an ack's then,
// a schedule, a callback, a replaced or an edited body; streams, webhooks and HTTP come through the same frames. The leader judges, by the
// schemas as its state has them: it reads their texts anew when the group says that one has changed, and keeps the compiled ones. Where no queue
// has a schema that is one comparison a request. A node that does not lead judges nothing, since what it proposes is refused anyway. Package
// schema bounds what judging costs, package mapping evaluates expressions, package mapper does so for queues with map_to.
//
// # Logs and traces
//
// The access log (Config.AccessLog) is written around the whole HTTP server: a line a request, with the pattern of its route, two a WebSocket. The log of
// slow operations (Config.SlowOver) is fed where operations are answered, with the times that the group notes in each proposal: waited until packed,
// until its entry began to be applied, until answered. That is under the state's lock, so lines are written elsewhere, from a channel of twenty; what has
// no room, or would be more than five lines a second, is counted in the next line. A pull's wait for a message is not slowness. Package spans
// makes the broker's part of traces (Config.Spans). All three cost a comparison with nil where they are not asked for.
//
// # Decisions
//
// 2026-11: The WebSocket does not forward. A request that needs the leader is refused with the leader's address; the SDK goes there. A
// forwarding follower would cost every operation a second trip and add hops that must be bounded. HTTP forwards, once: its callers know
// one address.
//
// 2026-11: What a stream has sent and was not answered costs an attempt when it closes, also when the node closes it: the listener may have begun
// with it, and a message that makes its readers die must come to an end. Rejected: a session for each stream, which is an entry in the log
// for every one that is opened.
//
// 2026-11: A request by HTTP is encoded into frames and its answer decoded, about two microseconds beside the thirty and more that HTTP costs. Rejected: a second
// path from JSON to the log, which would have to be kept in step with the first in every check, word and bound; and one session for each caller,
// which is an entry in the log for every lease.
//
// 2026-11: messages_per_minute comes from looks at the counters every ten seconds that each node takes of its own state, so that it costs no state and
// a new leader knows it at once.
//
// 2026-11: A tag used twice ends the connection, rather than the second request: after it two answers would carry one tag.
// Tags are kept in a map per connection, which also counts the requests under way; that is 50 ns a request.
//
// 2026-11: Answers are encoded where the outcome is known, under the state lock, instead of being queued as values for the
// writer: encoding is 20 to 40 ns a message, and what it reads (bodies, recorded results) need not be copied first.
//
// 2026-11: The close frame is followed by a half-close and a bounded read, instead of waiting for the peer's close frame as
// RFC 6455 section 7.1.1 suggests: peers at fault do not send one, and a reset would take the reason away from them.
//
// 2026-11: A page of results holds the state for 500 records at most, or 64 that are copied, as other listings do; it waits for
// the first one with its turn given back, so that many streams that wait do not keep others from reading.
//
// 2026-11: The queues' metrics are written as text by this package (queue_metrics.go). Through the Prometheus client a scrape of
// a thousand queues took 170 ms and 26 MB, and now takes 5 ms and 2 MB. Rejected: fewer series, leaving out those that are zero, since a
// counter that appears with its first increment hides it from rate(); compressing the answer, which costs more than writing it.
//
// 2026-11: No compression is negotiated. A read limit counts what arrives, so an inflater would need a bound of its own,
// and bodies are the client's to compress.
//
// 2026-11: Pages of other origins may not connect. Until there is authentication any page in a browser on this machine
// could otherwise drive the queue, also one whose name has been made to resolve to loopback; RefuseOffLoopback keeps everybody
// else out.
package transport
