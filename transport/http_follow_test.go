package transport

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/wire"
)

// A follower answers as the leader does: what needs the leader is sent on, polls too, and what may be stale is answered by itself.
func TestFollowerForwards(t *testing.T) {
	all := calm(t, 3, Config{})
	follower := all[1]
	b := browse(t, follower.addr)
	b.steady = true

	id := b.put("q", `{"body":{"a":1},"task_id":"t"}`)
	m := b.takeOne("q")
	if m.ID != id || string(m.Body) != `{"a":1}` {
		t.Fatalf("leased %+v", m)
	}
	b.ok("POST", "/v1/leases/"+m.Token+"/ack", `{"result":{"output":2}}`, nil)
	a := b.ok("GET", "/v1/results/t?queue=q", "", nil)
	if a.header.Get("Quorate-Index") == "" {
		t.Errorf("headers %v", a.header)
	}
	b.refused("GET", "/v1/queues/none", "", wire.CodeNotFound, "none")
	waitFor(t, func() bool {
		return b.send("GET", "/v1/queues/q?stale=1", "", nil).status == 200 // when the follower has it too
	})
	for _, accept := range []string{"", "gzip"} {
		long := `{"body":"` + strings.Repeat("x", 3000) + `"}`
		b.put("long", long)
		a := b.plain("GET", "/v1/queues/long/messages", "", map[string]string{"Accept-Encoding": accept, "X-Request-Id": "mine"})
		if got := a.header.Get("Content-Encoding"); got != accept || a.header.Get("X-Request-Id") != "mine" {
			t.Errorf("Accept-Encoding %q: %v", accept, a.header)
		}
	}
	oneQueue(t, b)

	// waits says that the follower has a request in hand, and so has whoever leads.
	waits := func() bool {
		n := int64(0)
		for _, s := range all {
			n += waiting(s)
		}
		return waiting(follower) == 1 && (n == 2 || follower.Status().Leader)
	}
	// rest says that no request is under way: one is until its handler has returned, which may be after its answer has come.
	rest := func() bool {
		for _, s := range all {
			if waiting(s) != 0 {
				return false
			}
		}
		return true
	}
	t.Run("a poll, and its end by a message", func(t *testing.T) {
		b.t = t
		for tries := 0; ; tries++ { // a leader that loses its post ends it too
			waitFor(t, rest)
			answer, cancel := stuckUntil(t, b, "/v1/queues/q/lease", `{"wait_ms":60000}`, waits)
			id := b.put("q", `{"body":2}`)
			a := <-answer
			cancel()
			if a.status == 200 && strings.Contains(string(a.body), id) {
				break
			}
			if a.status != 503 || tries == 5 {
				t.Fatalf("%d %s", a.status, a.body)
			}
			b.ok("POST", "/v1/queues/q/purge", "", nil)
		}
	})
	t.Run("a poll whose caller goes", func(t *testing.T) {
		b.t = t
		b.ok("POST", "/v1/queues/q/purge", "", nil)
		waitFor(t, rest)
		answer, cancel := stuckUntil(t, b, "/v1/queues/q/lease", `{"wait_ms":60000}`, waits)
		cancel()
		<-answer
		waitFor(t, rest)
		id := b.put("q", `{"body":3}`)
		if m := b.takeOne("q"); m.ID != id || m.Attempt != 1 {
			t.Errorf("leased %+v", m)
		}
	})
	t.Run("no second hop (C24)", func(t *testing.T) {
		b.t = t
		a := b.plain("GET", "/v1/queues/q", "", map[string]string{"Quorate-Forwarded-By": "n9"})
		if p := b.problem("second hop", a); a.status != 503 || p.Code != "no_leader" {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
	t.Run("another leader", func(t *testing.T) {
		b.t = t
		handOver(t, leaderFirst(t, all)[0])
		leaderFirst(t, all)
		for _, n := range all { // the old leader too
			c := browse(t, n.addr)
			c.steady = true
			waitFor(t, func() bool {
				return c.plain("POST", "/v1/queues/moved/messages", `{"body":1}`, nil).status == 201
			})
			if m := c.takeOne("moved"); m.Attempt != 1 {
				t.Errorf("leased %+v", m)
			}
		}
	})
}

// Without a majority there is nobody to send on to: callers hear so at once, and may ask for what is stale.
func TestNoMajority(t *testing.T) {
	all := stations(t, 3, Config{CallTimeout: time.Second})
	b := browse(t, all[2].addr)
	b.steady = true
	b.put("q", `{"body":1}`)
	b.steady = false
	waitFor(t, func() bool { return b.plain("GET", "/v1/queues/q?stale=1", "", nil).status == 200 })
	all[0].stop(t)
	all[1].stop(t)
	waitFor(t, func() bool { return all[2].Status().LeaderAddr == "" })
	began := time.Now()
	p := b.refused("POST", "/v1/queues/q/messages", `{"body":1}`, wire.CodeNoLeader)
	if p.Outcome != "refused" || !p.Retry || time.Since(began) > patience/2 {
		t.Errorf("%+v after %v", p, time.Since(began))
	}
	b.refused("GET", "/v1/queues/q", "", wire.CodeNoLeader)
	b.ok("GET", "/v1/queues/q?stale=1", "", nil)
	b.ok("GET", "/v1/cluster", "", nil)
	b.ok("GET", "/v1/openapi.json", "", nil)
}

// What a leader that cannot be reached, or breaks off, means for the caller: refused where nothing was sent, unknown where it may have been done.
func TestLeaderGone(t *testing.T) {
	quiet, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	var held sync.WaitGroup
	held.Go(func() {
		for {
			nc, err := quiet.Accept()
			if err != nil {
				return
			}
			held.Go(func() {
				buf := make([]byte, 1<<16)
				_, _ = nc.Read(buf)
				_ = nc.Close()
			})
		}
	})
	t.Cleanup(held.Wait)
	t.Cleanup(func() { _ = quiet.Close() })
	const nobody = "127.0.0.1:1" // and no port that has just been let go, which others may be given
	for _, tc := range []struct {
		what, leader, method, path, body string
		code, outcome                    string
	}{
		{"not there, a write", nobody, "POST", "/v1/queues/q/messages", `{"body":1}`, "no_leader", "refused"},
		{"not there, a read", nobody, "GET", "/v1/queues/q", "", "no_leader", "refused"},
		{"breaks off, a write", quiet.Addr().String(), "POST", "/v1/queues/q/messages", `{"body":1}`, "timeout", "unknown"},
		{"breaks off, a read", quiet.Addr().String(), "GET", "/v1/queues/q", "", "no_leader", "refused"},
		{"none", "", "POST", "/v1/queues/q/messages", `{"body":1}`, "no_leader", "refused"},
	} {
		t.Run(tc.what, func(t *testing.T) {
			fb := leading()
			fb.status.Leader, fb.status.LeaderAddr = false, tc.leader
			_, addr := doors(t, Config{Broker: fb})
			b := browse(t, addr)
			a := b.plain(tc.method, tc.path, tc.body, nil)
			if p := b.problem(tc.what, a); p.Code != tc.code || p.Outcome != tc.outcome {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
}

// Many callers at once share one session, and the log holds no more for each than what he asked for.
func TestOneSessionForAll(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	b := browse(t, n.addr)
	b.ok("PUT", "/v1/queues/q", "", nil)
	var wg sync.WaitGroup
	const callers, each = 16, 20
	got := make(chan string, callers*each)
	for range callers {
		wg.Go(func() {
			client := &http.Client{Timeout: patience, Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for range each {
				req, _ := http.NewRequestWithContext(context.Background(), "POST", "http://"+n.addr+"/v1/queues/q/lease", strings.NewReader(`{"wait_ms":10000}`))
				resp, err := client.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				buf := make([]byte, 4096)
				k, _ := resp.Body.Read(buf)
				_ = resp.Body.Close()
				if i := strings.Index(string(buf[:k]), `"id":"`); i >= 0 {
					got <- string(buf[i+6 : i+32])
				}
			}
		})
	}
	for range callers * each {
		b.plain("POST", "/v1/queues/q/messages", `{"body":1}`, nil)
	}
	wg.Wait()
	close(got)
	seen := map[string]bool{}
	for id := range got {
		if seen[id] {
			t.Errorf("%s was leased twice", id)
		}
		seen[id] = true
	}
	if len(seen) != callers*each {
		t.Errorf("%d messages were leased of %d", len(seen), callers*each)
	}
	before := n.Status().Applied
	for range 20 { // polling that finds nothing writes nothing
		b.take("q", "{}")
	}
	if after := n.Status().Applied; after-before > 2 {
		t.Errorf("20 polls that found nothing wrote %d entries", after-before)
	}
}
