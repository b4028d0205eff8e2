// Package mapping makes bodies and messages out of messages, by expressions in the language of expr-lang: field access, conditionals,
// optional chaining, and functions over lists.
//
//	body.order.id                                            the body of a push
//	{id: body.id, net: body.gross / 1.19}                    an object becomes JSON
//	body.total > 1000 ? body : nil                           nil: nothing is made
//	map(body.items, {{sku: .sku, order: body.id}})           map_to: a message for each (the outer braces are the loop's)
//	send(body, {kind: "bill", priority: 9})                  map_to: with fields of its own
//
// # What an expression sees
//
//	body       what the message's JSON says; the text of one that is none
//	headers    by name
//	message    id, task_id, queue, kind, content_type, key, priority, attempt, redrives, enqueued_at (Unix ms), size (of the body, in bytes)
//
// and nothing else: no clock, nothing random, no file, no address. So a message comes to the same, whoever evaluates it and when. Functions
// are those of the language that walk lists (all, any, one, none, filter, map, count, sum, find, findIndex, findLast, findLastIndex, reduce)
// and those of functions.go.
//
// # Numbers
//
// A number is an integer of 64 bits or a float, and is exact or refused, with its place; nothing wraps, and nothing is rounded that need not be:
//
//   - - * % ** and sum    of integers are integers; beyond 64 bits they are an error, as is what has no result: 1 / 0, 0 ** -1, (-8) ** 0.5
//     /, and any float      make a float; beyond 1.8e308 is an error
//     an integer            becomes a float unasked where that is the same number, and is an error where it is not: float(n) takes the nearest
//     < <= > >= == != in,   compare by what numbers are, also an integer and a float
//     min, max
//     int(f), floor(f) …    beyond 64 bits are an error, and so is an index that is no integer
//     an integer of a body  that does not fit in 64 bits is passed on as it is, compared, and made a text or a float; calculating with it is an error
//
// # What becomes of its value
//
// Of a body: nil is nothing; a text is its bytes, as text/plain; all else is JSON.
//
// Of messages: nil is none; a list is one message an element (to have a list as a body, send([…]) or [[…]]); what send() has made is that;
// all else is one message's body. A message has kind, key, priority and headers of the one it comes of; send() sets them anew, header
// by header, nil for none, and content_type, delay_ms and ttl_ms beside.
//
// # Bounds
//
// Who sets a queue's options must not be able to stop the node that evaluates them, so an evaluation has a budget, and what passes it is an
// error like any other:
//
//	expression     MaxBytes, maxNodes; the middle of a < b < c counts twice, since it stands in the tree twice, and what is in it as often
//	work           maxSteps: one for each turn of a loop, and one more for each turnNodes parts of what it repeats; one for each call; one more
//	               for each stepBytes of text that is read or made, and each matchStep instructions times bytes of a pattern's match
//	memory         maxMade bytes of text, maxValues values of lists and objects, and as many of ranges
//	output         as the caller says, and MaxMessages
//	nesting        maxNesting, of values in and out
//	at once        maxTurns in this process, since a parsed body takes up to thirty times its bytes
//	kept           maxHeld bytes of programs in this process, by what they are estimated to take: what maps a queue counts its own (Keep, Drop)
//	time           maxTime; beyond it is ErrLate, which is nobody's fault but the machine's, and is to be tried again
//
// # Errors
//
// An *Error says what was wrong, and at which line and column of the expression where it is not about all of it: on one line, in at most
// maxText bytes, and in the words of this package. What the library says is said anew (words.go), since it names types of Go's.
//
// # Decisions
//
// 2026-11: parsed, checked and run by the library, whose loops and operators have no bound of their own, wrap integers, and speak of Go's types:
// a visitor (guard.go) has each turn of a loop pay, and puts functions of ours in the place of all operators but conditions and fields.
// Functions but those that walk lists are ours for the same reason, and a sum is a fold. Rejected: running it beside and giving up on it,
// since it would run on; numbers of any length, whose cost would have to be paid for digit by digit, for what JSON's readers do not read.
//
// 2026-11: steps and not time decide: a message must not die since a machine is busy.
package mapping
