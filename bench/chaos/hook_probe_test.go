package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/proc"
)

// hookProbe measures how soon after its 202 a webhook is visible: fifty a second, beside whatever else is sent, it sends webhooks to a queue of its
// own, for which a long poll waits at another node.
//
//	probe ──POST /hook/probe──▶ door, a follower        202: from here
//	                               ╎
//	probe ◀──lease, wait_ms──── another node            to here
type hookProbe struct {
	t        *testing.T
	door, at *proc.Node
	w        *web
	stop     context.CancelFunc
	sent     chan struct{} // closed when the last one has been sent

	mu      sync.Mutex
	taken   map[int]time.Time // guarded by mu: when the 202 was there
	visible map[int]time.Time // guarded by mu: when the poll brought it
	asks    int               // guarded by mu: answers of 503
	news    chan struct{}     // guarded by mu: closed when visible has grown
}

const (
	probeEvery   = 20 * time.Millisecond
	probesAtOnce = 64
	probesQuiet  = 50          // before the bursts
	probeWait    = time.Minute // for the last ones
)

// probe begins to send to door and to poll at another node, until end.
func probe(t *testing.T, door, at *proc.Node) *hookProbe {
	p := &hookProbe{t: t, door: door, at: at, sent: make(chan struct{}), taken: map[int]time.Time{}, visible: map[int]time.Time{}, news: make(chan struct{}),
		w: &web{t, &http.Client{Timeout: 30 * time.Second}}}
	t.Cleanup(p.w.client.CloseIdleConnections)
	var ctx context.Context
	ctx, p.stop = context.WithCancel(t.Context())
	polls, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { p.poll(polls) })
	wg.Go(func() {
		defer close(p.sent)
		tick := time.NewTicker(probeEvery)
		defer tick.Stop()
		var sending sync.WaitGroup
		defer sending.Wait()
		turns := make(chan struct{}, probesAtOnce)
		for n := 0; ; n++ {
			select {
			case turns <- struct{}{}:
				sending.Go(func() {
					p.send(ctx, n)
					<-turns
				})
			case <-ctx.Done():
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	t.Cleanup(func() {
		p.stop()
		cancel()
		wg.Wait()
	})
	return p
}

// send sends webhook n until it is taken or ctx ends.
func (p *hookProbe) send(ctx context.Context, n int) {
	for ctx.Err() == nil {
		code, err := sendHook(ctx, "http://"+p.door.ClientAddr+"/hook/probe", hookSecret, fmt.Sprintf(`{"id":"probe-%d"}`, n),
			http.Header{"Content-Type": {"application/json"}})
		now := time.Now()
		p.mu.Lock()
		switch {
		case err != nil: // whether it was taken is not known
		case code == http.StatusAccepted || code == http.StatusOK:
			p.taken[n] = now
		case code == http.StatusServiceUnavailable:
			p.asks++
		default:
			p.t.Errorf("probe %d is answered %d", n, code)
		}
		p.mu.Unlock()
		if err == nil && code != http.StatusServiceUnavailable {
			return
		}
		select {
		case <-time.After(probeEvery): // as senders do, though sooner than they are asked to
		case <-ctx.Done():
		}
	}
}

// poll leases what is there, and acks it, until ctx ends. What a leader took to its grave on the way comes back when its lease is over.
func (p *hookProbe) poll(ctx context.Context) {
	for ctx.Err() == nil {
		code, body, err := p.w.askIn(ctx, p.at, "POST", "/v1/queues/probes/lease", `{"max":100,"wait_ms":10000,"lease_ms":2000}`)
		now := time.Now()
		var got struct {
			Messages []struct {
				Token string
				Body  struct{ ID string }
			}
		}
		if err != nil || code != http.StatusOK || json.Unmarshal([]byte(body), &got) != nil {
			select {
			case <-time.After(probeEvery): // as a program does that was told to try again
			case <-ctx.Done():
			}
			continue
		}
		var acks []string
		p.mu.Lock()
		for _, m := range got.Messages {
			acks = append(acks, `{"op":"ack","token":"`+m.Token+`"}`)
			var n int
			if _, err := fmt.Sscanf(strings.TrimPrefix(m.Body.ID, "probe-"), "%d", &n); err != nil {
				p.t.Errorf("a probe that nobody sent: %q", m.Body.ID)
			}
			if _, before := p.visible[n]; !before {
				p.visible[n] = now
			}
		}
		close(p.news)
		p.news = make(chan struct{})
		p.mu.Unlock()
		if len(acks) > 0 { // what is not acked comes again, which changes nothing of when it was first seen
			_, _, _ = p.w.askIn(ctx, p.at, "POST", "/v1/leases/batch", `{"operations":[`+strings.Join(acks, ",")+`]}`)
		}
	}
}

// until waits until n have been seen and says when that was.
func (p *hookProbe) until(n int) time.Time {
	p.t.Helper()
	ctx := within(p.t, probeWait)
	for {
		p.mu.Lock()
		seen, news := len(p.visible), p.news
		p.mu.Unlock()
		if seen >= n {
			return time.Now()
		}
		select {
		case <-news:
		case <-ctx.Done():
			p.t.Fatalf("%d probes have been seen in %s, want %d", seen, probeWait, n)
		}
	}
}

// end stops sending and waits until everything that was taken has been seen, which it demands. It says how long that took, from the 202 on, by the
// time at which each was seen: before the bursts began, before the leader died, and later.
func (p *hookProbe) end(began, killed time.Time) string {
	p.t.Helper()
	p.stop()
	<-p.sent
	ctx := within(p.t, probeWait)
	for {
		p.mu.Lock()
		var missing []int
		for n := range p.taken {
			if _, ok := p.visible[n]; !ok {
				missing = append(missing, n)
			}
		}
		news := p.news
		p.mu.Unlock()
		if len(missing) == 0 {
			break
		}
		select {
		case <-news:
			continue
		case <-ctx.Done():
		}
		p.t.Errorf("%d of %d probes were answered 202 and are not visible, such as %d", len(missing), len(p.taken), missing[0])
		break
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var phases [3][]time.Duration
	soon, all := 0, 0
	for n, at := range p.taken {
		seen, ok := p.visible[n]
		if !ok {
			continue
		}
		d := max(0, seen.Sub(at)) // the poll may bring it before the answer is there
		if all++; d <= visibleSoon {
			soon++
		}
		phase := 2
		switch {
		case seen.Before(began):
			phase = 0
		case seen.Before(killed):
			phase = 1
		}
		phases[phase] = append(phases[phase], d)
	}
	text := "probes are visible after their 202 by"
	for i, name := range []string{"when nothing else comes", "in the bursts", "from the leader's death on"} {
		slices.Sort(phases[i])
		text += fmt.Sprintf(" p50 %s p99 %s max %s %s (%d),", quantile(phases[i], 0.5), quantile(phases[i], 0.99), quantile(phases[i], 1), name, len(phases[i]))
	}
	return fmt.Sprintf("%s %d of %d within %s; %d answers of 503", text, soon, all, visibleSoon, p.asks)
}

// visibleSoon is what is wanted of a machine that has nothing else to do; here it is counted and not judged.
const visibleSoon = 100 * time.Millisecond
