package httpapi

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/wire"
)

// What an event looks like on the wire, and that the rules of Server-Sent Events read it back.
func TestAppendEvent(t *testing.T) {
	for _, tc := range []struct{ what, name, id, data, want string }{
		{"one line", "message", "7", `{"a":1}`, "event: message\nid: 7\ndata: {\"a\":1}\n\n"},
		{"no id", "ping", "", "{}", "event: ping\ndata: {}\n\n"},
		{"lines", "m", "", "a\nb\n\nc", "event: m\ndata: a\ndata: b\ndata: \ndata: c\n\n"},
		{"lines of other systems", "m", "", "a\r\nb\rc", "event: m\ndata: a\ndata: b\ndata: c\n\n"},
		{"a line end last", "m", "", "a\n", "event: m\ndata: a\ndata: \n\n"},
		{"a carriage return last", "m", "", "a\r", "event: m\ndata: a\ndata: \n\n"},
		{"what looks like fields", "m", "", "data: x\nid: 9\n: y", "event: m\ndata: data: x\ndata: id: 9\ndata: : y\n\n"},
		{"a space before", "m", "", " x", "event: m\ndata:  x\n\n"},
		{"nothing", "m", "", "", "event: m\ndata: \n\n"},
	} {
		t.Run(tc.what, func(t *testing.T) {
			got := string(appendEvent(nil, tc.name, tc.id, []byte(tc.data)))
			if got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
			if strings.Contains(got, "\r") {
				t.Errorf("a carriage return in %q", got)
			}
			var lines []string
			for line := range strings.SplitSeq(strings.TrimSuffix(got, "\n\n"), "\n") {
				if v, ok := strings.CutPrefix(line, "data:"); ok {
					lines = append(lines, strings.TrimPrefix(v, " "))
				}
			}
			if read := strings.Join(lines, "\n"); read != strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(tc.data) {
				t.Errorf("read back as %q", read)
			}
		})
	}
}

// fakeFeed is a subscription that gives what a test puts in.
type fakeFeed struct {
	wake    chan struct{}
	mu      sync.Mutex
	got     []any    // guarded by mu
	over    bool     // guarded by mu
	once    []string // guarded by mu: said to be written
	sent    []string
	written int // guarded by mu
	closed  chan struct{}
	end     sync.Once
}

func newFeed() *fakeFeed { return &fakeFeed{wake: make(chan struct{}, 1), closed: make(chan struct{})} }

func (f *fakeFeed) put(over bool, what ...any) {
	f.mu.Lock()
	f.got, f.over = append(f.got, what...), over
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *fakeFeed) Wake() <-chan struct{} { return f.wake }

func (f *fakeFeed) Take() ([]any, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	got := f.got
	f.got = nil
	return got, f.over
}

func (f *fakeFeed) Sends(tokens ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent = append(f.sent, tokens...)
}

func (f *fakeFeed) Written(once ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.once = append(f.once, once...)
	f.written++
}

func (f *fakeFeed) Close() { f.end.Do(func() { close(f.closed) }) }

func (f *fakeFeed) waitClosed(t *testing.T) {
	t.Helper()
	select {
	case <-f.closed:
	case <-time.After(10 * time.Second):
		t.Fatal("the subscription is not ended")
	}
}

// streaming serves an API whose listeners get feed, and gives its address.
func streaming(t *testing.T, n *fakeNode, change func(*Config)) (*API, string) {
	t.Helper()
	a := newAPI(t, n, change)
	srv := httptest.NewServer(a)
	t.Cleanup(srv.Close)
	t.Cleanup(srv.CloseClientConnections)
	t.Cleanup(a.Drain)
	return a, srv.URL
}

// head is what an answer begins with.
type head struct {
	StatusCode int
	Header     http.Header
}

// open begins a stream and gives what comes, line by line.
func open(t *testing.T, url string, header map[string]string) (head, *bufio.Reader, func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	t.Cleanup(cancel)
	return head{resp.StatusCode, resp.Header}, bufio.NewReader(resp.Body), cancel
}

// expect reads up to an empty line.
func expect(t *testing.T, r *bufio.Reader, want string) {
	t.Helper()
	var b strings.Builder
	for !strings.HasSuffix(b.String(), "\n\n") {
		line, err := r.ReadString('\n')
		b.WriteString(line)
		if err != nil {
			t.Fatalf("%v after %q, want %q", err, b.String(), want)
		}
	}
	if got := b.String(); got != want && !(strings.HasSuffix(want, "*") && strings.HasPrefix(got, strings.TrimSuffix(want, "*"))) {
		t.Fatalf("got %q, want %q", got, want)
	}
}

func TestStreamOnTheWire(t *testing.T) {
	feed := newFeed()
	n := &fakeNode{feed: feed}
	_, url := streaming(t, n, nil)
	const id, token = "01ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFQ69G5FAV01ARZ3NDEKTSV4RRFFQ69G5FAV"
	resp, r, end := open(t, url+"/v1/queues/q/listen?prefetch=3&lease_ms=1000&worker=w", nil)
	for name, want := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no", "Content-Encoding": ""} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if s := n.listened(); s.Queue != "q" || s.Credit != 3 || s.LeaseMillis != 1000 || s.Worker != "w" {
		t.Errorf("subscribed %+v", s)
	}
	expect(t, r, "retry: 1000\n\n")
	feed.put(false, &wire.Delivery{Messages: []wire.Delivered{
		{ID: id, Token: token, Attempt: 1, LeaseLeftMillis: 1000, Body: []byte("{\"a\":\r\n1}"), ContentType: "application/json", Priority: 4, EnqueuedAt: 5},
		{ID: id, Token: token, Attempt: 2, Body: []byte("a\r\nb"), ContentType: "text/plain", Priority: 4, AtMostOnce: true},
	}})
	expect(t, r, "event: message\nid: "+id+"\ndata: {\"id\":\""+id+"\",\"token\":\""+token+"\",\"task_id\":\""+id+
		"\",\"attempt\":1,\"lease_left_ms\":1000,\"body\":{\"a\":1},\"body_encoding\":\"json\",*")
	expect(t, r, "event: message\nid: "+id+"\ndata: {\"id\":\""+id+"\",\"token\":\""+token+"\",\"task_id\":\""+id+
		"\",\"attempt\":2,\"lease_left_ms\":0,\"body\":\"a\\r\\nb\",\"body_encoding\":\"text\",*")
	feed.put(false, &wire.LeaseGone{Tokens: []string{token}}, &wire.LeaseCancelled{Tokens: []string{token}})
	expect(t, r, "event: lease_gone\ndata: {\"tokens\":[\""+token+"\"]}\n\n")
	expect(t, r, "event: lease_cancelled\ndata: {\"tokens\":[\""+token+"\"]}\n\n")
	feed.mu.Lock()
	if len(feed.once) != 1 || feed.once[0] != token {
		t.Errorf("said to be written for good: %q", feed.once)
	}
	feed.mu.Unlock()
	end()
	feed.waitClosed(t)
}

// Every way in which a node ends a stream says so in an event, and the subscription has ended before.
func TestStreamEnds(t *testing.T) {
	for _, tc := range []struct {
		what string
		do   func(*API, *fakeFeed)
		want string // "" : no word, for it could not be read
	}{
		{"leadership moves", func(_ *API, f *fakeFeed) { f.put(false, &wire.Redirect{Leader: "127.0.0.1:9", Reason: "not_leader"}) }, `"leader":"127.0.0.1:9"`},
		{"the node stops, as the group says", func(_ *API, f *fakeFeed) { f.put(false, &wire.Redirect{Reason: "stopping"}) }, "stopping"},
		{"the node stops", func(a *API, _ *fakeFeed) { a.Drain() }, "stopping"},
		{"the session is replaced", func(_ *API, f *fakeFeed) { f.put(true, &wire.Redirect{Reason: "replaced"}) }, "connect again"},
		{"the reader was too slow", func(_ *API, f *fakeFeed) { f.put(true) }, ""},
	} {
		t.Run(tc.what, func(t *testing.T) {
			feed := newFeed()
			a, url := streaming(t, &fakeNode{feed: feed}, nil)
			_, r, _ := open(t, url+"/queue/listen", nil)
			expect(t, r, "retry: 1000\n\n")
			tc.do(a, feed)
			feed.waitClosed(t)
			got, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			text := string(got)
			switch {
			case tc.want == "" && text != "":
				t.Errorf("%q after the stream", text)
			case tc.want == "":
			case !strings.HasPrefix(text, "event: end\ndata: {") || !strings.HasSuffix(text, "}\n\n") || !strings.Contains(text, tc.want) ||
				!strings.Contains(text, `"code":"no_leader"`) || !strings.Contains(text, `"retry":true`):
				t.Errorf("ends with %q", text)
			}
			if n := a.Streams(); n != 0 {
				t.Errorf("%d streams are open", n)
			}
		})
	}
}

func TestStreamPings(t *testing.T) {
	feed := newFeed()
	_, url := streaming(t, &fakeNode{feed: feed}, func(c *Config) { c.PingEvery = 10 * time.Millisecond })
	_, r, _ := open(t, url+"/queue/listen", nil)
	expect(t, r, "retry: 1000\n\n")
	for range 3 {
		expect(t, r, "event: ping\ndata: {\"at\":*")
	}
}

// A reader who does not read is cut off after the time of one write, and what he was given goes back.
func TestStreamStalls(t *testing.T) {
	feed := newFeed()
	stalled := make(chan struct{}, 1)
	_, url := streaming(t, &fakeNode{feed: feed}, func(c *Config) {
		c.EventTimeout, c.Stalled = time.Second, func() { stalled <- struct{}{} }
	})
	_, r, _ := open(t, url+"/queue/listen", nil)
	expect(t, r, "retry: 1000\n\n")
	big := wire.Delivered{ID: strings.Repeat("0", 26), Token: strings.Repeat("0", 52), Attempt: 1, Body: make([]byte, 512<<10)}
	feed.put(false, &wire.Delivery{Messages: slices.Repeat([]wire.Delivered{big}, 32)}) // more than sockets hold
	feed.waitClosed(t)
	<-stalled
	if feed.mu.Lock(); feed.written != 0 {
		t.Errorf("what was cut off is said to be written")
	}
	feed.mu.Unlock()
}

func TestStreamBounds(t *testing.T) {
	feed := newFeed()
	a, url := streaming(t, &fakeNode{feed: feed}, func(c *Config) { c.MaxStreams, c.MaxRequests = 1, 1 })
	_, r, end := open(t, url+"/queue/listen", nil)
	expect(t, r, "retry: 1000\n\n")
	resp, _, _ := open(t, url+"/queue/listen", nil)
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "5" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
	eventually := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	eventually("the refused one has its place still", func() bool { return a.UnderWay() == 0 }) // its caller may have the answer before that
	if resp, _, _ := open(t, url+"/v1/queues", nil); resp.StatusCode != 200 {                   // a stream takes no place of a request
		t.Errorf("%d beside a stream", resp.StatusCode)
	}
	end()
	feed.waitClosed(t)
	eventually("a stream is open whose caller has gone", func() bool { return a.Streams() == 0 })
}

func TestListenOptions(t *testing.T) {
	for _, tc := range []struct {
		query  string
		status int
		names  string
	}{
		{"prefetch=0", 400, "prefetch"}, {"prefetch=10001", 400, "10000"}, {"prefetch=x", 400, "integer"}, {"prefetch=1&prefetch=2", 400, "once"}, {"prefetch=", 400, "prefetch"},
		{"lease_ms=99", 400, "lease_ms"}, {"lease_ms=43200001", 400, "lease_ms"}, {"credit=1", 400, "prefetch"}, {"prefetch=99999999999999999999", 400, "prefetch"},
		{"worker=" + strings.Repeat("x", 129), 400, "worker"}, {"worker=%ff", 400, "worker"}, {"body_encoding=text", 400, "base64"}, {"envelope=x", 400, "job"}, {"%zz", 400, "query"},
	} {
		t.Run(tc.query, func(t *testing.T) {
			n := &fakeNode{}
			w := ask(newAPI(t, n, nil), "GET", "/v1/queues/q/listen?"+tc.query, "")
			if w.Code != tc.status || !strings.Contains(w.Body.String(), tc.names) {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	if w := ask(newAPI(t, &fakeNode{}, nil), "GET", "/v1/queues/q/listen", "{}"); w.Code != 400 {
		t.Errorf("with a body: %d %s", w.Code, w.Body)
	}
	n := &fakeNode{}
	a := newAPI(t, n, nil)
	if w := ask(a, "HEAD", "/v1/queues/q/listen", ""); w.Code != 200 || w.Header().Get("Content-Type") != "text/event-stream" || w.Body.Len() > 0 || n.listened() != nil {
		t.Errorf("HEAD: %d %v %q", w.Code, w.Header(), w.Body)
	}
	if w := ask(a, "POST", "/v1/queues/q/listen", ""); w.Code != 405 {
		t.Errorf("POST: %d", w.Code)
	}
}

// A stream that cannot begin because there is no leader waits for one, and gives up in time; other requests do not wait.
func TestStreamWaitsForALeader(t *testing.T) {
	feed := newFeed()
	n := &fakeNode{feed: feed, away: true}
	_, url := streaming(t, n, func(c *Config) { c.CallTimeout = 10 * time.Second })
	if resp, _, _ := open(t, url+"/queue/stats", nil); resp.StatusCode != 503 {
		t.Errorf("a request is answered %d", resp.StatusCode)
	}
	if resp, _, _ := open(t, url+"/queue/listen", map[string]string{hopHeader: "n2"}); resp.StatusCode != 503 {
		t.Errorf("a stream that was sent on is answered %d", resp.StatusCode)
	}
	n.mu.Lock()
	n.looked = make(chan struct{}, 100)
	n.mu.Unlock()
	begun := make(chan struct{})
	go func() {
		defer close(begun)
		<-n.looked
		n.mu.Lock()
		n.away = false
		n.mu.Unlock()
	}()
	resp, r, _ := open(t, url+"/queue/listen", nil)
	<-begun
	if resp.StatusCode != 200 {
		t.Fatalf("%d", resp.StatusCode)
	}
	expect(t, r, "retry: 1000\n\n")

	a, url := streaming(t, &fakeNode{away: true}, func(c *Config) { c.CallTimeout = 100 * time.Millisecond })
	for range 2 { // without a leader, and then as it stops
		if resp, _, _ := open(t, url+"/queue/listen", nil); resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
			t.Errorf("%d %v", resp.StatusCode, resp.Header)
		}
		resp, r, _ := open(t, url+"/queue/listen", map[string]string{"Accept": "text/event-stream"}) // a browser, for which a refusal would be the last word
		rest, err := io.ReadAll(r)
		if resp.StatusCode != 200 || err != nil || !strings.HasPrefix(string(rest), "retry: 1000\n\nevent: end\ndata: {") || !strings.Contains(string(rest), `"no_leader"`) {
			t.Errorf("%d %q %v", resp.StatusCode, rest, err)
		}
		a.Drain()
	}
}

// A stream that a follower sends on: events come at once, the end of either side reaches the other, and a leader that breaks off within an
// event leaves nothing that could be taken for one.
func TestStreamRelayed(t *testing.T) {
	feed := newFeed()
	leader, leaderURL := streaming(t, &fakeNode{feed: feed}, nil)
	follower := &fakeNode{away: true, leader: strings.TrimPrefix(leaderURL, "http://")}
	f, url := streaming(t, follower, nil)
	_, r, end := open(t, url+"/queue/listen", nil)
	expect(t, r, "retry: 1000\n\n") // the follower's
	expect(t, r, "retry: 1000\n\n")
	feed.put(false, &wire.LeaseGone{Tokens: []string{"x"}})
	expect(t, r, "event: lease_gone\ndata: {\"tokens\":[\"x\"]}\n\n")
	end()
	feed.waitClosed(t)

	feed = newFeed()
	leader.cfg.Node.(*fakeNode).setFeed(feed)
	_, r, _ = open(t, url+"/queue/listen", nil)
	expect(t, r, "retry: 1000\n\n")
	expect(t, r, "retry: 1000\n\n")
	f.Drain()
	feed.waitClosed(t)
	if rest, err := io.ReadAll(r); err != nil || !strings.HasPrefix(string(rest), "event: end\n") || !strings.Contains(string(rest), "stopping") {
		t.Errorf("%q %v", rest, err)
	}

	for _, tc := range []struct{ what, sent, want string }{
		{"between events", "event: ping\ndata: {}\n\n", "event: ping\ndata: {}\n\nevent: end\ndata: {*"},
		{"within an event", "event: message\ndata: {\"id\":", "event: message\ndata: {\"id\":"},
		{"behind a line", "event: message\ndata: {}\n", "event: message\ndata: {}\n"},
	} {
		t.Run("broken off "+tc.what, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, tc.sent)
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}))
			defer srv.Close()
			_, url := streaming(t, &fakeNode{away: true, leader: strings.TrimPrefix(srv.URL, "http://")}, nil)
			_, r, _ := open(t, url+"/queue/listen", nil)
			expect(t, r, "retry: 1000\n\n")
			got, err := io.ReadAll(r)
			if text := string(got); err != nil || text != tc.want && !(strings.HasSuffix(tc.want, "*") && strings.HasPrefix(text, strings.TrimSuffix(tc.want, "*"))) {
				t.Errorf("%q %v, want %q", text, err, tc.want)
			}
		})
	}
	t.Run("a leader that has gone silent", func(t *testing.T) {
		stuck := make(chan struct{})
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "retry: 1\n\n")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			close(stuck)
		}))
		defer srv.Close()
		_, url := streaming(t, &fakeNode{away: true, leader: strings.TrimPrefix(srv.URL, "http://")}, func(c *Config) { c.PingEvery = 20 * time.Millisecond })
		_, r, _ := open(t, url+"/queue/listen", nil)
		got, err := io.ReadAll(r)
		if err != nil || !strings.Contains(string(got), "event: end\n") {
			t.Errorf("%q %v", got, err)
		}
		<-stuck
	})
}

// Where a stream of results goes on is in its events and pings, and Last-Event-ID goes before what the address says.
func TestResultsResume(t *testing.T) {
	for _, tc := range []struct {
		what, query, last string
		status            int
		after             uint64
		fromNow           bool
	}{
		{"from the beginning", "", "", 200, 0, false},
		{"behind a position", "&after=7", "", 200, 7, false},
		{"connected again", "&after=7", "9", 200, 9, false},
		{"connected again, having begun with the last", "&last=1", "9", 200, 9, false},
		{"from now on", "&last=1", "", 200, 0, true},
		{"a position that is none", "&after=x", "", 400, 0, false},
		{"an id that is none", "", "-1", 400, 0, false},
	} {
		t.Run(tc.what, func(t *testing.T) {
			asked := make(chan *wire.ResultList, 100)
			n := &fakeNode{answer: func(r Request) *Answer {
				l := *r.Body.(*wire.ResultList)
				select {
				case asked <- &l:
				default:
				}
				return &Answer{Type: wire.TypeResults, Body: &wire.Results{Next: 12, Results: []wire.Recorded{{Position: 12, Result: wire.Result{TaskID: "t", Status: "succeeded"}}}}}
			}}
			_, url := streaming(t, n, nil)
			h := map[string]string{}
			if tc.last != "" {
				h["Last-Event-ID"] = tc.last
			}
			resp, r, end := open(t, url+"/v1/results/stream?queue=q"+tc.query, h)
			if resp.StatusCode != tc.status {
				t.Fatalf("%d", resp.StatusCode)
			}
			if tc.status != 200 {
				return
			}
			if l := <-asked; l.After != tc.after || l.Last != tc.fromNow || l.WaitMillis != 0 {
				t.Errorf("asked %+v", l)
			}
			if l := <-asked; l.After != 12 || l.Last || l.WaitMillis == 0 {
				t.Errorf("then %+v", l)
			}
			expect(t, r, "retry: 1000\nid: *")
			expect(t, r, "event: result\nid: 12\ndata: {\"position\":\"12\",*")
			end()
		})
	}
}
