package chaos

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
)

var (
	hooksFlag    = flag.Int("hooks", 1000, "webhooks of TestWebhookBurst's second burst; the full figure is 10000")
	hookSenders  = flag.Int("hook-senders", 1000, "connections that TestWebhookBurst sends them over")
	hookWithin   = flag.Duration("hook-within", 0, "from a webhook's answer to its handler in TestWebhookBurst, 99 of 100 of the first burst; 0: only the log says it")
	hookSecret   = "what signs the burst"
	hookFirst    = 1000 // webhooks of the first burst
	hookConns    = 4096 // connections that a node answers on; what comes over more is told so too, but need not hear it
	hookPatience = time.Minute
)

// hookSender is another system that sends webhooks.
type hookSender struct {
	t    *testing.T
	http *http.Client
	url  string

	mu   sync.Mutex
	sent []sentHook // guarded by mu
	cut  int        // guarded by mu: attempts whose connection ended without an answer
}

// sentHook is one attempt to send a webhook.
type sentHook struct {
	n      int // which one
	status int
	id     string
	at     time.Time // when the answer was there
	took   time.Duration
}

func hookBody(n int) []byte {
	return fmt.Appendf(nil, `{"id":"event-%06d","event":"deploy","pad":"%0200d"}`, n, n)
}

// send posts webhook n. Whatever is neither taken nor asked to come again fails the test.
func (s *hookSender) send(ctx context.Context, n int) (sentHook, []byte) {
	body := hookBody(n)
	m := hmac.New(sha256.New, []byte(hookSecret))
	m.Write(body)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		s.t.Error(err)
		return sentHook{n: n}, nil
	}
	req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(m.Sum(nil)))
	req.Header.Set("X-GitHub-Event", "deployment")
	req.Header.Set("Content-Type", "application/json")
	began := time.Now()
	resp, err := s.http.Do(req)
	if err != nil {
		if *hookSenders <= hookConns {
			s.t.Errorf("webhook %d has no answer: %v", n, err)
		}
		s.mu.Lock()
		s.cut++
		s.mu.Unlock()
		return sentHook{n: n}, nil
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	h := sentHook{n: n, status: resp.StatusCode, at: time.Now(), took: time.Since(began)}
	var a struct {
		ID  string `json:"id"`
		Key string `json:"idempotency_key"`
	}
	switch {
	case err != nil:
		s.t.Errorf("webhook %d: %v", n, err)
	case h.status == http.StatusAccepted || h.status == http.StatusOK:
		if err := json.Unmarshal(b, &a); err != nil || a.ID == "" || a.Key != fmt.Sprintf("event-%06d", n) {
			s.t.Errorf("webhook %d is answered %s (%v)", n, b, err)
		}
		h.id = a.ID
	case h.status == http.StatusServiceUnavailable:
		if secs, err := strconv.Atoi(resp.Header.Get("Retry-After")); err != nil || secs < 1 {
			s.t.Errorf("webhook %d is refused with Retry-After %q", n, resp.Header.Get("Retry-After"))
		}
	default:
		s.t.Errorf("webhook %d is answered %d %s", n, h.status, b)
	}
	s.mu.Lock()
	s.sent = append(s.sent, h)
	s.mu.Unlock()
	return h, b
}

// burst sends webhooks as fast as that many connections allow; taken gets each that was taken. It returns those that were refused.
func (s *hookSender) burst(ctx context.Context, which []int, taken func(sentHook)) (refused []int) {
	var next atomic.Int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range min(*hookSenders, len(which)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(which)); i = next.Add(1) - 1 {
				h, _ := s.send(ctx, which[i])
				switch h.status {
				case http.StatusAccepted, http.StatusOK:
					taken(h)
				case http.StatusServiceUnavailable, 0: // or nobody knows
					mu.Lock()
					refused = append(refused, which[i])
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return refused
}

// hookWork is what workers have seen of the webhooks.
type hookWork struct {
	mu    sync.Mutex
	runs  map[int]int       // by webhook
	ids   map[int]string    // of its message
	first map[int]time.Time // when its handler first had it
}

func (w *hookWork) handle(_ context.Context, d *client.Delivery) (*client.Result, error) {
	now := time.Now()
	var v struct{ ID string }
	if err := json.Unmarshal(d.Body, &v); err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(v.ID[len("event-"):])
	if err != nil || !bytes.Equal(d.Body, hookBody(n)) {
		return nil, fmt.Errorf("a body that nobody sent: %.100q", d.Body)
	}
	got := map[string]string{}
	for _, h := range d.Headers {
		got[h.Name] = h.Value
	}
	if got["hook_name"] != "burst" || got["hook_source"] != "127.0.0.1" || got["x-github-event"] != "deployment" || got["hook_received_at"] == "" {
		return nil, fmt.Errorf("headers %v", got)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.runs[n]++; w.runs[n] == 1 {
		w.ids[n], w.first[n] = d.ID, now
	} else if w.ids[n] != d.ID {
		return nil, fmt.Errorf("webhook %d is both %s and %s", n, w.ids[n], d.ID)
	}
	return &client.Result{Output: []byte(v.ID)}, nil
}

// quantile of sorted durations.
func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	return d[int(q*float64(len(d)-1))]
}

// Bursts of webhooks at one node of three, with the leader killed as the second one begins: what is answered 202 is in the queue at that
// moment and is done once by its idempotency key, everything else is refused with 503 and Retry-After and taken when it comes again, and
// every one that is sent once more gets what was recorded. Beside them probes measure how soon what is answered 202 is brought by a long poll that
// waits for it.
func TestWebhookBurst(t *testing.T) {
	file := filepath.Join(t.TempDir(), "quorate.toml")
	const hooks = `[[hook]]
name         = "burst"
queue        = "webhooks"
verify       = { scheme = "github", secret_env = "BURST_SECRET" }
idempotency  = { pointer = "/id" }
keep_headers = ["X-GitHub-Event"]
[[hook]]
name         = "probe"
queue        = "probes"
verify       = { scheme = "github", secret_env = "BURST_SECRET" }
idempotency  = { pointer = "/id" }
`
	if err := os.WriteFile(file, []byte(hooks), 0o600); err != nil {
		t.Fatal(err)
	}
	c := startWith(t, proc.Config{Binary: quorateBin, Nodes: 3, Dir: t.TempDir(), Args: []string{"--config", file}, Env: []string{"BURST_SECRET=" + hookSecret}})
	cl := open(t, c.Addrs()...)
	create(t, cl, "webhooks", client.QueueOptions{MaxResultsBytes: 1 << 30})
	work := &hookWork{runs: map[int]int{}, ids: map[int]string{}, first: map[int]time.Time{}}
	ctx, stop := context.WithCancel(t.Context())
	consuming := make(chan error, 1)
	go func() {
		consuming <- open(t, c.Addrs()...).Consume(ctx, "webhooks", client.ConsumeOptions{Concurrency: 32, Prefetch: 2048, DrainTimeout: 5 * time.Second}, work.handle)
	}()

	old := leader(t, c)
	door := follower(t, c)
	create(t, cl, "probes", client.QueueOptions{Retry: fixed(time.Millisecond, 1000)})
	var other *proc.Node
	for _, n := range c.Nodes {
		if n != old && n != door {
			other = n
		}
	}
	probes := probe(t, door, other)
	s := &hookSender{t: t, url: "http://" + door.ClientAddr + "/hook/burst", http: &http.Client{Timeout: hookPatience, Transport: &http.Transport{
		MaxIdleConnsPerHost: *hookSenders, MaxConnsPerHost: *hookSenders}}}
	t.Cleanup(s.http.CloseIdleConnections)

	all := make([]int, hookFirst+*hooksFlag)
	for i := range all {
		all[i] = i
	}
	taken := map[int]sentHook{}
	var mu sync.Mutex
	take := func(h sentHook) {
		mu.Lock()
		defer mu.Unlock()
		if before, ok := taken[h.n]; ok && before.id != h.id {
			t.Errorf("webhook %d is both %s and %s", h.n, before.id, h.id)
		} else if !ok {
			taken[h.n] = h
		}
	}
	// seen demands that the queue has had whatever has been answered 202 by now.
	seen := func(when string) {
		t.Helper()
		mu.Lock()
		want := int64(len(taken))
		mu.Unlock()
		began := time.Now()
		q, err := cl.Queue(within(t, 30*time.Second), "webhooks")
		if err != nil {
			t.Fatal(err)
		}
		if q.Totals["enqueued"] < want {
			t.Errorf("%s: %d are answered 202, and the queue has had %d", when, want, q.Totals["enqueued"])
		}
		t.Logf("%s: the queue has had %d of %d, read in %s", when, q.Totals["enqueued"], want, time.Since(began).Round(100*time.Microsecond))
	}

	quiet := probes.until(probesQuiet)
	bctx := within(t, 3*time.Minute)
	began := time.Now()
	refused := s.burst(bctx, all[:hookFirst], take)
	seen("after the first burst")
	t.Logf("first burst: %d in %s, %d refused", hookFirst, time.Since(began).Round(time.Millisecond), len(refused))

	// The leader dies when the second burst has begun: with webhooks on their way to it.
	began = time.Now()
	killed := make(chan struct{})
	var death time.Time
	var once sync.Once
	later := s.burst(bctx, all[hookFirst:], func(h sentHook) {
		take(h)
		once.Do(func() {
			death = time.Now()
			old.Kill()
			close(killed)
		})
	})
	select {
	case <-killed:
	default:
		t.Fatal("nothing of the second burst was taken")
	}
	seen("after the second burst, its leader killed")
	t.Logf("second burst: %d in %s, %d refused", *hooksFlag, time.Since(began).Round(time.Millisecond), len(later))

	// What was refused comes again, as senders do it.
	refused = append(refused, later...)
	rounds := 0
	for ; len(refused) > 0; rounds++ {
		refused = s.burst(bctx, refused, take)
		if bctx.Err() != nil {
			t.Fatalf("%d webhooks are still refused", len(refused))
		}
	}
	if len(taken) != len(all) {
		t.Errorf("%d of %d webhooks were taken", len(taken), len(all))
	}
	drained(t, cl, "webhooks")
	visible := probes.end(quiet, death)

	work.mu.Lock()
	var waits, second []time.Duration
	again := 0
	for n, h := range taken {
		switch {
		case work.runs[n] == 0:
			t.Errorf("lost: webhook %d, answered %d with %s", n, h.status, h.id)
			continue
		case work.runs[n] > 1:
			again++
		}
		if work.ids[n] != h.id {
			t.Errorf("webhook %d was answered %s and is message %s", n, h.id, work.ids[n])
		}
		if d := max(0, work.first[n].Sub(h.at)); n < hookFirst {
			waits = append(waits, d)
		} else {
			second = append(second, d)
		}
	}
	for n := range work.runs {
		if _, ok := taken[n]; !ok {
			t.Errorf("webhook %d was done, though its sender has not heard so", n)
		}
	}
	work.mu.Unlock()
	q, err := cl.Queue(within(t, time.Minute), "webhooks")
	if err != nil {
		t.Fatal(err)
	}
	if n := int64(len(all)); q.Results != n || q.Totals["enqueued"] != n || q.Dead != 0 {
		t.Errorf("%d enqueued, %d results, %d dead, want %d, %d, 0", q.Totals["enqueued"], q.Results, q.Dead, n, n)
	}

	// Whoever sends again, after all that, gets what was recorded.
	for n := 0; n < len(all); n += max(1, len(all)/100) {
		h, b := s.send(bctx, n)
		var a struct {
			Queued    bool
			Duplicate bool
			Result    struct {
				Output   []byte
				Encoding string `json:"output_encoding"`
			}
		}
		if err := json.Unmarshal(b, &a); err != nil || h.status != http.StatusOK || a.Queued || !a.Duplicate || h.id != taken[n].id || string(a.Result.Output) != fmt.Sprintf("event-%06d", n) || a.Result.Encoding != "base64" {
			t.Errorf("webhook %d once more: %d %s (%v)", n, h.status, b, err)
		}
	}
	stop()
	if err := <-consuming; err != nil {
		t.Errorf("consumer: %v", err)
	}
	if err := old.Start(); err != nil {
		t.Fatal(err)
	}
	verify(t, cl, 3)

	slices.Sort(waits)
	slices.Sort(second)
	var took []time.Duration
	attempts := 0
	for _, h := range s.sent {
		if attempts++; h.status == http.StatusAccepted {
			took = append(took, h.took)
		}
	}
	slices.Sort(took)
	report(t, "webhooks: %d taken in %d attempts (%d rounds of coming again), 202 after p50 %s p99 %s max %s; at the handler after p50 %s p99 %s max %s in the first burst, p50 %s p99 %s max %s in the second; %d ran twice, %d connections cut; %s",
		len(taken), attempts, rounds, quantile(took, 0.5), quantile(took, 0.99), quantile(took, 1), quantile(waits, 0.5), quantile(waits, 0.99), quantile(waits, 1),
		quantile(second, 0.5), quantile(second, 0.99), quantile(second, 1), again, s.cut, visible)
	if w := quantile(waits, 0.99); *hookWithin > 0 && w > *hookWithin {
		t.Errorf("99 of 100 are at their handlers within %s of their answers, want %s", w, *hookWithin)
	}
}
