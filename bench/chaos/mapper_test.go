package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
)

// The leader is killed in the middle of three thousand messages that go through two mappings, of which the second makes two of one: whoever leads
// next goes on, and what each message comes to is in the last queue once. One in ten cannot be mapped, and is a dead letter with its place.
func TestMapperLeaderKilled(t *testing.T) {
	const all, batch, broken = 3000, 100, 10
	c := startWith(t, proc.Config{Binary: quorateBin, Nodes: 3, Dir: t.TempDir()})
	cl := open(t, c.Addrs()...)
	create(t, cl, "mapped", client.QueueOptions{})
	create(t, cl, "between", client.QueueOptions{
		Schema: `{"type":"object","required":["n"]}`,
		MapTo:  client.MapTo{Queue: "mapped", Expression: `[{n: body.n, half: "a"}, {n: body.n, half: "b"}]`},
	})
	create(t, cl, "raw", client.QueueOptions{MapTo: client.MapTo{Queue: "between", Expression: "{\n  n: body.order.id\n}"}})
	ctx := within(t, 2*time.Minute)
	for from := 0; from < all; from += batch {
		ms := make([]client.Message, batch)
		for i := range ms {
			ms[i].Body = fmt.Appendf(nil, `{"order":{"id":%d}}`, from+i)
			if (from+i)%broken == 0 {
				ms[i].Body = []byte(strconv.Itoa(from + i))
			}
		}
		_, errs := cl.EnqueueBatch(ctx, "raw", ms)
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	reached := make(chan struct{}) // closed when a fifth has come through
	seen := map[string]int{}
	var mu sync.Mutex
	consumed := make(chan error, 1)
	cctx, stop := context.WithCancel(ctx)
	go func() {
		consumed <- cl.Consume(cctx, "mapped", client.ConsumeOptions{Concurrency: 16}, func(_ context.Context, d *client.Delivery) (*client.Result, error) {
			var m struct {
				N    int
				Half string
			}
			if err := json.Unmarshal(d.Body, &m); err != nil {
				t.Errorf("%q came through: %v", d.Body, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if key := fmt.Sprint(m.N, m.Half, " ", d.ID); seen[key] == 0 { // delivered again it is the same message
				seen[key]++
				if len(seen) == all/5 {
					close(reached)
				}
			}
			return nil, nil
		})
	}()
	select {
	case <-reached:
	case <-ctx.Done():
		t.Fatal("a fifth has not come through in time")
	}
	old := leader(t, c)
	began := time.Now()
	old.Kill()
	for _, queue := range []string{"raw", "between", "mapped"} {
		drained(t, cl, queue)
	}
	took := time.Since(began)
	stop()
	if err := <-consumed; err != nil {
		t.Error(err)
	}
	times := map[string]int{} // by what a message says, whatever its id
	for key := range seen {
		var what, id string
		fmt.Sscan(key, &what, &id)
		times[what]++
	}
	want := 0
	for n := range all {
		for _, half := range []string{"a", "b"} {
			expect := 1
			if n%broken == 0 {
				expect = 0
			}
			want += expect
			if got := times[fmt.Sprint(n, half)]; got != expect {
				t.Errorf("%d%s is there %d times, want %d", n, half, got, expect)
			}
		}
	}
	if len(times) != want {
		t.Errorf("%d different messages, want %d", len(times), want)
	}
	letters, _, err := cl.DeadLetters(within(t, time.Minute), "raw", client.DeadOptions{Reason: "mapping", Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if len(letters) != all/broken {
		t.Errorf("%d dead letters of the mapping, want %d", len(letters), all/broken)
	}
	for _, l := range letters {
		if len(l.Error) < 12 || l.Error[:10] != "map_to: 2:" {
			t.Errorf("a dead letter says %q", l.Error)
		}
	}
	for queue, acked := range map[string]int64{"raw": all - all/broken, "between": all - all/broken, "mapped": 2 * (all - all/broken)} {
		q, err := cl.Queue(within(t, time.Minute), queue)
		if err != nil {
			t.Fatal(err)
		}
		if q.Totals["acked"] != acked || q.Pending+q.Processing+q.Retrying+q.Scheduled != 0 {
			t.Errorf("%s: %d acked, want %d; %d are left", queue, q.Totals["acked"], acked, q.Pending+q.Processing+q.Retrying+q.Scheduled)
		}
	}
	if err := old.Start(); err != nil {
		t.Fatal(err)
	}
	verify(t, cl, 3)
	report(t, "mapping: %d messages through two mappings, each once; drained %s after the leader was killed", want, took.Round(time.Millisecond))
}
