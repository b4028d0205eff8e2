package group

import (
	"testing"

	"github.com/hashicorp/raft"
)

func TestContacts(t *testing.T) {
	t.Parallel()
	three := []raft.Server{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "n", Suffrage: raft.Nonvoter}}
	type answer struct {
		id   raft.ServerID
		term uint64
		late bool // sent before the check began
	}
	for _, c := range []struct {
		name    string
		servers []raft.Server
		answers []answer
		want    bool
	}{
		{"alone", three[:1], nil, true},
		{"nobody", three, nil, false},
		{"one of two others", three, []answer{{"c", 2, false}}, true},
		{"sent before", three, []answer{{"b", 2, true}, {"c", 2, true}}, false},
		{"sent before, and again after", three, []answer{{"b", 2, true}, {"b", 2, false}}, true},
		{"an old answer after a new one", three, []answer{{"b", 2, false}, {"b", 2, true}}, true},
		{"of another term", three, []answer{{"b", 1, false}, {"c", 3, false}}, false},
		{"a non-voter", three, []answer{{"n", 2, false}}, false},
		{"a stranger", three, []answer{{"x", 2, false}}, false},
		{"half of four", append([]raft.Server{{ID: "d"}}, three...), []answer{{"b", 2, false}}, false},
		{"not a voter itself", three[1:], []answer{{"b", 2, false}}, false},
	} {
		var k contacts
		before := k.begin()
		mark := k.begin()
		for _, a := range c.answers {
			sent := k.now()
			if a.late {
				sent = before
			}
			k.answered(a.id, a.term, sent)
		}
		if got := k.majority("a", c.servers, 2, mark); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	var k contacts
	for i := range 10 * maxContacts {
		k.answered(raft.ServerID(rune('a'+i)), 1, 1)
	}
	if len(k.heard) > maxContacts {
		t.Errorf("%d nodes are remembered, want at most %d", len(k.heard), maxContacts)
	}
}

// answering is a transport whose requests wait to be answered.
type answering struct {
	raft.Transport
	sent chan struct{}
	ok   chan bool
}

func (a answering) AppendEntries(_ raft.ServerID, _ raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	a.sent <- struct{}{}
	resp.Term, resp.Success = args.Term, <-a.ok
	return nil
}

// TestContactTransport: an answer counts for the checks that had begun when its request was sent, not for those that began
// while it was on its way.
func TestContactTransport(t *testing.T) {
	t.Parallel()
	two := []raft.Server{{ID: "a"}, {ID: "b"}}
	var k contacts
	a := answering{sent: make(chan struct{}), ok: make(chan bool)}
	tr := k.transport(a)
	ask := func(answer bool, meanwhile func()) {
		done := make(chan error)
		go func() {
			done <- tr.AppendEntries("b", "", &raft.AppendEntriesRequest{Term: 2}, new(raft.AppendEntriesResponse))
		}()
		<-a.sent
		meanwhile()
		a.ok <- answer
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	var mark uint64
	ask(true, func() { mark = k.begin() })
	if k.majority("a", two, 2, mark) {
		t.Error("an answer to what was sent before the check has counted for it")
	}
	ask(false, func() {})
	if k.majority("a", two, 2, mark) {
		t.Error("a refusal has counted")
	}
	ask(true, func() {})
	if !k.majority("a", two, 2, mark) {
		t.Error("an answer to what was sent after the check began has not counted for it")
	}
}
