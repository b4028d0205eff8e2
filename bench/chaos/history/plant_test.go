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
	h       *History
	rng     *rand.Rand
	calls   map[uint64]int    // positions of calls, made by callOf
	makes   map[string]int    // positions of enqueues by message, made by made
	modes   map[string]string // of queues, made by mode
	touched map[string]bool   // messages that something became of, made by purgedBy
	again   map[string]bool   // requests under which something was sent more than once, made by single
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
			if _, ok := p.makes[e.Message]; !ok && (e.Op == Enqueue && e.Code == "" && !e.Duplicate || e.Op == Chain && e.Message != "" || e.Op == Fire && e.Message != "") {
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

// plants are all kinds of lies.
var plants = slices.Concat(messagePlants, leasePlants, endPlants, orderPlants, answerPlants, oncePlants, deadPlants, ratePlants, batchPlants,
	movePlants, emptyPlants, keyRatePlants, buryPlants, editPlants, kvPlants, schedulePlants, cancelPlants)

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
