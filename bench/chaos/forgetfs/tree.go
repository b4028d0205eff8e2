//go:build linux

package forgetfs

import (
	"maps"
	"slices"
	"time"
)

// inode is a file or a directory, as programs see it and as it is on the disk.
type inode struct {
	id       uint64
	isDir    bool
	mode     uint32 // permissions
	modified time.Time
	lookups  uint64 // how often the kernel has been told of it
	path     string // where it was last seen, for people

	now, kept image // of a file
	pending   []change

	names, keptNames map[string]*inode // of a directory
	entries          []entryChange
}

// entryChange is one call that changed a directory: all of it is kept, or nothing.
type entryChange struct {
	seq uint64
	set []entry
}

// entry is what a name stands for from now on; nil: nothing.
type entry struct {
	name string
	to   *inode
}

func (c entryChange) apply(names map[string]*inode) {
	for _, e := range c.set {
		if e.to == nil {
			delete(names, e.name)
		} else {
			names[e.name] = e.to
		}
	}
}

// sync makes what programs see of this inode durable.
func (n *inode) sync() {
	for _, c := range n.pending {
		n.kept.apply(c)
	}
	for _, c := range n.entries {
		c.apply(n.keptNames)
	}
	n.pending, n.entries = nil, nil
}

// each calls f for every inode that can be seen, or may be seen after a cut, in an order that depends on nothing but the names.
func each(root *inode, f func(*inode)) {
	seen := map[*inode]bool{}
	var walk func(*inode)
	walk = func(n *inode) {
		if n == nil || seen[n] {
			return
		}
		seen[n] = true
		f(n)
		for _, names := range []map[string]*inode{n.names, n.keptNames} {
			for _, name := range slices.Sorted(maps.Keys(names)) {
				walk(names[name])
			}
		}
		for _, c := range n.entries {
			for _, e := range c.set {
				walk(e.to)
			}
		}
	}
	walk(root)
}
