//go:build linux

package forgetfs

import (
	"fmt"
	"syscall"
	"time"
)

// Op is a sort of call.
type Op int

// The sorts of calls that are counted.
const (
	Write Op = iota
	Truncate
	Allocate
	SyncFile
	SyncDir
	Create
	Mkdir
	Rename
	Remove // of a file or a directory
	ops
)

func (o Op) String() string {
	return [...]string{"write", "truncate", "allocate", "sync", "sync of the directory", "create", "mkdir", "rename", "remove"}[o]
}

// Sets of calls.
var (
	Syncs   = []Op{SyncFile, SyncDir}
	Writes  = []Op{Write, Truncate, Allocate, Create, Mkdir, Rename} // that need space
	Changes = []Op{Write, Truncate, Allocate, SyncFile, SyncDir, Create, Mkdir, Rename, Remove}
)

// Action is what a trap does.
type Action int

// The actions.
const (
	nothing   Action = iota
	CutBefore        // hold the disk before the call has done anything: Cut is to follow
	CutAfter         // hold the disk after it, and before it returns
	Fail             // this call and all of its sort after it fail with Err. What a sync that failed should have written is lost until it is written again
	Stall            // the call takes effect after a while
	Lie              // this call and all of its sort after it do nothing and succeed: of syncs, a disk, or a program, that does not sync
)

// Trap is what happens at the Nth call from now on, from 1, of those in On.
type Trap struct {
	On  []Op
	N   int
	Do  Action
	Err syscall.Errno // of Fail
	For time.Duration // of Stall
}

type trap struct {
	Trap
	seen   int
	struck chan struct{}
	at     string
	gone   chan struct{} // closed when it is not the disk's trap any more
}

// Set sets a trap instead of the one that is set. The channel is closed when it strikes.
func (d *Disk) Set(t Trap) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clear()
	d.trap = &trap{Trap: t, struck: make(chan struct{}), gone: make(chan struct{})}
	return d.trap.struck
}

// Clear takes the trap away: the disk is well again, and a call that is stalled goes on.
func (d *Disk) Clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clear()
}

func (d *Disk) clear() {
	if d.trap != nil {
		close(d.trap.gone)
		d.trap = nil
	}
}

// Struck says at which call the trap has struck, "" if it has not.
func (d *Disk) Struck() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.trap == nil {
		return ""
	}
	return d.trap.at
}

// Count is how many calls of these sorts there have been so far.
func (d *Disk) Count(of ...Op) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, o := range of {
		n += d.counts[o]
	}
	return n
}

// spring says what the trap does at a call.
func (d *Disk) spring(op Op, n *inode, what string) (Action, *trap) {
	t := d.trap
	if t == nil {
		return nothing, nil
	}
	for _, o := range t.On {
		if o != op {
			continue
		}
		if t.seen++; t.seen < t.N || t.seen > t.N && t.Do != Fail && t.Do != Lie {
			break
		}
		if t.seen == t.N {
			t.at = fmt.Sprintf("%s %d, %s %s%s", op, t.N, op, n.path, what)
			close(t.struck)
		}
		return t.Do, t
	}
	return nothing, nil
}
