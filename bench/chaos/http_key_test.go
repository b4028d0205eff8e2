package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/proc"
)

// keyedSender is a program that enqueues by HTTP and knows nothing but that a request may be sent again under its key: to any node, as
// often as it likes, and that it gives up on an answer whenever it likes.
type keyedSender struct {
	t      *testing.T
	client *http.Client
	nodes  []*proc.Node

	mu      sync.Mutex
	ids     map[string][]string // guarded by mu: of the messages, by key
	unclear int                 // guarded by mu: attempts that ended without an answer, or with one that says it may have been done
	again   int                 // guarded by mu: answers that say that they are an earlier request's
	fresh   map[string]int      // guarded by mu: answers, by key, that do not say so
}

// try sends a request once. The ids are nil where it is to be sent again.
func (s *keyedSender) try(n *proc.Node, key, body string, patience time.Duration) []string {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", "http://"+n.ClientAddr+"/v1/queues/q/messages", strings.NewReader(body))
	if err != nil {
		s.t.Error(err)
		return nil
	}
	req.Header.Set("Idempotency-Key", key)
	resp, err := s.client.Do(req)
	var b []byte
	if err == nil {
		b, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		s.unclear++
		return nil
	case resp.StatusCode >= 500:
		if strings.Contains(string(b), `"unknown"`) {
			s.unclear++
		}
		return nil
	case resp.StatusCode != http.StatusCreated:
		s.t.Errorf("key %s: %d %s", key, resp.StatusCode, b)
		return nil
	}
	var got struct{ Messages []struct{ ID string } }
	if err := json.Unmarshal(b, &got); err != nil {
		s.t.Errorf("key %s: %v in %s", key, err, b)
		return nil
	}
	ids := []string{}
	for _, m := range got.Messages {
		ids = append(ids, m.ID)
	}
	if resp.Header.Get("Idempotency-Replayed") == "true" {
		s.again++
	} else {
		s.fresh[key]++
	}
	switch was := s.ids[key]; {
	case was == nil:
		s.ids[key] = ids
	case !slices.Equal(was, ids):
		s.t.Errorf("key %s: answered %v, and then %v", key, was, ids)
	}
	return ids
}

// A request that is sent again under its Idempotency-Key until it is answered, through nodes that die (kill -9), leaders among them, and by
// a caller who gives up on answers at any time, is done once: so many messages are there as were asked for, and each key has one answer, which any
// node gives again, also when all have been killed at once and started again. (C17)
func TestHTTPKeysOverDeaths(t *testing.T) { withLogStores(t, testHTTPKeysOverDeaths) }

func testHTTPKeysOverDeaths(t *testing.T, args ...string) {
	const senders, each, batch = 4, 60, 3
	rng := draw(t)
	c := start(t, 3, args...)
	s := &keyedSender{t: t, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}, nodes: c.Nodes, ids: map[string][]string{}, fresh: map[string]int{}}
	t.Cleanup(s.client.CloseIdleConnections)
	body := func(key string) string {
		ms := make([]string, batch)
		for i := range ms {
			ms[i] = fmt.Sprintf(`{"body":"%s-%d"}`, key, i)
		}
		return `{"messages":[` + strings.Join(ms, ",") + `]}`
	}
	deadline := time.Now().Add(90 * time.Second)
	send := func(key string, node int, patience func() time.Duration) {
		for tries := 0; time.Now().Before(deadline) && !t.Failed(); tries++ {
			if s.try(s.nodes[(node+tries)%len(s.nodes)], key, body(key), patience()) != nil {
				return
			}
			time.Sleep(10 * time.Millisecond) // as a program does that was told to try again
		}
		t.Errorf("key %s has no answer", key)
	}
	quarter := make(chan struct{}, 4)
	done := make(chan struct{})
	var sent sync.WaitGroup
	for i := range senders {
		seed := rng.Int64()
		sent.Go(func() {
			for j := range each {
				if i == 0 && j%(each/4) == each/8 {
					quarter <- struct{}{}
				}
				key := fmt.Sprintf("sender-%d:%d", i, j)
				send(key, int(seed&0xff)+j, func() time.Duration {
					seed = seed*6364136223846793005 + 1442695040888963407
					if seed>>33&3 == 0 { // gives up at a time at which it may have been done, or be on its way
						return time.Duration(1+seed>>40&31) * time.Millisecond
					}
					return 5 * time.Second
				})
			}
		})
	}
	go func() { sent.Wait(); close(done) }()
	kills := 0
	for over := false; !over; {
		select {
		case <-quarter:
			n, err := c.Leader(within(t, 20*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			n.Kill()
			kills++
			if err := n.Start(); err != nil {
				t.Fatal(err)
			}
		case <-done:
			over = true
		}
	}
	if t.Failed() {
		return
	}
	c.Kill() // all at once
	if err := c.Start(within(t, 30*time.Second)); err != nil {
		t.Fatal(err)
	}
	deadline = time.Now().Add(60 * time.Second)
	unclear, fresh := s.unclear, 0
	for _, n := range s.fresh {
		fresh += n
	}
	for i := range senders {
		for j := range each {
			send(fmt.Sprintf("sender-%d:%d", i, j), i+j, func() time.Duration { return 5 * time.Second })
		}
	}
	all := map[string]string{}
	for key, ids := range s.ids {
		if n := s.fresh[key]; n > 1 {
			t.Errorf("key %s was answered %d times as if it were new", key, n)
		}
		for _, id := range ids {
			if other, twice := all[id]; twice {
				t.Errorf("message %s is of the keys %s and %s", id, key, other)
			}
			all[id] = key
		}
	}
	q, err := open(t, c.Addrs()...).Queue(within(t, 30*time.Second), "q")
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(senders * each * batch); q.Pending != want || int64(len(all)) != want {
		t.Errorf("%d messages are there and %d were answered, want %d", q.Pending, len(all), want)
	}
	report(t, "%d keys of %d messages, %d leaders killed: %d attempts ended unclear, %d answers were an earlier request's, %d the first to be heard", senders*each, batch, kills, unclear, s.again, fresh)
	if unclear == 0 {
		t.Error("no attempt ended unclear, so the test has shown little")
	}
}
