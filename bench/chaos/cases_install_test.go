package chaos

import (
	"bytes"
	"context"
	"os"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
)

// A node that was away until what it lacks has been compacted away is given a snapshot, while writes go on at full rate, also
// when it is killed in the middle; it then has the state of the others. (C4, C9)
func TestLaggardIsGivenASnapshot(t *testing.T) {
	c := startWith(t, proc.Config{Binary: chaosBinary(t), Nodes: 3, Dir: t.TempDir(), Env: []string{"QUORATE_CHAOS_SNAPSHOT_BYTES=33554432"}})
	cl := open(t, c.Addrs()...)
	l := NewLedger()
	victim := follower(t, c)
	victim.Kill()
	const size, window = 64 << 10, 64
	pctx, stopProducing := context.WithCancel(t.Context())
	produced := make(chan error, 1)
	go func() { produced <- l.Produce(pctx, cl, "install", size, window) }()
	consumer := open(t, c.Addrs()...)
	cctx, stopConsuming := context.WithCancel(t.Context())
	consumed := make(chan error, 1)
	go func() {
		consumed <- consumer.Consume(cctx, "install", client.ConsumeOptions{Concurrency: 16, Prefetch: 64, DrainTimeout: 5 * time.Second}, l.Handle)
	}()
	// The log is compacted at 32 MiB down to about 16.
	more(t, l, (40<<20)/size, "40 MiB are confirmed")
	seen := func() int64 {
		log, err := os.ReadFile(victim.LogFile)
		if err != nil {
			t.Fatal(err)
		}
		return int64(len(log))
	}
	from := seen()
	since := func(text string) bool {
		log, err := os.ReadFile(victim.LogFile)
		return err == nil && bytes.Contains(bytes.ToLower(log[from:]), []byte(text))
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 60*time.Second, "a snapshot is on its way", func(context.Context) bool { return since("snapshot") })
	victim.Kill()
	from = seen()
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	if err := victim.WaitReady(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	eventually(t, 60*time.Second, "it has caught up under load", func(ctx context.Context) bool {
		s, err := cl.ClusterStatus(ctx)
		if err != nil {
			return false
		}
		var lead, its uint64
		for _, n := range s.Nodes {
			if n.ID == s.Leader {
				lead = n.Applied
			}
			if n.ID == victim.Name {
				its = n.Applied
			}
		}
		return its > 0 && its+2000 >= lead
	})
	more(t, l, 200, "enqueues go on")
	stopProducing()
	if err := <-produced; err != nil {
		t.Fatal(err)
	}
	drained(t, cl, "install")
	stopConsuming()
	if err := <-consumed; err != nil {
		t.Error(err)
	}
	installs := 0
	for _, n := range c.Nodes {
		log, err := os.ReadFile(n.LogFile)
		if err != nil {
			t.Fatal(err)
		}
		installs += bytes.Count(log, []byte("installing snapshot on"))
	}
	if installs == 0 {
		t.Error("no snapshot was sent: the test shows nothing")
	}
	t.Logf("%d snapshots were sent", installs)
	audit(t, c, l, "install")
	verify(t, cl, 3)
}
