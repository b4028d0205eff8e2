package transport

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quorate/quorate/wire"
)

// ended gives the word that a stream ends with.
func (l *listener) ended() trouble {
	l.t.Helper()
	var p trouble
	l.next("end").into(l.t, &p)
	if p.Code != "no_leader" || !p.Retry || p.Outcome != "refused" || p.RequestID != l.header.Get("X-Request-Id") {
		l.t.Errorf("ends with %+v", p)
	}
	l.over()
	return p
}

// Streams among three nodes: at a follower, and over every way in which a leader ceases to be one.
func TestListenAmongThree(t *testing.T) {
	all := calm(t, 3, Config{})
	for _, tc := range []struct {
		what string
		f    func(t *testing.T, b *browser, all []*station)
	}{
		{"a follower streams", followerStreams},
		{"leadership moves", leadershipMoves},
		{"results", resultsStream},
		{"dead letters", deadStream},
		{"a deposed leader (C19)", deposedLeader},
		{"the leader stops", leaderStops},
	} {
		t.Run(tc.what, func(t *testing.T) {
			all := leaderFirst(t, all)
			b := browse(t, all[1].addr)
			b.steady = true
			tc.f(t, b, all)
		})
	}
}

// A follower streams what the leader has, event by event, and hands on the end of either side.
func followerStreams(t *testing.T, b *browser, all []*station) {
	leader, follower := all[0], all[1]
	l := listen(t, follower.addr, "/v1/queues/q/listen?prefetch=5", map[string]string{"X-Request-Id": "mine"})
	if l.header.Get("X-Request-Id") != "mine" || l.header.Get("Cache-Control") != "no-store" {
		t.Errorf("headers %v", l.header)
	}
	for range 5 {
		id := b.put("q", `{"body":1}`)
		if m := l.message(); m.ID != id { // at once, not when a buffer is full
			t.Fatalf("got %+v, want %s", m, id)
		}
	}
	if s, here := streaming(leader), streaming(follower); s != 1 || here != 1 {
		t.Fatalf("%d streams at the leader and %d at the follower", s, here)
	}
	l.close()
	letGo(t, leader)
	letGo(t, follower)
	for got := 0; got < 5; {
		ms := b.take("q", `{"max":10,"wait_ms":5000}`)
		for _, m := range ms {
			if m.Attempt != 2 {
				t.Errorf("came back: %+v", m)
			}
			b.ok("POST", "/v1/leases/"+m.Token+"/ack", "", nil)
		}
		if got += len(ms); len(ms) == 0 {
			t.Fatalf("%d of 5 came back", got)
		}
	}
	refused := listen(t, follower.addr, "/v1/queues/q/listen?lease_ms=1", nil)
	if refused.status != 400 || !strings.Contains(refused.body, "lease_ms") {
		t.Errorf("%d %s", refused.status, refused.body)
	}
	a := b.plain("HEAD", "/queue/listen", "", nil)
	if a.status != 200 || a.header.Get("Content-Type") != "text/event-stream" || len(a.body) > 0 {
		t.Errorf("HEAD: %d %v %q", a.status, a.header, a.body)
	}
}

// When leadership moves, streams end with a word, at the leader and at followers; whoever connects again gets on, and tokens from before are good.
func leadershipMoves(t *testing.T, b *browser, all []*station) {
	leader, follower := all[0], all[1]
	here := listen(t, leader.addr, "/v1/queues/a/listen?lease_ms=600000", nil)
	there := listen(t, follower.addr, "/v1/queues/b/listen?lease_ms=600000", nil)
	b.put("a", `{"body":1}`)
	b.put("b", `{"body":1}`)
	tokens := []string{here.message().Token, there.message().Token}
	handOver(t, leader)
	for _, l := range []*listener{here, there} {
		if p := l.ended(); !strings.Contains(p.Detail, "connect again") {
			t.Errorf("ends with %+v", p)
		}
	}
	for _, n := range all { // at once: who comes while there is no leader waits for one
		l := listen(t, n.addr, "/v1/queues/c/listen", nil)
		if l.status != 200 {
			t.Fatalf("%d %s", l.status, l.body)
		}
		id := b.put("c", `{"body":1}`)
		m := l.message()
		if m.ID != id {
			t.Errorf("got %+v, want %s", m, id)
		}
		b.ok("POST", "/v1/leases/"+m.Token+"/ack", "", nil)
		l.close()
	}
	for _, token := range tokens {
		b.ok("POST", "/v1/leases/"+token+"/ack", "", nil)
	}
	for _, n := range all {
		letGo(t, n)
	}
}

// Results come in the order of recording, each once, over ends and leaders, to as many as listen.
func resultsStream(t *testing.T, b *browser, all []*station) {
	b.ok("PUT", "/v1/queues/r", "", nil)
	push := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			b.ok("PUT", fmt.Sprintf("/v1/results/t%d?queue=r&kind=k%d", i, i%2), fmt.Sprintf(`{"output":%d}`, i), nil)
		}
	}
	follow := func(l *listener, from, to, step int) (last string) {
		t.Helper()
		for i := from; i < to; i += step {
			e := l.next("result")
			var r struct {
				Position string
				TaskID   string `json:"task_id"`
				Output   int
				Kind     string
			}
			if e.into(t, &r); r.TaskID != fmt.Sprintf("t%d", i) || r.Output != i || e.id != r.Position {
				t.Fatalf("got %+v, want t%d", e, i)
			}
			last = e.id
		}
		return last
	}
	push(0, 5)
	first := listen(t, all[0].addr, "/v1/results/stream?queue=r", nil)
	odd := listen(t, all[1].addr, "/v1/results/stream?queue=r&kind=k1", nil)
	now := listen(t, all[2].addr, "/v1/results/stream?queue=r&last=1", nil)
	follow(first, 0, 5, 1)
	push(5, 10)
	last := follow(first, 5, 10, 1)
	follow(odd, 1, 10, 2)
	follow(now, 5, 10, 1)
	for _, l := range []*listener{first, odd, now} {
		l.quiet()
	}
	first.close()
	push(10, 12)
	again := listen(t, all[1].addr, "/v1/results/stream?queue=r", map[string]string{"Last-Event-ID": last})
	last = follow(again, 10, 12, 1)
	handOver(t, all[0])
	again.ended()
	push(12, 14)
	again = listen(t, all[1].addr, "/v1/results/stream?queue=r", map[string]string{"Last-Event-ID": last})
	follow(again, 12, 14, 1)
	b.ok("DELETE", "/v1/queues/r", "", nil)
	var p trouble
	again.next("end").into(t, &p)
	if p.Code != string(wire.CodeNotFound) || p.Retry {
		t.Errorf("the queue is deleted, and the stream ends with %+v", p)
	}
	again.over()
	for query, code := range map[string]wire.Code{
		"?queue=r": wire.CodeNotFound, "": wire.CodeInvalidArgument, "?queue=q&after=-1": wire.CodeInvalidArgument, "?queue=q&wait_ms=1": wire.CodeInvalidArgument,
		"?queue=q&after=1&last=1": wire.CodeInvalidArgument, "?queue=q&after=999999": wire.CodeInvalidArgument,
	} {
		b.refused("GET", "/v1/results/stream"+query, "", code)
	}
}

// die has messages die in one entry, and so in one millisecond as a rule, and gives their ids.
func (b *browser) die(queue string, n int, kind string) map[string]bool {
	b.t.Helper()
	ids := map[string]bool{}
	one := `{"body":1,"kind":"` + kind + `"}`
	var put struct{ Messages []struct{ ID string } }
	b.ok("POST", "/v1/queues/"+queue+"/messages", `{"messages":[`+strings.Repeat(one+",", n-1)+one+`]}`, &put)
	for _, m := range put.Messages {
		ids[m.ID] = true
	}
	var ops []string
	for len(ops) < n {
		for _, m := range b.take(queue, `{"max":1000,"wait_ms":5000}`) {
			ops = append(ops, fmt.Sprintf(`{"op":"nack","token":%q,"error":"boom","permanent":true}`, m.Token))
		}
	}
	b.ok("POST", "/v1/leases/batch", `{"operations":[`+strings.Join(ops, ",")+`]}`, nil)
	return ids
}

// dead gives the next dead letter's id.
func (l *listener) dead() (id string, e event) {
	l.t.Helper()
	e = l.next("dead")
	var d struct {
		ID       string
		Error    string `json:"error_message"`
		FailedAt int64  `json:"failed_at"`
	}
	if e.into(l.t, &d); d.Error != "boom" || e.id != fmt.Sprintf("%d.%s", d.FailedAt, d.ID) {
		l.t.Fatalf("got %+v", e)
	}
	return d.ID, e
}

// allDead reads dead letters, which must be those, each once, and gives the id of the last event.
func (l *listener) allDead(want map[string]bool) (last string) {
	l.t.Helper()
	seen := map[string]bool{}
	for len(seen) < len(want) {
		id, e := l.dead()
		if !want[id] || seen[id] {
			l.t.Fatalf("got %s, want one of %v that has not been", id, want)
		}
		seen[id], last = true, e.id
	}
	return last
}

// Dead letters come by the time they died, each once while the stream lasts, also those of one millisecond, over ends and leaders.
func deadStream(t *testing.T, b *browser, all []*station) {
	b.ok("PUT", "/v1/queues/d", "", nil)
	first := b.die("d", 130, "a") // more than a page
	l := listen(t, all[0].addr, "/v1/queues/d/dlq/stream", nil)
	odd := listen(t, all[1].addr, "/v1/queues/d/dlq/stream?kind=b", nil)
	now := listen(t, all[2].addr, "/v1/queues/d/dlq/stream?last=1", nil)
	l.allDead(first)
	second := b.die("d", 3, "b")
	l.allDead(second)
	odd.allDead(second)
	now.allDead(second)
	third := b.die("d", 2, "a")
	last := l.allDead(third)
	l.close()
	handOver(t, all[0])
	odd.quietEnd()
	fourth := b.die("d", 2, "b")
	l = listen(t, all[1].addr, "/v1/queues/d/dlq/stream", map[string]string{"Last-Event-ID": last})
	for left := len(fourth); left > 0; { // behind those, if any, of the millisecond that it had come to
		id, e := l.dead()
		if !fourth[id] && !third[id] || e.id == last {
			t.Fatalf("got %s, want one of %v", id, fourth)
		}
		if fourth[id] {
			left--
		}
	}
	b.ok("PUT", "/v1/queues/o", `{"dead_letter_queue":"d"}`, nil)
	moved := b.die("o", 1, "")
	var d struct {
		OriginalID string `json:"original_id"`
	}
	if l.next("dead").into(t, &d); !moved[d.OriginalID] {
		t.Errorf("moved is %+v, want %v", d, moved)
	}
	b.ok("DELETE", "/v1/queues/d", "", nil)
	var p trouble
	if l.next("end").into(t, &p); p.Code != string(wire.CodeNotFound) {
		t.Errorf("the queue is deleted, and the stream ends with %+v", p)
	}
	l.over()
	b.refused("GET", "/v1/queues/d/dlq/stream", "", wire.CodeNotFound)
	for _, query := range []string{"after=x", "after=1.x", "after=-1.00000000000000000000000000", "reason=none", "limit=1"} {
		b.refused("GET", "/v1/queues/o/dlq/stream?"+query, "", wire.CodeInvalidArgument)
	}
}

// quietEnd waits for the end of a stream, before which nothing comes.
func (l *listener) quietEnd() {
	l.t.Helper()
	l.over()
	if e := l.next("end"); !strings.Contains(e.data, `"no_leader"`) {
		l.t.Errorf("ends with %+v", e)
	}
}

// A deposed leader hands out nothing by streams.
func deposedLeader(t *testing.T, _ *browser, all []*station) {
	old := all[0]
	b := browse(t, all[1].addr)
	b.steady = true
	l := listen(t, old.addr, "/v1/queues/p/listen?prefetch=10", nil)
	cut := func(off bool) {
		for _, o := range all[1:] {
			if off {
				o.trans.Disconnect(old.trans.LocalAddr())
				old.trans.Disconnect(o.trans.LocalAddr())
				continue
			}
			o.trans.Connect(old.trans.LocalAddr(), old.trans)
			old.trans.Connect(o.trans.LocalAddr(), o.trans)
		}
	}
	cut(true)
	defer cut(false)
	waitFor(t, func() bool { return all[1].Status().Leader || all[2].Status().Leader })
	id := b.put("p", `{"body":1}`)
	l.quietEnd()
	if m := b.takeOne("p"); m.ID != id || m.Attempt != 1 {
		t.Errorf("leased %+v", m)
	}
}

// A leader that stops gives back what its listeners had, before it hands over: others have it at once, at attempt 2.
func leaderStops(t *testing.T, b *browser, all []*station) {
	const streams, each = 5, 10
	var ls []*listener
	for i := range streams {
		ls = append(ls, listen(t, all[i%2].addr, "/v1/queues/s/listen?prefetch=10&lease_ms=600000", nil))
	}
	want := map[string]bool{}
	for range streams * each {
		want[b.put("s", `{"body":1}`)] = true
	}
	for _, l := range ls {
		for range each {
			l.message()
		}
	}
	all[0].stop(t)
	for _, l := range ls {
		l.ended()
	}
	for len(want) > 0 {
		ms := b.take("s", `{"max":100,"wait_ms":5000}`)
		if len(ms) == 0 {
			t.Fatalf("%d did not come back", len(want))
		}
		for _, m := range ms {
			if m.Attempt != 2 || !want[m.ID] {
				t.Errorf("came back: %+v", m)
			}
			delete(want, m.ID)
			b.ok("POST", "/v1/leases/"+m.Token+"/ack", "", nil)
		}
	}
}

// A ping of a stream says how far has been looked, so that whoever connects again does not have all looked at anew, and misses nothing.
func TestStreamPlaces(t *testing.T) {
	n := stations(t, 1, Config{StreamPing: patience / 500})[0]
	b := browse(t, n.addr)
	b.ok("PUT", "/v1/queues/q", "", nil)
	results := listen(t, n.addr, "/v1/results/stream?queue=q&kind=none", nil)
	b.ok("PUT", "/v1/results/t?queue=q&kind=other", `{"output":1}`, nil)
	var page struct{ Next string }
	b.ok("GET", "/v1/results?queue=q", "", &page)
	waitFor(t, func() bool { return results.next("ping").id == page.Next })

	dead := listen(t, n.addr, "/v1/queues/q/dlq/stream?kind=b", nil)
	before := dead.next("ping").id
	b.die("q", 2, "a")
	waitFor(t, func() bool { return dead.next("ping").id != before })
	place := dead.next("ping").id
	dead.close()
	want := b.die("q", 2, "b")
	dead = listen(t, n.addr, "/v1/queues/q/dlq/stream?kind=b", map[string]string{"Last-Event-ID": place})
	dead.allDead(want)
	n.doors.Drain()
	results.ended()
	dead.ended()
}
