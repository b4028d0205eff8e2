package fsm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
)

var frameTestHeader = snapshotHeader{
	Group: 3, Epoch: 0x0102, Cluster: [16]byte{1, 2, 3, 15: 16}, Index: 1 << 40, Time: 1_700_000_000_000, Shift: -5,
}

// frameRecord is a record with a field of every kind.
type frameRecord struct {
	b    bool
	u8   uint8
	u16  uint16
	u32  uint32
	u64  uint64
	uv   uint64
	v    int64
	id   ID
	hash [16]byte
	data []byte
	text string
}

func (r *frameRecord) write(w *frameWriter) {
	w.record()
	w.bool(r.b)
	w.u8(r.u8)
	w.u16(r.u16)
	w.u32(r.u32)
	w.u64(r.u64)
	w.uvarint(r.uv)
	w.varint(r.v)
	w.id(r.id)
	w.hash(&r.hash)
	w.bytes(r.data)
	w.text(r.text)
}

func readFrameRecord(f *frameReader) frameRecord {
	return frameRecord{
		b: f.bool(), u8: f.u8(), u16: f.u16(), u32: f.u32(), u64: f.u64(), uv: f.uvarint(), v: f.varint(), id: f.id(), hash: f.hash(),
		data: bytes.Clone(f.bytes(4 << 20)), text: f.str(4 << 20),
	}
}

func randomFrameRecord(rnd *rand.Rand, big bool) frameRecord {
	size := rnd.IntN(300)
	if big && rnd.IntN(50) == 0 {
		size = rnd.IntN(300 << 10)
	}
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	r := frameRecord{
		b: rnd.IntN(2) == 0, u8: uint8(rnd.Uint32()), u16: uint16(rnd.Uint32()), u32: rnd.Uint32(), u64: rnd.Uint64(),
		uv: rnd.Uint64() >> rnd.IntN(64), v: int64(rnd.Uint64()) >> rnd.IntN(64), id: ID{rnd.Uint64(), rnd.Uint64()}, text: string(b),
	}
	if size > 0 {
		r.data = b
	}
	r.hash[3] = r.u8
	return r
}

func (r *frameRecord) equal(o *frameRecord) bool {
	x, y := *r, *o
	same := bytes.Equal(x.data, y.data)
	x.data, y.data = nil, nil
	return same && fmt.Sprint(x) == fmt.Sprint(y)
}

// frames writes sections 1, 2 (empty) and 9.
func frames(t testing.TB, records []frameRecord) []byte {
	t.Helper()
	var b bytes.Buffer
	w := newFrameWriter(&b, frameTestHeader)
	w.section(1)
	for i := range records {
		records[i].write(w)
	}
	w.section(2)
	w.section(9)
	w.record()
	w.u8(7)
	n, err := w.close()
	if err != nil || n != int64(b.Len()) {
		t.Fatalf("close: %d bytes of %d, %v", n, b.Len(), err)
	}
	return b.Bytes()
}

// readFrames reads all sections, whatever they hold, and returns what was in section 1.
func readFrames(r io.Reader) ([]frameRecord, error) {
	f, err := newFrameReader(r)
	if err != nil {
		return nil, err
	}
	if f.header != frameTestHeader {
		return nil, fmt.Errorf("header %+v", f.header)
	}
	var out []frameRecord
	seen := ""
	for {
		n, ok := f.section()
		if !ok {
			break
		}
		seen += fmt.Sprint(n, " ")
		for f.more() {
			if n == 1 {
				out = append(out, readFrameRecord(f))
			} else {
				f.u8()
			}
		}
	}
	if f.err() == nil && seen != "1 2 9 " {
		return nil, fmt.Errorf("sections %s", seen)
	}
	return out, f.err()
}

func TestFramesRoundTrip(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(testSeed(t), 0))
	for _, n := range []int{0, 1, 3000} {
		records := make([]frameRecord, n)
		for i := range records {
			records[i] = randomFrameRecord(rnd, true)
		}
		data := frames(t, records)
		for _, r := range []io.Reader{bytes.NewReader(data), iotest.OneByteReader(bytes.NewReader(data))} {
			got, err := readFrames(r)
			if err != nil || len(got) != n {
				t.Fatalf("%d records of %d: %v", len(got), n, err)
			}
			for i := range got {
				if !got[i].equal(&records[i]) {
					t.Fatalf("record %d: %+v, want %+v", i, got[i], records[i])
				}
			}
			if n == 3000 {
				break // byte by byte takes long here
			}
		}
		if !bytes.Equal(frames(t, records), data) {
			t.Error("the same records give other bytes")
		}
	}
}

func TestFramesBlockEdges(t *testing.T) {
	t.Parallel()
	// Fields that end just before, at and behind the edge of a block.
	for shift := -20; shift <= 20; shift++ {
		pad := frameRecord{data: make([]byte, frameBlock-90+shift)}
		in := []frameRecord{pad, {u64: 1<<64 - 1, uv: 1<<64 - 1, v: -1 << 63, data: []byte("data"), text: "text"}, {text: strings.Repeat("x", frameBlock)}}
		got, err := readFrames(bytes.NewReader(frames(t, in)))
		if err != nil || len(got) != 3 || !got[1].equal(&in[1]) || !got[2].equal(&in[2]) {
			t.Fatalf("shift %d: %v", shift, err)
		}
	}
}

func TestFramesGolden(t *testing.T) {
	t.Parallel()
	rec := frameRecord{
		b: true, u8: 2, u16: 3, u32: 4, u64: 5, uv: 600, v: -7, id: MakeID(1, 2, 3, 4), hash: [16]byte{9}, data: []byte("bytes"), text: "text",
	}
	golden(t, "frames.golden", fmt.Appendf(nil, "%x\n", frames(t, []frameRecord{rec})))
}

// TestFramesDamage: no byte may be flipped, lost, added or moved without an error.
func TestFramesDamage(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(testSeed(t), 0))
	data := frames(t, []frameRecord{randomFrameRecord(rnd, false), randomFrameRecord(rnd, false)})
	for i := range data {
		for _, bit := range []byte{1, 0x80} {
			bad := bytes.Clone(data)
			bad[i] ^= bit
			if _, err := readFrames(bytes.NewReader(bad)); !errors.Is(err, ErrFormat) {
				t.Fatalf("byte %d of %d changed: %v, want ErrFormat", i, len(data), err)
			}
		}
		if _, err := readFrames(bytes.NewReader(data[:i])); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "it ends after") {
			t.Fatalf("cut at %d: %v", i, err)
		}
	}
	if _, err := readFrames(bytes.NewReader(append(bytes.Clone(data), 0))); err == nil || !strings.Contains(err.Error(), "behind the trailer") {
		t.Errorf("a byte too many: %v", err)
	}
	other := bytes.Clone(data)
	other[len(frameMagic)] = 2
	if _, err := readFrames(bytes.NewReader(other)); err == nil || !strings.Contains(err.Error(), "format 2, this build reads 1") {
		t.Errorf("another format: %v", err)
	}
	broken := errors.New("disk is gone")
	_, err := readFrames(io.MultiReader(bytes.NewReader(data[:100]), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || errors.Is(err, ErrFormat) {
		t.Errorf("reader failed: %v, want its error and not ErrFormat", err)
	}
}

func TestFramesConsumerErrors(t *testing.T) {
	t.Parallel()
	data := frames(t, []frameRecord{{u16: 1, data: make([]byte, 1000)}})
	open := func() *frameReader {
		f, err := newFrameReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if n, ok := f.section(); n != 1 || !ok || !f.more() {
			t.Fatal(f.err())
		}
		return f
	}
	for _, c := range []struct {
		name string
		f    func(f *frameReader)
		want string
	}{
		{"own complaint", func(f *frameReader) { f.u8(); f.fail("no such queue %d", 5) }, "section 1, byte 76: no such queue 5"},
		{"field too long", func(f *frameReader) {
			f.fixed(make([]byte, 1+1+2+4+8+1+1+16+16))
			f.bytes(999)
		}, "field of 1000 bytes, want at most 999"},
		{"read past the end", func(f *frameReader) { f.fixed(make([]byte, 5000)) }, "ends within a record"},
		{"left unread", func(f *frameReader) { f.section() }, "not read to its end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := open()
			c.f(f)
			if err := f.err(); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want ErrFormat with %q", err, c.want)
			}
			first := f.err()
			if f.more() || f.u8() != 0 || f.u64() != 0 || f.uvarint() != 0 || f.bytes(9) != nil || !f.id().IsZero() || f.hash() != [16]byte{} {
				t.Error("something was read after the error")
			}
			if _, ok := f.section(); ok || !errors.Is(f.err(), first) {
				t.Error("the first error did not stick")
			}
		})
	}
}

type failingWriter struct {
	left int
	err  error
}

func (w *failingWriter) Write(b []byte) (int, error) {
	if w.left -= len(b); w.left < 0 {
		return 0, w.err
	}
	return len(b), nil
}

func TestFramesWriteError(t *testing.T) {
	t.Parallel()
	full := errors.New("disk is full")
	w := newFrameWriter(&failingWriter{100_000, full}, frameTestHeader)
	w.section(1)
	for range 10 {
		w.record()
		w.bytes(make([]byte, 50_000))
	}
	if !errors.Is(w.err(), full) {
		t.Errorf("err %v before close", w.err())
	}
	if _, err := w.close(); !errors.Is(err, full) {
		t.Errorf("close: %v", err)
	}
}

// TestFramesAllocation: a claim of many bytes takes no more memory than the bytes that really come.
func TestFramesAllocation(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := newFrameWriter(&b, frameTestHeader)
	w.section(1)
	w.record()
	w.uvarint(1 << 30)
	w.raw(make([]byte, 1000))
	if _, err := w.close(); err != nil {
		t.Fatal(err)
	}
	f, err := newFrameReader(&b)
	if err != nil {
		t.Fatal(err)
	}
	f.section()
	f.more()
	if got := f.bytes(1 << 31); got != nil || !errors.Is(f.err(), ErrFormat) {
		t.Errorf("%d bytes, %v", len(got), f.err())
	}
	if cap(f.long) > 1<<16 {
		t.Errorf("%d bytes allocated for 1000", cap(f.long))
	}
}

func FuzzFrameReader(f *testing.F) {
	f.Add(frames(f, nil))
	f.Add(frames(f, []frameRecord{{data: []byte("data"), text: "text"}, {u64: 1}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := readFrames(bytes.NewReader(data))
		if err != nil {
			return
		}
		// Section 9 is read as single bytes: only what this test writes can be compared.
		if again := frames(t, got); len(again) == len(data) && !bytes.Equal(again, data) {
			t.Fatal("not canonical")
		}
	})
}

func BenchmarkFrames(b *testing.B) {
	rec := frameRecord{data: make([]byte, 256)}
	records := make([]frameRecord, 1000)
	for i := range records {
		records[i] = rec
	}
	data := frames(b, records)
	b.Run("write", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			w := newFrameWriter(io.Discard, frameTestHeader)
			w.section(1)
			for i := range records {
				records[i].write(w)
			}
			if _, err := w.close(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			f, err := newFrameReader(bytes.NewReader(data))
			if err != nil {
				b.Fatal(err)
			}
			f.section()
			for f.more() {
				_, _, _, _, _, _, _, _, _ = f.bool(), f.u8(), f.u16(), f.u32(), f.u64(), f.uvarint(), f.varint(), f.id(), f.hash()
				f.bytes(1000)
				f.bytes(1000)
			}
			if f.err() != nil {
				b.Fatal(f.err())
			}
		}
	})
}
