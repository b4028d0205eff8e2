package table

const (
	indexMin      = 16               // slots of the first page at first
	indexFull     = pageSize * 3 / 4 // values at which a page splits
	indexMerge    = pageSize * 3 / 8 // values of two pages that become one
	indexDepthMax = 32 - pageShift   // bits of the directory; beyond, the hash has nothing left to split by
)

// Index finds values of int32 (0 or more) by a 64-bit hash: open addressing in pages, found through a directory by the
// upper bits of the hash. The zero value is ready to use. Values of equal hash may live side by side; which one is meant
// is the caller's to tell. Hashes must spread: one that many values share makes them a list.
type Index struct {
	dir   []*indexPage
	shift uint // of the folded hash to its place in dir: 32 − bits
	live  int
	slots int                      // over all pages
	pages [indexDepthMax + 1]int32 // number of pages that use so many bits
}

type indexPage struct {
	slots []indexSlot // a power of two of them
	n     int
	bits  uint // of the hash that all values here share
}

type indexSlot struct {
	hash uint32
	val  uint32 // value + 1; 0: empty
}

// fold makes the 32 bits that an index keeps: both halves of the hash take part in page and slot.
func fold(h uint64) uint32 { return uint32(h>>32) ^ uint32(h) }

// Len is the number of values.
func (x *Index) Len() int { return x.live }

// Bytes is the memory held.
func (x *Index) Bytes() int64 { return int64(x.slots)*8 + int64(len(x.dir))*8 }

// Find is the value of hash h for which eq says true. eq is asked about values that share the 32 bits kept of h.
func (x *Index) Find(h uint64, eq func(v int32) bool) (int32, bool) {
	if x.live == 0 {
		return 0, false
	}
	f := fold(h)
	s := x.dir[f>>x.shift].slots
	mask := uint32(len(s) - 1)
	for k := f & mask; ; k = (k + 1) & mask {
		e := s[k&uint32(len(s)-1)]
		if e.val == 0 {
			return 0, false
		}
		if e.hash == f && eq(int32(e.val-1)) {
			return int32(e.val - 1), true
		}
	}
}

// Peek is some value that may be h's, to look at before it is needed: it asks nobody whether it is.
func (x *Index) Peek(h uint64) (int32, bool) {
	if x.live == 0 {
		return 0, false
	}
	f := fold(h)
	s := x.dir[f>>x.shift].slots
	mask := uint32(len(s) - 1)
	for k := f & mask; ; k = (k + 1) & mask {
		e := s[k&uint32(len(s)-1)]
		if e.val == 0 {
			return 0, false
		}
		if e.hash == f {
			return int32(e.val - 1), true
		}
	}
}

// Insert adds v under h. It does not look whether it is there already.
func (x *Index) Insert(h uint64, v int32) {
	if v < 0 {
		panic("table: negative value in an index")
	}
	if x.dir == nil {
		x.dir = []*indexPage{{slots: make([]indexSlot, indexMin)}}
		x.shift = 32
		x.slots = indexMin
		x.pages[0] = 1
	}
	f := fold(h)
	p := x.dir[f>>x.shift]
	for p.n >= len(p.slots)*3/4 {
		if len(p.slots) < pageSize || p.bits == indexDepthMax {
			x.resize(p, 2*len(p.slots))
			break
		}
		x.split(f, p)
		p = x.dir[f>>x.shift]
	}
	p.put(indexSlot{f, uint32(v) + 1})
	x.live++
}

func (p *indexPage) put(e indexSlot) {
	mask := uint32(len(p.slots) - 1)
	k := e.hash & mask
	for p.slots[k].val != 0 {
		k = (k + 1) & mask
	}
	p.slots[k] = e
	p.n++
}

func (x *Index) resize(p *indexPage, n int) {
	old := p.slots
	x.slots += n - len(old)
	p.slots, p.n = make([]indexSlot, n), 0
	for _, e := range old {
		if e.val != 0 {
			p.put(e)
		}
	}
}

// split divides the page of hash f by one more bit. The directory doubles first where the page uses all of its bits.
func (x *Index) split(f uint32, p *indexPage) {
	if 32-p.bits == x.shift {
		dir := make([]*indexPage, 2*len(x.dir))
		for i, q := range x.dir {
			dir[2*i], dir[2*i+1] = q, q
		}
		x.dir = dir
		x.shift--
	}
	x.pages[p.bits]--
	p.bits++
	x.pages[p.bits] += 2
	q := &indexPage{slots: make([]indexSlot, pageSize), bits: p.bits}
	x.slots += pageSize
	var old [pageSize]indexSlot
	copy(old[:], p.slots)
	clear(p.slots)
	p.n = 0
	for _, e := range old {
		switch {
		case e.val == 0:
		case e.hash>>(32-p.bits)&1 == 0:
			p.put(e)
		default:
			q.put(e)
		}
	}
	// The upper half of the directory entries that pointed to p.
	n := 1 << (32 - x.shift - p.bits)
	first := int(f>>(32-p.bits)|1) * n
	for i := first; i < first+n; i++ {
		x.dir[i] = q
	}
}

// find is the page and place of v under h; −1 where it is not.
func (x *Index) find(h uint64, v int32) (*indexPage, int) {
	if x.live == 0 {
		return nil, -1
	}
	f := fold(h)
	p := x.dir[f>>x.shift]
	mask := uint32(len(p.slots) - 1)
	for k := f & mask; ; k = (k + 1) & mask {
		switch e := p.slots[k]; {
		case e.val == 0:
			return nil, -1
		case e.val == uint32(v)+1 && e.hash == f:
			return p, int(k)
		}
	}
}

// Replace puts to in place of from under h, for a record that moved; false where from is not there.
func (x *Index) Replace(h uint64, from, to int32) bool {
	p, k := x.find(h, from)
	if k < 0 {
		return false
	}
	p.slots[k].val = uint32(to) + 1
	return true
}

// Delete removes v under h; false where it is not there.
func (x *Index) Delete(h uint64, v int32) bool {
	p, at := x.find(h, v)
	if at < 0 {
		return false
	}
	// Close the gap: each later element of the run that may stand in it moves there, and leaves the next gap.
	mask := uint32(len(p.slots) - 1)
	gap := uint32(at)
	for k := (gap + 1) & mask; p.slots[k].val != 0; k = (k + 1) & mask {
		if (k-p.slots[k].hash)&mask >= (k-gap)&mask { // its own place is at or before the gap
			p.slots[gap] = p.slots[k]
			gap = k
		}
	}
	p.slots[gap] = indexSlot{}
	p.n--
	x.live--
	if p.n&15 == 0 {
		x.shrink(fold(h), p)
	}
	return true
}

// shrink joins the page of hash f with its other half while both are nearly empty, and halves the directory when no
// page uses its last bit.
func (x *Index) shrink(f uint32, p *indexPage) {
	for p.bits > 0 && len(p.slots) == pageSize {
		buddy := (f>>(32-p.bits) ^ 1) << (32 - p.bits)
		q := x.dir[buddy>>x.shift]
		if q.bits != p.bits || len(q.slots) != pageSize || p.n+q.n > indexMerge {
			return
		}
		for _, e := range q.slots {
			if e.val != 0 {
				p.put(e)
			}
		}
		n := 1 << (32 - x.shift - p.bits)
		first := int(buddy>>(32-p.bits)) * n
		for i := first; i < first+n; i++ {
			x.dir[i] = p
		}
		x.slots -= pageSize
		x.pages[p.bits] -= 2
		p.bits--
		x.pages[p.bits]++
		for x.shift < 32 && x.pages[32-x.shift] == 0 {
			dir := make([]*indexPage, len(x.dir)/2)
			for i := range dir {
				dir[i] = x.dir[2*i]
			}
			x.dir = dir
			x.shift++
		}
	}
	switch {
	case p.n == 0 && p.bits == 0 && len(p.slots) > 4*indexMin:
		*x = Index{}
	case len(p.slots) > pageSize && p.n < len(p.slots)/8: // one that grew past the depth of the directory
		x.resize(p, len(p.slots)/2)
	}
}

// HashID spreads the two halves of an id, which are places in a log and so differ in few bits.
func HashID(hi, lo uint64) uint64 { return mix(lo ^ mix(hi)) }

// Hash16 is a hash of 16 bytes that are one already (SHA-256): their first eight.
func Hash16(b *[16]byte) uint64 {
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

// mix is the finaliser of MurmurHash3 (Appleby), a bijection in which every bit of the input moves half of the output.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xFF51AFD7ED558CCD
	x ^= x >> 33
	x *= 0xC4CEB9FE1A85EC53
	return x ^ x>>33
}
