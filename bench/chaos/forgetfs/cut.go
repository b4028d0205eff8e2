//go:build linux

package forgetfs

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// Mode says which of the changes that were not synced a power cut leaves.
type Mode int

// The modes.
const (
	All  Mode = iota // all are dropped
	Some             // a random part of them is: pieces of writes, lengths of files, entries of directories, each for itself
	Torn             // all are from a random moment on, and half of what was written at that moment
	Late             // none is: whatever was written has reached the disk
	Kept             // none is, and none is durable either: the users are killed, and the power stays
)

func (m Mode) String() string { return [...]string{"all", "some", "torn", "late", "kept"}[m] }

// Cut is how the power goes. The same cut of the same changes leaves the same disk.
type Cut struct {
	Mode  Mode
	Seed  uint64
	Piece int // for Some: bytes that are kept or dropped together, 512 or 4096; 0 is 512
}

func (c Cut) String() string {
	return fmt.Sprintf("%s (seed %d, pieces of %d)", c.Mode, c.Seed, c.piece())
}

func (c Cut) piece() int {
	if c.Piece == 0 {
		return sectorSize
	}
	return c.Piece
}

// Draw makes a cut of one of the modes.
func Draw(rng *rand.Rand, modes ...Mode) Cut {
	return Cut{Mode: modes[rng.IntN(len(modes))], Seed: rng.Uint64(), Piece: []int{sectorSize, blockSize}[rng.IntN(2)]}
}

// Lost is what a cut did.
type Lost struct {
	Changes int // calls that had changed files or directories and were not durable
	Dropped int // pieces of them, lengths and entries that are gone
}

// drop leaves of everything that is not durable what the cut leaves.
func (c Cut) drop(root *inode) (l Lost) {
	rng := rand.New(rand.NewPCG(c.Seed, 1))
	odds := rng.Float64() // of a cut, so that there are some that keep nearly all and some that keep nearly nothing
	var seqs []uint64
	var all []*inode
	each(root, func(n *inode) {
		all = append(all, n)
		for _, c := range n.pending {
			seqs = append(seqs, c.seq)
		}
		for _, c := range n.entries {
			seqs = append(seqs, c.seq)
		}
	})
	slices.Sort(seqs)
	var last uint64 // Torn: the change that half of is left
	if len(seqs) > 0 {
		last = seqs[rng.IntN(len(seqs))]
	}
	for _, n := range all {
		for _, p := range n.pending {
			keep := func() bool { return c.Mode == Late || c.Mode == Torn && p.seq < last }
			switch {
			case c.Mode == Some:
				keep = func() bool { return rng.Float64() < odds }
			case c.Mode == Torn && p.seq == last:
				left := rng.IntN(len(p.blocks)*blockSize/sectorSize + 1)
				keep = func() bool { left--; return left >= 0 }
			}
			l.Changes++
			l.Dropped += n.kept.applySome(p, c.piece(), keep)
		}
		for _, e := range n.entries {
			l.Changes++
			if c.Mode == Late || c.Mode == Some && rng.Float64() < odds || c.Mode == Torn && e.seq < last {
				e.apply(n.keptNames)
			} else {
				l.Dropped++
			}
		}
	}
	return l
}

// settle makes what is on the disk all that there is. What no name leads to any more is gone.
func settle(root *inode) {
	each(root, func(n *inode) {
		n.pending, n.entries = nil, nil
		if n.isDir {
			n.names = clone(n.keptNames)
			return
		}
		n.kept.end() // bytes that were kept behind an end that was not
		n.now = n.kept.clone()
	})
}

func clone(names map[string]*inode) map[string]*inode {
	c := make(map[string]*inode, len(names))
	for name, n := range names {
		c[name] = n
	}
	return c
}
