package workload

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/chaos/history"
	"github.com/quorate/quorate/wire"
)

// What an answer says of one message: a refusal that is not the log's speaks of its own sending.
func TestPartOfAnAnswer(t *testing.T) {
	at, judged := wire.At{Index: 9, Time: 1}, &wire.At{Index: 7, Time: 1}
	full := func(at *wire.At) *wire.Fault {
		f := wire.NewFault(wire.CodeQueueFull, "full")
		f.At = at
		return f
	}
	for name, tc := range map[string]struct {
		open  bool
		fault *wire.Fault
		class history.Class
		index uint64
	}{
		"done":                            {false, nil, history.OK, 9},
		"done, sent before":               {true, nil, history.OK, 9},
		"refused by the log":              {false, full(judged), history.Refused, 7},
		"refused by the log, sent before": {true, full(judged), history.Refused, 7},
		"refused":                         {false, full(nil), history.Refused, 0},
		"refused, sent before":            {true, full(nil), history.Unknown, 0},
		"unknown":                         {false, wire.NewFault(wire.CodeTimeout, "late"), history.Unknown, 0},
	} {
		if got := (answer{open: tc.open}).part(at, tc.fault); got.class != tc.class || got.at.Index != tc.index {
			t.Errorf("%s: class %v at %d, want %v at %d", name, got.class, got.at.Index, tc.class, tc.index)
		}
	}
}

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
