package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/store"
)

// childDir names the data directory of a node that this test binary is to be, instead of running tests.
const childDir = "QUORATE_TEST_CHILD_DIR"

// childStore is the log store of that node.
const childStore = "QUORATE_TEST_CHILD_STORE"

// child is a node that cannot write any more to its files after a while. It says each confirmation.
func child(dir string) {
	fail := func(err error) {
		fmt.Println("child:", err)
		os.Exit(7)
	}
	n, err := cluster.Start(context.Background(), cluster.Config{
		NodeID: "n1", DataDir: dir, LogStore: os.Getenv(childStore), RaftAddr: "127.0.0.1:0", GossipAddr: "127.0.0.1:0", BootstrapExpect: 1,
	})
	if err != nil {
		fail(err)
	}
	tick := time.NewTicker(5 * time.Millisecond)
	for ok := false; !ok; ok, _ = n.Ready() {
		<-tick.C
	}
	for i := 0; ; i++ {
		if i == 20 {
			if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1, Max: 1}); err != nil {
				fail(err)
			}
		}
		if err := n.Group(0).Raft().Barrier(0).Error(); err != nil {
			fail(fmt.Errorf("answered after the failure: %w", err))
		}
		fmt.Println("confirmed")
	}
}

// TestFailedWriteEndsTheProcess: G17, with the real default Fatal, in a process of its own.
func TestFailedWriteEndsTheProcess(t *testing.T) {
	t.Parallel()
	for kind, file := range map[store.Kind]string{store.Bolt: store.LogFile, store.WAL: store.WALDir} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			testFailedWrite(t, kind, file)
		})
	}
}

func testFailedWrite(t *testing.T, kind store.Kind, file string) {
	dir := filepath.Join(t.TempDir(), "n1")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir, childStore+"="+string(kind))
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Fatalf("the process ended with %v, want exit status 1\n%.2000s\n%.2000s", err, out.String(), errOut.String())
	}
	if n := strings.Count(out.String(), "confirmed"); n != 20 || strings.Contains(out.String(), "child:") {
		t.Errorf("%d confirmations, output %.2000s", n, out.String())
	}
	if !strings.Contains(errOut.String(), filepath.Join(dir, file)) || !strings.Contains(errOut.String(), "file too large") || strings.Contains(errOut.String(), "goroutine ") {
		t.Errorf("it said %.2000s\nwant the file and the cause, and no stack", errOut.String())
	}
}
