// Package chaos holds the fault tests against real node processes: kills, damage on disk, failing syncs, workers that
// die. Each test says what was promised, breaks something, and counts.
//
// # Accounting
//
// A Ledger knows every message it tried to enqueue, which were confirmed, and every delivery that came back. At the end of
// a run, after everything is drained:
//
//   - lost: confirmed, but no result is recorded. Must be 0.
//   - phantom: delivered or recorded, but never sent, or with other bytes. Must be 0.
//   - recovered: the outcome of the enqueue was unknown, and the message was found. Reported.
//   - duplicated: delivered more than once. Reported: delivery is at least once.
//
// Every body is its own proof: producer, number, and a checksum over both and the padding. The recorded result of a
// message is the SHA-256 of its body, so that a result of another message cannot pass for it.
//
// TestHistory records everything that clients (bench/chaos/workload) see and has it judged by the checker in bench/chaos/history.
// TestMixedFaults does so under a drawn schedule of faults of all sorts (bench/chaos/nemesis); its long form is the command bench/chaos/run.
//
// Nodes are built with the planted bug of the test binary, where it has one (fsm/mutant).
//
// # Disks that forget
//
// A kill leaves what was written in the kernel's cache, so it cannot tell a node that syncs from one that does not. TestPowerCuts,
// TestPowerCutSweep, TestFailingDisk and TestStalledDisk run each node on a disk of bench/chaos/forgetfs, which drops what was not synced
// when the power goes: of one node, the leader, two, all; at any moment, and before one after the other of the calls of a node's
// life; which fails from a certain sync or write on; takes seconds for a sync; or is small and fills up (TestFullDisk). TestPowerCutsAreNoticed is the control: where syncs do nothing, messages must be lost. The
// nodes are of the chaos build, with snapshots every 256 KiB of log and segments of as much, so that all of what is rare happens in
// seconds. Not tested so: conversions of the log store, backups, a disk that lies about one file only. cluster/store does the same to its
// stores alone, which is where most of what is wrong shows first. `make crash` is the long form.
//
// TestSoak is the same load for as long as one likes, with faults and backlogs that come and go: nothing may grow.
//
// # A network with faults
//
// Loopback cannot be cut. Where the machine can (root, /dev/net/tun), the whole test binary runs in a network namespace of its own, and the
// nodes of TestNetworkFaults and TestMixedFaults each in another, connected by bench/chaos/netswitch: see there.
//
// Tests take -seed (printed when it is drawn), -kills, -cuts and more (-help); their defaults fit CI. They need nothing of the machine's
// network, and no processes but those they start.
package chaos
