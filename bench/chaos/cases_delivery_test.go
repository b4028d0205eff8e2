package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
)

// fixed is the retry policy of one wait, for so many attempts.
func fixed(wait time.Duration, attempts int) *client.RetryPolicy {
	return &client.RetryPolicy{Kind: "fixed", Initial: wait, MaxAttempts: attempts}
}

// create makes a queue.
func create(t *testing.T, cl *client.Client, queue string, o client.QueueOptions) {
	t.Helper()
	if err := cl.CreateQueue(within(t, 30*time.Second), queue, o); err != nil {
		t.Fatal(err)
	}
}

// put enqueues one message.
func put(t *testing.T, cl *client.Client, queue string, m client.Message) client.Receipt {
	t.Helper()
	r, err := cl.Enqueue(within(t, 30*time.Second), queue, m)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// take leases exactly one message, waiting for it.
func take(t *testing.T, cl *client.Client, queue string, lease time.Duration) *client.Delivery {
	t.Helper()
	ds, err := cl.Lease(within(t, 60*time.Second), queue, client.LeaseOptions{Max: 1, Wait: 30 * time.Second, Lease: lease})
	if err != nil || len(ds) != 1 {
		t.Fatalf("leased %d messages of %s (%v), want one", len(ds), queue, err)
	}
	return ds[0]
}

// ack ends a lease with a result.
func ack(t *testing.T, cl *client.Client, d *client.Delivery, output string) client.Acked {
	t.Helper()
	a, err := cl.Ack(within(t, 30*time.Second), d.Token, client.AckOptions{Result: &client.Result{Output: []byte(output)}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// nack ends a lease with failure; a negative wait leaves it to the policy.
func nack(t *testing.T, cl *client.Client, d *client.Delivery, wait time.Duration) client.Nacked {
	t.Helper()
	o := client.NackOptions{Error: "no"}
	if wait >= 0 {
		o.Delay = &wait
	}
	n, err := cl.Nack(within(t, 30*time.Second), d.Token, o)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// task reads where a task stands.
func task(t *testing.T, cl *client.Client, id string) *client.Task {
	t.Helper()
	got, err := cl.Task(within(t, 30*time.Second), "", id)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// becomes waits until a task has the status.
func becomes(t *testing.T, cl *client.Client, id, status string) *client.Task {
	t.Helper()
	var last *client.Task
	eventually(t, 30*time.Second, id+" is "+status, func(ctx context.Context) bool {
		got, err := cl.Task(ctx, "", id)
		if err == nil {
			last = got
		}
		return err == nil && got.Status == status
	})
	return last
}

// counts demands a queue's numbers: pending, processing, scheduled, retrying, dead.
func counts(t *testing.T, cl *client.Client, queue string, want [5]int64) client.QueueInfo {
	t.Helper()
	q, err := cl.Queue(within(t, 30*time.Second), queue)
	if err != nil {
		t.Fatal(err)
	}
	if got := [5]int64{q.Pending, q.Processing, q.Scheduled, q.Retrying, q.Dead}; got != want {
		t.Errorf("queue %s has pending, processing, scheduled, retrying, dead %v, want %v", queue, got, want)
	}
	return q
}

// refused demands an error of a kind whose outcome is certain: nothing happened.
func refused(t *testing.T, what string, err, want error) *client.Error {
	t.Helper()
	var e *client.Error
	if !errors.Is(err, want) || !errors.As(err, &e) {
		t.Errorf("%s: got %v, want %v", what, err, want)
		return &client.Error{}
	}
	if e.Unknown {
		t.Errorf("%s: the outcome is unknown, want refused: %v", what, err)
	}
	return e
}

// stale demands that every use of a token is refused with the error.
func stale(t *testing.T, cl *client.Client, what, token string, want error) {
	t.Helper()
	ctx := within(t, 30*time.Second)
	_, err := cl.Ack(ctx, token, client.AckOptions{Result: &client.Result{Output: []byte("stale")}})
	refused(t, "ack with "+what, err, want)
	_, err = cl.Nack(ctx, token, client.NackOptions{Error: "stale"})
	refused(t, "nack with "+what, err, want)
	_, err = cl.Extend(ctx, token, time.Minute)
	refused(t, "extend with "+what, err, want)
	refused(t, "release with "+what, cl.Release(ctx, token), want)
}

// Leases, tokens and what is answered to those who come late, on three nodes.
func TestLeases(t *testing.T) {
	c := start(t, 3)
	cl := open(t, c.Addrs()...)
	for name, test := range map[string]func(*testing.T, *client.Client){
		"a slow worker's late answers change nothing":        slowWorker,
		"an expired lease is acked while nobody else has it": lateAck,
		"a release leaves the ack open":                      ackAfterRelease,
		"leases end with nobody polling":                     unpolled,
		"waiting retries take no credit":                     retriesTakeNoCredit,
		"the last attempt is followed by the dead letters":   lastAttempt,
		"a lower maximum holds at the next failure":          lowerMaximum,
		"drains cost no attempt":                             drains,
		"a long task runs once":                              longTask,
		"a panic, a hang and a longer timeout":               panicHangTimeout,
		"what extend means and how far":                      extend,
		"work whose message is gone":                         gone,
		"one bad item of a batch":                            badItem,
		"a delay longer than the lease":                      longDelay,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, cl) })
	}
	t.Run("dedup window", func(t *testing.T) { t.Parallel(); dedupWindow(t, cl) })
	t.Run("dedup scope", func(t *testing.T) { t.Parallel(); dedupScope(t, cl) })
}

// The second worker's result stands; the first is refused by its token, before and after. Repeating the ack that won is
// the same success; another result with it is not. (C27, G4, G5)
func slowWorker(t *testing.T, cl *client.Client) {
	create(t, cl, "slow", client.QueueOptions{Retry: fixed(50*time.Millisecond, 3)})
	r := put(t, cl, "slow", client.Message{})
	first := take(t, cl, "slow", 200*time.Millisecond)
	second := take(t, cl, "slow", time.Minute)
	if second.ID != r.ID || second.Attempt != 2 || second.Token <= first.Token {
		t.Fatalf("second delivery is attempt %d of %s with token %s after %s, want attempt 2 of %s with a greater one", second.Attempt, second.ID, second.Token, first.Token, r.ID)
	}
	stale(t, cl, "the token of a lost lease", first.Token, client.ErrLeaseLost)
	ack(t, cl, second, "second")
	stale(t, cl, "the token of a lost lease of a done task", first.Token, client.ErrLeaseLost)
	if a := ack(t, cl, second, "second"); a.Duplicate {
		t.Error("the same ack again is called a duplicate, want the same success")
	}
	_, err := cl.Ack(within(t, 30*time.Second), second.Token, client.AckOptions{Result: &client.Result{Output: []byte("other")}})
	if e := refused(t, "the same token with another result", err, client.ErrAlreadyExists); e.Result == nil || string(e.Result.Output) != "second" {
		t.Errorf("it carries %+v, want the recorded result", e.Result)
	}
	res, err := cl.Result(within(t, 30*time.Second), "", r.ID)
	if err != nil || res.Result == nil || string(res.Result.Output) != "second" || res.Result.Attempts != 2 {
		t.Errorf("result %+v, %v, want the second worker's, of two attempts", res, err)
	}
	counts(t, cl, "slow", [5]int64{})
}

// (C28; across a change of leader in TestLeaderChanges)
func lateAck(t *testing.T, cl *client.Client) {
	create(t, cl, "late", client.QueueOptions{Retry: fixed(time.Hour, 3)})
	r := put(t, cl, "late", client.Message{})
	d := take(t, cl, "late", 100*time.Millisecond)
	becomes(t, cl, r.ID, "retrying")
	ctx := within(t, 30*time.Second)
	_, err := cl.Nack(ctx, d.Token, client.NackOptions{})
	refused(t, "nack after expiry", err, client.ErrLeaseLost)
	_, err = cl.Extend(ctx, d.Token, time.Minute)
	refused(t, "extend after expiry", err, client.ErrLeaseLost)
	refused(t, "release after expiry", cl.Release(ctx, d.Token), client.ErrLeaseLost)
	ack(t, cl, d, "late")
	counts(t, cl, "late", [5]int64{})
	if res, err := cl.Result(ctx, "", r.ID); err != nil || string(res.Result.Output) != "late" {
		t.Errorf("result %+v, %v", res, err)
	}

	// After the last attempt it is dead, and stays so.
	r = put(t, cl, "late", client.Message{Retry: fixed(time.Second, 1)})
	d = take(t, cl, "late", 100*time.Millisecond)
	becomes(t, cl, r.ID, "dead")
	_, err = cl.Ack(ctx, d.Token, client.AckOptions{})
	refused(t, "ack of a message that died of its lease's end", err, client.ErrLeaseLost)
	counts(t, cl, "late", [5]int64{4: 1})
}

// (C28)
func ackAfterRelease(t *testing.T, cl *client.Client) {
	r := put(t, cl, "released", client.Message{})
	d := take(t, cl, "released", time.Minute)
	for range 2 { // the second is the same success
		if err := cl.Release(within(t, 30*time.Second), d.Token); err != nil {
			t.Fatal(err)
		}
	}
	counts(t, cl, "released", [5]int64{0: 1})
	again := take(t, cl, "released", time.Minute)
	if again.Attempt != 1 {
		t.Errorf("after a release it is attempt %d, want 1", again.Attempt)
	}
	stale(t, cl, "the token of a released lease of a message that is out again", d.Token, client.ErrLeaseLost)
	if err := cl.Release(within(t, 30*time.Second), again.Token); err != nil {
		t.Fatal(err)
	}
	ack(t, cl, again, "done all the same")
	if res, err := cl.Result(within(t, 30*time.Second), "", r.ID); err != nil || string(res.Result.Output) != "done all the same" {
		t.Errorf("result %+v, %v", res, err)
	}
	counts(t, cl, "released", [5]int64{})
}

// (C29)
func unpolled(t *testing.T, cl *client.Client) {
	create(t, cl, "unpolled", client.QueueOptions{Retry: fixed(50*time.Millisecond, 2)})
	for range 5 {
		put(t, cl, "unpolled", client.Message{})
	}
	lease := func() {
		ds, err := cl.Lease(within(t, 30*time.Second), "unpolled", client.LeaseOptions{Max: 5, Lease: 300 * time.Millisecond})
		if err != nil || len(ds) != 5 {
			t.Fatalf("leased %d, %v, want five", len(ds), err)
		}
	}
	lease()
	eventually(t, 10*time.Second, "all five are ready again", func(ctx context.Context) bool {
		q, err := cl.Queue(ctx, "unpolled")
		return err == nil && q.Pending == 5
	})
	counts(t, cl, "unpolled", [5]int64{0: 5})
	lease()
	eventually(t, 10*time.Second, "all five are dead", func(ctx context.Context) bool {
		q, err := cl.Queue(ctx, "unpolled")
		return err == nil && q.Dead == 5
	})
	counts(t, cl, "unpolled", [5]int64{4: 5})
}

// (C30)
func retriesTakeNoCredit(t *testing.T, cl *client.Client) {
	for range 4 {
		put(t, cl, "credit", client.Message{})
	}
	got := make(chan *client.Delivery, 16)
	sub, err := cl.Subscribe(within(t, 30*time.Second), "credit", client.SubscribeOptions{Credit: 2, Lease: time.Minute}, func(d *client.Delivery) { got <- d })
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close(within(t, 30*time.Second))
	ctx := within(t, 30*time.Second)
	for i := range 4 {
		select {
		case d := <-got:
			if i < 2 {
				nack(t, cl, d, time.Hour)
			}
		case <-ctx.Done():
			t.Fatalf("%d deliveries, want four: two that wait for their retry must not take the window", i)
		}
	}
	counts(t, cl, "credit", [5]int64{1: 2, 3: 2})
}

// (C31, C54)
func lastAttempt(t *testing.T, cl *client.Client) {
	create(t, cl, "last", client.QueueOptions{Retry: fixed(10*time.Millisecond, 2)})
	r := put(t, cl, "last", client.Message{})
	for range 2 {
		take(t, cl, "last", 100*time.Millisecond)
	}
	d := becomes(t, cl, r.ID, "dead")
	if d.Reason != "max_attempts" || d.Error != "lease expired" || d.Attempts != 2 || len(d.History) != 2 {
		t.Errorf("dead letter %+v, want reason max_attempts, error \"lease expired\", two attempts", d)
	}
	q := counts(t, cl, "last", [5]int64{4: 1})
	if q.Bytes != 0 {
		t.Errorf("%d bytes are live in a queue without live messages", q.Bytes)
	}
}

// Options apply at once to all messages, since policies are read when a decision is made. (C31)
func lowerMaximum(t *testing.T, cl *client.Client) {
	create(t, cl, "lower", client.QueueOptions{Retry: fixed(time.Hour, 10)})
	var ids []string
	for range 2 {
		ids = append(ids, put(t, cl, "lower", client.Message{}).ID)
		for range 3 {
			nack(t, cl, take(t, cl, "lower", time.Minute), 0)
		}
		nack(t, cl, take(t, cl, "lower", time.Minute), 500*time.Millisecond)
	}
	if err := cl.SetQueue(within(t, 30*time.Second), "lower", client.QueueOptions{Retry: fixed(time.Hour, 2)}); err != nil {
		t.Fatal(err)
	}
	if n := nack(t, cl, take(t, cl, "lower", time.Minute), -1); !n.Dead {
		t.Errorf("a nack of the fifth attempt of two answers %+v, want dead", n)
	}
	take(t, cl, "lower", 100*time.Millisecond) // and one by expiry
	for _, id := range ids {
		if d := becomes(t, cl, id, "dead"); d.Reason != "max_attempts" || d.Attempts != 5 {
			t.Errorf("dead letter has reason %q and %d attempts, want max_attempts and 5", d.Reason, d.Attempts)
		}
	}
	counts(t, cl, "lower", [5]int64{4: 2})
}

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
		ended <- cl.Consume(ctx, "long", client.ConsumeOptions{Lease: 2 * time.Second, Concurrency: 2}, func(ctx context.Context, d *client.Delivery) (*client.Result, error) {
			runs.Add(1)
			work := time.NewTimer(10 * time.Second)
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
	if err != nil || res.Result == nil || res.Result.Attempts != 1 || res.Result.Duration < 9400*time.Millisecond {
		t.Errorf("result %+v, %v, want one of the first attempt after 10 s (less 6 %%, the clocks' difference)", res, err)
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
		"hang":  put(t, cl, "handlers", client.Message{Body: []byte("hang"), Retry: policy, Timeout: 1500 * time.Millisecond}),
		"slow":  put(t, cl, "handlers", client.Message{Body: []byte("slow"), Retry: policy, Timeout: 30 * time.Second}),
	}
	release := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- cl.Consume(ctx, "handlers", client.ConsumeOptions{Lease: time.Second, Concurrency: 6, DrainTimeout: 5 * time.Second}, func(ctx context.Context, d *client.Delivery) (*client.Result, error) {
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
			work := time.NewTimer(4 * time.Second)
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
		// Each ran for 1.5 s at most, waits and the machine apart: the attempts' ends are what is recorded.
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

// The new end is now + d, never beyond the message's timeout, which runs from the lease. Each misuse has its error. (C41)
func extend(t *testing.T, cl *client.Client) {
	ctx := within(t, 60*time.Second)
	create(t, cl, "extend", client.QueueOptions{Lease: 40 * time.Second, Retry: fixed(10*time.Millisecond, 5)})
	r := put(t, cl, "extend", client.Message{})
	d := take(t, cl, "extend", 10*time.Second)
	for _, tc := range []struct {
		name  string
		d     time.Duration
		most  time.Duration
		least time.Duration
		field string
	}{
		{"longer", 60 * time.Second, 60 * time.Second, 50 * time.Second, ""},
		{"shorter", 20 * time.Second, 20 * time.Second, 10 * time.Second, ""},
		{"0 is the queue's lease", 0, 40 * time.Second, 30 * time.Second, ""},
		{"negative", -time.Second, 0, 0, "lease_ms"},
		{"below the least lease", 50 * time.Millisecond, 0, 0, "lease_ms"},
		{"beyond the greatest", 12*time.Hour + time.Millisecond, 0, 0, "lease_ms"},
		{"the greatest", 12 * time.Hour, 12 * time.Hour, 12*time.Hour - 10*time.Second, ""},
	} {
		x, err := cl.Extend(ctx, d.Token, tc.d)
		if tc.field != "" {
			if e := refused(t, tc.name, err, client.ErrInvalidArgument); e.Field != tc.field {
				t.Errorf("%s: the error names field %q, want %q: %v", tc.name, e.Field, tc.field, err)
			}
			continue
		}
		if err != nil || x.Left > tc.most || x.Left < tc.least {
			t.Errorf("%s: %s left, %v, want %s to %s", tc.name, x.Left, err, tc.least, tc.most)
		}
		if got := task(t, cl, r.ID); got.Status != "processing" || got.Attempts != 1 {
			t.Errorf("%s: the task is %s at attempt %d", tc.name, got.Status, got.Attempts)
		}
	}
	if _, err := cl.Extend(ctx, d.Token, 200*time.Millisecond); err != nil { // shorter than what is left: it takes effect
		t.Fatal(err)
	}
	again := take(t, cl, "extend", time.Minute)
	if again.Attempt != 2 {
		t.Errorf("attempt %d after a lease cut short, want 2", again.Attempt)
	}
	_, err := cl.Extend(ctx, d.Token, time.Minute)
	refused(t, "an old token", err, client.ErrLeaseLost)
	ack(t, cl, again, "x")
	_, err = cl.Extend(ctx, again.Token, time.Minute)
	refused(t, "a done task", err, client.ErrLeaseLost)
	_, err = cl.Extend(ctx, strings.Repeat("0", 52), time.Minute)
	refused(t, "a token of nothing", err, client.ErrNotFound)
	_, err = cl.Extend(ctx, "nonsense", time.Minute)
	refused(t, "no token at all", err, client.ErrInvalidArgument)

	put(t, cl, "extend", client.Message{Timeout: 5 * time.Second})
	d = take(t, cl, "extend", time.Second)
	if x, err := cl.Extend(ctx, d.Token, time.Hour); err != nil || x.Left > 5*time.Second || x.Left < time.Second/2 {
		t.Errorf("with a timeout of 5 s: %s left, %v", x.Left, err)
	}
	begin := time.Now()
	second := take(t, cl, "extend", time.Minute)
	if since := time.Since(begin); second.Attempt != 2 || since > 25*time.Second {
		t.Errorf("attempt %d came %s after, want 2 within the timeout", second.Attempt, since)
	}
}

// What is out when a queue is purged stays; when the queue is deleted, or the dead letter, its token is of nothing, and the
// counters say so. (C42)
func gone(t *testing.T, cl *client.Client) {
	ctx := within(t, 60*time.Second)
	create(t, cl, "gone", client.QueueOptions{Retry: fixed(time.Millisecond, 3)})
	for range 3 {
		put(t, cl, "gone", client.Message{})
	}
	put(t, cl, "gone", client.Message{Delay: time.Hour})
	out, back := take(t, cl, "gone", time.Minute), take(t, cl, "gone", time.Minute)
	if n, err := cl.PurgeQueue(ctx, "gone"); err != nil || n != 2 {
		t.Errorf("purged %d, %v, want the ready and the scheduled one", n, err)
	}
	counts(t, cl, "gone", [5]int64{1: 2})
	nack(t, cl, back, 0)
	if d := take(t, cl, "gone", time.Minute); d.ID != back.ID || d.Attempt != 2 {
		t.Errorf("came back as %s attempt %d, want %s attempt 2", d.ID, d.Attempt, back.ID)
	} else {
		ack(t, cl, d, "")
	}
	ack(t, cl, out, "out at a purge")
	counts(t, cl, "gone", [5]int64{})

	var held []*client.Delivery
	for range 4 {
		put(t, cl, "gone", client.Message{})
		held = append(held, take(t, cl, "gone", time.Minute))
	}
	if err := cl.DeleteQueue(ctx, "gone"); err != nil {
		t.Fatal(err)
	}
	for _, d := range held {
		stale(t, cl, "a token of a deleted queue", d.Token, client.ErrNotFound)
	}
	_, err := cl.Queue(ctx, "gone")
	refused(t, "stats of a deleted queue", err, client.ErrNotFound)
	put(t, cl, "gone", client.Message{}) // created again, empty
	counts(t, cl, "gone", [5]int64{0: 1})
	stale(t, cl, "a token of a queue deleted and made again", held[0].Token, client.ErrNotFound)

	dead := take(t, cl, "gone", time.Minute)
	if _, err := cl.Nack(ctx, dead.Token, client.NackOptions{Permanent: true}); err != nil {
		t.Fatal(err)
	}
	if errs := cl.DeleteDead(ctx, "gone", dead.ID); errs[0] != nil {
		t.Fatal(errs[0])
	}
	refused(t, "a dead letter deleted twice", cl.DeleteDead(ctx, "gone", dead.ID)[0], client.ErrNotFound)
	stale(t, cl, "a token of a deleted dead letter", dead.Token, client.ErrNotFound)
	counts(t, cl, "gone", [5]int64{})
}

// Each item has its own outcome, in order; the good ones are done once, and doing it all again is safe. (C45)
func badItem(t *testing.T, cl *client.Client) {
	ctx := within(t, 60*time.Second)
	create(t, cl, "batch", client.QueueOptions{})
	ms := make([]client.Message, 10)
	for i := range ms {
		ms[i] = client.Message{Body: []byte(fmt.Sprint(i)), TaskID: fmt.Sprint("task-", i)}
	}
	ms[3].Body = make([]byte, 1<<20+1)
	ms[6].Headers = []client.Header{{Name: "bad", Value: "\xff\xfe"}}
	for round := range 2 {
		rs, errs := cl.EnqueueBatch(ctx, "batch", ms)
		for i := range ms {
			switch {
			case i == 3:
				refused(t, "a body of 1 MiB and a byte", errs[i], client.ErrTooLarge)
			case i == 6:
				refused(t, "a header that is not UTF-8", errs[i], client.ErrInvalidArgument)
			case round == 0 && (errs[i] != nil || rs[i].TaskID != ms[i].TaskID || i > 0 && rs[i].ID <= rs[0].ID):
				t.Errorf("message %d: %+v, %v", i, rs[i], errs[i])
			case round == 1:
				refused(t, "a task id that is taken", errs[i], client.ErrAlreadyExists)
			}
		}
		counts(t, cl, "batch", [5]int64{0: 8})
	}
	ds, err := cl.Lease(ctx, "batch", client.LeaseOptions{Max: 10, Lease: time.Minute})
	if err != nil || len(ds) != 8 {
		t.Fatalf("leased %d, %v", len(ds), err)
	}
	tokens := make([]string, 0, 10)
	for i, d := range ds {
		if i == 4 {
			tokens = append(tokens, strings.Repeat("0", 52))
		}
		tokens = append(tokens, d.Token)
	}
	tokens = append(tokens, ds[0].Token) // repeated
	for range 2 {
		errs := make([]error, len(tokens))
		var wg sync.WaitGroup
		for i, tok := range tokens {
			wg.Add(1)
			if err := cl.AckAsync(ctx, tok, client.AckOptions{}, func(_ client.Acked, err error) { errs[i] = err; wg.Done() }); err != nil {
				t.Fatal(err)
			}
		}
		wg.Wait()
		for i, err := range errs {
			if i == 4 {
				refused(t, "a token of nothing", err, client.ErrNotFound)
			} else if err != nil {
				t.Errorf("ack %d: %v", i, err)
			}
		}
		if q := counts(t, cl, "batch", [5]int64{}); q.Totals["acked"] != 8 {
			t.Errorf("%d acked in all, want 8", q.Totals["acked"])
		}
	}
}

// A message delayed, or retried, for longer than a lease comes once, and not before its time. (C51)
func longDelay(t *testing.T, cl *client.Client) {
	const wait = 2 * time.Second
	create(t, cl, "delay", client.QueueOptions{Lease: 100 * time.Millisecond})
	put(t, cl, "delay", client.Message{Body: []byte("retried")})
	nack(t, cl, take(t, cl, "delay", 0), wait)
	put(t, cl, "delay", client.Message{Body: []byte("delayed"), Delay: wait})
	begin := time.Now()
	counts(t, cl, "delay", [5]int64{2: 1, 3: 1})
	got := make(chan *client.Delivery, 16)
	sub, err := cl.Subscribe(within(t, 30*time.Second), "delay", client.SubscribeOptions{Lease: time.Minute}, func(d *client.Delivery) { got <- d })
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close(within(t, 30*time.Second))
	ctx := within(t, 60*time.Second)
	for range 2 {
		select {
		case d := <-got:
			// The leader's clock may be up to 5 % faster than this one.
			if since := time.Since(begin); string(d.Body) == "delayed" && since < wait*94/100-50*time.Millisecond {
				t.Errorf("%s came after %s, want %s", d.Body, since, wait)
			}
			ack(t, cl, d, "")
		case <-ctx.Done():
			t.Fatal("not both were delivered")
		}
	}
	if q := counts(t, cl, "delay", [5]int64{}); q.Totals["expired"] > 0 || len(got) > 0 {
		t.Errorf("%d leases expired, %d deliveries too many; want neither", q.Totals["expired"], len(got))
	}
}

// The window runs from the first enqueue, whatever comes in between, by log time, to the millisecond. (C35, G8)
func dedupWindow(t *testing.T, cl *client.Client) {
	const window = time.Second // the least there is
	create(t, cl, "window", client.QueueOptions{DedupWindow: window})
	var first client.Receipt
	dups, news := 0, 0
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for ctx := within(t, 60*time.Second); news < 5; <-tick.C {
		r, err := cl.Enqueue(ctx, "window", client.Message{Body: []byte("same"), DedupKey: []byte("k")})
		if err != nil {
			t.Fatal(err)
		}
		inside := first.ID != "" && r.Time-first.Time <= window.Milliseconds() // G8: two messages are more than a window apart
		switch {
		case inside != r.Duplicate:
			t.Fatalf("%d ms after the first one duplicate is %v, want it for %d ms", r.Time-first.Time, r.Duplicate, window.Milliseconds())
		case r.Duplicate && r.ID != first.ID:
			t.Fatalf("the duplicate names %s, want %s", r.ID, first.ID)
		case r.Duplicate:
			dups++
		default:
			first = r
			news++
		}
	}
	if dups < 10 {
		t.Errorf("only %d duplicates were seen: the test shows little", dups)
	}
	counts(t, cl, "window", [5]int64{0: int64(news)})
}

// The scope of a dedup key is its queue: an ordering key does not divide it, and it covers body and kind. (C36)
func dedupScope(t *testing.T, cl *client.Client) {
	m := client.Message{Body: []byte("b"), Kind: "k", DedupKey: []byte("same")}
	one := put(t, cl, "scope1", m)
	two := put(t, cl, "scope2", m)
	if one.Duplicate || two.Duplicate || one.ID == two.ID {
		t.Errorf("two queues collide: %+v, %+v", one, two)
	}
	keyed := m
	keyed.Key = []byte("other ordering key")
	if r := put(t, cl, "scope1", keyed); !r.Duplicate || r.ID != one.ID {
		t.Errorf("under another ordering key: %+v, want a duplicate of %s", r, one.ID)
	}
	for what, m := range map[string]client.Message{
		"another body": {Body: []byte("c"), Kind: "k", DedupKey: []byte("same")},
		"another kind": {Body: []byte("b"), Kind: "l", DedupKey: []byte("same")},
	} {
		_, err := cl.Enqueue(within(t, 30*time.Second), "scope1", m)
		if e := refused(t, what, err, client.ErrAlreadyExists); e.ID != one.ID {
			t.Errorf("%s: the error names %q, want %s", what, e.ID, one.ID)
		}
	}
	ack(t, cl, take(t, cl, "scope1", time.Minute), "out")
	if r := put(t, cl, "scope1", m); !r.Duplicate || r.Result == nil || string(r.Result.Output) != "out" {
		t.Errorf("after the ack: %+v, want a duplicate with the result", r)
	}
}
