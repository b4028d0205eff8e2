package chaos

import (
	"context"
	"flag"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
)

var (
	deadFlag = flag.Int("dead", 5000, "dead letters that TestManyDeadLetters makes, lists and requeues; 1000000 for the figures")
	rateFlag = flag.Int("dead-rate", 10000, "how many of them it requeues a second; 0: as fast as it goes")
)

// beat enqueues, leases and acks one message after the other in a queue of its own, and keeps how long each round took.
type beat struct {
	stop context.CancelFunc
	done chan struct{}

	mu    sync.Mutex
	took  []time.Duration
	first error
}

func startBeat(t *testing.T, cl *client.Client, queue string) *beat {
	ctx, stop := context.WithCancel(t.Context())
	b := &beat{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(b.done)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			begin := time.Now()
			err := func() error {
				if _, err := cl.Enqueue(ctx, queue, client.Message{Body: []byte("beat")}); err != nil {
					return err
				}
				ds, err := cl.Lease(ctx, queue, client.LeaseOptions{Wait: 10 * time.Second})
				if err != nil || len(ds) == 0 {
					return err
				}
				_, err = cl.Ack(ctx, ds[0].Token, client.AckOptions{})
				return err
			}()
			if ctx.Err() != nil {
				return
			}
			b.mu.Lock()
			b.took = append(b.took, time.Since(begin))
			if err != nil && b.first == nil {
				b.first = err
			}
			b.mu.Unlock()
		}
	}()
	return b
}

// lap is the rounds since the last: how many, their median, 99th percentile and longest.
func (b *beat) lap(t *testing.T, what string) {
	b.mu.Lock()
	took, err := b.took, b.first
	b.took = nil
	b.mu.Unlock()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if len(took) == 0 { // it was over sooner than a round
		return
	}
	slices.Sort(took)
	t.Logf("%-34s the rest: %5d rounds of enqueue, lease, ack: p50 %v p99 %v max %v", what, len(took), took[len(took)/2],
		took[len(took)*99/100], took[len(took)-1])
	if longest := took[len(took)-1]; longest > 5*time.Second { // with an election on a crowded machine in it
		t.Errorf("%s: the rest stood still for %v", what, longest)
	}
}

// Many dead letters in a dead-letter queue are listed, filtered and requeued at a set rate, while the rest goes on. With
// -dead 1000000 it gives the figures of the manual.
func TestManyDeadLetters(t *testing.T) {
	c := start(t, 3)
	cl := open(t, c.Addrs()...)
	n := *deadFlag
	create(t, cl, "many-dead", client.QueueOptions{})
	create(t, cl, "many", client.QueueOptions{DeadLetterQueue: "many-dead"})
	begin := time.Now()
	deaths(t, cl, "many", n)
	t.Logf("%d deaths, each moved: %v", n, time.Since(begin))
	ctx := within(t, 30*time.Minute)
	b := startBeat(t, open(t, c.Addrs()...), "beat") // a client of its own: the rest does not share a connection with a listing
	defer func() { b.stop(); <-b.done }()
	hold(t, 2*time.Second)
	b.lap(t, "alone")

	for name, o := range map[string]client.DeadOptions{
		"all, brief": {Brief: true}, "a kind": {Kind: "pdf", Brief: true}, "a reason": {Reason: "permanent", Brief: true},
		"a reason that none has": {Reason: "expired"}, "text that none has": {Text: "no such text"},
	} {
		begin, got := time.Now(), 0
		if err := cl.EachDead(ctx, "many-dead", o, func(*client.Task) error { got++; return nil }); err != nil {
			t.Fatal(err)
		}
		took := time.Since(begin)
		want := map[string]int{"all, brief": n, "a reason": n, "a kind": (n + 1) / 3}[name]
		if got != want {
			t.Errorf("%s: %d letters, want %d", name, got, want)
		}
		b.lap(t, "listing "+name)
		t.Logf("%-34s %d letters in %v", "listing "+name, got, took)
		begin = time.Now()
		if _, _, err := cl.DeadLetters(ctx, "many-dead", client.DeadOptions{Kind: o.Kind, Reason: o.Reason, Since: time.Now().Add(-time.Hour)}); err != nil {
			t.Fatal(err)
		}
		t.Logf("%-34s first page of 100 in %v", "", time.Since(begin))
	}
	begin = time.Now()
	r, err := cl.RequeueWhere(ctx, "many-dead", client.BulkOptions{Rate: *rateFlag})
	took := time.Since(begin)
	if err != nil || r.Done != int64(n) || r.Failed != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	b.lap(t, "requeueing")
	t.Logf("%d requeued in %v: %.0f a second, %d asked for", n, took, float64(n)/took.Seconds(), *rateFlag)
	if least := time.Duration(max(0, n-1000)) * time.Second / time.Duration(max(1, *rateFlag)); *rateFlag > 0 && took < least {
		t.Errorf("faster than asked for: %v, want %v or more", took, least) // the first batch goes at once
	}
	counts(t, cl, "many-dead", [5]int64{})
	counts(t, cl, "many", [5]int64{int64(n)})
}
