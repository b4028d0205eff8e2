package observe

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
)

// doors is the configuration of what is not there by itself.
const doors = `[push]
allow = ["127.0.0.0/8"]
[[hook]]
name   = "observed"
queue  = "mail"
verify = { scheme = "github", secret_env = "OBSERVED_SECRET" }
`

const hookSecret = "what signs them"

// still makes queues that do not move, each for a reason of its own.
func still(ctx context.Context, t *testing.T, c *client.Client) {
	t.Helper()
	for name, o := range map[string]client.QueueOptions{"alone": {}, "paused": {Paused: true}, "keys": {Ordering: "per_key"}, "limited": {MaxInFlight: 1}} {
		if err := c.CreateQueue(ctx, name, o); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := c.Enqueue(ctx, name, client.Message{Key: []byte("k")}); err != nil {
				t.Fatal(err)
			}
		}
		if name == "keys" || name == "limited" { // whose first message is out
			if ds, err := c.Lease(ctx, name, client.LeaseOptions{Max: 1, Lease: time.Hour}); err != nil || len(ds) != 1 {
				t.Fatalf("%s: leased %v, %v", name, ds, err)
			}
		}
	}
}

// pushed makes two queues whose messages are pushed: to an endpoint that takes them, and to one that is not there.
func pushed(ctx context.Context, t *testing.T, c *client.Client) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(s.Close)
	ports, err := proc.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	for name, url := range map[string]string{"pushed": s.URL, "unreached": "http://" + ports[0]} {
		if err := c.CreateQueue(ctx, name, client.QueueOptions{PushURL: url}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Enqueue(ctx, name, client.Message{}); err != nil {
			t.Fatal(err)
		}
	}
}

// mapped makes a queue whose messages are mapped, where they have a number.
func mapped(ctx context.Context, t *testing.T, c *client.Client) {
	t.Helper()
	for _, q := range []struct {
		name string
		o    client.QueueOptions
	}{{"halves", client.QueueOptions{ResultTTL: time.Second}}, {"mapped", client.QueueOptions{MapTo: client.MapTo{Queue: "halves", Expression: "body.n > 0 ? {half: body.n / 2} : nil"}}}} {
		if err := c.CreateQueue(ctx, q.name, q.o); err != nil {
			t.Fatal(err)
		}
	}
}

// numbers are bodies that are mapped, come to nothing, and cannot be mapped.
var numbers = []string{`{"n":3}`, `{"n":0}`, `"n"`}

// knock sends a webhook, and a message by the HTTP API.
func knock(ctx context.Context, addr string, n int) error {
	body := strconv.Itoa(n)
	m := hmac.New(sha256.New, []byte(hookSecret))
	m.Write([]byte(body))
	for path, signature := range map[string]string{"/hook/observed": "sha256=" + hex.EncodeToString(m.Sum(nil)), "/v1/queues/mail/messages?kind=http": ""} {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+path, strings.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("X-Hub-Signature-256", signature)
		req.Header.Set("Content-Type", "text/plain")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode/100 != 2 && resp.StatusCode != http.StatusServiceUnavailable {
			return fmt.Errorf("POST %s: %s", path, resp.Status)
		}
	}
	return nil
}

// work has messages of every kind of end made until the function it returns is called, which waits for it.
func work(ctx context.Context, t *testing.T, addrs []string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	c, err := client.Open(ctx, client.Options{Addrs: addrs, FailWhenFull: true})
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]client.QueueOptions{
		"mail": {}, "orders": {Ordering: "per_key"}, "full": {MaxDepth: 1},
	} {
		if err := c.CreateQueue(ctx, name, o); err != nil {
			t.Fatal(err)
		}
	}
	still(ctx, t, c)
	pushed(ctx, t, c)
	mapped(ctx, t, c)
	ends := make(chan error, 3)
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			_, err := c.Enqueue(ctx, "mail", client.Message{Kind: fmt.Sprintf("kind-%d", i%3), Body: []byte(strconv.Itoa(i))})
			if err == nil {
				_, err = c.Enqueue(ctx, "orders", client.Message{Key: []byte("k"), Delay: time.Duration(i%2) * time.Minute})
			}
			if _, full := c.Enqueue(ctx, "full", client.Message{}); err == nil && full != nil && !errors.Is(full, client.ErrQueueFull) {
				err = full
			}
			if err == nil {
				err = knock(ctx, addrs[i%len(addrs)], i)
			}
			if err == nil && i%50 == 0 { // for rates of pushes
				_, err = c.Enqueue(ctx, "pushed", client.Message{})
			}
			if err == nil && i%20 == 0 {
				_, err = c.Enqueue(ctx, "mapped", client.Message{Body: []byte(numbers[i/20%len(numbers)]), ContentType: "application/json"})
			}
			select {
			case <-ctx.Done():
				ends <- nil
				return
			case <-tick.C:
			}
			if err != nil && ctx.Err() == nil {
				ends <- err
				return
			}
		}
	}()
	for _, queue := range []string{"mail", "orders"} {
		go func() {
			n := 0
			err := c.Consume(ctx, queue, client.ConsumeOptions{Concurrency: 1}, func(context.Context, *client.Delivery) (*client.Result, error) {
				if n++; n%5 == 0 {
					return nil, client.Permanent(errors.New("every fifth"))
				}
				return nil, nil
			})
			if ctx.Err() != nil {
				err = nil
			}
			ends <- err
		}()
	}
	return func() {
		cancel()
		for range cap(ends) {
			if err := <-ends; err != nil {
				t.Errorf("work: %v", err)
			}
		}
		closing, end := context.WithTimeout(context.Background(), 10*time.Second)
		defer end()
		if err := c.Close(closing); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}
