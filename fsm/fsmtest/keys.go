package fsmtest

import (
	"sort"

	"github.com/quorate/quorate/fsm"
)

// keyHold says how a key with ready messages stands.
type keyHold uint8

const (
	holdIdle keyHold = iota // nothing is ready
	holdOpen                // can be leased
	holdFull                // as much is out as may be
	holdRate                // its rate holds it, until an operation that leases notices that its time has come
)

// keyState is what a queue in which keys matter knows of one.
type keyState struct {
	hold  keyHold
	until int64  // holdRate: T
	tat   int64  // ns
	head  fsm.ID // the message that is ready, where those of a key go one after the other
	debt  bool   // tat is remembered: from a lease on, until it is reclaimed
}

// turn is a flow in the ring of its priority: one key's messages that can be leased. deficit is what is left of its turn, 0
// where that has not begun.
type turn struct {
	key     string
	deficit int64
}

func (q *queue) keyed() bool {
	o := &q.options
	return o.MaxInFlightPerKey > 0 || o.RatePerKeyMilli > 0 || o.FairBy != fsm.FairByNone
}

func (q *queue) keyRate() bucket { return newBucket(q.options.RatePerKeyMilli, q.options.BurstPerKey) }

// weight is how many messages a turn of a key is.
func (q *queue) weight(key string) int64 {
	for _, w := range q.options.FairWeights {
		if w.Key == key {
			return w.Weight
		}
	}
	return 1
}

// outOf counts what is out of a key.
func (q *queue) outOf(key string) (n int64) {
	for _, x := range q.messages {
		if x.state == fsm.StateLeased && x.key == key {
			n++
		}
	}
	return n
}

// brimming says whether as much of a key is out as may be.
func (q *queue) brimming(key string) bool {
	return key != "" && q.options.MaxInFlightPerKey > 0 && q.outOf(key) >= q.options.MaxInFlightPerKey
}

// key is what is known of a key, noted down if it is new.
func (q *queue) key(name string) *keyState {
	if q.keys == nil {
		q.keys = map[string]*keyState{}
	}
	k := q.keys[name]
	if k == nil {
		k = &keyState{}
		q.keys[name] = k
	}
	return k
}

// leaveRings takes a key's flows out of their rings.
func (q *queue) leaveRings(key string) {
	for p, ring := range q.rings {
		q.rings[p] = nil
		for _, t := range ring {
			if t.key != key {
				q.rings[p] = append(q.rings[p], t)
			}
		}
	}
}

// seeHold notes how a key comes to stand otherwise.
func (m *Model) seeHold(q *queue, was, is keyHold) {
	names := []string{"idle", "open", "full", "held"}
	if was != is {
		m.sometimes("keys: " + names[was] + ", then " + names[is])
	}
	if is == holdOpen && was != is && q.options.FairBy == fsm.FairByKey {
		m.sometimes("keys: joins the ring")
	}
}

// judge says how a key with ready messages stands at T.
func (m *Model) judge(q *queue, name string) {
	k := q.key(name)
	k.hold, k.until = holdOpen, 0
	if name == "" {
		return
	}
	b := q.keyRate()
	switch {
	case q.brimming(name):
		k.hold = holdFull
	case b.tokens(k.tat, m.t) == 0:
		k.hold, k.until = holdRate, b.next(k.tat)
	}
}

// settleKeys brings keys and rings in line with what is ready and out, after each step: what is new joins at the tail. The links
// of a chain are not yet there for it.
func (m *Model) settleKeys(q *queue) {
	if m.chaining {
		return
	}
	if !q.keyed() {
		q.keys, q.rings = nil, [10][]turn{}
		return
	}
	ready := map[string][]*message{}
	for _, x := range q.unblocked() {
		if !x.link {
			ready[x.key] = append(ready[x.key], x)
		}
	}
	for name, k := range q.keys {
		if len(ready[name]) == 0 {
			k.hold, k.head = holdIdle, fsm.ID{}
			if !k.debt {
				delete(q.keys, name)
			}
		}
	}
	for name := range ready {
		k := q.key(name)
		if q.options.Ordering == fsm.OrderPerKey && name != "" {
			if head := ready[name][0].id; k.head != head {
				if !k.head.IsZero() { // the one before has gone, and the flow was empty for a moment
					m.sometimes("keys: the next of an ordered key")
					k.hold = holdIdle
					q.leaveRings(name)
				}
				k.head = head
			}
		}
		was := k.hold
		if k.hold != holdRate && (k.hold != holdFull || !q.brimming(name)) {
			m.judge(q, name)
		}
		m.seeHold(q, was, k.hold)
	}
	if q.options.FairBy == fsm.FairByNone {
		q.rings = [10][]turn{}
		return
	}
	for p := range q.rings {
		has := map[string]*message{}
		for name, list := range ready {
			for _, x := range list {
				if int(x.priority) == p && q.key(name).hold == holdOpen && (has[name] == nil || x.place < has[name].place) {
					has[name] = x
				}
			}
		}
		var ring []turn
		for _, t := range q.rings[p] {
			if has[t.key] != nil {
				ring = append(ring, t)
				delete(has, t.key)
			}
		}
		var fresh []string
		for name := range has {
			fresh = append(fresh, name)
		}
		sort.Slice(fresh, func(i, j int) bool { return has[fresh[i]].place < has[fresh[j]].place })
		for _, name := range fresh {
			ring = append(ring, turn{key: name})
		}
		q.rings[p] = ring
	}
}

// maxUnparks is how many keys an operation that leases opens; a number of the log format.
const maxUnparks = 1024

// noticeTime lets those keys serve again whose rate has let them out, in the order of their times.
func (m *Model) noticeTime(q *queue) {
	if !q.keyed() {
		return
	}
	var names []string
	for name, k := range q.keys {
		if k.hold == holdRate && k.until <= m.t {
			names = append(names, name)
		}
	}
	sort.Slice(names, func(i, j int) bool {
		a, b := q.keys[names[i]], q.keys[names[j]]
		return a.until < b.until || a.until == b.until && names[i] < names[j]
	})
	if len(names) > maxUnparks {
		m.sometimes("keys: more are let out than an operation opens")
		names = names[:maxUnparks]
	}
	for _, name := range names {
		m.judge(q, name)
		m.seeHold(q, holdRate, q.keys[name].hold)
		m.settleKeys(q)
	}
}

// nextOf is the message that a queue in which keys matter serves next.
func (m *Model) nextOf(q *queue) *message {
	if !q.keyed() {
		return q.firstReady()
	}
	best := func(ok func(x *message) bool) (first *message) {
		for _, x := range q.unblocked() {
			if ok(x) && (first == nil || x.priority > first.priority || x.priority == first.priority && x.place < first.place) {
				first = x
			}
		}
		return first
	}
	if q.options.FairBy == fsm.FairByNone {
		return best(func(x *message) bool { return q.key(x.key).hold == holdOpen })
	}
	for p := 9; p >= 0; p-- {
		if len(q.rings[p]) > 0 {
			key := q.rings[p][0].key
			return best(func(x *message) bool { return int(x.priority) == p && x.key == key })
		}
	}
	return nil
}

// served notes that a message was leased: its key's rate and turn go on.
func (m *Model) served(q *queue, x *message) {
	if !q.keyed() {
		return
	}
	if x.key != "" && q.options.RatePerKeyMilli > 0 {
		if b := q.keyRate(); b.holds(m.t) {
			k := q.key(x.key)
			k.tat, k.debt = b.take(k.tat, m.t), true
		} else {
			m.sometimes("keys: beyond the rates' horizon")
		}
	}
	if q.options.FairBy != fsm.FairByNone {
		ring := q.rings[x.priority]
		if ring[0].deficit == 0 {
			ring[0].deficit = q.weight(x.key)
		}
		if ring[0].deficit--; ring[0].deficit == 0 {
			m.sometimes("keys: a turn is over")
			q.rings[x.priority] = append(ring[1:len(ring):len(ring)], turn{key: x.key})
		} else {
			m.sometimes("keys: a turn is not over")
		}
	}
	m.settleKeys(q)
}

// changeKeys follows a change of options: what waits is judged anew, where anything has changed that keys know, and so are the debts
// under another rate.
func (m *Model) changeKeys(q *queue, was *fsm.QueueOptions) {
	o := &q.options
	old := queue{options: *was}
	waiting := 0
	for _, k := range q.keys {
		if k.hold == holdFull || k.hold == holdRate {
			waiting++
		}
	}
	switch {
	case !old.keyed() && q.keyed() && len(q.unblocked()) > 0:
		m.sometimes("keys: matter from now on, with messages waiting")
	case old.keyed() && !q.keyed() && waiting > 0:
		m.sometimes("keys: matter no more, with some parked")
	case was.FairBy != fsm.FairByNone && o.FairBy == fsm.FairByNone && len(q.keys) > 1:
		m.sometimes("keys: turns end, with messages waiting")
	}
	if was.MaxInFlightPerKey == o.MaxInFlightPerKey && was.RatePerKeyMilli == o.RatePerKeyMilli && was.BurstPerKey == o.BurstPerKey && was.FairBy == o.FairBy {
		m.settleKeys(q)
		return
	}
	b := q.keyRate()
	for _, k := range q.keys {
		if k.hold == holdRate && k.until <= m.t && b == old.keyRate() {
			m.sometimes("option: the same rate in other numbers, with a key whose time has come")
		}
		k.tat = b.cut(k.tat, m.t)
		k.debt = k.debt && b.holds(m.t)
		k.hold = holdIdle
	}
	m.settleKeys(q)
	for _, k := range q.keys {
		if k.hold == holdFull || k.hold == holdRate {
			waiting--
		}
	}
	switch {
	case waiting > 0 && q.keyed():
		m.sometimes("option: opens keys")
	case waiting < 0 && old.keyed():
		m.sometimes("option: parks keys")
	}
}

// keyFaults judges the options about keys.
func keyFaults(o fsm.QueueOptions) []fault {
	return append(rateFaults(o.RatePerKeyMilli, o.BurstPerKey, fsm.FieldRatePerKey, fsm.FieldBurstPerKey), []fault{
		{fsm.FieldInFlightPerKey, !within(o.MaxInFlightPerKey, 0, 10_000_000) || o.MaxInFlightPerKey > 0 && o.Ordering != fsm.OrderUnordered},
		{fsm.FieldRatePerKey, o.RatePerKeyMilli > 0 && o.Ordering == fsm.OrderFIFO},
		{fsm.FieldFairBy, o.FairBy > fsm.FairByKey || o.FairBy != fsm.FairByNone && o.Ordering == fsm.OrderFIFO},
		{fsm.FieldFairWeights, !validWeights(o.FairWeights) || len(o.FairWeights) > 0 && (o.FairBy == fsm.FairByNone || o.Ordering == fsm.OrderPerKey)},
	}...)
}

// validWeights judges a list of weights: sorted, each key once.
func validWeights(list []fsm.FairWeight) bool {
	for i, w := range list {
		if len(w.Key) < 1 || len(w.Key) > 256 || !within(w.Weight, 1, 100) || i > 0 && list[i-1].Key >= w.Key {
			return false
		}
	}
	return len(list) <= 1000
}

// settleAll is settleKeys for every queue.
func (m *Model) settleAll() {
	for _, q := range m.queues {
		m.settleKeys(q)
	}
}

// arrive lets the links of a chain come in, one after the other, once all that the ack does has been done.
func (m *Model) arrive(acked fsm.ID) {
	type link struct {
		q *queue
		x *message
	}
	var links []link
	for _, q := range m.queues {
		for _, x := range q.messages {
			x.link = x.link && x.id != acked // it waits on, where its late ack was refused
		}
		m.settleKeys(q)
		for _, x := range q.messages {
			if x.link {
				links = append(links, link{q, x})
			}
		}
	}
	sort.Slice(links, func(i, j int) bool { return links[i].x.id.Compare(links[j].x.id) < 0 })
	for _, l := range links {
		l.x.link = false
		m.settleKeys(l.q)
	}
}

// endedDebts lists the debts of keys that are over, in the order in which they are reclaimed.
func (m *Model) endedDebts() (ended []endedRecord) {
	type debt struct {
		q    *queue
		name string
		k    *keyState
	}
	var list []debt
	for _, q := range m.queues {
		for name, k := range q.keys {
			if k.debt && (m.t >= rateHorizon || k.tat <= m.t*1_000_000) {
				list = append(list, debt{q, name, k})
			}
		}
	}
	sort.Slice(list, func(i, j int) bool {
		a, b := list[i], list[j]
		switch {
		case a.k.tat != b.k.tat:
			return a.k.tat < b.k.tat
		case a.name != b.name:
			return a.name < b.name
		}
		return a.q.number < b.q.number
	})
	for _, d := range list {
		ended = append(ended, endedRecord{8, d.k.tat, 0, func() {
			m.sometimes("keys: a debt is over")
			d.k.tat, d.k.debt = 0, false
			m.settleKeys(d.q)
		}})
	}
	return ended
}

// parked counts the ready messages of keys that are full or held.
func (q *queue) parked() (n int64) {
	for _, x := range q.unblocked() {
		if k := q.keys[x.key]; k != nil && (k.hold == holdFull || k.hold == holdRate) {
			n++
		}
	}
	return n
}

// debts counts the keys that are in debt to their rate.
func (q *queue) debts() (n int64) {
	for _, k := range q.keys {
		if k.debt {
			n++
		}
	}
	return n
}

// copyKeys makes what a queue knows of its keys its own.
func (q *queue) copyKeys() {
	keys := q.keys
	q.keys = nil
	for name, k := range keys {
		*q.key(name) = *k
	}
	for p, ring := range q.rings {
		q.rings[p] = append([]turn(nil), ring...)
	}
}
