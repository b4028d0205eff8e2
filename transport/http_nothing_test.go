package transport

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/quorate/quorate/wire"
)

// deadLetter makes a dead letter and gives its id.
func (b *browser) deadLetter(queue, message string) string {
	b.t.Helper()
	b.ok("POST", "/v1/queues/"+queue+"/messages", message, nil)
	m := b.takeOne(queue)
	b.ok("POST", "/v1/leases/"+m.Token+"/nack", `{"permanent":true}`, nil)
	return m.ID
}

// A bulk operation that found nothing is answered so for as long as its key is kept, through every node and over a change of leaders, whatever there
// is by then; and a requeue whose message has been forgotten names its task as the first time.
func TestNothingIsKept(t *testing.T) {
	all := stations(t, 3, Config{})
	b := browse(t, all[1].addr)
	b.steady = true
	b.ok("PUT", "/v1/queues/q", "", nil)
	verbs := []struct{ key, method, path, body, want string }{
		{"all", "POST", "/v1/queues/q/dlq/requeue", `{"all":true}`, `"requeued_count":0,"outcomes":[],"more":false`},
		{"some", "POST", "/v1/queues/q/dlq/requeue", `{"all":true,"kind":"none"}`, `"requeued_count":0,"outcomes":[],"more":false`},
		{"delete", "DELETE", "/v1/queues/q/dlq?reason=permanent", "", `"deleted_count":0`},
		{"purge", "DELETE", "/v1/queues/q/dlq", "", `"deleted_count":0`},
		{"one-queue", "DELETE", "/queue/dlq?queue=q", "", `"ok":true`},
	}
	first := map[string]said{}
	for _, v := range verbs {
		a := b.under(v.key, v.method, v.path, v.body)
		if a.status != 200 || a.header.Get(replayedHeader) != "" || !strings.Contains(string(a.body), v.want) || a.header.Get("Quorate-Index") == "" {
			t.Errorf("%s: %d %s, want %s", v.key, a.status, a.body, v.want)
		}
		first[v.key] = a
	}
	id := b.deadLetter("q", `{"body":1,"task_id":"mine"}`)
	same := func(c *browser) {
		t.Helper()
		for _, v := range verbs {
			c.same(first[v.key], v.key, v.method, v.path, v.body)
		}
	}
	everywhere := func() {
		t.Helper()
		for _, n := range all {
			c := browse(t, n.addr)
			c.steady = true
			same(c)
		}
		var s struct{ DLQ int }
		b.ok("GET", "/v1/queues/q/stats", "", &s)
		if s.DLQ != 1 {
			t.Errorf("%d dead letters, want 1: nothing was to be done", s.DLQ)
		}
	}
	everywhere()
	handOver(t, leaderFirst(t, all)[0])
	leaderFirst(t, all)
	everywhere()

	back := b.once("back", "POST", "/v1/queues/q/dlq/"+id+"/requeue", "", 200)
	if !strings.Contains(string(back.body), `"task_id":"mine"`) {
		t.Errorf("requeued %s", back.body)
	}
	b.ok("POST", "/v1/leases/"+b.takeOne("q").Token+"/ack", "", nil)
	b.same(back, "back", "POST", "/v1/queues/q/dlq/"+id+"/requeue", "")
	b.ok("DELETE", "/v1/queues/q", "", nil) // with all that it remembers
	b.same(back, "back", "POST", "/v1/queues/q/dlq/"+id+"/requeue", "")
	same(b)
}

// Many at once under one key, while what they look for comes to be there: one of them decides for all, and what is requeued is so once.
func TestNothingAtOnce(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	b := browse(t, n.addr)
	b.ok("PUT", "/v1/queues/q", "", nil)
	for round := range 20 {
		key := fmt.Sprint("k", round)
		answers := make([]said, 8)
		var wg sync.WaitGroup
		for i := range answers {
			c := browse(t, n.addr)
			wg.Go(func() { answers[i] = c.under(key, "POST", "/v1/queues/q/dlq/requeue", `{"all":true}`) })
		}
		id := b.deadLetter("q", `{"body":1}`)
		wg.Wait()
		fresh := 0
		for _, a := range answers {
			if a.status != 200 || string(a.body) != string(answers[0].body) {
				t.Errorf("round %d: %d %s, and %s", round, a.status, a.body, answers[0].body)
			}
			if a.header.Get(replayedHeader) == "" {
				fresh++
			}
		}
		if fresh != 1 {
			t.Errorf("round %d: %d were the first", round, fresh)
		}
		want := 1
		if strings.Contains(string(answers[0].body), id) {
			want = 0
		}
		var s struct{ DLQ, Pending int }
		b.ok("GET", "/v1/queues/q/stats", "", &s)
		if s.DLQ != want || s.Pending != 1-want {
			t.Errorf("round %d: %+v after %s", round, s, answers[0].body)
		}
		b.ok("DELETE", "/v1/queues/q/dlq", "", nil)
		b.ok("POST", "/v1/queues/q/purge", "", nil)
	}
}

// A key that is another request's is refused where nothing is found as well.
func TestNothingUnderAKeyOfAnother(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	b := browse(t, n.addr)
	b.once("k", "POST", "/v1/queues/q/messages", `{"body":1}`, 201)
	a := b.under("k", "POST", "/v1/queues/q/dlq/requeue", `{"all":true}`)
	if p := b.problem("the key of another", a); a.status != 409 || p.Code != string(wire.CodeAlreadyExists) || p.Field != keyHeader {
		t.Errorf("%d %s", a.status, a.body)
	}
	none := b.under("none", "POST", "/v1/queues/q/dlq/requeue", `{"all":true}`)
	b.same(none, "none", "POST", "/v1/queues/q/dlq/requeue", `{"all":true}`)
	if a := b.under("none", "POST", "/v1/queues/q/dlq/requeue", `{"all":true,"limit":1}`); a.status != 409 {
		t.Errorf("another request under the key of one that found nothing: %d %s", a.status, a.body)
	}
}
