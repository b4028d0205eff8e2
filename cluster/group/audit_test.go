package group

import (
	"testing"

	"github.com/quorate/quorate/fsm"
)

// audit checks the dispatcher's books against the state and the flights.
func (g *Group) audit(t testing.TB) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || !g.serving {
		return
	}
	d := &g.dispatch
	reserved, lent := map[*subscription]int32{}, map[*subscription]int32{}
	type book struct {
		adding, reserved, coming int64
		refs                     int
	}
	books := map[*queue]*book{}
	of := func(q *queue) *book {
		if books[q] == nil {
			books[q] = &book{}
		}
		return books[q]
	}
	var bytes int64
	loans := 0
	for _, f := range g.flights.list {
		bytes += int64(len(f.data))
		for i := range f.ops {
			op := &f.ops[i]
			if op.sub != nil {
				reserved[op.sub] += op.max
			}
			if op.lent != nil && op.lent == d.lent.of(op.token.Lease) {
				lent[op.lent]++
				loans++
			}
			if op.queue != nil {
				b := of(op.queue)
				b.adding += int64(op.adds)
				b.reserved += int64(op.max)
				b.refs++
			}
		}
		for _, due := range f.due {
			b := of(due.queue)
			b.adding += due.n
			b.coming += due.n
			b.refs++
		}
	}
	if got := g.inFlight.Load(); got != int64(len(g.flights.list)) || g.inFlightBytes.Load() != bytes {
		t.Errorf("audit: %d in flight of %d bytes by the counters, %d of %d by the list", got, g.inFlightBytes.Load(), len(g.flights.list), bytes)
	}
	if loans != d.lent.count {
		t.Errorf("audit: %d leases are lent on, %d by flights", d.lent.count, loans)
	}
	subs := 0
	for _, s := range d.sessions {
		for n, sub := range s.subs {
			subs++
			if d.subs[sub.consumer] != sub || sub.session != s || sub.closed || sub.consumer.Sub != n {
				t.Errorf("audit: subscription %d of %v is not the one in the index", n, s.id)
			}
		}
		for p := range s.pulls {
			of(p.queue).refs++
		}
	}
	if subs != len(d.subs) {
		t.Errorf("audit: %d subscriptions in the index, %d in sessions", len(d.subs), subs)
	}
	for c, sub := range d.subs {
		of(sub.queue).refs++
		var out int32
		g.st.ConsumerLeases(c, func(fsm.Token) bool { out++; return true })
		if out != sub.out || sub.reserved != reserved[sub] {
			t.Errorf("audit: %v has %d out and %d reserved by the books, %d and %d in truth", c, sub.out, sub.reserved, out, reserved[sub])
		}
		if sub.lent != lent[sub] || sub.lent > sub.reserved {
			t.Errorf("audit: %v has lent %d by the books and %d in truth, with %d reserved", c, sub.lent, lent[sub], sub.reserved)
		}
		if listed := sub.next != nil; listed != (sub.free() > 0) {
			t.Errorf("audit: %v listed %v with %d free", c, listed, sub.free())
		}
		for token := range sub.unstarted {
			if !g.st.Lease(token, &d.delivery) {
				t.Errorf("audit: %v keeps %v as unstarted, which is not live", c, token)
			}
		}
	}
	total := 0
	for _, q := range d.queues {
		n := 0
		for w := q.waiters.next; w != &q.waiters; w = w.next {
			n++
		}
		total += n
		b := of(q)
		if n != q.count || b.adding != q.adding || b.coming != q.coming || b.reserved != q.reserved || b.refs != q.refs {
			t.Errorf("audit: queue %s has waiters %d adding %d coming %d reserved %d refs %d by the books, %d %d %d %d %d in truth",
				q.name, q.count, q.adding, q.coming, q.reserved, q.refs, n, b.adding, b.coming, b.reserved, b.refs)
		}
		now, _ := g.time.now()
		avail, _, next := d.look(q, g.st, now)
		if q.count > 0 && (avail > 0 || next != 0) && !q.marked && q.refillAt == 0 {
			t.Errorf("audit: queue %s has %d ready for %d waiters, more at %d, and is not marked", q.name, avail, q.count, next)
		}
		if q.refillAt != 0 && d.refills.queues[q.refillIx] != q {
			t.Errorf("audit: queue %s is not among the refills where it says", q.name)
		}
	}
	for n, q := range d.numbers {
		if d.queues[q.name] != q || q.ref.Number() != n {
			t.Errorf("audit: queue %s of number %d stands for number %d", q.name, q.ref.Number(), n)
		}
	}
	if total != d.waiting {
		t.Errorf("audit: %d wait by the count, %d in truth", d.waiting, total)
	}
	for token := range d.releasing {
		if !g.st.Lease(token, &d.delivery) {
			t.Errorf("audit: %v is being released and is not live", token)
		}
	}
}

// of is the subscription that a lease stands for, nil if none.
func (l *lent) of(lease fsm.ID) *subscription {
	if l.sets == nil {
		return nil
	}
	for _, o := range l.set(lease) {
		if o.sub != nil && o.lease == lease {
			return o.sub
		}
	}
	return nil
}
