package fsmtest

import (
	"fmt"

	"github.com/quorate/quorate/fsm"
)

// compareKeyedOutlook holds what the leader is told of a queue in which keys matter to what it must not miss: that something can be
// leased at T and later, if nothing but time comes between, and when there will be something. That it is to look earlier does no harm, as long
// as time goes on: where the queue's rate and a key's hold something, the nearer of the two is told.
func (p *Pair) compareKeyedOutlook(q *queue, ref fsm.QueueRef) error {
	t := p.Model.t
	can := func(at int64) bool {
		if q.slots() == 0 || q.rate().tokens(q.tat, at) == 0 {
			return false
		}
		for _, x := range q.unblocked() {
			if q.openAt(x.key, at) {
				return true
			}
		}
		return false
	}
	if got := p.State.Ready(ref.Number()); can(t) && got == 0 {
		return fmt.Errorf("queue %s: something can be leased, but none is ready", q.name)
	}
	first := int64(0) // the first T at which something can be leased
	for _, at := range p.Model.openings(q) {
		if can(at) && (first == 0 || at < first) {
			first = at
		}
	}
	for _, at := range []int64{t, t + 1, t + 7, t + 1000, t + 60_000} {
		got := p.State.Outlook(ref, at)
		switch {
		case can(at) != (got.Ready > 0):
			return fmt.Errorf("queue %s: at T+%d something can be leased: want %v, got %+v", q.name, at-t, can(at), got)
		case can(at):
		case got.Next != 0 && got.Next <= at, first > at && (got.Next == 0 || got.Next > first):
			return fmt.Errorf("queue %s: at T+%d: something can be leased from T+%d on, which is late: %+v", q.name, at-t, first-t, got)
		}
	}
	return nil
}

// openings are those T from now on at which time alone may let a queue hand out more.
func (m *Model) openings(q *queue) []int64 {
	list := []int64{m.t}
	if b := q.rate(); b.holds(m.t) {
		list = append(list, b.next(q.tat))
	}
	for _, k := range q.keys {
		if k.hold == holdRate {
			list = append(list, k.until)
		}
	}
	for i, at := range list {
		list[i] = max(at, m.t)
	}
	return list
}

// openAt says whether a message of a key could be leased at the given T, if nothing but time comes between.
func (q *queue) openAt(key string, at int64) bool {
	k := q.keys[key]
	return k == nil || k.hold == holdOpen || k.hold == holdRate && k.until <= at
}
