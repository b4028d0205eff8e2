package group

import (
	"errors"
	"fmt"
	"testing"

	"github.com/hashicorp/raft"
)

// countingStore counts reads and can fail.
type countingStore struct {
	*raft.InmemStore
	reads     int
	fail      error
	monotonic bool
}

func (s *countingStore) GetLog(i uint64, l *raft.Log) error {
	s.reads++
	return s.InmemStore.GetLog(i, l)
}

func (s *countingStore) StoreLogs(logs []*raft.Log) error {
	if s.fail != nil {
		return s.fail
	}
	for _, l := range logs {
		l.Extensions = []byte("sum")
	}
	return s.InmemStore.StoreLogs(logs)
}

func (s *countingStore) IsMonotonic() bool { return s.monotonic }

func TestLogCache(t *testing.T) {
	t.Parallel()
	const each = 1000 + entryOverhead + 3
	fill := func(from, to uint64) (logs []*raft.Log) {
		for i := from; i <= to; i++ {
			logs = append(logs, &raft.Log{Index: i, Term: 1, Data: append(make([]byte, 992), fmt.Sprintf("%08d", i)...)})
		}
		return logs
	}
	for _, test := range []struct {
		name   string
		do     func(t *testing.T, c *LogCache, s *countingStore)
		cached []uint64
		stored []uint64 // must come from the store
		gone   []uint64
	}{
		{"newest that fit", func(*testing.T, *LogCache, *countingStore) {}, []uint64{191, 200}, []uint64{1, 190}, []uint64{201}},
		{"head compacted below the cache", func(t *testing.T, c *LogCache, _ *countingStore) {
			check(t, c.DeleteRange(1, 100))
		}, []uint64{191, 200}, []uint64{101, 190}, []uint64{1, 100}},
		{"head compacted into the cache", func(t *testing.T, c *LogCache, _ *countingStore) {
			check(t, c.DeleteRange(1, 195))
		}, []uint64{196, 200}, nil, []uint64{195}},
		{"all deleted", func(t *testing.T, c *LogCache, _ *countingStore) {
			check(t, c.DeleteRange(1, 200))
		}, nil, nil, []uint64{1, 200}},
		{"tail overwritten", func(t *testing.T, c *LogCache, _ *countingStore) {
			check(t, c.DeleteRange(198, 200))
			check(t, c.StoreLogs([]*raft.Log{{Index: 198, Term: 2, Data: []byte("other")}}))
		}, []uint64{191, 197, 198}, nil, []uint64{199}},
		{"a gap after an install", func(t *testing.T, c *LogCache, _ *countingStore) {
			check(t, c.StoreLogs(fill(500, 502)))
		}, []uint64{500, 502}, []uint64{200}, []uint64{300}},
		{"a failed write is not remembered", func(t *testing.T, c *LogCache, s *countingStore) {
			s.fail = errDisk
			if err := c.StoreLogs(fill(201, 201)); !errors.Is(err, errDisk) {
				t.Errorf("got %v", err)
			}
		}, nil, []uint64{200}, []uint64{201}},
		{"one larger than the cache", func(t *testing.T, c *LogCache, _ *countingStore) {
			check(t, c.StoreLogs([]*raft.Log{{Index: 201, Data: make([]byte, 20*each)}}))
		}, nil, []uint64{200, 201}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &countingStore{InmemStore: raft.NewInmemStore()}
			c := NewLogCache(s, 10*each)
			for i := uint64(1); i <= 200; i += 4 {
				check(t, c.StoreLogs(fill(i, i+3)))
			}
			test.do(t, c, s)
			get := func(i uint64) (fromStore bool, err error) {
				before := s.reads
				var l raft.Log
				if err = c.GetLog(i, &l); err == nil && (l.Index != i || string(l.Extensions) != "sum") {
					t.Errorf("entry %d: got index %d with extensions %q", i, l.Index, l.Extensions)
				}
				return s.reads > before, err
			}
			for _, i := range test.cached {
				if stored, err := get(i); err != nil || stored {
					t.Errorf("entry %d: from store %v, %v; want it cached", i, stored, err)
				}
			}
			for _, i := range test.stored {
				if stored, err := get(i); err != nil || !stored {
					t.Errorf("entry %d: from store %v, %v; want it from the store", i, stored, err)
				}
			}
			for _, i := range test.gone {
				if _, err := get(i); !errors.Is(err, raft.ErrLogNotFound) {
					t.Errorf("entry %d: %v, want not found", i, err)
				}
			}
			if c.bytes > c.limit || c.bytes < 0 || c.count == 0 && c.bytes != 0 {
				t.Errorf("%d bytes in %d entries, limit %d", c.bytes, c.count, c.limit)
			}
		})
	}
	if !NewLogCache(&countingStore{monotonic: true}, 1).IsMonotonic() || NewLogCache(raft.NewInmemStore(), 1).IsMonotonic() {
		t.Error("IsMonotonic is not passed through")
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
