// Package table holds the containers that the replicated state is made of: records, indexes and heaps laid out in pages,
// without a pointer in any element, so that a state of millions of records is a few thousand objects to the garbage
// collector, grows without ever copying itself, and can be looked at while it goes on changing.
//
//	Pages   ▢ pointers to pages ──▶ [128]T, copied on first write after a View
//	Index   ▢ directory by the hash's upper bits ──▶ pages of 1024 slots, probed by its lower bits
//	Heap    ▢ pages of 1024 nodes (key, slot), four children a node
//	Calendar ▢ a heap of what is next, and sheets of up to 512 nodes for what is far
//	Order   ▢ pages of up to 512 slots, sorted; a place is found by halving, what follows by going on
//	Ints    ▢ pages of 1024 int32, absent where all are zero
//
// Invariants:
//
//   - One goroutine owns a container. Only a View is read by others, while the owner goes on.
//   - No operation takes time that grows with the size of the container, but for the copies of page pointers: View and
//     the doubling of an index's directory, one pointer for each 128 records or thousand elements. A calendar goes through whole sheets
//     when their time comes, as many as hold something that is next.
//   - What is emptied gives its memory back, one page kept in hand.
//   - Nothing here depends on chance or on addresses: the same calls give the same slots on every node. Slots are local
//     all the same; no rule of the state may depend on them.
//
// Decisions:
//
//   - 2026-11: an index keeps 32 bits of hash beside each value, so that growing and deleting never ask the owner for
//     the hash of a record, and most misses never ask whether a record is equal. Slots are 8 bytes.
//   - 2026-11: an index grows by splitting one page (extendible hashing), about 5 µs at a time. Rejected: two tables and
//     a migration step with every call (every lookup in two places while it lasts), Go maps (pointers to the collector,
//     random order, growth in one go).
//   - 2026-11: deletion shifts later elements back over the gap. Rejected: tombstones, which rot a queue's index within
//     hours, since everything that comes in goes out again.
//   - 2026-11: a heap of four children a node keeps the keys of children beside each other: one cache line where two
//     children a node need two. Positions go out through a callback, so that a heap of one queue costs nothing by slot.
//   - 2026-11: delays are in a calendar and not in a heap. With five million in it, a heap's path from top to bottom is a cache
//     miss or two a level, most of them in the records that are told their new positions, and it was the largest part of what a
//     delayed message cost. A sheet tells a record its place once; in the small heap records move as seats. Rejected: a wheel of
//     slots by time, which must be gone through tick by tick or kept with bitmaps a level, cannot answer what the earliest is
//     without opening a slot, and has a horizon; lists through the records, whose neighbours would be written, and copied under
//     a view, at each change; sorting a sheet instead of a heap, which takes in nothing that comes late.
//   - 2026-11: a page of records holds 128. With 1024 the first five thousand of three million delayed messages to come due under
//     a view took 65 µs each to copy their pages, a third of a second in which nothing else was done; with 128 the same work is
//     spread over the first 35,000, at most 20 µs each. Views copy eight times the pointers for it: 0.3 ms at three million.
//   - 2026-11: pages stay on the Go heap; they hold no pointers, so the collector does not look into them, and what a
//     view still holds needs no counting.
package table
