package workload

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/chaos/history"
)

// While nobody leads for good, what is under way comes to its end all the same, and clients can be stopped.
func TestEndsWithoutALeader(t *testing.T) {
	t.Parallel()
	const dead = "127.0.0.1:1" // and no port that has just been let go, which others may be given
	rec, err := history.Record(filepath.Join(t.TempDir(), history.EventsFile), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rec.Close() })
	w, err := New(Config{Addrs: []string{dead}, Rec: rec})
	if err != nil {
		t.Fatal(err)
	}
	const most = linkCall + 5*time.Second
	for name, f := range map[string]func(ctx context.Context, q *load){
		"request": func(_ context.Context, q *load) {
			k := q.link()
			k.rng = rand.New(rand.NewPCG(1, 1))
			if _, err := k.request(context.Background(), 1); err == nil {
				t.Error("a request has a session, and nobody gave it one")
			}
		},
		"producer": func(ctx context.Context, q *load) { q.produce(ctx) },
		"puller":   func(ctx context.Context, q *load) { q.pull(ctx) },
		"gatherer": func(ctx context.Context, q *load) { q.gather(ctx, time.Millisecond) },
		"meddler":  func(ctx context.Context, q *load) { q.met("a message"); q.meddle(ctx, time.Millisecond) },
		"buryer":   func(ctx context.Context, q *load) { q.bury(ctx, time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			done := make(chan struct{})
			go func() {
				defer close(done)
				f(ctx, w.loads[0])
			}()
			select {
			case <-done:
			case <-time.After(most):
				t.Errorf("it has not ended after %s", most)
			}
		})
	}
}
