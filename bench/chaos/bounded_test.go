package chaos

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
)

var throughFlag = flag.Int64("through", 220, "MB of log that TestDiskStaysBounded writes")

// While one old message waits and much passes by it, the log and the snapshots stay within what cluster/store states, and the
// message is there in the end, also after a restart. The node is of the chaos build, with a quarter of a release's lengths: more than twice
// of what may lie on disk is written in seconds.
func TestDiskStaysBounded(t *testing.T) {
	most := map[string]int64{ // MiB of log; beside what is kept, what is written while a snapshot is
		"wal":  32 + 16 + 3*16 + 16,
		"bolt": 32 + 16 + 16 + 4 + 32,
	}
	for _, kind := range logStores {
		t.Run(kind, func(t *testing.T) {
			c := startWith(t, proc.Config{
				Binary: chaosBinary(t), Nodes: 1, Dir: t.TempDir(), Args: []string{"--raft-log-store", kind},
				Env: []string{"QUORATE_CHAOS_SNAPSHOT_BYTES=33554432", "QUORATE_CHAOS_SEGMENT_BYTES=16777216"},
			})
			n := c.Nodes[0]
			cl := open(t, c.Addrs()...)
			if _, err := cl.Enqueue(within(t, 10*time.Second), "old", client.Message{Body: []byte("the old one")}); err != nil {
				t.Fatal(err)
			}
			// Where consumers fall behind producers wait: what is queued is in every snapshot.
			create(t, cl, "q", client.QueueOptions{MaxDepth: 1000})
			l := NewLedger()
			pctx, stopProducers := context.WithCancel(t.Context())
			producing, consuming := make(chan error, 1), make(chan error, 1)
			go func() { producing <- l.Produce(pctx, cl, "q", 16<<10, 128) }()
			cctx, stopConsumer := context.WithCancel(t.Context())
			consumer := open(t, c.Addrs()...)
			go func() {
				consuming <- consumer.Consume(cctx, "q", client.ConsumeOptions{Concurrency: 32, Prefetch: 256, DrainTimeout: 5 * time.Second}, l.Handle)
			}()
			var log, snapshots int64
			eventually(t, 5*time.Minute, "enough has been written", func(ctx context.Context) bool {
				log = max(log, taken(t, filepath.Join(n.DataDir, "raft.db"))+taken(t, filepath.Join(n.DataDir, "raft.wal")))
				snapshots = max(snapshots, taken(t, filepath.Join(n.DataDir, "snapshots")))
				return metric(ctx, n, "quorate_raft_log_written_bytes_total") >= float64(*throughFlag)*1e6
			})
			stopProducers()
			if err := <-producing; err != nil {
				t.Fatal(err)
			}
			drained(t, cl, "q")
			stopConsumer()
			<-consuming
			taking := metric(within(t, 10*time.Second), n, "quorate_raft_log_store_bytes")
			t.Logf("%d MB have been written; at most %d MiB of log, %d MiB of snapshots on disk; %.0f MiB of log in the end", *throughFlag, log>>20, snapshots>>20, taking/(1<<20))
			if log>>20 > most[kind] {
				t.Errorf("the log took %d MiB, want at most %d", log>>20, most[kind])
			}
			if *throughFlag*1e6>>20 < 3*most[kind]/2 {
				t.Errorf("%d MB are too little to show anything, want half as much again as the %d MiB of log that there may be", *throughFlag, most[kind])
			}
			if snapshots>>20 > 96 { // three, of a state that holds a thousand messages and results
				t.Errorf("snapshots took %d MiB", snapshots>>20)
			}
			if err := n.Stop(); err != nil {
				t.Fatal(err)
			}
			if err := n.Start(); err != nil {
				t.Fatal(err)
			}
			if err := n.WaitReady(within(t, 30*time.Second)); err != nil {
				t.Fatal(err)
			}
			got, err := open(t, c.Addrs()...).Queue(within(t, 10*time.Second), "old")
			if err != nil || got.Pending != 1 {
				t.Errorf("%+v, %v; want the old message", got, err)
			}
		})
	}
}

// taken is what the files below path take on disk, in bytes. They come and go.
func taken(t *testing.T, path string) (n int64) {
	t.Helper()
	_ = filepath.WalkDir(path, func(p string, _ os.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if st, err := os.Lstat(p); err == nil && st.Mode().IsRegular() {
			n += st.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return nil
	})
	return n
}

// metric is one of a node's metrics without labels, 0 while it does not answer.
func metric(ctx context.Context, n *proc.Node, name string) float64 {
	v, _ := n.Metric(ctx, name)
	return v
}
