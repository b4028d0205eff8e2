package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/quorate/quorate/fsm"
)

// plant puts one lie into a history that is true.
type plant struct {
	name string
	want []string // guarantees of which one at least must be said to be broken
	// do changes the history and says whether it found where.
	do func(p *planter) bool
}

// planter is a history on which one plant is tried.
type planter struct {
	h     *History
	rng   *rand.Rand
	calls map[uint64]int    // positions of calls, made by callOf
	makes map[string]int    // positions of enqueues by message, made by made
	modes map[string]string // of queues, made by mode
	again map[string]bool   // requests under which something was sent more than once, made by single
}

// event draws one of the events that fit, nil without any.
func (p *planter) event(fits func(e *Event) bool) *Event {
	var found []*Event
	for i := range p.h.Events {
		if e := &p.h.Events[i]; fits(e) {
			found = append(found, e)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return found[p.rng.IntN(len(found))]
}

// effect draws the position of one of the effects that fit, −1 without any.
func (p *planter) effect(fits func(i int, e *Effect) bool) int {
	var found []int
	for i := range p.h.Effects {
		if fits(i, &p.h.Effects[i]) {
			found = append(found, i)
		}
	}
	if len(found) == 0 {
		return -1
	}
	return found[p.rng.IntN(len(found))]
}

func (p *planter) insert(at int, e Effect) { p.h.Effects = slices.Insert(p.h.Effects, at, e) }

// callOf is the call that a return answers.
func (p *planter) callOf(ret *Event) *Event {
	if p.calls == nil {
		p.calls = map[uint64]int{}
		for i := range p.h.Events {
			if e := &p.h.Events[i]; e.Kind == Call {
				p.calls[e.Call] = i
			}
		}
	}
	return &p.h.Events[p.calls[ret.Call]]
}

// single says whether a request was sent once only.
func (p *planter) single(session string, number uint64) bool {
	key := func(s string, n uint64) string { return fmt.Sprint(s, n) }
	if p.again == nil {
		p.again = map[string]bool{}
		seen := map[string]bool{}
		for i := range p.h.Effects {
			e := &p.h.Effects[i]
			if e.Op != Enqueue || e.Session == "" {
				continue
			}
			k := key(e.Session, e.Number)
			p.again[k] = p.again[k] || seen[k]
			seen[k] = true
		}
		clear(seen)
		for i := range p.h.Events {
			e := &p.h.Events[i]
			if e.Kind != Call || e.Op != Enqueue {
				continue
			}
			k := key(e.Session, e.Number)
			p.again[k] = p.again[k] || seen[k]
			seen[k] = true
		}
	}
	return !p.again[key(session, number)]
}

// once says whether an enqueue was sent once only.
func (p *planter) once(ret *Event) bool {
	c := p.callOf(ret)
	return p.single(c.Session, c.Number)
}

// grantBefore is the delivery of a message with the greatest token below another's, nil without one.
func (p *planter) grantBefore(d *Event) (before *Event) {
	for i := range p.h.Events {
		if e := &p.h.Events[i]; e.Kind == Deliver && e.Message == d.Message && e.Token < d.Token && (before == nil || e.Token > before.Token) {
			before = e
		}
	}
	return before
}

// sort brings events that were moved in time to their place.
func (p *planter) sort() {
	slices.SortStableFunc(p.h.Events, func(a, b Event) int { return int(a.At - b.At) })
}

// mode is the ordering mode of a queue.
func (p *planter) mode(queue string) string {
	if p.modes == nil {
		p.modes = map[string]string{}
		for i := range p.h.Effects {
			if e := &p.h.Effects[i]; e.Op == Queue {
				p.modes[e.Queue] = e.Options.Mode
			}
		}
	}
	return p.modes[queue]
}

// made is the effect that enqueued a message.
func (p *planter) made(id string) (int, *Effect) {
	if p.makes == nil {
		p.makes = map[string]int{}
		for i := range p.h.Effects {
			e := &p.h.Effects[i]
			if _, ok := p.makes[e.Message]; !ok && (e.Op == Enqueue && e.Code == "" && !e.Duplicate || e.Op == Chain && e.Message != "") {
				p.makes[e.Message] = i
			}
		}
	}
	at, ok := p.makes[id]
	if !ok {
		return -1, &Effect{}
	}
	return at, &p.h.Effects[at]
}

func (p *planter) any(fits func(e *Effect) bool) bool {
	return slices.ContainsFunc(p.h.Effects, func(e Effect) bool { return fits(&e) })
}

// laterID is an id of the same entry that nothing else has.
func laterID(id string, by uint64) string {
	i := parseID(id)
	i.Lo += by
	return i.String()
}

// laterToken is a token of the same message and entry as another, but greater.
func laterToken(token string) string {
	t, err := fsm.ParseToken(token)
	if err != nil {
		panic(err)
	}
	t.Lease.Lo += 7777
	return t.String()
}

// leaseIn is a token of a message, granted in an entry.
func leaseIn(message string, index uint64) string {
	return message + fsm.MakeID(parseID(message).Epoch(), 0, index, 7777).String()
}

func isReturn(e *Event, op Op, c Class) bool { return e.Kind == Return && e.Op == op && e.Class == c }

// granting says whether an effect hands out a lease for the first time.
func granting(e *Effect) bool {
	return e.Op == Lease && e.Code == "" && e.Token != "" && leaseIndex(e.Token) == e.Index
}

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

// plants are all kinds of lies.
var plants = []plant{
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
	{"an ack that is repeated enqueues again", []string{"G6"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool { return e.Op == Chain && e.Message == "" })
		if at < 0 {
			return false
		}
		e := &p.h.Effects[at]
		e.Message = fsm.MakeID(1, 0, e.Index, 5555).String()
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
	{"a message is leased twice at once", []string{"G3"}, func(p *planter) bool {
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
	{"the log takes a second result", []string{"G5"}, func(p *planter) bool {
		at := p.effect(func(_ int, e *Effect) bool { return e.Op == Ack && e.Code == "already_exists" })
		if at < 0 {
			return false
		}
		p.h.Effects[at].Code = ""
		return true
	}},
	{"a client's second result succeeds", []string{"G5"}, func(p *planter) bool {
		e := p.event(func(e *Event) bool { return isReturn(e, Ack, Refused) && e.Code == "already_exists" })
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
			return i+1 < len(p.h.Effects) && granting(e) && granting(&p.h.Effects[i+1]) && p.h.Effects[i+1].Queue == e.Queue && p.mode(e.Queue) == "unordered"
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
			return granting(n) && n.Queue == e.Queue && p.mode(e.Queue) == "unordered" && made.Priority < 9
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
		at := p.effect(func(_ int, e *Effect) bool { return granting(e) && e.Attempt > 1 })
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

// clone copies a history as far as plants change it.
func (h *History) clone() *History {
	return &History{Events: slices.Clone(h.Events), Effects: slices.Clone(h.Effects)}
}

// try puts a plant into a copy and says what the checker makes of it; ok: the plant found where.
func (p plant) try(h *History, seed uint64) (r *Report, ok bool) {
	c := h.clone()
	if !p.do(&planter{h: c, rng: rand.New(rand.NewPCG(seed, 1))}) {
		return nil, false
	}
	return Check(c, Config{MayBeVacuous: true}), true
}

// caught says whether the report blames one of the guarantees.
func (p plant) caught(r *Report) error {
	for _, g := range p.want {
		if r.Breaks(g) {
			return nil
		}
	}
	return fmt.Errorf("not caught: want one of %s broken, %d violations", strings.Join(p.want, ", "), r.Broken())
}
