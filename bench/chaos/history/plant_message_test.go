package history

import (
	"slices"
)

// messagePlants lose messages and make them up: G1, G2.
var messagePlants = []plant{
	{"a confirmed message is gone at the end", []string{"G1"}, func(p *planter) bool {
		e := p.event(func(e *Event) bool { return isReturn(e, Final, OK) && e.Status == succeeded })
		if e == nil {
			return false
		}
		e.Class, e.Code, e.Status = Refused, "not_found", ""
		// With a result it is remembered for longer than any run.
		return p.any(func(f *Effect) bool {
			return (f.Op == Ack || f.Op == Push) && f.Code == "" && f.Result != "" && f.Message == e.Message
		})
	}},
	{"a confirmed enqueue is not in the log", []string{"G1"}, func(p *planter) bool {
		e := p.event(func(e *Event) bool { return isReturn(e, Enqueue, OK) && !e.Duplicate })
		if e == nil {
			return false
		}
		p.callOf(e).Number += 1_000_000
		return true
	}},
	{"a confirmed message is never read at the end", []string{"G1"}, func(p *planter) bool {
		e := p.event(func(e *Event) bool { return isReturn(e, Enqueue, OK) && !e.Duplicate })
		if e == nil {
			return false
		}
		id := e.Message
		p.h.Events = slices.DeleteFunc(p.h.Events, func(e Event) bool { return e.Op == Final && e.Message == id })
		return true
	}},
	{"what an ack carries is not enqueued", []string{"G1"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool { return e.Op == Chain && e.Message != "" })
		if at < 0 {
			return false
		}
		p.h.Effects[at].Message = ""
		return true
	}},
	{"what an ack carries is not in the log", []string{"G1"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool { return e.Op == Chain && e.Message != "" })
		if at < 0 {
			return false
		}
		p.h.Effects = slices.Delete(p.h.Effects, at, at+1)
		return true
	}},
	{"a message from nowhere is delivered", []string{"G2"}, func(p *planter) bool {
		e := p.event(func(e *Event) bool { return e.Kind == Deliver })
		if e == nil {
			return false
		}
		e.Message = laterID(e.Message, 5555)
		e.Token = e.Message + e.Token[26:]
		return true
	}},
	{"a message is delivered with other bytes", []string{"G2"}, func(p *planter) bool {
		e := p.event(func(e *Event) bool { return e.Kind == Deliver })
		if e == nil {
			return false
		}
		e.Body = Sum([]byte("other"))
		return true
	}},
	{"the log holds a message that nobody sent", []string{"G2"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool { return e.Op == Enqueue && e.Code == "" && !e.Duplicate })
		if at < 0 {
			return false
		}
		s, n := p.h.Effects[at].Session, p.h.Effects[at].Number
		for i := range p.h.Events {
			if e := &p.h.Events[i]; e.Kind == Call && e.Session == s && e.Number == n {
				e.Body = Sum([]byte("what was sent"))
			}
		}
		return true
	}},
}
