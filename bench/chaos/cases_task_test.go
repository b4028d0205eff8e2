package chaos

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
)

// Tasks that are cancelled, moved and changed by their id, and results in the order of recording, on one cluster whose
// leaders come and go.
func TestTasksByID(t *testing.T) {
	c := start(t, 3)
	cl := open(t, c.Addrs()...)
	for _, tc := range []struct {
		name string
		test func(*testing.T, *proc.Cluster, *client.Client)
	}{
		{"a running task is cancelled", cancelRunning},
		{"the leader dies between the cancellation and the worker's answer", cancelAcrossKill},
		{"a worker that was away hears of it when it is back", cancelOfTheAway},
		{"a waiting task is moved, changed and debounced", changeWaiting},
		{"a stream of results leaves none out and repeats none", streamAcrossKill},
	} {
		if !t.Run(tc.name, func(t *testing.T) { tc.test(t, c, cl) }) {
			t.Fatal("the cluster is left as that test left it")
		}
	}
	verify(t, cl, 3)
}

// occupied is a handler at work: it says what it was given, and what ended its context, and returns when told to.
type occupied struct {
	started chan string
	cause   chan error
	proceed chan struct{}
}

// occupy consumes a queue with one handler at a time until the test ends.
func occupy(t *testing.T, cl *client.Client, queue string) *occupied {
	h := &occupied{started: make(chan string, 10), cause: make(chan error, 10), proceed: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- cl.Consume(ctx, queue, client.ConsumeOptions{Prefetch: 1, Lease: 5 * time.Minute, DrainTimeout: time.Second},
			func(ctx context.Context, d *client.Delivery) (*client.Result, error) {
				h.started <- string(d.Body)
				select {
				case <-ctx.Done():
					h.cause <- context.Cause(ctx)
					<-h.proceed
				case <-h.proceed:
				}
				return &client.Result{Output: []byte("output of " + string(d.Body))}, nil
			})
	}()
	t.Cleanup(func() {
		close(h.proceed)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("consume: %v", err)
		}
	})
	return h
}

func (h *occupied) runs(t *testing.T, body string) {
	t.Helper()
	select {
	case got := <-h.started:
		if got != body {
			t.Fatalf("%q runs, want %q", got, body)
		}
	case <-time.After(60 * time.Second):
		t.Fatalf("%q does not run", body)
	}
}

// told demands that the running handler hears of the cancellation.
func (h *occupied) told(t *testing.T) {
	t.Helper()
	select {
	case err := <-h.cause:
		if !errors.Is(err, client.ErrCancelled) {
			t.Fatalf("the handler's context ended with %v, want ErrCancelled", err)
		}
	case <-time.After(60 * time.Second):
		t.Fatal("the handler is not told")
	}
}

func cancelled(t *testing.T, cl *client.Client, queue, id string, out, again bool) {
	t.Helper()
	o, err := cl.Cancel(within(t, 30*time.Second), queue, id)
	if err != nil || o.Out != out || o.Duplicate != again {
		t.Fatalf("cancel: %+v, %v; want out %t, duplicate %t", o, err, out, again)
	}
}

// ends demands that a task stays cancelled, without a result, and that nothing of it is left in its queue.
func ends(t *testing.T, cl *client.Client, queue, id string) {
	t.Helper()
	if s := task(t, cl, id).Status; s != "cancelled" {
		t.Errorf("task is %s, want cancelled", s)
	}
	_, err := cl.Result(within(t, 30*time.Second), queue, id)
	refused(t, "result of a cancelled task", err, client.ErrCancelled)
	counts(t, cl, queue, [5]int64{})
}

func cancelRunning(t *testing.T, c *proc.Cluster, cl *client.Client) {
	h := occupy(t, open(t, c.Addrs()...), "cancel")
	r := put(t, cl, "cancel", client.Message{Body: []byte("first"), TaskID: "mine"})
	h.runs(t, "first")
	waits := make(chan error, 1)
	go func() {
		_, err := cl.WaitResult(within(t, 60*time.Second), "cancel", "mine")
		waits <- err
	}()
	next := put(t, cl, "cancel", client.Message{Body: []byte("next")})
	cancelled(t, cl, "cancel", "mine", true, false)
	h.told(t)
	refused(t, "wait for the result", <-waits, client.ErrCancelled)
	cancelled(t, cl, "cancel", "mine", true, true)
	cancelled(t, cl, "", r.ID, true, true)
	counts(t, cl, "cancel", [5]int64{1, 1}) // its place is taken until it answers
	_, err := cl.Enqueue(within(t, 30*time.Second), "cancel", client.Message{TaskID: "mine"})
	refused(t, "another task of its name", err, client.ErrAlreadyExists)
	h.proceed <- struct{}{}
	h.runs(t, "next") // long before the lease of the first ends
	h.proceed <- struct{}{}
	becomes(t, cl, next.ID, "succeeded")
	cancelled(t, cl, "cancel", "mine", false, true)
	ends(t, cl, "cancel", r.ID)
	_, err = cl.Cancel(within(t, 30*time.Second), "", next.ID)
	refused(t, "cancel of what is done", err, client.ErrFailedPrecondition)
}

func cancelAcrossKill(t *testing.T, c *proc.Cluster, cl *client.Client) {
	h := occupy(t, open(t, c.Addrs()...), "killed")
	r := put(t, cl, "killed", client.Message{Body: []byte("first")})
	h.runs(t, "first")
	next := put(t, cl, "killed", client.Message{Body: []byte("next")})
	cancelled(t, cl, "", r.ID, true, false)
	h.told(t)
	dead := leader(t, c)
	dead.Kill()
	counts(t, cl, "killed", [5]int64{1, 1}) // the next leader knows that the worker has it
	cancelled(t, cl, "", r.ID, true, true)
	h.proceed <- struct{}{}
	h.runs(t, "next")
	h.proceed <- struct{}{}
	becomes(t, cl, next.ID, "succeeded")
	ends(t, cl, "killed", r.ID)
	if err := dead.Start(); err != nil {
		t.Fatal(err)
	}
	whole(t, cl, 3)
}

// The worker knows one node alone, and that is down while the task is cancelled.
func cancelOfTheAway(t *testing.T, c *proc.Cluster, cl *client.Client) {
	down := leader(t, c)
	h := occupy(t, open(t, down.ClientAddr), "away")
	r := put(t, cl, "away", client.Message{Body: []byte("first")})
	h.runs(t, "first")
	down.Kill()
	cancelled(t, cl, "", r.ID, true, false)
	select {
	case err := <-h.cause:
		t.Fatalf("a worker that is away heard something: %v", err)
	default:
	}
	if err := down.Start(); err != nil {
		t.Fatal(err)
	}
	h.told(t)
	h.proceed <- struct{}{}
	eventually(t, 30*time.Second, "its place is free", func(ctx context.Context) bool {
		q, err := cl.Queue(ctx, "away")
		return err == nil && q.Processing == 0
	})
	ends(t, cl, "away", r.ID)
	whole(t, cl, 3)
}

func changeWaiting(t *testing.T, c *proc.Cluster, cl *client.Client) {
	ctx := within(t, 2*time.Minute)
	r := put(t, cl, "change", client.Message{Body: []byte("old"), TaskID: "digest", Delay: time.Hour, ContentType: "text/plain"})
	enqueued := task(t, cl, r.ID).EnqueuedAt
	// Put off again and again, across a change of leader, never beyond two hours.
	for i := range 3 {
		if i == 1 {
			moved(t, c, cl)
		}
		got, err := cl.Reschedule(ctx, "change", "digest", client.RescheduleOptions{Delay: client.After(3 * time.Hour), MaxWait: 2 * time.Hour})
		if err != nil || got.ID != r.ID || !got.DueAt.Equal(enqueued.Add(2*time.Hour)) {
			t.Fatalf("debounced to %v of %s, %v; want %v of %s", got.DueAt, got.ID, err, enqueued.Add(2*time.Hour), r.ID)
		}
	}
	got, err := cl.Replace(ctx, "change", "digest", client.ReplaceOptions{Body: []byte("new")})
	if err != nil || !got.DueAt.Equal(enqueued.Add(2*time.Hour)) {
		t.Fatalf("replaced, due %v, %v", got.DueAt, err)
	}
	counts(t, cl, "change", [5]int64{0, 0, 1})
	got, err = cl.Reschedule(ctx, "", r.ID, client.RescheduleOptions{Delay: client.After(0)})
	if err != nil || !got.DueAt.IsZero() {
		t.Fatalf("moved to now: due %v, %v", got.DueAt, err)
	}
	d := take(t, cl, "change", time.Minute)
	if d.ID != r.ID || d.TaskID != "digest" || string(d.Body) != "new" || d.ContentType != "text/plain" || d.Attempt != 1 {
		t.Errorf("leased %+v", d)
	}
	_, err = cl.Reschedule(ctx, "change", "digest", client.RescheduleOptions{Delay: client.After(time.Hour)})
	refused(t, "reschedule of what is out", err, client.ErrFailedPrecondition)
	_, err = cl.Replace(ctx, "change", "digest", client.ReplaceOptions{})
	refused(t, "replacement of what is out", err, client.ErrFailedPrecondition)
	nack(t, cl, d, time.Hour)
	if _, err = cl.Replace(ctx, "change", "digest", client.ReplaceOptions{Body: []byte("newer"), RescheduleOptions: client.RescheduleOptions{At: time.Now().Add(-time.Hour)}}); err != nil {
		t.Fatal(err)
	}
	stale(t, cl, "the token of the old body", d.Token, client.ErrLeaseLost)
	d = take(t, cl, "change", time.Minute)
	if string(d.Body) != "newer" || d.Attempt != 2 {
		t.Errorf("leased %q, attempt %d, want the newest body and attempt 2", d.Body, d.Attempt)
	}
	ack(t, cl, d, "done")
	_, err = cl.Reschedule(ctx, "change", "digest", client.RescheduleOptions{Delay: client.After(time.Hour)})
	refused(t, "reschedule of what is done", err, client.ErrFailedPrecondition)
	_, err = cl.Cancel(ctx, "change", "nobody")
	refused(t, "cancel of nobody", err, client.ErrNotFound)
}

// Two streams, one of a kind alone, while results are recorded and the leader is killed.
func streamAcrossKill(t *testing.T, c *proc.Cluster, cl *client.Client) {
	const total, before = 400, 50
	create(t, cl, "stream", client.QueueOptions{})
	push := func(i int) {
		t.Helper()
		kind := []string{"even", "odd"}[i%2]
		if _, err := cl.PushResult(within(t, 60*time.Second), "stream", fmt.Sprint(i), kind, client.Result{Output: []byte(kind)}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range before {
		push(i)
	}
	enough := errors.New("enough")
	stream := func(kind string, want int) <-chan []client.Recorded {
		sc := open(t, c.Addrs()...)
		ch := make(chan []client.Recorded, 1)
		go func() {
			var got []client.Recorded
			err := sc.StreamResults(within(t, 2*time.Minute), "stream", client.ResultsOptions{Kind: kind, Limit: 7}, func(r client.Recorded) error {
				if got = append(got, r); len(got) == want {
					return enough
				}
				return nil
			})
			if !errors.Is(err, enough) {
				t.Errorf("the stream of kind %q ended after %d with %v", kind, len(got), err)
			}
			ch <- got
		}()
		return ch
	}
	everything, odd := stream("", total), stream("odd", total/2)
	var dead *proc.Node
	for i := before; i < total; i++ {
		if i == total/2 {
			dead = leader(t, c)
			dead.Kill()
		}
		push(i)
	}
	check := func(what string, got []client.Recorded, name func(i int) int) {
		last := uint64(0)
		for i, r := range got {
			if r.Position <= last || r.Result.TaskID != fmt.Sprint(name(i)) || string(r.Result.Output) != r.Result.Kind {
				t.Errorf("%s: result %d is of task %s at %d after %d, want task %d", what, i, r.Result.TaskID, r.Position, last, name(i))
				return
			}
			last = r.Position
		}
	}
	check("all", <-everything, func(i int) int { return i })
	check("odd", <-odd, func(i int) int { return 2*i + 1 })

	// A page goes on where the one before ended; one that is behind everything is empty.
	rs, next, more, err := cl.ListResults(within(t, 30*time.Second), "stream", client.ResultsOptions{Limit: 150})
	if err != nil || len(rs) != 150 || !more || next != rs[149].Position {
		t.Fatalf("a page of %d, next %d, more %t, %v", len(rs), next, more, err)
	}
	rs, next, more, err = cl.ListResults(within(t, 30*time.Second), "stream", client.ResultsOptions{Limit: 1000, After: next})
	if err != nil || len(rs) != total-150 || more {
		t.Fatalf("the rest of %d, more %t, %v", len(rs), more, err)
	}
	if rs, _, more, err = cl.ListResults(within(t, 30*time.Second), "stream", client.ResultsOptions{After: next}); err != nil || len(rs) != 0 || more {
		t.Errorf("behind everything: %d, more %t, %v", len(rs), more, err)
	}
	if err := dead.Start(); err != nil {
		t.Fatal(err)
	}
	whole(t, cl, 3)
}
