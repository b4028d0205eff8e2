package arena

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

const (
	chunkShift = 21 // a huge page: see mapping
	chunkSize  = 1 << chunkShift
	headSize   = 8
	largeMin   = 256 << 10 // blobs above it have a mapping of their own, so that at most an eighth of a chunk is wasted
	largeRound = 64 << 10
	largeSize  = 1<<24 - 1 // in a head: the size is the chunk's to know
	spareMax   = 8         // empty chunks kept in hand
	spareLarge = 16 << 20  // bytes of large mappings kept in hand
	ownerBits  = 40
)

// MaxBlob is the largest blob in bytes.
const MaxBlob = 1 << 30

// MaxOwner is the largest owner: a kind of up to 8 bits above a slot of 32 is what it is meant for.
const MaxOwner = 1<<ownerBits - 1

// Ref is where a blob lies: chunk number + 1 above the offset of its head. 0 is no blob. It holds no pointer.
type Ref uint64

// Arena holds blobs. Make one with New; all methods are for the owner's goroutine.
type Arena struct {
	chunks []*chunk // by number; nil where free. Elements are written by the owner only
	cur    *chunk   // being filled
	sparse []*chunk // sealed and under a quarter live
	walk   struct { // where Compact is
		c   *chunk
		off int
	}
	live, held int64

	pinned atomic.Int32 // len(pins), to ask without the lock

	mu      sync.Mutex // guards what follows
	pins    []*Pin     // open, oldest first
	taken   uint64     // pins ever taken
	limbo   []limbo    // empty chunks that pins may still read, oldest first
	spare   []*chunk   // empty ones in hand
	large   []*chunk   // large mappings in hand, oldest first
	inHand  int        // bytes in large
	numbers []int      // free chunk numbers
	closed  bool
}

type chunk struct {
	b      []byte
	off    bool // b is a mapping
	size   int  // of the blob, where it is the only one; else 0
	no     int
	used   int
	live   int
	sparse int // place in Arena.sparse + 1
}

type limbo struct {
	c     *chunk
	taken uint64 // pins taken when it became empty: those can read it
}

// New makes an empty arena.
func New() *Arena { return new(Arena) }

func (c *chunk) head(off int) *uint64 { return (*uint64)(unsafe.Pointer(&c.b[off])) }

// get may run in any goroutine that holds a pin: the head is the only word that can change under it (SetOwner).
func (c *chunk) get(off int) []byte {
	n := c.sizeAt(off)
	off += headSize
	return c.b[off : off+n : off+n]
}

func (c *chunk) sizeAt(off int) int {
	if n := int(atomic.LoadUint64(c.head(off)) >> ownerBits); n != largeSize {
		return n
	}
	return c.size
}

// room is what a blob of n bytes takes.
func room(n int) int { return headSize + (n+7)&^7 }

// Put makes a blob of n bytes for an owner and returns its bytes to be filled, before the next call of anything and not
// later: they hold what was there before. n may be 0. It panics where n is over MaxBlob or the owner over MaxOwner.
func (a *Arena) Put(owner uint64, n int) (Ref, []byte) {
	if n < 0 || n > MaxBlob || owner > MaxOwner {
		panic(fmt.Sprintf("arena: blob of %d bytes for owner %#x, want at most %d and %#x", n, owner, MaxBlob, uint64(MaxOwner)))
	}
	need := room(n)
	if need > largeMin {
		return a.putLarge(owner, n)
	}
	c := a.cur
	if c == nil || c.used+need > chunkSize {
		c = a.next()
	}
	off := c.used
	*c.head(off) = uint64(n)<<ownerBits | owner
	c.used += need
	c.live += need
	a.live += int64(need)
	b := off + headSize
	return Ref((c.no+1)<<chunkShift | off), c.b[b : b+n : b+n]
}

func (a *Arena) putLarge(owner uint64, n int) (Ref, []byte) {
	a.reap()
	total := (room(n) + largeRound - 1) / largeRound * largeRound
	c := &chunk{size: n, used: total, live: total}
	if c.b, c.off = a.takeLarge(total); c.b == nil {
		c.b, c.off = mapping(total)
		a.held += int64(total)
	}
	a.live += int64(total)
	a.number(c)
	*c.head(0) = largeSize<<ownerBits | owner
	return Ref((c.no + 1) << chunkShift), c.b[headSize : headSize+n : headSize+n]
}

// takeLarge is the smallest mapping in hand that fits, at most a quarter too large; nil where there is none. Populating
// a fresh one costs several times the copy that fills it.
func (a *Arena) takeLarge(total int) (b []byte, off bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	best := -1
	for i, c := range a.large {
		if n := len(c.b); n >= total && n <= total+total/4 && (best < 0 || n < len(a.large[best].b)) {
			best = i
		}
	}
	if best < 0 {
		return nil, false
	}
	c := a.large[best]
	a.large = slices.Delete(a.large, best, best+1)
	a.inHand -= len(c.b)
	return c.b, c.off
}

// PutBytes makes a blob that is a copy of b.
func (a *Arena) PutBytes(owner uint64, b []byte) Ref {
	r, dst := a.Put(owner, len(b))
	copy(dst, b)
	return r
}

// PutParts makes one blob of the parts behind each other.
func (a *Arena) PutParts(owner uint64, parts ...[]byte) Ref {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	r, dst := a.Put(owner, n)
	for _, p := range parts {
		dst = dst[copy(dst, p):]
	}
	return r
}

func (a *Arena) chunk(r Ref) (*chunk, int) {
	return a.chunks[r>>chunkShift-1], int(r & (chunkSize - 1))
}

// Get is the blob's bytes, to read. They are good until Free or Compact.
func (a *Arena) Get(r Ref) []byte {
	c, off := a.chunk(r)
	return c.get(off)
}

// Size is the blob's length in bytes.
func (a *Arena) Size(r Ref) int {
	c, off := a.chunk(r)
	return c.sizeAt(off)
}

// Owner is who the blob belongs to.
func (a *Arena) Owner(r Ref) uint64 {
	c, off := a.chunk(r)
	return *c.head(off) & MaxOwner
}

// SetOwner hands the blob over, as when a record of one kind becomes one of another.
func (a *Arena) SetOwner(r Ref, owner uint64) {
	if owner > MaxOwner {
		panic(fmt.Sprintf("arena: owner %#x, want at most %#x", owner, uint64(MaxOwner)))
	}
	c, off := a.chunk(r)
	h := c.head(off)
	atomic.StoreUint64(h, *h&^MaxOwner|owner)
}

// Free gives the blob up; 0 is no blob and does nothing. Pins that were taken before can still read it.
func (a *Arena) Free(r Ref) {
	if r == 0 {
		return
	}
	c, off := a.chunk(r)
	n := c.used
	if c.size == 0 {
		n = room(c.sizeAt(off))
	}
	c.live -= n
	a.live -= int64(n)
	switch {
	case c.live < 0:
		panic("arena: more freed in a chunk than was put there")
	case c.live > 0:
		if c != a.cur {
			a.noteSparse(c)
		}
	case c != a.cur:
		a.retire(c)
	case a.pinned.Load() == 0:
		c.used = 0 // the chunk being filled is empty: begin it anew while it is warm
	}
}

// Live is the bytes in blobs, with their heads and padding.
func (a *Arena) Live() int64 { return a.live }

// Held is the bytes that the arena holds from the system, empty chunks in hand too.
func (a *Arena) Held() int64 {
	a.reap()
	return a.held
}

// next seals the chunk being filled and begins another.
func (a *Arena) next() *chunk {
	old := a.cur
	a.cur = nil
	if old != nil {
		if old.live == 0 {
			a.retire(old)
		} else {
			a.noteSparse(old)
		}
	}
	a.reap()
	c := &chunk{}
	a.mu.Lock()
	if n := len(a.spare); n > 0 {
		s := a.spare[n-1]
		a.spare = a.spare[:n-1]
		c.b, c.off = s.b, s.off
	}
	a.mu.Unlock()
	if c.b == nil {
		c.b, c.off = mapping(chunkSize)
		a.held += chunkSize
	}
	a.number(c)
	a.cur = c
	return c
}

// number gives the chunk its place in the table.
func (a *Arena) number(c *chunk) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := len(a.numbers); n > 0 {
		c.no = a.numbers[n-1]
		a.numbers = a.numbers[:n-1]
		a.chunks[c.no] = c
		return
	}
	c.no = len(a.chunks)
	a.chunks = append(a.chunks, c)
}

// retire takes an empty, sealed chunk out of use: at once, or when the pins that may read it are gone.
func (a *Arena) retire(c *chunk) {
	a.unlist(c)
	a.mu.Lock()
	a.limbo = append(a.limbo, limbo{c, a.taken})
	a.mu.Unlock()
	a.reap()
}

// reap recycles the chunks in limbo that no open pin can read. Only the owner does it, since it alone may change the
// table; a pin's Release just takes the pin away.
func (a *Arena) reap() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.limbo) == 0 {
		return
	}
	n := len(a.limbo)
	if len(a.pins) > 0 {
		n = 0
		for n < len(a.limbo) && a.limbo[n].taken < a.pins[0].number {
			n++
		}
	}
	for _, l := range a.limbo[:n] {
		c := l.c
		a.chunks[c.no] = nil
		a.numbers = append(a.numbers, c.no)
		if c.size == 0 && len(a.spare) < spareMax {
			a.spare = append(a.spare, c)
			continue
		}
		if c.size == 0 {
			a.held -= chunkSize
			c.release()
			continue
		}
		a.large = append(a.large, c)
		a.inHand += len(c.b)
	}
	a.limbo = slices.Delete(a.limbo, 0, n)
	n = 0
	for ; a.inHand > spareLarge; n++ {
		c := a.large[n]
		a.inHand -= len(c.b)
		a.held -= int64(len(c.b))
		c.release()
	}
	a.large = slices.Delete(a.large, 0, n)
}

func (c *chunk) release() {
	if c.off {
		unmapping(c.b)
	}
	c.b = nil
}

// Close gives the memory back, but for what open pins can read: that goes with the last of them. Nothing else may be
// called afterwards.
func (a *Arena) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	if len(a.pins) == 0 {
		a.releaseAll()
	}
}

func (a *Arena) releaseAll() {
	for _, c := range a.chunks { // those in limbo are still in the table
		if c != nil {
			c.release()
		}
	}
	for _, c := range a.spare {
		c.release()
	}
	for _, c := range a.large {
		c.release()
	}
	a.chunks, a.spare, a.large, a.limbo, a.cur, a.sparse = nil, nil, nil, nil, nil, nil
	a.held, a.live, a.inHand = 0, 0, 0
}
