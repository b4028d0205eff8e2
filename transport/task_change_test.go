package transport

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/quorate/quorate/wire"
)

func changed[T any](v T) *T { return &v }

// Cancel and reschedule at the door of a real node: answers, refusals with their words, and the same request twice.
func TestTaskChanges(t *testing.T) {
	n := stations(t, 1, Config{MaxMessageBytes: 1024})[0]
	p, _ := session(t, n.addr)
	id := p.enqueue("q", wire.Message{Body: wire.Bytes("x"), TaskID: "t"})
	ref := wire.TaskRef{Queue: "q", TaskID: "t"}
	var moved wire.TaskScheduled
	req := &wire.TaskReschedule{Task: ref, DelayMillis: changed(int64(60_000)), Request: wire.Request{Number: 1, Low: 1}}
	p.ask(wire.TypeTaskReschedule, req, wire.TypeTaskScheduled, &moved)
	if moved.ID != id || moved.DueAt <= moved.At.Time {
		t.Errorf("moved %+v", moved)
	}
	var again wire.TaskScheduled
	p.ask(wire.TypeTaskReschedule, req, wire.TypeTaskScheduled, &again)
	if again.DueAt != moved.DueAt || again.ID != id {
		t.Errorf("the same request: %+v, want %+v", again, moved)
	}
	p.ask(wire.TypeTaskReschedule, &wire.TaskReschedule{Task: ref, EnqueueAt: 1, Replace: &wire.Replacement{Body: wire.Bytes("new")}}, wire.TypeTaskScheduled, &moved)
	if moved.DueAt != 0 {
		t.Errorf("moved to the past: %+v", moved)
	}
	d := p.pull("q")
	if string(d.Body) != "new" {
		t.Errorf("leased %q", d.Body)
	}
	if f := p.refused(wire.TypeTaskReschedule, &wire.TaskReschedule{Task: ref, EnqueueAt: 1}, wire.CodeFailedPrecondition); !strings.Contains(f.Message, "does not wait") || f.Unknown {
		t.Errorf("of what is out: %+v", f)
	}
	if f := p.refused(wire.TypeTaskReschedule, &wire.TaskReschedule{Task: ref, Replace: &wire.Replacement{Body: make([]byte, 1025)}}, wire.CodeTooLarge); f.Field != "body" {
		t.Errorf("too large: %+v", f)
	}
	if f := p.refused(wire.TypeTaskReschedule, &wire.TaskReschedule{Task: ref, EnqueueAt: 1 << 60}, wire.CodeInvalidArgument); f.Field != "delay_ms" {
		t.Errorf("too far: %+v", f)
	}

	var c wire.TaskCancelled
	p.tag++
	p.send(wire.TypeTaskCancel, p.tag, &wire.TaskCancel{Task: ref})
	told := false
	for c.ID == "" || !told { // in either order
		f := p.next()
		switch f.Type {
		case wire.TypeTaskCancelled:
			if err := f.Decode(&c); err != nil {
				t.Fatal(err)
			}
		case wire.TypeLeaseCancelled:
			var l wire.LeaseCancelled
			if err := f.Decode(&l); err != nil || l.Sub != 0 || len(l.Tokens) != 1 || l.Tokens[0] != d.Token {
				t.Fatalf("%+v, %v", l, err)
			}
			told = true
		default:
			t.Fatalf("frame %d", f.Type)
		}
	}
	if c.ID != id || !c.Out || c.Duplicate {
		t.Errorf("cancelled %+v", c)
	}
	p.ask(wire.TypeTaskCancel, &wire.TaskCancel{Task: wire.TaskRef{TaskID: id}}, wire.TypeTaskCancelled, &c)
	if !c.Duplicate || !c.Out {
		t.Errorf("again %+v", c)
	}
	p.refused(wire.TypeExtend, &wire.Extend{Token: d.Token}, wire.CodeCancelled)
	p.refused(wire.TypeResultPush, &wire.ResultPush{Task: ref, Result: wire.Result{}}, wire.CodeCancelled)
	p.refused(wire.TypeResultGet, &wire.ResultGet{Task: ref, WaitMillis: 1000}, wire.CodeCancelled)
	var is wire.TaskIs
	p.ask(wire.TypeTask, &wire.TaskGet{Task: ref}, wire.TypeTaskIs, &is)
	if is.Task.Status != wire.StatusCancelled || is.Task.LeaseEndsAt == 0 || is.Task.EndedAt == 0 {
		t.Errorf("task %+v", is.Task)
	}
	p.refused(wire.TypeAck, &wire.Ack{Token: d.Token}, wire.CodeCancelled)
	p.refused(wire.TypeAck, &wire.Ack{Token: d.Token}, wire.CodeCancelled)
	p.ask(wire.TypeTask, &wire.TaskGet{Task: ref}, wire.TypeTaskIs, &is)
	if is.Task.Status != wire.StatusCancelled || is.Task.LeaseEndsAt != 0 {
		t.Errorf("task %+v", is.Task)
	}
	var q wire.QueueIs
	p.ask(wire.TypeQueueShow, &wire.QueueRef{Queue: "q"}, wire.TypeQueueIs, &q)
	if q.Queue.Processing != 0 || q.Queue.Totals["cancelled"] != 1 || q.Queue.Totals["rescheduled"] != 2 {
		t.Errorf("queue %+v", q.Queue)
	}

	done := p.enqueue("q", wire.Message{})
	var acked wire.Acked
	p.ask(wire.TypeAck, &wire.Ack{Token: p.pull("q").Token}, wire.TypeAcked, &acked)
	if f := p.refused(wire.TypeTaskCancel, &wire.TaskCancel{Task: wire.TaskRef{TaskID: done}}, wire.CodeFailedPrecondition); !strings.Contains(f.Message, "has ended") {
		t.Errorf("of what is done: %+v", f)
	}
	if f := p.refused(wire.TypeTaskCancel, &wire.TaskCancel{Task: wire.TaskRef{Queue: "q", TaskID: "?"}}, wire.CodeNotFound); !strings.Contains(f.Message, "no such task") {
		t.Errorf("of nobody: %+v", f)
	}
	if f := p.refused(wire.TypeTaskCancel, &wire.TaskCancel{Task: wire.TaskRef{Queue: "none", TaskID: "?"}}, wire.CodeNotFound); !strings.Contains(f.Message, `"none"`) {
		t.Errorf("in no queue: %+v", f)
	}
}

// Pages of results: by count, by bytes, of a kind that is rare, and a wait that ends with a result of the kind.
func TestResultPages(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	p, _ := session(t, n.addr)
	push := func(p *peer, task, kind string, out []byte) {
		t.Helper()
		var rep wire.Acked
		p.ask(wire.TypeResultPush, &wire.ResultPush{Task: wire.TaskRef{Queue: "q", TaskID: task}, Kind: kind, Result: wire.Result{Output: out}}, wire.TypeAcked, &rep)
	}
	var ok wire.OK
	p.ask(wire.TypeQueueCreate, &wire.QueueWrite{Queue: "q"}, wire.TypeOK, &ok)
	list := func(req wire.ResultList) (rep wire.Results) {
		t.Helper()
		req.Queue = "q"
		p.ask(wire.TypeResultList, &req, wire.TypeResults, &rep)
		return rep
	}
	if r := list(wire.ResultList{}); len(r.Results) != 0 || r.More || r.Next != 0 {
		t.Errorf("of an empty queue: %+v", r)
	}
	for i := range 700 { // more than one hold of the state looks at
		kind := "common"
		if i == 650 {
			kind = "rare"
		}
		push(p, fmt.Sprint(i), kind, []byte("x"))
	}
	r := list(wire.ResultList{Kind: "rare"})
	if len(r.Results) != 1 || r.Results[0].Result.TaskID != "650" || r.More || r.Next != 700 || r.Results[0].EndsAt <= r.At.Time {
		t.Errorf("the rare kind: %d results, next %d, more %t", len(r.Results), r.Next, r.More)
	}
	seen := 0
	for after, more := uint64(0), true; more; {
		r := list(wire.ResultList{After: after, Limit: 130})
		for _, one := range r.Results {
			if one.Result.TaskID != fmt.Sprint(seen) {
				t.Fatalf("result %d is of task %s", seen, one.Result.TaskID)
			}
			seen++
		}
		after, more = r.Next, r.More
	}
	if seen != 700 {
		t.Errorf("%d results on all pages", seen)
	}
	for i := range 6 {
		push(p, fmt.Sprint("large", i), "large", bytes.Repeat([]byte("y"), 1<<20))
	}
	if r := list(wire.ResultList{After: 700}); len(r.Results) != 4 || !r.More {
		t.Errorf("a page of %d MiB, more %t; want 4 and more", len(r.Results), r.More)
	}
	if f := p.refused(wire.TypeResultList, &wire.ResultList{Queue: "q", After: 707}, wire.CodeInvalidArgument); f.Field != "after" || !strings.Contains(f.Message, "706") {
		t.Errorf("from the future: %+v", f)
	}
	p.refused(wire.TypeResultList, &wire.ResultList{Queue: "none"}, wire.CodeNotFound)

	from := list(wire.ResultList{Last: true})
	if len(from.Results) != 0 || from.Next != 706 {
		t.Errorf("from now: %+v", from)
	}
	p.tag++
	p.send(wire.TypeResultList, p.tag, &wire.ResultList{Queue: "q", Kind: "late", After: from.Next, WaitMillis: 60_000})
	other := connect(t, n.addr)
	push(other, "early", "other kind", nil)
	push(other, "late", "late", []byte("here"))
	var rep wire.Results
	p.answer(p.tag, wire.TypeResults, &rep)
	if len(rep.Results) != 1 || rep.Results[0].Result.TaskID != "late" || rep.Next != 708 {
		t.Errorf("waited for %+v", rep)
	}
	if r := list(wire.ResultList{After: rep.Next, WaitMillis: 20}); len(r.Results) != 0 || r.Next != 708 || r.More {
		t.Errorf("a wait in vain: %+v", r)
	}
	p.tag++
	p.send(wire.TypeResultList, p.tag, &wire.ResultList{Queue: "q", After: rep.Next, WaitMillis: 60_000})
	other.ask(wire.TypeQueueDelete, &wire.QueueRef{Queue: "q"}, wire.TypeOK, &ok)
	var f wire.Fault
	p.answer(p.tag, wire.TypeFault, &f)
	if f.Code != wire.CodeNotFound || f.Unknown {
		t.Errorf("its queue is deleted: %+v", f)
	}
}
