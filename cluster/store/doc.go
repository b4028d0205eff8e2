// Package store is everything a node has on disk: the data directory with its identity, raft's log, stable values and
// snapshots, and the promise that none of it is believed unchecked.
//
//	data_dir/            mode 0700, held by one process (lock)
//	  identity.json      who this node is; incarnation raised and synced at each start
//	  raft.wal/          the log, where the node's log store is "wal": segments, and the list of them with the stable values
//	  raft.db            the log, where it is "bolt": one bbolt file with entries and stable values
//	  raft.tail          where the log ends at least, how often stable values were written at least
//	  snapshots/ID/      meta.json as raft has it, and state.bin with a header and a footer; ID.tmp until all of it is durable, and
//	                     again before any of it goes
//
// Invariants
//
//   - An entry is checked when it is stored and whenever it is read; a stable value and a snapshot whenever they are read.
//   - An entry that is missing between the newest snapshot and the end of the log is damage, not absence.
//   - Whatever went wrong in a write, a sync or a check trips the Halt: the process ends, and no call on any of the stores
//     returns before that, so that nothing is acknowledged on the strength of a store that has failed once.
//   - identity.json, the log and raft.tail vouch for each other: one of them that is missing, emptied, of another node or put
//     back from an older copy stops the start. So does an identity that says that the node belongs to no cluster yet beside entries or
//     snapshots, which would be made anew otherwise.
//   - A log is read whole before the library that wrote it opens it, and nothing of it is changed before it was found whole:
//     then a batch that a power cut has torn is wiped, which was never acknowledged. Files that are no part of it are removed last, when it
//     was also found to be this node's, to go as far as the marks, and to begin where the newest snapshot ends or before.
//   - A name is durable before another file vouches for it: a segment's before the list has it, a snapshot's before the log is compacted,
//     the data directory's own before there is anything in it. Which of two names one sync of a folder makes durable first is
//     the file system's choice.
//   - A log that a start hands out agrees with the newest snapshot: it has the snapshot's last entry, or begins behind that, or is empty. An
//     install that the process did not live to finish leaves others, perhaps of a leader that was replaced.
//   - A log that is closed takes nothing more, whoever still holds it.
//   - A snapshot gets or loses its name while nobody looks for one: that the oldest is gone when a newer one is finished is no damage.
//     One that is finished when there is a newer one is dropped, since raft goes on from the one that was finished last.
//   - What a start believes is on disk before anybody is told of it, also where a sync has failed, the process has ended, and the machine goes
//     on: the kernel's cache still has what the disk has not, calls it written, and a later sync says so too. So identity and marks, the list
//     of segments and what is in those that it does not call sealed, or bbolt's meta pages, are written once more, with the bytes that were
//     judged, and synced; snapshots are given their names once more. A sync that fails in the start ends it.
//   - A snapshot or a conversion that a node has left unfinished does not keep it from starting, also where it fills the disk. A segment that no
//     list names does, where no room for a list is left: until the log was found whole it may be what the list of a damaged one has lost.
//   - There is one log, of the kind that identity.json names. Another one beside it is what a conversion has left, and goes
//     at the next start.
//
// What is not caught: a whole data directory put back from an older copy (the peers refuse its incarnation), and a machine that loses power and
// in the same moment damages what it had synced last in a way that leaves a well-formed log: the marks in raft.tail are not synced while the
// node runs, so they may be behind then. The next start raises them to what it finds.
//
// # Two log stores
//
// An engine stores entries and stable values; Log and Stable stand on it and trust it with nothing else. Everything above is
// the same for both, and so are the tests.
//
// Bolt is raft-boltdb: a transaction is two syncs and rewrites whole pages. The free list is kept in memory alone, since each
// commit would write all of it otherwise, for ever after the first compaction; a compaction deletes 128 indexes a
// transaction. The file never shrinks.
//
// WAL appends to segment files of 64 MiB that raft-wal v0.4.2 writes: one write and one sync, on space that was reserved when the
// segment was made, which is before it is needed. Compaction rewrites a short list and removes files, beside the appends.
//
// Three nodes with WAL and their load on two cores, by turns with Bolt, as parts of Bolt's figures (medians of three):
//
//	W1 flat out                     1.36 × the messages, latency p50 0.69 ×, p99 0.75 ×, CPU a message 0.77 ×
//	W3 flat out, both ways          1.20 × the messages, send to receive p99 0.76 ×, CPU a message 0.78 ×
//	W4 at 2,000/s, to receive       p50 4.4 instead of 9.3 ms, p99 41 instead of 51
//	W5 one at a time                p50 0.84 instead of 2.9 ms
//	floor, one at a time            p50 0.66 instead of 1.4 ms (two runs)
//
// Convert copies a stopped node's log from one to the other. The identity's change is the one step at which the node
// changes over.
//
// # Without a disk
//
// For GOOS=wasip1 the package is what stands on any engine: Log, Stable and Halt. bench/sim puts disks of its own below them.
//
// # Bounds
//
// A group takes a snapshot when 128 MiB or 250,000 entries have been applied since the last (of a state whose snapshot is larger:
// as much as that, and above 1 GiB half of it), and about 64 MiB of entries stay behind it. A log of 64 KiB entries so takes at most
// 192 MiB and what arrives while a snapshot is written, and on top of it
//
//	wal    three segments: one that is nearly all compacted, one that is nearly empty, one that is ready
//	bolt   what pages and free runs waste: up to as much again for entries of some hundred bytes, and 16 MiB
//
// whatever waits in the state, since no entry is kept for its sake.
//
// Decisions
//
//   - 2026-11: snapshots are written and read here rather than by raft's file store, whose CRC64 took as long as all else together, at
//     each write and once more at each start.
//   - 2026-11: snapshots go around the page cache (O_DIRECT), where the file system has that. Else the disk is set to them while they
//     are written, without syncs: each of those commits the file system's journal, and the log's own syncs wait for that.
//   - 2026-11: the envelope lives in raft.Log.Extensions, so that an entry keeps the checksum that the leader gave it on its
//     way to the followers. Computing it anew on each node would vouch for whatever arrived.
//   - 2026-11: bbolt's meta pages are checked before bbolt opens the file. bbolt falls back to the older of the two, which
//     forgets the last transaction: a vote or an acknowledged entry.
//   - 2026-11: the marks in raft.tail cost one small write and no sync a transaction. Storing them in bbolt instead would be
//     a second transaction with two syncs, or a log store of our own.
//   - 2026-11: every start writes what it believes once more, rather than one after a failed sync alone: a mark that says so would have to be
//     written to the disk that has just failed. It is written in place, since a copy takes 64 MiB that a full disk may not have. Of a WAL that is
//     the newest segment, or two of them; of bbolt's file the meta pages, since what those lead to was synced before them. A start on a
//     local ext4 takes 8 ms instead of 2 with an empty WAL, 90 instead of 15 with 63 MiB in the newest segment (153 at most); with bolt 7
//     instead of 3, and 53 instead of 39. Rejected: reading around the cache to compare, which not every file system can.
//   - 2026-11: "wal" is the default: it holds to the same checks, and is faster. Three stores on one disk, batches of four
//     entries of 64 KiB, compacted as they go: 545 MB/s against 145, a batch in 0.8 ms (p99 15) against 3.5 (p99 29). See
//     the table above for whole nodes.
//   - 2026-11: of raft-wal only the writer of segments is used. Its recovery takes the first frame that it cannot read for the
//     end of the log and checks the last batch alone, so that a flipped bit loses what was acknowledged; an index block
//     in a torn batch leaves a segment that takes no entry any more. Its metadata have no checksum, and what fails while it begins a
//     segment is only logged. Its top package also needs a package that go-metrics has dropped in the version that raft v1.8.0
//     needs. So list, reading, checks and repair are here.
//   - 2026-11: the next segment is made and listed ahead, so that going on in it costs no sync of its own. The list's syncs wait for
//     what else the file system has to write, a snapshot for instance, and every message would wait with them, once in 64 MiB.
//     What is in it before the list says so begins where the listed ones end, and is missed like all else if it is gone. It is
//     written to only when the one before is sealed on disk, so that anything in it tells of an end that was lost there.
//   - 2026-11: segments are not written with zeros ahead, nor used again. A sync on blocks that exist took a third less (0.5 instead
//     of 0.8 ms a batch of 256 KiB), but everything would be written twice, and a segment used again holds what may be
//     taken for its own.
//   - 2026-11: stable values are in the list of segments, which is replaced whole: a vote is two syncs, as in bbolt, and there
//     is no second file to vouch for.
//   - 2026-11: a segment that was cut by a truncation is sealed, and its reserve given back, instead of written again: a
//     segment's bytes are written once, so that what a crash leaves of them can be judged.
//   - 2026-11: a log that does not agree with the newest snapshot is dropped by the start, as raft does after an install unless the process
//     ends in between, rather than when the next entry comes: raft has counted on what it has by then, and a log that goes beyond the snapshot
//     would never be found out. What follows a gap at the snapshot's end, as older versions left it in a bbolt file, stays.
//   - 2026-11: log_store unset takes what is there. A new default must not keep old nodes from starting, and does not convert
//     them behind their owner's back either.
//   - 2026-11: a compaction of a bbolt file deletes 128 indexes a transaction, since bbolt's only writer is blocked meanwhile; a truncation
//     that reaches the log's end is one transaction, since a crash in its middle would leave a hole.
package store
