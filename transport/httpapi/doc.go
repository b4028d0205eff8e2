// Package httpapi is the JSON API over HTTP: routes, JSON and errors, for programs and shells that do not speak the WebSocket protocol. It knows
// package wire and a Node, which carries requests of the protocol out; it knows neither the state nor raft. So there is one implementation of
// every operation, the one behind the WebSocket, and what is here is translation.
//
//	HTTP ─▶ admit ─▶ find ─▶ params ─▶ read ─▶ leader? ── no ──▶ forward, one hop
//	        origin    route   query    body      │ yes
//	                                             ▼
//	        JSON ─▶ a struct of wire ─▶ Node.Do ─▶ an answer of wire ─▶ JSON, or a problem (RFC 9457)
//
// # Where things are
//
// One file a noun: the JSON that it takes and answers as Go types, their translation, and its routes. api.go is the way of a request, route.go
// the table, exchange.go one request and its answer, stream.go answers that go on as events, listen.go which there are and follow_dead.go one of them, problem.go errors, origin.go who may come, forward.go the way to the leader, idempotency.go keys under which requests are carried out once, body.go how JSON
// carries bytes, openapi.go the document, onequeue.go the one-queue API.
//
// # The contract
//
// Any node answers. What needs the leader is sent on to it, once, by the node that was asked; reads with stale=1, the cluster's members and the
// document are answered by the node itself. Where the leader gives no answer the outcome is unknown (timeout, 504), unless it was sent nothing or the request writes
// nothing (no_leader, 503): that the last connection could not be made is not enough, since net/http sends a request with a key again by itself
// when a connection that was kept breaks. A poll writes, whatever its method. Success (200, 201) means that it is committed. Errors are application/problem+json with the code,
// outcome, retry and retry_after_ms of the one table; 503 and 429 carry Retry-After. Every answer carries X-Request-Id, the caller's or one
// made for him, and where it was read or written Quorate-Index and Quorate-Time, its place in the log. Times are Unix milliseconds, ids,
// tokens and positions strings.
//
// Requests are read strictly: exact names, none twice, none unknown, UTF-8, one value and nothing behind it; unknown or repeated query parameters
// are refused too, since a misspelt filter would be no filter. Answers may get more fields.
//
// A body is any JSON value, and is stored as its text with content type application/json; with body_encoding text it is a string stored as its
// bytes, with base64 any bytes. On the way out it is JSON or text where the content type says so and the bytes are that, else base64, and
// body_encoding says which. Requests of other content types to …/messages and …/results are the body itself, answers to other Accepts the
// output itself. envelope=job takes and gives the job envelope.
//
// A request's trace context (traceparent, tracestate) goes into the messages that it brings, unless they have one of their own.
//
// # Idempotency keys
//
// Every request that writes into the log takes an Idempotency-Key: 1 to 255 visible ASCII bytes, at whatever node. For an hour of log time the same
// request with the same key gets the first answer, status and body, with Idempotency-Replayed: true, and nothing is carried out; 1,000,000 keys
// are kept, and a request that finds no room for its own is overloaded (503). The request is its method, path, query, Content-Type, If-None-Match and body, byte for byte;
// another one with the key is already_exists (409). A repeat of a request that is under way waits for it, since it is decided in the log, behind it. Of
// two polls that wait under one key, one is given the message, the other the same one again or, where its time is over, overloaded (503): sent
// again, it gets the answer. In Problem.RequestID and in Quorate-Index a repeat has its own.
//
// What the door judges by, schemas above all, may change between two tries. What was done keeps its answer; a batch of messages under a key goes
// in as a whole or is refused as a whole, with the first message that is refused; each operation of another batch has its own number, whatever
// became of those before it. A bulk operation on dead letters that found none has done nothing, and that is kept: the log has it under the key, by an
// operation that does nothing, so that a repeat finds none either, whatever there is by then. Without a key nothing is written for it.
//
// Not kept, so that they may be sent again under the key, are: what was refused before it was proposed (400, 413, 503 …), for nothing has
// happened, which a bulk operation on dead letters of a queue that is not there is too (404); refusals with retry that are for now (queue_full, overloaded), unless
// part of a batch went in; a poll that found nothing. A request whose outcome is unknown may be sent again at once.
//
// A lease that is repeated answers with those of its messages that are still out, with the time that is left. What a duplicate is told of the first
// message, its task id and its recorded result, is told as it is known then: where that is forgotten, the id alone. A requeue's task id is kept with
// its answer. Of a batch that was carried out in part, as only a leader that dies can bring about, a repeat carries out the rest and is not called a
// repeat.
//
// Requests that write nothing, streams, and those about the cluster's members, which are in no log of this kind, take no key and refuse one.
//
// # Leases
//
// They belong to a session that all callers share on the leader; a token is all that a caller needs. A lease is started when it is written to
// the caller. One that he could not be given, because he had gone or the write failed, is given back and costs nothing; through a follower that
// holds for callers who go while they wait, and what was on its way to them then comes back when its lease runs out. A poll ends with what
// there is, or nothing, when its time is over or the node stops. The one-queue API names messages by id: an ack ends the message's last lease,
// whoever has it.
//
// # Streams
//
// GET …/listen, /v1/results/stream and …/dlq/stream answer with Server-Sent Events until the caller goes. Each event has one name and its data in JSON on one
// line: message, result, dead, lease_gone, lease_cancelled, ping every 15 seconds, and end, a problem, before the node ends the stream. Whoever reads end, or
// is cut off, connects again; a browser does so by itself, after the second that retry names.
//
// A listener's window is prefetch: so many messages are out to it until they are answered, by the ordinary requests, on any connection. Closing
// the stream gives back what was not, at once: what had been sent as a failed attempt (stream closed), the rest free; the id of a message's event is the message's, and has no meaning for Last-Event-ID. Results
// and dead letters are not leased: each stream has all of them, the id of an event is its place, pings carry how far has been looked, and with
// Last-Event-ID the stream goes on from there, through any node. Dead letters stand by the millisecond in which they died and then by id, so
// one that dies later may stand before one of the same millisecond that has been sent: a stream remembers what it has sent of the last millisecond, and one that
// goes on begins with that.
//
// A stream that cannot begin for want of a leader waits for one as long as a call may take, since a browser takes any refusal for the last word and would
// not outlive an election; and where that is in vain, or the node stops, who accepts nothing but text/event-stream gets a stream that ends at once. A follower hands on what the leader streams, byte for byte as it comes, and gives up a leader that has been silent for
// three pings.
//
// # Bounds
//
// Streams at once, apart from requests; time of one write to a stream, after which whoever does not read is cut off. Requests at once; bytes of one body, and of all that are in memory; time of a body and of writing an answer; bytes of large answers that have not
// been read; waits of ten minutes at most; pages of 1,000 items and 4 MiB; the offset of a listing; bulk operations of 1,000 dead letters a call. The
// head of a request is bounded by the server.
//
// # Who may come
//
// There is no authentication yet and only loopback is served. A page in a browser on this machine could still reach it, so an Origin other than the
// node's own must be listed (client.cors_origins), and a Host that is not loopback is refused, which keeps out names that have been made to
// resolve to it.
//
// # Decisions
//
// 2026-11: A follower forwards HTTP as it is, to the leader's client address, with a header that stops a second hop. The body is in memory by
// then, so a request that meets a change of leadership before anything was proposed can still go to the new leader. Rejected: node RPC, a second
// encoding of everything; redirects, which curl does not follow by itself.
//
// 2026-11: The document is made of the same table that serves, with huma's schemas of Go types and nothing else of huma: it would decode, validate and
// phrase errors by itself, and the protocol's judges have better words. The tests hold the document, every request that succeeds and every answer
// to kin-openapi. What others serve at the same port (hooks, health, metrics, the
// WebSocket) they describe themselves, as Beside: a route that is served and not described fails a test.
//
// 2026-11: JSON by go-json-experiment/json, which is encoding/json/v2: the first version takes names in any case, the last of repeated ones, and
// turns bytes that are no UTF-8 into others.
//
// 2026-11: An answer is made again from its outcomes, by the same code, rather than kept: see fsm. So a request that looks at the state before it knows
// what to ask for (a filter over dead letters, a message known by its id alone) asks first whether its key has been used, and takes what it found
// then from the note that was kept. Until there are principals a key is anybody's; then they go into its hash.
//
// 2026-11: The key itself is not in its hash with the route, so that the same key on another path is found out (409) and not taken for a new one.
//
// 2026-11: Answers with tokens in them are never compressed, and no answer is cached: a token is as good as a key, and the length of what is compressed
// tells about it.
package httpapi
