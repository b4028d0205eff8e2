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
//	body       what the message's JSON says; the text of one that is none. Numbers without fraction are integers where they fit in 64 bits
//	headers    by name
//	message    id, task_id, queue, kind, content_type, key, priority, attempt, redrives, enqueued_at (Unix ms), size (of the body, in bytes)
//
// and nothing else: no clock, nothing random, no file, no address. So a message comes to the same, whoever evaluates it and when. Functions
// are those of the language that walk lists (all, any, one, none, filter, map, count, sum, find, findIndex, findLast, findLastIndex, reduce)
// and those of functions.go.
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
//	expression     MaxBytes, maxNodes
//	work           maxSteps: one for each turn of a loop and each call, one more for each stepBytes of text that is read or made
//	memory         maxMade bytes of text, maxValues values of lists and objects
//	output         as the caller says, and MaxMessages
//	nesting        maxNesting, of values in and out
//	at once        maxTurns in this process, since a parsed body takes up to thirty times its bytes
//	time           maxTime; beyond it is ErrLate, which is nobody's fault but the machine's, and is to be tried again
//
// # Errors
//
// An *Error says what was wrong and at which line and column of the expression.
//
// # Decisions
//
// 2026-11: parsed, checked and run by the library, whose loops and operators have no bound of their own: a visitor (guard.go) has each turn
// of a loop pay, and puts functions of ours, which pay too, in the place of operators that can make much of little ("a" + "a", forty times)
// or walk far (==, in). All functions but those that walk lists are ours for the same reason. Rejected: running it beside and giving up on
// it, since it would run on.
//
// 2026-11: steps and not time decide: a message must not die since a machine is busy.
package mapping
