package history

import (
	"slices"

	"github.com/quorate/quorate/fsm"
)

// answerPlants are about requests, answers and clocks: G11 to G14.
var answerPlants = []plant{
	{"what was refused at the door is in the log", []string{"G11"}, func(p *planter) bool {
		e := p.event(func(e *Event) bool { return isReturn(e, Enqueue, OK) && !e.Duplicate && p.once(e) })
		if e == nil {
			return false
		}
		e.Class, e.Code, e.Index = Refused, "overloaded", 0
		return true
	}},
	{"a request is applied twice", []string{"G11"}, func(p *planter) bool {
		seen := map[request]bool{}
		var again []int
		for i := range p.h.Effects {
			e := &p.h.Effects[i]
			if e.Op != Enqueue || e.Code != "" {
				continue
			}
			id := request{e.Session, e.Number}
			if seen[id] {
				again = append(again, i)
			}
			seen[id] = true
		}
		if len(again) == 0 {
			return false
		}
		e := &p.h.Effects[again[p.rng.IntN(len(again))]]
		e.Message = fsm.MakeID(parseID(e.Message).Epoch(), 0, e.Index, 5555).String()
		return true
	}},
	{"a call has two answers", []string{"G11"}, func(p *planter) bool {
		e := p.event(func(e *Event) bool { return isReturn(e, Enqueue, OK) })
		if e == nil {
			return false
		}
		again := *e
		p.h.Events = append(p.h.Events, again)
		p.h.Events[len(p.h.Events)-1].At = p.h.Events[len(p.h.Events)-2].At
		return true
	}},
	{"something succeeds without a majority", []string{"G12"}, func(p *planter) bool {
		e := p.event(func(e *Event) bool { return isReturn(e, Enqueue, OK) })
		if e == nil {
			return false
		}
		down, up := p.callOf(e).At-1, e.At+1
		p.h.Events = slices.DeleteFunc(p.h.Events, func(e Event) bool { return e.Note == Down || e.Note == Up })
		p.h.Events = append(p.h.Events, Event{Kind: Mark, At: down, Note: Down}, Event{Kind: Mark, At: up, Note: Up})
		p.sort()
		return true
	}},
	{"T falls", []string{"G13"}, func(p *planter) bool {
		at := p.effect(func(i int, e *Effect) bool { return i > 3 && e.Op == Entry })
		if at < 0 {
			return false
		}
		p.h.Effects[at].Time -= 1_000_000
		return true
	}},
	{"a lease runs out too soon by the clients' clock", []string{"G13"}, func(p *planter) bool {
		// Whoever got the next lease had it soon after the call that brought the one before.
		expired := map[string]bool{}
		for i := range p.h.Effects {
			if e := &p.h.Effects[i]; e.Op == Expire {
				expired[e.Token] = true
			}
		}
		next := p.event(func(e *Event) bool {
			if e.Kind != Deliver || e.Call == 0 {
				return false
			}
			b := p.grantBefore(e)
			return b != nil && b.Call != 0 && expired[b.Token] && !p.any(func(f *Effect) bool { return f.Op == Extend && f.Code == "" && f.Token == b.Token })
		})
		if next == nil {
			return false
		}
		own := p.grantBefore(next)
		from := p.callOf(own).At
		p.callOf(next).At, own.At, next.At = from, from+1, from+2
		p.sort()
		return true
	}},
	{"an answer bears another T", []string{"G13"}, func(p *planter) bool {
		e := p.event(func(e *Event) bool { return isReturn(e, Ack, OK) })
		if e == nil {
			return false
		}
		e.Time += 7
		return true
	}},
	{"a read is older than an answer before it", []string{"G14", "G6", "G2"}, func(p *planter) bool {
		e := p.event(func(e *Event) bool { return isReturn(e, Read, OK) && e.Index > 20 })
		if e == nil {
			return false
		}
		e.Index = 5
		return true
	}},
	{"an ack succeeds in an entry that has none", []string{"G14"}, func(p *planter) bool {
		e := p.event(func(e *Event) bool { return isReturn(e, Ack, OK) })
		if e == nil {
			return false
		}
		e.Index++
		return true
	}},
	{"the answer names another message", []string{"G11"}, func(p *planter) bool {
		e := p.event(func(e *Event) bool { return isReturn(e, Enqueue, OK) })
		if e == nil {
			return false
		}
		e.Message = laterID(e.Message, 5555)
		return true
	}},
}
