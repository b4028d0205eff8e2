// Package wire is the protocol between clients and nodes: frames, their encoding, the codes of errors, and the limits
// that a request is judged by at the door. Both sides import it; it knows neither and nothing of queues' state. It never
// logs, opens no socket and starts no goroutine. PROTOCOL.md, beside this file, is the page for those who write a client
// in another language; this one is about the code.
//
//	WebSocket message (binary)          one system call for many operations
//	┌─────────────┬─────────────┬───
//	│ 83 14 03 a3…│ 83 32 04 a1…│ …     a CBOR sequence of frames
//	└─────────────┴─────────────┴───
//	  │  │  │  └ body: map with small integer keys; one struct of frame*.go
//	  │  │  └ tag: ties an answer to its request; 0 for what answers nothing
//	  │  └ type: which struct; requests even, answers and pushes odd
//	  └ array of three
//
//	writer: AppendFrame ─▶ hand-written for the hot types, the CBOR library for the rest
//	reader: Next (finds a frame's end) ─▶ Raw.Decode (strict) ─▶ Validate (at the door) ─▶ handler
//
// # Invariants
//
//   - A value has one encoding. What Decode accepts, AppendFrame writes again byte for byte: core deterministic CBOR
//     (RFC 8949 section 4.2.1), every required key, no optional key that holds its default. So equal requests have equal
//     bytes, and there is nothing to disagree about between implementations. Fuzzed.
//   - The hand-written code and the library agree, in both directions, on every type. Tested with random values and by
//     the fuzz target, which uses the library as the oracle.
//   - Decoding takes memory in proportion to the input, whatever lengths the input claims, and time linear in it.
//   - A nil slice and an empty one are the same on the wire, but a missing key is not an empty one: a message's body is
//     always there, a result or a retry policy that is left out is a nil pointer.
//   - Text is valid UTF-8 after Decode. The encoder does not check it: what comes from outside passes Validate or CutText.
//   - Type numbers, map keys and codes are only ever added. testdata/frames.golden holds the bytes of version 1.
//
// # Ownership
//
// Decoded Bytes are slices of the message they came in: good as long as its buffer is left alone. Decoded strings are
// ordinary strings. Slices inside a struct that is decoded into again are used again, so a handler that keeps a part of a
// request keeps a copy. Strings is the memory of one reader's ids and tokens, and is used by one goroutine.
//
// # Cost
//
// One core of a two-core virtual machine, go test -bench . ./wire, 256-byte bodies, ns a message alone and in a frame of
// 64: encode an enqueue 35 and 18, a delivery 42 and 33; split off and decode an enqueue 111 and 27, a delivery 229 and 157;
// an ack 14 and 105. Encoding allocates nothing; decoding about one KiB for each ten ids. The library takes 760 ns and
// five allocations to decode the single enqueue.
//
// # Decisions
//
// 2026-11: Strict to the last bit, rather than liberal in what is accepted. A repeated key, a float for an integer or a
// trailing byte means that the sender and we do not understand each other, and the cheapest moment to say so is the
// first. The price, that clients in other languages must leave defaults out, is one rule on the protocol page.
//
// 2026-11: Frames carry no length; Next walks the body to find its end. That is some nanoseconds an item, bounded in depth
// and counts, and spares a second framing inside the WebSocket's.
//
// 2026-11: Ids and tokens are text on the wire, as everywhere outside: 26 and 52 bytes instead of 16 and 32, for having
// one form in logs, JSON, shells and frames, and no 64-bit number that a reader could round.
//
// 2026-11: Decoded strings are copies from shared chunks, not views of the input. Views would save some nanoseconds and
// change under whoever keeps one as a map's key while the read buffer is used again. View goes the safe way round.
//
// 2026-11: The hot types are written by hand and the rest is left to the library. Generating code for all was rejected:
// a generator is more to own than three hundred plain lines, and the rest is not hot.
//
// 2026-11: A batch is judged as a whole by Enqueue.Validate and message by message by Message.Validate, since a bad
// message is refused alone. Ack.Validate judges what an ack enqueues too, since that is all or nothing.
package wire
