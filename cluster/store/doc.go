// Package store is everything a node has on disk: the data directory with its identity, raft's log, stable values and
// snapshots, and the promise that none of it is believed unchecked.
//
//	data_dir/            mode 0700, held by one process (lock)
//	  identity.json      who this node is; incarnation raised and synced at each start
//	  raft.db            bbolt: log entries and stable values, each with its checksum
//	  raft.tail          where the log ends at least, how often stable values were written at least
//	  snapshots/ID/      meta.json as raft has it, and state.bin with a header and a footer; ID.tmp until all of it is durable
//
// Invariants
//
//   - An entry is checked when it is stored and whenever it is read; a stable value and a snapshot whenever they are read.
//   - An entry that is missing between the newest snapshot and the end of the log is damage, not absence.
//   - Whatever went wrong in a write, a sync or a check trips the Halt: the process ends, and no call on any of the stores
//     returns before that, so that nothing is acknowledged on the strength of a store that has failed once.
//   - identity.json, raft.db and raft.tail vouch for each other: one of them that is missing, emptied, of another node or put
//     back from an older copy stops the start.
//
// What is not caught: a whole data directory put back from an older copy (the peers refuse its incarnation), and a machine
// that loses power and damages the newest pages of raft.db in the same moment in a way that leaves a well-formed file.
//
// Decisions
//
//   - 2026-11: snapshots are written and read here rather than by raft's file store, whose CRC64 took as long as all else together, at
//     each write and once more at each start. The disk is set to a snapshot while it is written, without syncs: each of those
//     commits the file system's journal, and the log's own syncs wait for that.
//   - 2026-11: the envelope lives in raft.Log.Extensions, so that an entry keeps the checksum that the leader gave it on its
//     way to the followers. Computing it anew on each node would vouch for whatever arrived.
//   - 2026-11: bbolt's meta pages are checked before bbolt opens the file. bbolt falls back to the older of the two, which
//     forgets the last transaction: a vote or an acknowledged entry.
//   - 2026-11: the marks in raft.tail cost one small write and no sync a transaction. Storing them in bbolt instead would be
//     a second transaction with two syncs, or a log store of our own.
//   - 2026-11: a compaction deletes 128 indexes a transaction, since bbolt's only writer is blocked meanwhile; a truncation
//     that reaches the log's end is one transaction, since a crash in its middle would leave a hole.
package store
