package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
)

// TestQueueLimits shows a queue's limits from outside, on three nodes.
func TestQueueLimits(t *testing.T) {
	c := start(t, 3)
	cl := open(t, c.Addrs()...)
	for name, test := range map[string]func(*testing.T, *client.Client){
		"retries take nothing of max_in_flight": retriesTakeNoFlight,
		"never one too many is out":             inFlightIsExact,
		"max_age is the ttl of what has none":   maxAge,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, cl) })
	}
	t.Run("max_depth under a hundred producers", func(t *testing.T) { t.Parallel(); depthIsExact(t, c.Addrs()) })
	t.Run("overflow under a hundred producers", func(t *testing.T) { t.Parallel(); overflowIsExact(t, cl) })
	t.Run("changes of different options", func(t *testing.T) { t.Parallel(); changesKeepEachOther(t, cl, c.Addrs()) })
	t.Run("pause and resume", func(t *testing.T) { t.Parallel(); pauses(t, cl, c.Addrs()) })
}

// (C30)
func retriesTakeNoFlight(t *testing.T, cl *client.Client) {
	create(t, cl, "flight", client.QueueOptions{MaxInFlight: 2})
	for range 4 {
		put(t, cl, "flight", client.Message{})
	}
	for range 2 {
		a, b := take(t, cl, "flight", time.Minute), take(t, cl, "flight", time.Minute)
		ds, err := cl.Lease(within(t, 30*time.Second), "flight", client.LeaseOptions{Max: 1})
		if err != nil || len(ds) != 0 {
			t.Fatalf("leased %d over the limit (%v)", len(ds), err)
		}
		nack(t, cl, a, time.Hour)
		nack(t, cl, b, time.Hour)
	}
	counts(t, cl, "flight", [5]int64{3: 4})
}

// Four consumers with much credit and 400 messages: at most five are out at any time, and all are done.
func inFlightIsExact(t *testing.T, cl *client.Client) {
	create(t, cl, "five", client.QueueOptions{MaxInFlight: 5})
	const n = 400
	var ms []client.Message
	for range n {
		ms = append(ms, client.Message{})
	}
	if _, errs := cl.EnqueueBatch(within(t, 30*time.Second), "five", ms); errors.Join(errs...) != nil {
		t.Fatal(errors.Join(errs...))
	}
	var done atomic.Int32
	all := make(chan struct{})
	for range 4 {
		defer serve(t, cl, "five", 1000, func(d *client.Delivery) {
			q, err := cl.Queue(within(t, 30*time.Second), "five")
			if err != nil || q.Processing > 5 {
				t.Errorf("the queue has %d out (%v)", q.Processing, err)
			}
			ack(t, cl, d, "")
			if done.Add(1) == n {
				close(all)
			}
		})()
	}
	arrives(t, all, "all messages")
}

func maxAge(t *testing.T, cl *client.Client) {
	create(t, cl, "aged", client.QueueOptions{MaxAge: 300 * time.Millisecond})
	old := put(t, cl, "aged", client.Message{})
	own := put(t, cl, "aged", client.Message{TTL: time.Hour})
	if k := becomes(t, cl, old.ID, "dead"); k.Reason != "expired" {
		t.Errorf("it died of %q, want expired", k.Reason)
	}
	if k := task(t, cl, own.ID); k.Status != "pending" {
		t.Errorf("one with a ttl of its own is %s", k.Status)
	}
}

// A hundred producers fill a queue of 1,000 at once: exactly so many are in, all others are refused for certain.
func depthIsExact(t *testing.T, addrs []string) {
	cl := impatient(t, addrs...)
	create(t, cl, "deep", client.QueueOptions{MaxDepth: 1000})
	var in, refused atomic.Int64
	var wg sync.WaitGroup
	for p := range 100 {
		wg.Go(func() {
			for i := range 15 {
				_, err := cl.Enqueue(within(t, 60*time.Second), "deep", client.Message{Body: fmt.Appendf(nil, "%d.%d", p, i)})
				switch {
				case err == nil:
					in.Add(1)
				case errors.Is(err, client.ErrQueueFull) && !client.Unknown(err):
					refused.Add(1)
				default:
					t.Errorf("producer %d: %v", p, err)
				}
			}
		})
	}
	wg.Wait()
	if in.Load() != 1000 || refused.Load() != 500 {
		t.Errorf("%d are in and %d refused, want 1000 and 500", in.Load(), refused.Load())
	}
	counts(t, cl, "deep", [5]int64{1000})
}

// A hundred producers and two consumers at a queue of 50 that drops the oldest: nobody is refused, it never holds more, and what came
// in is done, waits or died of overflow.
func overflowIsExact(t *testing.T, cl *client.Client) {
	create(t, cl, "ring", client.QueueOptions{MaxDepth: 50, Overflow: "drop_oldest"})
	var done atomic.Int64
	for range 2 {
		defer serve(t, cl, "ring", 5, func(d *client.Delivery) {
			q, err := cl.Queue(within(t, 30*time.Second), "ring")
			if n := q.Pending + q.Processing; err != nil || n > 50 {
				t.Errorf("the queue holds %d (%v)", n, err)
			}
			ack(t, cl, d, "")
			done.Add(1)
		})()
	}
	var wg sync.WaitGroup
	for p := range 100 {
		wg.Go(func() {
			for i := range 15 {
				if _, err := cl.Enqueue(within(t, 60*time.Second), "ring", client.Message{Body: fmt.Appendf(nil, "%d.%d", p, i)}); err != nil {
					t.Errorf("producer %d: %v", p, err)
				}
			}
		})
	}
	wg.Wait()
	var q client.QueueInfo
	eventually(t, 60*time.Second, "the queue is empty and what was leased is counted", func(ctx context.Context) bool {
		var err error
		q, err = cl.Queue(ctx, "ring")
		return err == nil && q.Pending+q.Processing == 0 && done.Load() == q.Totals["acked"]
	})
	over := q.Totals["overflowed"]
	if q.Totals["enqueued"] != 1500 || q.Totals["acked"]+over != 1500 || q.Dead != over || over == 0 {
		t.Errorf("%+v", q)
	}
}

// Several hands change different options at once, again and again: each finds at the end what it set last.
func changesKeepEachOther(t *testing.T, cl *client.Client, addrs []string) {
	create(t, cl, "shared", client.QueueOptions{MaxDepth: 7})
	hands := []func(i int64) (client.QueueOptions, string){
		func(i int64) (client.QueueOptions, string) {
			return client.QueueOptions{MaxBytes: 1000 + i}, "max_bytes"
		},
		func(i int64) (client.QueueOptions, string) {
			return client.QueueOptions{MaxInFlight: 1 + i}, "max_in_flight"
		},
		func(i int64) (client.QueueOptions, string) { return client.QueueOptions{Paused: i%2 == 1}, "paused" },
		func(i int64) (client.QueueOptions, string) {
			return client.QueueOptions{Lease: time.Duration(i+1) * time.Second}, "lease_ms"
		},
	}
	const rounds = 25
	var wg sync.WaitGroup
	for _, hand := range hands {
		wg.Go(func() {
			for i := range int64(rounds) {
				o, name := hand(i)
				if err := cl.ChangeQueue(within(t, 60*time.Second), "shared", o, name); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	wg.Wait()
	if r := quorate(t, addrs, "queue", "set", "shared", "--overflow", "drop_oldest"); r.code != 0 {
		t.Fatalf("set: %+v", r)
	}
	if r := quorate(t, addrs, "queue", "resume", "shared"); r.code != 0 {
		t.Fatalf("resume: %+v", r)
	}
	q, err := cl.Queue(within(t, 30*time.Second), "shared")
	o := q.Options
	if err != nil || o.MaxDepth != 7 || o.MaxBytes != 1000+rounds-1 || o.MaxInFlight != rounds || o.Paused || o.Lease != rounds*time.Second || o.Overflow != "drop_oldest" {
		t.Errorf("%+v (%v)", o, err)
	}
}

func pauses(t *testing.T, cl *client.Client, addrs []string) {
	create(t, cl, "paused", client.QueueOptions{})
	put(t, cl, "paused", client.Message{})
	put(t, cl, "paused", client.Message{})
	d := take(t, cl, "paused", time.Minute)
	if r := quorate(t, addrs, "queue", "pause", "paused"); r.code != 0 {
		t.Fatalf("pause: %+v", r)
	}
	ack(t, cl, d, "")
	put(t, cl, "paused", client.Message{})
	ds, err := cl.Lease(within(t, 30*time.Second), "paused", client.LeaseOptions{Max: 10, Wait: 300 * time.Millisecond})
	if err != nil || len(ds) != 0 {
		t.Errorf("a paused queue leased %d (%v)", len(ds), err)
	}
	got := make(chan struct{}, 2)
	defer serve(t, cl, "paused", 10, func(d *client.Delivery) { ack(t, cl, d, ""); got <- struct{}{} })()
	if r := quorate(t, addrs, "queue", "resume", "paused"); r.code != 0 {
		t.Fatalf("resume: %+v", r)
	}
	arrives(t, got, "the first after resuming")
	arrives(t, got, "the second after resuming")
}
