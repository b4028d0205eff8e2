// Package forgetfs is a disk that forgets: a file system in memory, served to real processes through FUSE, that knows what of it has
// been made durable, and drops the rest, or a part of it, when its power is cut.
//
//	node process ──system calls──▶ kernel ──/dev/fuse──▶ server ──▶ Disk
//	                               page cache,                      now    what programs see
//	                               written through                  changes that no sync has made durable, in their order
//	                                                                kept   what is on the disk
//
// A cut (Disk.Cut) ends the node with SIGKILL, unmounts, which empties the kernel's cache, applies to what is kept as many of the changes
// as the cut leaves, and serves the result at the same place. Calls that are under way fail with EIO, after the process that made
// them has had its signal, so that nothing is learned from them.
//
// # What is durable when
//
//   - A file's content and length: once the file was synced (fsync, fdatasync), as it was at that sync. Neither close, O_DIRECT,
//     sync_file_range, msync without a sync, nor memory that is mapped makes anything durable: mapped pages come here as writes when the
//     kernel writes them back, and the sync that follows counts.
//   - A name (create, mkdir, remove, rename): once its directory was synced. A file's sync does not keep its name, and a directory's
//     own name is its parent's.
//   - Permissions and times: at once. Nothing here depends on them.
//
// # What a cut drops
//
//	All     everything that is not durable
//	Some    a random part of it, in pieces of 512 or 4096 bytes, lengths, and changes of directories, each for itself. A sector is
//	        then as it was at some moment since the last sync, never a mixture of two: a cache writes it whole
//	Torn    everything from a random moment on, of all files and directories; of the write at that moment half is there
//	Late    nothing, and everything is durable
//	Kept    nothing, and what was not durable is not yet: a kill. What the next process finds may still get lost
//
// A cut is a mode, a seed and a piece: the same cut of the same changes leaves the same disk.
//
// # Traps
//
// A Trap strikes at the n-th call of some sorts, counted here, where all calls of all threads come by one after the other: the power goes
// before or after it, it and all after it fail (EIO, ENOSPC) or do nothing and succeed, or it stalls. After a sync that failed what it should have written is
// lost, though programs still see it: a later sync that succeeds does not write it again, as with Linux's page cache, unless it was
// written once more, with whatever bytes; a name, unless it was given once more. A journal would stop at such a failure; a file system
// without one would write a whole block of names again where one of them changes.
//
// # Rules for who uses it
//
// The process that serves a disk must never touch a file on it: a page of a mapped file would have to be fetched by the thread that
// waits for it, without Go's scheduler knowing that it waits. So tests have other processes work on it, and look at nothing below its
// folder themselves. A disk is unmounted when its test ends; what cannot be, is cut off through fusectl; what a process has left that
// was killed is taken away by the next (CleanUp). Sizes, waits and holds are bounded.
//
// # What it cannot show
//
// A real file system keeps more than this one: it writes its journal in order, so that a rename is not durable before what was done
// earlier, and a file's sync mostly keeps its name. What holds here holds there; what fails here may never be seen there. It shows
// nothing of disks that lie about their caches, of sectors that are torn themselves, of garbage instead of zeros in what was allocated
// and not written, nor of what a write that fails has written all the same. Links, and renames between directories, are refused.
//
// Decisions (2026-11)
//
//   - In memory, not on top of a real directory: what is kept and what is seen share their blocks, so that a sync copies nothing and a cut
//     is a matter of milliseconds, and no second file system's semantics shine through.
//   - go-fuse's raw interface rather than its tree of nodes: the tree that matters is the one that may be lost.
//   - /dev/fuse is opened and mounted here. go-fuse does so too (DirectMountStrict), but leaves it open to every process that is started
//     meanwhile; a node that has it waits for an answer that only itself keeps from failing when the server ends.
//   - Changes of a directory are kept or dropped each for itself rather than in their order: a program that wants more than POSIX
//     promises shall not get it.
package forgetfs
