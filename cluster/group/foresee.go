package group

import (
	"github.com/quorate/quorate/fsm"
)

// foresee reads the entry under construction for what it will make ready in queues that somebody waits for, so that
// leases for it ride along.
func (d *dispatcher) foresee(st *fsm.State, pk *packer, f *flight) {
	if d.waiting == 0 && len(d.subs) == 0 || len(f.ops) == 0 {
		return
	}
	dec := &pk.decoder
	if dec.Reset(pk.buf) != nil {
		return
	}
	for i := 0; dec.Next(); i++ {
		_, _, unsure := dec.Key() // it may have been carried out before, and then nothing comes of it
		switch op := &f.ops[i]; dec.Op() {
		case opEnqueue:
			dec.Enqueue(&pk.enqueue)
			n, guesses := int32(0), int32(0)
			q := d.queues[string(pk.enqueue.Queue)]
			found := q != nil && q.wanted() && d.find(q, st)
			var paused, limited, keyed bool
			if found {
				paused, limited = st.Throttled(q.ref)
				keyed = st.KeysMatter(q.ref)
			}
			for j := range pk.enqueue.Messages {
				m := &pk.enqueue.Messages[j]
				if keyed && st.KeyParked(q.ref, m.Key) {
					continue
				}
				if m.DelayMillis <= 0 && m.DueAt == 0 {
					n++
					if m.HasDedup || len(m.TaskID) > 0 { // may be there already
						guesses++
					}
				}
			}
			if found {
				switch {
				case paused:
					n = 0
				case limited:
					guesses = n
				}
				switch st.QueueOrdering(q.ref) { // most may wait for others
				case fsm.OrderFIFO:
					n = min(n, 1)
					guesses = n
				case fsm.OrderPerKey:
					guesses = n
				}
			}
			if unsure {
				guesses = n
			}
			d.expect(q, op, n, guesses)
		case opReleaseNumber:
			dec.Release(&pk.release)
			op.frees, op.token = !unsure, pk.release.Token
			if st.Lease(pk.release.Token, &d.delivery) {
				d.returned(st, op, unsure)
			}
		case opAck:
			dec.Ack(&pk.ack)
			op.frees, op.token = !unsure && pk.ack.Frees(), pk.ack.Token
			var q *queue
			n := int32(0)
			for j := range pk.ack.Then { // those of the first queue that somebody waits for; others need a second commit
				t := &pk.ack.Then[j]
				if q == nil {
					q = d.queues[string(t.Queue)]
				}
				if q != nil && q.name == string(t.Queue) && t.Message.DelayMillis <= 0 && t.Message.DueAt == 0 {
					n++
				}
			}
			guesses := int32(0)
			if q != nil && q.wanted() && d.find(q, st) {
				switch paused, limited := st.Throttled(q.ref); {
				case paused:
					n = 0
				case limited || st.QueueOrdering(q.ref) != fsm.OrderUnordered:
					guesses = n
				}
			}
			if n == 0 || !q.wanted() { // if nothing else, the message that waits for this one
				if name := st.Holder(pk.ack.Token); name != "" {
					q, n, guesses = d.queues[name], 1, 1
				}
			}
			if unsure {
				guesses = n
			}
			d.expect(q, op, n, guesses)
		case opNack:
			dec.Nack(&pk.nack)
			op.frees, op.token = !unsure && pk.nack.Frees(), pk.nack.Token
		default:
			dec.Skip()
		}
	}
}

// returned books the message of d.delivery, which an operation gives back. Where keys matter its key's rate may hold it.
func (d *dispatcher) returned(st *fsm.State, op *flightOp, unsure bool) {
	q, guesses := d.queues[d.delivery.Queue], int32(0)
	if q != nil && q.wanted() && d.find(q, st) {
		if unsure || st.KeysMatter(q.ref) {
			guesses = 1
		}
	}
	d.expect(q, op, 1, guesses)
}

// expect books n messages that an operation should make ready, guesses of which may well not come.
func (d *dispatcher) expect(q *queue, op *flightOp, n, guesses int32) {
	if q == nil || !q.wanted() || n == 0 {
		return
	}
	q.refs++
	q.adding += int64(n)
	q.guessed += int64(guesses)
	op.queue, op.adds, op.guesses = q, n, guesses
	d.mark(q)
}

// What is due is moved by whatever entry comes next: for this many queues with somebody waiting, it carries leases for this many
// messages each.
const (
	dueQueues = 16
	dueMost   = 512
)

// coming is how many messages of a queue an entry is expected to make ready by its due moves.
type coming struct {
	queue *queue
	n     int64
}

// foreseeDue has leases ride along with the due moves of an entry stamped T = now or later. Not all that is due becomes ready, and
// some may be due in entries in flight that were stamped earlier than they were counted: a wrong guess costs a lease operation
// that finds nothing, so it is made for subscriptions only. A pull that found nothing would be over, though it was to wait.
func (d *dispatcher) foreseeDue(st *fsm.State, now int64, f *flight) {
	for _, q := range d.queues { // in an order that differs each time, so all get their turn
		if len(f.due) == dueQueues {
			return
		}
		if q.count == 0 || !d.find(q, st) {
			continue
		}
		n := int64(st.DueBy(q.ref, now, dueMost)) - q.coming
		if paused, _ := st.Throttled(q.ref); paused || n <= 0 {
			continue
		}
		if st.QueueOrdering(q.ref) == fsm.OrderFIFO {
			n = 1
		}
		q.refs++
		q.coming += n
		q.adding += n
		q.guessed += n
		f.due = append(f.due, coming{q, n})
		d.mark(q)
	}
}
