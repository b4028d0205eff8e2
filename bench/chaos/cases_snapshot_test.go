package chaos

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
)

var stateFlag = flag.Int("state", 24, "MB of messages that wait while TestSnapshotsOfALargeState has snapshots taken under load; 1000 for a large state")

// Nodes with much in their state take one snapshot after the other under load: nobody else is elected, the rest goes on, memory stays within
// twice the state, and all have the same afterwards. (C21)
func TestSnapshotsOfALargeState(t *testing.T) {
	const size, each = 2048, 256
	many := *stateFlag << 20 / size / each * each
	c := startWith(t, proc.Config{Binary: chaosBinary(t), Nodes: 3, Dir: t.TempDir(), Env: []string{"QUORATE_CHAOS_SNAPSHOT_BYTES=1048576"}})
	cl := open(t, c.Addrs()...)
	batch := make([]client.Message, each)
	for i := range batch {
		batch[i].Body = bytes.Repeat([]byte{byte(i)}, size)
	}
	for range many / each {
		if _, errs := cl.EnqueueBatch(within(t, time.Minute), "large", batch); errors.Join(errs...) != nil {
			t.Fatal(errors.Join(errs...))
		}
	}
	taken := func(n *proc.Node) int {
		b, err := os.ReadFile(n.LogFile)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Count(b, []byte(`msg="snapshot taken"`))
	}
	most := int64(0)
	const rounds = 3 // a leader may lose touch with late followers on a busy machine: such a round shows nothing of elections
	for round := range rounds {
		queue := fmt.Sprint("churn-", round)
		before := status(t, cl)
		from := map[*proc.Node]int{}
		for _, n := range c.Nodes {
			from[n] = taken(n)
		}
		b := startBeat(t, cl, "beat")
		l := NewLedger()
		pctx, stopProducing := context.WithCancel(t.Context())
		cctx, stopConsuming := context.WithCancel(t.Context())
		produced, consumed := make(chan error, 1), make(chan error, 1)
		producer, consumer := open(t, c.Addrs()...), open(t, c.Addrs()...)
		go func() { produced <- l.Produce(pctx, producer, queue, 64<<10, 16) }()
		go func() {
			consumed <- consumer.Consume(cctx, queue, client.ConsumeOptions{Concurrency: 8, Prefetch: 32, DrainTimeout: 5 * time.Second}, l.Handle)
		}()
		eventually(t, time.Duration(60+*stateFlag)*time.Second, "each node has taken three snapshots", func(context.Context) bool {
			all := true
			for _, n := range c.Nodes {
				most = max(most, n.RSS())
				all = all && taken(n) >= from[n]+3
			}
			return all
		})
		b.lap(t, "snapshots under load")
		b.stop()
		<-b.done
		stopProducing()
		if err := <-produced; err != nil {
			t.Error(err)
		}
		drained(t, cl, queue)
		stopConsuming()
		if err := <-consumed; err != nil {
			t.Error(err)
		}
		audit(t, c, l, queue)
		after := status(t, cl)
		if after.Term == before.Term {
			break
		}
		t.Logf("round %d: term %d became %d", round+1, before.Term, after.Term)
		if round == rounds-1 {
			t.Errorf("another leader was elected in each of %d rounds", rounds)
		}
	}
	state := int64(many * size)
	t.Logf("a node took up to %d MB for %d MB of messages", most>>20, state>>20)
	if bound := 2*state + 300<<20; most > bound {
		t.Errorf("a node took %d bytes for a state of %d, want %d at most", most, state, bound)
	}
	counts(t, cl, "large", [5]int64{0: int64(many)})
	verify(t, cl, 3)
}
