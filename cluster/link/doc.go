// Package link is the door between nodes: one TCP port for raft of every group and for node RPC.
//
//	dialler                                      listener
//	  │ hello: version, kind, group, cluster,       │
//	  │   who I am (uuid, label, start, nonce),     │
//	  │   whom I want ───────────────────────────▶  │ checks all of it
//	  │ ◀────────── answer: who I am, or a refusal  │
//	  │ checks who answered                         │
//	  │ ═════ raft's bytes, or node RPC frames ═════│
//
// Invariants
//
//   - No byte of a connection reaches raft or the RPC decoder before its hello has been read, bounded in bytes (141) and time
//     (5 s), and accepted.
//   - A raft connection is between two nodes of one cluster, each of which has checked the other's UUID: an address that
//     has gone to another node is refused, by the dialler as well as by the listener.
//   - Of one UUID only the newest process is spoken to: a later start (incarnation) takes the place of an earlier one and
//     ends its connections; an equal one with another nonce is a second copy, and refused.
//   - Connections, handshakes in progress and RPC connections are bounded.
//   - Within a raft request no silence is longer than 5 s: who reads one is raft's loop, where it is a snapshot (see incoming).
//   - What stays open while there is nothing to do is bounded too: of each group RaftPool connections from a node to each
//     other one, whoever has led or voted meanwhile, and the leader's pipeline to each follower, which is none of them. Three
//     nodes: 20 at most. Those to a process that has ended go when its successor is met.
//
// Decisions
//
//   - 2026-11: raft's own transport runs on top, unchanged. It knows addresses, not ids, so that Transport gives it
//     UUID@host:port for an address; this is also the key of its connection pool, which a ServerAddressProvider could not do.
//   - 2026-11: pipelines are wrapped: raft v1.8.0 leaves the sender of one hanging when its receiver has met a refusal (see
//     pipeline). Seen once in some thirty runs of twelve transfers under load.
//   - 2026-11: the hello has a fixed layout of its own rather than CBOR: nothing that comes from a stranger is parsed by more
//     than a length check.
//   - 2026-11: there is no authentication yet. The hello proves nothing against an attacker; mutual TLS goes below it.
package link
