package fsm

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"time"
)

// keysOf is a state with such keys as no log makes: each has the parts that are given, and ends so long after the first.
func keysOf(t testing.TB, n int, key func(i int) [16]byte, after func(i int) int64, parts ...uint32) *State {
	t.Helper()
	r := newRig(t)
	r.now += int64(n) * IdempotencyMillis
	r.ok(&Checkpoint{})
	for i := range n {
		sl := r.s.listIdem(idemKey{key: key(i), print: [16]byte{1}, end: 1 + after(i)})
		for _, p := range parts {
			r.s.addAnswer(sl, idemAnswer{count: 1, next: none, part: p})
		}
	}
	return r.s
}

// What is twice, or alike beyond chance, is named, wherever it stands.
func TestRestoreNamesKeysThatAreTwice(t *testing.T) {
	same := func(int) [16]byte { return [16]byte{9} }
	other := func(i int) (k [16]byte) {
		binary.BigEndian.PutUint32(k[:], uint32(i)*2654435761)
		return k
	}
	alike := func(i int) (k [16]byte) { // the index sees the first eight bytes
		binary.BigEndian.PutUint32(k[12:], uint32(i))
		return k
	}
	hourly := func(i int) int64 { return int64(i) * IdempotencyMillis }
	at := func(ends ...int64) func(int) int64 { return func(i int) int64 { return ends[i] } }
	for _, c := range []struct {
		name  string
		n     int
		key   func(int) [16]byte
		after func(int) int64
		parts []uint32
		want  string
	}{
		{"many keys", 1000, other, func(i int) int64 { return int64(i) }, []uint32{0}, ""},
		{"one key, an hour between", 256, same, hourly, []uint32{0}, ""},
		{"one key, less than an hour between", 2, same, at(0, IdempotencyMillis-1), []uint32{0}, "09000000000000000000000000000000 is there twice"},
		{"one key, others between", 3, func(i int) [16]byte { return [16]byte{byte(i & 1)} }, at(0, 1, 2), []uint32{0}, "is there twice"},
		{"one key too often", 257, same, hourly, []uint32{0}, "is alike to 256 others"},
		{"alike ones", 256, alike, at(make([]int64, 256)...), []uint32{0}, ""},
		{"too many that are alike", 100_000, alike, func(int) int64 { return 0 }, []uint32{0}, "is alike to 256 others"},
		{"parts in any order", 1, same, hourly, []uint32{7, 3, 3, 9, 0}, ""},
		{"a part in two places", 1, same, hourly, []uint32{7, 3, 9, 3}, "part 3 is in two places"},
		{"the last part in two places", 1, same, hourly, []uint32{3, 9, 3, 9}, "is in two places"},
	} {
		t.Run(c.name, func(t *testing.T) {
			snap := snapshot(t, keysOf(t, c.n, c.key, c.after, c.parts...))
			s, err := Restore(3, bytes.NewReader(snap))
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want %q", err, c.want)
			}
			if err != nil {
				return
			}
			defer s.Close()
			if again := snapshot(t, s); !bytes.Equal(again, snap) {
				t.Error("another snapshot")
			}
			if err := s.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A snapshot by somebody's hand takes no longer to read than it is long: 300,000 parts that come from the end were 45 billion looks at answers.
func TestRestoreOfManyPartsIsNoSquare(t *testing.T) {
	const n = 300_000
	parts := make([]uint32, n)
	for i := range parts {
		parts[i] = uint32(n - i)
	}
	snap := snapshot(t, keysOf(t, 1, func(int) [16]byte { return [16]byte{1} }, func(int) int64 { return 0 }, parts...))
	began := time.Now()
	s, err := Restore(3, bytes.NewReader(snap))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	must(t, "answers", s.idems.answers.Len(), n)
}

// More than there may be is refused as soon as it is more, and not once all of it is there.
func TestRestoreOfTooManyKeys(t *testing.T) {
	snap := snapshot(t, keysOf(t, 50, func(i int) [16]byte { return [16]byte{byte(i)} }, func(int) int64 { return 0 }, 0, 1))
	for _, c := range []struct {
		keys, bytes int64
		want        string
	}{{49, 1 << 20, "50 idempotency keys and more, want at most 49"}, {50, 3000, "bytes of idempotency keys and more, want at most 3000"}} {
		s := New(3)
		s.lim.idemKeys, s.lim.idemBytes = c.keys, c.bytes
		err := restoreInto(s, snap)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// restoreInto is Restore under the state's limits.
func restoreInto(s *State, snap []byte) error {
	f, err := newFrameReader(bytes.NewReader(snap))
	if err != nil {
		return err
	}
	defer s.Close()
	return (&restorer{s: s, f: f}).run()
}
