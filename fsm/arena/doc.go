// Package arena keeps byte strings of any length outside the Go heap: the bodies, headers and texts of the replicated
// state, where the garbage collector neither sees them nor waits for them.
//
//	Ref ──▶ chunk number │ offset
//	                          │
//	chunk, 2 MiB   ┌──────────▼──────────────┬──────────────┬───────────┐
//	               │ size 24 │ owner 40 │ …  │ head │ bytes │ free room │
//	               └─────────────────────────┴──────────────┴───────────┘
//	                8 bytes before each blob, blobs begin at multiples of 8
//
// A chunk is filled from front to back and nothing in it is used again before all of it is free; so a blob, once
// filled, does not change until it is gone, and a reader that holds a Pin needs no lock. Blobs over 256 KiB have a
// mapping of their own. On linux chunks are anonymous mappings, a huge page each where the kernel gives one, populated in one call; elsewhere
// they are slices.
//
// Invariants:
//
//   - One goroutine owns an arena. Pins are read and released by any.
//   - A blob that was live when a Pin was taken can be read through it until it is released: chunks that become empty
//     meanwhile wait in limbo, and the chunk being filled is not begun anew.
//   - Live counts blobs with their heads and padding; Held counts every byte mapped, chunks in hand (at most 8, and
//     16 MiB of large mappings) too.
//   - Nothing here is visible in the logic of the state: a Ref is local to a node and means nothing in a snapshot.
//
// Decisions:
//
//   - 2026-11: no size classes and no free lists within a chunk. A queue's bytes come and go together, so chunks empty
//     as a whole; what lives longer is moved by Compact once it holds less than a quarter of its chunk.
//   - 2026-11: freeing a blob writes nothing to it. Whether a blob in a chunk is live is asked of its owner, whose
//     record points at it or does not; a mark in the head would be a write that readers of a pin could meet.
//   - 2026-11: where the kernel refuses a mapping the chunk comes from the Go heap instead: slower, not fatal.
//   - 2026-11: a chunk is a huge page. On a virtual machine that shadows page tables the first touch of each small page took 5 µs
//     after it had been populated, 1.4 ms a MiB, and of a huge one 0.007 ms a MiB; to populate took 0.2 ms a MiB and 0.06. Three nodes
//     with 8 producers (W1, by turns): 0.36 to 0.17 page faults a message, 1.6 µs less of user CPU, 0.8 more of the kernel's; 0.95 of the CPU
//     in all. Rejected: larger populates of small pages and MAP_POPULATE, which cost the same a page.
package arena
