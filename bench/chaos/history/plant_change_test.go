package history

import (
	"slices"

	"github.com/quorate/quorate/fsm"
)

// change changes one of the effects that fit.
func (p *planter) change(fits func(e *Effect) bool, do func(e *Effect)) bool {
	at := p.effect(func(_ int, e *Effect) bool { return fits(e) })
	if at < 0 {
		return false
	}
	do(&p.h.Effects[at])
	return true
}

// remove takes one of the effects that fit out.
func (p *planter) remove(fits func(e *Effect) bool) bool {
	at := p.effect(func(_ int, e *Effect) bool { return fits(e) })
	if at < 0 {
		return false
	}
	p.h.Effects = slices.Delete(p.h.Effects, at, at+1)
	return true
}

// tell changes one of the events that fit.
func (p *planter) tell(fits func(e *Event) bool, do func(e *Event)) bool {
	e := p.event(fits)
	if e == nil {
		return false
	}
	do(e)
	return true
}

// done says whether an effect is the first of its request, and a success.
func (p *planter) done(e *Effect, op Op) bool { return e.Op == op && e.Code == "" && p.first(e) }

// replacedAt are the indexes at which the bodies of messages were first replaced.
func (p *planter) replacedAt() map[string]uint64 {
	at := map[string]uint64{}
	for i := range p.h.Effects {
		if e := &p.h.Effects[i]; e.Op == Move && e.Code == "" && e.Body != "" && at[e.Message] == 0 {
			at[e.Message] = e.Index
		}
	}
	return at
}

// movePlants are about tasks that are moved while they wait.
var movePlants = []plant{
	{"move: what is out is moved", []string{"G14"}, func(p *planter) bool {
		return p.change(func(e *Effect) bool { return e.Op == Move && e.Code == "failed_precondition" && p.first(e) }, func(e *Effect) { e.Code = "" })
	}},
	{"move: what waits is refused", []string{"G14"}, func(p *planter) bool {
		return p.change(func(e *Effect) bool { return p.done(e, Move) }, func(e *Effect) { e.Code = "failed_precondition" })
	}},
	{"move: it is due at another time", []string{"G14"}, func(p *planter) bool {
		return p.change(func(e *Effect) bool { return p.done(e, Move) }, func(e *Effect) { e.Millis += 1000 })
	}},
	{"move: the answer says another time", []string{"G14"}, func(p *planter) bool {
		return p.tell(func(e *Event) bool { return isReturn(e, Move, OK) }, func(e *Event) { e.Millis++ })
	}},
	{"move: it goes out before its new time", []string{"G3"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool { return p.done(e, Move) && e.Millis != 0 })
		if at < 0 {
			return false
		}
		e := p.h.Effects[at]
		_, made := p.made(e.Message)
		p.insert(at+1, Effect{Op: Lease, Index: e.Index, Queue: made.Queue, Message: e.Message, Token: leaseIn(e.Message, e.Index), Attempt: 1})
		return made.Queue != ""
	}},
	{"move: the longest wait is passed over", []string{"G14"}, func(p *planter) bool {
		return p.change(func(e *Effect) bool { return p.done(e, Move) && e.Wait != 0 && e.Millis != 0 }, func(e *Effect) { e.Wait /= 3; e.Delay += 10_000 })
	}},
	{"replace: the body of before is delivered", []string{"G2"}, func(p *planter) bool {
		at := p.replacedAt()
		return p.tell(func(e *Event) bool {
			return e.Kind == Deliver && at[e.Message] != 0 && leaseIndex(e.Token) > at[e.Message]
		}, func(e *Event) {
			_, made := p.made(e.Message)
			e.Body = made.Body
		})
	}},
	{"replace: the log has a body that nobody sent", []string{"G2"}, func(p *planter) bool {
		return p.change(func(e *Effect) bool { return p.done(e, Move) && e.Body != "" }, func(e *Effect) { e.Body = Sum([]byte("another")) })
	}},
	{"replace: the token of the old body is good", []string{"G4"}, func(p *planter) bool {
		at := p.replacedAt()
		return p.change(func(e *Effect) bool {
			return (e.Op == Ack || e.Op == Nack) && e.Code == "lease_lost" && at[e.Message] != 0 && e.Index > at[e.Message]
		}, func(e *Effect) { e.Code = "" })
	}},
}

// emptyPlants are about purges and deletions of queues.
var emptyPlants = []plant{
	{"purge: what was purged goes out", []string{"G6"}, func(p *planter) bool {
		// Of a message that waited: it was never leased, and nothing else ended it.
		at := p.effect(func(_ int, e *Effect) bool { return p.done(e, Empty) && e.Count > 0 && p.purgedBy(e) != "" })
		if at < 0 {
			return false
		}
		e := p.h.Effects[at]
		id := p.purgedBy(&e)
		p.insert(at+1, Effect{Op: Lease, Index: e.Index, Queue: e.Queue, Message: id, Token: leaseIn(id, e.Index), Attempt: 1})
		return true
	}},
	{"purge: it takes one that it does not count", []string{"G14"}, func(p *planter) bool {
		return p.change(func(e *Effect) bool { return p.done(e, Empty) && e.Count > 0 }, func(e *Effect) { e.Count-- })
	}},
	{"purge: the answer counts another number", []string{"G14"}, func(p *planter) bool {
		return p.tell(func(e *Event) bool { return isReturn(e, Empty, OK) }, func(e *Event) { e.Count++ })
	}},
	{"purge: what was purged is there at the end", []string{"G6"}, func(p *planter) bool {
		gone := map[string]bool{}
		for i := range p.h.Effects {
			if e := &p.h.Effects[i]; p.done(e, Empty) && e.Count > 0 {
				gone[p.purgedBy(e)] = true
			}
		}
		return p.tell(func(e *Event) bool { return isReturn(e, Final, Refused) && gone[p.callOf(e).Message] }, func(e *Event) {
			e.Class, e.Code, e.Status = OK, "", succeeded
		})
	}},
	{"purge: a token of what was purged is good", []string{"G4"}, func(p *planter) bool {
		emptied := false
		for i := range p.h.Effects {
			emptied = emptied || p.done(&p.h.Effects[i], Empty)
		}
		return emptied && p.change(func(e *Effect) bool {
			return (e.Op == Ack || e.Op == Nack || e.Op == Extend || e.Op == Release) && e.Code == "not_found" && p.leasedOnce(e.Message)
		}, func(e *Effect) { e.Code = "" })
	}},
	{"deletion: what was of the queue can be read", []string{"G6"}, func(p *planter) bool {
		dropped := map[string]uint64{}
		for i := range p.h.Effects {
			if e := &p.h.Effects[i]; p.done(e, Drop) {
				dropped[e.Queue] = max(dropped[e.Queue], e.Index)
			}
		}
		return p.tell(func(e *Event) bool {
			at, made := p.made(p.callOf(e).Message)
			return isReturn(e, Final, Refused) && at >= 0 && made.Index < dropped[made.Queue]
		}, func(e *Event) { e.Class, e.Code, e.Status = OK, "", succeeded })
	}},
	{"deletion: a dedup key outlives its queue", []string{"G8"}, func(p *planter) bool {
		first := map[string]string{}
		var at []int
		var was []string
		for i := range p.h.Effects {
			e := &p.h.Effects[i]
			if e.Op == Drop && p.first(e) && e.Code == "" {
				for k := range first {
					first[k] = "gone " + first[k]
				}
			}
			if e.Op != Enqueue || e.Dedup == "" || e.Code != "" || e.Duplicate || !p.first(e) {
				continue
			}
			if f := first[e.Queue+e.Dedup]; len(f) > 5 && f[:5] == "gone " {
				at, was = append(at, i), append(was, f[5:])
			}
			first[e.Queue+e.Dedup] = e.Message
		}
		if len(at) == 0 {
			return false
		}
		n := p.rng.IntN(len(at))
		e := &p.h.Effects[at[n]]
		e.Duplicate, e.Message = true, was[n]
		return true
	}},
	{"deletion: the queue goes on", []string{"G14", "judge", "G2"}, func(p *planter) bool {
		return p.remove(func(e *Effect) bool { return p.done(e, Drop) })
	}},
}

// purgedBy is a message that a purge took and that had never been out, "" where there is none.
func (p *planter) purgedBy(e *Effect) string {
	if p.touched == nil {
		p.touched = map[string]bool{}
		for i := range p.h.Effects {
			switch o := &p.h.Effects[i]; o.Op {
			case Lease, End, Move, Drop:
				p.touched[o.Message] = true
			}
		}
	}
	for i := range p.h.Effects {
		o := &p.h.Effects[i]
		if o.Index >= e.Index {
			break
		}
		if o.Op == Enqueue && o.Queue == e.Queue && o.Code == "" && !o.Duplicate && !p.touched[o.Message] && p.first(o) && o.TTL == 0 && !p.emptiedBetween(o, e) {
			return o.Message
		}
	}
	return ""
}

// emptiedBetween says whether the queue was purged or deleted between two effects.
func (p *planter) emptiedBetween(a, b *Effect) bool {
	return p.any(func(e *Effect) bool {
		return (e.Op == Empty || e.Op == Drop) && e.Queue == b.Queue && e.Code == "" && e.Index > a.Index && e.Index < b.Index
	})
}

// leasedOnce says whether a message was leased at some time.
func (p *planter) leasedOnce(id string) bool {
	return p.any(func(e *Effect) bool { return granting(e) && e.Message == id })
}

// keyRatePlants are about the rates of keys.
var keyRatePlants = []plant{
	{"key rate: a key goes out faster than it may", []string{"G18"}, func(p *planter) bool {
		return p.keyLimit(func(o *Options) { o.KeyRate = max(1, o.KeyRate/4) })
	}},
	{"key rate: more of a key goes out at once than may", []string{"G18"}, func(p *planter) bool {
		return p.keyLimit(func(o *Options) { o.KeyBurst = 1 })
	}},
	{"key rate: a key that may go is passed over", []string{"G9"}, func(p *planter) bool {
		return p.keyLimit(func(o *Options) { o.KeyRate, o.KeyBurst = 1_000_000_000, 1_000_000 })
	}},
}

func (p *planter) keyLimit(change func(o *Options)) bool {
	return p.change(func(e *Effect) bool { return e.Op == Queue && e.Options.KeyRate != 0 }, func(e *Effect) {
		o := *e.Options
		change(&o)
		e.Options = &o
	})
}

// buryPlants are about dead-letter queues.
var buryPlants = []plant{
	{"dead-letter queue: a death moves nothing", []string{"G6"}, func(p *planter) bool {
		return p.remove(func(e *Effect) bool { return e.Op == Bury })
	}},
	{"dead-letter queue: a death is moved twice", []string{"G6"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool { return e.Op == Bury })
		if at < 0 {
			return false
		}
		again := p.h.Effects[at]
		again.Made = laterID(again.Made, 5555)
		p.insert(at+1, again)
		return true
	}},
	{"dead-letter queue: what lives is moved", []string{"G6"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool { return p.done(e, Requeue) })
		if at < 0 {
			return false
		}
		e := p.h.Effects[at]
		for i := at; i >= 0; i-- {
			if p.h.Effects[i].Op == Entry {
				p.insert(i+1, Effect{Op: Bury, Index: e.Index, Message: e.Made, Made: laterID(e.Made, 5555), Queue: e.Queue})
				return true
			}
		}
		return false
	}},
	{"dead-letter queue: it goes to another queue", []string{"G6"}, func(p *planter) bool {
		return p.change(func(e *Effect) bool { return e.Op == Bury }, func(e *Effect) { e.Queue = e.Origin })
	}},
	{"dead-letter queue: another origin is named", []string{"G6"}, func(p *planter) bool {
		return p.change(func(e *Effect) bool { return e.Op == Bury }, func(e *Effect) { e.Origin = e.Queue })
	}},
	{"dead-letter queue: another reason is named", []string{"G10"}, func(p *planter) bool {
		return p.change(func(e *Effect) bool { return e.Op == Bury }, func(e *Effect) { e.Reason = "mapping" })
	}},
	{"dead-letter queue: other bytes are moved", []string{"G2"}, func(p *planter) bool {
		return p.change(func(e *Effect) bool { return e.Op == Bury }, func(e *Effect) { e.Body = Sum([]byte("another")) })
	}},
	{"dead-letter queue: one that was closed comes back", []string{"G6"}, func(p *planter) bool {
		moved := map[string]bool{}
		for i := range p.h.Effects {
			if e := &p.h.Effects[i]; e.Op == Bury {
				moved[e.Made] = true
			}
		}
		return p.change(func(e *Effect) bool {
			return e.Op == Requeue && e.Code == "not_found" && p.first(e) && moved[e.Message]
		}, func(e *Effect) {
			e.Code, e.Made = "", fsm.MakeID(1, 0, e.Index, 5555).String()
		})
	}},
	{"dead-letter queue: what a worker has comes back", []string{"G6"}, func(p *planter) bool {
		return p.change(func(e *Effect) bool { return e.Op == Requeue && e.Code == "failed_precondition" && p.first(e) }, func(e *Effect) {
			e.Code, e.Made = "", fsm.MakeID(1, 0, e.Index, 5555).String()
		})
	}},
	{"dead-letter queue: what comes back goes out there", []string{"G2"}, func(p *planter) bool {
		moved := map[string]string{}
		for i := range p.h.Effects {
			if e := &p.h.Effects[i]; e.Op == Bury {
				moved[e.Made] = e.Queue
			}
		}
		back := map[string]string{}
		for i := range p.h.Effects {
			if e := &p.h.Effects[i]; e.Op == Requeue && e.Made != "" {
				back[e.Made] = moved[e.Message]
			}
		}
		return p.change(func(e *Effect) bool { return granting(e) && back[e.Message] != "" }, func(e *Effect) { e.Queue = back[e.Message] })
	}},
	{"dead-letter queue: the last read finds it elsewhere", []string{"G6"}, func(p *planter) bool {
		return p.tell(func(e *Event) bool { return isReturn(e, Final, OK) && e.Origin != "" && p.died(e) }, func(e *Event) { e.Queue, e.Origin = e.Origin, "" })
	}},
}

// died says whether a read is of the id under which a message died that was moved.
func (p *planter) died(ret *Event) bool {
	id := p.callOf(ret).Message
	return p.any(func(e *Effect) bool { return e.Op == Bury && e.Message == id })
}
