// Package netswitch is a network that faults can be put into, for real processes: each has a network namespace of its own, whose only way
// out is a TUN device, and all of those end in this process, which hands packets on, or late, twice, out of order, or not at all.
//
//	      go test, make, a shell ─▶ Enclose starts the program again, in a network namespace without an uplink
//	                                      │
//	┌─────────────────────────────────────▼───────────────────────┐
//	│ the program: test, clients          Switch                  │
//	│ place "clients"  192.0.2.1 ─ TUN ─▶ edge clients▶n1 ─┐      │
//	└──────────────────────────────────── edge clients▶n2 ─│──────┘
//	                                      edge n1▶clients  │
//	  namespace of n1  192.0.2.2 ─ TUN ─▶ edge n1▶n2     ◀─┘ TUN
//	  namespace of n2  192.0.2.3 ─ TUN ─▶ …
//
// A place is a namespace with one address; between every two places there is an edge in each direction. An edge is cut or not, and has a
// Shape: delay, loss, duplicates, reordering, a rate. The faults of a run (Isolate, Halves, Ring, Bridge, Flap, Swizzle, Reset, …) are
// made of those. What is cut lets nothing pass and tells nobody, as a pulled cable does: TCP tries again, and goes on once it is healed.
//
// # What is promised
//
//   - When a method that changes an edge returns, no packet goes by the old rules any more, those under way included: a cut drops what was
//     delayed.
//   - What becomes of the n-th packet of an edge since its Shape was set follows from the shape's seed alone. When packets come, and in
//     which order over several edges, is the machine's affair.
//   - Everything is bounded: places (16), bytes under way to a place, bytes that wait for a narrow edge, connections known, the life of
//     a Switch. What does not fit is dropped and counted.
//   - Nothing leaves the machine, and nothing of the machine's own network is touched: the namespaces have no uplink, and 192.0.2.0/24 is
//     an address range that no network has (RFC 5737).
//   - Everything is gone with the process, also when that is killed: namespaces and devices live as long as the processes and files that
//     have them open, the enclosed program is killed with the one that started it, and nodes with that (bench/proc).
//
// # Resets
//
// Reset ends TCP connections with a reset that both ends believe. A receiver takes a reset only with exactly the sequence number that it
// waits for (RFC 5961), and that is what every segment it sends says in its acknowledgement. So a connection is marked, both ends are sent
// a reset with the number each said last, which is right where nothing is under way; and whatever an end still sends does not pass, but is
// answered with a reset with the number that it says, which is always right. No connection tracking of the kernel's is needed.
//
// Decisions (2026-11)
//
//   - The program is started again in a new namespace (Enclose) rather than moved into one: a namespace belongs to a thread, a Go program
//     has many threads before its first line runs, and what moves all of them (syscall.AllThreadsSyscall) does not exist beside cgo,
//     which the race detector needs. So clients of any sort, the SDK's and net/http's among them, are on the network without a
//     dialer of their own. It is a network namespace alone: nothing is mounted, so no mount namespace is needed.
//   - Namespaces of nodes are made by a locked thread that leaves the program's, opens the device, and comes back; they have no name in any
//     folder, and are reached as /proc/PID/fd/N. Nodes are started in them by nsenter(1), which becomes the node, process id included.
//   - IP packets and TUN rather than frames and bridges with nftables: there is no netem on the kernels that this must run on, and
//     chances drawn in the kernel have no seed.
//   - One edge, one lock, held while a packet is handed to the device: the price is some tens of nanoseconds, and cuts are exact.
//   - Chaos builds of the server take addresses of 192.0.2.0/24 as they take loopback (package transport). No other build does.
package netswitch
