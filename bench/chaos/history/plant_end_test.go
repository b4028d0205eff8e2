package history

import (
	"slices"

	"github.com/quorate/quorate/fsm"
)

// endPlants are about results and ends: G5, G6, G7.
var endPlants = []plant{
	{"an ack that is repeated enqueues again", []string{"G6"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool { return e.Op == Chain && e.Message == "" })
		if at < 0 {
			return false
		}
		e := &p.h.Effects[at]
		e.Message = fsm.MakeID(1, 0, e.Index, 5555).String()
		return true
	}},
	{"the log takes a second result", []string{"G5"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool { return e.Op == Ack && e.Code == "already_exists" })
		if at < 0 {
			return false
		}
		p.h.Effects[at].Code = ""
		return true
	}},
	{"a client's second result succeeds", []string{"G5"}, func(p *planter) bool {
		e := p.event(func(e *Event) bool {
			return isReturn(e, Ack, Refused) && e.Code == "already_exists" && !p.takenFrom(messageOf(e.Token))
		})
		if e == nil {
			return false
		}
		e.Class, e.Code = OK, ""
		return true
	}},
	{"a task ends twice", []string{"G6"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool {
			return e.Op == End && !p.any(func(o *Effect) bool { return o.Op == Push && o.Message == e.Message })
		})
		if at < 0 {
			return false
		}
		p.insert(at, p.h.Effects[at])
		return true
	}},
	{"a task is leased after its end", []string{"G6"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool { return e.Op == Ack && e.Code == "" && !e.Duplicate })
		if at < 0 {
			return false
		}
		e := p.h.Effects[at]
		_, made := p.made(e.Message)
		p.insert(at+1, Effect{Op: Lease, Index: e.Index, Queue: made.Queue, Message: e.Message, Token: leaseIn(e.Message, e.Index), Attempt: 1})
		return true
	}},
	{"a read brings another result", []string{"G6"}, func(p *planter) bool {
		e := p.event(func(e *Event) bool { return isReturn(e, Read, OK) && e.Result != "" })
		if e == nil {
			return false
		}
		e.Result = Sum([]byte("another"))
		return true
	}},
	{"a read misses the end", []string{"G6"}, func(p *planter) bool {
		e := p.event(func(e *Event) bool { return isReturn(e, Read, OK) && e.Status == succeeded && e.Index != 0 })
		if e == nil {
			return false
		}
		e.Status, e.Result = "", ""
		return true
	}},
	{"the queues are not drained", []string{"G7"}, func(p *planter) bool {
		n := len(p.h.Events)
		p.h.Events = slices.DeleteFunc(p.h.Events, func(e Event) bool { return e.Note == Drained })
		return len(p.h.Events) < n
	}},
	{"a queue with a ready message stands still after the faults", []string{"G7"}, func(p *planter) bool {
		// Everything from some lease on happens an hour later, which only this guarantee minds where nothing else waits.
		var healed uint64
		for i := range p.h.Events {
			if e := &p.h.Events[i]; e.Note == Heal {
				healed = e.Index
			}
		}
		at := p.effect(func(_ int, e *Effect) bool {
			_, made := p.made(e.Message)
			return granting(e) && e.Index > healed && e.Attempt == 1 && made.Delay == 0 && made.Index < e.Index && p.mode(e.Queue) == "unordered"
		})
		if healed == 0 || at < 0 {
			return false
		}
		for i := range p.h.Effects {
			if e := &p.h.Effects[i]; e.Op == Entry && e.Index >= p.h.Effects[at].Index {
				e.Time += 3_600_000
				e.Shift += 3_600_000 // which ends no lease
			}
		}
		return true
	}},
}
