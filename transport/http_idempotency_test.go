package transport

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/wire"
)

const (
	keyHeader      = "Idempotency-Key"
	replayedHeader = "Idempotency-Replayed"
)

// under sends a request under a key, with an id of its own that is the same each time, since a problem names it.
func (b *browser) under(key, method, path, body string) said {
	b.t.Helper()
	return b.send(method, path, body, map[string]string{keyHeader: key, "X-Request-Id": "mine"})
}

// once sends a request under a key that was not used before, and then again: the second answer is the first, and says so.
func (b *browser) once(key, method, path, body string, status int) said {
	b.t.Helper()
	first := b.under(key, method, path, body)
	if first.status != status || first.header.Get(replayedHeader) != "" {
		b.t.Fatalf("%s %s: %d %s, replayed %q, want %d", method, path, first.status, first.body, first.header.Get(replayedHeader), status)
	}
	b.same(first, key, method, path, body)
	return first
}

// same sends a request again under its key and wants the first answer.
func (b *browser) same(first said, key, method, path, body string) {
	b.t.Helper()
	second := b.under(key, method, path, body)
	if second.status != first.status || string(second.body) != string(first.body) || second.header.Get(replayedHeader) != "true" ||
		second.header.Get("Content-Type") != first.header.Get("Content-Type") {
		b.t.Errorf("%s %s again: %d %s, replayed %q, want %d %s", method, path, second.status, second.body, second.header.Get(replayedHeader), first.status, first.body)
	}
}

// Every request that writes into the log, twice under its key: one effect, one answer.
func TestIdempotencyKey(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	b := browse(t, n.addr)
	k := 0
	once := func(method, path, body string, status int) said {
		t.Helper()
		k++
		return b.once(fmt.Sprint("key-", k), method, path, body, status)
	}
	depth := func(queue string, want int) {
		t.Helper()
		var s struct{ Total, DLQ int }
		b.ok("GET", "/v1/queues/"+queue+"/stats", "", &s)
		if s.Total+s.DLQ != want {
			t.Errorf("queue %s holds %+v, want %d", queue, s, want)
		}
	}
	once("PUT", "/v1/queues/q", `{"lease_ms":60000}`, 201)
	once("PUT", "/v1/queues/q", `{"lease_ms":50000,"retry":{"kind":"fixed","max_attempts":3}}`, 200) // made, and so set: two operations
	once("PATCH", "/v1/queues/q", `{"max_depth":1000}`, 200)
	once("POST", "/v1/queues/q/messages", `{"body":1}`, 201)
	once("POST", "/v1/queues/q/messages?kind=k", `{}`, 201)
	depth("q", 2)
	once("POST", "/v1/queues/q/messages", `{"messages":[{"body":1},{"body":2,"headers":{"":"x"}},{"body":2,"task_id":"t"},{"body":3,"task_id":"t"},{"body":"!","body_encoding":"base64"}]}`, 201)
	depth("q", 4)
	once("POST", "/v1/queues/none/purge", "", 404)

	var leased struct {
		Messages []struct{ ID, Token string }
	}
	first := b.under("lease", "POST", "/v1/queues/q/lease", `{"max":3}`)
	first.into(t, &leased)
	if len(leased.Messages) != 3 {
		t.Fatalf("leased %s", first.body)
	}
	tokens := leased.Messages
	leased.Messages = nil
	again := b.under("lease", "POST", "/v1/queues/q/lease", `{"max":3}`)
	again.into(t, &leased)
	if len(leased.Messages) != 3 || leased.Messages[0].Token != tokens[0].Token || leased.Messages[2].Token != tokens[2].Token || again.header.Get(replayedHeader) != "true" {
		t.Errorf("leased again %s", again.body)
	}
	once("POST", "/v1/leases/"+tokens[0].Token+"/extend", `{"lease_ms":40000}`, 200)
	once("POST", "/v1/leases/"+tokens[0].Token+"/ack", `{"result":{"output":"done"},"then":[{"queue":"next","body":1}]}`, 200)
	depth("next", 1)
	once("POST", "/v1/leases/"+tokens[1].Token+"/nack", `{"delay_ms":60000}`, 200)
	once("POST", "/v1/leases/"+tokens[2].Token+"/release", "", 200)
	b.under("lease", "POST", "/v1/queues/q/lease", `{"max":3}`).into(t, &leased)
	if len(leased.Messages) != 0 {
		t.Errorf("none of them is out any more, and %v come again", leased.Messages)
	}
	m := b.takeOne("q")
	once("POST", "/v1/leases/batch", fmt.Sprintf(`{"operations":[{"op":"extend","token":%q,"lease_ms":30000},{"op":"nack","token":%[1]q,"permanent":true},{"op":"ack","token":"short"},{"op":"ack","token":%[1]q}]}`, m.Token), 200)

	once("POST", "/v1/queues/q/dlq/"+m.ID+"/requeue", `{"body":2}`, 200)
	for range 2 {
		b.ok("POST", "/v1/queues/q/messages", `{"body":1,"priority":9}`, nil)
		b.ok("POST", "/v1/leases/"+b.takeOne("q").Token+"/nack", `{"permanent":true}`, nil)
	}
	first = once("POST", "/v1/queues/q/dlq/requeue", `{"all":true,"limit":1}`, 200)
	if !strings.Contains(string(first.body), `"requeued_count":1`) || !strings.Contains(string(first.body), `"more":true`) {
		t.Errorf("requeued %s", first.body)
	}
	once("DELETE", "/v1/queues/q/dlq?reason=permanent", "", 200)
	once("DELETE", "/v1/queues/q/dlq", "", 200)
	once("PUT", "/v1/results/mine?queue=q", `{"output":1}`, 200)
	once("DELETE", "/v1/tasks/t?queue=q", "", 200)
	b.ok("POST", "/v1/queues/q/messages", `{"body":1,"task_id":"later","delay_ms":60000}`, nil)
	once("POST", "/v1/tasks/later/reschedule?queue=q", `{"delay_ms":90000}`, 200)
	var made struct{ Batch string }
	once("POST", "/v1/batches", `{"queue":"cb","callback":{"body":1}}`, 201).into(t, &made)
	once("POST", "/v1/batches/"+made.Batch+"/seal", "", 200)
	depth("cb", 1)
	once("PUT", "/v1/schedules/s", `{"queue":"q","cron":"@daily","message":{"body":1}}`, 200)
	once("DELETE", "/v1/schedules/s", "", 200)
	once("DELETE", "/v1/kv/none", "", 404)
	for _, verb := range []string{"pause", "resume", "purge"} {
		once("POST", "/v1/queues/q/"+verb, "", 200)
	}
	once("DELETE", "/v1/queues/q", "", 200)

	var in struct{ ID string }
	once("POST", "/queue/enqueue", `{"value":1}`, 200).into(t, &in)
	depth("default", 1)
	b.under("poll", "GET", "/queue/poll", "")
	if a := b.under("poll", "GET", "/queue/poll", ""); a.header.Get(replayedHeader) != "true" || !strings.Contains(string(a.body), in.ID) {
		t.Errorf("polled again %s", a.body)
	}
	acked := b.under("ack", "POST", "/queue/ack", fmt.Sprintf(`{"id":%q}`, in.ID))
	b.ok("DELETE", "/v1/queues/default", "", nil) // whatever became of the message
	b.same(acked, "ack", "POST", "/queue/ack", fmt.Sprintf(`{"id":%q}`, in.ID))

	_, text, _ := get(t, "http://"+n.addr+"/metrics")
	for _, want := range []string{fmt.Sprintf(`quorate_state_records{table="idempotency_keys"} %d`, k+3), `quorate_state_bytes{part="idempotency"} `, "quorate_http_replayed_total "} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics have no %s", want)
		}
	}
}

// A key is one request's; an answer to try again is not kept; what waits is answered, or told.
func TestIdempotencyKeyOfAnother(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	b := browse(t, n.addr)
	b.once("k", "POST", "/v1/queues/q/messages", `{"body":1}`, 201)
	for what, other := range map[string][3]string{
		"body":   {"POST", "/v1/queues/q/messages", `{"body":2}`},
		"batch":  {"POST", "/v1/queues/q/messages", `{"messages":[{"body":1},{"body":1}]}`},
		"path":   {"POST", "/v1/queues/p/messages", `{"body":1}`},
		"method": {"DELETE", "/v1/queues/q", ``},
		"leases": {"POST", "/v1/leases/batch", `{"operations":[{"op":"ack","token":"` + strings.Repeat("0", 52) + `"},{"op":"ack","token":"` + strings.Repeat("0", 52) + `"}]}`},
	} {
		a := b.under("k", other[0], other[1], other[2])
		if p := b.problem(what, a); a.status != 409 || p.Code != "already_exists" || p.Field != keyHeader || p.Outcome != "refused" || a.header.Get(replayedHeader) != "" {
			t.Errorf("%s: %d %s", what, a.status, a.body)
		}
	}

	b.ok("PUT", "/v1/queues/full", `{"max_depth":1}`, nil)
	b.ok("POST", "/v1/queues/full/messages", `{"body":1}`, nil)
	a := b.under("full", "POST", "/v1/queues/full/messages", `{"body":2}`)
	if p := b.problem("full", a); a.status != 503 || p.Code != "queue_full" || !p.Retry {
		t.Fatalf("%d %s", a.status, a.body)
	}
	b.ok("POST", "/v1/queues/full/purge", "", nil)
	b.once("full", "POST", "/v1/queues/full/messages", `{"body":2}`, 201)

	t.Run("two polls under one key", func(t *testing.T) {
		b := browse(t, n.addr)
		b.ok("PUT", "/v1/queues/w", "", nil)
		const wait = `{"wait_ms":1000}`
		answers := make(chan said, 2)
		var wg sync.WaitGroup
		for range 2 {
			c := browse(t, n.addr)
			wg.Go(func() { answers <- c.under("w", "POST", "/v1/queues/w/lease", wait) })
		}
		waitFor(t, func() bool { return waiting(n) == 2 })
		id := b.put("w", `{"body":1}`)
		wg.Wait()
		close(answers)
		fresh := 0
		for a := range answers {
			switch {
			case a.status == 503: // another has been given it: send it again
			case a.status != 200 || !strings.Contains(string(a.body), id):
				t.Errorf("%d %s", a.status, a.body)
			case a.header.Get(replayedHeader) == "":
				fresh++
			}
		}
		if fresh != 1 {
			t.Errorf("%d were given the message anew", fresh)
		}
		if a := b.under("w", "POST", "/v1/queues/w/lease", wait); a.header.Get(replayedHeader) != "true" || !strings.Contains(string(a.body), id) {
			t.Errorf("again: %d %s", a.status, a.body)
		}
	})
}

// A repeat is answered by any node, before and after the leadership has moved, and many at once are one.
func TestIdempotencyKeyOverLeaders(t *testing.T) {
	all := stations(t, 3, Config{})
	at := map[*station]*browser{}
	for _, n := range all {
		at[n] = browse(t, n.addr)
		at[n].steady = true
	}
	const path, body = "/v1/queues/q/messages", `{"body":1}`
	follower := at[all[1]]
	first := follower.under("k", "POST", path, body)
	if first.status != 201 || first.header.Get(replayedHeader) != "" {
		t.Fatalf("%d %s", first.status, first.body)
	}
	var leased struct {
		Messages []struct{ ID, Token string }
	}
	lease := follower.under("l", "POST", "/v1/queues/q/lease", `{"lease_ms":600000}`)
	lease.into(t, &leased)
	if len(leased.Messages) != 1 {
		t.Fatalf("leased %s", lease.body)
	}
	token := leased.Messages[0].Token
	everywhere := func() {
		t.Helper()
		for _, n := range all {
			at[n].same(first, "k", "POST", path, body)
			a := at[n].under("l", "POST", "/v1/queues/q/lease", `{"lease_ms":600000}`)
			if a.header.Get(replayedHeader) != "true" || !strings.Contains(string(a.body), token) {
				t.Errorf("leased again at %s: %d %s", n.id, a.status, a.body)
			}
			if a := at[n].under("k", "POST", path, `{"body":2}`); a.status != 409 {
				t.Errorf("another request at %s: %d %s", n.id, a.status, a.body)
			}
		}
	}
	everywhere()
	for range 2 {
		if err := leaderFirst(t, all)[0].Raft().LeadershipTransfer().Error(); err != nil {
			t.Fatal(err)
		}
		leaderFirst(t, all)
		everywhere()
	}

	var wg sync.WaitGroup
	var mu sync.Mutex
	fresh, ids := 0, map[string]int{}
	for i := range 30 {
		b := browse(t, all[i%3].addr)
		wg.Go(func() {
			a := b.under("many", "POST", path, `{"body":3}`)
			for end := time.Now().Add(patience); a.status >= 500 && time.Now().Before(end); a = b.under("many", "POST", path, `{"body":3}`) {
			}
			mu.Lock()
			defer mu.Unlock()
			if ids[string(a.body)]++; a.status != 201 {
				t.Errorf("%d %s", a.status, a.body)
			}
			if a.header.Get(replayedHeader) == "" {
				fresh++
			}
		})
	}
	wg.Wait()
	if len(ids) != 1 || fresh > 1 {
		t.Errorf("answers %v, %d of them the first", ids, fresh)
	}
	var s struct{ Total int }
	follower.ok("GET", "/v1/queues/q/stats", "", &s)
	if s.Total != 2 {
		t.Errorf("the queue holds %d messages, want 2", s.Total)
	}
	follower.ok("POST", "/v1/leases/"+token+"/ack", "", nil)
}

// A leader that is cut off cannot say what becomes of what it has proposed: sent again under its key, through another, it is done once.
func TestIdempotencyKeyAfterUnknown(t *testing.T) {
	all := stations(t, 3, Config{CallTimeout: 2 * time.Second})
	leader := all[0]
	browse(t, leader.addr).ok("PUT", "/v1/queues/q", "", nil)
	for _, o := range all[1:] {
		leader.trans.Disconnect(o.trans.LocalAddr())
		o.trans.Disconnect(leader.trans.LocalAddr())
	}
	const path, body = "/v1/queues/q/messages", `{"messages":[{"body":1},{"body":2}]}`
	cut := browse(t, leader.addr)
	a := cut.under("k", "POST", path, body)
	if a.status == http.StatusCreated {
		t.Fatalf("confirmed without a majority: %d %s", a.status, a.body)
	}
	var others []*station
	waitFor(t, func() bool {
		others = others[:0]
		for _, s := range all[1:] {
			if st := s.Status(); st.Leader && st.Ready {
				others = append(others, s)
			}
		}
		return len(others) == 1
	})
	b := browse(t, others[0].addr)
	b.steady = true
	first := b.under("k", "POST", path, body)
	if first.status != 201 || strings.Contains(string(first.body), `"error"`) {
		t.Fatalf("%d %s", first.status, first.body)
	}
	for _, o := range all[1:] {
		leader.trans.Connect(o.trans.LocalAddr(), o.trans)
		o.trans.Connect(leader.trans.LocalAddr(), leader.trans)
	}
	leaderFirst(t, all)
	for _, n := range all {
		b := browse(t, n.addr)
		b.steady = true
		b.same(first, "k", "POST", path, body)
		var s struct{ Total int }
		b.ok("GET", "/v1/queues/q/stats", "", &s)
		if s.Total != 2 {
			t.Errorf("the queue holds %d messages, want 2", s.Total)
		}
	}
}

// The state's refusals of keys in the words of the API.
func TestIdempotencyRefusals(t *testing.T) {
	fb := leading()
	_, addr := doors(t, Config{Broker: fb})
	b := browse(t, addr)
	fb.outcome = func(op fsm.Op) []fsm.Outcome {
		if _, keyed := op.(*fsm.Idempotent); !keyed {
			t.Errorf("%T without its key", op)
		}
		return []fsm.Outcome{{Code: fsm.Overloaded, Field: fsm.FieldIdempotency, Limit: 5}}
	}
	a := b.under("k", "POST", "/v1/queues/q/messages", `{"messages":[{"body":1},{"body":2}]}`)
	if p := b.problem("full", a); p.Code != string(wire.CodeOverloaded) || !p.Retry || !strings.Contains(p.Detail, "idempotency keys") || a.header.Get("Retry-After") == "" {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// What a schema lets in may change between two tries: what was done is answered as it was, what was not is done or refused as a whole, and
// no part of a request takes the answer of another.
func TestIdempotencyKeyOverSchemas(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	b := browse(t, n.addr)
	const path, batch, text = "/v1/queues/q/messages", `{"messages":[{"body":"a"},{"body":1},{"body":"b"}]}`, `{"schema":"{\"type\":\"string\"}"}`
	total := func(queue string) int {
		t.Helper()
		var s struct{ Total int }
		b.ok("GET", "/v1/queues/"+queue+"/stats", "", &s)
		return s.Total
	}
	b.ok("PUT", "/v1/queues/q", "", nil)
	first := b.under("whole", "POST", path, batch)
	one := b.under("one", "POST", path, `{"body":2}`)
	if first.status != 201 || one.status != 201 {
		t.Fatalf("%d %s, %d %s", first.status, first.body, one.status, one.body)
	}
	b.ok("PATCH", "/v1/queues/q", text, nil)
	b.same(first, "whole", "POST", path, batch)
	b.same(one, "one", "POST", path, `{"body":2}`)
	if got := total("q"); got != 4 {
		t.Errorf("%d messages, want 4", got)
	}

	// What goes in in parts goes in whole or not at all.
	a := b.under("parts", "POST", path, batch)
	if p := b.problem("parts", a); a.status != 400 || !strings.Contains(p.Detail, "messages[1]") || !strings.Contains(p.Detail, "as a whole") {
		t.Errorf("%d %s", a.status, a.body)
	}
	b.ok("PATCH", "/v1/queues/q", `{"schema":""}`, nil)
	if a = b.under("parts", "POST", path, batch); a.status != 201 || a.header.Get(replayedHeader) != "" || strings.Contains(string(a.body), `"error"`) {
		t.Errorf("%d %s, replayed %q", a.status, a.body, a.header.Get(replayedHeader))
	}
	if got := total("q"); got != 7 {
		t.Errorf("%d messages, want 7", got)
	}

	// An ack that was refused for the queue it goes on to is no answer for the next one.
	b.ok("PUT", "/v1/queues/z", text, nil)
	b.put("w", `{"body":1}`)
	b.put("w", `{"body":2}`)
	got := b.take("w", `{"max":2}`)
	if len(got) != 2 {
		t.Fatalf("leased %+v", got)
	}
	acks := `{"operations":[{"op":"ack","token":"` + got[0].Token + `","then":[{"queue":"z","body":1}]},{"op":"ack","token":"` + got[1].Token + `"}]}`
	a = b.under("acks", "POST", "/v1/leases/batch", acks)
	if a.status != 200 || !strings.Contains(string(a.body), "invalid_argument") {
		t.Fatalf("%d %s", a.status, a.body)
	}
	b.ok("PATCH", "/v1/queues/z", `{"schema":""}`, nil)
	if a = b.under("acks", "POST", "/v1/leases/batch", acks); a.status != 200 || strings.Contains(string(a.body), `"error"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	if z, w := total("z"), total("w"); z != 1 || w != 0 {
		t.Errorf("%d messages in the queue behind, %d in the one that was worked off; want 1 and 0", z, w)
	}
}
