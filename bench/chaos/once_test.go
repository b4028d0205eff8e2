package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
)

// Workers and a leader are killed under a queue that delivers at most once: no message runs twice, what the killed had is all that
// is lost, and the queue counts everything as done.
func TestAtMostOnceUnderKills(t *testing.T) {
	const kills, window = 20, 8
	rng := draw(t)
	c := start(t, 3)
	cl := open(t, c.Addrs()...)
	create(t, cl, "once", client.QueueOptions{Delivery: "at_most_once"})
	ran := filepath.Join(t.TempDir(), "ran")
	runs := func() []string {
		b, err := os.ReadFile(ran)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.Fields(string(b))
	}
	sent := map[string]bool{}
	feed := func(n int) {
		t.Helper()
		ms := make([]client.Message, n)
		rs, errs := cl.EnqueueBatch(within(t, 60*time.Second), "once", ms)
		for i := range rs {
			if errs[i] != nil {
				t.Fatal(errs[i])
			}
			sent[rs[i].ID] = true
		}
	}
	flags := []string{"--concurrency", fmt.Sprint(window / 2)}
	script := `echo "$QUORATE_ID" >> "` + ran + `"; sleep 0.01`
	for i := range kills {
		feed(40)
		w := worker(t, c, "once", flags, script)
		after := len(runs()) + 1 + rng.IntN(20)
		eventually(t, 60*time.Second, "the worker runs", func(context.Context) bool { return len(runs()) >= after })
		if i == kills/2 {
			n := leader(t, c)
			n.Kill()
			feed(40) // the next leader has them
			after = len(runs()) + window
			eventually(t, 60*time.Second, "the worker runs under the next leader", func(context.Context) bool { return len(runs()) >= after })
			revive(t, cl, n)
		}
		killGroup(w)
	}
	last := worker(t, c, "once", append(flags, "--drain"), script)
	if err := last.Wait(); err != nil {
		t.Fatalf("the last worker: %v", err)
	}
	times := map[string]int{}
	for _, id := range runs() {
		times[id]++
		switch {
		case !sent[id]:
			t.Errorf("%q was run and never enqueued", id)
		case times[id] == 2:
			t.Errorf("message %s was run twice", id)
		}
	}
	lost := len(sent) - len(times)
	t.Logf("%d messages, %d run, %d lost by %d kills of workers and one of a leader", len(sent), len(times), lost, kills)
	// A window with each worker, and one with the leader.
	if lost > (kills+1)*window {
		t.Errorf("%d messages are lost, want at most %d", lost, (kills+1)*window)
	}
	q := counts(t, cl, "once", [5]int64{})
	if q.Totals["acked"] != int64(len(sent)) || q.Totals["dead"] != 0 {
		t.Errorf("%d messages were enqueued; the queue counts %v", len(sent), q.Totals)
	}
	verify(t, cl, 3)
}

// A worker that is asked to stop loses nothing: it runs what it was given, for which there is nobody else.
func TestAtMostOnceWorkerStopped(t *testing.T) {
	c := start(t, 3)
	cl := open(t, c.Addrs()...)
	create(t, cl, "once", client.QueueOptions{Delivery: "at_most_once"})
	const n = 300
	if _, errs := cl.EnqueueBatch(within(t, 30*time.Second), "once", make([]client.Message, n)); errors.Join(errs...) != nil {
		t.Fatal(errors.Join(errs...))
	}
	times := map[string]int{}
	for rounds := 1; len(times) < n; rounds++ {
		ctx, stop := context.WithCancel(t.Context())
		got := 0
		err := cl.Consume(ctx, "once", client.ConsumeOptions{Prefetch: 32, StopWhenEmpty: true}, func(_ context.Context, d *client.Delivery) (*client.Result, error) {
			times[d.ID]++
			if got++; got == 10 {
				stop()
			}
			return nil, nil
		})
		stop()
		if err != nil {
			t.Fatal(err)
		}
		q, err := cl.Queue(within(t, 30*time.Second), "once")
		if err != nil {
			t.Fatal(err)
		}
		if q.Totals["acked"] != int64(len(times)) || q.Pending != int64(n-len(times)) {
			t.Fatalf("round %d: %d messages were run, and the queue has %d waiting and %d done", rounds, len(times), q.Pending, q.Totals["acked"])
		}
	}
	for id, k := range times {
		if k != 1 {
			t.Errorf("message %s was run %d times", id, k)
		}
	}
}
