// Package arena keeps byte strings of any length outside the Go heap: the bodies, headers and texts of the replicated
// state, where the garbage collector neither sees them nor waits for them.
//
//	Ref ──▶ chunk number │ offset
//	                          │
//	chunk, 1 MiB   ┌──────────▼──────────────┬──────────────┬───────────┐
//	               │ size 24 │ owner 40 │ …  │ head │ bytes │ free room │
//	               └─────────────────────────┴──────────────┴───────────┘
//	                8 bytes before each blob, blobs begin at multiples of 8
//
// A chunk is filled from front to back and nothing in it is used again before all of it is free; so a blob, once
// filled, does not change until it is gone, and a reader that holds a Pin needs no lock. Blobs over 256 KiB have a
// mapping of their own. On linux chunks are anonymous mappings populated in one call; elsewhere they are slices.
//
// Invariants:
//
//   - One goroutine owns an arena. Pins are read and released by any.
//   - A blob that was live when a Pin was taken can be read through it until it is released: chunks that become empty
//     meanwhile wait in limbo, and the chunk being filled is not begun anew.
//   - Live counts blobs with their heads and padding; Held counts every byte mapped, chunks in hand (at most 16, and
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
package arena
