package push

import (
	"strings"
	"sync"
	"testing"
)

// What is sent is what the map makes of a message, and is what is signed; one that comes to nothing is done, and one that fails is dead.
func TestMapped(t *testing.T) {
	t.Parallel()
	url, got := recorder(t)
	key := []byte("0123456789abcdef01234567")
	b := newBroker(Target{Queue: "q", URL: url, Secrets: []string{"s"}, Generation: 7,
		Map: `message.kind == "skip" ? nil : {id: body.order.id, user: headers.user, attempt: message.attempt, key: message.key}`})
	var mu sync.Mutex
	counts := map[string]int{}
	start(t, Config{Broker: b, Allow: loopbacks, Secrets: map[string][]byte{"s": key}, Clock: newClock(), Mapped: func(queue, outcome string) {
		mu.Lock()
		defer mu.Unlock()
		counts[queue+" "+outcome]++
	}})
	b.queue("q") <- &Message{ID: "1", Body: []byte(`{"order":{"id":17}}`), ContentType: "application/json", Headers: []Header{{"user", "u"}}, Attempt: 2, Key: []byte("k")}
	r := <-got
	if string(r.body) != `{"attempt":2,"id":17,"key":"k","user":"u"}` || r.header.Get("content-type") != "application/json" || !verified(r, key) {
		t.Errorf("sent %s as %s, signed %s", r.body, r.header.Get("content-type"), r.header.Get("webhook-signature"))
	}
	if s := b.next(t); s.verdict.Do != Ack {
		t.Errorf("%+v", s.verdict)
	}
	b.queue("q") <- &Message{ID: "2", Kind: "skip", Body: []byte(`{}`), Attempt: 1}
	if s := b.next(t); s.verdict.Do != Ack || s.verdict.Result != nil {
		t.Errorf("what comes to nothing: %+v", s.verdict)
	}
	b.queue("q") <- &Message{ID: "3", Body: []byte(`{"order":"x"}`), Attempt: 1}
	if s := b.next(t); s.verdict.Do != Unmapped || s.verdict.Generation != 7 || !strings.HasPrefix(s.verdict.Error, "map: 1:") {
		t.Errorf("what fails: %+v", s.verdict)
	}
	if len(got) != 0 {
		t.Errorf("%d requests more", len(got))
	}
	mu.Lock()
	defer mu.Unlock()
	if counts["q mapped"] != 1 || counts["q nothing"] != 1 || counts["q failed"] != 1 {
		t.Errorf("counted %v", counts)
	}
}

// A map that this build cannot use is said to be so, and nothing is sent.
func TestMapBarred(t *testing.T) {
	t.Parallel()
	url, got := recorder(t)
	b := newBroker(Target{Queue: "q", URL: url, Map: "now()", Generation: 1})
	b.queue("q") <- &Message{ID: "1", Attempt: 1}
	p, _ := start(t, Config{Broker: b, Allow: loopbacks, Clock: newClock()})
	says(t, p, "q", "not pushed: map: 1:1: ")
	if len(got) != 0 {
		t.Error("it was sent for all that")
	}
}
