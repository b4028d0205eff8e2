package fsm

import (
	"cmp"
	"slices"
)

// Records of sectionKeyed. Of each queue: its options, its keys by their bytes, its rings from the highest priority down, each
// from the head.
const (
	keyedOptions uint8 = iota + 1
	keyedKey           // one that is in debt or held
	keyedRing          // one flow of a ring
)

// keyNumbers are the numbers among the options of rates and keys, in the order of the format.
func (o *QueueOptions) keyNumbers() [5]*int64 {
	return [...]*int64{&o.RateMilli, &o.Burst, &o.MaxInFlightPerKey, &o.RatePerKeyMilli, &o.BurstPerKey}
}

func (o *QueueOptions) anyKeyed() bool {
	return o.RateMilli != 0 || o.MaxInFlightPerKey != 0 || o.RatePerKeyMilli != 0 || o.FairBy != FairByNone
}

// writeKeyed writes what there is of rates and of keys that matter.
func (v *View) writeKeyed(f *frameWriter, queues []int32) {
	f.section(sectionKeyed)
	keys := v.keysInOrder()
	for _, slot := range queues {
		m, t := v.metas[slot], v.tallies.Get(slot)
		if !m.options.anyKeyed() {
			continue
		}
		o := m.options
		f.record()
		f.uvarint(uint64(m.number))
		f.u8(keyedOptions)
		for _, n := range o.keyNumbers() {
			f.varint(*n)
		}
		f.u8(uint8(o.FairBy))
		f.uvarint(uint64(len(o.FairWeights)))
		for _, w := range o.FairWeights {
			f.text(w.Key)
			f.varint(w.Weight)
		}
		f.varint(t.tat)
		for ; len(keys) > 0 && v.keys.Get(keys[0]).queue == slot; keys = keys[1:] {
			k := v.keys.Get(keys[0])
			f.record()
			f.uvarint(uint64(m.number))
			f.u8(keyedKey)
			f.bytes(v.blob(k.text))
			f.varint(k.tat)
			f.varint(v.heldUntil(k))
		}
		for p := MaxPriority; p >= 0; p-- {
			for at, head := t.rings[p], true; at != none && (head || at != t.rings[p]); head = false {
				fl := v.flows.Get(at)
				f.record()
				f.uvarint(uint64(m.number))
				f.u8(keyedRing)
				f.u8(uint8(p))
				f.bytes(v.blob(v.keys.Get(fl.key).text))
				f.u8(fl.deficit)
				at = fl.next
				if f.err() != nil {
					return
				}
			}
		}
	}
}

// heldUntil is the T until which a key is held, 0 where it is not.
func (v *View) heldUntil(k *keyRec) int64 {
	if k.gen != v.tallies.Get(k.queue).liveGen {
		return 0
	}
	return k.until
}

// keysInOrder are the keys of existing queues that are in debt or held, by queue number and key.
func (v *View) keysInOrder() (keys []int32) {
	v.keys.Each(func(ki int32, k *keyRec) bool {
		if (k.tat != 0 || k.until != 0) && v.metas[k.queue] != nil && (k.tat != 0 || v.heldUntil(k) != 0) {
			keys = append(keys, ki)
		}
		return true
	})
	slices.SortFunc(keys, func(a, b int32) int {
		ka, kb := v.keys.Get(a), v.keys.Get(b)
		if c := cmp.Compare(v.metas[ka.queue].number, v.metas[kb.queue].number); c != 0 {
			return c
		}
		return cmp.Compare(string(v.blob(ka.text)), string(v.blob(kb.text)))
	})
	return keys
}

// ringed is a place in a ring that has been read; it is filled when all messages are there.
type ringed struct {
	queue    *queue
	key      int32
	priority uint8
	deficit  uint8
}

func (rs *restorer) keyed() {
	f := rs.f
	var in *queue // whose records follow
	var last uint32
	var key []byte // the last one read of it
	rings := false // its rings have begun
	for f.more() {
		q := rs.queue()
		kind := f.u8()
		if f.err() != nil {
			return
		}
		switch {
		case kind == keyedOptions:
			if q.meta.number <= last {
				f.fail("rates and keys of queue %d after those of queue %d", q.meta.number, last)
				return
			}
			rs.keyedOptions(q)
			in, last, key, rings = q, q.meta.number, nil, false
		case q != in:
			f.fail("queue %q: what there is of its keys is not behind its options", q.meta.name)
		case kind == keyedKey && !rings:
			key = rs.keyedKey(q, key)
		case kind == keyedRing:
			rings = true
			rs.keyedRing(q)
		default:
			f.fail("queue %q: record of kind %d of its keys", q.meta.name, kind)
		}
		if f.err() != nil {
			return
		}
	}
}

func (rs *restorer) keyedOptions(q *queue) {
	s, f := rs.s, rs.f
	o := q.meta.options
	for _, n := range o.keyNumbers() {
		*n = f.varint()
	}
	o.FairBy = FairBy(f.u8())
	n := f.uvarint()
	if n > LimitFairWeights {
		f.fail("queue %q has %d fair_weights", q.meta.name, n)
	}
	for range n {
		if f.err() != nil {
			return
		}
		o.FairWeights = append(o.FairWeights, FairWeight{Key: f.str(MaxKey), Weight: f.varint()})
	}
	tat := f.varint()
	if f.err() != nil {
		return
	}
	if _, err := o.Validate(); err != nil {
		f.fail("queue %q: %v", q.meta.name, err)
		return
	}
	q.meta.options = o
	q.meta.settle()
	s.countKeyed(q.meta, 1)
	switch {
	case !o.anyKeyed():
		f.fail("queue %q has a record of its rates and keys, and none of them", q.meta.name)
	case !q.meta.rate.good(tat):
		f.fail("queue %q has the instant %d of its rate, which is out of range", q.meta.name, tat)
	}
	s.tallies.Mut(q.slot).tat = tat
}

// good says whether tat can be an instant of the bucket.
func (b bucket) good(tat int64) bool {
	return tat == 0 || b.interval != 0 && tat > 0 && tat <= rateHorizon*nanosPerMilli+b.slack+b.interval
}

func (rs *restorer) keyedKey(q *queue, last []byte) []byte {
	s, f := rs.s, rs.f
	text := append([]byte(nil), f.bytes(MaxKey)...)
	tat, until := f.varint(), rs.instant()
	if f.err() != nil {
		return nil
	}
	switch {
	case len(text) == 0 || string(text) <= string(last):
		f.fail("queue %q: key %.40q after %.40q", q.meta.name, text, last)
	case q.meta.keyRate.interval == 0 || tat == 0 && until == 0 || !q.meta.keyRate.good(tat) ||
		until != 0 && (tat != 0 && until != q.meta.keyRate.next(tat) || tat == 0 && until > s.now):
		f.fail("queue %q: key %.40q has the instant %d and is held until %d, which does not fit", q.meta.name, text, tat, until)
	}
	if f.err() != nil {
		return nil
	}
	ki := s.key(q, text)
	s.keys.Mut(ki).until = until // stands for held until the messages are there
	s.setDebt(q, ki, tat)
	return text
}

func (rs *restorer) keyedRing(q *queue) {
	f := rs.f
	r := ringed{queue: q, priority: f.u8()}
	text := append([]byte(nil), f.bytes(MaxKey)...)
	r.deficit = f.u8()
	if f.err() != nil {
		return
	}
	first := true
	if n := len(rs.rings); n > 0 && rs.rings[n-1].queue == q {
		last := &rs.rings[n-1]
		first = last.priority != r.priority
		if last.priority < r.priority {
			f.fail("queue %q: ring of priority %d after that of %d", q.meta.name, r.priority, last.priority)
			return
		}
	}
	if !q.meta.fair() || r.priority > MaxPriority || r.deficit >= LimitFairWeight || r.deficit != 0 && !first {
		f.fail("queue %q: key %.40q stands in a ring of priority %d with %d messages left, which does not fit", q.meta.name, text, r.priority, r.deficit)
		return
	}
	r.key = rs.s.key(q, text)
	rs.rings = append(rs.rings, r)
}

// keysOut counts what is out of keys that matter.
func (rs *restorer) keysOut() {
	s := rs.s
	for _, l := range rs.leased {
		m := s.messages.Get(s.sides.Get(l.side).message)
		if q := s.queues[m.queue]; q.meta.keyed {
			s.keys.Mut(s.key(q, s.keyText(m))).out++
		}
	}
}

// openKeys says of each key how it stands, now that its messages are there, and opens its flows in their order.
func (rs *restorer) openKeys() {
	s, f := rs.s, rs.f
	open := 0 // flows that belong into a ring
	for _, slot := range s.names {
		q := s.queues[slot]
		for ki := q.keys.head; ki != none; ki = s.keys.Get(ki).newer {
			k := s.keys.Get(ki)
			until := k.until
			want, by := s.verdict(q, k)
			if until != 0 && (k.ready == 0 || want == keyFull) || want == keyHeld && by != until ||
				k.records == 0 && k.out == 0 && k.tat == 0 {
				f.fail("queue %q: key %.40q of which %d are ready and %d out is held until %d", q.meta.name, s.blob(k.text), k.ready, k.out, until)
				return
			}
			if until != 0 {
				want = keyHeld
			}
			s.keys.Mut(ki).until = 0
			s.setKey(q, ki, want, until)
			for fi := s.keys.Get(ki).flows; want == keyOpen && fi != none; fi = s.flows.Get(fi).sibling {
				if q.meta.fair() {
					open++
				} else {
					s.enterFlow(q, fi)
				}
			}
			s.offerKey(q, ki)
		}
	}
	for _, r := range rs.rings {
		fi := s.flowOf(r.queue, r.key, r.priority)
		if s.keys.Get(r.key).state != keyOpen || fi == none || s.flows.Get(fi).next != none {
			f.fail("queue %q: key %.40q stands in a ring of priority %d twice or for nothing", r.queue.meta.name, s.blob(s.keys.Get(r.key).text), r.priority)
			return
		}
		s.enterFlow(r.queue, fi)
		s.flows.Mut(fi).deficit = r.deficit
	}
	if open != len(rs.rings) {
		f.fail("%d flows are in rings, want %d", len(rs.rings), open)
	}
	rs.rings = nil
}
