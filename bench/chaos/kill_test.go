package chaos

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
)

// load runs producers and consumers, each with a client of its own, until stop is called; stop waits for them.
func load(t *testing.T, c *proc.Cluster, l *Ledger, queue string, producers, consumers int) (stop func()) {
	t.Helper()
	pctx, stopProducers := context.WithCancel(t.Context())
	cctx, stopConsumers := context.WithCancel(t.Context())
	var ps, cs sync.WaitGroup
	for range producers {
		cl := open(t, c.Addrs()...)
		ps.Go(func() {
			if err := l.Produce(pctx, cl, queue, 256, 64); err != nil {
				t.Errorf("producer: %v", err)
			}
		})
	}
	for range consumers {
		cl := open(t, c.Addrs()...)
		cs.Go(func() {
			err := cl.Consume(cctx, queue, client.ConsumeOptions{Concurrency: 8, Prefetch: 64, Lease: 3 * time.Second, DrainTimeout: 5 * time.Second}, l.Handle)
			if err != nil && cctx.Err() == nil {
				t.Errorf("consumer: %v", err)
			}
		})
	}
	watch := open(t, c.Addrs()...)
	return sync.OnceFunc(func() {
		stopProducers()
		ps.Wait()
		drained(t, watch, queue)
		stopConsumers()
		cs.Wait()
	})
}

// takeAll works off what is in a queue, and returns when it is empty.
func takeAll(t *testing.T, l *Ledger, queue string, addrs ...string) {
	t.Helper()
	cl := open(t, addrs...)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	consuming := make(chan error, 1)
	go func() {
		consuming <- cl.Consume(ctx, queue, client.ConsumeOptions{Concurrency: 16, Prefetch: 256, DrainTimeout: 5 * time.Second}, l.Handle)
	}()
	drained(t, cl, queue)
	stop()
	if err := <-consuming; err != nil {
		t.Errorf("consumer: %v", err)
	}
}

// audit fails the test on anything lost or invented.
func audit(t *testing.T, c *proc.Cluster, l *Ledger, queue string) Report {
	t.Helper()
	cl := open(t, c.Addrs()...)
	r, err := l.Check(within(t, 3*time.Minute), cl, queue)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("confirmed %d, refused %d, unknown %d (recovered %d), delivered %d (again %d), longest gap between confirms %s",
		r.Confirmed, r.Refused, r.Unknown, r.Recovered, r.Delivered, r.Repeated, r.LongestGap)
	for i, what := range r.Lost {
		if i == 10 {
			t.Errorf("… %d lost in all", len(r.Lost))
			break
		}
		t.Errorf("lost: %s", what)
	}
	for i, what := range r.Phantom {
		if i == 10 {
			t.Errorf("… %d phantoms in all", len(r.Phantom))
			break
		}
		t.Errorf("phantom: %s", what)
	}
	q, err := cl.Queue(within(t, time.Minute), queue)
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(r.Confirmed + r.Recovered); q.Results != want {
		t.Errorf("%d results are recorded, want one for each of %d tasks", q.Results, want)
	}
	return r
}

// Killing any node at any moment loses nothing, invents nothing, records one result a task, and leaves equal states; the
// longest gap between confirmed enqueues stays short.
func TestKillAnyNode(t *testing.T) { withLogStores(t, testKillAnyNode) }

func testKillAnyNode(t *testing.T, args ...string) {
	rng := draw(t)
	c := start(t, 3, args...)
	setup := open(t, c.Addrs()...)
	if err := setup.CreateQueue(within(t, 10*time.Second), "w3", client.QueueOptions{MaxResultsBytes: 4 << 30}); err != nil {
		t.Fatal(err)
	}
	l := NewLedger()
	stop := load(t, c, l, "w3", 2, 2)
	leaders := 0
	for i := range *killsFlag {
		// At any moment: after a random number of further confirms, so that the load sets the pace.
		after := l.Confirmed() + 500 + rng.IntN(3000)
		eventually(t, 30*time.Second, "enqueues are confirmed", func(context.Context) bool { return l.Confirmed() >= after })
		n := c.Nodes[rng.IntN(len(c.Nodes))]
		leads := n.Leads(within(t, 5*time.Second))
		if leads {
			leaders++
		}
		n.Kill()
		t.Logf("kill %d: %s (leader: %v)", i+1, n.Name, leads)
		after = l.Confirmed() + 200
		eventually(t, 30*time.Second, "enqueues are confirmed with one node down", func(context.Context) bool { return l.Confirmed() >= after })
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
		if err := n.WaitReady(within(t, 30*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	r := audit(t, c, l, "w3")
	verify(t, setup, 3)
	if r.LongestGap > longGap {
		t.Errorf("the longest gap between confirmed enqueues is %s, want less than %s", r.LongestGap, longGap)
	}
	t.Logf("%d of %d kills hit the leader", leaders, *killsFlag)
}

// Killing all three at once, and stopping all three in order, loses nothing.
func TestAllNodesDown(t *testing.T) { withLogStores(t, testAllNodesDown) }

func testAllNodesDown(t *testing.T, args ...string) {
	for _, tc := range []struct {
		name string
		down func(t *testing.T, c *proc.Cluster)
	}{
		{"killed at once", func(_ *testing.T, c *proc.Cluster) { c.Kill() }},
		{"stopped in order", func(t *testing.T, c *proc.Cluster) {
			if err := c.Stop(); err != nil {
				t.Error(err)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := start(t, 3, args...)
			l := NewLedger()
			stop := load(t, c, l, "q", 1, 1)
			eventually(t, 30*time.Second, "enqueues are confirmed", func(context.Context) bool { return l.Confirmed() >= 3000 })
			tc.down(t, c)
			if err := c.Start(within(t, time.Minute)); err != nil {
				t.Fatal(err)
			}
			after := l.Confirmed() + 1000
			eventually(t, 30*time.Second, "enqueues are confirmed again", func(context.Context) bool { return l.Confirmed() >= after })
			stop()
			audit(t, c, l, "q")
			verify(t, open(t, c.Addrs()...), 3)
		})
	}
}
