package wire

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Messages that are not whole frames, each with what the error must say.
func TestNextRefuses(t *testing.T) {
	for _, c := range []struct{ name, msg, says string }{
		{"empty", "", "empty message"},
		{"map instead of array", "a10102", "array of 3"},
		{"array of two", "820203", "array of 3"},
		{"indefinite array", "9f0703a0ff", "array of 3"},
		{"tagged", "c1830703a0", "array of 3"},
		{"type as text", "8361 61 01 a0", "the frame's type must be an unsigned integer, not a text string"},
		{"type negative", "832001a0", "not a negative integer"},
		{"type float", "83f9000001a0", "not a float"},
		{"type not shortest", "83180701a0", "not in the shortest form"},
		{"type above 65535", "831a0001000001a0", "types are 0 to 65535"},
		{"tag missing", "8307", "ends within the frame's tag"},
		{"tag cut", "83071a0001", "ends within the frame's tag"},
		{"tag not shortest", "83071b00000000ffffffffa0", "not in the shortest form"},
		{"tag reserved argument", "83071c", "no valid initial byte"},
		{"tag indefinite", "83071f", "lengths must be definite"},
		{"body missing", "830701", "where the frame's body should begin"},
		{"body an array", "83070180", "a map, not an array"},
		{"body null", "830701f6", "a map, not null"},
		{"body indefinite", "830701bfff", "lengths must be definite"},
		{"body cut", "830701a101", "needs 2 bytes or more, of which only 1 are there"},
		{"body cut between items", "830701a201626161", "ends within an item"},
		{"indefinite text inside", "830701a1017f616fff", "lengths must be definite"},
		{"text longer than the rest", "830701a1017a7fffffff6f", "of which only 1 are there"},
		{"array longer than the rest", "830701a10199270f00", "needs 9999 bytes or more, of which only 1 are there"},
		{"array above the bound", "830701a1019a7fffffff00", "at most 10000 here"},
		{"map above the bound", "830701b841", "at most 64 here"},
		{"tag inside", "830701a101c100", "tags do not occur"},
		{"float inside", "830701a101f93c00", "a float"},
		{"null inside", "830701a101f6", "null"},
		{"undefined inside", "830701a101f7", "undefined"},
		{"simple value inside", "830701a101f820", "a simple value"},
		{"break inside", "830701a101ff", "a simple value"},
		{"too deep", "830701a101" + strings.Repeat("81", 8) + "00", "nested deeper"},
		{"deep and empty", "830701a101" + strings.Repeat("81", 7) + "80", "nested deeper"},
		{"a byte that begins no frame", "830701a0 00", "array of 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			msg := unhex(t, c.msg)
			_, rest, err := Next(msg)
			if err == nil && len(rest) > 0 {
				_, _, err = Next(rest)
			}
			var f *FormatError
			if !errors.As(err, &f) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("Next(%x) = %v; want a FormatError with %q", msg, err, c.says)
			}
			if f.Offset < 0 || f.Offset > len(msg) {
				t.Errorf("offset %d of %d bytes", f.Offset, len(msg))
			}
		})
	}
}

// Bodies that are well-formed CBOR but not what the type holds.
func TestDecodeRefuses(t *testing.T) {
	at := " a2 01 01 02 02"
	for _, c := range []struct {
		name string
		typ  Type
		body string
		says string
	}{
		{"hot: required key missing", TypeAck, "a0", "key 1 is missing"},
		{"hot: another first key", TypeAck, "a1 02 a10140", "key 1 expected"},
		{"hot: unknown key", TypeAck, "a2 01 6161 09 00", "key 9 is unknown, repeated or out of order"},
		{"hot: repeated key", TypeAck, "a2 01 6161 01 6161", "key 1 is unknown, repeated or out of order"},
		{"hot: keys descending", TypeNack, "a3 01 6161 04 f5 02 6162", "key 2 is unknown, repeated or out of order"},
		{"hot: more keys than there are", TypeRelease, "a2 01 6161 02 00", "at most 1 keys"},
		{"hot: text key", TypeOK, "a2 01" + at + " 6161 00", "keys are unsigned integers, not a text string"},
		{"hot: bytes for text", TypeAck, "a1 01 4161", "key 1: a text string expected, not a byte string"},
		{"hot: text for bytes", TypeEnqueue, "a3 01 6161 02 81 a1 01 6161 03 a2 01 00 02 00", "a byte string expected, not a text string"},
		{"hot: float for integer", TypeOK, "a1 01 a2 01 f93c00 02 00", "an unsigned integer expected, not a float"},
		{"hot: negative index", TypeOK, "a1 01 a2 01 20 02 00", "an unsigned integer expected, not a negative integer"},
		{"hot: int64 too large", TypeOK, "a1 01 a2 01 00 02 1bffffffffffffffff", "does not fit"},
		{"hot: int64 too small", TypeOK, "a1 01 a2 01 00 02 3b8000000000000000", "does not fit"},
		{"hot: uint32 too large", TypeStarted, "a2 01 1b0000000100000000 02 80", "out of range"},
		{"hot: priority too large for a byte", TypeEnqueue, "a3 01 6161 02 81 a2 01 40 06 190100 03 a2 01 00 02 00", "out of range"},
		{"hot: number not shortest", TypeOK, "a1 01 a2 01 1800 02 00", "not in the shortest form"},
		{"hot: length not shortest", TypeAck, "a1 01 7801 61", "not in the shortest form"},
		{"hot: key not shortest", TypeAck, "a1 1801 6161", "key 1 expected"},
		{"hot: boolean false is left out", TypeOK, "a2 01" + at + " 02 f4", "leave an optional key out"},
		{"hot: number for boolean", TypeOK, "a2 01" + at + " 02 01", "true expected"},
		{"hot: empty optional text", TypeNack, "a2 01 6161 02 60", "leave an optional key out"},
		{"hot: zero optional number", TypeExtend, "a2 01 6161 02 00", "leave an optional key out"},
		{"hot: empty optional array", TypeAck, "a2 01 6161 03 80", "leave an optional key out"},
		{"hot: empty optional bytes", TypeEnqueue, "a3 01 6161 02 81 a2 01 40 07 40 03 a2 01 00 02 00", "leave an optional key out"},
		{"hot: bad UTF-8", TypeAck, "a1 01 62c328", "not valid UTF-8"},
		{"hot: surrogate", TypeAck, "a1 01 63eda080", "not valid UTF-8"},
		{"hot: header of three", TypeEnqueue, "a3 01 6161 02 81 a2 01 40 05 81 83 6161 6161 6161 03 a2 01 00 02 00", "an array of 3: at most 2"},
		{"hot: header of one", TypeEnqueue, "a3 01 6161 02 81 a2 01 40 05 81 81 6161 03 a2 01 00 02 00", "a header is an array of 2"},
		{"hot: body missing", TypeEnqueue, "a3 01 6161 02 81 a0 03 a2 01 00 02 00", "key 1 is missing"},
		{"hot: trailing bytes", TypeAck, "a1 01 6161 00", "follow the end"},
		{"hot: cut", TypeAck, "a1 01 6261", "only 1 are there"},
		{"hot: batch above the bound", TypeEnqueue, "a3 01 6161 02 9903e9", "at most 1000"},
		{"hot: null pointer", TypeNack, "a2 01 6161 03 f6", "expected, not null"},
		{"cold: required key missing", TypeCredit, "a1 01 01", "not the one encoding"},
		{"cold: unknown key", TypeCredit, "a3 01 01 02 01 03 00", "unknown field"},
		{"cold: repeated key", TypeCredit, "a3 01 01 01 01 02 01", "duplicate"},
		{"cold: keys descending", TypeCredit, "a2 02 01 01 01", "not the one encoding"},
		{"cold: text key", TypeCredit, "a3 01 01 02 01 6161 00", "unknown field"},
		{"cold: float for integer", TypeCredit, "a2 01 01 02 f93c00", "a float"},
		{"cold: text for integer", TypeCredit, "a2 01 01 02 6161", "cannot unmarshal"},
		{"cold: bytes for text", TypeUnsubscribe, "a1 01 4161", "cannot unmarshal"},
		{"cold: bytes for text in a list", TypeLeaseGone, "a2 01 01 02 81 4161", "cannot unmarshal"},
		{"cold: uint32 too large", TypeCredit, "a2 01 1b0000000100000000 02 01", "overflow"},
		{"cold: negative for unsigned", TypeCredit, "a2 01 20 02 01", "cannot unmarshal"},
		{"cold: number not shortest", TypeCredit, "a2 01 1801 02 01", "shortest"},
		{"cold: null", TypeCredit, "a2 01 01 02 f6", "null"},
		{"cold: default of an optional key", TypeOpenSession, "a1 01 60", "not the one encoding"},
		{"cold: array of numbers for bytes", TypeResultPush, "a3 01 a2 01 6161 02 6161 03 a1 01 8101 04 a2 01 00 02 00", "not the one encoding"},
		{"cold: bad UTF-8", TypeOpenSession, "a1 01 62c328", "UTF-8"},
		{"cold: trailing bytes", TypeClusterStatus, "a0 00", "follow the end"},
		{"cold: indefinite", TypeClusterStatus, "bf ff", "definite"},
		{"cold: empty body", TypeClusterStatus, "", "ends within"},
		{"hot: empty body", TypeAck, "", "the data ends"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := Raw{Type: c.typ, Body: unhex(t, c.body)}
			err := f.Decode(NewBody(c.typ))
			var fe *FormatError
			if !errors.As(err, &fe) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("Decode(%x) = %v; want a FormatError with %q", f.Body, err, c.says)
			}
			if fe.Offset < 0 || fe.Offset > len(f.Body) {
				t.Errorf("offset %d of %d bytes", fe.Offset, len(f.Body))
			}
		})
	}
}

// Whatever is cut off the end of a frame, it is refused; whatever is put behind it is the next frame's business.
func TestEveryPrefixIsRefused(t *testing.T) {
	for _, e := range examples() {
		frame := AppendFrame(nil, e.typ, e.tag, e.body)
		for n := range frame {
			if _, _, err := Next(frame[:n]); err == nil {
				t.Fatalf("%s: the first %d of %d bytes pass for a frame", e.name, n, len(frame))
			}
		}
		f, rest, err := Next(append(frame[:len(frame):len(frame)], frame...))
		if err != nil || string(rest) != string(frame) {
			t.Fatalf("%s twice: rest %x, %v", e.name, rest, err)
		}
		for n := range f.Body {
			if err := (Raw{Type: f.Type, Body: f.Body[:n]}).Decode(NewBody(f.Type)); err == nil {
				t.Fatalf("%s: the first %d of %d bytes pass for a body", e.name, n, len(f.Body))
			}
		}
	}
}

func TestDecodeIntoAnotherType(t *testing.T) {
	f := Raw{Type: TypeCredit, Body: []byte{0xa0}}
	for _, dst := range []any{new(ClusterStatus), ClusterStatus{}, nil, 5} {
		if err := f.Decode(dst); err == nil || !strings.Contains(err.Error(), "does not carry") {
			t.Errorf("a credit frame into %T: %v", dst, err)
		}
	}
	if err := (Raw{Type: 9999, Body: []byte{0xa0}}).Decode(new(ClusterStatus)); err == nil {
		t.Error("an unknown type was decoded")
	}
}

func TestEncodeOfAnotherTypePanics(t *testing.T) {
	for _, body := range []any{new(ClusterStatus), ClusterStatus{}, nil} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a credit frame of %T: no panic", body)
				}
			}()
			AppendFrame(nil, TypeCredit, 1, body)
		}()
	}
}

// Nothing of a reused struct's earlier value comes through, and what was decoded before stays as it was.
func TestDecodeReuse(t *testing.T) {
	var v Enqueue
	var memory Strings
	for _, e := range examples() {
		if e.typ != TypeEnqueue {
			continue
		}
		f, _, err := Next(AppendFrame(nil, e.typ, e.tag, e.body))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.DecodeWith(&v, &memory); err != nil {
			t.Fatal(err)
		}
		if !equalValues(&v, e.body) {
			t.Errorf("%s\n got  %+v\n want %+v", e.name, v, e.body)
		}
	}
}

// Strings survive their input; Bytes are the input.
func TestAliasing(t *testing.T) {
	msg := AppendFrame(nil, TypeDelivery, 0, benchDelivery(5, 10))
	f, _, err := Next(msg)
	if err != nil {
		t.Fatal(err)
	}
	var v Delivery
	if err := f.Decode(&v); err != nil {
		t.Fatal(err)
	}
	clear(msg)
	for i, m := range v.Messages {
		if m.ID != benchID || m.Token != benchID+benchID {
			t.Errorf("message %d changed with its input: %q %q", i, m.ID, m.Token)
		}
		if string(m.Body) != strings.Repeat("\x00", 10) {
			t.Errorf("message %d: its body was copied", i)
		}
		if cap(m.Body) != len(m.Body) {
			t.Errorf("message %d: an append to its body would write into the frame", i)
		}
	}
}

// The hot path costs no allocation but, for strings, a chunk now and then.
func TestAllocations(t *testing.T) {
	for _, c := range benchCases() {
		buf := AppendFrame(nil, c.typ, 1, c.body)
		if n := testing.AllocsPerRun(100, func() { buf = AppendFrame(buf[:0], c.typ, 1, c.body) }); n != 0 {
			t.Errorf("%s: encoding allocates %.1f times", c.name, n)
		}
		dst, memory := NewBody(c.typ), new(Strings)
		allowed := 0.0
		if c.typ == TypeDelivery || c.typ == TypeEnqueued || c.typ == TypeAck || c.typ == TypeAckBatch {
			allowed = float64(c.n)*float64(IDBytes+TokenBytes)/(chunkBytes-TokenBytes) + 0.5
		}
		n := testing.AllocsPerRun(100, func() {
			f, _, err := Next(buf)
			if err == nil {
				err = f.DecodeWith(dst, memory)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
		if n > allowed {
			t.Errorf("%s: decoding allocates %.1f times; at most %.1f expected", c.name, n, allowed)
		}
	}
}
