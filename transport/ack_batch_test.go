package transport

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/wire"
)

func TestAckBatch(t *testing.T) {
	n := stations(t, 1, Config{Registry: prometheus.NewRegistry()})[0]
	p, _ := session(t, n.addr)
	task := func(name string) wire.Delivered {
		t.Helper()
		p.enqueue("q", wire.Message{Body: wire.Bytes(name), TaskID: name})
		return p.pull("q")
	}
	push := func(name, out string) {
		t.Helper()
		var rep wire.Acked
		p.ask(wire.TypeResultPush, &wire.ResultPush{Task: wire.TaskRef{Queue: "q", TaskID: name}, Kind: "k", Result: wire.Result{Output: wire.Bytes(out)}}, wire.TypeAcked, &rep)
	}
	acks := func(tokens ...string) (rep wire.AckedBatch) {
		t.Helper()
		p.ask(wire.TypeAckBatch, &wire.AckBatch{Tokens: tokens}, wire.TypeAckedBatch, &rep)
		if rep.At.Index == 0 {
			t.Errorf("answered at %+v", rep.At)
		}
		return rep
	}
	a, b, c := task("a"), task("b"), task("c")
	if rep := acks(a.Token, b.Token); len(rep.Others) != 0 {
		t.Errorf("two good ones: %+v", rep.Others)
	}
	for _, name := range []string{"a", "b"} {
		var is wire.TaskIs
		p.ask(wire.TypeTask, &wire.TaskGet{Task: wire.TaskRef{Queue: "q", TaskID: name}}, wire.TypeTaskIs, &is)
		if is.Task.Status != wire.StatusSucceeded {
			t.Errorf("task %s is %q", name, is.Task.Status)
		}
	}
	// Each is judged by itself: done again, done with a pushed result, lost, cancelled, never leased.
	d, e, f := task("d"), task("e"), task("f")
	push("d", "pushed")
	var ok wire.OK
	p.ask(wire.TypeRelease, &wire.Release{Token: e.Token}, wire.TypeOK, &ok)
	e2 := p.pull("q")
	var cancelled wire.TaskCancelled
	other := connect(t, n.addr)
	other.ask(wire.TypeTaskCancel, &wire.TaskCancel{Task: wire.TaskRef{Queue: "q", TaskID: "f"}}, wire.TypeTaskCancelled, &cancelled)
	if told := p.next(); told.Type != wire.TypeLeaseCancelled {
		t.Fatalf("got frame %d, want that a lease was cancelled", told.Type)
	}
	never := strings.Repeat("0", wire.TokenBytes-1) + "1"
	rep := acks(a.Token, d.Token, e.Token, c.Token, f.Token, never, e2.Token)
	if len(rep.Others) != 4 {
		t.Fatalf("seven of which four are not simply done: %+v", rep.Others)
	}
	if o := rep.Others[0]; o.Index != 1 || !o.Duplicate || o.Result == nil || string(o.Result.Output) != "pushed" || o.Fault != nil || o.Again {
		t.Errorf("one whose result was pushed: %+v", o)
	}
	for i, want := range []struct {
		index int32
		code  wire.Code
	}{{2, wire.CodeLeaseLost}, {4, wire.CodeCancelled}, {5, wire.CodeNotFound}} {
		o := rep.Others[i+1]
		if o.Index != want.index || o.Fault == nil || o.Fault.Code != want.code || o.Fault.Unknown || o.Duplicate {
			t.Errorf("got %+v %v, want %s at %d", o, o.Fault, want.code, want.index)
		} else if o.Fault.At == nil || *o.Fault.At != rep.At {
			t.Errorf("%s carries place %v, want that of the answer, %v", want.code, o.Fault.At, rep.At)
		}
	}

	g := task("g")
	for name, tokens := range map[string][]string{
		"none":             {},
		"one that is none": {g.Token, "x"},
	} {
		if f := p.refused(wire.TypeAckBatch, &wire.AckBatch{Tokens: tokens}, wire.CodeInvalidArgument); !strings.Contains(f.Message, "token") {
			t.Errorf("%s: %v", name, f)
		}
	}
	if rep := acks(g.Token); len(rep.Others) != 0 {
		t.Errorf("a token of a batch that was refused: %+v", rep.Others)
	}
	if got := scraped(t, n.addr)[metricToAck].GetMetric()[0].GetHistogram().GetSampleCount(); got != 5 { // a, b, c, e2 and g; not a again
		t.Errorf("%d leases were measured from lease to ack, want 5", got)
	}
	p.send(wire.TypeAckBatch, 1<<40, &wire.AckBatch{Tokens: strings.Split(strings.Repeat(g.Token+" ", 256)+g.Token, " ")})
	if code, _, _ := p.closed(); code != CloseBadFrame {
		t.Errorf("257 tokens: closed with %d", code)
	}
}

// Results that have no room in one answer are told of one by one.
func TestAckBatchOfGreatResults(t *testing.T) {
	n := stations(t, 1, Config{MaxMessageBytes: 1 << 20})[0]
	p, _ := session(t, n.addr)
	for _, tc := range []struct {
		name  string
		sizes []int  // in KiB, of 1024 that there is room for
		told  string // of each: y, n
	}{
		{"three of five have room", []int{300, 300, 300, 300, 300}, "yyynn"},
		{"the largest", []int{1024}, "y"},
		{"the largest and one more", []int{1024, 1}, "yn"},
		{"small ones behind one that has no room", []int{600, 600, 100, 100}, "ynyy"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var tokens []string
			for i, size := range tc.sizes {
				id := strings.ReplaceAll(tc.name, " ", "-") + string(rune('a'+i))
				p.enqueue("q", wire.Message{Body: wire.Bytes(id), TaskID: id})
				tokens = append(tokens, p.pull("q").Token)
				var rep wire.Acked
				p.ask(wire.TypeResultPush, &wire.ResultPush{Task: wire.TaskRef{Queue: "q", TaskID: id}, Kind: "k", Result: wire.Result{Output: make(wire.Bytes, size<<10)}}, wire.TypeAcked, &rep)
			}
			var rep wire.AckedBatch
			p.ask(wire.TypeAckBatch, &wire.AckBatch{Tokens: tokens}, wire.TypeAckedBatch, &rep)
			told := ""
			for i, o := range rep.Others {
				size := tc.sizes[i] << 10
				switch {
				case int(o.Index) != i || o.Fault != nil:
					t.Errorf("got %+v at %d", o, i)
				case o.Again:
					told += "n"
					var one wire.Acked
					p.ask(wire.TypeAck, &wire.Ack{Token: tokens[i]}, wire.TypeAcked, &one)
					if !one.Duplicate || one.Result == nil || len(one.Result.Output) != size {
						t.Errorf("acked alone: duplicate %v, result %v", one.Duplicate, one.Result != nil)
					}
				case o.Duplicate && o.Result != nil && len(o.Result.Output) == size:
					told += "y"
				default:
					t.Errorf("at %d: duplicate %v, result %v", i, o.Duplicate, o.Result != nil)
				}
			}
			if told != tc.told {
				t.Errorf("told of %s, want %s", told, tc.told)
			}
		})
	}
}
