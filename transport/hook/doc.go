// Package hook is the door for other systems' webhooks: POST /hook/{name} checks who sent it and puts the raw body into a queue.
//
//	sender ──▶ head: name, method, signature header, timestamp      404, 405, 401
//	           body: bounded in bytes and time                      413, 408, 503
//	           signature over the bytes as they came                401
//	           schema, idempotency key, map                         400; 200 where the map makes nothing of it
//	           a place among those under way                        503
//	           Producer: enqueue under the dedup key ──▶ log        202, 200, 409, 503
//
// # Who sent it
//
// Each hook has one scheme (scheme.go) and up to eight secrets, of which any may have signed, so that a sender's secret can be replaced
// without a refusal: both are configured, the sender is switched over, the old one is taken out. A header may hold several signatures
// besides; those of versions that are not known, and those that cannot be decoded, are passed over. A timestamp is judged by this node's
// clock, in both directions. What is compared is compared in constant time. Nothing is parsed before the signature holds, and secrets and
// signatures are in no log line, metric or answer.
//
//	scheme        header                   signed                 timestamp
//	github        X-Hub-Signature-256      body                   none
//	pagerduty     X-PagerDuty-Signature    body                   none
//	shopify       X-Shopify-Hmac-Sha256    body (base64)          none
//	slack         X-Slack-Signature        v0:TIME:body           X-Slack-Request-Timestamp
//	stripe        Stripe-Signature         TIME.body              t= in the header
//	hmac-sha256   as configured            body (hex or base64)   none
//
// Slack asks an address for a challenge before it sends events to it; that is answered and not enqueued.
//
// # What becomes of it
//
// The message is the raw body with the request's content type, or what the hook's map makes of it (package mapping; schema and idempotency
// key are those of the raw one), the headers that the hook keeps under their names in lower case (several
// values joined by ", "), and hook_name, hook_source (the address at the other end of the connection, a proxy's where there is one) and
// hook_received_at (Unix ms by this node's clock).
//
// Its trace context (W3C: traceparent, tracestate) goes along as the headers that workers find it in, whether the hook keeps them or not. Where
// the node makes spans the webhook is one, of the sender's trace or, where he says nothing, of one that begins with it; the message's traceparent
// is then that span, so that enqueue, deliveries and work are its children. A repeat is a span of its own and changes nothing of the first message.
//
// The idempotency key, from a header or from the JSON body, becomes a dedup key of the queue, made of the hook's name and the key, since
// a queue can have several hooks. So the log decides, on every node alike, over changes of leader, for the queue's dedup_window_ms (24 h by
// default). A repeat stores nothing. While the first message lives it gets 202 with that one's id; once it has ended 200, with the result
// that was recorded. The same key with other bytes is 409: a pointer to what is no name of the event would otherwise lose every later one
// in silence. Without a key every arrival is a message.
//
// Answers are the JSON API's in kind: each has an X-Request-Id (the sender's or one that is made, in the log's line of a refusal too), a problem has it
// as request_id, and a result has its output as JSON, text or base64, whichever output_encoding names. Describe puts them into the OpenAPI document.
//
// 202 means that the message is on a majority's disks. Whatever the sender cannot cure is 503 with Retry-After, spread over some seconds;
// outcome says whether it may be in the log for all that (unknown), which a repeat with an idempotency key finds out.
//
// # Bounds
//
// Bytes of a body; bytes of all bodies in memory; time until a body is there; bytes of a signature header and signatures in it; parts of a
// pointer; bodies that are parsed at once, since a parsed one can take thirty times its bytes; webhooks on their way into the log, counted
// only once their signatures hold, so that who has no secret cannot take those places; time of the way into the log.
//
// # Decisions
//
// 2026-11: a hook is a producer like any other: Producer is the SDK in the node's own process, which finds the leader, follows it, and
// sends again what has no answer under one request number. Rejected: to send the HTTP request on to the leader, which would have to check
// the signature again by its own clock and secrets, and to trust another node's word about source and time; and a door of its own for
// enqueues between nodes, which would be a second SDK.
//
// 2026-11: every hook has a secret. A door without one is what the queues' own API is for.
//
// 2026-11: headers and forms of bodies are not turned into other fields: no mapping of kinds. What a hook can do to a body is to refuse it, by a
// JSON Schema, and to make another of it, by an expression over body and kept headers. An expression that fails refuses the webhook: what it
// would have made is not known, and what it is to be kept from must not come through.
package hook
