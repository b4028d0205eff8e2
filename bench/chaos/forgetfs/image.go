//go:build linux

package forgetfs

import "maps"

const (
	blockSize  = 4 << 10
	sectorSize = 512 // what a disk writes whole or not at all
)

// block is a piece of a file. It never changes once it is in an image, so that images and changes share it.
type block [blockSize]byte

// image is the content of a file. Blocks that are not there are zeros, and so is everything from its size on.
type image struct {
	blocks map[int64]*block
	size   int64
}

func (m *image) clone() image { return image{blocks: maps.Clone(m.blocks), size: m.size} }

// read copies what is there from off on, and says how much that is.
func (m *image) read(p []byte, off int64) int {
	if off >= m.size {
		return 0
	}
	p = p[:min(int64(len(p)), m.size-off)]
	for n := 0; n < len(p); {
		at := off + int64(n)
		within := int(at % blockSize)
		part := p[n:min(len(p), n+blockSize-within)]
		if b := m.blocks[at/blockSize]; b != nil {
			copy(part, b[within:])
		} else {
			clear(part)
		}
		n += len(part)
	}
	return len(p)
}

// put sets a block.
func (m *image) put(at int64, b *block) {
	if m.blocks == nil {
		m.blocks = map[int64]*block{}
	}
	m.blocks[at] = b
}

// end makes everything behind the file's end zeros.
func (m *image) end() {
	m.shorten(m.size)
	if c := m.truncate(m.size); len(c.blocks) > 0 {
		m.put(c.first, c.blocks[0])
	}
}

// change is one call that changed a file's content.
type change struct {
	seq    uint64
	cut    bool     // blocks behind size are gone
	size   int64    // how long it is afterwards
	first  int64    // which block blocks begin with
	blocks []*block // whole blocks as they were after the call: a cache holds no less, and writes no less
}

// write makes the change that writing p at off to the file is.
func (m *image) write(p []byte, off int64) change {
	c := change{size: max(m.size, off+int64(len(p))), first: off / blockSize}
	for len(p) > 0 {
		within := off % blockSize
		b := new(block)
		if old := m.blocks[off/blockSize]; old != nil && (within > 0 || len(p) < blockSize) {
			*b = *old
		}
		n := copy(b[within:], p)
		c.blocks = append(c.blocks, b)
		p, off = p[n:], off+int64(n)
	}
	return c
}

// truncate makes the change that setting the length is.
func (m *image) truncate(n int64) change {
	c := change{cut: true, size: n, first: n / blockSize}
	if old := m.blocks[c.first]; old != nil && n%blockSize > 0 {
		short := *old
		clear(short[n%blockSize:])
		c.blocks = []*block{&short}
	}
	return c
}

// shorten drops the blocks that are behind n bytes.
func (m *image) shorten(n int64) {
	for at := range m.blocks {
		if at*blockSize >= n {
			delete(m.blocks, at)
		}
	}
}

// apply makes a change.
func (m *image) apply(c change) {
	if c.cut {
		m.shorten(c.size)
	}
	for i, b := range c.blocks {
		m.put(c.first+int64(i), b)
	}
	m.size = c.size
}

// applySome makes as much of a change as is kept: pieces of so many bytes, and the length.
func (m *image) applySome(c change, piece int, keep func() bool) (dropped int) {
	if c.cut {
		if keep() {
			m.shorten(c.size)
		} else {
			dropped++
		}
	}
	for i, b := range c.blocks {
		at := c.first + int64(i)
		var mixed block
		if old := m.blocks[at]; old != nil {
			mixed = *old
		}
		for off := 0; off < blockSize; off += piece {
			if keep() {
				copy(mixed[off:off+piece], b[off:])
			} else {
				dropped++
			}
		}
		m.put(at, &mixed)
	}
	if c.size != m.size {
		if keep() {
			m.size = c.size
		} else {
			dropped++
		}
	}
	return dropped
}
