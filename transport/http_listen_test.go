package transport

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/wire"
)

// streaming is how many streams a node has open.
func streaming(n *station) int64 { return n.doors.api.Streams() }

// letGo waits until a node has no stream open and nothing of one on its books.
func letGo(t testing.TB, n *station) {
	t.Helper()
	waitFor(t, func() bool {
		guests := 0
		for _, h := range n.doors.houses.list() {
			guests += h.streams()
		}
		return streaming(n) == 0 && guests == 0 && n.doors.streamed.used.Load() == 0
	})
}

// A listener is handed messages as they come, as many at once as he asked for; what he has not answered when he goes is there for others at
// once, what he had been sent as a failed attempt.
func TestListen(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	b := browse(t, n.addr)
	sub := func(name string, f func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			b.t = t
			f(t)
			letGo(t, n)
		})
	}
	ack := func(m leasedJSON) { b.ok("POST", "/v1/leases/"+m.Token+"/ack", "", nil) }

	sub("messages, and the window", func(t *testing.T) {
		l := listen(t, n.addr, "/v1/queues/q/listen?prefetch=2&lease_ms=60000&worker=w1", nil) // before there is a queue
		defer l.close()
		var ids []string
		for i := range 3 {
			ids = append(ids, b.put("q", fmt.Sprintf(`{"body":{"n":%d},"kind":"k","headers":{"h":"v"}}`, i)))
		}
		first, second := l.message(), l.message()
		if first.ID != ids[0] || first.Attempt != 1 || string(first.Body) != `{"n":0}` || first.Kind != "k" || first.Headers["h"] != "v" || first.LeaseLeft < 50000 ||
			len(first.Token) != 52 || first.TaskID != first.ID {
			t.Errorf("got %+v", first)
		}
		var page struct{ Messages []struct{ Worker string } }
		b.ok("GET", "/v1/queues/q/messages?state=processing", "", &page)
		if len(page.Messages) != 2 || page.Messages[0].Worker != "w1" {
			t.Errorf("out are %+v", page)
		}
		l.quiet()
		b.ok("POST", "/v1/leases/"+first.Token+"/nack", `{"delay_ms":0}`, nil)
		third := l.message()
		if third.ID != ids[2] && (third.ID != ids[0] || third.Attempt != 2) {
			t.Errorf("got %+v", third)
		}
		ack(second)
		fourth := l.message()
		ack(third)
		ack(fourth)
	})
	sub("closing gives back at once, in order, and costs an attempt of what was sent", func(t *testing.T) {
		l := listen(t, n.addr, "/v1/queues/back/listen?prefetch=5", nil)
		var ids []string
		for range 6 {
			ids = append(ids, b.put("back", `{"body":1}`))
		}
		for range 5 {
			l.message()
		}
		l.close()
		waitFor(t, func() bool {
			var s struct{ Pending int }
			b.ok("GET", "/v1/queues/back/stats", "", &s)
			return s.Pending == 6
		})
		ms := b.take("back", `{"max":10}`)
		for i, m := range ms {
			want := 2
			if i == 5 { // it was never out
				want = 1
			}
			if len(ms) != 6 || m.ID != ids[i] || m.Attempt != want {
				t.Errorf("%d: %+v, want %s at attempt %d", i, m, ids[i], want)
			}
			ack(m)
		}
	})
	sub("a token outlives its stream", func(t *testing.T) {
		l := listen(t, n.addr, "/v1/queues/late/listen", nil)
		b.put("late", `{"body":1}`)
		m := l.message()
		l.close()
		letGo(t, n)
		ack(m) // the work is done: why do it twice
	})
	sub("two listeners share", func(t *testing.T) {
		a, c := listen(t, n.addr, "/v1/queues/two/listen?prefetch=3", nil), listen(t, n.addr, "/v1/queues/two/listen?prefetch=3", nil)
		defer a.close()
		defer c.close()
		seen := map[string]bool{}
		for range 6 {
			b.put("two", `{"body":1}`)
		}
		for _, l := range []*listener{a, c} {
			for range 3 {
				m := l.message()
				if seen[m.ID] {
					t.Errorf("%s came twice", m.ID)
				}
				seen[m.ID] = true
				ack(m)
			}
		}
	})
	sub("a lease that runs out", func(t *testing.T) {
		b.ok("PUT", "/v1/queues/slow", `{"retry":{"kind":"fixed","initial_ms":1,"max_attempts":3}}`, nil)
		l := listen(t, n.addr, "/v1/queues/slow/listen?lease_ms=100", nil)
		defer l.close()
		b.put("slow", `{"body":1}`)
		m := l.message()
		var gone struct{ Tokens []string }
		l.next("lease_gone").into(t, &gone)
		if len(gone.Tokens) != 1 || gone.Tokens[0] != m.Token {
			t.Errorf("gone are %v, want %s", gone.Tokens, m.Token)
		}
		again := l.message()
		if again.ID != m.ID || again.Attempt != 2 || again.Token <= m.Token {
			t.Errorf("got %+v after %+v", again, m)
		}
	})
	sub("a task that is cancelled", func(t *testing.T) {
		l := listen(t, n.addr, "/v1/queues/c/listen", nil)
		defer l.close()
		b.put("c", `{"body":1,"task_id":"t"}`)
		m := l.message()
		b.ok("DELETE", "/v1/tasks/t?queue=c", "", nil)
		var gone struct{ Tokens []string }
		l.next("lease_cancelled").into(t, &gone)
		if len(gone.Tokens) != 1 || gone.Tokens[0] != m.Token {
			t.Errorf("cancelled are %v, want %s", gone.Tokens, m.Token)
		}
		b.refused("POST", "/v1/leases/"+m.Token+"/ack", "", wire.CodeCancelled)
	})
	sub("at most once", func(t *testing.T) {
		b.ok("PUT", "/v1/queues/once", `{"delivery":"at_most_once"}`, nil)
		l := listen(t, n.addr, "/v1/queues/once/listen?prefetch=1", nil)
		defer l.close()
		for i := range 5 { // what has been written leaves the window
			b.put("once", fmt.Sprintf(`{"body":%d}`, i))
		}
		for i := range 5 {
			if m := l.message(); string(m.Body) != fmt.Sprint(i) || m.LeaseLeft != 0 {
				t.Errorf("%d: %+v", i, m)
			}
		}
	})
	sub("forms", func(t *testing.T) {
		for query, want := range map[string]string{
			"":                      `"body":"a\r\nb"`,
			"?body_encoding=base64": `"body":"YQ0KYg=="`,
			"?envelope=job":         `"payload":"a\r\nb"`,
		} {
			l := listen(t, n.addr, "/v1/queues/forms/listen"+query, nil)
			b.put("forms", `{"body":"a\r\nb","body_encoding":"text"}`)
			e := l.next("message")
			if !strings.Contains(e.data, want) || !strings.Contains(e.data, `"token":"`+e.id) {
				t.Errorf("%q: %s", query, e.data)
			}
			l.close()
			b.ok("POST", "/v1/queues/forms/purge", "", nil)
			letGo(t, n)
			b.ok("POST", "/v1/queues/forms/purge", "", nil) // one that was out stays at a purge
		}
	})
	sub("bytes that are no text (C62)", func(t *testing.T) {
		l := listen(t, n.addr, "/v1/queues/bytes/listen", nil)
		defer l.close()
		b.put("bytes", `{"body":"//4A","body_encoding":"base64"}`)
		b.put("bytes", `{}`)
		m := l.message()
		if string(m.Body) != `"//4A"` || m.Encoding != "base64" {
			t.Errorf("got %+v", m)
		}
		ack(m)
		if m = l.message(); string(m.Body) != `""` {
			t.Errorf("got %+v", m)
		}
		ack(m)
	})
	sub("the one-queue API", func(t *testing.T) {
		l := listen(t, n.addr, "/queue/listen", nil)
		defer l.close()
		var in struct{ ID string }
		b.ok("POST", "/queue/enqueue", `{"value":{"hello":"world"},"options":{"backoffSchedule":[1]}}`, &in)
		for i := range 2 {
			e := l.next("message")
			if want := fmt.Sprintf(`{"id":%q,"value":{"hello":"world"},"attempts":%d}`, in.ID, i+1); e.data != want || e.id != in.ID {
				t.Errorf("got %+v, want %s", e, want)
			}
			if i == 0 {
				b.ok("POST", "/queue/nack", `{"id":"`+in.ID+`","error":"boom"}`, nil)
			}
		}
		b.ok("POST", "/queue/ack", `{"id":"`+in.ID+`"}`, nil)
		other := listen(t, n.addr, "/queue/listen?queue=other&prefetch=1", nil)
		defer other.close()
		b.ok("POST", "/queue/enqueue?queue=other", `{"value":1}`, &in)
		if e := other.next("message"); e.id != in.ID {
			t.Errorf("got %+v", e)
		}
		b.ok("POST", "/queue/ack", `{"id":"`+in.ID+`"}`, nil)
	})
	sub("names that are none", func(t *testing.T) {
		for _, path := range []string{"/v1/queues/a%20b/listen", "/queue/listen?queue=a%2Fb", "/queue/listen?queue="} {
			l := listen(t, n.addr, path, nil)
			if l.status != 400 || !strings.Contains(l.body, `"field":"queue"`) {
				t.Errorf("%s: %d %s", path, l.status, l.body)
			}
		}
	})
	sub("many streams", func(t *testing.T) {
		const streams = 40
		var all []*listener
		for i := range streams {
			all = append(all, listen(t, n.addr, fmt.Sprintf("/v1/queues/many%d/listen", i%7), nil))
		}
		if got := streaming(n); got != streams {
			t.Errorf("%d streams are open, want %d", got, streams)
		}
		for i, l := range all {
			if i%2 == 0 {
				l.close()
			}
		}
		for i := range 7 {
			b.put(fmt.Sprintf("many%d", i), `{"body":1}`)
		}
		for _, l := range all {
			l.close()
		}
	})
}

// More streams than one session has subscriptions live in several houses; each gets its own messages.
func TestHouses(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	hs := n.doors.houses
	var conns []*conn
	for range group.MaxSessionSubs - 1 {
		c := newConn(n.doors, &http.Request{RemoteAddr: "test"})
		conns = append(conns, c)
		if h, _, f := hs.enter(c); f != nil || h != hs.first() {
			t.Fatalf("%v: another house while there is room", f)
		}
	}
	defer func() {
		for i, c := range conns {
			hs.first().exit(uint32(i + 1))
			c.cancel()
		}
		letGo(t, n)
	}()
	b := browse(t, n.addr)
	var all []*listener
	for i := range 3 { // one in the first house, two in the next
		all = append(all, listen(t, n.addr, fmt.Sprintf("/v1/queues/q%d/listen", i), nil))
	}
	if got := len(hs.list()); got != 2 {
		t.Errorf("%d houses", got)
	}
	for i, l := range all {
		id := b.put(fmt.Sprintf("q%d", i), `{"body":1}`)
		if m := l.message(); m.ID != id {
			t.Errorf("stream %d got %s, want %s", i, m.ID, id)
		}
		l.close()
	}
	for i := range all { // given back by each house
		if m := b.takeOne(fmt.Sprintf("q%d", i)); m.Attempt != 2 {
			t.Errorf("queue %d: %+v", i, m)
		}
	}
}

// A stream outlives the server's time-outs, which are absolute, and says that it lives (C58).
func TestListenOutlivesTimeouts(t *testing.T) {
	const limit = 750 * time.Millisecond // also of what is quick
	n := stations(t, 1, Config{HelloTimeout: limit, MessageTimeout: limit, WriteTimeout: 10 * time.Second, StreamPing: limit / 2})[0]
	b := browse(t, n.addr)
	l := listen(t, n.addr, "/queue/listen", nil)
	for range 8 { // reads may take twice the limit, so that is twice as long
		l.next("ping")
	}
	id := b.put("default", `{"body":1}`)
	if e := l.next("message"); e.id != id {
		t.Errorf("got %+v", e)
	}
}

// Streams are bounded in number, apart from requests, and who passes the bound is told when to come again.
func TestMaxStreams(t *testing.T) {
	n := stations(t, 1, Config{MaxStreams: 3, MaxRequests: 2})[0]
	b := browse(t, n.addr)
	var all []*listener
	for range 3 {
		all = append(all, listen(t, n.addr, "/queue/listen", nil))
	}
	a := b.send("GET", "/queue/listen", "", nil)
	if p := b.problem("one more", a); a.status != 503 || p.Code != "overloaded" || a.header.Get("Retry-After") != "5" || !strings.Contains(p.Detail, "3 streams") {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	b.ok("GET", "/queue/stats", "", nil)
	all[0].close()
	waitFor(t, func() bool { return streaming(n) == 2 })
	if l := listen(t, n.addr, "/queue/listen", nil); l.status != 200 {
		t.Errorf("%d when one has gone", l.status)
	}
}

// Whoever does not read is cut off; meanwhile nobody waits for him, what he is owed stays within the bound, and what he had goes to others.
func TestSlowListener(t *testing.T) {
	n := stations(t, 1, Config{WriteTimeout: 2 * time.Second})[0] // also of those who read
	b := browse(t, n.addr)
	slow := rawListen(t, n.addr, "/v1/queues/q/listen?prefetch=10000&lease_ms=600000", 4096)
	const size, total = 256 << 10, 40 // 10 MB: more than sockets and the bound hold
	body := strings.Repeat("x", size)
	for range total {
		if a := b.plain("POST", "/v1/queues/q/messages", body, map[string]string{"Content-Type": "text/plain"}); a.status != 201 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	fast := listen(t, n.addr, "/v1/queues/q/listen?prefetch=5&lease_ms=600000", nil)
	got := map[string]bool{}
	for len(got) < total {
		m := fast.message()
		if m.Attempt > 2 { // what was written to the slow one costs an attempt
			t.Fatalf("attempt %d of a message that one listener before has had at most", m.Attempt)
		}
		got[m.ID] = true
		b.ok("POST", "/v1/leases/"+m.Token+"/ack", "", nil)
		if used := n.doors.streamed.used.Load(); used > 2*(streamBytes+wire.MaxLeaseBytes+2*size) {
			t.Fatalf("%d bytes are owed", used)
		}
	}
	waitFor(t, func() bool { return streaming(n) == 1 }) // it has been cut off
	_ = slow.Close()
	fast.close()
	letGo(t, n)
}

// What all streams together have not written is bounded too: who has written all of his goes on.
func TestStreamPool(t *testing.T) {
	p := &pool{most: 100}
	for _, tc := range []struct {
		used, own int
		full      bool
	}{{0, 0, false}, {100, 50, false}, {101, 1, true}, {101, 0, false}, {200, 0, false}, {201, 0, true}} {
		p.used.Store(int64(tc.used))
		if got := p.full(tc.own); got != tc.full {
			t.Errorf("%d used, %d of them its own: full is %v", tc.used, tc.own, got)
		}
	}
	if (*pool)(nil).full(1 << 40) {
		t.Error("no pool is full")
	}
	(*pool)(nil).add(1)
}

// Listeners come and go, by a thousand, in every way there is, while messages flow: nothing is left of them, and every message is done once.
func TestListenersThatVanish(t *testing.T) {
	n := stations(t, 1, Config{StreamPing: 50 * time.Millisecond})[0] // by which it hears of who has gone behind bytes that nobody reads
	b := browse(t, n.addr)
	b.ok("PUT", "/v1/queues/q", `{"retry":{"kind":"fixed","initial_ms":1,"max_attempts":1000}}`, nil)
	const messages, each, ways = 50, 60, 4
	for range messages {
		b.put("q", `{"body":1}`)
	}
	var wg sync.WaitGroup
	for way := range ways {
		wg.Go(func() {
			for i := range each {
				d := net.Dialer{Timeout: patience}
				nc, err := d.Dial("tcp", n.addr)
				if err != nil {
					t.Error(err)
					return
				}
				tc := nc.(*net.TCPConn)
				_, err = fmt.Fprintf(tc, "GET /v1/queues/q/listen?prefetch=3 HTTP/1.1\r\nHost: %s\r\n\r\n", n.addr)
				if err != nil {
					t.Error(err)
				}
				if (way+i)%2 == 0 { // else it goes before the answer comes
					_ = tc.SetReadDeadline(time.Now().Add(patience))
					if _, err := tc.Read(make([]byte, 4096)); err != nil {
						t.Error(err)
					}
				}
				switch way {
				case 0:
					_ = tc.Close()
				case 1:
					_ = tc.SetLinger(0)
					_ = tc.Close()
				case 2: // one half, and then what is on its way
					_ = tc.CloseWrite()
					_ = tc.SetReadDeadline(time.Now().Add(patience))
					for err == nil {
						_, err = tc.Read(make([]byte, 4096))
					}
					_ = tc.Close()
				case 3: // it sends what nobody asked for
					_, _ = tc.Write([]byte("GET / HTTP/1.1\r\n\r\n\x00"))
					_ = tc.Close()
				}
			}
		})
	}
	wg.Wait()
	letGo(t, n)
	seen := 0
	for seen < messages {
		ms := b.take("q", `{"max":10,"wait_ms":5000}`)
		if len(ms) == 0 {
			t.Fatalf("%d of %d came back", seen, messages)
		}
		for _, m := range ms {
			seen++
			b.ok("POST", "/v1/leases/"+m.Token+"/ack", "", nil)
		}
	}
	var s struct{ Total, DLQ int }
	if b.ok("GET", "/v1/queues/q/stats", "", &s); s.Total != 0 || s.DLQ != 0 {
		t.Errorf("afterwards: %+v", s)
	}
}
