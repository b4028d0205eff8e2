//go:build linux

package forgetfs

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var seed = flag.Uint64("seed", rand.Uint64(), "seed of what is drawn")

// TestWhatACutMayLeave: whatever a cut drops, each sector of a file is as it was at some moment since the last sync, and so is its
// length; what was synced last is there; and a torn cut leaves the file as it was at one moment, but for one write.
func TestWhatACutMayLeave(t *testing.T) {
	t.Parallel()
	t.Logf("seed %d (repeat with -seed)", *seed)
	rng := rand.New(rand.NewPCG(*seed, 2))
	dropped := map[Mode]int{}
	for round := range 1000 {
		d := New(Options{})
		n := d.newInode(false, 0o600)
		d.enter(d.root, entry{"f", n})
		d.syncInode(d.root)
		var was [][]byte // what the file was like, from the last sync on
		for i := range 2 + rng.IntN(30) {
			if i > 1 && rng.IntN(12) == 0 {
				d.syncInode(n)
				was = was[len(was)-1:]
				continue
			}
			var c change
			switch at := rng.Int64N(5 * blockSize); rng.IntN(8) {
			case 0:
				c = n.now.truncate(at)
			case 1:
				c = change{size: at} // allocate
			default:
				p := make([]byte, 1+rng.IntN([]int{10, 700, 9000}[rng.IntN(3)]))
				for i := range p {
					p[i] = byte(1 + rng.IntN(255))
				}
				c = n.now.write(p, at)
			}
			if e := d.change(n, c); e != 0 {
				t.Fatal(e)
			}
			if len(was) == 0 {
				was = append(was, nil)
			}
			was = append(was, content(&n.now))
		}
		if rng.IntN(4) == 0 {
			if _, err := d.Cut(Cut{Mode: Kept}); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(content(&d.root.names["f"].now), was[len(was)-1]) {
				t.Fatalf("round %d: a kill has changed what is seen", round)
			}
		}
		cut := Draw(rng, All, Some, Some, Torn, Torn, Late)
		l, err := d.Cut(cut)
		if err != nil {
			t.Fatal(err)
		}
		dropped[cut.Mode] += l.Dropped
		got := content(&d.root.names["f"].now)
		says := fmt.Sprintf("round %d, %s", round, cut)
		switch cut.Mode {
		case All:
			if !bytes.Equal(got, was[0]) {
				t.Fatalf("%s: not what was synced", says)
			}
		case Late:
			if !bytes.Equal(got, was[len(was)-1]) {
				t.Fatalf("%s: not what was written", says)
			}
		case Torn:
			ok := false
			for i, w := range was {
				ok = ok || between(got, w, was[min(i+1, len(was)-1)])
			}
			if !ok {
				t.Fatalf("%s: not the file of one moment, and half a write", says)
			}
		}
		if !slices.ContainsFunc(was, func(w []byte) bool { return len(w) == len(got) }) {
			t.Fatalf("%s: %d bytes long, which it never was", says, len(got))
		}
		for off := 0; off < len(got); off += sectorSize {
			if !slices.ContainsFunc(was, func(w []byte) bool { return same(got, w, off) }) {
				t.Fatalf("%s: the sector at %d was never like that", says, off)
			}
		}
	}
	for _, m := range []Mode{All, Some, Torn} {
		if dropped[m] == 0 {
			t.Errorf("cuts of mode %s have dropped nothing", m)
		}
	}
	if dropped[Late] > 0 {
		t.Errorf("cuts that drop nothing have dropped %d pieces", dropped[Late])
	}
}

func content(m *image) []byte {
	b := make([]byte, m.size)
	m.read(b, 0)
	return b
}

// same tells whether a sector of got is that of w, as far as got goes; behind w's end there are zeros.
func same(got, w []byte, off int) bool {
	for i := off; i < min(off+sectorSize, len(got)); i++ {
		if i < len(w) && got[i] != w[i] || i >= len(w) && got[i] != 0 {
			return false
		}
	}
	return true
}

// between tells whether each sector of got is that of before or that of after.
func between(got, before, after []byte) bool {
	if len(got) != len(before) && len(got) != len(after) {
		return false
	}
	for off := 0; off < len(got); off += sectorSize {
		if !same(got, before, off) && !same(got, after, off) {
			return false
		}
	}
	return true
}

// TestUsersEnd: a process that waits for a disk that is held ends when the power goes, and so does one whose sync is stalled;
// nobody waits for ever for a cut that does not come.
func TestUsersEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		trap Trap
	}{
		{"held", Trap{On: Syncs, N: 1, Do: CutBefore}},
		{"stalled", Trap{On: Syncs, N: 1, Do: Stall, For: time.Hour}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d, dir := served(t, Options{})
			w := start(t, dir)
			if got := w.do("write a 0 x"); got != "ok" {
				t.Fatal(got)
			}
			struck := d.Set(c.trap)
			w.begin("sync a")
			<-struck
			began := time.Now()
			if _, err := d.Cut(Cut{Mode: All}, w); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("the cut took %s", took)
			}
		})
	}
}

// TestBounds: a disk takes no more than it may, of files and of what waits for a sync.
func TestBounds(t *testing.T) {
	t.Parallel()
	d, dir := served(t, Options{Capacity: 64 << 10})
	w := start(t, dir)
	for at := range 16 {
		if got := w.do(fmt.Sprintf("direct a %d x", at*blockSize)); got != "ok" {
			t.Fatalf("block %d: %s", at, got)
		}
	}
	for _, order := range []string{"direct b 0 x", "truncate a 70000", "allocate a 70000"} {
		if got := w.do(order); got != "ENOSPC" {
			t.Errorf("%s: %s, want ENOSPC", order, got)
		}
	}
	for _, order := range []string{"rm a", "syncdir .", "direct b 0 x"} { // before the sync a is still on the disk
		if got := w.do(order); got != "ok" {
			t.Errorf("%s: %s", order, got)
		}
	}
	if err := d.Err(); err != nil {
		t.Error(err)
	}
	d = New(Options{Unsynced: 8 << 10})
	n := d.newInode(false, 0o600)
	d.enter(d.root, entry{"f", n})
	for i, want := range []syscall.Errno{0, 0, syscall.ENOSPC} {
		if got := d.change(n, n.now.write([]byte("x"), int64(i)*blockSize)); got != want {
			t.Errorf("write %d: %v, want %v", i, got, want)
		}
	}
	if d.Err() == nil {
		t.Error("too much waits for a sync, and nobody is told")
	}
}

// TestCleanUp: a mount whose process is gone is taken away; one whose process lives is not.
func TestCleanUp(t *testing.T) {
	d, dir := served(t, Options{})
	gone := t.TempDir()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	const nobody = 1 << 30 // above the kernel's largest process id
	if err := unix.Mount(source(nobody), gone, "fuse."+fsName, 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)); err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
	if err := CleanUp(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(gone, "x"), nil, 0o600); err != nil {
		t.Errorf("it is still mounted: %v", err)
	}
	if got := start(t, dir).do("write a 0 x"); got != "ok" || d.Count(Write) != 1 {
		t.Errorf("the one that is served does not work any more: %s", got)
	}
}
