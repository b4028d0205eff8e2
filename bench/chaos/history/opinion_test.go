package history

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// doubts are lies that clients alone can see through.
var doubts = []plant{
	{"a stale ack succeeds", nil, func(p *planter) bool {
		e := p.event(func(e *Event) bool {
			return isReturn(e, Ack, Refused) && e.Code == "lease_lost" && p.outdated(e)
		})
		if e == nil {
			return false
		}
		e.Class, e.Code = OK, ""
		return true
	}},
	{"a second result succeeds", nil, func(p *planter) bool {
		e := p.event(func(e *Event) bool {
			return isReturn(e, Ack, Refused) && e.Code == "already_exists" && !p.left(p.callOf(e).Token[:26])
		})
		if e == nil {
			return false
		}
		e.Class, e.Code = OK, ""
		return true
	}},
	{"a message is delivered after its end", nil, func(p *planter) bool {
		e := p.event(func(e *Event) bool { return isReturn(e, Ack, OK) && !e.Duplicate && !p.left(p.callOf(e).Token[:26]) })
		if e == nil {
			return false
		}
		token := laterToken(p.callOf(e).Token)
		p.h.Events = append(p.h.Events,
			Event{Kind: Call, At: e.At + 1, Call: 1 << 40, Op: Lease},
			Event{Kind: Deliver, At: e.At + 2, Call: 1 << 40, Op: Lease, Message: token[:26], Token: token})
		p.sort()
		return true
	}},
	{"a read misses the end", nil, func(p *planter) bool {
		e := p.event(func(e *Event) bool {
			return isReturn(e, Final, OK) && e.Status == succeeded && !p.left(e.Message) && !p.takenFrom(e.Message)
		})
		if e == nil {
			return false
		}
		e.Status, e.Result = "", ""
		return true
	}},
	{"a read brings another result", nil, func(p *planter) bool {
		e := p.event(func(e *Event) bool { return isReturn(e, Read, OK) && e.Result != "" && !p.left(e.Message) })
		if e == nil {
			return false
		}
		e.Result = Sum([]byte("another"))
		return true
	}},
	{"a dead letter is done", nil, func(p *planter) bool {
		e := p.event(func(e *Event) bool {
			return isReturn(e, Final, OK) && e.Status == wasDead && !p.left(e.Message) && !p.takenFrom(e.Message)
		})
		if e == nil {
			return false
		}
		e.Status = succeeded
		return true
	}},
	{"what is delivered at most once arrives twice", nil, func(p *planter) bool {
		e := p.event(func(e *Event) bool { return e.Kind == Deliver && p.takes(e.Queue) && !p.left(e.Message) })
		if e == nil {
			return false
		}
		again := *e
		again.At = p.h.Events[len(p.h.Events)-1].At + 1
		p.h.Events = append(p.h.Events, again)
		return true
	}},
}

// outdated says whether a later token of the message was delivered before the call of an ack.
func (p *planter) outdated(ret *Event) bool {
	c := p.callOf(ret)
	for i := range p.h.Events {
		if e := &p.h.Events[i]; e.At > c.At {
			return false
		} else if e.Kind == Deliver && e.Message == c.Token[:26] && e.Token > c.Token {
			return !p.left(e.Message)
		}
	}
	return false
}

// meddled says whether a message, or one that it was requeued from, was cancelled or given a result.
func (p *planter) meddled(id string) bool {
	for i := range p.h.Events {
		e := &p.h.Events[i]
		if e.Kind == Call && (e.Op == Push || e.Op == Cancel) && e.Message == id ||
			e.Kind == Return && (e.Op == Requeue || e.Op == Edit) && e.Class == OK && e.Message == id && p.meddled(p.callOf(e).Message) {
			return true
		}
	}
	return false
}

// left says whether a message is not judged.
func (p *planter) left(id string) bool {
	alone := map[string]bool{}
	for i := range p.h.Events {
		e := &p.h.Events[i]
		if e.Kind == Mark && e.Note == LogAlone {
			alone[e.Queue] = true
		} else if e.Kind == Deliver && e.Message == id && alone[e.Queue] {
			return true
		}
	}
	if _, made := p.made(id); alone[made.Queue] {
		return true
	}
	for i := range p.h.Events {
		e := &p.h.Events[i]
		if e.Kind == Return && (e.Op == Requeue || e.Op == Edit) && e.Class == OK && e.Message == id && (alone[p.callOf(e).Queue] || p.meddled(p.callOf(e).Message)) {
			return true
		}
		if e.Kind == Call && (e.Op == Push || e.Op == Cancel || e.Op == Requeue || e.Op == Edit) && e.Message == id || e.Kind == Return && e.Op == Ack && e.Duplicate && strings.HasPrefix(p.callOf(e).Token, id) {
			return true
		}
	}
	return false
}

func opinionOf(h *History) error {
	o := SecondOpinion(h.Events)
	if o.Messages == 0 || o.Undecided > 0 {
		return fmt.Errorf("%d messages judged, %d undecided", o.Messages, o.Undecided)
	}
	if len(o.Illegal) > 0 {
		return fmt.Errorf("%s:\n%s", o.Illegal[0].What, strings.Join(o.Illegal[0].Events, "\n"))
	}
	return nil
}

// What is refused at the door, where there is no leader, says nothing of the message: neither that its token is void nor that it is not.
func TestSecondOpinionOfTheDoor(t *testing.T) {
	t.Parallel()
	eachHistory(t, func(t *testing.T, h *History, _ bool) {
		p := &planter{h: h.clone()}
		var more []Event
		for i := range p.h.Events {
			e := &p.h.Events[i]
			if e.Kind != Return || e.Op != Ack && e.Op != Nack && e.Op != Extend && e.Op != Release {
				continue
			}
			call := *p.callOf(e)
			call.Call, call.At = 1<<40+uint64(i), e.At
			more = append(more, call, Event{Kind: Return, At: e.At, Call: call.Call, Op: e.Op, Class: Refused, Code: "no_leader"})
		}
		if len(more) == 0 {
			t.Fatal("there is nothing that could be refused")
		}
		p.h.Events = append(p.h.Events, more...)
		p.sort()
		if err := opinionOf(p.h); err != nil {
			t.Error(err)
		}
	})
}

// Porcupine has nothing against a true history, and finds no order for one with a lie in it.
func TestSecondOpinion(t *testing.T) {
	t.Parallel()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d (repeat with -seed)", seed)
	eachHistory(t, func(t *testing.T, h *History, told bool) {
		if err := opinionOf(h); err != nil {
			t.Fatal(err)
		}
		for i, d := range doubts {
			t.Run(d.name, func(t *testing.T) {
				c := h.clone()
				if !d.do(&planter{h: c, rng: rand.New(rand.NewPCG(seed, uint64(i)))}) {
					if told {
						t.Fatal("there is no place for it")
					}
					return
				}
				if o := SecondOpinion(c.Events); len(o.Illegal) == 0 {
					t.Errorf("not caught: %d messages judged, %d left, %d undecided", o.Messages, o.Left, o.Undecided)
				}
			})
		}
	})
}
