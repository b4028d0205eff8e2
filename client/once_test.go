package client

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

func onceFake(t *testing.T, nodes int) *fake {
	f := newFake(t, nodes)
	f.do(func() { f.queue("q").once = true })
	return f
}

// unfinished is how many at-most-once deliveries the broker believes to be with the client.
func (f *fake) unfinished() (n int) {
	f.do(func() {
		for _, s := range f.sessions {
			for _, sub := range s.subs {
				n += len(sub.out)
			}
		}
	})
	return n
}

// What is delivered at most once runs once, whatever its handler says, and opens the window when it has run.
func TestConsumeAtMostOnce(t *testing.T) {
	for _, tc := range []struct {
		name string
		h    func() (*Result, error)
	}{
		{"done", func() (*Result, error) { return nil, nil }},
		{"with a result, which has no place", func() (*Result, error) { return &Result{Output: []byte("x")}, nil }},
		{"failed", func() (*Result, error) { return nil, errors.New("no") }},
		{"given back", func() (*Result, error) { return nil, ErrRelease }},
		{"panic", func() (*Result, error) { panic("oh no") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := onceFake(t, 1)
			c := open(t, f, Options{})
			f.put("q", numbers(100)...)
			var mu sync.Mutex
			seen := map[string]int{}
			most := 0
			err := c.Consume(t.Context(), "q", ConsumeOptions{Concurrency: 2, Prefetch: 6, StopWhenEmpty: true}, func(_ context.Context, d *Delivery) (*Result, error) {
				if !d.AtMostOnce || d.Attempt != 1 || !d.Deadline.IsZero() {
					t.Errorf("delivery %+v", d)
				}
				n := f.unfinished()
				mu.Lock()
				seen[string(d.Body)]++
				most = max(most, n)
				mu.Unlock()
				return tc.h()
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(seen) != 100 || most > 6 {
				t.Errorf("%d of 100 were seen, %d at once of 6", len(seen), most)
			}
			for b, n := range seen {
				if n != 1 {
					t.Errorf("%s ran %d times", b, n)
				}
			}
			until(t, "the broker to be told of all", func() bool { return f.unfinished() == 0 })
		})
	}
}

// A reconnect loses nothing of what is here, and the window counts it on.
func TestAtMostOnceReconnect(t *testing.T) {
	f := onceFake(t, 2)
	c := open(t, f, Options{})
	f.put("q", numbers(10)...)
	ran := make(chan string, 20)
	gate := make(chan struct{})
	stop := consuming(t, c, ConsumeOptions{Concurrency: 1, Prefetch: 4}, func(_ context.Context, d *Delivery) (*Result, error) {
		ran <- string(d.Body)
		<-gate
		return nil, nil
	})
	if first := <-ran; first != "0000" {
		t.Fatalf("first %s", first)
	}
	until(t, "a full window", func() bool { return f.unfinished() == 4 })
	f.lead(1, true)
	until(t, "the other node to have the session", func() bool {
		ok := false
		f.do(func() {
			for _, s := range f.sessions {
				for _, sub := range s.subs {
					ok = ok || s.conn != nil && s.conn.n.i == 1 && sub.attached && len(sub.out) == 4
				}
			}
		})
		return ok
	})
	close(gate)
	for i := 1; i < 10; i++ {
		if got, want := <-ran, numbers(10)[i]; got != want {
			t.Fatalf("message %d is %s, want %s", i, got, want)
		}
	}
	until(t, "the broker to be told of all", func() bool { return f.unfinished() == 0 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// A drain runs what is here, up to its end, and drops the rest.
func TestAtMostOnceDrain(t *testing.T) {
	for _, tc := range []struct {
		name  string
		drain time.Duration
		want  int
	}{{"in time", time.Minute, 5}, {"out of time", time.Millisecond, 1}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := onceFake(t, 1)
			c := open(t, f, Options{})
			f.put("q", numbers(9)...)
			var mu sync.Mutex
			seen := 0
			began := make(chan struct{}, 9)
			gate := make(chan struct{})
			stop := consuming(t, c, ConsumeOptions{Concurrency: 1, Prefetch: 5, DrainTimeout: tc.drain}, func(ctx context.Context, _ *Delivery) (*Result, error) {
				mu.Lock()
				seen++
				mu.Unlock()
				began <- struct{}{}
				select {
				case <-gate:
				case <-ctx.Done():
				}
				return nil, nil
			})
			<-began
			until(t, "a full window", func() bool { return f.unfinished() == 5 })
			if tc.drain == time.Minute {
				go func() {
					until(t, "the window to be closed", func() bool {
						closed := false
						f.do(func() {
							for _, s := range f.sessions {
								for _, sub := range s.subs {
									closed = sub.credit == 0
								}
							}
						})
						return closed
					})
					close(gate)
				}()
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if seen != tc.want {
				t.Errorf("%d ran, want %d", seen, tc.want)
			}
		})
	}
}

// Subscribe's callback is all there is: the window opens when it has returned.
func TestSubscribeAtMostOnce(t *testing.T) {
	f := onceFake(t, 1)
	c := open(t, f, Options{})
	f.put("q", numbers(50)...)
	got := make(chan string, 50)
	s, err := c.Subscribe(t.Context(), "q", SubscribeOptions{Credit: 3}, func(d *Delivery) { got <- string(d.Body) })
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		if b := <-got; b != numbers(50)[i] {
			t.Fatalf("message %d is %s", i, b)
		}
	}
	until(t, "the broker to be told of all", func() bool { return f.unfinished() == 0 })
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
