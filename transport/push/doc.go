// Package push sends the messages of queues that have a push URL to their endpoints, by HTTP POST, from the node that leads.
//
//	Broker.Targets ──▶ look, twice a second while this node leads: a runner for each queue, none where it does not lead
//	                                  │
//	runner ──▶ Broker.Consume ──▶ one POST ──▶ verdict: ack, nack, dead letter, back to the queue
//	   ▲        a worker as any,        │
//	   │        credit = concurrency    ▼
//	   └── rests, knocks, tries ◀── breaker
//
// # What is sent
//
// One POST a delivery: the message's body as it is, or what the queue's map makes of it (package mapping), its content type
// (application/octet-stream if it has none), and
//
//	webhook-id          the message id: the same in every attempt, so that the endpoint can tell a repeat
//	webhook-timestamp   seconds since 1970, of this attempt
//	webhook-signature   v1,BASE64 for each of the queue's secrets, separated by spaces; none without secrets
//	quorate-queue, quorate-attempt (1 for the first), quorate-task-id, quorate-kind
//	user-agent          quorate/VERSION
//
// and those of the message's own headers that push_headers names. A value that no HTTP header can have (a line break in it) is left out.
// A signature is HMAC-SHA-256 of "ID.TIMESTAMP.BODY", as Standard Webhooks has it, so that its libraries verify it.
//
// Secrets are named in the queue's options; their values are in the configuration of the nodes, from the environment or a file, and
// nowhere else: in no log entry, snapshot, listing, metric or answer. A secret is replaced by naming two, the new one first: both sign until
// the endpoint knows the new one. A queue that names a secret which this node does not know is not sent anything, and says so.
//
// # What an answer means
//
//	2xx                               ack; up to 64 KiB of answer are the task's result, more is none
//	push_permanent                    dead letter, reason permanent: "410 Gone: " and the beginning of the answer
//	(400, 404, 410, 413, 422)
//	429; 503 with Retry-After         back to the queue, free; the queue rests until then
//	everything else, redirects too    nack: the queue's retry policy, and a short error
//	no connection                     back to the queue, free
//	no answer within the time-out     nack
//
// Where a map comes to nil there is nothing to send: the message is acked, without a request and without a result. Where it fails no other
// attempt will do: a dead letter, reason mapping, with the line and column of the expression. That is of the map as it stood; if it has been
// changed meanwhile, the message goes back and is mapped anew.
//
// A queue whose results are full refuses enqueues: one that is pushed, and whose results nobody reads, should have a short result_ttl_ms.
//
// A delivery costs an attempt when the endpoint has, or may have, begun its work. One that could not be connected to, or that says by 429
// or Retry-After that it has not taken the message, has not; the message goes back to its old place. The broker lets a message be given back 16
// times in a row before each further time costs an attempt. Retry-After is seconds or a date, and counts as ten minutes where it is more.
//
// A lease is taken for the time-out and five seconds, whatever lease_ms says, and extended while a request runs, so that it never ends
// before the request. Like every worker an endpoint gets messages at least once: after a leader's death what was on its way comes again when
// those leases end, and that costs an attempt. In a queue that delivers at most once a message is done when it is leased: one POST, whatever
// the answer.
//
// # A queue that rests
//
// Five failures in a row (nacks and missing connections; answers that mean a dead letter are none) have the queue rest: nothing is
// leased, and its messages wait where they are. A rest is one second, then twice as long each time up to one minute. Where no connection was to
// be had it ends when one is: the endpoint is knocked at (TCP, and TLS for https), which touches no message. Then one message at a time is tried;
// the first success ends the rest, another failure begins the next. QueueInfo.Push says how it stands, and quorate_push_resting; a queue
// that is held by it says so by the reason push_resting, with why and until when.
//
// # Where it may go
//
// An address is judged when the socket is made (net.Dialer.Control), after whatever resolved the name, so a name that changes its
// answers changes nothing. Refused are all but global unicast addresses: loopback, private, link-local (with the metadata services of
// clouds), shared (100.64/10), multicast, documentation, and IPv6 forms that carry IPv4. The configuration's push.allow permits networks of them.
// Redirects are not followed, no proxy is used, whatever the environment says, and TLS is verified, 1.2 at least, against the system's
// roots. Answers are not decompressed.
//
// # Bounds
//
// The first 500 queues by name, 2,048 requests at once over all of them (each queue beyond either is not sent anything, and says so); 256 requests a queue; time of a
// connection (5 s), of a request (push_timeout_ms); bytes of an answer (64 KiB) and of its head (64 KiB); idle connections; the time that a stop
// gives to requests that run (2 s).
//
// # Stopping
//
// When this node leads no longer, or stops, each runner takes no more, gives back what it has not sent, lets requests run for two seconds,
// cancels those that are left and gives their messages back, free. Answers that come in time are settled with the new leader: the Broker's
// client finds it.
//
// # Decisions
//
// 2026-11: leases come through the SDK, from within the node, as webhooks go into queues: resumption, extension, release, answers after a
// change of leadership and the cost of attempts are what they are for every worker. Rejected: a session of the group without a connection, which
// would save a loopback socket and need all of that again.
//
// 2026-11: secrets are named and not in the options. Options are in the log, in snapshots, in backups and in listings.
//
// 2026-11: the endpoint is connected to by HTTP/1.1 alone: a connection carries one request, and what is known of it ("nothing was sent") is
// known of that message.
//
// 2026-11: a queue's breaker and not a host's: two queues of one host may well differ in URL, and what rests is leased by queue.
package push
