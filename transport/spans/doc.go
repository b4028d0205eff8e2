// Package spans makes the broker's part of distributed traces, and sends it to a collector by OTLP over HTTP.
//
//	producer: send q ──traceparent in the message's headers──▶ broker ──traceparent of deliver q──▶ worker: process q
//	                │                                            │
//	                ├── enqueue q   arrival to commit            │  each attempt has a deliver of its own, and each
//	                └── deliver q   enqueue to hand-out  ◀───────┘  but the first is linked to the one before it
//
//	another system ── webhook h ── enqueue q, deliver q ──▶ worker: process q
//
// Whether a message is traced is decided by its producer: by a header traceparent (W3C Trace Context) that says sampled. The broker begins
// no trace, but for webhooks whose senders say nothing: those get one of their own, a hundred a second at most. What a sender says is
// looked at once his signature holds. The stored header stays as it came, a webhook's with the id of its span in it; what a worker is handed has the id
// of its delivery's span in it, so that his spans are children of that.
//
// A delivery's span id is made of the message's id and the attempt's number, so that the link to the attempt before needs nothing in the
// state and is right after any change of leadership. An attempt that is handed out again for free has the same span again.
//
// # Cost and bounds
//
// Nothing of this exists where no endpoint is configured: the doors then compare one pointer with nil. Where there is one, a message that is not
// sampled costs a look at the names of its headers, and one that is some hundred nanoseconds where the state's lock is held: spans are
// made and sent by a goroutine of their own, from a queue of 8,192. What does not fit is counted and lost (quorate_spans_total), and so is what a collector
// does not take. Nothing waits for a collector.
//
// Package spanstest has a collector for tests.
//
// # Decisions
//
// 2026-11: spans are OpenTelemetry's SDK's, and sent as OTLP's JSON by a hundred lines here. Its own exporter brings gRPC, a gateway and their
// generated code into the binary, for the same request. Its batcher is a second queue before a slow collector, with losses of its own.
//
// 2026-11: the environment variables of OpenTelemetry are not read for what the configuration says, which has one way to be given.
//
// 2026-11: webhooks begin traces, the other doors do not. Programs that enqueue can say what they want to have traced; the systems that send webhooks
// cannot be asked. A rate and not a share, so that the rare ones are all there and a flood costs no more than a hundred a second.
package spans
