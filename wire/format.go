package wire

import (
	"fmt"
	"math"
)

// FormatError says where a WebSocket message or a frame's body is not what the protocol asks for. The sender is at
// fault: a server answers with an invalid_argument fault of tag 0 and closes the connection.
type FormatError struct {
	Offset int    // in bytes, from the start of what was decoded
	What   string // what was wrong and what would be right
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("bad frame at byte %d: %s", e.Offset, e.What)
}

func badf(offset int, format string, args ...any) *FormatError {
	return &FormatError{Offset: offset, What: fmt.Sprintf(format, args...)}
}

// CBOR major types, as the initial byte has them (RFC 8949 section 3.1).
const (
	majorUint   = 0x00
	majorNegInt = 0x20
	majorBytes  = 0x40
	majorText   = 0x60
	majorArray  = 0x80
	majorMap    = 0xa0
	majorTag    = 0xc0
	majorSimple = 0xe0

	cborFalse = 0xf4
	cborTrue  = 0xf5
)

// Bounds of what a body may hold, whatever its type.
const (
	maxDepth = 8         // of arrays and maps in a body, itself counted
	maxItems = MaxTokens // elements of one array
	maxPairs = 64        // pairs of one map
)

func kindName(initial byte) string {
	switch initial & 0xe0 {
	case majorUint:
		return "an unsigned integer"
	case majorNegInt:
		return "a negative integer"
	case majorBytes:
		return "a byte string"
	case majorText:
		return "a text string"
	case majorArray:
		return "an array"
	case majorMap:
		return "a map"
	case majorTag:
		return "a tag"
	}
	switch initial {
	case cborFalse, cborTrue:
		return "a boolean"
	case 0xf6:
		return "null"
	case 0xf7:
		return "undefined"
	case 0xf9, 0xfa, 0xfb:
		return "a float"
	}
	return "a simple value"
}

// Raw is one frame of a WebSocket message, its body still encoded. Body aliases the message.
type Raw struct {
	Type Type
	Tag  uint64
	Body []byte
}

// Next splits the first frame off a WebSocket message: the array of three [type, tag, body], of definite length, its
// integers in their shortest form, its body a map. The body's own content is looked at only as far as is needed to find
// its end (bounded depth and counts, no indefinite lengths, no tags); Decode checks the rest. Call it until rest is
// empty; an empty message is an error, since it holds no frame. Errors are *FormatError.
func Next(msg []byte) (f Raw, rest []byte, err error) {
	if len(msg) == 0 {
		return Raw{}, nil, badf(0, "an empty message: one or more frames [type, tag, body] expected")
	}
	if msg[0] != majorArray|3 {
		return Raw{}, nil, badf(0, "a frame is an array of 3 (initial byte 0x83), not %s (0x%02x)", kindName(msg[0]), msg[0])
	}
	i := 1
	t, n := shortUint(msg, i)
	if n <= 0 {
		return Raw{}, nil, uintError(msg, i, n, "the frame's type")
	}
	if t > math.MaxUint16 {
		return Raw{}, nil, badf(i, "frame type %d: types are 0 to 65535", t)
	}
	i += n
	tag, n := shortUint(msg, i)
	if n <= 0 {
		return Raw{}, nil, uintError(msg, i, n, "the frame's tag")
	}
	i += n
	if i >= len(msg) {
		return Raw{}, nil, badf(i, "the message ends where the frame's body should begin")
	}
	if msg[i]&0xe0 != majorMap {
		return Raw{}, nil, badf(i, "a frame's body is a map, not %s", kindName(msg[i]))
	}
	end, ferr := skip(msg, i)
	if ferr != nil {
		return Raw{}, nil, ferr
	}
	return Raw{Type: Type(t), Tag: tag, Body: msg[i:end:end]}, msg[end:], nil
}

// shortUint reads an unsigned integer in its shortest form at b[i:] and tells how many bytes it took: 0 when it is no
// such integer, −1 when b ends in it, −2 when a shorter form exists.
func shortUint(b []byte, i int) (v uint64, n int) {
	if i >= len(b) {
		return 0, -1
	}
	if b[i] < 24 {
		return uint64(b[i]), 1
	}
	if b[i]&0xe0 != majorUint {
		return 0, 0
	}
	return argument(b, i)
}

// argument reads the argument of the initial byte at b[i], with shortUint's conventions; n counts the initial byte.
func argument(b []byte, i int) (v uint64, n int) {
	a := b[i] & 0x1f
	rest := b[i+1:]
	switch {
	case a < 24:
		return uint64(a), 1
	case a == 24:
		if len(rest) < 1 {
			return 0, -1
		}
		if v = uint64(rest[0]); v < 24 {
			return 0, -2
		}
		return v, 2
	case a == 25:
		if len(rest) < 2 {
			return 0, -1
		}
		if v = uint64(rest[0])<<8 | uint64(rest[1]); v <= math.MaxUint8 {
			return 0, -2
		}
		return v, 3
	case a == 26:
		if len(rest) < 4 {
			return 0, -1
		}
		v = uint64(rest[0])<<24 | uint64(rest[1])<<16 | uint64(rest[2])<<8 | uint64(rest[3])
		if v <= math.MaxUint16 {
			return 0, -2
		}
		return v, 5
	case a == 27:
		if len(rest) < 8 {
			return 0, -1
		}
		v = uint64(rest[0])<<56 | uint64(rest[1])<<48 | uint64(rest[2])<<40 | uint64(rest[3])<<32 |
			uint64(rest[4])<<24 | uint64(rest[5])<<16 | uint64(rest[6])<<8 | uint64(rest[7])
		if v <= math.MaxUint32 {
			return 0, -2
		}
		return v, 9
	}
	return 0, 0
}

// uintError turns shortUint's or argument's n ≤ 0 into words.
func uintError(b []byte, i, n int, what string) *FormatError {
	switch {
	case n == -1:
		return badf(len(b), "the data ends within %s", what)
	case n == -2:
		return badf(i, "%s is not in the shortest form", what)
	case b[i]&0x1f == 31:
		return badf(i, "%s of indefinite length: lengths must be definite", kindName(b[i]))
	case b[i]&0x1f > 27:
		return badf(i, "0x%02x is no valid initial byte", b[i])
	}
	return badf(i, "%s must be an unsigned integer, not %s", what, kindName(b[i]))
}

// skip finds the end of the data item at b[i:]. It refuses what can be nowhere in a body: indefinite lengths, tags,
// floats, null and other simple values but the booleans, and depth and counts beyond the bounds. It allocates nothing.
func skip(b []byte, i int) (end int, err *FormatError) {
	var left [maxDepth]int // items still to come on each level
	depth := 0
	for {
		if i >= len(b) {
			return 0, badf(len(b), "the data ends within an item")
		}
		c := b[i]
		v, n := uint64(c&0x1f), 1
		if v >= 24 {
			if c&0xe0 == majorSimple {
				return 0, badf(i, "%s: only integers, strings, booleans, arrays and maps occur in frames", kindName(c))
			}
			if v, n = argument(b, i); n <= 0 {
				return 0, uintError(b, i, n, kindName(c))
			}
		}
		start := i
		i += n
		switch c & 0xe0 {
		case majorUint, majorNegInt:
		case majorBytes, majorText:
			if v > uint64(len(b)-i) {
				return 0, badf(start, "%s of %d bytes, of which only %d are there", kindName(c), v, len(b)-i)
			}
			i += int(v)
		case majorArray, majorMap:
			limit := uint64(maxItems)
			if c&0xe0 == majorMap {
				limit = maxPairs
			}
			if v > limit {
				return 0, badf(start, "%s of %d: at most %d here", kindName(c), v, limit)
			}
			if c&0xe0 == majorMap {
				v *= 2
			}
			if v > uint64(len(b)-i) {
				return 0, badf(start, "%s that needs %d bytes or more, of which only %d are there", kindName(c), v, len(b)-i)
			}
			if depth == maxDepth {
				return 0, badf(start, "nested deeper than %d", maxDepth)
			}
			if v > 0 {
				left[depth] = int(v)
				depth++
				continue
			}
		case majorTag:
			return 0, badf(start, "a tag: tags do not occur in frames")
		default:
			if c != cborFalse && c != cborTrue {
				return 0, badf(start, "%s: only integers, strings, booleans, arrays and maps occur in frames", kindName(c))
			}
		}
		for depth > 0 {
			if left[depth-1]--; left[depth-1] > 0 {
				break
			}
			depth--
		}
		if depth == 0 {
			return i, nil
		}
	}
}
