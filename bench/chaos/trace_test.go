package chaos

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/transport/spans/spanstest"
)

// sendHook posts one webhook as GitHub signs them and gives the status of its answer.
func sendHook(ctx context.Context, url, secret, body string, header http.Header) (int, error) {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(body))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(m.Sum(nil)))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// One trace over three nodes and two leaders: a webhook that comes to a follower, a first attempt that the one leader hands out, and a second one
// that the next leader hands out, whose span is linked to the first though another node made it.
func TestTraceOverLeaders(t *testing.T) {
	collector := spanstest.Start(t)
	file := filepath.Join(t.TempDir(), "quorate.toml")
	const secret = "what signs them"
	config := "[trace]\nendpoint = \"" + collector.URL + `"
[[hook]]
name   = "traced"
queue  = "traced"
verify = { scheme = "github", secret_env = "TRACED_SECRET" }
`
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	c := startWith(t, proc.Config{Binary: quorateBin, Nodes: 3, Dir: t.TempDir(), Args: []string{"--config", file}, Env: []string{"TRACED_SECRET=" + secret}})
	cl := open(t, c.Addrs()...)
	whole(t, cl, 3)
	create(t, cl, "traced", client.QueueOptions{Retry: fixed(10*time.Millisecond, 5)})
	door := follower(t, c)
	eventually(t, 30*time.Second, "the webhook is taken", func(ctx context.Context) bool { // the follower's hooks may still be finding the leader
		code, err := sendHook(ctx, "http://"+door.ClientAddr+"/hook/traced", secret, "{}", nil)
		return err == nil && code == http.StatusAccepted
	})
	parentOf := func(d *client.Delivery) string {
		for _, h := range d.Headers {
			if h.Name == "traceparent" {
				return h.Value
			}
		}
		return ""
	}
	first := take(t, cl, "traced", time.Minute)
	began := parentOf(first)
	old := leader(t, c)
	var next *proc.Node
	for _, n := range c.Nodes {
		if n != old && n != door {
			next = n
		}
	}
	eventually(t, 60*time.Second, "another node leads", func(ctx context.Context) bool {
		_ = cl.Transfer(ctx, next.Name) // whoever is asked may have gone from office meanwhile
		s, err := cl.ClusterStatus(ctx)
		return err == nil && s.Leader != "" && s.Leader != old.Name
	})
	nack(t, cl, first, 0)
	second := take(t, cl, "traced", time.Minute)
	ack(t, cl, second, "done")

	if second.ID != first.ID || first.Attempt != 1 || second.Attempt != 2 || began == "" || parentOf(second) == began {
		t.Fatalf("attempts %d and %d of %s and %s, from %q and %q", first.Attempt, second.Attempt, first.ID, second.ID, began, parentOf(second))
	}
	trace := strings.Split(began, "-")[1]
	of := func(all []spanstest.Span, name string) (some []spanstest.Span) {
		for _, s := range spanstest.Named(all, name) {
			if s.TraceID == trace {
				some = append(some, s)
			}
		}
		return some
	}
	// Each node sends what it has every five seconds.
	if err := collector.Await(within(t, time.Minute), func(all []spanstest.Span) bool {
		return len(of(all, "webhook traced")) == 1 && len(of(all, "enqueue traced")) > 0 && len(of(all, "deliver traced")) == 2
	}); err != nil {
		t.Fatalf("%v: %+v", err, collector.Spans())
	}
	all := collector.Spans()
	hook, enqueued, delivered := of(all, "webhook traced")[0], of(all, "enqueue traced")[0], of(all, "deliver traced")
	if delivered[0].Attributes["quorate.attempt"] != "1" {
		delivered[0], delivered[1] = delivered[1], delivered[0]
	}
	if hook.Parent != "" || hook.Resource["service.instance.id"] != door.Name {
		t.Errorf("the webhook at %s: %+v", door.Name, hook)
	}
	for _, s := range append(delivered, enqueued) {
		if s.Parent != hook.SpanID {
			t.Errorf("no child of the webhook: %+v", s)
		}
	}
	a, b := delivered[0], delivered[1]
	if at, after := a.Resource["service.instance.id"], b.Resource["service.instance.id"]; at == after {
		t.Errorf("both attempts were handed out by %s", at)
	}
	if len(a.Links) != 0 || len(b.Links) != 1 || b.Links[0].SpanID != a.SpanID || b.Links[0].TraceID != trace {
		t.Errorf("the second attempt is not linked to the first: %+v, %+v", a, b)
	}
	if want := "00-" + trace + "-" + b.SpanID + "-01"; parentOf(second) != want {
		t.Errorf("the second worker goes on from %s, want %s", parentOf(second), want)
	}
}
