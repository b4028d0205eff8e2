package chaos

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
)

// What dies leaves its body under its keys, whoever leads meanwhile: a watch that goes on across kills sees each key once, and
// the list at the end says the same on a cluster whose leader was killed twice.
func TestUndeliveredAcrossKills(t *testing.T) {
	const n = 300
	c := start(t, 3)
	cl := open(t, c.Addrs()...)
	ctx := within(t, 3*time.Minute)
	if err := cl.CreateQueue(ctx, "doomed", client.QueueOptions{Lease: 2 * time.Second}); err != nil {
		t.Fatal(err)
	}

	seen := make(chan client.KVEntry, n)
	watchCtx, stopWatch := context.WithCancel(ctx)
	watched := make(chan struct{})
	watcher := open(t, c.Addrs()...)
	go func() {
		defer close(watched)
		for e, err := range watcher.KVWatch(watchCtx, client.Key{"lost"}, 0) {
			if watchCtx.Err() != nil {
				return
			}
			if err != nil {
				t.Errorf("watch: %v", err)
				return
			}
			seen <- e
		}
	}()
	workCtx, stopWork := context.WithCancel(ctx)
	worked := make(chan error, 1)
	worker := open(t, c.Addrs()...)
	go func() {
		worked <- worker.Consume(workCtx, "doomed", client.ConsumeOptions{Concurrency: 4, Prefetch: 16, Lease: 2 * time.Second},
			func(context.Context, *client.Delivery) (*client.Result, error) {
				return nil, client.Permanent(errors.New("it is lost"))
			})
	}()
	for i := range n {
		if i == n/3 || i == 2*n/3 {
			l := leader(t, c)
			l.Kill()
			if err := l.Start(); err != nil {
				t.Fatal(err)
			}
		}
		m := client.Message{Body: fmt.Append(nil, "body ", i), KeysIfUndelivered: []client.Key{{"lost", fmt.Sprintf("%03d", i)}, {"last"}}}
		if _, err := cl.Enqueue(ctx, "doomed", m); err != nil {
			t.Fatalf("enqueue %d: %v", i, err)
		}
	}
	got := map[string]string{}
	for len(got) < n {
		select {
		case e := <-seen:
			if _, twice := got[e.Key[1]]; twice || e.Deleted {
				t.Fatalf("the watch shows %v again: %+v", e.Key, e)
			}
			got[e.Key[1]] = string(e.Value)
		case <-ctx.Done():
			t.Fatalf("the watch has seen %d of %d keys", len(got), n)
		}
	}
	stopWork()
	stopWatch()
	<-watched
	if err := <-worked; err != nil {
		t.Errorf("worker: %v", err)
	}

	var last string
	var keys int
	for o := (client.KVListOptions{Values: true, Limit: 70}); ; {
		p, err := cl.KVList(ctx, client.Key{"lost"}, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range p.Entries {
			if e.Key[1] <= last {
				t.Fatalf("key %q after %q", e.Key[1], last)
			}
			last = e.Key[1]
			if got[last] != string(e.Value) || string(e.Value) != fmt.Sprint("body ", keys) {
				t.Errorf("key %q holds %q, the watch said %q", last, e.Value, got[last])
			}
			keys++
		}
		if o.After = p.Next; p.Next == nil {
			break
		}
	}
	if keys != n {
		t.Errorf("%d keys, want %d", keys, n)
	}
	if _, err := cl.KVGet(ctx, client.Key{"last"}); err != nil {
		t.Errorf("the key that all have: %v", err)
	}
	if err := cl.KVDelete(ctx, client.Key{"last"}); err != nil {
		t.Error(err)
	}
	if err := cl.KVDelete(ctx, client.Key{"last"}); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	verify(t, cl, 3)
}
