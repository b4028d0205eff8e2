package load

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/wire"
)

const (
	// fillWithin is how long a request waits for more messages, once it has one. It matters at the end of a run: until then there are
	// always more on their way.
	fillWithin = 5 * time.Millisecond
	// maxAnswer bounds what is read of an answer, bytes.
	maxAnswer = 1 << 20
)

// httpConn enqueues by the HTTP API, in requests of many messages, and does all else by the SDK.
type httpConn struct {
	sdk
	base    string // URL of the node
	http    *http.Client
	many    int
	keys    string        // what its idempotency keys begin with; "": there are none
	posted  atomic.Uint64 // requests, which number the keys
	sends   chan httpSend
	senders sync.WaitGroup
}

type httpSend struct {
	queue string
	body  []byte
	done  func(client.Receipt, error)
}

// overHTTP makes a connection that enqueues by HTTP at the node that leads now. Requests wait for their answers; as many are under way as
// it takes to have outstanding messages in them.
func overHTTP(ctx context.Context, s sdk, cfg *Config) (Conn, error) {
	is, err := s.ClusterStatus(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range is.Nodes {
		if n.ID != is.Leader {
			continue
		}
		requests := max(cfg.Outstanding/cfg.HTTP, 1)
		c := &httpConn{
			sdk: s, base: "http://" + n.ClientAddr, many: cfg.HTTP, sends: make(chan httpSend, cfg.Outstanding),
			keys: keysOf(cfg), http: &http.Client{Timeout: cfg.CallTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: requests, DisableCompression: true}},
		}
		for range requests {
			c.senders.Go(c.send)
		}
		return c, nil
	}
	return nil, fmt.Errorf("no node leads: %+v", is)
}

// EnqueueAsync has the message sent with others. Of it, the body is: the workloads that go by HTTP set nothing else.
func (c *httpConn) EnqueueAsync(_ context.Context, queue string, m client.Message, done func(client.Receipt, error)) error {
	c.sends <- httpSend{queue, m.Body, done} // has room for all that is outstanding
	return nil
}

// Close sends what has not been sent, waits for all answers and closes the SDK's connection.
func (c *httpConn) Close(ctx context.Context) error {
	close(c.sends)
	c.senders.Wait()
	c.http.CloseIdleConnections()
	return c.sdk.Close(ctx)
}

// send sends requests, one after the other.
func (c *httpConn) send() {
	var body bytes.Buffer
	var batch []httpSend
	fill := time.NewTimer(fillWithin)
	defer fill.Stop()
	for first := range c.sends {
		batch = append(batch[:0], first)
		fill.Reset(fillWithin)
	more:
		for len(batch) < c.many {
			select {
			case next, open := <-c.sends:
				if !open {
					break more
				}
				batch = append(batch, next)
			case <-fill.C:
				break more
			}
		}
		receipts, err := c.post(&body, batch)
		for i, s := range batch {
			if err != nil {
				s.done(client.Receipt{}, err)
				continue
			}
			s.done(receipts[i].receipt())
		}
	}
}

// httpReceipt is the outcome of one message of a request.
type httpReceipt struct {
	ID    string       `json:"id"`
	Error *httpProblem `json:"error"`
}

type httpProblem struct {
	Code    wire.Code `json:"code"`
	Detail  string    `json:"detail"`
	Outcome string    `json:"outcome"`
}

func (p *httpProblem) err() error {
	return &client.Error{Code: p.Code, Message: p.Detail, Unknown: p.Outcome != "refused"}
}

func (r *httpReceipt) receipt() (client.Receipt, error) {
	if r.Error != nil {
		return client.Receipt{}, r.Error.err()
	}
	return client.Receipt{ID: r.ID}, nil
}

// post sends messages of one queue in one request. The error is for all of them.
func (c *httpConn) post(body *bytes.Buffer, batch []httpSend) ([]httpReceipt, error) {
	body.Reset()
	body.WriteString(`{"messages":[`)
	for i, s := range batch {
		if i > 0 {
			body.WriteByte(',')
		}
		body.WriteString(`{"body_encoding":"base64","body":"`)
		body.Write(base64.StdEncoding.AppendEncode(body.AvailableBuffer(), s.body))
		body.WriteString(`"}`)
	}
	body.WriteString(`]}`)
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, c.base+"/v1/queues/"+url.PathEscape(batch[0].queue)+"/messages", bytes.NewReader(body.Bytes()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if c.keys != "" {
		req.Header.Set("Idempotency-Key", c.keys+strconv.FormatUint(c.posted.Add(1), 10))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, unclear(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, unclear(err)
	}
	if resp.StatusCode/100 != 2 {
		p := &httpProblem{}
		if err := json.Unmarshal(b, p); err != nil || p.Code == "" {
			return nil, unclear(fmt.Errorf("%s: %.200s", resp.Status, b))
		}
		return nil, p.err()
	}
	var answer struct {
		Messages []httpReceipt `json:"messages"`
	}
	if err := json.Unmarshal(b, &answer); err != nil {
		return nil, unclear(err)
	}
	if len(answer.Messages) != len(batch) {
		return nil, unclear(errors.New("not as many outcomes as messages"))
	}
	return answer.Messages, nil
}

// keysOf begins the keys of a connection, so that no other's are the same.
func keysOf(cfg *Config) string {
	if !cfg.HTTPKeys {
		return ""
	}
	return "bench-" + rand.Text() + "-"
}

// unclear is an error that does not say what became of the messages.
func unclear(err error) error {
	return &client.Error{Code: wire.CodeTimeout, Message: "over HTTP: " + err.Error(), Unknown: true}
}
