package group

import "github.com/quorate/quorate/fsm"

// An entry that ends a lease may hand out the next one of the same window: the operations that end leases are before the lease
// operations in it. What the dispatcher deals in advance of such an end is lent to the subscription, for this entry alone, and
// counts in its window until the end of that very lease has been applied, however it came about.
//
// That keeps the window exact. A token is lent on once at a time, only while its lease is live in the applied state, and only for
// operations that leave no live lease behind whatever comes before them (fsm.Ack.Frees): a lease that has ended never comes back. An
// entry that deals more than it lends has that much in reserved; so none relies on the ends in another, which raft may refuse.

// lentSets and lentWays are the size of the table of tokens lent on: of those that fall into one set, so many can be lent on at once. The
// others wait for the next entry, as all would without it.
const (
	lentSets = 1024 // a power of two
	lentWays = 4
)

// lent is the tokens whose ends have been lent on. At full speed there is one for each ack, so it is a table and not a map.
type lent struct {
	sets  [][lentWays]loan // nil: nothing lent yet
	count int
}

type loan struct {
	lease fsm.ID
	sub   *subscription // nil: free
}

func (l *lent) set(lease fsm.ID) *[lentWays]loan {
	h := (lease.Lo ^ lease.Hi*0x9e3779b97f4a7c15) * 0xff51afd7ed558ccd
	return &l.sets[h>>32&(lentSets-1)]
}

// add has a lease stand for one of sub; false: it does for one already, or there is no room.
func (l *lent) add(lease fsm.ID, sub *subscription) bool {
	if l.sets == nil {
		l.sets = make([][lentWays]loan, lentSets)
	}
	var free *loan
	set := l.set(lease)
	for i := range set {
		switch o := &set[i]; {
		case o.sub == nil:
			free = o
		case o.lease == lease:
			return false
		}
	}
	if free == nil {
		return false
	}
	*free = loan{lease, sub}
	l.count++
	sub.lent++
	return true
}

// remove takes a lease out, if it is there.
func (l *lent) remove(lease fsm.ID) {
	if l.count == 0 {
		return
	}
	set := l.set(lease)
	for i := range set {
		if o := &set[i]; o.sub != nil && o.lease == lease {
			o.sub.lent--
			*o = loan{}
			l.count--
			return
		}
	}
}

// lend opens windows for the entry at hand by what its operations will free, as far as there is something to lease.
func (d *dispatcher) lend(st *fsm.State, now int64, f *flight) (lends bool) {
	var sub *subscription
	for i := range f.ops {
		op := &f.ops[i]
		if !op.frees {
			continue
		}
		who, live := st.HeldBy(op.token)
		if !live {
			continue
		}
		if sub == nil || sub.consumer != who {
			if sub = d.subs[who]; sub == nil {
				continue
			}
		}
		q := sub.queue
		if q.outlooked != f.number { // once an entry
			q.outlooked, q.lendable = f.number, 0
			if d.find(q, st) && !st.AtMostOnce(q.ref) {
				q.lendable, _, _ = d.look(q, st, now)
			}
		}
		// A window that is over full, since it was made smaller, is opened by what has been applied alone.
		if !sub.served() || sub.room() < 0 || int64(sub.room()) >= q.lendable {
			continue
		}
		if d.lent.add(op.token.Lease, sub) {
			op.lent = sub
			lends = true
			d.appetite(sub)
		}
	}
	return lends
}

// withdraw takes back what was lent and not dealt.
func (d *dispatcher) withdraw(f *flight) {
	for i := len(f.ops) - 1; i >= 0; i-- {
		op := &f.ops[i]
		if sub := op.lent; sub != nil && sub.room() > 0 {
			d.lent.remove(op.token.Lease)
			op.lent = nil
			if sub.free() <= 0 {
				d.delist(sub.queue, &sub.waiter)
			}
		}
	}
}

// repay ends what a flight has lent: of one that was applied, the ends of leases have by then.
func (d *dispatcher) repay(f *flight) {
	for i := range f.ops {
		op := &f.ops[i]
		if sub := op.lent; sub != nil && d.lent.count > 0 {
			d.lent.remove(op.token.Lease)
			if sub.free() <= 0 {
				d.delist(sub.queue, &sub.waiter)
			}
		}
	}
}
