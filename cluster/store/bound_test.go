package store

import (
	"math/rand/v2"
	"testing"

	"github.com/hashicorp/raft"
)

// TestDiskStaysBounded: whatever has passed through a log, it takes no more than some multiple of what is kept in it. Nothing
// that waits in the state keeps an entry (pitfall: compaction must not depend on old messages), so what is kept is what was
// written since a snapshot, and the trail behind it.
func TestDiskStaysBounded(t *testing.T) {
	t.Parallel()
	const (
		between = 4 << 20 // bytes of entries from snapshot to snapshot
		behind  = 2 << 20 // kept behind a snapshot
		segment = 1 << 20
	)
	for _, c := range []struct {
		kind Kind
		most int64
		step int64 // by which a file grows
	}{
		// The first segment may be nearly all compacted, the last two are reserved and nearly empty; each passes its size by a
		// batch.
		{WAL, between + behind + 3*segment + 2*4*(64<<10), 0},
		// The file never shrinks; runs of free pages are used again, as far as they are long enough. Small entries are stored
		// with half of their size again, on pages that are half full; and bbolt lets the file grow by 16 MiB. Which pages it takes, and so
		// whether a run of free ones is long enough, is another matter each time: its free list is a map.
		{Bolt, 3*(between+behind) + 16<<20, 16 << 20},
	} {
		for _, size := range []struct {
			name        string
			least, most int
			batch       int
			through     int // bytes of entries in all
		}{{"large entries", 64 << 10, 64 << 10, 4, 60 << 20}, {"small entries", 300, 300, 256, 32 << 20}, {"any entries", 100, 64 << 10, 4, 60 << 20}} {
			t.Run(string(c.kind)+" "+size.name, func(t *testing.T) {
				t.Parallel()
				e, err := c.kind.create(c.kind.path(t.TempDir()), NewUUID(), segment)
				if err != nil {
					t.Fatal(err)
				}
				defer e.Close()
				log := NewLog(e, NewHalt(func(err error) { t.Error(err) }), LogOptions{slice: map[Kind]uint64{WAL: 1 << 62}[c.kind]})
				rng := rand.New(rand.NewPCG(*seed, 5))
				data := make([]byte, size.most)
				var sizes []int // of the entries in the log
				first, next := uint64(1), uint64(1)
				var peak, half int64 // on disk; in the first half
				for total, since := 0, 0; total < size.through; {
					var batch []*raft.Log
					for range size.batch {
						n := size.least + rng.IntN(size.most-size.least+1)
						batch = append(batch, &raft.Log{Index: next, Data: data[:n]})
						sizes = append(sizes, n)
						next++
						total, since = total+n, since+n
					}
					if err := log.StoreLogs(batch); err != nil {
						t.Fatal(err)
					}
					if since < between {
						continue
					}
					since = 0
					keep, bytes := len(sizes), 0
					for keep > 0 && bytes < behind {
						keep--
						bytes += sizes[keep]
					}
					if peak = max(peak, e.size()); total < size.through/2 {
						half = peak
					}
					if err := log.DeleteRange(first, first+uint64(keep)-1); err != nil {
						t.Fatal(err)
					}
					first, sizes = first+uint64(keep), sizes[keep:]
				}
				t.Logf("%d MiB have passed, %d KiB are kept at most, the most on disk was %d KiB", size.through>>20, (between+behind)>>10, peak>>10)
				if peak > c.most || peak > half*5/4+c.step {
					t.Errorf("%d KiB on disk, %d in the first half, want at most %d, and a quarter and %d more than then", peak>>10, half>>10, c.most>>10, c.step>>10)
				}
			})
		}
	}
}
