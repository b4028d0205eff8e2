// Package pattern has regular expressions that others have written, in schemas, mappings and messages: RE2, of bounded size, and paid for
// while they are matched.
//
// A match looks at each byte with each instruction at worst, some 15 ns each time, so that is what is paid for: instructions times bytes, as
// they are read. A pattern that fails at the first byte costs no more than that byte, however long the text. Short texts are paid for at
// once, as if all of them were read: the engine is faster when it has all of a text.
//
// The size is judged before anything is built: of nine bytes, (a{1000}), a thousand instructions are made, and of a schema's worth of them
// half a gigabyte.
//
// # Decisions
//
// 2026-11: read through a reader, which is the one place where a match of the library can be stopped. Rejected: paying for all of a text
// before it is matched, by which ten patterns that fail at once were too much work for a text of 100 kB; an engine of ours.
package pattern
