package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"golang.org/x/sys/unix"

	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/cluster/store"
	"github.com/quorate/quorate/fsm"
)

// childHangs has the child be a node whose disk hangs, "and fails" then, or "and is well".
const childHangs = "QUORATE_TEST_CHILD_HANGS"

// hanging is a log whose disk hangs.
type hanging struct {
	*store.Log
	hang   chan struct{} // closed: the next write hangs
	began  chan uint64   // the index of the first write that hangs
	well   chan struct{} // closed: the disk is well again
	stored chan uint64   // the index of what has been written since
	failed chan error    // has one when that has failed
}

// StoreLogs implements raft.LogStore.
func (h *hanging) StoreLogs(logs []*raft.Log) error {
	select {
	case <-h.hang:
	default:
		return h.Log.StoreLogs(logs)
	}
	select {
	case h.began <- logs[len(logs)-1].Index:
	default:
	}
	<-h.well
	if err := h.Log.StoreLogs(logs); err != nil {
		select {
		case h.failed <- err:
		default:
		}
		return err
	}
	h.stored <- logs[len(logs)-1].Index
	return nil
}

// hangingChild is a leader that is stopped while its disk hangs. The disk is well again before the process ends, and it says up to where it has
// written by then; or it fails in time for the stop, and it says how that has ended.
func hangingChild(dir string, fails bool) {
	fail := func(what string, err error) {
		fmt.Println("child:", what, err)
		os.Exit(7)
	}
	h := &hanging{hang: make(chan struct{}), began: make(chan uint64, 1), well: make(chan struct{}), stored: make(chan uint64, 64), failed: make(chan error, 1)}
	cfg := cluster.Config{
		NodeID: "n1", DataDir: dir, LogStore: os.Getenv(childStore), RaftAddr: "127.0.0.1:0", GossipAddr: "127.0.0.1:0", BootstrapExpect: 1,
	}
	cluster.SetLogs(&cfg, func(l *store.Log) raft.LogStore { h.Log = l; return h })
	n, err := cluster.Start(context.Background(), cfg)
	if err != nil {
		fail("start:", err)
	}
	tick := time.NewTicker(time.Millisecond)
	for ok := false; !ok; ok, _ = n.Ready() {
		<-tick.C
	}
	if !enqueue(n, []byte("x")) {
		fail("not enqueued", nil)
	}
	close(h.hang)
	propose := func() {
		op := fsm.AppendOp(nil, &fsm.Enqueue{Queue: []byte("q"), AutoCreate: true, Messages: []fsm.Message{{Body: make([]byte, 64<<10), Priority: 4}}})
		n.Group(0).Propose(&group.Proposal{Op: op, Done: make(one, 1)})
	}
	propose()
	hung := <-h.began
	for propose(); n.Group(0).Status().LastLog <= hung; { // raft has it in the log: it is behind the write that hangs
		<-tick.C
	}
	last := n.Group(0).Status().LastLog
	if fails {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1, Max: 1}); err != nil {
			fail("limit:", err)
		}
		go func() {
			for !n.Stopping() {
				<-tick.C
			}
			close(h.well)
		}()
		fmt.Println("stopped:", n.Stop(context.Background()))
		os.Exit(0)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := n.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		fail("stopped while the disk hangs:", err)
	}
	close(h.well)
	for stored := uint64(0); stored < last; {
		select {
		case stored = <-h.stored:
		case err := <-h.failed:
			fail("not written:", err)
		}
	}
	fmt.Println("stored", last)
	os.Exit(0)
}

// TestStopWhileTheDiskHangs: what raft still writes when a stop has given up waiting for it is in the log at the next start, behind all that
// was there before.
func TestStopWhileTheDiskHangs(t *testing.T) {
	t.Parallel()
	for _, kind := range store.Kinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "n1")
			cmd := exec.CommandContext(bounded(t), os.Args[0])
			cmd.Env = append(os.Environ(), childDir+"="+dir, childStore+"="+string(kind), childHangs+"=and is well")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("the node: %v\n%.2000s", err, out)
			}
			var want uint64
			if _, err := fmt.Sscanf(string(out), "stored %d", &want); err != nil {
				t.Fatalf("the node says %.2000s", out)
			}
			d, err := store.OpenDir(dir, "n1")
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			disk, err := store.OpenDisk(d, store.NewHalt(func(error) {}), store.LogOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer disk.Close()
			if last, err := disk.Log.LastIndex(); err != nil || last < want {
				t.Errorf("the log ends at %d, %v; entry %d was written", last, err, want)
			}
			for i := uint64(1); i <= want; i++ {
				if err := disk.Log.GetLog(i, &raft.Log{}); err != nil {
					t.Fatalf("entry %d: %v", i, err)
				}
			}
		})
	}
}

// TestStopWhileTheDiskFails: a write that fails while a node is stopped is an error of the stop. (G17)
func TestStopWhileTheDiskFails(t *testing.T) {
	t.Parallel()
	for _, kind := range store.Kinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(bounded(t), os.Args[0])
			cmd.Env = append(os.Environ(), childDir+"="+filepath.Join(t.TempDir(), "n1"), childStore+"="+string(kind), childHangs+"=and fails")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("the node: %v\n%.2000s", err, out)
			}
			if _, said, found := strings.Cut(string(out), "stopped:"); !found || !strings.Contains(said, "file too large") {
				t.Errorf("the node says %.2000s\nwant the failure as the error of its stop", out)
			}
		})
	}
}
