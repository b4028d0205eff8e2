package fsm

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// frameReader reads what a frameWriter wrote, one verified block at a time; it holds one block and the longest field
// that lies across blocks, never more than what was really read. The first error sticks: everything after it is zero,
// and more and section say no. Errors about the bytes wrap ErrFormat and name section and offset; those of the
// underlying reader are wrapped as they are.
//
//	for {
//		number, ok := f.section()
//		if !ok {
//			return f.err()
//		}
//		for f.more() {
//			… read the fields of one record …
//		}
//	}
type frameReader struct {
	header  snapshotHeader
	r       *bufio.Reader
	block   []byte // of the section; the bytes from pos on are unread
	pos     int
	blockAt int64 // offset of the block's first byte in the snapshot
	at      int64 // offset of the next byte of r
	all     uint32
	sum     uint32
	records uint64
	total   uint64
	number  uint8
	open    bool   // in a section
	ended   bool   // its end was read and is right
	short   bool   // a block of less than 64 KiB was read: the last
	long    []byte // a field across blocks
	failed  error
}

// newFrameReader reads and checks the header.
func newFrameReader(r io.Reader) (*frameReader, error) {
	f := &frameReader{r: bufio.NewReaderSize(r, 4*frameBlock), block: make([]byte, 0, frameBlock)}
	var b [framePreamble]byte
	n := len(frameMagic) + 2
	if !f.take(b[:n]) {
		return nil, f.failed
	}
	if string(b[:len(frameMagic)]) != frameMagic {
		f.fail("not a snapshot: it begins with %q, want %q", b[:len(frameMagic)], frameMagic)
		return nil, f.failed
	}
	if v := binary.LittleEndian.Uint16(b[len(frameMagic):]); v != frameFormat {
		f.fail("snapshot is of format %d, this build reads %d", v, frameFormat)
		return nil, f.failed
	}
	if !f.take(b[n:]) {
		return nil, f.failed
	}
	body := b[:framePreamble-4]
	size := binary.LittleEndian.Uint16(b[n:])
	if got := binary.LittleEndian.Uint32(b[framePreamble-4:]); got != checksum(0, body) || size != frameHeaderSize {
		f.fail("header of %d bytes with checksum %08x, want %d and %08x", size, got, frameHeaderSize, checksum(0, body))
		return nil, f.failed
	}
	f.header.read(b[n+2:])
	return f, nil
}

// fail notes the first error; the consumer uses it too, for records that make no sense.
func (f *frameReader) fail(format string, args ...any) {
	if f.failed == nil {
		f.failed = fmt.Errorf("%w: snapshot section %d, byte %d: %s", ErrFormat, f.number, f.offset(), fmt.Sprintf(format, args...))
	}
	f.block, f.pos = f.block[:0], 0
}

func (f *frameReader) err() error { return f.failed }

// offset is where the reading stands in the snapshot.
func (f *frameReader) offset() int64 {
	if f.pos < len(f.block) {
		return f.blockAt + int64(f.pos)
	}
	return f.at
}

// take fills b from the underlying reader and counts it into the checksum of everything.
func (f *frameReader) take(b []byte) bool {
	if f.failed != nil {
		return false
	}
	n, err := io.ReadFull(f.r, b)
	if err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			f.fail("it ends after %d bytes, %d more were to come", f.at+int64(n), len(b)-n)
		} else {
			f.failed = fmt.Errorf("read snapshot at byte %d: %w", f.at+int64(n), err)
			f.block, f.pos = f.block[:0], 0
		}
		return false
	}
	f.at += int64(n)
	f.all = checksum(f.all, b)
	return true
}

// frame reads the rest of a frame whose tag was read, and checks the checksum at its end.
func (f *frameReader) frame(b []byte) bool {
	if !f.take(b[1:]) {
		return false
	}
	n := len(b) - 4
	if got, want := binary.LittleEndian.Uint32(b[n:]), checksum(0, b[:n]); got != want {
		f.fail("frame %q has checksum %08x, its bytes give %08x", b[0], got, want)
		return false
	}
	return true
}

// section goes to the next section. At the end of the snapshot, and after an error, it says no: ask err which.
func (f *frameReader) section() (number uint8, ok bool) {
	if f.failed != nil {
		return 0, false
	}
	if f.open {
		if !f.ended && f.more() {
			f.fail("%v", errFrameUse)
		}
		if f.failed != nil {
			return 0, false
		}
		f.open = false
	}
	before := f.all
	var b [max(frameSectionSize, frameTrailerSize)]byte
	if !f.take(b[:1]) {
		return 0, false
	}
	switch b[0] {
	case frameSection:
		if !f.frame(b[:frameSectionSize]) {
			return 0, false
		}
		if b[1] <= f.number {
			f.fail("section %d comes after it", b[1])
			return 0, false
		}
		f.number, f.open, f.ended, f.short = b[1], true, false, false
		f.sum, f.records = 0, 0
		return f.number, true
	case frameTrailer:
		f.trailer(b[:frameTrailerSize], before)
		return 0, false
	}
	f.fail("frame %q, want a section or the trailer", b[0])
	return 0, false
}

func (f *frameReader) trailer(b []byte, before uint32) {
	if !f.frame(b) {
		return
	}
	if n, sum := binary.LittleEndian.Uint64(b[1:]), binary.LittleEndian.Uint32(b[9:]); n != f.total || sum != before {
		f.fail("trailer says %d records and checksum %08x, read %d and %08x", n, sum, f.total, before)
		return
	}
	if _, err := f.r.ReadByte(); err == nil {
		f.fail("bytes behind the trailer")
	} else if !errors.Is(err, io.EOF) {
		f.failed = fmt.Errorf("read snapshot at byte %d: %w", f.at, err)
	}
}

// more says whether another record follows, at the boundary between two. false: the section has ended as it should, or
// an error.
func (f *frameReader) more() bool {
	if f.failed != nil || !f.open || f.ended {
		return false
	}
	if f.pos == len(f.block) && !f.next() {
		return false
	}
	f.records++
	return true
}

// next reads the next block; false at the section's end, which is checked, and after an error.
func (f *frameReader) next() bool {
	f.block, f.pos = f.block[:0], 0
	var b [max(frameBlockHead, frameEndSize)]byte
	if !f.take(b[:1]) {
		return false
	}
	switch b[0] {
	case frameBytes:
		if !f.take(b[1:frameBlockHead]) {
			return false
		}
		size, want := binary.LittleEndian.Uint32(b[1:]), binary.LittleEndian.Uint32(b[5:])
		if size == 0 || size > frameBlock || f.short {
			f.fail("block of %d bytes, want 1 to %d, all full but the last", size, frameBlock)
			return false
		}
		block := f.block[:size]
		f.blockAt = f.at
		if !f.take(block) {
			return false
		}
		if got := checksum(0, block); got != want {
			f.at = f.blockAt
			f.fail("block of %d bytes has checksum %08x, its bytes give %08x", size, want, got)
			return false
		}
		f.sum = checksum(f.sum, block)
		f.short = size < frameBlock
		f.block = block
		return true
	case frameEnd:
		if !f.frame(b[:frameEndSize]) {
			return false
		}
		if n, sum := binary.LittleEndian.Uint64(b[1:]), binary.LittleEndian.Uint32(b[9:]); n != f.records || sum != f.sum {
			f.fail("the section's end says %d records and checksum %08x, read %d and %08x", n, sum, f.records, f.sum)
			return false
		}
		f.ended = true
		f.total += f.records
		return false
	}
	f.fail("frame %q, want a block or the section's end", b[0])
	return false
}

// need makes at least one byte of the block unread.
func (f *frameReader) need() bool {
	if f.pos < len(f.block) {
		return true
	}
	if f.failed != nil || !f.open || f.ended {
		return false
	}
	if !f.next() {
		if f.failed == nil {
			f.fail("the section ends within a record")
		}
		return false
	}
	return true
}

// fixed fills b, which may lie across blocks.
func (f *frameReader) fixed(b []byte) {
	for {
		n := copy(b, f.block[f.pos:])
		f.pos += n
		if b = b[n:]; len(b) == 0 {
			return
		}
		if !f.need() {
			clear(b)
			return
		}
	}
}

func (f *frameReader) u8() uint8 {
	if !f.need() {
		return 0
	}
	v := f.block[f.pos]
	f.pos++
	return v
}

func (f *frameReader) bool() bool {
	v := f.u8()
	if v > 1 {
		f.fail("boolean is %d, want 0 or 1", v)
	}
	return v == 1
}

func (f *frameReader) u16() uint16 {
	var b [2]byte
	f.fixed(b[:])
	return uint16(f.zeroOnError(uint64(binary.LittleEndian.Uint16(b[:]))))
}

func (f *frameReader) u32() uint32 {
	var b [4]byte
	f.fixed(b[:])
	return uint32(f.zeroOnError(uint64(binary.LittleEndian.Uint32(b[:]))))
}

func (f *frameReader) u64() uint64 {
	var b [8]byte
	f.fixed(b[:])
	return f.zeroOnError(binary.LittleEndian.Uint64(b[:]))
}

func (f *frameReader) zeroOnError(v uint64) uint64 {
	if f.failed != nil {
		return 0
	}
	return v
}

func (f *frameReader) uvarint() uint64 {
	if f.pos < len(f.block) && f.block[f.pos] < 0x80 {
		v := f.block[f.pos]
		f.pos++
		return uint64(v)
	}
	var v uint64
	for shift := 0; ; shift += 7 {
		if !f.need() {
			return 0
		}
		c := f.block[f.pos]
		f.pos++
		if shift == 63 && c > 1 {
			f.fail("number does not fit in 64 bits")
			return 0
		}
		v |= uint64(c&0x7F) << shift
		if c < 0x80 {
			if c == 0 && shift > 0 {
				f.fail("number is not in its shortest form")
				return 0
			}
			return v
		}
	}
}

func (f *frameReader) varint() int64 {
	u := f.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

func (f *frameReader) id() ID {
	var b [16]byte
	f.fixed(b[:])
	if f.failed != nil {
		return ID{}
	}
	return ID{Hi: binary.BigEndian.Uint64(b[:]), Lo: binary.BigEndian.Uint64(b[8:])}
}

func (f *frameReader) hash() (h [16]byte) {
	f.fixed(h[:])
	if f.failed != nil {
		return [16]byte{}
	}
	return h
}

// bytes is a length and that many bytes, at most limit, nil for none. They are good until the next call of anything.
func (f *frameReader) bytes(limit int) []byte {
	size := f.uvarint()
	if f.failed != nil || size == 0 {
		return nil
	}
	if size > uint64(max(limit, 0)) {
		f.fail("field of %d bytes, want at most %d", size, limit)
		return nil
	}
	n := int(size)
	if f.pos == len(f.block) && !f.need() {
		return nil
	}
	if n <= len(f.block)-f.pos {
		b := f.block[f.pos : f.pos+n : f.pos+n]
		f.pos += n
		return b
	}
	if cap(f.long) > 1<<20 && n < 1<<20 {
		f.long = nil // one long field is no reason to hold that much
	}
	f.long = f.long[:0]
	for {
		part := f.block[f.pos:min(len(f.block), f.pos+n-len(f.long))]
		f.long = append(f.long, part...)
		f.pos += len(part)
		if len(f.long) == n {
			return f.long[:n:n]
		}
		if !f.need() {
			return nil
		}
	}
}

// str is bytes as a string of its own.
func (f *frameReader) str(limit int) string { return string(f.bytes(limit)) }
