package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/transport/push"
)

// pushSecretText is a secret as it is written.
func pushSecretText(b byte) string {
	return "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32))
}

// pushRequest is what an endpoint got.
type pushRequest struct {
	header http.Header
	body   string
}

// pushEndpoint answers by the body: a status, or 200 with "did " and the body.
func pushEndpoint(t *testing.T) (url string, got chan pushRequest) {
	t.Helper()
	got = make(chan pushRequest, 1000)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- pushRequest{r.Header, string(b)}
		var status int
		if n, _ := fmt.Sscan(string(b), &status); n == 1 {
			w.WriteHeader(status)
		}
		fmt.Fprintf(w, "did %s", b)
	}))
	t.Cleanup(s.Close)
	return s.URL, got
}

func nextPush(t *testing.T, got chan pushRequest) pushRequest {
	t.Helper()
	select {
	case r := <-got:
		return r
	case <-time.After(30 * time.Second):
		t.Fatal("nothing is pushed")
	}
	return pushRequest{}
}

func metricsOf(t *testing.T, addr string) string {
	t.Helper()
	resp, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

type nothing struct{}

func (nothing) String() string { return "" }

// A queue is given an endpoint: what is in it and what comes is sent there, answers become results and dead letters, the queue says how it
// stands, and when the endpoint is taken away messages stay.
func TestPush(t *testing.T) {
	t.Parallel()
	addr := devNode(t)
	url, got := pushEndpoint(t)
	must(t, addr, "", "queue", "create", "q", "--retry", "fixed:50ms*2")
	before := strings.TrimSpace(must(t, addr, "", "enqueue", "q", "one", "--header", "traceparent=00-1", "--header", "secret=x", "--task-id", "t-1"))
	must(t, addr, "", "queue", "set", "q", "--push-url", url+"/token", "--push-concurrency", "3", "--push-timeout", "5s", "--push-headers", "Traceparent")
	r := nextPush(t, got)
	if r.body != "one" || r.header.Get("Traceparent") != "00-1" || r.header.Get("Secret") != "" || !strings.Contains(before, r.header.Get("Webhook-Id")) ||
		r.header.Get("Quorate-Task-Id") != "t-1" || r.header.Get("Quorate-Queue") != "q" || r.header.Get("Quorate-Attempt") != "1" || r.header.Get("Webhook-Signature") != "" {
		t.Errorf("pushed %+v", r)
	}
	if out := must(t, addr, "", "result", "wait", "t-1", "--queue", "q"); !strings.Contains(out, "did one") {
		t.Errorf("result: %s", out)
	}
	must(t, addr, "", "enqueue", "q", "410")
	must(t, addr, "", "enqueue", "q", "500")
	var dead string
	await(t, "two dead letters", func() bool {
		dead = must(t, addr, "", "dlq", "list", "q", "-o", "json")
		return strings.Contains(dead, "410 Gone: did 410") && strings.Contains(dead, "500 Internal Server Error: did 500")
	}, nothing{})
	if !strings.Contains(dead, `"permanent"`) || !strings.Contains(dead, `"max_attempts"`) {
		t.Errorf("dead letters: %s", dead)
	}
	if r := nextPush(t, got); r.body != "410" && r.body != "500" {
		t.Errorf("pushed %+v", r)
	}
	show := decode[struct {
		Options map[string]any
		Stats   map[string]any
	}](t, must(t, addr, "", "queue", "show", "q", "-o", "json"))
	if o := show.Options; o["push_url"] != url+"/token" || o["push_concurrency"] != 3.0 || o["push_timeout_ms"] != 5000.0 || fmt.Sprint(o["push_headers"]) != "[traceparent]" ||
		!strings.HasPrefix(show.Stats["push"].(string), "pushing") {
		t.Errorf("show: %v", show)
	}
	if out := must(t, addr, "", "queue", "stats", "q"); !strings.Contains(out, "at work") {
		t.Errorf("stats: %s", out)
	}
	metrics := metricsOf(t, addr)
	for _, want := range []string{`quorate_push_requests_total{outcome="delivered",queue="q"} 1`, `quorate_push_requests_total{outcome="failed",queue="q"} 2`,
		`quorate_push_requests_total{outcome="rejected",queue="q"} 1`, `quorate_push_resting{queue="q"} 0`, "quorate_push_queues 1"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	must(t, addr, "", "queue", "set", "q", "--push-url", "")
	await(t, "no push", func() bool { return strings.Contains(metricsOf(t, addr), "quorate_push_queues 0") }, nothing{})
	if out := must(t, addr, "", "queue", "stats", "q"); strings.Contains(out, "push") {
		t.Errorf("stats of a queue that is pushed no longer: %s", out)
	}
	for len(got) > 0 {
		<-got
	}
	must(t, addr, "", "enqueue", "q", "stays")
	if out := must(t, addr, "", "lease", "q", "-o", "json"); !strings.Contains(out, base64.StdEncoding.EncodeToString([]byte("stays"))) || len(got) > 0 {
		t.Errorf("leased %s, pushed %d", out, len(got))
	}
	for _, args := range [][]string{
		{"--push-url", "example.org"}, {"--push-concurrency", "300"}, {"--push-timeout", "1ms"}, {"--push-secrets", "a,a"}, {"--push-permanent", "gone"},
		{"--push-permanent", "500"}, {"--push-headers", "host"},
	} {
		code, _, errs := cliRun(t, addr, "", append([]string{"queue", "set", "q"}, args...)...)
		if code == 0 || !strings.Contains(strings.ReplaceAll(errs, "_", "-"), args[0][2:]) {
			t.Errorf("%v: exit %d, %q", args, code, errs)
		}
	}
}

// A node with secrets from its environment and a file, and a declared queue: what is sent is signed by both, and nothing that the node shows,
// logs or keeps on disk has a secret in it.
func TestPushIsSigned(t *testing.T) {
	first, second := pushSecretText(1), pushSecretText(2)
	t.Setenv("PUSH_TEST_SECRET", first)
	url, got := pushEndpoint(t)
	dir := t.TempDir()
	text := fmt.Sprintf(`[push]
allow   = ["127.0.0.1"]
secrets = ["new=env:PUSH_TEST_SECRET", "old=file:%s"]
[[queue]]
name         = "q"
push_url     = %q
push_secrets = ["new", "old"]
[[queue]]
name         = "unknown"
push_url     = %q
push_secrets = ["newer"]
`, filepath.Join(dir, "old"), url, url)
	for name, b := range map[string]string{"old": second + "\n", "quorate.toml": text} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	free := freePorts(t)
	addr := free[0]
	log, stop := serveWith(t, filepath.Join(dir, "quorate.toml"), free)
	await(t, "the declared queue", func() bool {
		code, _, _ := cliRun(t, addr, "", "queue", "show", "unknown")
		return code == 0
	}, log)
	must(t, addr, "", "enqueue", "q", "body")
	r := nextPush(t, got)
	var keys [][]byte
	for _, s := range []string{first, second} {
		key, err := push.ParseSecret(s)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	var at int64
	fmt.Sscan(r.header.Get("Webhook-Timestamp"), &at)
	if want := push.Sign(keys, r.header.Get("Webhook-Id"), at, []byte("body")); r.header.Get("Webhook-Signature") != want || at == 0 {
		t.Errorf("signed %q, want %q", r.header.Get("Webhook-Signature"), want)
	}
	await(t, "why it is not pushed", func() bool {
		return strings.Contains(must(t, addr, "", "queue", "stats", "unknown"), `has no secret "newer"`)
	}, log)
	shown := must(t, addr, "", "queue", "list", "-o", "json")
	metrics := metricsOf(t, addr)
	stop()
	_, out, errs := cliRun(t, addr, "", "serve", "--config", filepath.Join(dir, "quorate.toml"), "--print-config")
	texts := map[string]string{"the log": log.String(), "metrics": metrics, "print-config": out + errs, "the listing": shown}
	err := filepath.Walk(filepath.Join(dir, "data"), func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		texts[path] = string(b)
		return err
	})
	if err != nil || len(texts) < 6 {
		t.Errorf("%d files, %v", len(texts), err)
	}
	for what, text := range texts {
		for i, s := range []string{first, second} {
			if strings.Contains(text, strings.TrimPrefix(s, "whsec_")[:20]) || strings.Contains(text, string(keys[i])) {
				t.Errorf("a secret is in %s", what)
			}
		}
	}
}

// A name that leads to this machine is refused by a node that is not told otherwise, messages stay where they are, and the queue says why.
func TestPushIsGuarded(t *testing.T) {
	t.Parallel()
	url, got := pushEndpoint(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "quorate.toml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "[[queue]]\nname = \"q\"\npush_url = %q\n", url), 0o600); err != nil {
		t.Fatal(err)
	}
	free := freePorts(t)
	log, _ := serveWith(t, file, free)
	must(t, free[0], "", "enqueue", "q", "body")
	var stats string
	await(t, "why it is not pushed", func() bool {
		stats = must(t, free[0], "", "queue", "stats", "q", "-o", "json")
		return strings.Contains(stats, "push.allow of the configuration does not have 127.0.0.1") && decode[map[string]any](t, stats)["pending"] == 1.0
	}, log)
	s := decode[map[string]any](t, stats)
	if text, _ := s["push"].(string); !strings.HasPrefix(text, "rests until ") || s["dlq"] != 0.0 || s["retrying"] != 0.0 || len(got) != 0 {
		t.Errorf("stats %v, %d requests", s, len(got))
	}
	// That is a reason of its own, wherever reasons are shown, with its time where one is shown.
	await(t, "a rest as the reason", func() bool {
		stats := must(t, free[0], "", "queue", "stats", "q")
		return strings.Contains(stats, "the push of the queue rests: no connection: ") && strings.Contains(stats, "; until 20") && !strings.Contains(stats, "nobody")
	}, log)
	await(t, "the reason in the listing", func() bool {
		return strings.Contains(must(t, free[0], "", "queue", "list"), "held: push_resting")
	}, log)
	await(t, "the reason in the metrics", func() bool {
		metrics := metricsOf(t, free[0])
		return strings.Contains(metrics, `quorate_queue_held{queue="q",reason="push_resting"} 1`) && !strings.Contains(metrics, `reason="no_consumers"`)
	}, log)
}

func TestPushConfiguration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good := pushSecretText(3)
	for name, b := range map[string]string{"good": good + "\r\n", "empty": "\n", "short": "whsec_c2hvcnQ=", "bare": strings.TrimPrefix(good, "whsec_"), "large": strings.Repeat("x", maxSecretFile+1)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := func(k string) (string, bool) {
		v, ok := map[string]string{"GOOD": good, "BARE": "hunter2hunter2hunter2hunter2"}[k]
		return v, ok
	}
	r, err := resolveWith(t, "", []string{"--push-allow", "10.0.0.0/8,::1", "--push-secrets", "a=env:GOOD,b=file:" + filepath.Join(dir, "good")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := r.push(env)
	if err != nil || len(p.allow) != 2 || len(p.secrets) != 2 || !bytes.Equal(p.secrets["a"], p.secrets["b"]) || len(p.secrets["a"]) != 32 {
		t.Fatalf("%v: %+v", err, p)
	}
	for _, c := range []struct{ name, file, want string }{
		{"a network that is none", "allow = [\"10.0.0\"]", "10.0.0.0/8"},
		{"a name for a network", "allow = [\"localhost\"]", `"localhost"`},
		{"no source", "secrets = [\"a\"]", "NAME=env:VARIABLE"},
		{"a secret in the file", "secrets = [\"a=" + good + "\"]", "a=env:VARIABLE"},
		{"a secret alone", "secrets = [\"" + good + "\"]", "NAME=env:VARIABLE"},
		{"another source", "secrets = [\"a=vault:x\"]", "a=file:PATH"},
		{"no variable", "secrets = [\"a=env:\"]", "a=env:VARIABLE"},
		{"a name that is none", "secrets = [\"a b=env:X\"]", "name of a secret"},
		{"twice", "secrets = [\"a=env:GOOD\", \"a=env:GOOD\"]", "there twice"},
		{"a variable that is not set", "secrets = [\"a=env:NONE\"]", "NONE"},
		{"a variable that holds none", "secrets = [\"a=env:BARE\"]", "does not begin with whsec_"},
		{"no file", "secrets = [\"a=file:" + dir + "/none\"]", "none"},
		{"an empty file", "secrets = [\"a=file:" + dir + "/empty\"]", "does not begin"},
		{"a short one", "secrets = [\"a=file:" + dir + "/short\"]", "5 bytes; 24 to 64"},
		{"one without its prefix", "secrets = [\"a=file:" + dir + "/bare\"]", "does not begin"},
		{"a large file", "secrets = [\"a=file:" + dir + "/large\"]", "at most 65536"},
	} {
		r, err := resolveWith(t, "[push]\n"+c.file+"\n", nil, nil)
		if err == nil {
			_, err = r.push(env)
		} else if !strings.Contains(err.Error(), "quorate.toml:2") {
			t.Errorf("%s: no line: %v", c.name, err)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), good[6:]) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// A node that stops while requests run gives back what has no answer, at no cost: the next one starts with attempt 1.
func TestPushStops(t *testing.T) {
	t.Parallel()
	begun, release := make(chan string, 100), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		begun <- r.Header.Get("Quorate-Attempt")
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(s.Close)
	free := sync.OnceFunc(func() { close(release) })
	t.Cleanup(free)
	dir := t.TempDir()
	file := filepath.Join(dir, "quorate.toml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "[push]\nallow = [\"127.0.0.1\"]\n[[queue]]\nname = \"q\"\npush_url = %q\npush_timeout_ms = 60000\n", s.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	ports := freePorts(t)
	_, stop := serveWith(t, file, ports)
	must(t, ports[0], "", "enqueue", "q", "body")
	if a := <-begun; a != "1" {
		t.Errorf("first in attempt %s", a)
	}
	stop()
	serveWith(t, file, ports)
	select {
	case a := <-begun:
		if a != "1" {
			t.Errorf("again in attempt %s, want 1: giving back is free", a)
		}
	case <-time.After(30 * time.Second):
		t.Error("it does not come again")
	}
	free()
}
