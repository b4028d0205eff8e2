package wire

import (
	"bytes"
	"errors"
	"runtime"
	"slices"
	"testing"
)

// FuzzNext: any message is split into frames that are its bytes, or refused with a FormatError that points into it.
func FuzzNext(f *testing.F) {
	// Short seeds: the fuzzer spends its time on making long ones shorter.
	for _, e := range examples() {
		if frame := AppendFrame(nil, e.typ, e.tag, e.body); len(frame) < 100 {
			f.Add(frame)
		}
	}
	f.Add(AppendFrame(AppendFrame(nil, TypeUnsubscribe, 1, &Unsubscribe{Sub: 1}), TypeClusterStatus, 300, &ClusterStatus{}))
	f.Fuzz(func(t *testing.T, msg []byte) {
		for rest := msg; len(rest) > 0; {
			raw, next, err := Next(rest)
			if err != nil {
				var fe *FormatError
				if !errors.As(err, &fe) || fe.Offset < 0 || fe.Offset > len(rest) || fe.What == "" {
					t.Fatalf("Next(%x): %v", rest, err)
				}
				return
			}
			head := appendHead([]byte{majorArray | 3}, majorUint, uint64(raw.Type))
			head = appendHead(head, majorUint, raw.Tag)
			if got := slices.Concat(head, raw.Body, next); !bytes.Equal(got, rest) {
				t.Fatalf("%x was split into %x", rest, got)
			}
			rest = next
		}
	})
}

// FuzzDecode: a body that is accepted, whatever its type, is the one that its value encodes to, by hand and by the
// library; the library reads the same value; and decoding allocates no more than the input's size allows.
func FuzzDecode(f *testing.F) {
	for _, e := range examples() {
		raw, _, err := Next(AppendFrame(nil, e.typ, e.tag, e.body))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint16(e.typ), raw.Body)
	}
	f.Fuzz(func(t *testing.T, typ uint16, body []byte) {
		v := NewBody(Type(typ))
		if v == nil {
			return
		}
		raw := Raw{Type: Type(typ), Tag: 1, Body: body}
		if err := raw.Decode(v); err != nil {
			var fe *FormatError
			if !errors.As(err, &fe) || fe.Offset < 0 || fe.Offset > len(body) {
				t.Fatalf("type %d: %v", typ, err)
			}
			return
		}
		got, rest, err := Next(AppendFrame(nil, Type(typ), 1, v))
		if err != nil || len(rest) > 0 || !bytes.Equal(got.Body, body) {
			t.Fatalf("type %d: accepted %x, encodes to %x (%v)\n%+v", typ, body, got.Body, err, v)
		}
		var lib bytes.Buffer
		if err := libEnc.MarshalToBuffer(v, &lib); err != nil || !bytes.Equal(lib.Bytes(), body) {
			t.Fatalf("type %d: accepted %x, the library encodes to %x (%v)", typ, body, lib.Bytes(), err)
		}
		again := NewBody(Type(typ))
		if err := libDec.Unmarshal(body, again); err != nil || !equalValues(v, again) {
			t.Fatalf("type %d: %x\n by hand    %+v\n by library %+v (%v)", typ, body, v, again, err)
		}
	})
}

// bytesAllocated is how much f allocates, as little else as possible running.
func bytesAllocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// No short input makes a decoder allocate much: counts are bounded by the bytes that are there, and by the limits.
func TestAllocationIsBoundedByInput(t *testing.T) {
	item := func(n int, b ...byte) []byte { return bytes.Repeat(b, n) }
	for _, c := range []struct {
		name string
		typ  Type
		body []byte
		most uint64
	}{
		{"a batch that claims 1000 messages and holds none", TypeEnqueue, unhex(t, "a3 01 6161 02 9903e8"), 4096},
		{"the smallest 1000 messages", TypeEnqueue, slices.Concat(unhex(t, "a3 01 6161 02 9903e8"), item(1000, 0xa1, 0x01, 0x40), unhex(t, "03 a2 01 00 02 00")), 400_000},
		{"a text that claims 4 GiB", TypeAck, unhex(t, "a1 01 7affffffff 61"), 4096},
		{"bytes that claim 2^63", TypeEnqueue, unhex(t, "a3 01 6161 02 81 a1 01 5b8000000000000000"), 4096},
		{"tokens that claim 10000", TypeStarted, unhex(t, "a2 01 01 02 992710"), 4096},
		{"a thousand bad tasks", TypeTasks, slices.Concat(unhex(t, "a2 01 9903e8"), item(1000, 0xa0), unhex(t, "03 a2 01 00 02 00")), 2_000_000},
		{"tasks that claim 10000", TypeTasks, unhex(t, "a2 01 992710"), 8192},
		{"ten thousand empty tokens", TypeResume, slices.Concat(unhex(t, "a3 01 a3 01 01 02 6161 03 01 02 992710"), item(10000, 0x60), unhex(t, "03 80")), 1_000_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			dst := NewBody(c.typ)
			least := ^uint64(0)
			for range 5 { // others allocate too: the least is ours
				least = min(least, bytesAllocated(func() { _ = Raw{Type: c.typ, Body: c.body}.Decode(dst) }))
				dst = NewBody(c.typ)
			}
			if least > c.most {
				t.Errorf("%d bytes of input made %d bytes of memory; at most %d expected", len(c.body), least, c.most)
			}
		})
	}
}
