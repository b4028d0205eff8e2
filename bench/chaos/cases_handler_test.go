package chaos

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
)

// Five rolling restarts of a worker in the middle of a task of three attempts cost none: it ends done, at its first. (C38)
func drains(t *testing.T, cl *client.Client) {
	r := put(t, cl, "drains", client.Message{Retry: fixed(time.Hour, 3)})
	for i := range 5 {
		ctx, stop := context.WithCancel(t.Context())
		started := make(chan int, 16)
		ended := make(chan error, 1)
		go func() {
			ended <- cl.Consume(ctx, "drains", client.ConsumeOptions{DrainTimeout: -1, Lease: time.Minute}, func(ctx context.Context, d *client.Delivery) (*client.Result, error) {
				started <- d.Attempt
				<-ctx.Done()
				return nil, context.Cause(ctx)
			})
		}()
		select {
		case n := <-started:
			if n != 1 {
				t.Errorf("after %d drains it is attempt %d, want 1", i, n)
			}
		case <-within(t, 30*time.Second).Done():
			t.Fatalf("not delivered again after %d drains", i)
		}
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		counts(t, cl, "drains", [5]int64{0: 1}) // at once
	}
	ack(t, cl, take(t, cl, "drains", time.Minute), "done")
	if res, err := cl.Result(within(t, 30*time.Second), "", r.ID); err != nil || res.Result.Attempts != 1 {
		t.Errorf("result %+v, %v, want one of the first attempt", res, err)
	}
}

// A task as long as five leases is extended and runs once. (C40)
func longTask(t *testing.T, cl *client.Client) {
	r := put(t, cl, "long", client.Message{})
	var runs atomic.Int32
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- cl.Consume(ctx, "long", client.ConsumeOptions{Lease: 4 * time.Second, Concurrency: 2}, func(ctx context.Context, d *client.Delivery) (*client.Result, error) {
			runs.Add(1)
			work := time.NewTimer(20 * time.Second)
			defer work.Stop()
			select {
			case <-work.C:
				return &client.Result{Output: []byte("long")}, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		})
	}()
	res, err := cl.WaitResult(within(t, 60*time.Second), "", r.ID)
	if err != nil || res.Result == nil || res.Result.Attempts != 1 || res.Result.Duration < 18800*time.Millisecond {
		t.Errorf("result %+v, %v, want one of the first attempt after 20 s (less 6 %%, the clocks' difference)", res, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := runs.Load(); n != 1 {
		t.Errorf("it ran %d times", n)
	}
	if q := counts(t, cl, "long", [5]int64{}); q.Totals["expired"] != 0 {
		t.Errorf("%d leases expired", q.Totals["expired"])
	}
}

// A panic fails the attempt at once with its text; a hang ends with the message's own timeout, however long the handler
// would have the lease extended; a timeout longer than the lease is respected. (C40)
func panicHangTimeout(t *testing.T, cl *client.Client) {
	policy := fixed(10*time.Millisecond, 2)
	ids := map[string]client.Receipt{
		"panic": put(t, cl, "handlers", client.Message{Body: []byte("panic"), Retry: policy}),
		"hang":  put(t, cl, "handlers", client.Message{Body: []byte("hang"), Retry: policy, Timeout: 4 * time.Second}),
		"slow":  put(t, cl, "handlers", client.Message{Body: []byte("slow"), Retry: policy, Timeout: 30 * time.Second}),
	}
	release := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- cl.Consume(ctx, "handlers", client.ConsumeOptions{Lease: 3 * time.Second, Concurrency: 6, DrainTimeout: 5 * time.Second}, func(ctx context.Context, d *client.Delivery) (*client.Result, error) {
			switch string(d.Body) {
			case "panic":
				panic("at the disco")
			case "hang":
				<-ctx.Done()
				if d.Attempt == 1 {
					<-release // ignores its end
				}
				return nil, context.Cause(ctx)
			}
			work := time.NewTimer(8 * time.Second)
			defer work.Stop()
			select {
			case <-work.C:
				return &client.Result{Output: []byte("slow")}, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		})
	}()
	d := becomes(t, cl, ids["panic"].ID, "dead")
	if d.Attempts != 2 || !strings.Contains(d.Error, "at the disco") {
		t.Errorf("after two panics the dead letter is %+v, want two attempts and the panic's text", d)
	}
	d = becomes(t, cl, ids["hang"].ID, "dead")
	if d.Attempts != 2 || d.Reason != "max_attempts" || len(d.History) != 2 {
		t.Errorf("after two hangs the dead letter is %+v, want two attempts", d)
	}
	for _, a := range d.History {
		// Each ran for 4 s at most, waits and the machine apart: the attempts' ends are what is recorded.
		if a.Error == "" {
			t.Errorf("attempt without an error: %+v", a)
		}
	}
	res, err := cl.WaitResult(within(t, 60*time.Second), "", ids["slow"].ID)
	if err != nil || res.Result == nil || res.Result.Attempts != 1 {
		t.Errorf("the slow one ended as %+v, %v, want a result of its first attempt", res, err)
	}
	close(release)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
