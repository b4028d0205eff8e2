//go:build !wasip1

package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// boltTree walks the pages of a bbolt file before bbolt does. bbolt panics on some damage in a goroutine of its own, where
// nothing can catch it, and believes the rest; it writes pages without any slack, however, so that a page whose counts,
// offsets and lengths fit together to the byte is a page as it was written, as far as structure goes. What keys and values
// say is checked elsewhere.
//
//	page:    id 8 | flags 2 | count 2 | overflow 4 | elements | data
//	leaf:    flags 4 | offset 4 | key length 4 | value length 4     data: key, value
//	branch:  offset 4 | key length 4 | page 8                       data: key
//	bucket:  root page 8 | sequence 8 | a leaf page, when root is 0
type boltTree struct {
	f        io.ReaderAt
	pageSize int64
	high     uint64   // pages in use
	seen     []uint64 // bit set of the pages met
	buckets  map[string]bool
}

const (
	boltPageHead = 16
	boltElement  = 16
	boltBranch   = 0x01
	boltLeaf     = 0x02
	// boltDepth is deeper than any tree of 2^48 pages with two children each.
	boltDepth = 48
)

// pageReader has a page's first part in memory: of most pages, that is all of it.
type pageReader struct {
	r     io.ReaderAt
	first []byte
}

func (p *pageReader) ReadAt(b []byte, off int64) (int, error) {
	if off >= 0 && off+int64(len(b)) <= int64(len(p.first)) {
		return copy(b, p.first[off:]), nil
	}
	return p.r.ReadAt(b, off)
}

func newBoltTree(f io.ReaderAt, pageSize int64, high uint64) *boltTree {
	return &boltTree{f: f, pageSize: pageSize, high: high, seen: make([]uint64, high/64+1), buckets: map[string]bool{}}
}

// meet marks a page and says whether it had been met.
func (t *boltTree) meet(id uint64) bool {
	bit := uint64(1) << (id % 64)
	was := t.seen[id/64]&bit != 0
	t.seen[id/64] |= bit
	return was
}

// check walks from a bucket's root. top says that its elements are buckets.
func (t *boltTree) check(root uint64, top bool) error {
	return t.page(root, nil, nil, 0, top)
}

func (t *boltTree) page(id uint64, low, below []byte, depth int, top bool) error {
	if id < 2 || id >= t.high || depth > boltDepth || t.meet(id) {
		return fmt.Errorf("page %d is out of place", id)
	}
	r := &pageReader{r: io.NewSectionReader(t.f, int64(id)*t.pageSize, int64(t.high-id)*t.pageSize), first: make([]byte, t.pageSize)}
	if _, err := r.r.ReadAt(r.first, 0); err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	size, err := t.walk(r, id, low, below, depth, top)
	if err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	var head [boltPageHead]byte
	if _, err := r.ReadAt(head[:], 0); err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	over := int64(binary.NativeEndian.Uint32(head[12:]))
	if want := max((size+t.pageSize-1)/t.pageSize-1, 0); over != want || uint64(over) >= t.high-id {
		return fmt.Errorf("page %d: it goes on for %d pages, its data for %d", id, over, want)
	}
	for i := id + 1; i <= id+uint64(over); i++ {
		if t.meet(i) {
			return fmt.Errorf("page %d is used twice", i)
		}
	}
	return nil
}

// walk checks one page, or the inline page of a small bucket, and what hangs below it. It returns the page's length.
func (t *boltTree) walk(r io.ReaderAt, id uint64, low, below []byte, depth int, top bool) (int64, error) {
	var head [boltPageHead]byte
	if _, err := r.ReadAt(head[:], 0); err != nil {
		return 0, fmt.Errorf("header: %w", err)
	}
	ne := binary.NativeEndian
	flags, count := ne.Uint16(head[8:]), int(ne.Uint16(head[10:]))
	if ne.Uint64(head[:]) != id || flags != boltBranch && flags != boltLeaf || count == 0 && (depth > 0 || flags == boltBranch) {
		return 0, fmt.Errorf("header of page %d, flags %#x, %d elements", ne.Uint64(head[:]), flags, count)
	}
	elements := make([]byte, count*boltElement)
	if _, err := r.ReadAt(elements, boltPageHead); err != nil && count > 0 {
		return 0, fmt.Errorf("elements: %w", err)
	}
	at := int64(boltPageHead + len(elements))
	var last []byte
	type child struct {
		key []byte
		id  uint64
	}
	var children []child
	for i := range count {
		e := elements[i*boltElement:]
		var kind, off, klen, vlen uint32
		var below64 uint64
		if flags == boltLeaf {
			kind, off, klen, vlen = ne.Uint32(e), ne.Uint32(e[4:]), ne.Uint32(e[8:]), ne.Uint32(e[12:])
		} else {
			off, klen, below64 = ne.Uint32(e), ne.Uint32(e[4:]), ne.Uint64(e[8:])
		}
		if int64(boltPageHead+i*boltElement)+int64(off) != at || klen == 0 || klen > 256 || (kind == 1) != (top && flags == boltLeaf) || kind > 1 {
			return 0, fmt.Errorf("element %d does not fit", i)
		}
		key := make([]byte, klen)
		if _, err := r.ReadAt(key, at); err != nil {
			return 0, fmt.Errorf("key %d: %w", i, err)
		}
		if i == 0 && low != nil && bytes.Compare(key, low) < 0 || last != nil && bytes.Compare(key, last) <= 0 || below != nil && bytes.Compare(key, below) >= 0 {
			return 0, fmt.Errorf("key %d is out of order", i)
		}
		last = key
		if flags == boltBranch {
			children = append(children, child{key, below64})
		} else if kind == 1 {
			if err := t.bucket(r, string(key), at+int64(klen), int64(vlen)); err != nil {
				return 0, fmt.Errorf("bucket %q: %w", key, err)
			}
		}
		at += int64(klen) + int64(vlen)
	}
	for i, c := range children {
		end := below
		if i+1 < len(children) {
			end = children[i+1].key
		}
		if err := t.page(c.id, c.key, end, depth+1, top); err != nil {
			return 0, err
		}
	}
	return at, nil
}

func (t *boltTree) bucket(r io.ReaderAt, name string, at, length int64) error {
	var b [16]byte
	if length < int64(len(b)) {
		return fmt.Errorf("of %d bytes", length)
	}
	if _, err := r.ReadAt(b[:], at); err != nil {
		return err
	}
	t.buckets[name] = true
	root := binary.NativeEndian.Uint64(b[:])
	if root != 0 {
		if length != int64(len(b)) {
			return fmt.Errorf("of %d bytes", length)
		}
		return t.check(root, false)
	}
	size, err := t.walk(io.NewSectionReader(r, at+16, length-16), 0, nil, nil, 0, false)
	if err == nil && size != length-16 {
		err = errors.New("inline page does not fit")
	}
	return err
}
