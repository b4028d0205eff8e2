package store

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/bench/chaos/forgetfs"
)

var powerCutsFlag = flag.Int("power-cuts", 20, "how many power cuts TestPowerCutsOfAWriter makes of each kind of log")

// reader opens a data directory as a node does, reads everything in it, and says what it has found.
func reader(dir string) int {
	d, err := OpenDir(dir, "n1")
	if err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	h := NewHalt(func(error) {})
	read := make(chan error, 1)
	go func() {
		found, err := readWritten(d, h)
		if err == nil {
			fmt.Println("found", found)
		}
		read <- err
	}()
	select {
	case err = <-read:
	case <-h.Tripped():
		err = h.Err()
	}
	if err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	return 0
}

func readWritten(d *Dir, h *Halt) (string, error) {
	snaps, err := OpenSnapshots(d, h)
	if err != nil {
		return "", err
	}
	disk, err := OpenDisk(d, h, LogOptions{Floor: snaps.Newest, segment: testSegment})
	if err != nil {
		return "", err
	}
	first, err1 := disk.Log.FirstIndex()
	last, err2 := disk.Log.LastIndex()
	term, err3 := disk.Stable.GetUint64([]byte("CurrentTerm"))
	if err := errors.Join(err1, err2, err3); err != nil {
		return "", err
	}
	for i := first; i <= last && i > 0; i++ {
		var l raft.Log
		if err := disk.Log.GetLog(i, &l); err != nil || !strings.HasPrefix(string(l.Data), fmt.Sprintf("%d ", i)) {
			return "", fmt.Errorf("entry %d: %.20q, %w", i, l.Data, err)
		}
	}
	list, err := snaps.List()
	if err != nil {
		return "", err
	}
	for _, m := range list {
		_, r, err := snaps.Open(m.ID)
		if err != nil {
			return "", err
		}
		b, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil || !bytes.Equal(b, stateAt(m.Index)) {
			return "", fmt.Errorf("snapshot at %d: %d bytes, %w", m.Index, len(b), err)
		}
	}
	newest, _ := snaps.Newest()
	return fmt.Sprint(first, last, term, newest), disk.Close()
}

// forgetting is a member's data directory on a disk that forgets. Only other processes may look at it.
type forgetting struct {
	disk *forgetfs.Disk
	dir  string
	kind Kind
	written
}

func newForgetting(t *testing.T, kind Kind) *forgetting {
	t.Helper()
	return newForgettingOf(t, kind, forgetfs.Options{})
}

func newForgettingOf(t *testing.T, kind Kind, o forgetfs.Options) *forgetting {
	t.Helper()
	if err := forgetfs.Available(); err != nil {
		t.Skipf("disks that forget cannot be served here: %v", err)
	}
	at := t.TempDir()
	f := &forgetting{disk: forgetfs.New(o), dir: filepath.Join(at, "data"), kind: kind}
	if err := f.disk.Mount(at); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(f.disk.Unmount(), f.disk.Err()); err != nil {
			t.Error(err)
		}
	})
	return f
}

// helper is this test binary as a process of another sort.
type helper struct {
	cmd  *exec.Cmd
	done chan struct{}
}

func (p *helper) Signal(s os.Signal) { _ = p.cmd.Process.Signal(s) }

func (p *helper) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.done
}

// start starts one; what it says is heard until it has ended.
func (f *forgetting) start(t *testing.T, hear func(line string), env ...string) *helper {
	t.Helper()
	p := &helper{cmd: exec.Command(os.Args[0]), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		for s := bufio.NewScanner(out); s.Scan(); {
			hear(s.Text())
		}
		_ = p.cmd.Wait() // whoever ended it knows how
	}()
	return p
}

// write has a writer work until the trap strikes, or until it has said so much, and cuts the power.
func (f *forgetting) write(t *testing.T, trap forgetfs.Trap, lines int, cut forgetfs.Cut) (at string) {
	t.Helper()
	struck, enough, n := f.disk.Set(trap), make(chan struct{}), 0
	if trap.Do == forgetfs.Lie { // it goes on
		struck = nil
	}
	p := f.start(t, func(line string) {
		f.hear(line)
		if n++; n == lines {
			close(enough)
		}
	}, writerDir+"="+f.dir, writerKind+"="+string(f.kind))
	select {
	case <-struck:
	case <-enough:
	case <-p.done:
		t.Fatalf("the writer has ended: %+v", f.written)
	case <-time.After(time.Minute):
		t.Fatalf("nothing happens: %+v", f.written)
	}
	at = f.disk.Struck()
	if _, err := f.disk.Cut(cut, p); err != nil {
		t.Fatal(err)
	}
	return at
}

// check has a reader look for all that the writer was told is durable.
func (f *forgetting) check(t *testing.T) error {
	t.Helper()
	var said string
	p := f.start(t, func(line string) { said = line }, readerDir+"="+f.dir)
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		p.Kill()
	}
	var first, last, term, newest uint64
	if _, err := fmt.Sscanf(said, "found %d %d %d %d", &first, &last, &term, &newest); err != nil {
		return fmt.Errorf("the reader says %q; the writer was told %+v", said, f.written)
	}
	if last < f.last || term < f.term || newest < f.snapshot || newest > 0 && first > newest+1 {
		return fmt.Errorf("log from %d to %d, term %d, snapshot at %d; the writer was told %+v", first, last, term, newest, f.written)
	}
	// Who has read it may have told others of it: from now on it has to be there, also where the writer was killed before its sync.
	f.last, f.term, f.snapshot = last, term, newest
	return nil
}

// TestPowerCutsOfAWriter: the power goes before or after any call that changes the disk or syncs it, from the first start on, with any of
// what was not synced on disk. What was acknowledged is there, log, stable values and snapshots, and everything can be opened.
func TestPowerCutsOfAWriter(t *testing.T) {
	t.Parallel()
	t.Logf("seed %d", *seed)
	eachKind(t, func(t *testing.T, kind Kind) {
		rng := rand.New(rand.NewPCG(*seed, 20))
		var f *forgetting
		for i := range *powerCutsFlag {
			trap := forgetfs.Trap{On: forgetfs.Changes, N: 1 + rng.IntN(300), Do: forgetfs.CutBefore}
			if rng.IntN(2) == 0 {
				trap.Do = forgetfs.CutAfter
			}
			if i%20 == 0 {
				f = newForgetting(t, kind)
			}
			if i%20 < 4 {
				trap.N = 1 + rng.IntN(40) // while it is made
			}
			cut := forgetfs.Draw(rng, forgetfs.All, forgetfs.Some, forgetfs.Some, forgetfs.Torn, forgetfs.Kept)
			at := f.write(t, trap, 400, cut)
			if err := f.check(t); err != nil {
				t.Fatalf("cut %d, %v after %q, %s: %v", i, trap.Do, at, cut, err)
			}
		}
		if f.last == 0 || f.term == 0 {
			t.Errorf("little was written: %+v", f.written)
		}
	})
}

// TestFoundIsDurable: what a start finds after a kill between a write and its sync is not gone after a power cut, though nobody has
// written since; and the first power cut does not take the directory.
func TestFoundIsDurable(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, kind Kind) {
		f := newForgetting(t, kind)
		f.write(t, forgetfs.Trap{On: forgetfs.Syncs, N: 1 << 30}, 20, forgetfs.Cut{Mode: forgetfs.All})
		if err := f.check(t); err != nil {
			t.Fatalf("first life: %v", err)
		}
		for n := range 6 {
			at := f.write(t, forgetfs.Trap{On: []forgetfs.Op{forgetfs.SyncFile}, N: 12 + n, Do: forgetfs.CutBefore}, 1000, forgetfs.Cut{Mode: forgetfs.Kept})
			if err := f.check(t); err != nil {
				t.Fatalf("killed before %s: %v", at, err)
			}
			if _, err := f.disk.Cut(forgetfs.Cut{Mode: forgetfs.All}); err != nil {
				t.Fatal(err)
			}
			if err := f.check(t); err != nil {
				t.Fatalf("killed before %s, then cut: %v", at, err)
			}
		}
	})
}

// TestPowerCutsAreNoticed: a writer whose syncs do nothing loses what it was told is durable.
func TestPowerCutsAreNoticed(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, kind Kind) {
		f := newForgetting(t, kind)
		f.write(t, forgetfs.Trap{On: forgetfs.Syncs, N: 1 << 30}, 20, forgetfs.Cut{})
		f.write(t, forgetfs.Trap{On: forgetfs.Syncs, N: 30, Do: forgetfs.Lie}, 200, forgetfs.Cut{})
		if err := f.check(t); err == nil {
			t.Error("nothing is missing")
		} else {
			t.Log(err)
		}
	})
}
