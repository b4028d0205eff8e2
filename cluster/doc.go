// Package cluster is a node: what turns a process with a disk and two ports into a member of a Quorate cluster.
//
//	            ┌────────────────────────── Node ──────────────────────────┐
//	clients ──▶ │ Group 0 (cluster/group): raft, state, proposer, sessions  │
//	            │    │ log, votes, snapshots      │ entries, votes          │
//	            │ store.Disk                    link.Link ◀── node port ────┼──▶ other nodes: raft and node RPC
//	            │ identity.json, raft.wal, …    peers.json                  │
//	            │ tend: found, join, keep one's place; as leader promote ◀──┼──▶ gossip port: who is where, who lives
//	            └───────────────────────────────────────────────────────────┘
//
// Becoming a member. A node without a cluster looks for one in gossip. It sees a member: it asks to join, the leader makes
// it a non-voter, and a voter once it has caught up. It sees only nodes like itself, as many as bootstrap_expect says: the
// first of them by UUID asks each of the others whether it sees the very same ones and gives its word, and then writes the
// new cluster into its own log and tells the rest.
//
// Staying one. A member that raft's configuration shows elsewhere than it is tells the leader. One that has had no leader
// for a while, or is not in the configuration, asks around; when a leader that has just been confirmed says that it is no
// member any more, it notes that on its disk and ends, and will not start again on that data.
//
// Finding one. A node is dialled where it was last by what is known of it: what it has said itself, or gossip. When nobody answers there, raft's
// configuration has its turn, and then the first again: either may be the older one, and gossip may not get through, or lie.
//
// Losing one. What a queue delivers at most once is done in the entry that leases it, on every node alike, and its body goes to
// the worker from the leader that applied that entry, at that moment and never again. A leader that dies, is cut off or loses its term
// between the commit and the sending takes with it what it had in hand: no other node sends it, by replay, snapshot or restart, since to
// them it is a message that was delivered. All other queues lose nothing: their leases stand in the state, and end there. A node that is
// killed while it does not lead loses nothing either.
//
// Invariants
//
//   - raft's ServerID is the UUID in the data directory. The label (node_id) stands before the address in raft's
//     configuration, and one label belongs to one UUID there until it is removed.
//   - Gossip tells where nodes are. It never adds, removes or promotes a voter; the leader does, one change at a time, upon a
//     request over the node port whose handshake has checked who asks.
//   - A change of the membership is made upon the committed configuration that it was decided on, or not at all, also where another
//     leader has changed it meanwhile; and a non-voter is promoted upon what it has said within the last second.
//   - Nobody is told that it is a member, or none any more, by what is not committed: it keeps either on its disk. The configuration that a
//     cluster is made with counts as committed, since it cannot be before the others have been told.
//   - What others ask for, and what the node tends, waits for raft no longer than it was given time for, nor than the node lives: a change that
//     is not committed holds up neither the answers to others nor a stop. It may be committed later all the same.
//   - A cluster is made once: only by nodes that have no data, and only when all of them agree on who they are.
//   - Nothing is removed that would leave the rest without a majority that answers.
//   - The stores are closed when raft has ended. A stop that has no time to wait for that leaves them open, and the directory held, until the
//     process ends.
//   - Whatever breaks a promise of the store ends the process (store.Halt); so does another process with this identity.
//
// Memory of a node with a million queued messages of 256 bytes, MB of VmRSS (files mapped and shared included), as measured in 2026-11:
//
//	                                        at first    now
//	bodies, in the arena (fsm/arena)           264      264     264 B a message: 256 and a head
//	records and indexes (fsm/table)             81       81
//	log cache                                   33       33     its bound
//	what else is live in the heap               12       12
//	garbage and free spans                     115       70     bounded by 64 MiB, from 640 MiB of heap on by a tenth (cmd/quorate)
//	pages of raft.db                           152       20     let go of after each 32 MiB (cluster/store); log_store wal maps nothing
//	the binary, stacks, the runtime             23       23
//	in all                                     680      490 to 500
//
// Decisions
//
//   - 2026-11: what a node restores at its start, and what it has to catch up with in the first half minute, it does on a thread
//     of a lower priority (aside.go). Nodes that share a machine would otherwise lose half of it to one that nobody waits for, in
//     the very seconds in which they make up for a leader's death. Not for longer: where the CPU is never free it would stay
//     behind. Rejected: pauses, which waste a CPU that is free; the priority of the process, which cannot be raised again.
//   - 2026-11: labels live in raft's configuration, as label@host:port. It is replicated and changes with the membership;
//     a table in the state machine would be a second truth. It also lets two nodes swap addresses, which raft's check for
//     duplicate addresses would refuse half-way.
//   - 2026-11: the index by which raft refuses a change that comes too late is kept by the group (group.Members), since raft's own
//     GetConfiguration says 0. Rejected: to have the node's lock alone keep changes apart, which knows nothing of another leader's.
//   - 2026-11: the gossip name of a node is that of one start (UUID.incarnation), so that a fast restart at another address
//     is never a conflict with what others still believe of the last one.
//   - 2026-11: the founder writes identity.json (founding) before the log and again after it. A crash in between is settled
//     at the next start by what the log says; nobody else has heard of the cluster by then.
//   - 2026-11: a removed node ends its process rather than idling: its clients must go elsewhere and somebody must know.
//   - 2026-11: the leader is not removed; it is asked to hand leadership over first. raft could do it, but the answer to the
//     request would come from a node that is a member no longer.
//   - 2026-11: enqueues are refused before a disk is full (no_space, space.go), by the leader, while it or a voter that answers has little
//     room. Acks and deletions go on with what is kept for them. Snapshots are taken as soon as they give room back, since with
//     enqueues refused the log would not call for one, and begun only where they fit. Rejected: to wait until a majority has little,
//     since nodes fill alike and differ by where they are with their snapshots, so that one after the other would end; whoever
//     would rather lose a node with a small disk stops it or lowers its limit. And to hand leadership to a node with more room.
//   - 2026-11: node RPC opens a connection for each call. Calls are a few a second at most, and a connection that is not
//     kept needs no care.
package cluster
