//go:build linux

package forgetfs

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// heldMost is how long calls are held at a power cut before they fail by themselves: nobody may wait for ever for one who
	// forgot to cut.
	heldMost = 30 * time.Second
	// goneMost is how long a disk that was cut waits for the last of its users to be gone.
	goneMost = 10 * time.Second
)

// Options bound a disk.
type Options struct {
	Capacity int64 // bytes that files may take; what does not fit is ENOSPC. 0: 1 GiB
	Unsynced int64 // bytes that may wait for a sync; 0: 256 MiB. A write above it fails with ENOSPC, and Err says so
}

// Disk is a file system in memory that knows what of it is durable. All methods may be called from any goroutine, but for those
// of this package's users who are served by it: see the package documentation.
type Disk struct {
	opt Options

	mu       sync.Mutex
	root     *inode
	lastID   uint64
	seq      uint64
	nodes    map[uint64]*inode // that the kernel knows of
	listings map[uint64][]listed
	state    state
	over     chan struct{} // closed when calls that are held may fail
	used     int64         // bytes of blocks in files, at most: what is written over is counted twice, what is gone is still
	unsynced int64         // bytes of blocks in changes, at most
	trap     *trap
	counts   [ops]int
	err      error
	mount    *mount
}

type state int

const (
	on   state = iota
	held       // the power is about to go: no call returns
	off        // every call fails
)

// New makes an empty disk.
func New(o Options) *Disk {
	if o.Capacity == 0 {
		o.Capacity = 1 << 30
	}
	if o.Unsynced == 0 {
		o.Unsynced = 256 << 20
	}
	d := &Disk{opt: o}
	d.root = d.newInode(true, 0o700)
	d.reset()
	return d
}

func (d *Disk) newInode(dir bool, mode uint32) *inode {
	d.lastID++
	n := &inode{id: d.lastID, isDir: dir, mode: mode, modified: time.Now()}
	if dir {
		n.names, n.keptNames = map[string]*inode{}, map[string]*inode{}
	}
	return n
}

func (d *Disk) reset() {
	each(d.root, func(n *inode) { n.lookups = 0 })
	d.nodes, d.listings = map[uint64]*inode{d.root.id: d.root}, map[uint64][]listed{}
}

// Err is what went wrong with the disk itself, as opposed to what it was asked to do wrong.
func (d *Disk) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

func (d *Disk) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

// Hold stops the disk: no call on it returns from now on, until Cut, or for 30 s. Several disks that are to lose power together are
// held first. Holding it again is nothing.
func (d *Disk) Hold() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hold()
}

func (d *Disk) hold() {
	if d.state != on {
		return
	}
	d.state, d.over = held, make(chan struct{})
	over := d.over
	time.AfterFunc(heldMost, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.state == held && d.over == over {
			d.fail(fmt.Errorf("held for %s and not cut", heldMost))
			d.turnOff()
		}
	})
}

func (d *Disk) turnOff() {
	if d.state == held {
		close(d.over)
	}
	d.state = off
}

// admit waits while calls are held. The caller holds mu, which is given up meanwhile.
func (d *Disk) admit() syscall.Errno {
	for d.state == held {
		over := d.over
		d.mu.Unlock()
		<-over
		d.mu.Lock()
	}
	if d.state == off {
		return syscall.EIO
	}
	return 0
}

// User is the process that uses a disk, such as a proc.Process: the only one, and all of it.
type User interface {
	Signal(os.Signal)
	Kill() // SIGKILL, and wait until it is gone
}

// Cut is a power cut: it holds the disk, ends its users with SIGKILL, forgets what the cut drops, and serves what is left where it
// was served before. Users may have ended already. A trap is gone afterwards.
func (d *Disk) Cut(c Cut, users ...User) (Lost, error) {
	d.Hold()
	for _, u := range users {
		u.Signal(syscall.SIGKILL) // none of its threads returns from a call any more
	}
	d.mu.Lock()
	d.turnOff()
	d.clear()
	m := d.mount
	d.mu.Unlock()
	for _, u := range users {
		u.Kill()
	}
	if m != nil {
		if err := d.Unmount(); err != nil {
			return Lost{}, err
		}
	}
	d.mu.Lock()
	var l Lost
	if c.Mode != Kept {
		l = c.drop(d.root)
		settle(d.root)
	}
	d.reset()
	d.state = on
	d.count()
	err := d.err
	d.mu.Unlock()
	if m != nil {
		err = errors.Join(err, d.Mount(m.dir))
	}
	return l, err
}

// do runs one call that changes something or makes it durable, as the trap has it.
func (d *Disk) do(op Op, n *inode, what string, f func() syscall.Errno) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.admit(); e != 0 {
		return e
	}
	d.counts[op]++
	act, t := d.spring(op, n, what)
	switch act {
	case CutBefore:
		d.hold()
		return d.admit()
	case Fail:
		if op == SyncFile || op == SyncDir { // what it should have made durable is not written again
			n.pending, n.entries = nil, nil
		}
		return t.Err
	case Lie:
		return 0
	case Stall:
		d.mu.Unlock()
		timer := time.NewTimer(t.For)
		select {
		case <-timer.C:
		case <-t.gone:
		}
		timer.Stop()
		d.mu.Lock()
		if e := d.admit(); e != 0 {
			return e
		}
	}
	e := f()
	if act == CutAfter {
		d.hold()
		return d.admit()
	}
	return e
}

// read runs one call that changes nothing.
func (d *Disk) read(f func() syscall.Errno) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.admit(); e != 0 {
		return e
	}
	return f()
}

// change records a change of a file's content and makes it visible.
func (d *Disk) change(n *inode, c change) syscall.Errno {
	size := int64(len(c.blocks)) * blockSize
	if d.unsynced+size > d.opt.Unsynced || max(d.used+size, c.size) > d.opt.Capacity {
		d.count()
		if d.unsynced+size > d.opt.Unsynced {
			d.fail(fmt.Errorf("%s: more than %d bytes wait for a sync", n.path, d.opt.Unsynced))
			return syscall.ENOSPC
		}
		if max(d.used+size, c.size) > d.opt.Capacity {
			return syscall.ENOSPC
		}
	}
	d.seq++
	c.seq = d.seq
	if !c.cut {
		c.size = max(c.size, n.now.size)
	}
	n.now.apply(c)
	n.pending = append(n.pending, c)
	n.modified = time.Now()
	d.unsynced += size
	d.used += size
	return 0
}

// count counts the bytes that files take and that changes hold.
func (d *Disk) count() {
	d.used, d.unsynced = 0, 0
	each(d.root, func(n *inode) {
		d.used += int64(len(n.now.blocks)) * blockSize
		for _, c := range n.pending {
			d.unsynced += int64(len(c.blocks)) * blockSize
		}
	})
}

// enter records a change of a directory and makes it visible.
func (d *Disk) enter(dir *inode, set ...entry) {
	d.seq++
	c := entryChange{seq: d.seq, set: set}
	c.apply(dir.names)
	dir.entries = append(dir.entries, c)
	dir.modified = time.Now()
	for _, e := range set {
		if e.to != nil {
			e.to.path = dir.path + "/" + e.name
		}
	}
}

func (d *Disk) syncInode(n *inode) {
	for _, c := range n.pending {
		d.unsynced -= int64(len(c.blocks)) * blockSize
	}
	n.sync()
}
