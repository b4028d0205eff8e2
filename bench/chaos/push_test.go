package chaos

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
)

// endpoint takes what is pushed and says what it did.
type endpoint struct {
	url     string
	free    int           // so many are answered at once, those after them when killed is closed
	reached chan struct{} // closed when held more have come
	killed  chan struct{}

	mu   sync.Mutex
	runs map[int]int    // by message
	ids  map[int]string // of its webhook-id
	bad  []string
}

// held is how many requests are under way when the leader is killed.
const held = 8

func newEndpoint(t *testing.T, free int) *endpoint {
	e := &endpoint{reached: make(chan struct{}), killed: make(chan struct{}), runs: map[int]int{}, ids: map[int]string{}, free: free}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		n, cerr := strconv.Atoi(string(b))
		if err != nil { // its sender died on the way
			return
		}
		e.mu.Lock()
		id := r.Header.Get("webhook-id")
		if cerr != nil || e.ids[n] != "" && e.ids[n] != id {
			e.bad = append(e.bad, fmt.Sprintf("%q as %s, before as %s", b, id, e.ids[n]))
		}
		e.ids[n] = id
		if e.runs[n]++; len(e.runs) == e.free+held && e.runs[n] == 1 {
			close(e.reached)
		}
		waits := len(e.runs) > e.free
		e.mu.Unlock()
		if waits {
			select {
			case <-e.killed:
			case <-r.Context().Done():
				return
			}
		}
		fmt.Fprintf(w, "did %d", n)
	}))
	t.Cleanup(s.Close)
	e.url = s.URL
	return e
}

// The leader is killed in the middle of five hundred messages that are pushed: whoever leads next goes on, each is delivered, and each is done
// once with its result.
func TestPushLeaderKilled(t *testing.T) {
	const all, batch = 500, 100
	e := newEndpoint(t, all/3)
	c := startWith(t, proc.Config{Binary: quorateBin, Nodes: 3, Dir: t.TempDir(), Args: []string{"--push-allow", "127.0.0.1"}})
	cl := open(t, c.Addrs()...)
	create(t, cl, "pushed", client.QueueOptions{
		PushURL: e.url, PushConcurrency: 16, PushTimeout: 2 * time.Second,
		Retry: &client.RetryPolicy{Kind: "fixed", Initial: 100 * time.Millisecond, MaxAttempts: 20},
	})
	ctx := within(t, 3*time.Minute)
	receipts := map[string]int{}
	for from := 0; from < all; from += batch {
		ms := make([]client.Message, batch)
		for i := range ms {
			ms[i].Body = []byte(strconv.Itoa(from + i))
		}
		rs, errs := cl.EnqueueBatch(ctx, "pushed", ms)
		for i, r := range rs {
			if errs != nil && errs[i] != nil {
				t.Fatal(errs[i])
			}
			receipts[r.ID] = from + i
		}
	}
	select {
	case <-e.reached:
	case <-ctx.Done():
		t.Fatal("a third of them is not pushed within three minutes")
	}
	old := leader(t, c)
	began := time.Now()
	old.Kill()
	close(e.killed)
	drained(t, cl, "pushed")
	took := time.Since(began)

	again := 0
	e.mu.Lock()
	for id, n := range receipts {
		if e.runs[n] == 0 || e.ids[n] != id {
			t.Errorf("message %d (%s) was delivered %d times, as %s", n, id, e.runs[n], e.ids[n])
		}
		again += max(0, e.runs[n]-1)
	}
	if again < held {
		t.Errorf("%d came again, want the %d that were under way when the leader was killed", again, held)
	}
	if len(e.runs) != all || len(e.bad) > 0 {
		t.Errorf("%d different messages have come; %v", len(e.runs), e.bad)
	}
	e.mu.Unlock()
	q, err := cl.Queue(within(t, time.Minute), "pushed")
	if err != nil {
		t.Fatal(err)
	}
	if q.Totals["enqueued"] != all || q.Totals["acked"] != all || q.Results != all || q.Dead != 0 || q.Push != "pushing" {
		t.Errorf("%d enqueued, %d acked, %d results, %d dead, want %d, %d, %d, 0; push: %s", q.Totals["enqueued"], q.Totals["acked"], q.Results, q.Dead, all, all, all, q.Push)
	}
	for id, n := range receipts {
		r, err := cl.Result(within(t, time.Minute), "pushed", id)
		if err != nil || r.Result == nil || string(r.Result.Output) != fmt.Sprintf("did %d", n) {
			t.Errorf("result of message %d: %+v, %v", n, r, err)
		}
	}
	if err := old.Start(); err != nil {
		t.Fatal(err)
	}
	verify(t, cl, 3)
	report(t, "push: %d of %d came twice or oftener; drained %s after the leader was killed", again, all, took.Round(time.Millisecond))
}
