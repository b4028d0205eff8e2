package store

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/chaos/forgetfs"
)

var failedSyncsFlag = flag.Int("failed-syncs", 6, "how many syncs TestFailedSyncs has fail of each kind of log and case; 40: every one of the first")

// failSync has a writer work until its n-th sync fails, which must end it with the error, and leaves the machine as it is: the cache has what
// the disk has not, and calls it written.
func (f *forgetting) failSync(t *testing.T, on []forgetfs.Op, n int) (at string) {
	t.Helper()
	struck := f.disk.Set(forgetfs.Trap{On: on, N: n, Do: forgetfs.Fail, Err: syscall.EIO})
	f.failed = ""
	p := f.start(t, f.hear, writerDir+"="+f.dir, writerKind+"="+string(f.kind))
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		p.Kill()
		t.Fatalf("sync %d: the writer goes on: %+v", n, f.written)
	}
	select {
	case <-struck:
	default:
		t.Fatalf("sync %d: the writer has ended before: %+v", n, f.written)
	}
	at = f.disk.Struck()
	if !strings.Contains(f.failed, syscall.EIO.Error()) || !strings.Contains(f.failed, filepath.Dir(f.dir)) {
		t.Errorf("%s has failed: the writer says %q, want the error and a file of %s", at, f.failed, f.dir)
	}
	f.disk.Clear()
	return at
}

// TestFailedSyncs: a sync fails, any of those of a start, of entries, of stable values, of snapshots and compactions, of files and of folders;
// the process is started again on the same machine, which tells others of what it finds, and stores more; then the power goes. Nothing
// is missing.
func TestFailedSyncs(t *testing.T) {
	t.Parallel()
	t.Logf("seed %d", *seed)
	eachKind(t, func(t *testing.T, kind Kind) {
		for _, c := range []struct {
			name string
			on   []forgetfs.Op
			most int  // the n-th, at most
			new  bool // a directory of its own for each: the first start
		}{
			{"first start", forgetfs.Syncs, 30, true},
			{"any", forgetfs.Syncs, 40, false},
			{"of files", []forgetfs.Op{forgetfs.SyncFile}, 40, false},
			{"of folders", []forgetfs.Op{forgetfs.SyncDir}, 12, false},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(*seed, 21))
				f := newForgetting(t, kind)
				for i, n := range rng.Perm(c.most)[:min(c.most, *failedSyncsFlag)] {
					n++
					if c.new && i > 0 {
						f = newForgetting(t, kind)
					}
					if at, err := f.afterAFailedSync(t, rng, c.on, n); err != nil {
						t.Fatalf("sync %d: %s: %v", n, at, err)
					}
				}
				if !c.new && f.last == 0 {
					t.Errorf("little was written: %+v", f.written)
				}
			})
		}
	})
}

// afterAFailedSync has the n-th sync fail, processes start on what that leaves, one of which may meet such a sync too, and the power go.
func (f *forgetting) afterAFailedSync(t *testing.T, rng *rand.Rand, on []forgetfs.Op, n int) (what string, err error) {
	t.Helper()
	what = f.failSync(t, on, n)
	if rng.IntN(3) == 0 {
		what += ", then " + f.failSync(t, on, 1+rng.IntN(12))
	}
	cut := forgetfs.Draw(rng, forgetfs.All, forgetfs.All, forgetfs.Some, forgetfs.Torn, forgetfs.Late)
	until := 25 // changes of the disk, of which a start makes about as many
	if rng.IntN(2) == 0 {
		// Who has read it may have told others of it.
		what, until = what+", then read", 60
		if err := f.check(t); err != nil {
			return what, err
		}
	}
	if rng.IntN(3) == 0 {
		_, err = f.disk.Cut(cut)
	} else {
		what += ", then cut before " + f.write(t, forgetfs.Trap{On: forgetfs.Changes, N: 1 + rng.IntN(until), Do: forgetfs.CutBefore}, 400, cut)
	}
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s, %s", what, cut), f.check(t)
}
