package fsm

import (
	"slices"
	"sort"
	"unsafe"
)

// resultOrder lists a queue's results by their place in the order of recording. Places are appended rising and taken out
// anywhere, mostly in front: it is a row of chunks, each with room for orderChunk places, of which those that are gone leave
// holes. A chunk that is empty goes, and two neighbours that fit in half a chunk become one, so that the work of a removal
// and the memory for what is left are bounded.
type resultOrder struct {
	chunks []*orderedChunk
	first  int // chunks before it are gone
}

const orderChunk = 128

type orderedChunk struct {
	used, live int32
	seqs       [orderChunk]uint64
	slots      [orderChunk]int32 // none: a hole
}

func (r *resultOrder) row() []*orderedChunk { return r.chunks[r.first:] }

// bytes is what it holds of memory.
func (r *resultOrder) bytes() int64 {
	return int64(len(r.row()))*int64(unsafe.Sizeof(orderedChunk{})) + int64(cap(r.chunks))*8
}

// add appends a result; seq is above all others.
func (r *resultOrder) add(seq uint64, slot int32) {
	row := r.row()
	if len(row) == 0 || row[len(row)-1].used == orderChunk {
		c := new(orderedChunk)
		if r.first > 0 && len(r.chunks) == cap(r.chunks) { // do not grow while there is room in front
			n := copy(r.chunks, row)
			clear(r.chunks[n:])
			r.chunks, r.first = r.chunks[:n], 0
		}
		r.chunks = append(r.chunks, c)
		row = r.row()
	}
	c := row[len(row)-1]
	c.seqs[c.used], c.slots[c.used] = seq, slot
	c.used++
	c.live++
}

// seek is the place of the first result above seq: chunk and position in it.
func (r *resultOrder) seek(seq uint64) (chunk, pos int) {
	row := r.row()
	chunk = sort.Search(len(row), func(i int) bool { return row[i].seqs[row[i].used-1] > seq })
	if chunk == len(row) {
		return chunk, 0
	}
	c := row[chunk]
	return chunk, sort.Search(int(c.used), func(i int) bool { return c.seqs[i] > seq })
}

// remove takes a result out.
func (r *resultOrder) remove(seq uint64) {
	row := r.row()
	at, pos := r.seek(seq - 1)
	c := row[at]
	c.slots[pos] = none
	c.live--
	if c.live == 0 {
		r.drop(at)
		return
	}
	for _, left := range [...]int{at - 1, at} {
		if left >= 0 && left+1 < len(row) && row[left].live+row[left+1].live <= orderChunk/2 {
			row[left].compact()
			for i := range row[left+1].used {
				if slot := row[left+1].slots[i]; slot != none {
					l := row[left]
					l.seqs[l.used], l.slots[l.used] = row[left+1].seqs[i], slot
					l.used++
					l.live++
				}
			}
			r.drop(left + 1)
			return
		}
	}
}

func (c *orderedChunk) compact() {
	n := int32(0)
	for i := range c.used {
		if c.slots[i] != none {
			c.seqs[n], c.slots[n] = c.seqs[i], c.slots[i]
			n++
		}
	}
	c.used = n
}

func (r *resultOrder) drop(at int) {
	switch {
	case len(r.row()) == 1:
		*r = resultOrder{}
	case at == 0:
		r.chunks[r.first] = nil
		r.first++
	default:
		r.chunks = slices.Delete(r.chunks, r.first+at, r.first+at+1)
	}
}

// after calls f for the results above seq, in order, until it returns false.
func (r *resultOrder) after(seq uint64, f func(seq uint64, slot int32) bool) {
	row := r.row()
	at, pos := r.seek(seq)
	for ; at < len(row); at, pos = at+1, 0 {
		c := row[at]
		for i := pos; i < int(c.used); i++ {
			if c.slots[i] != none && !f(c.seqs[i], c.slots[i]) {
				return
			}
		}
	}
}

// LastResult is the place of the last result recorded in the group, 0 before the first.
func (s *State) LastResult() uint64 { return s.resultSeq }

// QueueResult is the place of a queue's last result that is still listed, 0 where there is none.
func (s *State) QueueResult(n uint32) (seq uint64) {
	q := s.byNumber(n)
	if q == nil {
		return 0
	}
	if row := q.order.row(); len(row) > 0 {
		c := row[len(row)-1]
		for i := c.used - 1; i >= 0; i-- {
			if c.slots[i] != none {
				return c.seqs[i]
			}
		}
	}
	return 0
}

// Results lists a queue's results in the order of recording, those behind the place after, until f returns false. A place
// older than what is kept is the beginning. A call looks at no more than ListLimit of them; where that ends it, partial is
// the place to go on behind, else it is 0.
func (s *State) Results(n uint32, after uint64, f func(*RecordedResult) bool) (partial uint64) {
	q := s.byNumber(n)
	if q == nil {
		return 0
	}
	var r RecordedResult
	left := ListLimit
	q.order.after(after, func(seq uint64, slot int32) bool {
		if left == 0 {
			partial = after
			return false
		}
		left--
		after = seq
		rec := s.results.Get(slot)
		if !s.keeps(rec) {
			return true
		}
		s.fillResult(slot, &r)
		return f(&r)
	})
	return partial
}
