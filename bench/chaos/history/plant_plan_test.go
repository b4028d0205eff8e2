package history

import (
	"slices"

	"github.com/quorate/quorate/fsm"
)

// editPlants are about dead letters that come back with other fields.
var editPlants = []plant{
	{"edit: a dead letter comes back twice", []string{"G6"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool { return p.done(e, Edit) })
		if at < 0 {
			return false
		}
		again := p.h.Effects[at]
		again.Session, again.Number = "", 0
		again.Made = fsm.MakeID(parseID(again.Made).Epoch(), 0, again.Index, 5555).String()
		p.insert(at+1, again)
		return true
	}},
	{"edit: the body of before is delivered", []string{"G2"}, func(p *planter) bool {
		was := map[string]string{}
		for i := range p.h.Effects {
			if e := &p.h.Effects[i]; p.done(e, Edit) && slices.Contains(e.Fields, "body") {
				_, made := p.made(e.Message)
				was[e.Made] = made.Body
			}
		}
		return p.tell(func(e *Event) bool { return e.Kind == Deliver && was[e.Message] != "" }, func(e *Event) { e.Body = was[e.Message] })
	}},
	{"edit: the log has a body that nobody sent", []string{"G2"}, func(p *planter) bool {
		return p.change(func(e *Effect) bool { return p.done(e, Edit) && slices.Contains(e.Fields, "body") }, func(e *Effect) { e.Body = Sum([]byte("another")) })
	}},
	{"edit: it goes out before the delay is over", []string{"G3"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool {
			return p.done(e, Edit) && slices.Contains(e.Fields, "delay") && e.Delay > 0
		})
		if at < 0 {
			return false
		}
		e := p.h.Effects[at]
		p.insert(at+1, Effect{Op: Lease, Index: e.Index, Queue: e.Queue, Message: e.Made, Token: leaseIn(e.Made, e.Index), Attempt: 1})
		return true
	}},
	{"edit: a confirmed one is not in the log", []string{"G1"}, func(p *planter) bool {
		return p.tell(func(e *Event) bool { return isReturn(e, Edit, OK) }, func(e *Event) { p.callOf(e).Number += 1_000_000 })
	}},
	{"edit: the answer names another message", []string{"G11"}, func(p *planter) bool {
		return p.tell(func(e *Event) bool { return isReturn(e, Edit, OK) }, func(e *Event) { e.Message = laterID(e.Message, 5555) })
	}},
}

// kvPlants are about what dead messages leave in the KV.
var kvPlants = []plant{
	{"kv: a death leaves nothing", []string{"G1"}, func(p *planter) bool {
		return p.remove(func(e *Effect) bool { return e.Op == Key && !e.Gone })
	}},
	{"kv: what did not die leaves something", []string{"G6"}, func(p *planter) bool {
		at := p.effect(func(i int, e *Effect) bool { return e.Op == Ack && e.Code == "" })
		if at < 0 {
			return false
		}
		e := p.h.Effects[at]
		p.insert(at+1, Effect{Op: Key, Index: e.Index, Name: `["lied"]`, Message: e.Message, Body: Sum([]byte("alive"))})
		return true
	}},
	{"kv: a deleted key is there still", []string{"G6"}, func(p *planter) bool {
		return p.remove(func(e *Effect) bool { return e.Op == Key && e.Gone })
	}},
	{"kv: other bytes are left", []string{"G2"}, func(p *planter) bool {
		return p.change(func(e *Effect) bool { return e.Op == Key && !e.Gone }, func(e *Effect) { e.Body = Sum([]byte("another")) })
	}},
	{"kv: a key that is not there is deleted", []string{"G14"}, func(p *planter) bool {
		return p.change(func(e *Effect) bool { return e.Op == Erase && e.Code == "not_found" && p.first(e) }, func(e *Effect) { e.Code = "" })
	}},
	{"kv: a read misses the key", []string{"G14"}, func(p *planter) bool {
		return p.tell(func(e *Event) bool { return isReturn(e, Look, OK) }, func(e *Event) { e.Class, e.Code = Refused, "not_found" })
	}},
	{"kv: a read brings another value", []string{"G14"}, func(p *planter) bool {
		return p.tell(func(e *Event) bool { return isReturn(e, Look, OK) }, func(e *Event) { e.Body = Sum([]byte("another")) })
	}},
	{"kv: a read finds a key that is gone", []string{"G14"}, func(p *planter) bool {
		return p.tell(func(e *Event) bool { return isReturn(e, Look, Refused) && e.Code == "not_found" && e.Index != 0 }, func(e *Event) {
			e.Class, e.Code, e.Body = OK, "", Sum([]byte("gone"))
		})
	}},
	{"kv: nobody reads at the end what was left", []string{"G1"}, func(p *planter) bool {
		n := len(p.h.Events)
		p.h.Events = slices.DeleteFunc(p.h.Events, func(e Event) bool { return e.Op == Look })
		return len(p.h.Events) < n && p.any(func(e *Effect) bool { return e.Op == Key && !e.Gone })
	}},
}

// fires says whether an effect is a step of a schedule that made a message.
func fires(e *Effect) bool { return e.Op == Fire && e.Code == "" && e.Fired }

// schedulePlants are about schedules.
var schedulePlants = []plant{
	{"schedule: a time is fired twice", []string{"G6"}, func(p *planter) bool {
		at := p.effect(func(i int, e *Effect) bool { return fires(e) && p.entryFrom(i) > 0 })
		if at < 0 {
			return false
		}
		again, to := p.h.Effects[at], p.entryFrom(at)
		again.Index = p.h.Effects[to].Index
		again.Message = fsm.MakeID(parseID(again.Message).Epoch(), 0, again.Index, 5555).String()
		p.insert(to+1, again)
		return true
	}},
	{"schedule: a time is left out", []string{"G6"}, func(p *planter) bool {
		last := map[string]int{}
		for i := range p.h.Effects {
			if e := &p.h.Effects[i]; e.Op == Fire && e.Code == "" {
				last[e.Name] = i
			}
		}
		at := p.effect(func(i int, e *Effect) bool { return fires(e) && last[e.Name] > i && !p.replannedBehind(i) })
		if at < 0 {
			return false
		}
		p.h.Effects = slices.Delete(p.h.Effects, at, at+1)
		return true
	}},
	{"schedule: a time is passed over", []string{"G7"}, func(p *planter) bool {
		return p.change(func(e *Effect) bool { return fires(e) && p.inTime(e) }, func(e *Effect) { e.Fired, e.Message, e.Count = false, "", e.Count+1 })
	}},
	{"schedule: a time is missed without a word", []string{"G7"}, func(p *planter) bool {
		return p.change(fires, func(e *Effect) { e.Next += 60_000 })
	}},
	{"schedule: it fires before its time", []string{"G13"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool { return fires(e) })
		if at < 0 {
			return false
		}
		name, planned := p.h.Effects[at].Name, p.h.Effects[at].At
		for i := range p.h.Effects { // the time before it was followed by a later one
			e := &p.h.Effects[i]
			if e.Name == name && e.Op == Fire && e.Code == "" && e.Next == planned {
				e.Next += 3_600_000
			}
		}
		p.h.Effects[at].At += 3_600_000
		p.h.Effects[at].Next += 3_600_000
		return true
	}},
	{"schedule: it plans no proper time", []string{"G7"}, func(p *planter) bool {
		return p.change(func(e *Effect) bool { return e.Op == Fire && e.Code == "" }, func(e *Effect) { e.Next++ })
	}},
	{"schedule: it fires and nothing is enqueued", []string{"G1"}, func(p *planter) bool {
		return p.change(fires, func(e *Effect) { e.Message = "" })
	}},
	{"schedule: a deleted one fires", []string{"G6"}, func(p *planter) bool {
		at := p.effect(func(i int, e *Effect) bool { return p.done(e, Unplan) && p.entryFrom(i) > 0 })
		if at < 0 {
			return false
		}
		name, to := p.h.Effects[at].Name, p.entryFrom(at)
		index := p.h.Effects[to].Index
		p.insert(to+1, Effect{Op: Fire, Index: index, Name: name, At: 1000, Next: 2000, Fired: true, Message: fsm.MakeID(1, 0, index, 5555).String()})
		return true
	}},
	{"schedule: nobody declared it so", []string{"G2"}, func(p *planter) bool {
		return p.change(func(e *Effect) bool { return p.done(e, Plan) && !e.Duplicate }, func(e *Effect) { e.Body = Sum([]byte("another")) })
	}},
	{"schedule: clients see two messages of one time", []string{"G6"}, func(p *planter) bool {
		one := p.event(func(e *Event) bool { return e.Kind == Deliver && e.Firing != "" })
		if one == nil {
			return false
		}
		return p.tell(func(e *Event) bool { return e.Kind == Deliver && e.Firing != "" && e.Message != one.Message }, func(e *Event) { e.Firing = one.Firing })
	}},
}

// inTime says whether a step is made before anything of it counts as missed.
func (p *planter) inTime(e *Effect) bool {
	for i := range p.h.Effects {
		if o := &p.h.Effects[i]; o.Op == Entry && o.Index == e.Index {
			return o.Time-e.At < 60_000
		}
	}
	return false
}

// replannedBehind says whether the schedule of a step is declared anew, or deleted, before its next step.
func (p *planter) replannedBehind(at int) bool {
	name := p.h.Effects[at].Name
	for i := at + 1; i < len(p.h.Effects); i++ {
		if e := &p.h.Effects[i]; e.Name == name && e.Code == "" {
			return e.Op != Fire
		}
	}
	return true
}

// cancelPlants are about cancelled tasks.
var cancelPlants = []plant{
	{"cancel: the task goes out again", []string{"G6"}, func(p *planter) bool {
		at := p.effect(func(i int, e *Effect) bool {
			_, made := p.made(e.Message)
			return p.done(e, Cancel) && !e.Duplicate && made.Index != 0
		})
		if at < 0 {
			return false
		}
		e := p.h.Effects[at]
		_, made := p.made(e.Message)
		p.insert(at+1, Effect{Op: Lease, Index: e.Index, Queue: made.Queue, Message: e.Message, Token: leaseIn(e.Message, e.Index), Attempt: 1})
		return true
	}},
	{"cancel: a client gets the task afterwards", []string{"G6"}, func(p *planter) bool {
		e := p.event(func(e *Event) bool { return isReturn(e, Cancel, OK) && e.Index != 0 })
		if e == nil {
			return false
		}
		id := p.callOf(e).Message
		p.h.Events = append(p.h.Events, Event{Kind: Deliver, At: p.h.Events[len(p.h.Events)-1].At + 1, Op: Lease, Message: id, Token: leaseIn(id, e.Index+1)})
		return true
	}},
	{"cancel: its worker's result is taken", []string{"G4", "G6"}, func(p *planter) bool {
		return p.change(func(e *Effect) bool { return e.Op == Ack && e.Code == "cancelled" }, func(e *Effect) { e.Code = "" })
	}},
	{"cancel: a client's result is taken", []string{"G6", "G14"}, func(p *planter) bool {
		return p.tell(func(e *Event) bool { return isReturn(e, Ack, Refused) && e.Code == "cancelled" && e.Index != 0 }, func(e *Event) { e.Class, e.Code = OK, "" })
	}},
	{"cancel: it is said to have been done before", []string{"G6", "G14"}, func(p *planter) bool {
		return p.change(func(e *Effect) bool { return p.done(e, Cancel) && e.Duplicate }, func(e *Effect) { e.Duplicate = false })
	}},
	{"cancel: a read finds another end", []string{"G6"}, func(p *planter) bool {
		return p.tell(func(e *Event) bool { return isReturn(e, Final, OK) && e.Status == wasCancelled }, func(e *Event) { e.Status = succeeded })
	}},
}
