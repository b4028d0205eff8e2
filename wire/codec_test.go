package wire

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

var seed = flag.Uint64("seed", 0, "seed of the random tests; 0 draws one")

func newRand(t *testing.T) *rand.Rand {
	t.Helper()
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", s)
	return rand.New(rand.NewPCG(s, 1))
}

// allTypes is Types in order.
func allTypes() []Type {
	ts := Types()
	slices.Sort(ts)
	return ts
}

// fill gives v a random value: zeros, extremes and ordinary ones, and every length from nothing.
func fill(r *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int32, reflect.Int64:
		bits := v.Type().Bits()
		switch r.IntN(6) {
		case 0:
			v.SetInt(0)
		case 1:
			v.SetInt(-1 << (bits - 1))
		case 2:
			v.SetInt(1<<(bits-1) - 1)
		default:
			n := int64(r.Uint64() >> r.IntN(64))
			if bits == 32 {
				n = int64(int32(n))
			}
			v.SetInt(n)
		}
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(0)
		if r.IntN(4) > 0 {
			v.SetUint(r.Uint64() >> (64 - v.Type().Bits()) >> r.IntN(v.Type().Bits()))
		}
	case reflect.String:
		v.SetString(randomText(r))
	case reflect.Pointer:
		if r.IntN(2) == 0 {
			v.SetZero()
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		fill(r, v.Elem())
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			b := make([]byte, []int{0, 1, 23, 24, 255, 256, 300}[r.IntN(7)])
			for i := range b {
				b[i] = byte(r.Uint32())
			}
			v.SetBytes(b)
			return
		}
		n := []int{0, 0, 1, 2, 3, 25}[r.IntN(6)]
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(r, v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range r.IntN(5) {
			v.SetMapIndex(reflect.ValueOf(randomText(r)), reflect.ValueOf(int64(r.Uint32())))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(r, v.Field(i))
			}
		}
	default:
		panic("no filler for " + v.Kind().String())
	}
}

func randomText(r *rand.Rand) string {
	switch r.IntN(5) {
	case 0:
		return ""
	case 1:
		return strings.Repeat("ü€😀", r.IntN(40))
	case 2:
		return "\x00 and \u007f"
	}
	return strings.Repeat("q", r.IntN(300))
}

func random(r *rand.Rand, t Type) any {
	v := NewBody(t)
	fill(r, reflect.ValueOf(v).Elem())
	return v
}

// emptied makes nil and empty slices one, which the wire does not tell apart.
func emptied(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			emptied(v.Elem())
		}
	case reflect.Slice:
		if v.Len() == 0 && v.CanSet() {
			v.SetZero()
		}
		for i := range v.Len() {
			emptied(v.Index(i))
		}
	case reflect.Map:
		if v.Len() == 0 && v.CanSet() {
			v.SetZero()
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				emptied(v.Field(i))
			}
		}
	}
}

func equalValues(a, b any) bool {
	emptied(reflect.ValueOf(a))
	emptied(reflect.ValueOf(b))
	return reflect.DeepEqual(a, b)
}

// Every type, random values: the frame comes back as it was, hand-written bytes are the library's, and both decoders
// read the same value from them.
func TestCodecAgainstLibrary(t *testing.T) {
	r := newRand(t)
	var memory Strings
	for _, typ := range allTypes() {
		reused := NewBody(typ)
		for range 50 {
			v := random(r, typ)
			tag := r.Uint64() >> r.IntN(64)
			msg := AppendFrame([]byte("before"), typ, tag, v)[6:]
			f, rest, err := Next(msg)
			if err != nil || len(rest) != 0 || f.Type != typ || f.Tag != tag {
				t.Fatalf("type %d: Next(%x) = %d %d rest %d, %v", typ, msg, f.Type, f.Tag, len(rest), err)
			}
			var lib bytes.Buffer
			if err := libEnc.MarshalToBuffer(v, &lib); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(lib.Bytes(), f.Body) {
				t.Fatalf("type %d %+v\n hand %x\n lib  %x", typ, v, f.Body, lib.Bytes())
			}
			if err := f.DecodeWith(reused, &memory); err != nil {
				t.Fatalf("type %d %+v: %v\n%x", typ, v, err, f.Body)
			}
			fresh := NewBody(typ)
			if err := libDec.Unmarshal(f.Body, fresh); err != nil {
				t.Fatal(err)
			}
			if !equalValues(reused, v) || !equalValues(fresh, v) {
				t.Fatalf("type %d\n sent    %+v\n decoded %+v\n library %+v", typ, v, reused, fresh)
			}
		}
	}
}
