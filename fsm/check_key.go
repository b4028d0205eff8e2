package fsm

import "fmt"

// keyCount is what a scan finds of a key.
type keyCount struct {
	ready   int64
	out     int32
	records int32
}

// queueKeys checks the keys and flows of a queue and says how many messages are in its flows.
func (c *checker) queueKeys(q *queue) (ready int64) {
	s := c.s
	found := map[int32]*keyCount{}
	of := func(ki int32) *keyCount {
		if found[ki] == nil {
			found[ki] = &keyCount{}
		}
		return found[ki]
	}
	older, n := none, 0
	for fi := q.flows.head; fi != none; fi = s.flows.Get(fi).newer {
		if !s.flows.Live(fi) || n > s.flows.Len() {
			c.bad("queue %q has a flow that is free, or a ring of them", q.meta.name)
			return ready
		}
		f := s.flows.Get(fi)
		if f.older != older {
			c.bad("queue %q: flow %d is linked to %d, want %d", q.meta.name, fi, f.older, older)
		}
		older = fi
		n++
		m := c.flow(q, fi)
		if m == 0 {
			c.bad("queue %q: flow %d is empty", q.meta.name, fi)
		}
		of(f.key).ready += m
		of(f.key).records++
		ready += m
	}
	if q.flows.tail != older {
		c.bad("queue %q: the last flow is %d, want %d", q.meta.name, q.flows.tail, older)
	}
	c.inFlows += n
	for i := range int32(q.leases.Len()) {
		_, sl := q.leases.At(i)
		if !q.meta.keyed {
			break
		}
		if ki, ok := s.findKey(q, s.keyText(s.messages.Get(s.sides.Get(sl).message))); ok {
			of(ki).out++
		} else {
			c.bad("queue %q: the key of lease %s is unknown", q.meta.name, s.sides.Get(sl).lease)
		}
	}
	c.eachKey(q, of)
	c.rings(q)
	return ready
}

// flow checks one flow and counts its messages.
func (c *checker) flow(q *queue, fi int32) (n int64) {
	s, t := c.s, c.s.tallies.Get(q.slot)
	f := s.flows.Get(fi)
	if !s.keys.Live(f.key) || s.keys.Get(f.key).queue != q.slot || s.flowOf(q, f.key, f.priority) != fi {
		c.bad("queue %q: flow %d is not its key's", q.meta.name, fi)
		return 0
	}
	text := string(s.blob(s.keys.Get(f.key).text))
	where := fmt.Sprintf("queue %q flow of key %q, priority %d", q.meta.name, text, f.priority)
	belongs := func(m *message, released bool) {
		if m.state != StateReady || (m.flags&flagReleased != 0) != released || m.flags&flagBlocked != 0 || m.queue != q.slot ||
			m.gen != t.liveGen || m.priority != f.priority || string(s.keyText(m)) != text {
			c.bad("%s: message %s does not belong (state %d, flags %#x)", where, m.id, m.state, m.flags)
		}
	}
	last := uint64(0)
	n = c.walk(list{f.head, f.tail}, where, func(m *message) {
		belongs(m, false)
		if m.place <= last {
			c.bad("%s: message %s at place %d after %d", where, m.id, m.place, last)
		}
		last = m.place
	})
	for at := f.tree; at != none && len(c.errs) == 0; at = s.nextInTree(at) {
		c.link(at, where)
		m := s.messages.Get(at)
		belongs(m, true)
		for child := s.child(at); child != none; child = s.messages.Get(child).next {
			if s.messages.Get(child).place <= m.place {
				c.bad("%s: message %s stands behind %s in its tree", where, s.messages.Get(child).id, m.id)
			}
		}
		n++
	}
	return n
}

// eachKey checks the records of a queue's keys against what was found.
func (c *checker) eachKey(q *queue, of func(int32) *keyCount) {
	s, t := c.s, c.s.tallies.Get(q.slot)
	var offered, parked int64
	debts, held, older, n := 0, 0, none, 0
	for ki := q.keys.head; ki != none; ki = s.keys.Get(ki).newer {
		if !s.keys.Live(ki) || n > s.keys.Len() {
			c.bad("queue %q has a key that is free, or a ring of them", q.meta.name)
			return
		}
		k, is := *s.keys.Get(ki), of(ki)
		where := fmt.Sprintf("queue %q key %q", q.meta.name, s.blob(k.text))
		if k.gen != t.liveGen {
			k.ready, k.offer, k.until, k.flows, k.state, k.heldPos = 0, 0, 0, none, keyIdle, none
		}
		if at, ok := s.findKey(q, s.blob(k.text)); !ok || at != ki || k.queue != q.slot || k.older != older {
			c.bad("%s is not found, not alone or out of place", where)
		}
		older = ki
		n++
		if int64(k.ready) != is.ready || k.out != is.out || k.records < is.records {
			c.bad("%s has %d ready, %d out, %d flows; a scan finds %d, %d, %d", where, k.ready, k.out, k.records, is.ready, is.out, is.records)
		}
		if k.records == 0 && k.out == 0 && k.tat == 0 {
			c.bad("%s is there for nothing", where)
		}
		want, until := s.verdict(q, &k)
		if k.state != want && !(k.state == keyHeld && want == keyOpen) || k.state == keyHeld && want == keyHeld && k.until != until ||
			(k.until != 0) != (k.state == keyHeld) {
			c.bad("%s is in state %d until %d, want %d until %d", where, k.state, k.until, want, until)
		}
		if k.state == keyOpen && (k.offer < 1 || int64(k.offer) > s.keyRoom(q, &k, s.now) || k.offer > k.ready) || k.state != keyOpen && k.offer != 0 {
			c.bad("%s in state %d with %d ready offers %d", where, k.state, k.ready, k.offer)
		}
		offered += int64(k.offer)
		if k.state.parked() {
			parked += int64(k.ready)
		}
		if k.tat != 0 {
			debts++
			if key, at := q.debts.At(k.debtPos); at != ki || key != k.tat || k.text == 0 {
				c.bad("%s is not among the debts as it should be", where)
			}
		}
		if k.state == keyHeld {
			held++
			if key, at := q.held.At(k.heldPos); at != ki || key != k.until {
				c.bad("%s is not held as it should be", where)
			}
		}
		for fi := k.flows; fi != none; fi = s.flows.Get(fi).sibling {
			f := s.flows.Get(fi)
			if open := f.pos != none || f.next != none; open != (k.state == keyOpen) || f.pos != none && f.next != none {
				c.bad("%s is in state %d and its flow of priority %d stands at %d, %d", where, k.state, f.priority, f.pos, f.next)
			}
		}
	}
	c.inKeys += n
	if q.keys.tail != older || offered != q.offered || parked != q.parked || debts != q.debts.Len() || held != q.held.Len() {
		c.bad("queue %q keys: last %d, offered %d, parked %d, debts %d, held %d; a scan finds %d, %d, %d, %d, %d", q.meta.name,
			q.keys.tail, q.offered, q.parked, q.debts.Len(), q.held.Len(), older, offered, parked, debts, held)
	}
}

// rings checks where the open flows of a queue stand.
func (c *checker) rings(q *queue) {
	s, t := c.s, c.s.tallies.Get(q.slot)
	open, standing := 0, q.heads.Len()
	for fi := q.flows.head; fi != none; fi = s.flows.Get(fi).newer {
		if f := s.flows.Get(fi); f.pos != none || f.next != none {
			open++
		}
	}
	for i := range int32(q.heads.Len()) {
		key, fi := q.heads.At(i)
		if s.flows.Get(fi).pos != i || key != servingKey(s.messages.Get(s.first(fi))) || q.meta.fair() {
			c.bad("queue %q: flow %d is not where it belongs among the heads", q.meta.name, fi)
		}
	}
	for p, head := range t.rings {
		if (head != none) != (q.rings&(1<<p) != 0) {
			c.bad("queue %q: bit %d says nothing of ring %d", q.meta.name, p, head)
		}
		for at := head; at != none; {
			f := s.flows.Get(at)
			if int(f.priority) != p || s.flows.Get(f.next).prev != at || f.deficit != 0 && at != head || f.deficit >= LimitFairWeight || !q.meta.fair() {
				c.bad("queue %q: flow %d with %d left does not belong into the ring of priority %d", q.meta.name, at, f.deficit, p)
			}
			standing++
			if at = f.next; at == head || standing > s.flows.Len() {
				break
			}
		}
	}
	if open != standing {
		c.bad("queue %q: %d flows are open, %d stand in rings or among the heads", q.meta.name, open, standing)
	}
}

// keys checks what is not of one queue.
func (c *checker) keys() {
	s := c.s
	queues, gone, purged := 0, 0, 0
	for _, slot := range s.names {
		if s.queues[slot].meta.keyed {
			queues++
		}
	}
	s.keys.Each(func(ki int32, k *keyRec) bool {
		c.blob("key", ID{}, k.text, owner(ownKey, ki))
		if s.tallies.Get(k.queue).gone {
			gone++
		}
		return true
	})
	s.flows.Each(func(_ int32, f *flow) bool {
		k := s.keys.Get(f.key)
		at := k.flows
		for at != none && s.flows.Live(at) && s.flows.Get(at) != f {
			at = s.flows.Get(at).sibling
		}
		if t := s.tallies.Get(k.queue); t.gone || k.gen != t.liveGen || at == none || s.flows.Get(at) != f {
			purged++
		}
		return true
	})
	if n := s.keys.Len(); n != c.inKeys+gone || s.keyIx.Len() != n || queues != s.keyedQueues {
		c.bad("%d keys, %d indexed, %d queues whose keys matter: queues have %d, deleted ones %d; %d", n, s.keyIx.Len(), s.keyedQueues, c.inKeys, gone, queues)
	}
	if n := s.flows.Len(); n != c.inFlows+purged {
		c.bad("%d flows: queues have %d, purged are %d", n, c.inFlows, purged)
	}
}
