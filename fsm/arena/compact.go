package arena

// noteSparse puts a sealed chunk that is less than a quarter live on the list of those to compact.
func (a *Arena) noteSparse(c *chunk) {
	if c.size == 0 && c.sparse == 0 && c.live < chunkSize/4 {
		a.sparse = append(a.sparse, c)
		c.sparse = len(a.sparse)
	}
}

// Sparse is how many chunks wait for Compact.
func (a *Arena) Sparse() int { return len(a.sparse) }

// Compact looks at up to limit blobs in chunks that are less than a quarter live, moves those in use to the chunk being
// filled, and returns how many it looked at; a chunk so emptied is recycled. holds says whether the owner's record
// points at r: a blob that was freed still lies there. moved puts the new place into that record; the blob's old bytes
// are gone afterwards. Neither may change the arena. Nothing happens while a pin is open, since moving would then take
// memory rather than give it back.
func (a *Arena) Compact(limit int, holds func(owner uint64, r Ref) bool, moved func(owner uint64, from, to Ref)) int {
	if a.pinned.Load() != 0 {
		return 0
	}
	seen := 0
	for seen < limit {
		if a.walk.c == nil {
			if len(a.sparse) == 0 {
				break
			}
			a.walk.c, a.walk.off = a.sparse[len(a.sparse)-1], 0
		}
		c, off := a.walk.c, a.walk.off
		if off >= c.used {
			// All of it was seen and something is live that nobody holds: let it be until more of it is freed.
			a.unlist(c)
			continue
		}
		seen++
		head := *c.head(off)
		n, owner := int(head>>ownerBits), head&MaxOwner
		a.walk.off += room(n)
		r := Ref((c.no+1)<<chunkShift | off)
		if holds(owner, r) {
			to := a.PutBytes(owner, c.get(off))
			moved(owner, r, to)
			a.Free(r)
		}
	}
	return seen
}

// unlist takes a chunk off the list of the sparse.
func (a *Arena) unlist(c *chunk) {
	if c.sparse > 0 {
		last := a.sparse[len(a.sparse)-1]
		a.sparse[c.sparse-1], last.sparse = last, c.sparse
		a.sparse = a.sparse[:len(a.sparse)-1]
		c.sparse = 0
	}
	if a.walk.c == c {
		a.walk.c = nil
	}
}
