package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/chaos/nemesis"
	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/fsm/mutant"
)

var (
	seedFlag     = flag.Uint64("seed", 0, "seed of what is drawn; 0 draws one")
	killsFlag    = flag.Int("kills", 3, "how many kills TestKillAnyNode makes")
	flipsFlag    = flag.Int("flips", 4, "how many bits TestFlippedBit flips")
	reportFlag   = flag.String("report", "", "file to which tests of crashes append what they have come to; empty: only the log says it")
	togetherFlag = flag.Int("together", 2, "how many single nodes, or damaged clusters, the tests that have many of them work on at once")
)

// quorateBin is the binary that all tests run.
var quorateBin string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(func() int {
		if status, done := nemesis.Enclose(); done {
			return status
		}
		dir, err := os.MkdirTemp("", "quorate-chaos-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		quorateBin = filepath.Join(dir, "quorate")
		build := exec.Command("go", "build", "-tags", mutant.Tag(), "-o", quorateBin, "github.com/quorate/quorate/cmd/quorate")
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "build the binary:", err)
			return 1
		}
		return m.Run()
	}())
}

// binaries are the ones that tests have had built beside quorateBin, in the same folder.
var binaries struct {
	sync.Mutex
	built map[string]string // by tags and flags
}

// binaryWith builds the binary with these tags, beside the one of this test binary's planted bug, and flags of go build: once for all tests.
func binaryWith(t *testing.T, tags string, flags ...string) string {
	t.Helper()
	binaries.Lock()
	defer binaries.Unlock()
	tags += "," + mutant.Tag()
	key := fmt.Sprint(tags, flags)
	if bin, ok := binaries.built[key]; ok {
		return bin
	}
	bin := filepath.Join(filepath.Dir(quorateBin), fmt.Sprintf("quorate-%d", len(binaries.built)))
	args := append([]string{"build", "-tags", tags, "-o", bin}, flags...)
	build := exec.CommandContext(t.Context(), "go", append(args, "github.com/quorate/quorate/cmd/quorate")...)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the binary: %v\n%s", err, out)
	}
	if binaries.built == nil {
		binaries.built = map[string]string{}
	}
	binaries.built[key] = bin
	return bin
}

// draw is a seeded source; the seed is printed.
func draw(t *testing.T) *rand.Rand {
	s := *seedFlag
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("seed %d (repeat with -seed)", s)
	return rand.New(rand.NewPCG(s, 1))
}

// within bounds a test step.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// logStores are the kinds of log store; what goes for the disk goes for each.
var logStores = []string{"bolt", "wal"}

// withLogStores runs a test with each; args are for the nodes.
func withLogStores(t *testing.T, f func(t *testing.T, args ...string)) {
	t.Helper()
	for _, s := range logStores {
		t.Run(s, func(t *testing.T) { f(t, "--raft-log-store", s) })
	}
}

// report logs what a test has come to, and appends it to the file that -report names.
func report(t *testing.T, format string, args ...any) {
	t.Helper()
	text := fmt.Sprintf(format, args...)
	t.Log(text)
	if *reportFlag == "" {
		return
	}
	f, err := os.OpenFile(*reportFlag, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintf(f, "%s: %s\n", t.Name(), text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Errorf("report: %v", err)
	}
}

// eachOf runs n tests, some of them at once.
func eachOf(t *testing.T, n, atOnce int, name func(i int) string, f func(t *testing.T, i int)) {
	t.Helper()
	next := make(chan int)
	var wg sync.WaitGroup
	for range max(min(n, atOnce), 1) {
		wg.Go(func() {
			for i := range next {
				t.Run(name(i), func(t *testing.T) { f(t, i) })
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// start starts n nodes; they are killed when the test ends.
func start(t *testing.T, n int, args ...string) *proc.Cluster {
	t.Helper()
	return startWith(t, proc.Config{Binary: quorateBin, Nodes: n, Dir: t.TempDir(), Args: args})
}

// startWith starts nodes of any kind; they are killed when the test ends.
func startWith(t *testing.T, cfg proc.Config) *proc.Cluster {
	t.Helper()
	c, err := proc.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Kill()
		if t.Failed() {
			for _, n := range c.Nodes {
				b, _ := os.ReadFile(n.LogFile)
				t.Logf("log of %s:\n%s", n.Name, tail(b, 4000))
			}
		}
	})
	if err := c.Start(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	return c
}

func tail(b []byte, n int) []byte {
	if len(b) > n {
		return b[len(b)-n:]
	}
	return b
}

// open connects a client that is closed when the test ends.
func open(t *testing.T, addrs ...string) *client.Client {
	t.Helper()
	return openWith(t, client.Options{Addrs: addrs, Name: "chaos", Timeout: time.Minute})
}

// impatient is a client that does not try again what a full queue refuses.
func impatient(t *testing.T, addrs ...string) *client.Client {
	t.Helper()
	return openWith(t, client.Options{Addrs: addrs, Name: "impatient", Timeout: time.Minute, FailWhenFull: true})
}

func openWith(t *testing.T, o client.Options) *client.Client {
	t.Helper()
	cl, err := client.Open(within(t, 30*time.Second), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = cl.Close(ctx)
	})
	return cl
}

// eventually polls what other processes do, which no signal tells, until ok or the time is up.
func eventually(t *testing.T, d time.Duration, what string, ok func(ctx context.Context) bool) {
	t.Helper()
	ctx := within(t, d)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok(ctx) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within %s: %s", d, what)
		}
	}
}

// drained waits until nothing is ready, out or waiting in the queue.
func drained(t *testing.T, cl *client.Client, queue string) {
	t.Helper()
	var last client.QueueInfo
	ctx := within(t, 2*time.Minute)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		q, err := cl.Queue(ctx, queue)
		if err == nil {
			if last = q; q.Pending+q.Processing+q.Scheduled+q.Retrying == 0 {
				return
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("queue %s is not empty after two minutes: %+v (%v)", queue, last, err)
		}
	}
}

// verify demands equal digests on every node.
func verify(t *testing.T, cl *client.Client, nodes int) {
	t.Helper()
	var v client.Verified
	eventually(t, 30*time.Second, "equal state digests on all nodes", func(ctx context.Context) bool {
		got, err := cl.Verify(ctx)
		if err != nil {
			return false
		}
		v = got
		for _, n := range v.Nodes {
			if n.Error != "" {
				return false // a node that is catching up
			}
		}
		return len(v.Nodes) == nodes
	})
	if !v.Equal {
		t.Fatalf("the nodes' states differ: %+v", v)
	}
}
