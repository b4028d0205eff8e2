package wire

import (
	"math"
	"unicode/utf8"
	"unsafe"
)

// Strings gives decoded strings their memory: short ones share a chunk, so that most cost no allocation of their own.
// The zero value is ready; keep one per reader goroutine and pass it to DecodeWith. A string keeps its chunk (1 KiB)
// alive and is otherwise an ordinary one: it aliases no input and never changes.
type Strings struct {
	chunk []byte
}

const (
	chunkBytes    = 1024
	chunkedString = 128 // longer ones get memory of their own
)

func (s *Strings) add(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if len(b) > chunkedString {
		return string(b)
	}
	if cap(s.chunk)-len(s.chunk) < len(b) {
		s.chunk = make([]byte, 0, chunkBytes)
	}
	n := len(s.chunk)
	s.chunk = append(s.chunk, b...)
	return unsafe.String(&s.chunk[n], len(b))
}

// View is s as bytes, without a copy. They must not be written.
func View(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// dec reads the hand-decoded bodies. The first error sticks: from then on every read gives a zero value at once.
type dec struct {
	b       []byte
	i       int
	key     int // the map key whose value is being read, for messages
	err     *FormatError
	strings *Strings // nil: one allocation a string
}

func (d *dec) fail(at int, format string, args ...any) {
	if d.err == nil {
		d.err = badf(at, format, args...)
	}
	d.i = len(d.b)
}

// want fails with what was met instead of what the key's value should be.
func (d *dec) want(what string) {
	if d.err != nil {
		return
	}
	if d.i >= len(d.b) {
		d.fail(len(d.b), "key %d: the data ends where %s should be", d.key, what)
		return
	}
	d.fail(d.i, "key %d: %s expected, not %s", d.key, what, kindName(d.b[d.i]))
}

// arg reads the head of an item of the given major type and gives its argument.
func (d *dec) arg(major byte, what string) uint64 {
	if d.i < len(d.b) {
		if c := d.b[d.i]; c&0xe0 == major {
			if c&0x1f < 24 {
				d.i++
				return uint64(c & 0x1f)
			}
			v, n := argument(d.b, d.i)
			if n > 0 {
				d.i += n
				return v
			}
			err := uintError(d.b, d.i, n, what)
			d.fail(err.Offset, "key %d: %s", d.key, err.What)
			return 0
		}
	}
	d.want(what)
	return 0
}

// open reads the head of a map.
func (d *dec) open(most int) (pairs int) {
	n := d.arg(majorMap, "a map")
	if n > uint64(most) {
		d.fail(d.i, "key %d: a map of %d pairs: at most %d keys are known here", d.key, n, most)
		return 0
	}
	return int(n)
}

// opt reports whether the next pair's key is k, and takes it.
func (d *dec) opt(pairs *int, k byte) bool {
	if *pairs > 0 && d.i < len(d.b) && d.b[d.i] == k {
		d.i++
		*pairs--
		d.key = int(k)
		return true
	}
	return false
}

// req is opt for a key that must be there.
func (d *dec) req(pairs *int, k byte) bool {
	if d.opt(pairs, k) {
		return true
	}
	if d.err == nil {
		if *pairs > 0 && d.i < len(d.b) {
			d.fail(d.i, "key %d expected (required; keys ascend), found 0x%02x", k, d.b[d.i])
		} else {
			d.fail(d.i, "key %d is missing: it is required", k)
		}
	}
	return false
}

// close ends a map: no pair may be left.
func (d *dec) close(pairs int) {
	if pairs > 0 && d.err == nil {
		if d.i >= len(d.b) {
			d.fail(d.i, "the data ends within a map")
			return
		}
		if c := d.b[d.i]; c&0xe0 != majorUint {
			d.fail(d.i, "keys are unsigned integers, not %s", kindName(c))
			return
		}
		v, _ := argument(d.b, d.i)
		d.fail(d.i, "key %d is unknown, repeated or out of order: known keys come once, ascending", v)
	}
}

// omitted fails where an optional key carries its default, which is written by leaving the key out.
func (d *dec) omitted(at int) {
	d.fail(at, "key %d carries its default: leave an optional key out instead", d.key)
}

func (d *dec) array(most int) int {
	at := d.i
	n := d.arg(majorArray, "an array")
	if n > uint64(most) {
		d.fail(at, "key %d: an array of %d: at most %d", d.key, n, most)
		return 0
	}
	if n > uint64(len(d.b)-d.i) {
		d.fail(at, "key %d: an array of %d, more than the %d bytes left can hold", d.key, n, len(d.b)-d.i)
		return 0
	}
	return int(n)
}

// optArray is array for an optional key: not empty.
func (d *dec) optArray(most int) int {
	at := d.i
	n := d.array(most)
	if n == 0 {
		d.omitted(at)
	}
	return n
}

func (d *dec) span(major byte, what string) []byte {
	at := d.i
	n := d.arg(major, what)
	if n > uint64(len(d.b)-d.i) {
		d.fail(at, "key %d: %s of %d bytes, of which only %d are there", d.key, what, n, len(d.b)-d.i)
		return nil
	}
	s := d.b[d.i : d.i+int(n) : d.i+int(n)]
	d.i += int(n)
	return s
}

func (d *dec) bytes() Bytes { return d.span(majorBytes, "a byte string") }

func (d *dec) optBytes() Bytes {
	at := d.i
	s := d.bytes()
	if len(s) == 0 {
		d.omitted(at)
	}
	return s
}

func (d *dec) text() []byte {
	at := d.i
	s := d.span(majorText, "a text string")
	if !utf8.Valid(s) {
		d.fail(at, "key %d: a text string that is not valid UTF-8", d.key)
		return nil
	}
	return s
}

// string reads a text string, into old's memory where that is equal.
func (d *dec) string(old string) string {
	s := d.text()
	if string(s) == old {
		return old
	}
	return string(s)
}

func (d *dec) optString(old string) string {
	at := d.i
	s := d.string(old)
	if s == "" {
		d.omitted(at)
	}
	return s
}

// id reads a text string that differs every time.
func (d *dec) id() string {
	s := d.text()
	if d.strings == nil {
		return string(s)
	}
	return d.strings.add(s)
}

func (d *dec) optID() string {
	at := d.i
	s := d.id()
	if s == "" {
		d.omitted(at)
	}
	return s
}

func (d *dec) uint(most uint64) uint64 {
	at := d.i
	v := d.arg(majorUint, "an unsigned integer")
	if v > most {
		d.fail(at, "key %d: %d is out of range: 0 to %d", d.key, v, most)
		return 0
	}
	return v
}

// int reads an integer that fits bits bits.
func (d *dec) int(bits uint) int64 {
	at := d.i
	if at < len(d.b) && d.b[at]&0xe0 == majorNegInt {
		v := d.arg(majorNegInt, "an integer")
		if v>>(bits-1) != 0 {
			d.fail(at, "key %d: −1−%d does not fit %d bits", d.key, v, bits)
			return 0
		}
		return -1 - int64(v)
	}
	v := d.arg(majorUint, "an integer")
	if v>>(bits-1) != 0 {
		d.fail(at, "key %d: %d does not fit a signed integer of %d bits", d.key, v, bits)
		return 0
	}
	return int64(v)
}

func (d *dec) optInt(bits uint) int64 {
	at := d.i
	v := d.int(bits)
	if v == 0 {
		d.omitted(at)
	}
	return v
}

// optUint reads the value of an optional key, which is not 0.
func (d *dec) optUint() uint64 {
	at := d.i
	v := d.uint(anyU64)
	if v == 0 {
		d.omitted(at)
	}
	return v
}

// optBool reads the value of an optional boolean key, which can only be true.
func (d *dec) optBool() bool {
	if d.i < len(d.b) {
		switch d.b[d.i] {
		case cborTrue:
			d.i++
			return true
		case cborFalse:
			d.omitted(d.i)
			return false
		}
	}
	d.want("true")
	return false
}

// end checks that the body is used up.
func (d *dec) end() error {
	if d.err != nil {
		return d.err
	}
	if d.i != len(d.b) {
		return badf(d.i, "%d bytes follow the end of the body", len(d.b)-d.i)
	}
	return nil
}

const (
	bits32 = 32
	bits64 = 64
	anyU64 = math.MaxUint64
)
