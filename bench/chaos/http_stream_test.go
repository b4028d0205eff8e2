package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/proc"
	"maps"
	"slices"
)

var streamsFlag = flag.Int("streams", 300, "how many idle streams of events TestIdleStreams opens, with a fifth as many long polls beside them")

// tune reads a node's stream of events as a browser's EventSource does: it connects again whenever the stream ends. It gives up at what an
// EventSource gives up at, any answer but 200, and returns that status; 0: ctx has ended.
func (w *web) tune(ctx context.Context, n *proc.Node, path string, up func(), event func(name, data string)) int {
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, "GET", "http://"+n.ClientAddr+path, nil)
		if err != nil {
			w.t.Error(err)
			return 0
		}
		req.Header.Set("Accept", "text/event-stream")
		resp, err := w.client.Do(req)
		if err == nil {
			if resp.StatusCode != http.StatusOK {
				_ = resp.Body.Close()
				return resp.StatusCode
			}
			up()
			r := bufio.NewReader(resp.Body)
			name, data := "", ""
			for {
				line, err := r.ReadString('\n')
				if err != nil {
					break
				}
				switch field, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); field {
				case "event":
					name = v
				case "data":
					data += v
				case "":
					if data != "" {
						event(name, data)
					}
					name, data = "", ""
				}
			}
			_ = resp.Body.Close()
		}
		select {
		case <-time.After(100 * time.Millisecond): // what the stream asks for is longer
		case <-ctx.Done():
		}
	}
	return 0
}

// Listeners at every node outlive the leader's death: those that are left go on by themselves, as browsers do, and what is enqueued then is
// delivered to them all within seconds. (C33)
func TestListenersOverALeadersDeath(t *testing.T) {
	c := start(t, 3)
	victim := leader(t, c)
	w := &web{t, &http.Client{Transport: &http.Transport{ResponseHeaderTimeout: time.Minute}}}
	t.Cleanup(w.client.CloseIdleConnections)
	ctx, stop := context.WithCancel(t.Context())
	const each, messages = 10, 300
	var up atomic.Int64
	var mu sync.Mutex
	done := map[string]bool{}  // guarded by mu
	open := map[string]bool{}  // guarded by mu: their acks had no answer
	gaveUp := map[int]int{}    // guarded by mu: by status, at nodes that live
	all := make(chan struct{}) // closed when every message is done
	finish := sync.OnceFunc(func() { close(all) })
	finished := func(id string) {
		mu.Lock()
		defer mu.Unlock()
		if done[id] = true; len(done) == messages {
			finish()
		}
	}
	var wg sync.WaitGroup
	for _, n := range c.Nodes {
		for range each {
			wg.Go(func() {
				began := sync.OnceFunc(func() { up.Add(1) })
				for ctx.Err() == nil {
					status := w.tune(ctx, n, "/v1/queues/q/listen?prefetch=5&lease_ms=5000", began, func(name, data string) {
						var m struct{ ID, Token string }
						if name != "message" || json.Unmarshal([]byte(data), &m) != nil {
							return
						}
						for ctx.Err() == nil {
							code, _, err := w.ask(n, "POST", "/v1/leases/"+m.Token+"/ack", "")
							if err != nil && n == victim { // it comes back when its lease has run out, unless the ack was taken
								mu.Lock()
								open[m.ID] = true
								mu.Unlock()
								return
							}
							if err == nil && (code == 200 || code == 409 || code == 404) {
								if code == 200 {
									finished(m.ID)
								}
								return
							}
							time.Sleep(20 * time.Millisecond) // as a program does that was told to try again
						}
					})
					if status != 0 && n != victim {
						mu.Lock()
						gaveUp[status]++
						mu.Unlock()
					}
				}
			})
		}
	}
	for end := time.Now().Add(30 * time.Second); up.Load() < int64(each*len(c.Nodes)); {
		if time.Now().After(end) {
			t.Fatalf("%d of %d listeners have begun", up.Load(), each*len(c.Nodes))
		}
		time.Sleep(10 * time.Millisecond) // nobody tells across processes
	}
	var other *proc.Node
	for _, n := range c.Nodes {
		if n != victim {
			other = n
		}
	}
	for i := range messages {
		if i == messages/3 {
			victim.Kill()
		}
		for tries := 0; ; tries++ {
			code, body, err := w.ask(other, "POST", "/v1/queues/q/messages", fmt.Sprintf(`{"body":%d,"task_id":"t%[1]d"}`, i))
			if err == nil && (code == 201 || code == 409) {
				break
			}
			if tries == 500 {
				t.Fatalf("%d %s %v", code, body, err)
			}
			time.Sleep(20 * time.Millisecond) // as above
		}
	}
	began := time.Now()
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for waiting, late := true, time.After(2*time.Minute); waiting; {
		select {
		case <-all:
			t.Logf("all %d done %s after the last was enqueued", messages, time.Since(began))
			waiting = false
		case <-look.C:
			mu.Lock()
			ids := slices.Collect(maps.Keys(open))
			mu.Unlock()
			for _, id := range ids {
				if code, body, err := w.ask(other, "GET", "/v1/tasks/"+id, ""); err == nil && code == 200 && strings.Contains(body, `"status":"succeeded"`) {
					finished(id)
				}
			}
		case <-late:
			mu.Lock()
			t.Errorf("%d of %d done", len(done), messages)
			mu.Unlock()
			waiting = false
		}
	}
	stop()
	wg.Wait()
	if len(gaveUp) > 0 {
		t.Errorf("a browser would have given up at nodes that live, by status: %v", gaveUp)
	}
}

// A node keeps thousands of idle streams and long polls in little memory: 5,000 of each kind's sum in a gigabyte (-streams 5000).
func TestIdleStreams(t *testing.T) {
	streams, polls := *streamsFlag, *streamsFlag/5
	c := start(t, 1)
	n := c.Nodes[0]
	w := &web{t, &http.Client{Timeout: 30 * time.Second}}
	t.Cleanup(w.client.CloseIdleConnections)
	if code, body, err := w.ask(n, "PUT", "/v1/queues/q0", ""); err != nil || code != 201 {
		t.Fatalf("%d %s %v", code, body, err)
	}
	before := n.RSS()
	var conns []net.Conn
	t.Cleanup(func() {
		for _, nc := range conns {
			_ = nc.Close()
		}
	})
	began := time.Now()
	dial := func(request string) net.Conn {
		nc, err := (&net.Dialer{Timeout: 30 * time.Second}).DialContext(t.Context(), "tcp", n.ClientAddr)
		if err != nil {
			t.Fatalf("after %d connections: %v", len(conns), err)
		}
		conns = append(conns, nc)
		if err := nc.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(nc, request); err != nil {
			t.Fatal(err)
		}
		return nc
	}
	const queues = 50
	for i := range streams {
		path := fmt.Sprintf("/v1/queues/q%d/listen", i%queues)
		if i%10 == 9 {
			path = "/v1/results/stream?queue=q0"
		}
		r := bufio.NewReaderSize(dial("GET "+path+" HTTP/1.1\r\nHost: "+n.ClientAddr+"\r\n\r\n"), 256)
		if line, err := r.ReadString('\n'); err != nil || line != "HTTP/1.1 200 OK\r\n" {
			t.Fatalf("stream %d: %q %v", i, line, err)
		}
	}
	for range polls {
		const body = `{"wait_ms":600000}`
		dial(fmt.Sprintf("POST /v1/queues/q0/lease HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n%s", n.ClientAddr, len(body), body))
	}
	var open, waiting float64
	for end := time.Now().Add(30 * time.Second); ; {
		m := n.Metrics(within(t, 10*time.Second))
		if open, waiting = m["quorate_http_streams"], m["quorate_http_requests_under_way"]; open == float64(streams) && waiting == float64(polls) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%g streams are open and %g requests wait, want %d and %d", open, waiting, streams, polls)
		}
		time.Sleep(50 * time.Millisecond) // nobody tells across processes
	}
	took := time.Since(began)
	after := n.RSS()
	report(t, "%d idle streams and %d long polls, opened in %s: %d MB resident, %d MB before, %.1f KiB each; %d CPUs", streams, polls, took.Round(time.Millisecond), after>>20, before>>20,
		float64(after-before)/float64(streams+polls)/1024, runtime.NumCPU())
	if most := int64(256<<20) + int64(streams+polls)*128<<10; after > min(most, 1<<30) {
		t.Errorf("%d MB are resident with %d streams and %d polls, want at most %d", after>>20, streams, polls, most>>20)
	}
	// They are not forgotten: a message reaches one of its queue's, at once.
	if code, body, err := w.ask(n, "POST", "/v1/queues/q7/messages", `{"body":1}`); err != nil || code != 201 {
		t.Fatalf("%d %s %v", code, body, err)
	}
	for end := time.Now().Add(10 * time.Second); ; {
		_, body, err := w.ask(n, "GET", "/v1/queues/q7/stats", "")
		if err == nil && strings.Contains(body, `"processing":1`) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("nobody was given the message: %s %v", body, err)
		}
		time.Sleep(10 * time.Millisecond) // as above
	}
	for _, nc := range conns {
		_ = nc.Close()
	}
	for end := time.Now().Add(30 * time.Second); ; {
		if m := n.Metrics(within(t, 10*time.Second)); m["quorate_http_streams"] == 0 && m["quorate_http_requests_under_way"] == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatal("streams stay open whose callers have gone")
		}
		time.Sleep(50 * time.Millisecond) // as above
	}
}

// curl is ask by the program of that name, as a shell has it, where it is here. The line is in the test's log.
func (w *web) curl(n *proc.Node, method, path, body string) (int, string, error) {
	program, err := exec.LookPath("curl")
	if err != nil {
		return w.ask(n, method, path, body)
	}
	args := []string{"-X", method, "http://" + n.ClientAddr + path}
	if body != "" {
		args = append(args, "-d", body)
	}
	w.t.Logf("curl '%s'", strings.Join(args, "' '"))
	args = append(args, "--silent", "--show-error", "--max-time", "30", "--write-out", "\n%{http_code}")
	var errs strings.Builder
	cmd := exec.CommandContext(w.t.Context(), program, args...)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return 0, string(out), fmt.Errorf("%w: %s", err, errs.String())
	}
	at := strings.LastIndexByte(string(out), '\n')
	code, err := strconv.Atoi(string(out[at+1:]))
	return code, string(out[:max(at, 0)]), err
}

// Every method and path that a node describes, asked at a follower of three, as a shell would.
func TestEveryRouteAtAFollower(t *testing.T) {
	c := start(t, 3)
	led := leader(t, c)
	n := c.Nodes[0]
	if n == led {
		n = c.Nodes[1]
	}
	w := &web{t, &http.Client{Timeout: 30 * time.Second}}
	t.Cleanup(w.client.CloseIdleConnections)
	vars := map[string]string{}
	fill := func(s string) string {
		for k, v := range vars {
			s = strings.ReplaceAll(s, "$"+k, v)
		}
		return s
	}
	tried := map[string]bool{}
	const ok, made, refused = 200, 201, 0
	for _, s := range []struct {
		method, route, query, body string
		status                     int    // refused: any of 400 to 499
		keep                       string // a field of the answer, for $field in what follows
	}{
		{"GET", "/v1/openapi.json", "", "", ok, ""},
		{"GET", "/healthz", "", "", ok, ""},
		{"GET", "/readyz", "", "", ok, ""},
		{"GET", "/metrics", "", "", ok, ""},
		{"GET", "/v1/ws", "", "", refused, ""},
		{"POST", "/hook/nobody", "", "1", refused, ""},
		{"GET", "/v1/cluster", "", "", ok, ""},
		{"POST", "/v1/cluster/verify", "", "", ok, ""},
		{"DELETE", "/v1/cluster/members/nobody", "", "", refused, ""},
		{"PUT", "/v1/queues/q", "", `{"retry":{"kind":"fixed","initial_ms":1,"max_attempts":2}}`, made, ""},
		{"PATCH", "/v1/queues/q", "", `{"max_depth":1000}`, ok, ""},
		{"GET", "/v1/queues", "", "", ok, ""},
		{"GET", "/v1/queues/q", "", "", ok, ""},
		{"POST", "/v1/queues/q/pause", "", "", ok, ""},
		{"POST", "/v1/queues/q/resume", "", "", ok, ""},
		{"POST", "/v1/queues/q/messages", "", `{"body":1,"task_id":"t"}`, made, "id"},
		{"GET", "/v1/queues/q/messages", "?limit=5", "", ok, ""},
		{"GET", "/v1/queues/q/stats", "", "", ok, ""},
		{"POST", "/v1/queues/q/lease", "", `{"wait_ms":5000}`, ok, "token"},
		{"POST", "/v1/leases/$token/extend", "", `{"lease_ms":60000}`, ok, ""},
		{"POST", "/v1/leases/$token/release", "", "", ok, ""},
		{"POST", "/v1/queues/q/lease", "", `{"wait_ms":5000}`, ok, "token"},
		{"POST", "/v1/leases/$token/ack", "", `{"result":{"output":1}}`, ok, ""},
		{"GET", "/v1/tasks/t", "?queue=q", "", ok, ""},
		{"GET", "/v1/results/t", "?queue=q&wait_ms=1000", "", ok, ""},
		{"PUT", "/v1/results/p", "?queue=q", `{"output":1}`, ok, ""},
		{"GET", "/v1/results", "?queue=q", "", ok, ""},
		{"POST", "/v1/queues/q/messages", "", `{"body":1,"task_id":"later","delay_ms":3600000}`, made, ""},
		{"POST", "/v1/tasks/later/reschedule", "?queue=q", `{"delay_ms":7200000}`, ok, ""},
		{"DELETE", "/v1/tasks/later", "?queue=q", "", ok, ""},
		{"POST", "/v1/queues/q/messages", "", `{"body":1,"keys_if_undelivered":[["a","b"]]}`, made, "id"},
		{"POST", "/v1/queues/q/lease", "", `{"wait_ms":5000}`, ok, "token"},
		{"POST", "/v1/leases/$token/nack", "", `{"permanent":true}`, ok, ""},
		{"GET", "/v1/kv/a/b", "", "", ok, ""},
		{"GET", "/v1/kv", "?prefix=a", "", ok, ""},
		{"GET", "/v1/kv-changes", "?wait_ms=1000", "", ok, ""},
		{"DELETE", "/v1/kv/a/b", "", "", ok, ""},
		{"GET", "/v1/queues/q/dlq", "", "", ok, ""},
		{"GET", "/v1/queues/q/dlq/stream", "", "", ok, ""},
		{"GET", "/v1/queues/q/dlq/$id", "", "", ok, ""},
		{"POST", "/v1/queues/q/dlq/$id/requeue", "", "", ok, "new_id"},
		{"POST", "/v1/queues/q/lease", "", `{"wait_ms":5000}`, ok, "token"},
		{"POST", "/v1/leases/batch", "", `{"operations":[{"op":"nack","token":"$token","permanent":true}]}`, ok, ""},
		{"POST", "/v1/queues/q/dlq/requeue", "", `{"all":true}`, ok, "new_id"},
		{"POST", "/v1/queues/q/lease", "", `{"wait_ms":5000}`, ok, "token"},
		{"POST", "/v1/leases/$token/nack", "", `{"permanent":true}`, ok, ""},
		{"DELETE", "/v1/queues/q/dlq/$new_id", "", "", ok, ""},
		{"DELETE", "/v1/queues/q/dlq", "", "", ok, ""},
		{"PUT", "/v1/schedules/s", "", `{"queue":"q","cron":"0 3 * * *","message":{"body":1}}`, ok, ""},
		{"GET", "/v1/schedules", "", "", ok, ""},
		{"GET", "/v1/schedules/s", "", "", ok, ""},
		{"DELETE", "/v1/schedules/s", "", "", ok, ""},
		{"POST", "/v1/batches", "", `{"queue":"q","callback":{"body":1}}`, made, "batch"},
		{"POST", "/v1/batches/$batch/seal", "", "", ok, ""},
		{"GET", "/v1/batches/$batch", "", "", ok, ""},
		{"POST", "/v1/queues/q/purge", "", "", ok, ""},
		{"POST", "/queue/enqueue", "", `{"value":1,"options":{"backoffSchedule":[]}}`, ok, "id"},
		{"GET", "/queue/stats", "", "", ok, ""},
		{"GET", "/queue/poll", "?wait_ms=5000", "", ok, ""},
		{"POST", "/queue/nack", "", `{"id":"$id"}`, ok, ""},
		{"GET", "/queue/dlq", "", "", ok, ""},
		{"GET", "/queue/dlq/$id", "", "", ok, ""},
		{"POST", "/queue/dlq/$id/requeue", "", "", ok, "newId"},
		{"GET", "/queue/poll", "?wait_ms=5000", "", ok, ""},
		{"POST", "/queue/nack", "", `{"id":"$newId"}`, ok, ""},
		{"DELETE", "/queue/dlq/$newId", "", "", ok, ""},
		{"DELETE", "/queue/dlq", "", "", ok, ""},
		{"POST", "/queue/enqueue", "", `{"value":1}`, ok, "id"},
		{"GET", "/v1/queues/default/listen", "", "", ok, "token"},
		{"GET", "/queue/listen", "", "", ok, "id"},
		{"GET", "/v1/results/stream", "?queue=q", "", ok, "position"},
		{"GET", "/queue/poll", "?wait_ms=5000", "", ok, ""}, // what was streamed has come back
		{"POST", "/queue/ack", "", `{"id":"$id"}`, ok, ""},
		{"DELETE", "/v1/queues/q", "", "", ok, ""},
		{"POST", "/v1/cluster/transfer", "", "", ok, ""},
		{"POST", "/queue/enqueue", "", `{"value":1}`, ok, ""}, // at whoever leads now
	} {
		stream := strings.HasSuffix(s.route, "/listen") || strings.HasSuffix(s.route, "/stream")
		path, body := fill(s.route)+s.query, fill(s.body)
		var code int
		var answer string
		var err error
		for end := time.Now().Add(30 * time.Second); ; {
			if stream {
				code, answer, err = w.first(n, path)
			} else {
				code, answer, err = w.curl(n, s.method, path, body)
			}
			if err != nil || code != http.StatusServiceUnavailable || time.Now().After(end) {
				break
			}
			time.Sleep(20 * time.Millisecond) // as a program does that was told to try again
		}
		if err != nil || code != s.status && (s.status != refused || code < 400 || code > 499) && !(s.method == "PUT" && code == made) {
			t.Fatalf("%s %s %s: %d %s %v", s.method, path, body, code, answer, err)
		}
		if s.keep != "" {
			m := regexp.MustCompile(`"` + s.keep + `":"([^"]+)"`).FindStringSubmatch(answer)
			if m == nil {
				t.Fatalf("%s %s: %s has no %s", s.method, path, answer, s.keep)
			}
			vars[s.keep] = m[1]
		}
		tried[s.method+" "+shape(s.route)] = true
	}
	_, doc, err := w.ask(n, "GET", "/v1/openapi.json", "")
	var d struct{ Paths map[string]map[string]any }
	if err != nil || json.Unmarshal([]byte(doc), &d) != nil {
		t.Fatalf("%s %v", doc, err)
	}
	for path, methods := range d.Paths {
		for m := range methods {
			if !tried[strings.ToUpper(m)+" "+shape(path)] {
				t.Errorf("%s %s is in the document and was not tried", m, path)
			}
		}
	}
	for path, want := range map[string]int{"/v1/ws": 400, "/v1/none": 404, "/none": 404} {
		if code, body, err := w.ask(n, "GET", path, ""); err != nil || code != want {
			t.Errorf("%s: %d %.200s %v, want %d", path, code, body, err, want)
		}
	}
}

// shape is a path with its parameters taken out: those that are in braces in the document, and what this test puts there.
func shape(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		switch {
		case strings.HasPrefix(p, "{"), strings.HasPrefix(p, "$"), i == 3 && (p == "q" || p == "default" || p == "t" || p == "p" || p == "later" || p == "s"), p == "nobody":
			parts[i] = "*"
		}
	}
	if len(parts) > 4 && parts[2] == "kv" {
		parts = append(parts[:3], "*")
	}
	return strings.Join(parts, "/")
}

// first opens a stream and reads its first event beside pings.
func (w *web) first(n *proc.Node, path string) (int, string, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+n.ClientAddr+path, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	r := bufio.NewReader(resp.Body)
	text := ""
	for !strings.Contains(text, "data: ") || !strings.HasSuffix(text, "\n\n") {
		line, err := r.ReadString('\n')
		text += line
		if err != nil {
			return resp.StatusCode, text, nil // a refusal, or a stream that has ended
		}
	}
	return resp.StatusCode, text, nil
}
