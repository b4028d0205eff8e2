package history

import "slices"

// oncePlants are about what is delivered at most once.
var oncePlants = []plant{
	{"at most once: a message arrives again", []string{"G6"}, func(p *planter) bool {
		e := p.event(func(e *Event) bool { return e.Kind == Deliver && p.takes(e.Queue) })
		if e == nil {
			return false
		}
		again := *e
		again.At, again.Call = p.h.Events[len(p.h.Events)-1].At+1, 0
		p.h.Events = append(p.h.Events, again)
		return true
	}},
	{"at most once: a message goes out again", []string{"G6"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool { return granting(e) && p.takes(e.Queue) })
		if at < 0 {
			return false
		}
		e := p.h.Effects[at]
		e.Token = laterToken(e.Token)
		p.insert(at+1, e)
		return true
	}},
	{"at most once: a message goes out again, when its lease would have ended", []string{"G6", "G3"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool { return granting(e) && p.takes(e.Queue) })
		if at < 0 {
			return false
		}
		e := p.h.Effects[at]
		for i := len(p.h.Effects) - 1; i > at; i-- {
			if last := &p.h.Effects[i]; last.Op == Entry {
				again := e
				again.Index, again.Token = last.Index, leaseIn(e.Message, last.Index)
				p.insert(i+1, Effect{Op: Expire, Index: last.Index, Token: e.Token})
				p.insert(i+2, again)
				return true
			}
		}
		return false
	}},
	{"at most once: a delivery counts attempts", []string{"G10"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool { return granting(e) && p.takes(e.Queue) })
		if at < 0 {
			return false
		}
		p.h.Effects[at].Attempt = 2
		return true
	}},
	{"at most once: a nack brings it back", []string{"G4"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool {
			return (e.Op == Nack || e.Op == Release || e.Op == Extend) && e.Code == "lease_lost" && p.takenFrom(e.Message)
		})
		if at < 0 {
			return false
		}
		p.h.Effects[at].Code = ""
		return true
	}},
	{"at most once: a result is recorded", []string{"G5"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool {
			return e.Op == Ack && e.Code == "already_exists" && p.takenFrom(e.Message)
		})
		if at < 0 {
			return false
		}
		p.h.Effects[at].Code = ""
		return true
	}},
	{"at most once: an ack enqueues what it carries", []string{"G6"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool {
			return e.Op == Ack && e.Code == "failed_precondition" && p.takenFrom(e.Message)
		})
		if at < 0 {
			return false
		}
		p.h.Effects[at].Code = ""
		return true
	}},
	{"at most once: the lost one is there at the end", []string{"G6"}, func(p *planter) bool {
		seen := map[string]bool{}
		for i := range p.h.Events {
			seen[p.h.Events[i].Message] = seen[p.h.Events[i].Message] || p.h.Events[i].Kind == Deliver
		}
		e := p.event(func(e *Event) bool { return isReturn(e, Final, OK) && p.takenFrom(e.Message) && !seen[e.Message] })
		if e == nil {
			return false
		}
		e.Status = ""
		return true
	}},
}

// takes says whether a queue delivers at most once.
func (p *planter) takes(queue string) bool {
	return slices.ContainsFunc(p.h.Effects, func(e Effect) bool { return e.Op == Queue && e.Queue == queue && e.Options.Once })
}

// takenFrom says whether a message is of such a queue.
func (p *planter) takenFrom(message string) bool {
	_, made := p.made(message)
	return p.takes(made.Queue)
}
