package table

import "fmt"

const heapArity = 4

// Heap keeps slots in order of a key, lowest first. Set the functions before the first Push; with both nil the zero
// value is ready to use.
type Heap struct {
	// Less orders slots of equal key; it must be a strict order that does not change while they are here. nil: by slot.
	Less func(a, b int32) bool
	// Rank judges slots of equal key before Less does: of different ranks the lower goes first, and Less must agree. It is
	// asked once, when a slot comes in or is fixed, so that a comparison need not look at two records. nil: all are equal.
	Rank func(slot int32) uint32
	// Moved is told the position of a slot whenever it changes, −1 when the slot leaves. nil: nobody needs it, as where
	// only Min and Pop are used.
	Moved func(slot, pos int32)

	pages [][]heapNode // of pageSize each, but the first grows to it
	n     int32
}

type heapNode struct {
	key  int64
	slot int32
	rank uint32
}

func (h *Heap) node(i int32) *heapNode { return &h.pages[uint32(i)>>pageShift][i&pageMask] }

func (h *Heap) before(a, b *heapNode) bool {
	if a.key != b.key {
		return a.key < b.key
	}
	if a.rank != b.rank {
		return a.rank < b.rank
	}
	if h.Less == nil {
		return a.slot < b.slot
	}
	return h.Less(a.slot, b.slot)
}

func (h *Heap) rank(slot int32) uint32 {
	if h.Rank == nil {
		return 0
	}
	return h.Rank(slot)
}

func (h *Heap) put(i int32, n heapNode) {
	*h.node(i) = n
	if h.Moved != nil {
		h.Moved(n.slot, i)
	}
}

// Len is the number of slots.
func (h *Heap) Len() int { return int(h.n) }

// Bytes is the memory held.
func (h *Heap) Bytes() int64 {
	if len(h.pages) == 0 {
		return 0
	}
	return (int64(len(h.pages)-1)*pageSize + int64(len(h.pages[0]))) * 16
}

// Min is the lowest key and its slot; ok is false where the heap is empty.
func (h *Heap) Min() (key int64, slot int32, ok bool) {
	if h.n == 0 {
		return 0, 0, false
	}
	n := h.pages[0][0]
	return n.key, n.slot, true
}

// At is the node at a position from 0 to Len() − 1; the order of positions is the heap's, not the keys'.
func (h *Heap) At(pos int32) (key int64, slot int32) {
	h.check(pos)
	n := h.node(pos)
	return n.key, n.slot
}

func (h *Heap) check(pos int32) {
	if pos < 0 || pos >= h.n {
		panic(fmt.Sprintf("table: heap position %d of %d", pos, h.n))
	}
}

// Push adds a slot.
func (h *Heap) Push(key int64, slot int32) { h.add(heapNode{key, slot, h.rank(slot)}) }

func (h *Heap) add(n heapNode) {
	h.grow()
	h.n++
	h.up(h.n-1, n)
}

// Pop removes the lowest and returns it.
func (h *Heap) Pop() (key int64, slot int32, ok bool) {
	if key, slot, ok = h.Min(); ok {
		h.Remove(0)
	}
	return key, slot, ok
}

// Fix gives the slot at pos another key. The same key again places it anew among its equals.
func (h *Heap) Fix(pos int32, key int64) {
	h.check(pos)
	slot := h.node(pos).slot
	h.settle(pos, heapNode{key, slot, h.rank(slot)})
}

// Remove takes out the slot at pos.
func (h *Heap) Remove(pos int32) {
	h.check(pos)
	gone := h.node(pos).slot
	h.n--
	last := *h.node(h.n)
	*h.node(h.n) = heapNode{}
	if pos != h.n {
		h.settle(pos, last)
	}
	h.trim()
	if h.Moved != nil {
		h.Moved(gone, -1)
	}
}

// settle puts n where it belongs, starting from the hole at i.
func (h *Heap) settle(i int32, n heapNode) {
	if i > 0 && h.before(&n, h.node((i-1)/heapArity)) {
		h.up(i, n)
		return
	}
	h.down(i, n)
}

func (h *Heap) up(i int32, n heapNode) {
	for i > 0 {
		parent := (i - 1) / heapArity
		p := h.node(parent)
		if !h.before(&n, p) {
			break
		}
		h.put(i, *p)
		i = parent
	}
	h.put(i, n)
}

func (h *Heap) down(i int32, n heapNode) {
	for {
		c := int64(i)*heapArity + 1
		if c >= int64(h.n) {
			break
		}
		low := int32(c)
		l := h.node(low)
		for k, end := low+1, int32(min(c+heapArity, int64(h.n))); k < end; k++ {
			if x := h.node(k); h.before(x, l) {
				low, l = k, x
			}
		}
		if !h.before(l, &n) {
			break
		}
		h.put(i, *l)
		i = low
	}
	h.put(i, n)
}

// grow makes room for one more node.
func (h *Heap) grow() {
	switch k := int(h.n >> pageShift); {
	case h.n == 1<<31-1:
		panic("table: heap is full")
	case len(h.pages) == 0:
		h.pages = append(h.pages, make([]heapNode, 16))
	case k >= len(h.pages):
		h.pages = append(h.pages, make([]heapNode, pageSize))
	case k == 0 && int(h.n) == len(h.pages[0]):
		p := make([]heapNode, 2*h.n)
		copy(p, h.pages[0])
		h.pages[0] = p
	}
}

// trim gives pages back, one kept in hand, and the first page's room when the heap is empty.
func (h *Heap) trim() {
	if used := (int(h.n) + pageMask) >> pageShift; len(h.pages) > used+1 && len(h.pages) > 1 {
		h.pages[len(h.pages)-1] = nil
		h.pages = h.pages[:len(h.pages)-1]
	}
	if h.n == 0 && len(h.pages) == 1 && len(h.pages[0]) > 64 {
		h.pages = nil
	}
}
