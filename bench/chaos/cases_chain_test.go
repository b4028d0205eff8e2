package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
)

// pass works a queue with several pullers until it is empty: each message is acked with what then makes of it. An ack whose
// outcome is unknown is sent again with the same token; one whose lease was lost leaves the message to whoever has it now.
func pass(t *testing.T, c *proc.Cluster, queue string, workers int, then func(body string) []client.Then) {
	t.Helper()
	ctx, stop := context.WithCancel(within(t, 3*time.Minute))
	var wg sync.WaitGroup
	var again, lost atomic.Int64
	for range workers {
		cl := open(t, c.Addrs()...)
		wg.Go(func() {
			for ctx.Err() == nil {
				ds, err := cl.Lease(ctx, queue, client.LeaseOptions{Max: 8, Wait: time.Second, Lease: 3 * time.Second})
				if err != nil && ctx.Err() == nil && !client.Unknown(err) && !errors.Is(err, client.ErrUnavailable) {
					t.Errorf("lease of %s: %v", queue, err)
					return
				}
				for _, d := range ds {
					err := errors.New("not yet")
					for err != nil && ctx.Err() == nil {
						_, err = cl.Ack(ctx, d.Token, client.AckOptions{Then: then(string(d.Body))})
						if errors.Is(err, client.ErrLeaseLost) || errors.Is(err, client.ErrNotFound) {
							lost.Add(1)
							break
						}
						if err != nil {
							again.Add(1)
						}
						if err != nil && ctx.Err() == nil && !client.Unknown(err) {
							t.Errorf("ack in %s: %v", queue, err)
							return
						}
					}
				}
			}
		})
	}
	drained(t, open(t, c.Addrs()...), queue)
	stop()
	wg.Wait()
	t.Logf("queue %s: %d acks sent again by hand, beyond those that the SDK sends again; %d leases lost", queue, again.Load(), lost.Load())
}

// bodies takes all of a queue and counts each body.
func bodies(t *testing.T, cl *client.Client, queue string) map[string]int {
	t.Helper()
	ctx := within(t, 3*time.Minute)
	got := map[string]int{}
	for {
		ds, err := cl.Lease(ctx, queue, client.LeaseOptions{Max: 1000, Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if len(ds) == 0 {
			return got
		}
		for _, d := range ds {
			got[string(d.Body)]++
		}
	}
}

// each demands n bodies, each once.
func each(t *testing.T, what string, got map[string]int, n int) {
	t.Helper()
	for i := range n {
		if k := got[fmt.Sprint(i)]; k != 1 {
			t.Errorf("%s: message %d is there %d times, want once", what, i, k)
		}
	}
	if len(got) != n {
		t.Errorf("%s: %d different messages, want %d", what, len(got), n)
	}
}

// killer kills the leader and starts it again, so many times, a pause of work in between; the returned function waits for it.
func killer(t *testing.T, c *proc.Cluster, kills int) (wait func()) {
	done := make(chan struct{})
	ctx := within(t, 3*time.Minute)
	go func() {
		defer close(done)
		for range kills {
			l, err := c.Leader(ctx)
			if err != nil {
				t.Errorf("no leader to kill: %v", err)
				return
			}
			l.Kill()
			if err := l.Start(); err != nil {
				t.Errorf("start %s again: %v", l.Name, err)
				return
			}
			if err := l.WaitReady(ctx); err != nil {
				t.Errorf("%s: %v", l.Name, err)
				return
			}
		}
	}()
	return func() { <-done }
}

// A chain over four queues loses and doubles nothing, whoever leads meanwhile: what an ack enqueues, it enqueues once.
func TestChainAcrossKills(t *testing.T) {
	const n = 2500
	c := start(t, 3)
	cl := open(t, c.Addrs()...)
	ms := make([]client.Message, n)
	for i := range ms {
		ms[i].Body = fmt.Append(nil, i)
	}
	if _, errs := cl.EnqueueBatch(within(t, time.Minute), "first", ms); errors.Join(errs...) != nil {
		t.Fatal(errors.Join(errs...))
	}
	to := func(queues ...string) func(string) []client.Then {
		return func(body string) (then []client.Then) {
			for _, q := range queues {
				then = append(then, client.Then{Queue: q, Message: client.Message{Body: []byte(body)}})
			}
			return then
		}
	}
	wait := killer(t, c, 3)
	pass(t, c, "first", 3, to("second", "side"))
	pass(t, c, "second", 3, to("last"))
	wait()
	each(t, "side", bodies(t, cl, "side"), n)
	each(t, "last", bodies(t, cl, "last"), n)
	verify(t, cl, 3)
}

// A batch's callback comes once, with the right counts, whoever leads while its members end: most succeed, some die, some are
// cancelled, some are purged, and some join through the acks of others.
func TestBatchAcrossKills(t *testing.T) {
	const n, dead, cancelled, purged = 1200, 7, 5, 20
	c := start(t, 3)
	cl := open(t, c.Addrs()...)
	ctx := within(t, 3*time.Minute)
	b, err := cl.CreateBatch(ctx, "reports", client.Message{Body: []byte("all are in")})
	if err != nil {
		t.Fatal(err)
	}
	add := func(queue string, n int) []client.Receipt {
		t.Helper()
		ms := make([]client.Message, n)
		for i := range ms {
			ms[i] = client.Message{Body: fmt.Append(nil, i), Batch: b}
		}
		rs, errs := cl.EnqueueBatch(ctx, queue, ms)
		if err := errors.Join(errs...); err != nil {
			t.Fatalf("members of %s: %v", queue, err)
		}
		return rs
	}
	wait := killer(t, c, 3)
	add("work", n)
	// Every member of work adds one to more, before the batch is sealed.
	pass(t, c, "work", 3, func(body string) []client.Then {
		return []client.Then{{Queue: "more", Message: client.Message{Body: []byte(body), Batch: b}}}
	})
	add("doomed", dead)
	add("purged", purged)
	stopped := add("stopped", cancelled)
	if err := cl.SealBatch(ctx, b); err != nil {
		t.Fatal(err)
	}
	if _, err := cl.Enqueue(ctx, "work", client.Message{Batch: b}); !errors.Is(err, client.ErrFailedPrecondition) {
		t.Errorf("a member after the seal: %v", err)
	}
	for _, r := range stopped {
		if _, err := cl.Cancel(ctx, "stopped", r.ID); err != nil {
			t.Errorf("cancel: %v", err)
		}
	}
	if k, err := cl.PurgeQueue(ctx, "purged"); err != nil || k != purged {
		t.Errorf("purged %d, %v", k, err)
	}
	ds, err := cl.Lease(ctx, "doomed", client.LeaseOptions{Max: dead, Lease: time.Minute})
	if err != nil || len(ds) != dead {
		t.Fatalf("leased %d, %v", len(ds), err)
	}
	for _, d := range ds {
		if _, err := cl.Nack(ctx, d.Token, client.NackOptions{Permanent: true}); err != nil {
			t.Errorf("nack: %v", err)
		}
	}
	if got := bodies(t, cl, "reports"); len(got) != 0 {
		t.Fatalf("a callback while %d members are open: %v", n, got)
	}
	pass(t, c, "more", 3, func(string) []client.Then { return nil })
	wait()

	in, err := cl.Batch(ctx, b)
	if err != nil {
		t.Fatal(err)
	}
	if in.Open != 0 || in.Members != 2*n+dead+cancelled+purged || in.Succeeded != 2*n || in.Dead != dead || in.Cancelled != cancelled+purged {
		t.Errorf("counts are %+v", in)
	}
	ds, err = cl.Lease(ctx, "reports", client.LeaseOptions{Max: 10, Wait: 10 * time.Second, Lease: time.Minute})
	if err != nil || len(ds) != 1 {
		t.Fatalf("%d callbacks, %v; want one", len(ds), err)
	}
	headers := map[string]string{}
	for _, h := range ds[0].Headers {
		headers[h.Name] = h.Value
	}
	if ds[0].ID != in.CallbackID || headers["batch_id"] != b || headers["batch_succeeded"] != fmt.Sprint(2*n) || headers["batch_dead"] != fmt.Sprint(dead) {
		t.Errorf("the callback is %s with %v, want %s", ds[0].ID, headers, in.CallbackID)
	}
	if _, err := cl.Ack(ctx, ds[0].Token, client.AckOptions{}); err != nil {
		t.Error(err)
	}
	if got := bodies(t, cl, "reports"); len(got) != 0 {
		t.Errorf("more callbacks: %v", got)
	}
	verify(t, cl, 3)
}
