package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/proc"
)

// web is a program that knows one node's HTTP API and nothing else.
type web struct {
	t      *testing.T
	client *http.Client
}

// ask gives the status and the answer, or how the connection ended.
func (w *web) ask(n *proc.Node, method, path, body string) (int, string, error) {
	return w.askIn(w.t.Context(), n, method, path, body)
}

// askIn is ask that ends with ctx.
func (w *web) askIn(ctx context.Context, n *proc.Node, method, path, body string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+n.ClientAddr+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// Programs that know the HTTP API of a follower alone go on over the death of the leader: every request is answered, what was confirmed is
// delivered, and polls that wait are answered too. (C24, C33)
func TestHTTPAtAFollower(t *testing.T) {
	c := start(t, 3)
	leader, err := c.Leader(within(t, 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	var followers []*proc.Node
	for _, n := range c.Nodes {
		if n != leader {
			followers = append(followers, n)
		}
	}
	w := &web{t, &http.Client{Timeout: 30 * time.Second}}
	t.Cleanup(w.client.CloseIdleConnections)
	const messages = 200
	var mu sync.Mutex
	confirmed, delivered := map[string]bool{}, map[string]bool{} // guarded by mu
	unclear := map[string]int{}                                  // guarded by mu: what was answered but with success
	begun := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range messages {
			if i == messages/4 {
				close(begun)
			}
			for tries := 0; ; tries++ { // the same task id: once in the queue, however often it is sent
				code, body, err := w.ask(followers[i%2], "POST", "/v1/queues/q/messages", fmt.Sprintf(`{"body":{"n":%d},"task_id":"t%[1]d"}`, i))
				mu.Lock()
				var said struct{ ID, Code string }
				switch {
				case err != nil:
					t.Errorf("the node that was asked is alive, and gives no answer: %v", err)
				case json.Unmarshal([]byte(body), &said) != nil:
					t.Errorf("%d %q is no JSON", code, body)
				case code == 201 || code == 409:
					confirmed[said.ID] = true
				default:
					unclear[fmt.Sprint(code, " ", said.Code)]++
				}
				mu.Unlock()
				if code == 201 || code == 409 || tries == 200 || t.Failed() {
					break
				}
				time.Sleep(20 * time.Millisecond) // as a program does that was told to try again
			}
		}
	})
	deadline := time.Now().Add(3 * time.Minute)
	all := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(delivered) >= messages
	}
	for i := range 2 {
		wg.Go(func() {
			for !all() && time.Now().Before(deadline) && !t.Failed() {
				code, body, err := w.ask(followers[i], "POST", "/v1/queues/q/lease", `{"max":10,"wait_ms":2000,"lease_ms":5000}`)
				if err != nil {
					t.Errorf("a poll is not answered: %v", err)
					return
				}
				var got struct{ Messages []struct{ ID, Token string } }
				if code != 200 || json.Unmarshal([]byte(body), &got) != nil {
					time.Sleep(20 * time.Millisecond) // as above
					continue
				}
				for _, m := range got.Messages {
					for range 100 {
						code, _, err := w.ask(followers[i], "POST", "/v1/leases/"+m.Token+"/ack", "")
						if err == nil && (code == 200 || code == 409 || code == 404) {
							break
						}
						time.Sleep(20 * time.Millisecond) // as above
					}
					mu.Lock()
					delivered[m.ID] = true
					mu.Unlock()
				}
			}
		})
	}
	<-begun
	leader.Kill()
	wg.Wait()
	lost := 0
	for id := range confirmed {
		if !delivered[id] {
			lost++
		}
	}
	if len(confirmed) != messages || lost > 0 || len(delivered) != messages {
		t.Errorf("%d confirmed of %d, %d of them not delivered, %d delivered", len(confirmed), messages, lost, len(delivered))
	}
	t.Logf("answers while there was no leader: %v", unclear)
}
