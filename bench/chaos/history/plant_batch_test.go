package history

import (
	"slices"

	"github.com/quorate/quorate/fsm"
)

// batchPlants are about batches and their callbacks.
var batchPlants = []plant{
	{"batch: it calls back twice", []string{"G6"}, func(p *planter) bool {
		at := p.effect(func(i int, e *Effect) bool { return e.Op == Callback && p.entryFrom(i+1) > 0 })
		if at < 0 {
			return false
		}
		again := p.h.Effects[at]
		to := p.entryFrom(at + 1)
		again.Index = p.h.Effects[to].Index
		again.Message = fsm.MakeID(parseID(again.Message).Epoch(), 0, again.Index, 5555).String()
		p.insert(to+1, again)
		return true
	}},
	{"batch: it never calls back", []string{"G1"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool { return e.Op == Callback })
		if at < 0 {
			return false
		}
		p.h.Effects = slices.Delete(p.h.Effects, at, at+1)
		return true
	}},
	{"batch: it calls back before its last member has ended", []string{"G6"}, func(p *planter) bool {
		at := p.effect(func(i int, e *Effect) bool { return e.Op == Callback && p.entryBefore(i) > 0 })
		if at < 0 {
			return false
		}
		early := p.h.Effects[at]
		to := p.entryBefore(at)
		early.Index = p.h.Effects[to].Index
		early.Message = fsm.MakeID(parseID(early.Message).Epoch(), 0, early.Index, 5555).String()
		p.h.Effects = slices.Delete(p.h.Effects, at, at+1)
		p.insert(to+1, early)
		return true
	}},
	{"batch: the callback counts wrongly", []string{"G6"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool { return e.Op == Callback })
		if at < 0 {
			return false
		}
		p.h.Effects[at].Note = "99 members: 99 succeeded, 0 dead, 0 cancelled"
		return true
	}},
	{"batch: the callback is another", []string{"G2"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool { return e.Op == Callback && e.Body != "" })
		if at < 0 {
			return false
		}
		p.h.Effects[at].Body = Sum([]byte("another"))
		return true
	}},
	{"batch: a sealed one takes a member", []string{"G6"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool {
			return e.Op == Enqueue && e.Batch != "" && e.Code == "failed_precondition" && p.single(e.Session, e.Number)
		})
		if at < 0 {
			return false
		}
		e := &p.h.Effects[at]
		e.Code, e.Message = "", fsm.MakeID(1, 0, e.Index, 5555).String()
		return true
	}},
	{"batch: it is sealed twice", []string{"G6"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool { return e.Op == Seal && e.Code == "" && e.Duplicate && p.first(e) })
		if at < 0 {
			return false
		}
		p.h.Effects[at].Duplicate = false
		return true
	}},
	{"batch: the log has one that nobody made so", []string{"G2"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool { return e.Op == Batch && e.Code == "" })
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
	{"batch: a confirmed one is not in the log", []string{"G1"}, func(p *planter) bool {
		e := p.event(func(e *Event) bool { return isReturn(e, Batch, OK) })
		if e == nil {
			return false
		}
		p.callOf(e).Number += 1_000_000
		return true
	}},
}

// entryFrom is the first entry at a position or behind it, −1 without one.
func (p *planter) entryFrom(i int) int {
	for ; i < len(p.h.Effects); i++ {
		if p.h.Effects[i].Op == Entry {
			return i
		}
	}
	return -1
}

// entryBefore is the entry before the one that a position is in.
func (p *planter) entryBefore(i int) int {
	for n := 0; i >= 0; i-- {
		if p.h.Effects[i].Op == Entry {
			if n++; n == 2 {
				return i
			}
		}
	}
	return -1
}
