package history

import (
	"slices"
)

// leasePlants are about leases and tokens: G3, G4.
var leasePlants = []plant{
	{"a message is leased twice at once", []string{"G3", "G6"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool { return granting(e) })
		if at < 0 {
			return false
		}
		e := p.h.Effects[at]
		e.Token = laterToken(e.Token)
		e.Attempt++
		p.insert(at+1, e)
		return true
	}},
	{"a token does not rise", []string{"G3"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool { return granting(e) && e.Attempt > 1 })
		if at < 0 {
			return false
		}
		e := &p.h.Effects[at]
		for i := range p.h.Effects[:at] {
			if o := &p.h.Effects[i]; granting(o) && o.Message == e.Message {
				o.Token = leaseIn(e.Message, o.Index+1<<30)
			}
		}
		return true
	}},
	{"a lease ends before its deadline", []string{"G3"}, func(p *planter) bool {
		at := p.effect(func(i int, e *Effect) bool { return granting(e) && i < len(p.h.Effects)-2 })
		if at < 0 {
			return false
		}
		token := p.h.Effects[at].Token
		for i := at + 1; i < len(p.h.Effects); i++ {
			if e := &p.h.Effects[i]; e.Op == Entry {
				p.insert(i+1, Effect{Op: Expire, Index: e.Index, Token: token})
				return true
			}
		}
		return false
	}},
	{"a lease does not end at its deadline", []string{"G3"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool { return e.Op == Expire })
		if at < 0 {
			return false
		}
		p.h.Effects = slices.Delete(p.h.Effects, at, at+1)
		return true
	}},
	{"an extension brings too much", []string{"G3"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool { return e.Op == Extend && e.Code == "" })
		if at < 0 {
			return false
		}
		p.h.Effects[at].Millis += 100
		return true
	}},
	{"the log accepts a stale token", []string{"G4"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool {
			return (e.Op == Ack || e.Op == Nack || e.Op == Extend || e.Op == Release) && e.Code == "lease_lost"
		})
		if at < 0 {
			return false
		}
		p.h.Effects[at].Code = ""
		return true
	}},
	{"the log refuses a good token", []string{"G4"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool { return e.Op == Nack && e.Code == "" })
		if at < 0 {
			return false
		}
		p.h.Effects[at].Code = "not_found"
		return true
	}},
	{"a client's stale ack succeeds", []string{"G4"}, func(p *planter) bool {
		e := p.event(func(e *Event) bool { return isReturn(e, Ack, Refused) && e.Code == "lease_lost" && e.Index != 0 })
		if e == nil {
			return false
		}
		e.Class, e.Code = OK, ""
		return true
	}},
}
