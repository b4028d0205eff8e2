package chaos

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
)

// One flipped bit anywhere in a stopped node's log or snapshot: it stops with the file named, or never reads the bit; the
// cluster goes on; a wiped node under a new identity takes its place. (C7, G16)
func TestFlippedBit(t *testing.T) { withLogStores(t, testFlippedBit) }

func testFlippedBit(t *testing.T, args ...string) {
	rng := draw(t)
	c := start(t, 3, args...)
	cl := open(t, c.Addrs()...)
	l := NewLedger()
	pctx, cancel := context.WithCancel(t.Context())
	producing := make(chan error, 1)
	go func() { producing <- l.Produce(pctx, cl, "q", 1024, 64) }()
	eventually(t, 60*time.Second, "enqueues are confirmed", func(context.Context) bool { return l.Confirmed() >= 10_000 })

	stopped, unread := 0, 0
	for round := range *flipsFlag {
		victim := c.Nodes[rng.IntN(3)]
		if err := victim.Stop(); err != nil {
			t.Fatal(err)
		}
		file, at := flip(t, rng, victim.DataDir)
		if err := victim.Start(); err != nil {
			t.Fatal(err)
		}
		if err := victim.WaitReady(within(t, 30*time.Second)); err == nil {
			unread++ // a free page, or bytes behind what is kept
			agrees(t, cl)
			continue
		}
		stopped++
		code, err := victim.Exited(within(t, 20*time.Second))
		if err != nil {
			t.Fatalf("round %d: bit at %d of %s: %v", round, at, file, err)
		}
		log, _ := os.ReadFile(victim.LogFile)
		// An earlier round's bit may be the one that was read now: any file of the store may be named.
		if last := string(tail(log, 2000)); code == 0 || !strings.Contains(last, victim.DataDir) || strings.Contains(last, "goroutine ") {
			t.Errorf("round %d: bit at %d of %s: exit code %d; want non-zero and one line that names the file, log ends:\n%s", round, at, file, code, last)
		}
		replace(t, cl, victim)
	}
	t.Logf("of %d flipped bits %d stopped the node with the file named, %d were never read", *flipsFlag, stopped, unread)
	replaced := c.Nodes[rng.IntN(3)]
	if err := replaced.Stop(); err != nil {
		t.Fatal(err)
	}
	replace(t, cl, replaced)
	after := l.Confirmed() + 1000
	eventually(t, 60*time.Second, "enqueues go on", func(context.Context) bool { return l.Confirmed() >= after })
	cancel()
	if err := <-producing; err != nil {
		t.Fatal(err)
	}
	takeAll(t, l, "q", c.Addrs()...)
	audit(t, c, l, "q")
	verify(t, cl, 3)
}

// replace wipes a stopped node, removes it from the cluster, and starts it again: it joins under a new identity.
func replace(t *testing.T, cl *client.Client, n *proc.Node) {
	t.Helper()
	if err := os.RemoveAll(n.DataDir); err != nil {
		t.Fatal(err)
	}
	if err := cl.Remove(within(t, 30*time.Second), n.Name); err != nil {
		t.Fatal(err)
	}
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	if err := n.WaitReady(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "the wiped node is a voter again", func(ctx context.Context) bool {
		s, err := cl.ClusterStatus(ctx)
		if err != nil {
			return false
		}
		for _, m := range s.Nodes {
			if m.ID == n.Name {
				return m.Voter && m.Alive
			}
		}
		return false
	})
}

// agrees fails the test if a node that could be asked has another state than the rest.
func agrees(t *testing.T, cl *client.Client) {
	t.Helper()
	v, err := cl.Verify(within(t, 30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	digests := map[string]bool{}
	for _, n := range v.Nodes {
		if n.Error == "" {
			digests[n.Digest] = true
		}
	}
	if len(digests) > 1 {
		t.Fatalf("a node read a flipped bit and went on: %+v", v)
	}
}

// flip flips one bit in one of the files that hold the log and the snapshots.
func flip(t *testing.T, rng *rand.Rand, dir string) (file string, at int64) {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && (filepath.Base(p) == "raft.db" || strings.Contains(p, "raft.wal") || strings.Contains(p, "snapshots")) {
			files = append(files, p)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("no log or snapshot below %s (%v)", dir, err)
	}
	file = files[rng.IntN(len(files))]
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	size := st.Size()
	if strings.HasSuffix(file, ".wal") && rng.IntN(2) == 0 {
		size = min(size, 1<<20) // half of the time in what has been written, not in what is only reserved
	}
	at = rng.Int64N(size)
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1 << rng.IntN(8)
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	return file, at
}

// A failing fsync ends the process at once with a non-zero code, and without another answer. (G17)
func TestFailingSyncEndsTheProcess(t *testing.T) { withLogStores(t, testFailingSync) }

func testFailingSync(t *testing.T, args ...string) {
	strace, err := exec.LookPath("strace")
	switch {
	case err != nil && os.Getuid() != 0:
		t.Skip("strace is not installed, and scripts/setup cannot install it without root")
	case err != nil:
		t.Fatal("strace is not installed; scripts/setup installs it")
	}
	c, err := proc.New(proc.Config{Binary: quorateBin, Nodes: 1, Dir: t.TempDir(), Args: args})
	if err != nil {
		t.Fatal(err)
	}
	n := c.Nodes[0]
	t.Cleanup(n.Kill)
	// The count is per thread, so where it strikes varies; that it strikes does not.
	n.Wrap(strace, "-f", "-qq", "-o", filepath.Join(t.TempDir(), "strace.log"), "--seccomp-bpf", "-e", "trace=fdatasync,fsync", "-e", "inject=fdatasync,fsync:error=EIO:when=60+")
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	if err := n.WaitReady(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	cl := open(t, n.ClientAddr)
	var acked uint64
	const most = 5000 // many times what all threads have of syncs that succeed
	for i := range most + 1 {
		if i == most {
			t.Fatalf("%d enqueues were confirmed one after the other, with no more than 60 syncs of a thread that succeed", most)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		r, err := cl.Enqueue(ctx, "q", client.Message{Body: fmt.Appendf(nil, "%d", i)})
		cancel()
		if err != nil {
			break
		}
		acked = r.Index
	}
	code, err := n.Exited(within(t, 10*time.Second))
	if err != nil {
		t.Fatalf("the process goes on after a sync that failed: %v", err)
	}
	log, _ := os.ReadFile(n.LogFile)
	if code == 0 || !strings.Contains(string(tail(log, 2000)), "input/output error") {
		t.Fatalf("exit code %d, want non-zero and the error named; log ends:\n%s", code, tail(log, 2000))
	}
	// Every index that was answered is there after a restart without the fault.
	n.Wrap()
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	if err := n.WaitReady(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	r, err := open(t, n.ClientAddr).Enqueue(within(t, 10*time.Second), "q", client.Message{Body: []byte("after")})
	if err != nil {
		t.Fatal(err)
	}
	if acked == 0 || r.Index <= acked {
		t.Fatalf("index %d was answered before the failure, %d after the restart", acked, r.Index)
	}
}
