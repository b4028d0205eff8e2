package transport

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/quorate/quorate/wire"
)

// Everything that the document describes, once with success, against a real group.
func TestEveryRoute(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	b := browse(t, n.addr)

	t.Run("queues", func(t *testing.T) {
		b.t = t
		if a := b.ok("PUT", "/v1/queues/q", `{"lease_ms":30000,"retry":{"kind":"fixed","initial_ms":10,"max_attempts":2},"rate":0.5,"fair_by":"key","fair_weights":{"a":3}}`, nil); a.status != 201 {
			t.Errorf("made with %d", a.status)
		}
		if a := b.ok("PUT", "/v1/queues/q", `{"retry":{"kind":"fixed","initial_ms":10,"max_attempts":2}}`, nil); a.status != 200 {
			t.Errorf("set with %d", a.status)
		}
		b.ok("PATCH", "/v1/queues/q", `{"max_depth":1000}`, nil)
		var q struct {
			Name    string
			Options struct {
				Retry    struct{ Kind string }
				MaxDepth int   `json:"max_depth"`
				Lease    int64 `json:"lease_ms"`
				Rate     float64
			}
		}
		b.ok("GET", "/v1/queues/q", "", &q)
		if q.Name != "q" || q.Options.Retry.Kind != "fixed" || q.Options.MaxDepth != 1000 || q.Options.Lease != 30000 || q.Options.Rate != 0 {
			t.Errorf("the queue is %+v", q)
		}
		b.ok("PATCH", "/v1/queues/q", `{"max_depth":null}`, nil)
		b.ok("GET", "/v1/queues/q?stale=1", "", &q)
		if q.Options.MaxDepth != 1000 && q.Options.MaxDepth != 0 || q.Options.Retry.Kind != "fixed" {
			t.Errorf("the queue is %+v", q)
		}
		b.ok("POST", "/v1/queues/q/pause", "", nil)
		b.ok("POST", "/v1/queues/q/resume", "", nil)
		var qs struct{ Queues []struct{ Name string } }
		b.ok("GET", "/v1/queues?limit=10", "", &qs)
		if len(qs.Queues) != 1 || qs.Queues[0].Name != "q" {
			t.Errorf("listed %+v", qs)
		}
	})

	t.Run("a message's way", func(t *testing.T) {
		b.t = t
		var in struct {
			ID        string
			TaskID    string `json:"task_id"`
			Duplicate *bool
		}
		a := b.ok("POST", "/v1/queues/q/messages", `{"body":{"n":12345678901234567890,"x":[1,null,"ü"]},"task_id":"t1","kind":"k","priority":9,"key":"a","headers":{"traceparent":"00"},"dedup_key":"d"}`, &in)
		if a.status != 201 || in.TaskID != "t1" || in.Duplicate == nil || *in.Duplicate || a.header.Get("Quorate-Index") == "" || a.header.Get("Quorate-Time") == "" {
			t.Fatalf("%d %s %v", a.status, a.body, a.header)
		}
		var again struct {
			ID        string
			Duplicate bool
		}
		b.ok("POST", "/v1/queues/q/messages", `{"body":{"n":12345678901234567890,"x":[1,null,"ü"]},"task_id":"t1","kind":"k","dedup_key":"d"}`, &again)
		if again.ID != in.ID || !again.Duplicate {
			t.Errorf("sent again: %+v", again)
		}
		var page struct {
			Messages []struct {
				ID   string
				Body json.RawMessage
			}
		}
		b.ok("GET", "/v1/queues/q/messages?state=pending&limit=5", "", &page)
		if len(page.Messages) != 1 || page.Messages[0].ID != in.ID {
			t.Errorf("browsed %+v", page)
		}
		m := b.takeOne("q")
		if m.ID != in.ID || m.TaskID != "t1" || m.Attempt != 1 || m.Priority != 9 || m.Key != "a" || m.Kind != "k" || m.Headers["traceparent"] != "00" ||
			m.Encoding != "json" || string(m.Body) != `{"n":12345678901234567890,"x":[1,null,"ü"]}` || m.ContentType != "application/json" || m.LeaseLeft < 25000 {
			t.Errorf("leased %+v", m)
		}
		var ext struct {
			Left int64 `json:"lease_left_ms"`
		}
		b.ok("POST", "/v1/leases/"+m.Token+"/extend", `{"lease_ms":60000}`, &ext)
		if ext.Left < 55000 {
			t.Errorf("extended to %d", ext.Left)
		}
		b.ok("POST", "/v1/leases/"+m.Token+"/release", "", nil)
		m = b.takeOne("q")
		if m.Attempt != 1 {
			t.Errorf("attempt %d after a release", m.Attempt)
		}
		var nacked struct {
			Dead  bool
			DueAt int64 `json:"due_at"`
		}
		b.ok("POST", "/v1/leases/"+m.Token+"/nack", `{"error":"no","delay_ms":0}`, &nacked)
		m = b.takeOne("q")
		if m.Attempt != 2 {
			t.Errorf("attempt %d after a nack", m.Attempt)
		}
		b.ok("POST", "/v1/leases/"+m.Token+"/ack", `{"result":{"output":{"done":true}},"then":[{"queue":"next","body":"chained"}]}`, nil)
		b.ok("POST", "/v1/leases/"+m.Token+"/ack", `{"result":{"output":{"done":true}}}`, nil) // the same success
		b.refused("POST", "/v1/leases/"+m.Token+"/ack", `{"result":{"output":"other"}}`, wire.CodeAlreadyExists)
		var res struct {
			Status, Worker string
			TaskID         string `json:"task_id"`
			Output         json.RawMessage
		}
		b.ok("GET", "/v1/results/t1?queue=q&wait_ms=1000", "", &res)
		if res.Status != "succeeded" || string(res.Output) != `{"done":true}` || res.TaskID != "t1" {
			t.Errorf("the result is %+v", res)
		}
		raw := b.send("GET", "/v1/results/t1?queue=q", "", map[string]string{"Accept": "application/octet-stream"})
		if raw.status != 200 || string(raw.body) != `{"done":true}` || raw.header.Get("Content-Disposition") != "attachment" || raw.header.Get("Quorate-Content-Type") != "application/json" {
			t.Errorf("raw: %d %q %v", raw.status, raw.body, raw.header)
		}
		if c := b.takeOne("next"); string(c.Body) != `"chained"` {
			t.Errorf("chained %s", c.Body)
		}
		var task struct{ Status string }
		b.ok("GET", "/v1/tasks/t1?queue=q", "", &task)
		if task.Status != "succeeded" {
			t.Errorf("the task is %+v", task)
		}
		var list struct {
			Results []struct {
				Position string
				TaskID   string `json:"task_id"`
			}
			Next string
		}
		b.ok("GET", "/v1/results?queue=q&kind=k", "", &list)
		if len(list.Results) != 1 || list.Results[0].TaskID != "t1" || list.Next == "" {
			t.Errorf("listed %+v", list)
		}
	})

	t.Run("batches of messages and leases", func(t *testing.T) {
		b.t = t
		var got struct {
			Messages []struct {
				ID    string
				Error *trouble
			}
		}
		b.ok("POST", "/v1/queues/many/messages", `{"messages":[{"body":1},{"body":2,"headers":{"":"x"}},{"body":"aGk=","body_encoding":"base64"},{"body":"!","body_encoding":"base64"}]}`, &got)
		if len(got.Messages) != 4 || got.Messages[0].ID == "" || got.Messages[1].Error == nil || got.Messages[2].ID == "" || got.Messages[3].Error == nil ||
			!strings.Contains(got.Messages[1].Error.Detail, "headers[0].name") || !strings.Contains(got.Messages[3].Error.Detail, "base64") {
			t.Fatalf("got %+v", got)
		}
		ms := b.take("many", `{"max":10}`)
		if len(ms) != 2 {
			t.Fatalf("leased %d", len(ms))
		}
		var out struct {
			Outcomes []struct {
				OK    bool
				Error *trouble
				Left  int64 `json:"lease_left_ms"`
			}
		}
		b.ok("POST", "/v1/leases/batch", fmt.Sprintf(`{"operations":[{"op":"extend","token":%q},{"op":"ack","token":%[1]q},{"op":"ack","token":"short"},{"op":"nack","token":%q,"error":"x","permanent":true}]}`, ms[0].Token, ms[1].Token), &out)
		if len(out.Outcomes) != 4 || !out.Outcomes[0].OK || out.Outcomes[0].Left == 0 || !out.Outcomes[1].OK || out.Outcomes[2].Error == nil || !out.Outcomes[3].OK {
			t.Fatalf("got %+v", out)
		}
		if f := out.Outcomes[2].Error; f.Code != "invalid_argument" || !strings.Contains(f.Detail, "operations[2].token") {
			t.Errorf("got %+v", f)
		}
	})

	t.Run("dead letters", func(t *testing.T) {
		b.t = t
		kill := func(body string) string {
			id := b.put("bad", body)
			m := b.takeOne("bad")
			b.ok("POST", "/v1/leases/"+m.Token+"/nack", `{"error":"=broken","permanent":true}`, nil)
			return id
		}
		first := kill(`{"body":{"a":1},"kind":"x"}`)
		for i := range 4 {
			kill(fmt.Sprintf(`{"body":%d,"kind":"y"}`, i))
		}
		var page struct {
			Messages []struct {
				ID         string
				OriginalID string `json:"original_id"`
				Error      string `json:"error_message"`
				Reason     string
				FailedAt   int64 `json:"failed_at"`
				CreatedAt  int64 `json:"original_created_at"`
			}
			Next string
		}
		b.ok("GET", "/v1/queues/bad/dlq?limit=2", "", &page)
		if len(page.Messages) != 2 || page.Messages[0].ID != first || page.Messages[0].OriginalID != first || page.Messages[0].Error != "=broken" || page.Messages[0].Reason != "permanent" ||
			page.Messages[0].FailedAt == 0 || page.Messages[0].CreatedAt == 0 || page.Next == "" {
			t.Fatalf("got %+v", page)
		}
		third := page
		b.ok("GET", "/v1/queues/bad/dlq?limit=2&after="+url.QueryEscape(page.Next), "", &third)
		skipped := page
		b.ok("GET", "/v1/queues/bad/dlq?limit=2&offset=2", "", &skipped)
		if len(third.Messages) != 2 || len(skipped.Messages) != 2 || third.Messages[0].ID != skipped.Messages[0].ID {
			t.Errorf("by cursor %+v, by offset %+v", third, skipped)
		}
		b.ok("GET", "/v1/queues/bad/dlq?offset=5", "", &skipped)
		if len(skipped.Messages) != 0 {
			t.Errorf("behind the end: %+v", skipped)
		}
		b.ok("GET", "/v1/queues/bad/dlq?kind=x&reason=permanent&text=broken", "", &page)
		if len(page.Messages) != 1 {
			t.Errorf("filtered %+v", page)
		}
		csv := b.send("GET", "/v1/queues/bad/dlq?format=csv", "", nil)
		if lines := strings.Split(string(csv.body), "\n"); csv.status != 200 || len(lines) != 7 || !strings.Contains(lines[1], "'=broken") || !strings.HasPrefix(lines[0], "id,original_id") {
			t.Errorf("csv: %d %s", csv.status, csv.body)
		}
		b.ok("GET", "/v1/queues/bad/dlq/"+first+"?envelope=job", "", nil)
		b.ok("GET", "/v1/queues/bad/dlq?envelope=job", "", nil)
		var back struct {
			OK    bool
			NewID string `json:"new_id"`
		}
		b.ok("POST", "/v1/queues/bad/dlq/"+first+"/requeue", `{"body":{"a":2},"priority":7}`, &back)
		if m := b.takeOne("bad"); !back.OK || m.ID != back.NewID || string(m.Body) != `{"a":2}` || m.Priority != 7 {
			t.Errorf("requeued %+v, leased %+v", back, m)
		} else {
			b.ok("POST", "/v1/leases/"+m.Token+"/ack", "", nil)
		}
		var many struct {
			Count int `json:"requeued_count"`
			More  bool
		}
		b.ok("POST", "/v1/queues/bad/dlq/requeue", `{"all":true,"kind":"y","limit":1}`, &many)
		if many.Count != 1 || !many.More {
			t.Errorf("requeued %+v", many)
		}
		b.ok("GET", "/v1/queues/bad/dlq", "", &page)
		var gone struct {
			Count int `json:"deleted_count"`
			More  bool
		}
		b.ok("POST", "/v1/queues/bad/dlq/requeue", `{"ids":["`+page.Messages[0].ID+`"]}`, &many)
		b.ok("DELETE", "/v1/queues/bad/dlq/"+page.Messages[1].ID, "", &gone)
		if gone.Count != 1 {
			t.Errorf("deleted %+v", gone)
		}
		b.ok("DELETE", "/v1/queues/bad/dlq?kind=none", "", &gone)
		if gone.Count != 0 {
			t.Errorf("deleted %+v", gone)
		}
		b.ok("DELETE", "/v1/queues/bad/dlq", "", &gone)
		if gone.Count != 1 {
			t.Errorf("deleted %+v", gone)
		}
	})

	t.Run("tasks and results", func(t *testing.T) {
		b.t = t
		b.put("later", `{"body":1,"task_id":"a","delay_ms":3600000}`)
		b.ok("POST", "/v1/tasks/a/reschedule?queue=later", `{"delay_ms":7200000,"body":"text","body_encoding":"text"}`, nil)
		var task struct {
			Status, Body string
			BodyEncoding string `json:"body_encoding"`
		}
		b.ok("GET", "/v1/tasks/a?queue=later&envelope=job", "", &task)
		if task.Status != "scheduled" || task.Body != "text" || task.BodyEncoding != "text" {
			t.Errorf("the task is %+v", task)
		}
		b.refused("GET", "/v1/results/a?queue=later&wait_ms=10", "", wire.CodeTimeout, "scheduled")
		b.ok("DELETE", "/v1/tasks/a?queue=later", "", nil)
		b.refused("GET", "/v1/results/a?queue=later", "", wire.CodeCancelled)
		var pushed struct{ Duplicate bool }
		b.ok("PUT", "/v1/results/p?queue=later&kind=k", `{"output":[1]}`, &pushed)
		a := b.send("PUT", "/v1/results/p?queue=later", "raw", map[string]string{"Content-Type": "application/x-odd"})
		if pushed.Duplicate || a.status != 200 {
			t.Errorf("pushed %+v, then %d %s", pushed, a.status, a.body)
		}
		if a.into(t, &pushed); !pushed.Duplicate {
			t.Errorf("pushed again: %s", a.body)
		}
	})

	t.Run("kv", func(t *testing.T) {
		b.t = t
		b.put("kv", `{"body":{"v":1},"keys_if_undelivered":[["a","b/c",""],["a","d"]]}`)
		m := b.takeOne("kv")
		b.ok("POST", "/v1/leases/"+m.Token+"/nack", `{"permanent":true}`, nil)
		var e struct {
			Key   []string
			Value string
		}
		a := b.plain("GET", "/v1/kv/a/b%2Fc/", "", nil)
		if a.into(t, &e); a.status != 200 || len(e.Key) != 3 || e.Key[1] != "b/c" || e.Key[2] != "" || e.Value != `{"v":1}` {
			t.Errorf("%d %s", a.status, a.body)
		}
		if raw := b.plain("GET", "/v1/kv/a/d", "", map[string]string{"Accept": "application/octet-stream"}); string(raw.body) != `{"v":1}` {
			t.Errorf("raw %d %q", raw.status, raw.body)
		}
		var list struct {
			Entries  []struct{ Key []string }
			Next     []string
			Position string
		}
		b.ok("GET", "/v1/kv?prefix=a&limit=1&values=true", "", &list)
		if len(list.Entries) != 1 || len(list.Next) == 0 {
			t.Fatalf("listed %+v", list)
		}
		q := url.Values{"prefix": {"a"}, "after": list.Next}
		next := list
		next.Next = nil
		b.ok("GET", "/v1/kv?"+q.Encode(), "", &next)
		if len(next.Entries) != 1 || next.Next != nil {
			t.Errorf("listed %+v", next)
		}
		if a := b.plain("DELETE", "/v1/kv/a/d", "", nil); a.status != 200 {
			t.Errorf("deleted: %d %s", a.status, a.body)
		}
		b.paths["GET /v1/kv/{key}"], b.paths["DELETE /v1/kv/{key}"] = true, true // their keys have slashes, for which the document has no form
		var changes struct {
			Entries []struct{ Deleted bool }
		}
		b.ok("GET", "/v1/kv-changes?wait_ms=1000&from="+list.Position, "", &changes)
		if len(changes.Entries) != 1 || !changes.Entries[0].Deleted {
			t.Errorf("changes %+v", changes)
		}
	})

	t.Run("schedules", func(t *testing.T) {
		b.t = t
		b.ok("PUT", "/v1/schedules/nightly", `{"queue":"q","cron":"0 3 * * *","zone":"Europe/Berlin","message":{"body":{"a":1}}}`, nil)
		var s struct {
			Name, Queue string
			NextAt      int64 `json:"next_at"`
			Message     struct{ Body json.RawMessage }
		}
		b.ok("GET", "/v1/schedules/nightly", "", &s)
		if s.Name != "nightly" || s.Queue != "q" || string(s.Message.Body) != `{"a":1}` {
			t.Errorf("the schedule is %+v", s)
		}
		b.ok("GET", "/v1/schedules", "", nil)
		b.ok("DELETE", "/v1/schedules/nightly", "", nil)
		b.refused("GET", "/v1/schedules/nightly", "", wire.CodeNotFound)
	})

	t.Run("batches", func(t *testing.T) {
		b.t = t
		var made struct{ Batch string }
		b.ok("POST", "/v1/batches", `{"queue":"done","callback":{"body":"all"}}`, &made)
		b.put("members", `{"body":1,"batch":"`+made.Batch+`"}`)
		b.ok("POST", "/v1/batches/"+made.Batch+"/seal", "", nil)
		m := b.takeOne("members")
		b.ok("POST", "/v1/leases/"+m.Token+"/ack", "", nil)
		var is struct {
			Sealed  bool
			Members int
		}
		b.ok("GET", "/v1/batches/"+made.Batch, "", &is)
		if cb := b.takeOne("done"); !is.Sealed || is.Members != 1 || string(cb.Body) != `"all"` || cb.Headers["batch_members"] != "1" {
			t.Errorf("the batch is %+v, its callback %+v", is, cb)
		}
	})

	t.Run("streams", func(t *testing.T) {
		b.t = t
		for _, path := range []string{"/v1/queues/q/listen?prefetch=1", "/queue/listen?queue=q", "/v1/results/stream?queue=q&kind=k", "/v1/queues/q/dlq/stream?reason=expired"} {
			l := listen(t, n.addr, path, nil)
			b.conforms("GET", path, "", nil, said{status: l.status, header: l.header})
			l.close()
		}
		letGo(t, n)
	})

	t.Run("one queue", func(t *testing.T) {
		b.t = t
		oneQueue(t, b)
	})

	t.Run("the cluster", func(t *testing.T) {
		b.t = t
		var c struct{ Nodes []struct{ ID string } }
		b.ok("GET", "/v1/cluster", "", &c)
		if len(c.Nodes) != 1 || c.Nodes[0].ID != "n1" {
			t.Errorf("the cluster is %+v", c)
		}
		var v struct {
			Equal bool
			Nodes []struct{ Digest string }
		}
		b.ok("POST", "/v1/cluster/verify", "", &v)
		if !v.Equal || len(v.Nodes) != 1 || len(v.Nodes[0].Digest) != 64 {
			t.Errorf("verified %+v", v)
		}
		b.refused("DELETE", "/v1/cluster/members/n1", "", wire.CodeFailedPrecondition, "majority")
		b.refused("POST", "/v1/cluster/transfer", "", wire.CodeFailedPrecondition)
		b.paths["DELETE /v1/cluster/members/{id}"], b.paths["POST /v1/cluster/transfer"] = true, true // nobody to go to
	})

	t.Run("the end of queues", func(t *testing.T) {
		b.t = t
		b.put("end", `{"body":1}`)
		var n struct {
			Count int `json:"deleted_count"`
		}
		b.ok("POST", "/v1/queues/end/purge", "", &n)
		if n.Count != 1 {
			t.Errorf("purged %+v", n)
		}
		var st struct {
			PerMinute int `json:"messages_per_minute"`
			Total     int
			Counters  map[string]int
		}
		b.ok("GET", "/v1/queues/end/stats", "", &st)
		if st.PerMinute != 1 || st.Total != 0 || st.Counters["enqueued"] != 1 {
			t.Errorf("stats %+v", st)
		}
		var named map[string]json.RawMessage // by names that programs hold on to
		b.ok("GET", "/v1/queues/end/stats", "", &named)
		for _, name := range []string{"pending", "processing", "scheduled", "retrying", "dlq", "total", "bytes", "oldest_message_age_seconds", "messages_per_minute",
			"avg_processing_time_ms", "counters"} {
			if named[name] == nil {
				t.Errorf("stats have no %s: %v", name, named)
			}
		}
		b.ok("DELETE", "/v1/queues/end", "", nil)
		b.refused("GET", "/v1/queues/end", "", wire.CodeNotFound, `"end"`)
	})

	b.t = t
	b.ok("GET", "/v1/openapi.json", "", nil)
	var doc struct{ Paths map[string]map[string]any }
	b.plain("GET", "/v1/openapi.json", "", nil).into(t, &doc)
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		if a := b.plain("GET", path, "", nil); a.status != 200 {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
		b.paths["GET "+path] = true
	}
	b.paths["GET /v1/ws"], b.paths["POST /hook/{name}"] = true, true // which have tests of their own
	for path, methods := range doc.Paths {
		for m := range methods {
			if !b.paths[strings.ToUpper(m)+" "+path] {
				t.Errorf("%s %s is in the document and was not tried", m, path)
			}
		}
	}
}

// oneQueue goes through the one-queue API as its users' scripts do.
func oneQueue(t *testing.T, b *browser) {
	var stats struct{ Pending, Processing, DLQ, Total int }
	var polled struct {
		Message *struct {
			ID       string
			Value    json.RawMessage
			Attempts int
		}
	}
	b.ok("GET", "/queue/stats?queue=none", "", &stats)
	b.ok("GET", "/queue/poll?queue=none", "", &polled)
	b.ok("DELETE", "/queue/dlq?queue=none", "", nil)
	if a := b.ok("GET", "/queue/dlq?queue=none", "", nil); strings.TrimSpace(string(a.body)) != "[]" {
		t.Errorf("no dead letters: %s", a.body)
	}
	if polled.Message != nil || stats.Total != 0 {
		t.Errorf("of a queue that is not there: %+v %+v", polled, stats)
	}
	var in struct {
		OK bool
		ID string
	}
	for _, options := range []string{`"delay":0,"priority":5,"backoffSchedule":[1],"keysIfUndelivered":[["k"]]`, `"backoffSchedule":[]`} {
		a := b.ok("POST", "/queue/enqueue", `{"value":{"hello":"world"},"options":{`+options+`}}`, &in)
		if !in.OK || in.ID == "" || a.status != 200 {
			t.Fatalf("enqueued: %d %s", a.status, a.body)
		}
		attempts := 2
		if options == `"backoffSchedule":[]` {
			attempts = 1
		}
		for i := range attempts {
			b.ok("GET", "/queue/poll?wait_ms=5000", "", &polled)
			if polled.Message == nil || polled.Message.ID != in.ID || polled.Message.Attempts != i+1 || string(polled.Message.Value) != `{"hello":"world"}` {
				t.Fatalf("polled %+v", polled)
			}
			b.ok("GET", "/queue/stats", "", &stats)
			if stats.Processing != 1 || stats.Total != 1 {
				t.Errorf("stats %+v", stats)
			}
			b.ok("POST", "/queue/nack", `{"id":"`+in.ID+`","error":"boom"}`, nil)
		}
		var dead []struct {
			ID           string
			OriginalID   string `json:"originalId"`
			Value        json.RawMessage
			Attempts     int
			ErrorMessage string `json:"errorMessage"`
			CreatedAt    int64  `json:"originalCreatedAt"`
			FailedAt     int64  `json:"failedAt"`
		}
		b.ok("GET", "/queue/dlq?limit=10&offset=0", "", &dead)
		if len(dead) != 1 || dead[0].ID != in.ID || dead[0].OriginalID != in.ID || dead[0].Attempts != attempts || dead[0].ErrorMessage != "boom" || dead[0].CreatedAt == 0 || dead[0].FailedAt == 0 {
			t.Fatalf("dead: %+v", dead)
		}
		b.ok("GET", "/queue/dlq/"+in.ID, "", nil)
		var back struct {
			OK    bool
			NewID string `json:"newId"`
		}
		b.ok("POST", "/queue/dlq/"+in.ID+"/requeue", "", &back)
		b.ok("GET", "/queue/poll?wait_ms=5000", "", &polled)
		if !back.OK || polled.Message == nil || polled.Message.ID != back.NewID || polled.Message.Attempts != 1 {
			t.Fatalf("back %+v, polled %+v", back, polled)
		}
		b.ok("POST", "/queue/ack", `{"id":"`+back.NewID+`"}`, nil)
		b.ok("POST", "/queue/ack", `{"id":"`+back.NewID+`"}`, nil) // the same success
	}
	for range 2 {
		b.ok("POST", "/queue/enqueue", `{"value":1,"options":{"backoffSchedule":[]}}`, &in)
		b.ok("GET", "/queue/poll?wait_ms=5000", "", nil)
		b.ok("POST", "/queue/nack", `{"id":"`+in.ID+`"}`, nil)
	}
	b.ok("DELETE", "/queue/dlq/"+in.ID, "", nil)
	var gone struct {
		Count int `json:"deletedCount"`
	}
	b.ok("DELETE", "/queue/dlq", "", &gone)
	if gone.Count != 1 {
		t.Errorf("deleted %+v", gone)
	}
	b.ok("POST", "/queue/enqueue?queue=other", `{"value":"s"}`, &in)
	b.refused("POST", "/queue/ack?queue=other", `{"id":"`+in.ID+`"}`, wire.CodeFailedPrecondition, "never been leased")
	b.refused("POST", "/queue/ack", `{"id":"x"}`, wire.CodeInvalidArgument, "id")
	b.refused("POST", "/queue/enqueue", `{}`, wire.CodeInvalidArgument, "value")
	b.ok("GET", "/queue/poll?queue=other", "", &polled)
	if polled.Message == nil || string(polled.Message.Value) != `"s"` {
		t.Errorf("polled %+v", polled)
	}
}
