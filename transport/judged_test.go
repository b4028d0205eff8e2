package transport

import (
	"strings"
	"testing"

	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/wire"
)

// A refusal of the log carries its place there, message by message, and no other refusal does.
func TestRefusalsSayWhoGaveThem(t *testing.T) {
	b := leading()
	_, addr := doors(t, Config{Broker: b})
	p, _ := session(t, addr)
	id := fsm.MakeID(1, 0, 7, 0).String()
	// What becomes of a message is its body: f the log refuses it, r too, for want of room in the session, o the group does, u it has no answer in time, x the door does; and what
	// stands in one operation shares its fate.
	b.mu.Lock()
	b.outcome = func(op fsm.Op) []fsm.Outcome {
		e, ok := op.(*fsm.Enqueue)
		if !ok {
			return nil
		}
		out := success(op, 9)
		for i := range e.Messages {
			if string(e.Messages[i].Body) == "f" {
				out[i] = fsm.Outcome{Code: fsm.QueueFull, Field: fsm.FieldDepth, Limit: 3}
			}
			if string(e.Messages[i].Body) == "r" {
				out[i] = fsm.Outcome{Code: fsm.Overloaded, Field: fsm.FieldSessions, Limit: 3}
			}
		}
		return out
	}
	b.refuses = func(op fsm.Op) *group.Error {
		e, ok := op.(*fsm.Enqueue)
		switch {
		case !ok:
		case string(e.Messages[0].Body) == "o":
			return &group.Error{Code: "overloaded", Message: "m"}
		case string(e.Messages[0].Body) == "u":
			return &group.Error{Code: "timeout", Message: "m", Unknown: true}
		}
		return nil
	}
	b.mu.Unlock()
	for _, tc := range []struct {
		bodies string
		at     string // of each outcome: y its fault carries a place, n it has one without, - it has none
		judged bool   // the answer has a place
	}{
		{"..", "--", true},
		{"f", "y", true},
		{"rf", "ny", true},
		{".f.", "-y-", true},
		{"x", "n", false},
		{".x.", "-n-", true},
		{"fx.", "yn-", true},
		{"oxf", "nny", true},
		{"uxf", "nny", true},
		{"ox", "nn", false},
		{"oxuxo", "nnnnn", false},
	} {
		t.Run(tc.bodies, func(t *testing.T) {
			req := &wire.Enqueue{Queue: "q", Request: wire.Request{Number: 40, Low: 30}}
			for _, c := range tc.bodies {
				m := wire.Message{Body: wire.Bytes(string(c))}
				if c == 'x' {
					m.TaskID = strings.Repeat("x", 129)
				}
				req.Messages = append(req.Messages, m)
			}
			var rep wire.Enqueued
			p.ask(wire.TypeEnqueue, req, wire.TypeEnqueued, &rep)
			got := ""
			for _, o := range rep.Outcomes {
				switch {
				case o.Fault == nil:
					got += "-"
				case o.Fault.At == nil:
					got += "n"
				case o.Fault.At.Index == 0 || o.Fault.At.Time != 1000:
					t.Errorf("place %+v", o.Fault.At)
				default:
					got += "y"
				}
			}
			if got != tc.at || (rep.At.Index != 0) != tc.judged {
				t.Errorf("places %s, the answer at %d; want %s, %t", got, rep.At.Index, tc.at, tc.judged)
			}
		})
	}
	b.mu.Lock()
	b.outcome = func(op fsm.Op) []fsm.Outcome {
		if _, ok := op.(*fsm.DeadDelete); ok {
			return []fsm.Outcome{{}, {Code: fsm.NotFound}}
		}
		return nil
	}
	b.mu.Unlock()
	var rep wire.Enqueued
	p.ask(wire.TypeDeadDelete, &wire.DeadIDs{Queue: "q", IDs: []string{id, id}, Request: wire.Request{Number: 50, Low: 30}}, wire.TypeEnqueued, &rep)
	if f := rep.Outcomes[1].Fault; f == nil || f.At == nil || *f.At != rep.At {
		t.Errorf("a dead letter that is not there: %+v, want it at %v", f, rep.At)
	}
}
