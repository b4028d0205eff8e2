// Package schema judges the bodies of messages by JSON Schemas, at every door of a node alike.
//
// A schema is whole by itself: references within it are followed, others are refused, and nothing is loaded from files or addresses. It is
// of draft 2020-12, or of what its $schema says, and of at most MaxBytes.
//
// What does not fit is an error that says where, as a JSON pointer into the body, and what would be right:
//
//	/items/2/price: got string, want number; /items/3: missing property 'price'
//
// What is wrong with a schema is said in the same way, with pointers into the schema; what is no JSON by line and column. An error is one
// line, of at most maxSaid bytes, and speaks of no library (words.go).
//
// # Bounds
//
// Whoever may set a queue's options must not be able to stop its door, so what a schema may cost is bounded by the body, and not by what
// the schema makes of it (an allOf of two, nested thirty deep, is a billion looks at one number):
//
//   - each look of a schema at a value is a step, paid for by the look that asks for it: so many branches, items, names. A look that calculates
//     with a long number, or measures a long text, is several. A body of n bytes has stepsBase + n*stepsByte of them, stepsMost at
//     most. Beyond, the body is refused: it is too much work. A look that fails is kept as an error of some 250 bytes until the body is
//     judged, so steps are memory as well as time;
//   - patterns are RE2 (no look-around, linear time) of at most maxPattern instructions, and maxPatterns all together: compiled schemas are
//     kept. A match is paid for as it reads (package pattern), a step for each matchStep instructions times bytes, so that all the steps that
//     any body has are a quarter of a second of matching;
//   - values nest at most maxNesting deep, and a number has at most maxNumber characters and maxExponent as its exponent: exact arithmetic on
//     1e999999 takes seconds;
//   - maxTurns bodies are judged at once in the process, and one of more than largeBody, since a parsed one takes up to thirty times its bytes;
//   - a schema has at most maxParts parts: a compiled one takes a kilobyte for each. It is compiled once for each body that is judged at the same
//     time, up to copies, and as often as copiesBytes are enough for;
//   - a Cache keeps at most as many schemas ready as it was made for, of as many bytes as it was made for, by what they are estimated to take.
//
// A judgement ends within stepsLook steps when nobody waits for it any more, and at once where it has not begun.
//
// # Decisions
//
// 2026-11: steps are counted inside the library's own walk, by a format and a regular-expression engine of ours in every compiled part
// (meter.go): it has no bound of its own, and cannot be stopped. Rejected: a time-out, by which a busy machine would refuse what an idle one
// takes; a vocabulary of ours, which is not asked where a look has failed; refusing schemas that branch, of which most are harmless.
//
// 2026-11: const, enum and uniqueItems are judged here (equal.go): the library calculates with fractions for each comparison, and finds equal items
// by hashes that are the same for all lists within lists, which whoever sends a body may use.
//
// 2026-11: formats are asserted as the drafts say: from 2019-09 on they are remarks.
package schema
