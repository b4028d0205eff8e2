package history

import "github.com/quorate/quorate/fsm"

// jump makes a message overtake one of its group.
func jump(mode string) func(p *planter) bool {
	return func(p *planter) bool {
		var other string
		at := p.effect(func(i int, e *Effect) bool {
			if !granting(e) || p.mode(e.Queue) != mode {
				return false
			}
			_, mine := p.made(e.Message)
			for k := i + 1; k < min(len(p.h.Effects), i+500); k++ {
				o := &p.h.Effects[k]
				if !granting(o) || o.Queue != e.Queue || o.Message == e.Message || o.Attempt != 1 {
					continue
				}
				at, made := p.made(o.Message)
				return at < i && made.Delay == 0 && (mode == "fifo" || mine.Key != "" && made.Key == mine.Key)
			}
			return false
		})
		if at < 0 {
			return false
		}
		e := &p.h.Effects[at]
		_, mine := p.made(e.Message)
		for k := at + 1; other == ""; k++ {
			o := &p.h.Effects[k]
			if granting(o) && o.Queue == e.Queue && o.Message != e.Message && o.Attempt == 1 {
				if _, made := p.made(o.Message); mode == "fifo" || made.Key == mine.Key {
					other = o.Message
				}
			}
		}
		e.Message, e.Token, e.Attempt = other, leaseIn(other, e.Index), 1
		return true
	}
}

// orderPlants are about dedup windows, order and attempts: G8, G9, G10.
var orderPlants = []plant{
	{"a duplicate makes a message within the window", []string{"G8"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool {
			return e.Op == Enqueue && e.Code == "" && e.Duplicate && p.single(e.Session, e.Number)
		})
		if at < 0 {
			return false
		}
		e := &p.h.Effects[at]
		e.Duplicate = false
		e.Message = fsm.MakeID(parseID(e.Message).Epoch(), 0, e.Index, 5555).String()
		return true
	}},
	{"a dedup key holds after its window", []string{"G8"}, func(p *planter) bool {
		seen := map[string]string{}
		asked := map[request]bool{}
		var ats []int
		var firsts []string
		for i := range p.h.Effects {
			e := &p.h.Effects[i]
			id := request{e.Session, e.Number}
			if e.Op != Enqueue || e.Dedup == "" || e.Code != "" || e.Duplicate || asked[id] {
				continue
			}
			asked[id] = true
			if f, ok := seen[e.Queue+e.Dedup]; ok {
				ats, firsts = append(ats, i), append(firsts, f)
			}
			seen[e.Queue+e.Dedup] = e.Message
		}
		if len(ats) == 0 {
			return false
		}
		n := p.rng.IntN(len(ats))
		e := &p.h.Effects[ats[n]]
		e.Duplicate, e.Message = true, firsts[n]
		return true
	}},
	{"other content under a dedup key is taken for the same", []string{"G8"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool {
			return e.Op == Enqueue && e.Code == "already_exists" && p.single(e.Session, e.Number)
		})
		if at < 0 {
			return false
		}
		p.h.Effects[at].Code, p.h.Effects[at].Duplicate = "", true
		return true
	}},
	{"unordered: the second goes before the first", []string{"G9"}, func(p *planter) bool {
		at := p.effect(func(i int, e *Effect) bool {
			return i+1 < len(p.h.Effects) && granting(e) && granting(&p.h.Effects[i+1]) && p.h.Effects[i+1].Queue == e.Queue && p.mode(e.Queue) == "unordered" &&
				!p.any(func(o *Effect) bool { return o.Op == Queue && o.Queue == e.Queue && o.Options.KeyRate != 0 }) // whose keys may just have opened
		})
		if at < 0 {
			return false
		}
		p.h.Effects[at], p.h.Effects[at+1] = p.h.Effects[at+1], p.h.Effects[at]
		return true
	}},
	{"unordered: a priority is passed over", []string{"G9"}, func(p *planter) bool {
		// Of two that go out together the second had the higher priority all the time.
		at := p.effect(func(i int, e *Effect) bool {
			if i+1 >= len(p.h.Effects) || !granting(e) {
				return false
			}
			n := &p.h.Effects[i+1]
			_, made := p.made(e.Message)
			_, next := p.made(n.Message) // a firing has its schedule's priority, and what came back another one
			return granting(n) && n.Queue == e.Queue && p.mode(e.Queue) == "unordered" && made.Priority < 9 && next.Op == Enqueue
		})
		if at < 0 {
			return false
		}
		_, made := p.made(p.h.Effects[at+1].Message)
		made.Priority = 9
		return true
	}},
	{"fifo: one overtakes another", []string{"G9", "G3"}, jump("fifo")},
	{"per_key: one overtakes another of its key", []string{"G9", "G3"}, jump("per_key")},
	{"an enqueue stands before one that was confirmed earlier", []string{"G9"}, func(p *planter) bool {
		a := p.event(func(e *Event) bool {
			return isReturn(e, Enqueue, OK) && !e.Duplicate && p.once(e) && e.At < p.h.Events[len(p.h.Events)-1].At/2
		})
		if a == nil {
			return false
		}
		b := p.event(func(e *Event) bool { return isReturn(e, Enqueue, OK) && e.Index > a.Index+2 && e.At > a.At })
		if b == nil {
			return false
		}
		call := p.callOf(a)
		call.At, a.At = b.At+1, b.At+2
		p.sort()
		return true
	}},
	{"a delivery's attempt has a gap", []string{"G10"}, func(p *planter) bool {
		e := p.event(func(e *Event) bool { return e.Kind == Deliver })
		if e == nil {
			return false
		}
		e.Attempt++
		return true
	}},
	{"a lease's attempt has a gap", []string{"G10"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool { return granting(e) })
		if at < 0 {
			return false
		}
		p.h.Effects[at].Attempt++
		return true
	}},
	{"a message goes out more often than it may", []string{"G10", "G6", "G3"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool {
			_, made := p.made(e.Message)
			return granting(e) && e.Attempt > 1 && made.Op == Enqueue // a firing has its schedule's policy
		})
		if at < 0 {
			return false
		}
		_, made := p.made(p.h.Effects[at].Message)
		made.Retry = &fsm.RetryPolicy{Kind: fsm.RetryFixed, InitialMillis: 100, MaxAttempts: 1}
		return true
	}},
	{"a dead letter gives another reason", []string{"G10"}, func(p *planter) bool {
		e := p.event(func(e *Event) bool { return isReturn(e, Final, OK) && e.Status == wasDead })
		if e == nil {
			return false
		}
		e.Reason = "overflow"
		return true
	}},
	{"a retry is due at another time", []string{"G10"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool { return e.Op == Nack && e.Code == "" && !e.Dead })
		if at < 0 {
			return false
		}
		p.h.Effects[at].Millis += 13
		return true
	}},
}
