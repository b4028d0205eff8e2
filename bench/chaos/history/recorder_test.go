package history

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// What many goroutines record comes back whole, in the order of the clock, with each call's number drawn once.
func TestRecorder(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "events.jsonl")
	r, err := Record(file, 0)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for range 200 {
				c := r.Call(Event{Worker: w, Op: Enqueue})
				r.Add(Event{Kind: Return, Call: c, Worker: w, Op: Enqueue, Class: OK, Message: "é\x00"})
			}
		})
	}
	wg.Wait()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	es, err := ReadEvents(f)
	if err != nil || len(es) != 3200 || r.Count() != 3200 {
		t.Fatalf("%d events, counted %d, %v", len(es), r.Count(), err)
	}
	calls := map[uint64]int{}
	for i, e := range es {
		if i > 0 && e.At < es[i-1].At {
			t.Fatalf("event %d is before the one before it", i)
		}
		calls[e.Call]++
		if e.Kind == Return && (e.Message != "é\x00" || e.Class != OK) {
			t.Fatalf("event %d: %+v", i, e)
		}
	}
	if len(calls) != 1600 {
		t.Errorf("%d call numbers, want 1600", len(calls))
	}
}

func TestRecorderIsBounded(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "events.jsonl")
	r, err := Record(file, 2)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r.Call(Event{Op: Enqueue})
	}
	if err := r.Close(); !errors.Is(err, ErrFull) {
		t.Errorf("close: %v, want %v", err, ErrFull)
	}
	if err := r.Close(); !errors.Is(err, ErrFull) {
		t.Errorf("close again: %v, want %v", err, ErrFull)
	}
	if _, err := Record(file, 0); !errors.Is(err, os.ErrExist) {
		t.Errorf("a second recorder on one file: %v", err)
	}
}

func TestReadEventsRefuses(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"an unknown field": `{"k":"call","at":1,"colour":"red"}`,
		"no JSON":          `{"k":"call","at":1}` + "\nhello",
		"cut short":        `{"k":"call","at`,
	} {
		if _, err := ReadEvents(strings.NewReader(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// record is an entry as a node writes it to its tap.
func tapRecord(index, term uint64, data string) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 8), index)
	b = append(binary.BigEndian.AppendUint64(b, term), data...)
	binary.BigEndian.PutUint32(b, uint32(len(data)))
	binary.BigEndian.PutUint32(b[4:], crc32.Checksum(b[8:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

func TestReadTaps(t *testing.T) {
	t.Parallel()
	one, two, three := tapRecord(5, 1, "one"), tapRecord(7, 1, "two"), tapRecord(9, 2, "three")
	flipped := append([]byte(nil), two...)
	flipped[len(flipped)-1] ^= 1
	huge := append([]byte(nil), two...)
	huge[0] = 0xFF
	join := func(bs ...[]byte) (out []byte) {
		for _, b := range bs {
			out = append(out, b...)
		}
		return out
	}
	for _, tc := range []struct {
		name  string
		taps  [][]byte
		want  []uint64
		error string // part of it; "" for none
	}{
		{"two nodes, one started twice", [][]byte{join(one, two), join(two, three), join(one, two, three)}, []uint64{5, 7, 9}, ""},
		{"cut short in the data", [][]byte{join(one, two[:len(two)-1])}, []uint64{5}, ""},
		{"cut short in the head", [][]byte{join(one, two[:10])}, []uint64{5}, ""},
		{"empty", [][]byte{nil}, nil, ""},
		{"a flipped bit", [][]byte{join(one, flipped, three)}, nil, "checksum"},
		{"an impossible length", [][]byte{join(one, huge)}, nil, "claims"},
		{"not rising", [][]byte{join(two, one)}, nil, "comes after"},
		{"other data", [][]byte{join(one, two), join(one, tapRecord(7, 1, "TWO"))}, nil, "differ"},
		{"another term", [][]byte{join(one, two), join(one, tapRecord(7, 2, "two"))}, nil, "differ"},
		{"none", nil, nil, "-tags chaos"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for i, b := range tc.taps {
				if err := os.WriteFile(filepath.Join(dir, string(rune('a'+i))+".tap"), b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := ReadTaps(dir)
			if tc.error != "" {
				if err == nil || !strings.Contains(err.Error(), tc.error) {
					t.Fatalf("error %v, want one with %q", err, tc.error)
				}
				return
			}
			if err != nil || len(got) != len(tc.want) {
				t.Fatalf("%v, %v; want %v", got, err, tc.want)
			}
			for i := range got {
				if got[i].Index != tc.want[i] {
					t.Errorf("entry %d has index %d, want %d", i, got[i].Index, tc.want[i])
				}
			}
		})
	}
}

// What cannot be applied is an error, and not a history with a hole.
func TestReplayRefuses(t *testing.T) {
	t.Parallel()
	if _, _, err := Replay([]LogEntry{{Index: 1, Data: []byte("no entry")}}); err == nil {
		t.Error("no error")
	}
}
