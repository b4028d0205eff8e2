package table

import (
	"fmt"
	"math/bits"
	"unsafe"
)

const (
	sheetShift = 9
	sheetSize  = 1 << sheetShift // slots of a full sheet
	sheetMask  = sheetSize - 1
	sheetFirst = 4 // slots that a new one has room for
	sheetSpare = 8 // full ones kept in hand

	spanShift = 8         // 1 << spanShift is the narrowest span of keys
	spanSteps = 9         // a sheet's span is less than its distance >> (spanSteps − 2), or the narrowest
	nearLeast = sheetSize // so many the heap is given whatever their keys
)

// Calendar keeps slots in order of a key, lowest first, as a Heap does, and is made for millions of them whose keys are times
// that lie ahead: only what is next is in a heap. Everything else lies unsorted in sheets, each of keys that are near each other,
// the farther off the wider, and a sheet is gone through when its least slot comes first. So a slot costs a copy or two on its
// way instead of a path through a heap that no cache holds, and one that comes in or goes touches no other's record.
//
// The order is exact whatever the keys are: the spans of sheets only make it fast. Set the functions before the first Push; do not
// copy it once it holds anything.
type Calendar struct {
	// As in Heap. A position is any number but −1, which is told when the slot leaves.
	Less  func(a, b int32) bool
	Rank  func(slot int32) uint32
	Moved func(slot, pos int32)

	near   Heap   // of seats, so that a slot's record is not touched whenever it moves in there
	seats  []seat // their positions are their numbers
	vacant int32  // the first seat that nobody has, by pos, as number + 1; 0: none
	sheets []sheet
	free   []int32      // numbers of sheets that are not there
	filled Index        // sheet by span, those that are being filled
	order  Heap         // sheets by their least slot
	spare  [][]heapNode // of full length
	n      int32
	room   int64 // nodes that the sheets have room for
}

// seat is a slot in the heap.
type seat struct{ slot, pos int32 }

// sheet is some slots in no order. Its positions are −2 − (number << sheetShift | place).
type sheet struct {
	nodes []heapNode
	least heapNode
	span  uint64 // level above the keys' common part
	pos   int32  // in order
	full  bool   // is being filled no more
}

func sheetPos(no int32, i int) int32 { return -2 - (no<<sheetShift | int32(i)) }

func sheetAt(pos int32) (no int32, i int) {
	p := -2 - pos
	return p >> sheetShift, int(p & sheetMask)
}

// Len is the number of slots.
func (c *Calendar) Len() int { return int(c.n) }

// Bytes is the memory held.
func (c *Calendar) Bytes() int64 {
	return c.near.Bytes() + int64(cap(c.seats))*8 + c.order.Bytes() + c.filled.Bytes() + c.room*int64(unsafe.Sizeof(heapNode{})) +
		int64(len(c.spare))*sheetSize*int64(unsafe.Sizeof(heapNode{})) +
		int64(cap(c.sheets))*int64(unsafe.Sizeof(sheet{})) + int64(cap(c.free))*4
}

// Min is the lowest key and its slot; ok is false where the calendar is empty.
func (c *Calendar) Min() (key int64, slot int32, ok bool) {
	if c.near.n == 0 {
		return 0, 0, false
	}
	key, at, _ := c.near.Min()
	return key, c.seats[at].slot, true
}

// Push adds a slot.
func (c *Calendar) Push(key int64, slot int32) {
	if c.near.Moved == nil {
		c.near.Less = func(a, b int32) bool { return c.less(c.seats[a].slot, c.seats[b].slot) }
		c.near.Moved = func(at, pos int32) { c.seats[at].pos = pos }
		c.order.Less = func(a, b int32) bool { return c.before(&c.sheets[a].least, &c.sheets[b].least) }
		c.order.Rank = func(no int32) uint32 { return c.sheets[no].least.rank }
		c.order.Moved = func(no, pos int32) { c.sheets[no].pos = pos }
	}
	node := heapNode{key: key, slot: slot}
	if c.Rank != nil {
		node.rank = c.Rank(slot)
	}
	c.n++
	from, _, _ := c.near.Min()
	if c.near.n < nearLeast || key < from+1<<spanShift {
		c.sit(node)
	} else {
		c.put(node, c.level(from, key))
	}
	c.settle()
}

func (c *Calendar) less(a, b int32) bool {
	if c.Less == nil {
		return a < b
	}
	return c.Less(a, b)
}

// before orders nodes of slots.
func (c *Calendar) before(a, b *heapNode) bool {
	if a.key != b.key {
		return a.key < b.key
	}
	if a.rank != b.rank {
		return a.rank < b.rank
	}
	return c.less(a.slot, b.slot)
}

// sit puts a node into the heap.
func (c *Calendar) sit(node heapNode) {
	at := c.vacant - 1
	if at < 0 {
		at = int32(len(c.seats))
		c.seats = append(c.seats, seat{})
	} else {
		c.vacant = c.seats[at].pos
	}
	c.seats[at].slot = node.slot
	c.Moved(node.slot, at)
	node.slot = at
	c.near.add(node)
}

// rise takes the slot of a seat out of the heap.
func (c *Calendar) rise(at int32) {
	s := &c.seats[at]
	c.near.Remove(s.pos)
	slot := s.slot
	if *s = (seat{slot: -1, pos: c.vacant}); c.near.n == 0 {
		c.seats, c.vacant = c.seats[:0], 0
		if cap(c.seats) > 64 {
			c.seats = nil
		}
	} else {
		c.vacant = at + 1
	}
	c.Moved(slot, -1)
}

// level is that of the sheet for a key when the lowest is from.
func (c *Calendar) level(from, key int64) int {
	return bits.Len64(uint64(key-from) >> (spanShift + spanSteps))
}

// put adds a node to the sheet of its span.
func (c *Calendar) put(node heapNode, level int) {
	span := uint64(level)<<58 | uint64(node.key)>>(spanShift+level)&(1<<58-1)
	hash := HashID(1, span)
	no, ok := c.filled.Find(hash, func(v int32) bool { return c.sheets[v].span == span })
	if !ok {
		no = c.take()
		c.sheets[no] = sheet{span: span, least: node}
		c.filled.Insert(hash, no)
	}
	s := &c.sheets[no]
	if len(s.nodes) == cap(s.nodes) {
		c.widen(s)
	}
	i := len(s.nodes)
	s.nodes = append(s.nodes, node)
	c.Moved(node.slot, sheetPos(no, i))
	switch {
	case !ok:
		c.order.Push(node.key, no)
	case c.before(&node, &s.least):
		s.least = node
		c.order.Fix(s.pos, node.key)
	}
	if len(s.nodes) == sheetSize {
		s.full = true
		c.filled.Delete(hash, no)
	}
}

// take is the number of a new sheet.
func (c *Calendar) take() int32 {
	if n := len(c.free); n > 0 {
		no := c.free[n-1]
		c.free = c.free[:n-1]
		return no
	}
	if len(c.sheets) == 1<<(31-sheetShift)-1 {
		panic("table: calendar is full")
	}
	c.sheets = append(c.sheets, sheet{})
	return int32(len(c.sheets) - 1)
}

// widen makes room for more nodes.
func (c *Calendar) widen(s *sheet) {
	size := min(max(4*cap(s.nodes), sheetFirst), sheetSize)
	var nodes []heapNode
	if n := len(c.spare); n > 0 && size == sheetSize {
		nodes, c.spare = c.spare[n-1][:0], c.spare[:n-1]
	} else {
		nodes = make([]heapNode, 0, size)
	}
	c.room += int64(size - cap(s.nodes))
	s.nodes = append(nodes, s.nodes...)
}

// drop takes a sheet out, and gives its nodes to whoever keeps them.
func (c *Calendar) drop(no int32) []heapNode {
	s := &c.sheets[no]
	c.order.Remove(s.pos)
	if !s.full {
		c.filled.Delete(HashID(1, s.span), no)
	}
	nodes := s.nodes
	c.room -= int64(cap(nodes))
	*s = sheet{}
	if c.free = append(c.free, no); len(c.free) == len(c.sheets) {
		c.sheets, c.free = nil, nil
	}
	return nodes
}

// settle goes through sheets until the lowest of all is in the heap.
func (c *Calendar) settle() {
	for c.order.n > 0 {
		no := c.order.pages[0][0].slot
		s := &c.sheets[no]
		if c.near.n > 0 {
			next := *c.near.node(0)
			if next.slot = c.seats[next.slot].slot; !c.before(&s.least, &next) {
				return
			}
		}
		from, level := s.least.key, int(s.span>>58)
		nodes := c.drop(no)
		for _, node := range nodes {
			if to := c.level(from, node.key); to < level {
				c.put(node, to)
			} else {
				c.sit(node)
			}
		}
		if cap(nodes) == sheetSize && len(c.spare) < sheetSpare {
			c.spare = append(c.spare, nodes)
		}
	}
}

// Remove takes out the slot at pos.
func (c *Calendar) Remove(pos int32) {
	if no, i := c.check(pos); no < 0 {
		c.rise(pos)
	} else {
		s := &c.sheets[no]
		gone, last := s.nodes[i], len(s.nodes)-1
		if i != last {
			s.nodes[i] = s.nodes[last]
			c.Moved(s.nodes[i].slot, pos)
		}
		s.nodes = s.nodes[:last]
		switch {
		case last == 0:
			c.drop(no)
		case gone.slot == s.least.slot:
			s.least = s.nodes[0]
			for k := range s.nodes[1:] {
				if c.before(&s.nodes[k+1], &s.least) {
					s.least = s.nodes[k+1]
				}
			}
			c.order.Fix(s.pos, s.least.key)
		}
		if last > 0 && last <= cap(s.nodes)/4 && cap(s.nodes) > sheetFirst {
			c.room -= int64(cap(s.nodes) - cap(s.nodes)/2)
			s.nodes = append(make([]heapNode, 0, cap(s.nodes)/2), s.nodes...)
		}
		c.Moved(gone.slot, -1)
	}
	if c.n--; c.n == 0 {
		c.spare = nil
	}
	c.settle()
}

// check panics where there is nothing at pos. It is a seat where no is −1.
func (c *Calendar) check(pos int32) (no int32, i int) {
	there := false
	if pos >= 0 {
		no, there = -1, int(pos) < len(c.seats) && c.seats[pos].slot >= 0
	} else {
		no, i = sheetAt(pos)
		there = pos != -1 && int(no) < len(c.sheets) && i < len(c.sheets[no].nodes)
	}
	if !there {
		panic(fmt.Sprintf("table: calendar position %d does not exist", pos))
	}
	return no, i
}

// At is the key and slot at a position.
func (c *Calendar) At(pos int32) (key int64, slot int32) {
	no, i := c.check(pos)
	if no < 0 {
		s := c.seats[pos]
		return c.near.node(s.pos).key, s.slot
	}
	n := c.sheets[no].nodes[i]
	return n.key, n.slot
}

// Ahead appends to slots some whose keys are at most key, about those that come next, until there are so many.
func (c *Calendar) Ahead(key int64, many int, slots []int32) []int32 {
	for i := int32(0); i < min(c.near.n, 4*int32(many)) && len(slots) < many; i++ {
		if n := c.near.node(i); n.key <= key {
			slots = append(slots, c.seats[n.slot].slot)
		}
	}
	return slots
}

// First is a position to begin with to go over all slots, −1 where there are none.
func (c *Calendar) First() int32 {
	if c.near.n > 0 {
		return c.near.node(0).slot
	}
	return -1 // settled: the sheets are empty as well
}

// After is the position behind one, in an order that every Push and Remove may change; −1 at the end.
func (c *Calendar) After(pos int32) int32 {
	no := int32(0)
	if pos >= 0 {
		if next := c.seats[pos].pos + 1; next < c.near.n {
			return c.near.node(next).slot
		}
	} else {
		var i int
		if no, i = sheetAt(pos); int(no) < len(c.sheets) && i+1 < len(c.sheets[no].nodes) {
			return sheetPos(no, i+1)
		}
		no++
	}
	for ; int(no) < len(c.sheets); no++ {
		if len(c.sheets[no].nodes) > 0 {
			return sheetPos(no, 0)
		}
	}
	return -1
}
