package history

import (
	"slices"

	"github.com/quorate/quorate/fsm"
)

// deadPlants are about dead letters that are requeued and deleted.
var deadPlants = []plant{
	{"redrive: a dead letter comes back twice", []string{"G6"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool { return e.Op == Requeue && e.Code == "" && p.first(e) })
		if at < 0 {
			return false
		}
		again := p.h.Effects[at]
		again.Session, again.Number = "", 0
		again.Made = fsm.MakeID(parseID(again.Made).Epoch(), 0, again.Index, 5555).String()
		p.insert(at+1, again)
		return true
	}},
	{"redrive: what is no dead letter comes back", []string{"G6"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool { return e.Op == Requeue && e.Code == "not_found" && p.first(e) })
		if at < 0 {
			return false
		}
		e := &p.h.Effects[at]
		e.Code, e.Made = "", fsm.MakeID(1, 0, e.Index, 5555).String()
		return true
	}},
	{"redrive: a dead letter is not found", []string{"G6"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool { return e.Op == Requeue && e.Code == "" && p.first(e) })
		if at < 0 {
			return false
		}
		e := &p.h.Effects[at]
		e.Code, e.Made = "not_found", ""
		return true
	}},
	{"redrive: attempts are counted on", []string{"G10"}, func(p *planter) bool {
		made := map[string]bool{}
		for i := range p.h.Effects {
			if e := &p.h.Effects[i]; e.Op == Requeue && e.Made != "" {
				made[e.Made] = true
			}
		}
		at := p.effect(func(_ int, e *Effect) bool { return granting(e) && e.Attempt == 1 && made[e.Message] })
		if at < 0 {
			return false
		}
		p.h.Effects[at].Attempt = 2
		return true
	}},
	{"redrive: what came back died after fewer attempts than it has", []string{"G10"}, func(p *planter) bool {
		made := map[string]bool{}
		for i := range p.h.Effects {
			if e := &p.h.Effects[i]; e.Op == Requeue && e.Made != "" {
				made[e.Made] = true
			}
		}
		e := p.event(func(e *Event) bool {
			return isReturn(e, Final, OK) && e.Status == wasDead && e.Reason == spentAttempts && made[e.Message]
		})
		if e == nil {
			return false
		}
		e.Attempt--
		return true
	}},
	{"redrive: a confirmed requeue is not in the log", []string{"G1"}, func(p *planter) bool {
		e := p.event(func(e *Event) bool { return isReturn(e, Requeue, OK) })
		if e == nil {
			return false
		}
		p.callOf(e).Number += 1_000_000
		return true
	}},
	{"redrive: the answer names another message", []string{"G11"}, func(p *planter) bool {
		e := p.event(func(e *Event) bool { return isReturn(e, Requeue, OK) })
		if e == nil {
			return false
		}
		e.Message = laterID(e.Message, 5555)
		return true
	}},
	{"redrive: a repeated request makes another message", []string{"G11"}, func(p *planter) bool {
		at := p.effect(func(i int, e *Effect) bool { return e.Op == Requeue && e.Code == "" && !p.first(e) })
		if at < 0 {
			return false
		}
		p.h.Effects[at].Made = laterID(p.h.Effects[at].Made, 5555)
		return true
	}},
	{"redrive: what came back is never read at the end", []string{"G1"}, func(p *planter) bool {
		e := p.event(func(e *Event) bool { return isReturn(e, Requeue, OK) })
		if e == nil {
			return false
		}
		id := e.Message
		p.h.Events = slices.DeleteFunc(p.h.Events, func(e Event) bool { return e.Op == Final && e.Message == id })
		return true
	}},
	{"a deleted dead letter is there at the end", []string{"G6"}, func(p *planter) bool {
		gone := map[string]bool{}
		for i := range p.h.Effects {
			if e := &p.h.Effects[i]; e.Op == Delete && e.Code == "" {
				gone[e.Message] = true
			}
		}
		e := p.event(func(e *Event) bool { return isReturn(e, Final, Refused) && gone[p.callOf(e).Message] })
		if e == nil {
			return false
		}
		e.Class, e.Code, e.Status = OK, "", wasDead
		return true
	}},
	{"a deleted dead letter comes back", []string{"G6"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool { return e.Op == Delete && e.Code == "" && p.first(e) })
		if at < 0 {
			return false
		}
		e := p.h.Effects[at]
		e.Op, e.Session, e.Number, e.Made = Requeue, "", 0, fsm.MakeID(1, 0, e.Index, 5555).String()
		p.insert(at+1, e)
		return true
	}},
	{"a dead letter is gone at the end, and nobody deleted it", []string{"G1"}, func(p *planter) bool {
		e := p.event(func(e *Event) bool { return isReturn(e, Final, OK) && e.Status == wasDead })
		if e == nil {
			return false
		}
		e.Class, e.Code, e.Status = Refused, "not_found", ""
		return true
	}},
	{"a purge takes one that it does not count", []string{"G14"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool { return e.Op == Purge && e.Count > 0 && p.first(e) })
		if at < 0 {
			return false
		}
		p.h.Effects[at].Count--
		return true
	}},
	{"the answer to a purge counts another number", []string{"G14"}, func(p *planter) bool {
		e := p.event(func(e *Event) bool { return isReturn(e, Purge, OK) })
		if e == nil {
			return false
		}
		e.Count++
		return true
	}},
	{"the token of a letter that came back is good", []string{"G4"}, func(p *planter) bool {
		back := map[string]uint64{}
		for i := range p.h.Effects {
			if e := &p.h.Effects[i]; e.Op == Requeue && e.Code == "" {
				back[e.Message] = e.Index
			}
		}
		at := p.effect(func(_ int, e *Effect) bool {
			return (e.Op == Nack || e.Op == Ack) && e.Code != "" && back[e.Message] != 0 && e.Index > back[e.Message]
		})
		if at < 0 {
			return false
		}
		p.h.Effects[at].Code = ""
		return true
	}},
}

// first says whether an effect is the first under its request id.
func (p *planter) first(e *Effect) bool {
	if e.Session == "" {
		return true
	}
	for i := range p.h.Effects {
		if o := &p.h.Effects[i]; o.Session == e.Session && o.Number == e.Number {
			return o == e
		}
	}
	return false
}
