package fsm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A snapshot is framed like this; numbers are little endian, checksums CRC32C:
//
//	"QUORSNAP" │ format u16 │ header size u16 │ header │ checksum of all that
//	for each section, numbers rising:
//	   'S' │ number u8 │ checksum of these two
//	   'B' │ size u32 │ checksum of the bytes u32 │ bytes     64 KiB each, the last one less
//	   'E' │ records u64 │ checksum of the section's bytes u32 │ checksum of the frame u32
//	'T' │ records u64 │ checksum of everything before u32 │ checksum of the frame u32
//
// A section is one stream of bytes, cut into blocks without regard to records, so that the same records are the same
// bytes. Nothing of a block is looked at before its checksum is right.
const (
	frameMagic       = "QUORSNAP"
	frameFormat      = 1 // the format that this build writes, and the only one it reads
	frameBlock       = 64 << 10
	frameHeaderSize  = 2 + 2 + 16 + 8 + 8 + 8
	framePreamble    = len(frameMagic) + 2 + 2 + frameHeaderSize + 4
	frameSectionSize = 1 + 1 + 4
	frameBlockHead   = 1 + 4 + 4
	frameEndSize     = 1 + 8 + 4 + 4
	frameTrailerSize = 1 + 8 + 4 + 4

	frameSection = 'S'
	frameBytes   = 'B'
	frameEnd     = 'E'
	frameTrailer = 'T'
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(sum uint32, b []byte) uint32 { return crc32.Update(sum, castagnoli, b) }

// snapshotHeader is what a snapshot is of.
type snapshotHeader struct {
	Group   uint16
	Epoch   uint16
	Cluster [16]byte
	Index   uint64 // of the last entry applied
	Time    int64  // T, Unix ms
	Shift   int64  // ΣShift, ms
}

func (h *snapshotHeader) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint16(b, h.Group)
	b = binary.LittleEndian.AppendUint16(b, h.Epoch)
	b = append(b, h.Cluster[:]...)
	b = binary.LittleEndian.AppendUint64(b, h.Index)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.Time))
	return binary.LittleEndian.AppendUint64(b, uint64(h.Shift))
}

func (h *snapshotHeader) read(b []byte) {
	h.Group = binary.LittleEndian.Uint16(b)
	h.Epoch = binary.LittleEndian.Uint16(b[2:])
	copy(h.Cluster[:], b[4:])
	h.Index = binary.LittleEndian.Uint64(b[20:])
	h.Time = int64(binary.LittleEndian.Uint64(b[28:]))
	h.Shift = int64(binary.LittleEndian.Uint64(b[36:]))
}

// frameWriter writes a snapshot to w in pieces of 64 KiB or more. The first error sticks: what is written after it goes
// nowhere, and close returns it.
type frameWriter struct {
	w       io.Writer
	out     []byte // frames not written yet
	block   []byte // of the section, not full yet
	written int64
	all     uint32 // checksum of every byte before the trailer
	sum     uint32 // of the section's bytes
	records uint64 // of the section
	total   uint64
	number  uint8
	open    bool // in a section
	failed  error
}

func newFrameWriter(w io.Writer, h snapshotHeader) *frameWriter {
	f := &frameWriter{w: w, out: make([]byte, 0, 2*frameBlock+frameBlockHead), block: make([]byte, 0, frameBlock)}
	b := append(f.out, frameMagic...)
	b = binary.LittleEndian.AppendUint16(b, frameFormat)
	b = binary.LittleEndian.AppendUint16(b, frameHeaderSize)
	b = h.append(b)
	f.out = binary.LittleEndian.AppendUint32(b, checksum(0, b))
	return f
}

// section ends the section before and begins another; numbers rise.
func (f *frameWriter) section(number uint8) {
	f.end()
	if number <= f.number {
		panic(fmt.Sprintf("fsm: snapshot section %d after %d", number, f.number))
	}
	f.number, f.open, f.sum, f.records = number, true, 0, 0
	b := append(f.out, frameSection, number)
	f.out = binary.LittleEndian.AppendUint32(b, checksum(0, b[len(b)-2:]))
}

// end finishes the section that is open.
func (f *frameWriter) end() {
	if !f.open {
		return
	}
	f.cut()
	f.open = false
	f.total += f.records
	b := f.out
	from := len(b)
	b = append(b, frameEnd)
	b = binary.LittleEndian.AppendUint64(b, f.records)
	b = binary.LittleEndian.AppendUint32(b, f.sum)
	f.out = binary.LittleEndian.AppendUint32(b, checksum(0, b[from:]))
}

// cut makes a frame of the block and writes what has gathered.
func (f *frameWriter) cut() {
	if len(f.block) == 0 {
		return
	}
	f.sum = checksum(f.sum, f.block)
	b := append(f.out, frameBytes)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f.block)))
	b = binary.LittleEndian.AppendUint32(b, checksum(0, f.block))
	f.out = append(b, f.block...)
	f.block = f.block[:0]
	if len(f.out) >= frameBlock {
		f.flush()
	}
}

func (f *frameWriter) flush() {
	f.all = checksum(f.all, f.out)
	if f.failed == nil {
		n, err := f.w.Write(f.out)
		f.written += int64(n)
		if err != nil {
			f.failed = fmt.Errorf("write snapshot at byte %d: %w", f.written, err)
		}
	}
	f.out = f.out[:0]
}

// close writes the trailer and returns the size of the whole and the first error.
func (f *frameWriter) close() (int64, error) {
	f.end()
	f.flush()
	b := append(f.out, frameTrailer)
	b = binary.LittleEndian.AppendUint64(b, f.total)
	b = binary.LittleEndian.AppendUint32(b, f.all)
	f.out = binary.LittleEndian.AppendUint32(b, checksum(0, b))
	f.flush()
	return f.written, f.failed
}

// err is the first error, for a writer that would rather stop early.
func (f *frameWriter) err() error { return f.failed }

// record begins a record, which has at least one byte.
func (f *frameWriter) record() { f.records++ }

// raw adds bytes as they are.
func (f *frameWriter) raw(b []byte) {
	for len(f.block)+len(b) >= frameBlock {
		n := frameBlock - len(f.block)
		f.block = append(f.block, b[:n]...)
		b = b[n:]
		f.cut()
	}
	f.block = append(f.block, b...)
}

func (f *frameWriter) u8(v uint8) {
	f.block = append(f.block, v)
	if len(f.block) == frameBlock {
		f.cut()
	}
}

func (f *frameWriter) bool(v bool) {
	if v {
		f.u8(1)
	} else {
		f.u8(0)
	}
}

func (f *frameWriter) u16(v uint16) {
	var b [2]byte
	binary.LittleEndian.PutUint16(b[:], v)
	f.raw(b[:])
}

func (f *frameWriter) u32(v uint32) {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], v)
	f.raw(b[:])
}

func (f *frameWriter) u64(v uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	f.raw(b[:])
}

func (f *frameWriter) uvarint(v uint64) {
	var b [binary.MaxVarintLen64]byte
	f.raw(b[:binary.PutUvarint(b[:], v)])
}

func (f *frameWriter) varint(v int64) {
	var b [binary.MaxVarintLen64]byte
	f.raw(b[:binary.PutVarint(b[:], v)])
}

func (f *frameWriter) id(id ID) {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], id.Hi)
	binary.BigEndian.PutUint64(b[8:], id.Lo)
	f.raw(b[:])
}

func (f *frameWriter) hash(h *[16]byte) { f.raw(h[:]) }

// bytes adds a length and the bytes.
func (f *frameWriter) bytes(b []byte) {
	f.uvarint(uint64(len(b)))
	f.raw(b)
}

// text is bytes for a string.
func (f *frameWriter) text(s string) {
	f.uvarint(uint64(len(s)))
	for len(f.block)+len(s) >= frameBlock {
		n := frameBlock - len(f.block)
		f.block = append(f.block, s[:n]...)
		s = s[n:]
		f.cut()
	}
	f.block = append(f.block, s...)
}

var errFrameUse = errors.New("snapshot section was not read to its end")
