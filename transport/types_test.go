package transport

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/wire"
)

// TestValuesKeepTheirType: what stands where the protocol has text or bytes comes out as it went in, or is refused at entry, with what it is:
// no number turns into text, or into another number, on the way, and it is the same to the HTTP API. (C61)
func TestValuesKeepTheirType(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	first, _ := session(t, n.addr)
	first.ask(wire.TypeQueueCreate, &wire.QueueWrite{Queue: "types"}, wire.TypeOK, new(wire.OK)) // what is refused must not make it
	// The mark is text in one place of a good frame; other items are put in its stead.
	mark := []byte("\x6bMARKMARKMAR") // text of 11 bytes
	const marked = "MARKMARKMAR"
	places := map[string]*wire.Enqueue{
		"header value": {Queue: "types", Messages: []wire.Message{{Headers: []wire.Header{{Name: "n", Value: marked}}}}},
		"header name":  {Queue: "types", Messages: []wire.Message{{Headers: []wire.Header{{Name: marked, Value: "v"}}}}},
		"kind":         {Queue: "types", Messages: []wire.Message{{Kind: marked}}},
		"task id":      {Queue: "types", Messages: []wire.Message{{TaskID: marked}}},
		"body":         {Queue: "types", Messages: []wire.Message{{Body: wire.Bytes(marked)}}},
		"key":          {Queue: "types", Messages: []wire.Message{{Key: wire.Bytes(marked)}}},
	}
	for place, req := range places {
		inBytes := place == "body" || place == "key"
		from := mark
		if inBytes {
			from = append([]byte{0x4b}, mark[1:]...)
		}
		for _, item := range []struct {
			name string
			cbor string
			says string // "": it is taken where text is, and comes out the same
		}{
			{"text of a number", "\x6218", ""},
			{"text of 2^63", "\x739223372036854775808", ""},
			{"text of null", "\x64null", ""},
			{"text beyond ASCII", "\x67\xc3\xbc \xe2\x98\x83 ", ""},
			{"1", "\x01", "integer"},
			{"-1", "\x20", "integer"},
			{"1.0", "\xf9\x3c\x00", "float"},
			{"1.5 in 64 bits", "\xfb\x3f\xf8\x00\x00\x00\x00\x00\x00", "float"},
			{"2^63", "\x1b\x80\x00\x00\x00\x00\x00\x00\x00", "integer"},
			{"-2^64", "\x3b\xff\xff\xff\xff\xff\xff\xff\xff", "integer"},
			{"true", "\xf5", "bool"},
			{"null", "\xf6", "null"},
			{"bytes", "\x42\x01\x02", "byte string"},
			{"an array", "\x80", "array"},
			{"a map", "\xa0", "map"},
			{"a tag", "\xc0\x61x", "tag"},
		} {
			t.Run(place+"/"+item.name, func(t *testing.T) {
				p := connect(t, n.addr)
				frame := wire.AppendFrame(nil, wire.TypeEnqueue, 2, req)
				sent := bytes.Replace(frame, from, []byte(item.cbor), 1)
				if bytes.Count(frame, from) != 1 {
					t.Fatalf("the mark is in the frame %d times", bytes.Count(frame, from))
				}
				says := item.says
				switch {
				case inBytes && says == "":
					says = "text"
				case inBytes && item.name == "bytes":
					says = ""
				}
				p.sendRaw(sent)
				if says != "" {
					code, _, faults := p.closed()
					if code != CloseBadFrame || len(faults) != 1 || !strings.Contains(faults[0].Message, says) {
						t.Errorf("closed with %d, faults %v; want %d and %q", code, faults, CloseBadFrame, says)
					}
					q, _ := session(t, n.addr)
					var l wire.Leased
					if q.ask(wire.TypeLease, &wire.Lease{Queue: "types", Max: 1}, wire.TypeLeased, &l); len(l.Messages) != 0 {
						t.Errorf("what was refused is in the queue: %+v", l.Messages)
					}
					return
				}
				var rep wire.Enqueued
				p.answer(2, wire.TypeEnqueued, &rep)
				if was := item.cbor[1:]; !slices.Contains(overHTTP(t, n.addr, place), was) {
					t.Errorf("%q came out of the HTTP API as %q", was, overHTTP(t, n.addr, place))
				}
				q, _ := session(t, n.addr)
				var l wire.Leased
				q.ask(wire.TypeLease, &wire.Lease{Queue: "types", Max: 1}, wire.TypeLeased, &l)
				if len(l.Messages) != 1 {
					t.Fatalf("%d messages, want 1", len(l.Messages))
				}
				m := l.Messages[0]
				was := item.cbor[1:]
				got := map[string]string{"kind": m.Kind, "task id": m.TaskID, "body": string(m.Body), "key": string(m.Key)}[place]
				if len(m.Headers) == 1 {
					got = map[string]string{"header value": m.Headers[0].Value, "header name": m.Headers[0].Name}[place]
				}
				if got != was {
					t.Errorf("%q came out as %q", was, got)
				}
				var a wire.Acked
				q.ask(wire.TypeAck, &wire.Ack{Token: m.Token}, wire.TypeAcked, &a)
			})
		}
	}
}

// overHTTP is what the HTTP API shows of the messages of queue types in one place of them.
func overHTTP(t *testing.T, addr, place string) (all []string) {
	t.Helper()
	var page struct {
		Messages []struct {
			Kind    string
			TaskID  string `json:"task_id"`
			Body    []byte // base64, as is asked for
			Key     string
			Headers map[string]string
		}
	}
	browse(t, addr).ok("GET", "/v1/queues/types/messages?body_encoding=base64", "", &page)
	for _, m := range page.Messages {
		switch place {
		case "kind":
			all = append(all, m.Kind)
		case "task id":
			all = append(all, m.TaskID)
		case "body":
			all = append(all, string(m.Body))
		case "key":
			all = append(all, m.Key)
		}
		for name, v := range m.Headers {
			all = append(all, map[string]string{"header name": name, "header value": v}[place])
		}
	}
	return all
}
