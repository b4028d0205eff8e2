// Package floor is a Raft group without a broker: what the consensus library, the log store and the transport cost by
// themselves on a machine, under the very settings that a group of the product has. `quorate bench floor` runs it, and what
// the product takes for one message is held against that.
//
//	Apply ──▶ raft ──▶ log cache ──▶ checksums ──▶ the log store, fsync
//	            └────▶ link ═════ followers, which do the same
//
// A Node is one member: data directory, stores, the nodes' port and raft, put together as cluster.Node does it, but for
// gossip, membership and everything that the state machine would do: the one here counts. An entry carries one enqueue of
// one message as the product would write it, so that its length is the product's.
//
// # Decisions
//
//   - 2026-11: members are told of each other, once, by whoever started them. The founding of a cluster by gossip is not what
//     is measured, and takes seconds.
//   - 2026-11: an entry carries one message. Packing is what the product does about the floor, not a part of it.
package floor
