package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/wire"
)

// keyed asks with headers of the caller's.
func keyed(a *API, method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w
}

// again has every operation be a repeat.
func again(k *Idempotency) { k.Replayed++ }

func TestKeysThatAreNotTaken(t *testing.T) {
	const enqueue = "/v1/queues/q/messages"
	id := strings.Repeat("0", 26)
	for _, tc := range []struct {
		what, method, path, body string
		keys                     []string
		names                    string
	}{
		{"empty", "POST", enqueue, `{}`, []string{""}, "0 bytes; 1 to 255"},
		{"too long", "POST", enqueue, `{}`, []string{strings.Repeat("k", 256)}, "256 bytes; 1 to 255"},
		{"a space", "POST", enqueue, `{}`, []string{"a b"}, "byte 1 is 0x20"},
		{"a control character", "POST", enqueue, `{}`, []string{"a\x7f"}, "byte 1 is 0x7f"},
		{"not ASCII", "POST", enqueue, `{}`, []string{"ké"}, "byte 1 is 0xc3"},
		{"twice", "POST", enqueue, `{}`, []string{"k", "k"}, "given 2 times"},
		{"a read", "GET", "/v1/queues/q", "", []string{"k"}, "nothing is written"},
		{"a read of the one-queue API", "GET", "/queue/stats", "", []string{"k"}, "nothing is written"},
		{"the document", "GET", "/v1/openapi.json", "", []string{"k"}, "nothing is written"},
		{"a stream", "GET", "/v1/queues/q/listen", "", []string{"k"}, "stream"},
		{"a stream of the one-queue API", "GET", "/queue/listen", "", []string{"k"}, "stream"},
		{"a transfer of leadership", "POST", "/v1/cluster/transfer", "", []string{"k"}, "no operation of the log"},
		{"a comparison of nodes", "POST", "/v1/cluster/verify", "", []string{"k"}, "no operation of the log"},
		{"a member's removal", "DELETE", "/v1/cluster/members/" + id, "", []string{"k"}, "no operation of the log"},
	} {
		t.Run(tc.what, func(t *testing.T) {
			n := &fakeNode{}
			var h []string
			for _, k := range tc.keys {
				h = append(h, keyHeader, k)
			}
			w := keyed(newAPI(t, n, nil), tc.method, tc.path, tc.body, h...)
			var p Problem
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != 400 || p.Field != keyHeader || !strings.Contains(p.Detail, tc.names) || len(n.asked) != 0 {
				t.Errorf("%d %s, asked %v", w.Code, w.Body, n.asked)
			}
		})
	}
	for _, key := range []string{"k", "!", "~", strings.Repeat("k", 255), `"8e03978e-40d5-43dd-bc93-6894a57f9324"`} {
		n := &fakeNode{}
		if w := keyed(newAPI(t, n, nil), "POST", enqueue, `{}`, keyHeader, key); w.Code != 201 || len(n.asked) != 1 || n.asked[0].Idempotency.Key != key {
			t.Errorf("key %q: %d %s", key, w.Code, w.Body)
		}
	}
}

// Every route that writes into the log takes a key and gives it to all that it asks the node for; the document says so of these alone.
func TestEveryWriteTakesAKey(t *testing.T) {
	n := &fakeNode{}
	a := newAPI(t, n, nil)
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ Name, In string }
			Responses  map[string]struct{ Headers map[string]any }
		}
	}
	docs, err := a.docs()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(docs, &doc); err != nil {
		t.Fatal(err)
	}
	taking := 0
	for _, r := range a.routes {
		want := (r.method != "GET" || r.path == "/queue/poll") && !strings.HasPrefix(r.path, "/v1/cluster")
		if r.keyed() != want {
			t.Errorf("%s %s takes a key: %v", r.method, r.path, !want)
		}
		op := doc.Paths[strings.ReplaceAll(r.path, "...}", "}")][strings.ToLower(r.method)]
		said := slices.ContainsFunc(op.Parameters, func(p struct{ Name, In string }) bool { return p.Name == keyHeader && p.In == "header" })
		for status, answer := range op.Responses {
			if _, has := answer.Headers[replayedHeader]; has != want && status != "default" {
				t.Errorf("%s %s: the document has %s in the answer %s: %v", r.method, r.path, replayedHeader, status, has)
			}
		}
		if said != want {
			t.Errorf("%s %s: the document has a key: %v", r.method, r.path, said)
		}
		if want {
			taking++
		}
	}
	if taking < 25 {
		t.Errorf("%d routes take a key", taking)
	}
}

// The print of a request is another where it asks for something else, and the same where it does not.
func TestPrint(t *testing.T) {
	n := &fakeNode{}
	a := newAPI(t, n, nil)
	printOf := func(method, path, body string, header ...string) [16]byte {
		t.Helper()
		n.asked = nil
		w := keyed(a, method, path, body, append(header, keyHeader, "k")...)
		if w.Code > 299 || len(n.asked) == 0 {
			t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
		return n.asked[0].Idempotency.Print
	}
	const path = "/v1/queues/q/messages"
	first := printOf("POST", path, `{"body":1}`, "Content-Type", "application/json")
	for what, same := range map[string][16]byte{
		"again":                      printOf("POST", path, `{"body":1}`, "Content-Type", "application/json"),
		"another id for the logs":    printOf("POST", path, `{"body":1}`, "Content-Type", "application/json", "X-Request-Id", "x"),
		"another trace":              printOf("POST", path, `{"body":1}`, "Content-Type", "application/json", "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
		"another way to be answered": printOf("POST", path, `{"body":1}`, "Content-Type", "application/json", "Accept-Encoding", "gzip", "User-Agent", "u"),
		"sent on by another node":    printOf("POST", path, `{"body":1}`, "Content-Type", "application/json", hopHeader, "n2"),
	} {
		if same != first {
			t.Errorf("%s: another print", what)
		}
	}
	seen := map[[16]byte]string{first: "the first"}
	for what, other := range map[string][16]byte{
		"body":           printOf("POST", path, `{"body":2}`, "Content-Type", "application/json"),
		"white space":    printOf("POST", path, `{"body": 1}`, "Content-Type", "application/json"),
		"queue":          printOf("POST", "/v1/queues/p/messages", `{"body":1}`, "Content-Type", "application/json"),
		"query":          printOf("POST", path+"?kind=k", `{"body":1}`, "Content-Type", "application/json"),
		"type":           printOf("POST", path, `{"body":1}`, "Content-Type", "text/plain"),
		"no type":        printOf("POST", path, `{"body":1}`),
		"route":          printOf("POST", "/v1/queues/q/purge", ""),
		"method":         printOf("PUT", "/v1/queues/q", ""),
		"another method": printOf("DELETE", "/v1/queues/q", ""),
		"a condition":    printOf("PUT", "/v1/queues/q", "", "If-None-Match", "*"),
	} {
		if was, twice := seen[other]; twice {
			t.Errorf("%s: the print of %s", what, was)
		}
		seen[other] = what
	}
}

func TestReplayed(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	token := strings.Repeat("0", 52)
	fault := func(r Request) *Answer {
		r.Idempotency.Replayed++
		return &Answer{Fault: wire.NewFault(wire.CodeNotFound, "why")}
	}
	turns := 0
	for _, tc := range []struct {
		what, method, path, body string
		repeat                   func(*Idempotency)
		answer                   func(Request) *Answer
		status                   int
		said                     string
	}{
		{"carried out", "POST", "/v1/queues/q/messages", `{}`, nil, nil, 201, ""},
		{"a repeat", "POST", "/v1/queues/q/messages", `{}`, again, nil, 201, "true"},
		{"a repeat that was refused", "POST", "/v1/queues/q/messages", `{}`, again, fault, 404, "true"},
		{"a batch of which all was done", "POST", "/v1/leases/batch", `{"operations":[{"op":"ack","token":"` + token + `"},{"op":"ack","token":"` + token + `"}]}`, again, nil, 200, "true"},
		{"a batch of which some was done", "POST", "/v1/leases/batch", `{"operations":[{"op":"ack","token":"` + token + `"},{"op":"ack","token":"` + token + `"}]}`,
			func(k *Idempotency) {
				if turns++; turns == 1 {
					k.Replayed++
				} else {
					k.Fresh++
				}
			}, nil, 200, ""},
		{"a lease", "POST", "/v1/queues/q/lease", ``, again, nil, 200, "true"},
		{"a poll", "GET", "/queue/poll", ``, again, nil, 200, "true"},
	} {
		t.Run(tc.what, func(t *testing.T) {
			n := &fakeNode{repeat: tc.repeat, answer: tc.answer}
			w := keyed(newAPI(t, n, nil), tc.method, tc.path, tc.body, keyHeader, "k")
			if w.Code != tc.status || w.Header().Get(replayedHeader) != tc.said {
				t.Errorf("%d %q %s", w.Code, w.Header().Get(replayedHeader), w.Body)
			}
			if tc.answer == nil && int(n.asked[0].Idempotency.Part) != len(n.asked) {
				t.Errorf("%d operations were counted of %d", n.asked[0].Idempotency.Part, len(n.asked))
			}
		})
	}

	t.Run("leases that another may have are not given back", func(t *testing.T) {
		n := &fakeNode{answer: func(r Request) *Answer {
			r.Idempotency.Replayed++
			return &Answer{Type: wire.TypeLeased, Body: &wire.Leased{Messages: []wire.Delivered{{ID: token[:26], Token: token}}}}
		}}
		r := httptest.NewRequestWithContext(gone, "POST", "/v1/queues/q/lease", nil)
		r.Header.Set(keyHeader, "k")
		newAPI(t, n, nil).ServeHTTP(httptest.NewRecorder(), r)
		if len(n.back) != 0 {
			t.Errorf("given back: %v", n.back)
		}
	})
}

// What a filter finds is found once: a repeat is about the same dead letters, whatever there is by then.
func TestBulkUnderAKey(t *testing.T) {
	ids := []string{strings.Repeat("0", 25) + "1", strings.Repeat("0", 25) + "2"}
	listed := 0
	n := &fakeNode{}
	n.answer = func(r Request) *Answer {
		switch r.Type {
		case wire.TypeDeadList:
			listed++
			return &Answer{Type: wire.TypeTasks, Body: &wire.Tasks{Tasks: []wire.Task{{ID: ids[0]}, {ID: ids[1]}}, Next: "1.x"}}
		case wire.TypeDeadRequeue, wire.TypeDeadDelete:
			out := make([]wire.Outcome, 2)
			out[1].Fault = wire.NewFault(wire.CodeNotFound, "gone")
			return &Answer{Type: wire.TypeEnqueued, Body: &wire.Enqueued{Outcomes: out}}
		}
		return nil
	}
	a := newAPI(t, n, nil)
	var note []byte
	for _, tc := range []struct {
		what, method, path, body, want string
	}{
		{"requeued", "POST", "/v1/queues/q/dlq/requeue", `{"all":true,"limit":2}`, `"more":true`},
		{"deleted", "DELETE", "/v1/queues/q/dlq?kind=k", ``, `"more":true`},
	} {
		t.Run(tc.what, func(t *testing.T) {
			listed, n.kept, n.asked = 0, nil, nil
			first := keyed(a, tc.method, tc.path, tc.body, keyHeader, "k")
			if first.Code != 200 || listed != 1 || !strings.Contains(first.Body.String(), tc.want) {
				t.Fatalf("%d %s, listed %d times", first.Code, first.Body, listed)
			}
			note = slices.Clone(n.asked[len(n.asked)-1].Idempotency.Note)

			n.kept = func(k *Idempotency) ([]byte, bool) {
				if k.Part != 0 || k.Key != "k" {
					t.Errorf("asked for %+v", k)
				}
				return note, true
			}
			second := keyed(a, tc.method, tc.path, tc.body, keyHeader, "k")
			if second.Body.String() != first.Body.String() || listed != 1 {
				t.Errorf("again: %d %s, listed %d times", second.Code, second.Body, listed)
			}

			// The first was under way when this one looked.
			n.kept = func(*Idempotency) ([]byte, bool) { return nil, false }
			answer := n.answer
			n.answer = func(r Request) *Answer {
				if r.Type == wire.TypeDeadList {
					return &Answer{Type: wire.TypeTasks, Body: &wire.Tasks{Tasks: []wire.Task{{ID: strings.Repeat("0", 26)}}}}
				}
				r.Idempotency.Replayed, r.Idempotency.Note = 1, note
				return answer(r)
			}
			third := keyed(a, tc.method, tc.path, tc.body, keyHeader, "k")
			if third.Body.String() != first.Body.String() || third.Header().Get(replayedHeader) != "true" {
				t.Errorf("at the same time: %d %s, want %s", third.Code, third.Body, first.Body)
			}
			n.answer = answer

			n.kept = func(*Idempotency) ([]byte, bool) { return []byte("?"), true }
			if w := keyed(a, tc.method, tc.path, tc.body, keyHeader, "k"); w.Code != 500 {
				t.Errorf("a note that is none: %d %s", w.Code, w.Body)
			}
		})
	}
}

// What a filter has not found is kept too, and what two requests under one key find that cross each other is what the first of them has found.
func TestBulkThatFindsNothing(t *testing.T) {
	ids := []string{strings.Repeat("0", 25) + "1", strings.Repeat("0", 25) + "2"}
	none := (&found{}).pack()
	some := (&found{ids: ids, more: true}).pack()
	for _, verb := range []struct{ what, method, path, body, none, some string }{
		{"requeue", "POST", "/v1/queues/q/dlq/requeue", `{"all":true}`, `"requeued_count":0,"outcomes":[],"more":false`, `"requeued_count":2`},
		{"delete", "DELETE", "/v1/queues/q/dlq?kind=k", ``, `"deleted_count":0`, `"deleted_count":2`},
	} {
		for _, tc := range []struct {
			what     string
			there    []string                            // dead letters that pass the filter
			kept     func(*Idempotency) ([]byte, bool)   // before the look
			nothing  func(*Idempotency) *wire.Fault      // the log, of the word that nothing was found
			repeat   func(k *Idempotency, outcomes *int) // the log, of an operation on dead letters
			nothings int
			status   int
			want     string
			said     string
		}{
			{"found none", nil, nil, nil, nil, 1, 200, verb.none, ""},
			{"again, and there are some by now", ids, func(*Idempotency) ([]byte, bool) { return none, true },
				func(k *Idempotency) *wire.Fault { k.Replayed, k.Note = k.Replayed+1, none; return nil }, nil, 1, 200, verb.none, "true"},
			{"found none, and another has found some before", nil, nil,
				func(k *Idempotency) *wire.Fault { k.Replayed, k.Note = k.Replayed+1, some; return nil },
				func(k *Idempotency, _ *int) { k.Replayed, k.Note = k.Replayed+1, some }, 1, 200, verb.some, "true"},
			{"found some, and another has found none before", ids, nil, nil,
				func(k *Idempotency, outcomes *int) { k.Replayed, k.Note, *outcomes = k.Replayed+1, none, 1 }, 0, 200, verb.none, "true"},
			{"found none, and the note is none", nil, nil,
				func(k *Idempotency) *wire.Fault { k.Replayed, k.Note = k.Replayed+1, []byte("?"); return nil }, nil, 1, 500, `"code":"internal"`, "true"},
			{"found some, and another has found one more", ids, nil, nil,
				func(k *Idempotency, outcomes *int) { k.Replayed, k.Note, *outcomes = k.Replayed+1, some, 3 }, 0, 500, `"code":"internal"`, "true"},
			{"no room for keys", nil, nil, func(*Idempotency) *wire.Fault { return wire.NewFault(wire.CodeOverloaded, "full") }, nil, 1, 503, `"code":"overloaded"`, ""},
			{"another request's key", nil, nil, func(*Idempotency) *wire.Fault { return wire.NewFault(wire.CodeAlreadyExists, "used") }, nil, 1, 409, `"code":"already_exists"`, ""},
			{"nobody knows", nil, nil, func(*Idempotency) *wire.Fault { return wire.NewFault(wire.CodeTimeout, "late") }, nil, 1, 504, `"outcome":"unknown"`, ""},
		} {
			t.Run(verb.what+", "+tc.what, func(t *testing.T) {
				n := &fakeNode{kept: tc.kept, nothing: tc.nothing}
				n.answer = func(r Request) *Answer {
					switch r.Type {
					case wire.TypeDeadList:
						page := &wire.Tasks{}
						for _, id := range tc.there {
							page.Tasks = append(page.Tasks, wire.Task{ID: id})
						}
						return &Answer{Type: wire.TypeTasks, Body: page}
					case wire.TypeDeadRequeue, wire.TypeDeadDelete:
						outcomes := 2
						if tc.repeat != nil {
							tc.repeat(r.Idempotency, &outcomes)
						} else {
							r.Idempotency.Fresh++
						}
						return &Answer{Type: wire.TypeEnqueued, Body: &wire.Enqueued{Outcomes: make([]wire.Outcome, outcomes)}}
					}
					return nil
				}
				w := keyed(newAPI(t, n, nil), verb.method, verb.path, verb.body, keyHeader, "k")
				if w.Code != tc.status || !strings.Contains(w.Body.String(), tc.want) || w.Header().Get(replayedHeader) != tc.said || n.nothings != tc.nothings {
					t.Errorf("%d %q %s, said %d times that there is nothing; want %d %q %s, %d", w.Code, w.Header().Get(replayedHeader), w.Body, n.nothings,
						tc.status, tc.said, tc.want, tc.nothings)
				}
				n.nothings = 0
				if n.kept = nil; tc.there == nil { // without a key nothing is kept, and nothing written
					if w := keyed(newAPI(t, n, nil), verb.method, verb.path, verb.body); w.Code != 200 || n.nothings != 0 || !strings.Contains(w.Body.String(), verb.none) {
						t.Errorf("without a key: %d %s, %d", w.Code, w.Body, n.nothings)
					}
				}
			})
		}
	}
}

// A dead letter's task id comes back as the first time, though the message may be forgotten.
func TestRequeueUnderAKey(t *testing.T) {
	id, made := strings.Repeat("0", 25)+"1", strings.Repeat("0", 25)+"2"
	const path = "/v1/queues/q/dlq/"
	n := &fakeNode{}
	looks, forgotten := 0, false
	var look *wire.Fault
	n.answer = func(r Request) *Answer {
		switch r.Type {
		case wire.TypeTask:
			if looks++; look != nil {
				return &Answer{Fault: look}
			}
			return &Answer{Type: wire.TypeTaskIs, Body: &wire.TaskIs{Task: wire.Task{ID: id, TaskID: "mine"}}}
		case wire.TypeDeadRequeue, wire.TypeDeadEdit:
			o := wire.Outcome{ID: made, TaskID: "mine"}
			if forgotten {
				o.TaskID = ""
			}
			if k := r.Idempotency; k != nil {
				if n.repeat != nil {
					n.repeat(k)
				} else {
					k.Fresh++
				}
			}
			return &Answer{Type: wire.TypeEnqueued, Body: &wire.Enqueued{Outcomes: []wire.Outcome{o}}}
		}
		return nil
	}
	a := newAPI(t, n, nil)
	for _, body := range []string{"", `{"priority":3}`} {
		looks, forgotten, n.kept, n.repeat, n.asked, look = 0, false, nil, nil, nil, nil
		first := keyed(a, "POST", path+id+"/requeue", body, keyHeader, "k")
		if want := `{"ok":true,"new_id":"` + made + `","task_id":"mine"}`; first.Code != 200 || strings.TrimSpace(first.Body.String()) != want || looks != 1 {
			t.Fatalf("%d %s after %d looks, want %s", first.Code, first.Body, looks, want)
		}
		note := slices.Clone(n.asked[len(n.asked)-1].Idempotency.Note)
		forgotten, n.repeat = true, again
		for what, kept := range map[string]func(*Idempotency) ([]byte, bool){
			"kept":                   func(*Idempotency) ([]byte, bool) { return note, true },
			"under way when it came": func(*Idempotency) ([]byte, bool) { return nil, false },
		} {
			n.kept = kept
			if what != "kept" {
				n.repeat = func(k *Idempotency) { k.Replayed, k.Note = k.Replayed+1, note }
			}
			if w := keyed(a, "POST", path+id+"/requeue", body, keyHeader, "k"); w.Body.String() != first.Body.String() || w.Header().Get(replayedHeader) != "true" {
				t.Errorf("%s: %d %s, want %s", what, w.Code, w.Body, first.Body)
			}
			n.repeat = again
		}
		n.kept, n.repeat, look = nil, nil, wire.NewFault(wire.CodeOverloaded, "busy")
		if w := keyed(a, "POST", path+id+"/requeue", body, keyHeader, "k2"); w.Code != 503 {
			t.Errorf("a look that failed: %d %s", w.Code, w.Body)
		}
		look = wire.NewFault(wire.CodeNotFound, "no such task")
		if w := keyed(a, "POST", path+id+"/requeue", body, keyHeader, "k3"); w.Code != 200 {
			t.Errorf("a look that found nothing, which the log decides: %d %s", w.Code, w.Body)
		}
		looks = 0
		if w := keyed(a, "POST", path+id+"/requeue", body); w.Code != 200 || looks != 0 {
			t.Errorf("without a key: %d %s, %d looks", w.Code, w.Body, looks)
		}
	}
}

func FuzzFound(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1})
	f.Add((&found{ids: []string{noID, noID}, more: true}).pack())
	f.Fuzz(func(t *testing.T, b []byte) {
		var d found
		if !d.unpack(b) {
			return
		}
		if again := d.pack(); string(again) != string(b) {
			t.Errorf("%x is packed as %x", b, again)
		}
	})
}

// In the one-queue API a message is known by its id, and may have gone when the request comes again.
func TestOneQueueUnderAKey(t *testing.T) {
	id := strings.Repeat("0", 25) + "1"
	missing := wire.NewFault(wire.CodeNotFound, "no such task")
	n := &fakeNode{token: missing, repeat: again}
	a := newAPI(t, n, nil)
	body := `{"id":"` + id + `"}`
	for _, path := range []string{"/queue/ack", "/queue/nack"} {
		n.kept = nil
		if w := keyed(a, "POST", path, body, keyHeader, "k"); w.Code != 404 || len(n.asked) != 0 {
			t.Errorf("%s, not kept: %d %s", path, w.Code, w.Body)
		}
		if w := keyed(a, "POST", path, body); w.Code != 404 || len(n.asked) != 0 {
			t.Errorf("%s, without a key: %d %s", path, w.Code, w.Body)
		}
		n.kept = func(*Idempotency) ([]byte, bool) { return nil, true }
		if w := keyed(a, "POST", path, body, keyHeader, "k"); w.Code != 200 || w.Header().Get(replayedHeader) != "true" {
			t.Errorf("%s, kept: %d %s", path, w.Code, w.Body)
		}
		n.asked = nil
	}
}

// A follower sends the key on, and hands back what the leader says of it.
func TestKeyIsSentOn(t *testing.T) {
	leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Header().Set(replayedHeader, "true")
		_, _ = w.Write([]byte(r.Header.Get(keyHeader) + " " + string(b)))
	}))
	defer leader.Close()
	n := &fakeNode{away: true, leader: strings.TrimPrefix(leader.URL, "http://")}
	w := keyed(newAPI(t, n, nil), "POST", "/v1/queues/q/messages", `{}`, keyHeader, "mine")
	if w.Code != 200 || w.Body.String() != "mine {}" || w.Header().Get(replayedHeader) != "true" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if w := keyed(newAPI(t, n, nil), "POST", "/v1/queues/q/messages", `{}`, keyHeader, "no key"); w.Code != 400 {
		t.Errorf("a bad key is sent on: %d %s", w.Code, w.Body)
	}
}

// A page of another origin may send a key and read what comes of it.
func TestKeyFromAnotherOrigin(t *testing.T) {
	a := newAPI(t, &fakeNode{}, func(c *Config) { c.Origins = []string{"https://app.example.com"} })
	w := keyed(a, "OPTIONS", "/v1/queues/q/messages", "", "Origin", "https://app.example.com", "Access-Control-Request-Method", "POST")
	if !strings.Contains(w.Header().Get("Access-Control-Allow-Headers"), keyHeader) || !strings.Contains(w.Header().Get("Access-Control-Expose-Headers"), replayedHeader) {
		t.Errorf("%v", w.Header())
	}
}
