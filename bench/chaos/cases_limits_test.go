package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
)

// Many messages of the greatest size at once fail nowhere and cost no election; a byte more is refused, and so is a batch
// item of it, with its field. (C20)
func TestGreatestMessagesCostNoElection(t *testing.T) {
	c := start(t, 3)
	cl := open(t, c.Addrs()...)
	const rounds = 5 // a leader may lose touch with late followers on a busy machine: such a round shows nothing
	for round := range rounds {
		before := status(t, cl)
		greatest(t, cl)
		after := status(t, cl)
		if after.Term == before.Term {
			break
		}
		t.Logf("round %d: term %d became %d", round+1, before.Term, after.Term)
		if round == rounds-1 {
			t.Errorf("there was an election under messages of 1 MiB in each of %d rounds", rounds)
		}
	}
	verify(t, cl, 3)
}

// greatest has messages of the greatest size go in at once, and out.
func greatest(t *testing.T, cl *client.Client) {
	t.Helper()
	const many, most = 60, 1 << 20
	body := make([]byte, most)
	var wg sync.WaitGroup
	errs := make([]error, many)
	for i := range many {
		wg.Go(func() { _, errs[i] = cl.Enqueue(within(t, time.Minute), "great", client.Message{Body: body}) })
	}
	_, err := cl.Enqueue(within(t, time.Minute), "great", client.Message{Body: make([]byte, most+1)})
	if e := refused(t, "a byte more", err, client.ErrTooLarge); e.Field != "body" || !strings.Contains(e.Message, fmt.Sprint(most)) {
		t.Errorf("the error names field %q and says %q, want body and the limit", e.Field, e.Message)
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if q := counts(t, cl, "great", [5]int64{0: many}); q.Bytes < many*most {
		t.Errorf("%d bytes are counted, want at least %d", q.Bytes, many*most)
	}
	// All come out, a bounded number of bytes an answer.
	for got := 0; got < many; {
		ds, err := cl.Lease(within(t, time.Minute), "great", client.LeaseOptions{Max: 1000, Wait: 20 * time.Second, Lease: time.Minute})
		if err != nil || len(ds) == 0 || len(ds) > 4 {
			t.Fatalf("leased %d of the greatest messages at once, %v, want one to four (4 MiB)", len(ds), err)
		}
		for _, d := range ds {
			if len(d.Body) != most {
				t.Fatalf("a body of %d bytes", len(d.Body))
			}
			ack(t, cl, d, "")
		}
		got += len(ds)
	}
}

// A node that can write no more ends with one line that names the file, be it leader or follower; the others go on and lose
// nothing; with room again it starts on its data and catches up. (C5, C6, G17)
func TestNoRoomEndsTheNode(t *testing.T) {
	c := start(t, 3)
	cl := open(t, c.Addrs()...)
	l := NewLedger()
	ctx, cancel := context.WithCancel(t.Context())
	produced := make(chan error, 1)
	go func() { produced <- l.Produce(ctx, cl, "room", 32<<10, 16) }()
	for _, role := range []string{"follower", "leader"} {
		more(t, l, 50, "enqueues are confirmed")
		victim := follower(t, c)
		if err := victim.Stop(); err != nil {
			t.Error(err)
		}
		// A limit on the size of files stands for a full disk: a write fails, as it would there.
		limit := int64(0)
		for _, f := range dataFiles(t, victim) {
			limit = max(limit, f)
		}
		// The store grows its file by up to 16 MiB at once.
		victim.Wrap("sh", "-c", fmt.Sprintf(`ulimit -f %d; exec "$@"`, (limit+(20<<20))/512), "sh")
		if err := victim.Start(); err != nil {
			t.Fatal(err)
		}
		victim.Wrap()
		// What it took in meanwhile may be a snapshot too large for it: then it ends before it is ready.
		if err := victim.WaitReady(within(t, time.Minute)); err != nil && victim.Running() {
			t.Fatal(err)
		}
		if role == "leader" {
			eventually(t, 30*time.Second, victim.Name+" leads", func(ctx context.Context) bool {
				return !victim.Running() || victim.Leads(ctx) || cl.Transfer(ctx, victim.Name) == nil
			})
		}
		code, err := victim.Exited(within(t, time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		log, err := os.ReadFile(victim.LogFile)
		if err != nil {
			t.Fatal(err)
		}
		if last := string(tail(log, 3000)); code <= 0 || !strings.Contains(last, victim.DataDir) || !strings.Contains(last, "file too large") || strings.Contains(last, "goroutine ") {
			t.Errorf("as %s it ends with exit code %d; want non-zero and a line that names the file and the error, log ends:\n%s", role, code, last)
		}
		more(t, l, 50, "enqueues go on without the node")
		revive(t, cl, victim)
	}
	cancel()
	if err := <-produced; err != nil {
		t.Fatal(err)
	}
	consume(t, c, l, "room")
	audit(t, c, l, "room")
	verify(t, cl, 3)
}

// consume drains a queue with the ledger's handler.
func consume(t *testing.T, c *proc.Cluster, l *Ledger, queue string) {
	t.Helper()
	cl := open(t, c.Addrs()...)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- cl.Consume(ctx, queue, client.ConsumeOptions{Concurrency: 16, Prefetch: 256, DrainTimeout: 5 * time.Second}, l.Handle)
	}()
	drained(t, cl, queue)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// dataFiles is the sizes of a node's files by path.
func dataFiles(t *testing.T, n *proc.Node) map[string]int64 {
	t.Helper()
	sizes := map[string]int64{}
	err := filepath.Walk(n.DataDir, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			sizes[path] = info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sizes
}
