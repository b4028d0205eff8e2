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
// What one run of them should have met and by chance has not is looked for in at most two more; a violation fails at once.
//
// Nodes are built with the planted bug of the test binary, where it has one (fsm/mutant).
//
// # Disks that forget
//
// A kill leaves what was written in the kernel's cache, so it cannot tell a node that syncs from one that does not. These tests run each
// node on a disk of bench/chaos/forgetfs, which drops what was not synced when the power goes:
//
//	TestPowerCuts              under load, of one node, the leader, two, all, or one while others are stopped and go on later; of a node alone
//	TestPowerCutSweep          before one after the other of the calls of a story: a node's first start to its stop, snapshots, compaction; one
//	                           that joins, is given a snapshot, votes and is removed; and its leader meanwhile
//	TestPowerCutsOfAConversion before one after the other of the calls of `quorate log convert`, either way
//	TestFailingDisk            EIO or ENOSPC from a certain sync or write on
//	TestStalledDisk            a sync that takes seconds
//	TestFullDisk               a disk that is small and fills up
//	TestPowerCutsAreNoticed    the control: where syncs do nothing, messages must be lost
//
// The nodes are of the chaos build, with snapshots every 256 KiB of log and segments of as much, so that all of what is rare happens in
// seconds. TestPowerCutsOfExt4 is a second opinion: a real ext4 on a loop device, cut off from its disk by FS_IOC_SHUTDOWN, with a control
// of its own, a node that was built not to sync (fsm/mutant). cluster/store does the same to its stores alone, which is where most of what is
// wrong shows first.
//
// # Damage at rest
//
// TestDamageAtRest damages one file of a node that is down, or of two of three: a bit, a page, the end, an older copy, removed; every sort of
// file that a data directory has. A node that has damage ends, at every start, with a file named and nothing removed, or has no need of what is
// gone. What cluster/store checks of each file by itself is not repeated here: this is about what the cluster does with such a node. The
// log says what came of which file.
//
// Not tested: backups, a disk that lies about one file only, garbage that a failing disk returns while a node runs. `make crash` is the
// long form of all this. Whole: -sweep 300 -fail 200 -together 8.
//
// TestSoak is the same load for as long as one likes, with faults and backlogs that come and go: nothing may grow.
//
// # A network with faults
//
// Loopback cannot be cut. Where the machine can (root, /dev/net/tun), the whole test binary runs in a network namespace of its own, and the
// nodes of TestNetworkFaults and TestMixedFaults each in another, connected by bench/chaos/netswitch: see there.
//
// Tests take -seed (printed when it is drawn), -kills, -cuts and more (-help); their defaults fit CI. They need nothing of the machine's
// network, and no processes but those they start; disks that forget need /dev/fuse and the right to mount, ext4 a loop device, without which
// their tests are skipped.
package chaos
