package chaos

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/fsm/mutant"
)

var ext4Flag = flag.Int("ext4", 1, "how many power cuts TestPowerCutsOfExt4 makes of a real file system, with each log store")

// shutdown is FS_IOC_SHUTDOWN: from now on nothing of a file system reaches its disk; with noLogFlush not even the journal that it has in
// memory.
const (
	shutdown   = 0x8004587D
	noLogFlush = 2
)

// ext4 is a file system of its own kind, in a file, and a node whose data directory is on it.
type ext4 struct {
	*proc.Cluster
	node  *proc.Node
	image string
	dir   string // where it is mounted
}

// onExt4 makes one and prepares the node.
func onExt4(t *testing.T, binary string, args ...string) *ext4 {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("a file system can be mounted by root alone")
	}
	for _, tool := range []string{"mkfs.ext4", "mount", "umount"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no ext4 can be made here: %v", err)
		}
	}
	e := &ext4{image: filepath.Join(t.TempDir(), "image"), dir: t.TempDir()}
	if err := os.WriteFile(e.image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(e.image, 512<<20); err != nil {
		t.Fatal(err)
	}
	e.run(t, "mkfs.ext4", "-q", "-F", e.image)
	if out, err := exec.CommandContext(within(t, time.Minute), "mount", "-o", "loop", e.image, e.dir).CombinedOutput(); err != nil {
		t.Skipf("no loop device can be had here: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(e.dir, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			t.Errorf("unmount %s: %v", e.dir, err)
		}
	})
	c, err := proc.New(proc.Config{
		Binary: binary, Nodes: 1, Dir: t.TempDir(), Args: args,
		Env: []string{"QUORATE_CHAOS_SNAPSHOT_BYTES=262144", "QUORATE_CHAOS_SEGMENT_BYTES=262144"},
	})
	if err != nil {
		t.Fatal(err)
	}
	e.Cluster, e.node = c, c.Nodes[0]
	at := slices.Index(e.node.Args, e.node.DataDir)
	e.node.DataDir = filepath.Join(e.dir, "data")
	e.node.Args[at] = e.node.DataDir
	t.Cleanup(func() {
		c.Kill()
		if t.Failed() {
			b, _ := os.ReadFile(e.node.LogFile)
			t.Logf("log of %s:\n%s", e.node.Name, tail(b, 4000))
		}
	})
	return e
}

func (e *ext4) run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(within(t, time.Minute), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
}

// cut is a power cut: what the disk has is what it has, the process is killed, and the file system is mounted again from that.
func (e *ext4) cut(t *testing.T) {
	t.Helper()
	d, err := os.Open(e.dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(unix.IoctlSetPointerInt(int(d.Fd()), shutdown, noLogFlush), d.Close()); err != nil {
		t.Fatalf("FS_IOC_SHUTDOWN of %s: %v", e.dir, err)
	}
	e.node.Kill()
	e.run(t, "umount", e.dir)
	e.run(t, "mount", "-o", "loop", e.image, e.dir)
}

// A second opinion on what bench/chaos/forgetfs says: the power of a real ext4 is cut under a node, again and again, and nothing that was
// confirmed is lost. (L5, G1)
func TestPowerCutsOfExt4(t *testing.T) {
	bin := chaosBinary(t)
	each := func(t *testing.T, args ...string) {
		rng := draw(t)
		e := onExt4(t, bin, args...)
		if err := e.Start(within(t, time.Minute)); err != nil {
			t.Fatal(err)
		}
		cl := open(t, e.Addrs()...)
		create(t, cl, "q", client.QueueOptions{MaxResultsBytes: 4 << 30})
		l := NewLedger()
		stop := load(t, e.Cluster, l, "q", 1, 1)
		slowest := time.Duration(0)
		for range *ext4Flag {
			after := l.Confirmed() + 1 + rng.IntN(500)
			eventually(t, 30*time.Second, "enqueues are confirmed", func(context.Context) bool { return l.Confirmed() >= after })
			e.cut(t)
			began := time.Now()
			if err := e.node.Start(); err != nil {
				t.Fatal(err)
			}
			if err := e.node.WaitReady(within(t, 30*time.Second)); err != nil {
				t.Fatal(err)
			}
			slowest = max(slowest, time.Since(began))
		}
		stop()
		audit(t, e.Cluster, l, "q")
		report(t, "%d cuts of %d confirmed; the slowest start took %s", *ext4Flag, l.Confirmed(), slowest)
		if slowest > startMost {
			t.Errorf("a start after a power cut took %s, want at most %s", slowest, startMost)
		}
	}
	eachOf(t, len(logStores), *togetherFlag, func(i int) string { return logStores[i] }, func(t *testing.T, i int) {
		each(t, "--raft-log-store", logStores[i])
	})
}

// The control: a node that writes entries and does not sync them (planted bug 1) loses what it has confirmed, or does not find it whole and
// says so.
func TestPowerCutsOfExt4AreNoticed(t *testing.T) {
	if mutant.Tag() != "" {
		t.Skip("this test binary has another bug")
	}
	bin := binaryWith(t, "chaos,mutant_01")
	eachOf(t, len(logStores), *togetherFlag, func(i int) string { return logStores[i] }, func(t *testing.T, i int) {
		noticed := 0
		for range *ext4Flag {
			if lostOnExt4(t, bin, "--raft-log-store", logStores[i]) {
				noticed++
			}
		}
		report(t, "of %d cuts of a node that does not sync %d were noticed", *ext4Flag, noticed)
		if noticed == 0 {
			t.Error("entries were not synced, the power was cut, and nothing is said to be lost: the test beside this one proves nothing")
		}
	})
}

// lostOnExt4 says whether a power cut of a node on a new file system loses something, or keeps it from starting.
func lostOnExt4(t *testing.T, bin string, args ...string) bool {
	e := onExt4(t, bin, args...)
	if err := e.Start(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	cl := open(t, e.Addrs()...)
	create(t, cl, "q", client.QueueOptions{MaxResultsBytes: 4 << 30})
	l := NewLedger()
	for range 200 {
		n, b := l.body(256)
		r, err := cl.Enqueue(within(t, 10*time.Second), "q", client.Message{Body: b})
		if l.answered(n, r, err); err != nil {
			t.Fatal(err)
		}
	}
	e.cut(t)
	if err := e.node.Start(); err != nil {
		t.Fatal(err)
	}
	if err := e.node.WaitReady(within(t, 10*time.Second)); err != nil {
		last := e.node.LastLog()
		// It has noticed, or has lost even who its members are.
		if !e.node.Running() && strings.Contains(last, e.node.DataDir) || strings.Contains(last, "no known peers") {
			t.Logf("it does not come up: %s", last)
			return true
		}
		t.Fatal(err)
	}
	q, err := cl.Queue(within(t, 10*time.Second), "q")
	if err != nil && !errors.Is(err, client.ErrNotFound) {
		t.Fatal(err)
	}
	t.Logf("of %d that were confirmed, %d are there", l.Confirmed(), q.Pending)
	return q.Pending < int64(l.Confirmed())
}
