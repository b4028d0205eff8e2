package fsm

import (
	"github.com/quorate/quorate/fsm/arena"
	"github.com/quorate/quorate/fsm/table"
)

// consumer links the live leases of one subscription, oldest first. It exists while there are any.
type consumer struct {
	who            Consumer
	oldest, newest int32 // sides
	count          int32
}

// worker is the text under which leases were taken, shared by all that name it.
type worker struct {
	text  arena.Ref
	hash  uint64
	count int32
}

func (s *State) leaseOp(op *Lease) {
	var o Outcome
	ses := s.openRequest(op.Request)
	if s.admit(ses, op.Request, 0, &o) {
		o = s.leaseRun(op)
		if op.answers(&o) {
			s.rememberLease(ses, op.Request.Number, &o)
		}
		o.ID = ID{} // the tokens say it
	} else if o.Code == OK {
		s.leaseAgain(op.Consumer, &o)
	}
	s.emit(o)
}

// leaseRun hands out what is ready.
func (s *State) leaseRun(op *Lease) Outcome {
	q := s.findQueue(op.Queue)
	switch {
	case q == nil && !ValidQueueName(op.Queue):
		return refuse(InvalidArgument, FieldQueue, MaxQueueName)
	case op.Max < 1 || op.Max > MaxLeaseCount:
		return refuse(InvalidArgument, FieldMax, MaxLeaseCount)
	case op.LeaseMillis != 0 && op.LeaseMillis < MinLeaseMillis:
		return refuse(InvalidArgument, FieldLease, MinLeaseMillis)
	case op.LeaseMillis > MaxLeaseMillis:
		return refuse(InvalidArgument, FieldLease, MaxLeaseMillis)
	case !ValidText(op.Worker, MaxWorker):
		return refuse(InvalidArgument, FieldWorker, MaxWorker)
	case q == nil:
		return refuse(NotFound, FieldQueue, 0)
	}
	length := op.LeaseMillis
	if length == 0 {
		length = q.meta.options.LeaseMillis
	}
	room := op.MaxBytes
	if room <= 0 || room > MaxLeaseBytes {
		room = MaxLeaseBytes
	}
	o := Outcome{LeaseFrom: int32(len(s.fx.Leases))}
	who, by := none, none
	once := q.meta.options.Delivery == DeliverAtMostOnce
	if q.meta.keyed {
		s.unpark(q)
	}
	for o.LeaseCount < op.Max && s.grantable(q) > 0 {
		slot := s.best(q)
		if slot == none {
			break
		}
		size := s.bodyLen(s.messages.Get(slot))
		if once { // what does not fit into a frame could not be given back
			size = int64(s.arena.Size(s.messages.Get(slot).body))
		}
		if size > room && o.LeaseCount > 0 {
			break
		}
		room -= size
		if once {
			token := Token{Message: s.messages.Get(slot).id, Lease: s.handOver(q, slot)}
			if o.LeaseCount == 0 {
				o.ID = token.Lease
			}
			o.LeaseCount++
			s.fx.Leases = append(s.fx.Leases, Leased{
				Token: token, Consumer: op.Consumer, Op: s.opIndex, Slot: slot, Attempt: 1, Once: true,
			})
			continue
		}
		if who == none {
			who, by = s.consumer(op.Consumer), s.worker(op.Worker)
		}
		sl := s.take(q, slot, who, by, length)
		sd := s.sides.Get(sl)
		token := Token{Message: s.messages.Get(slot).id, Lease: sd.lease}
		if o.LeaseCount == 0 {
			o.ID = sd.lease // where the repeat of this request finds its tokens
		}
		o.LeaseCount++
		s.fx.Leases = append(s.fx.Leases, Leased{
			Token: token, Consumer: op.Consumer, Op: s.opIndex, Slot: slot, Attempt: int32(sd.attempts),
		})
	}
	return o
}

// take leases one ready message.
func (s *State) take(q *queue, slot, who, by int32, length int64) int32 {
	s.dueRemove(q, s.messages.Get(slot).side)
	s.shelter(q, slot)
	s.serveReady(q, slot, true)
	sl := s.newSide(slot)
	m := s.messages.Mut(slot)
	m.state = StateLeased
	s.countReady(q, m, -1)
	s.tallies.Mut(q.slot).leased++
	s.charge(q)

	sd := s.sides.Mut(sl)
	sd.lease = s.nextID()
	sd.attempts++
	sd.end = endNone
	sd.leasedAt = s.now
	sd.due = s.leaseTime() + length
	sd.cutoff = 0
	if m.bits&hasTimeout != 0 {
		var f fields
		f.parse(m.bits, s.arena.Get(m.body))
		sd.cutoff = s.leaseTime() + f.timeout
		sd.due = min(sd.due, sd.cutoff)
	}
	s.workers.Mut(by).count++
	s.dropWorker(sd.worker)
	sd.worker = by
	s.linkConsumer(who, sl)
	q.leases.Push(sd.due, sl)
	s.clockFix(clockLease, q)
	return sl
}

// charge counts one delivery against the queue's rate.
func (s *State) charge(q *queue) {
	t := s.tallies.Mut(q.slot)
	t.tat = q.meta.rate.take(t.tat, s.now)
}

// endLease tells the leader that a lease is over and takes it from its consumer.
func (s *State) endLease(sl int32, expired bool) {
	sd := s.sides.Get(sl)
	c := sd.consumer
	s.fx.Ended = append(s.fx.Ended, LeaseEnd{
		Token:    Token{Message: s.messages.Get(sd.message).id, Lease: sd.lease},
		Consumer: s.consumers.Get(c).who,
		Expired:  expired,
	})
	s.unlinkConsumer(sl)
}

// unlease takes a message that is out off every book of leases; what it becomes is the caller's.
func (s *State) unlease(q *queue, slot int32, end leaseEnd) {
	sl := s.messages.Get(slot).side
	s.endLease(sl, end == endExpiry)
	sd := s.sides.Mut(sl)
	q.leases.Remove(sd.heapPos)
	s.clockFix(clockLease, q)
	sd.end = end
	s.tallies.Mut(q.slot).leased--
	if q.meta.keyed {
		s.keyOut(q, s.keyText(s.messages.Get(slot)), -1)
	}
	if q.meta.options.MaxInFlight != 0 && s.unhurried(q) > 0 {
		s.tellReady(q)
	}
}

// expire ends a lease at its deadline: a failed attempt.
func (s *State) expire(q *queue, slot int32) {
	s.tallies.Mut(q.slot).expired++
	if s.messages.Get(slot).flags&flagCancelled != 0 {
		s.endCancelled(slot, endExpiry)
		return
	}
	s.unlease(q, slot, endExpiry)
	s.failed(q, slot, errLeaseExpired, -1, ReasonNone)
}

var (
	errLeaseExpired = []byte("lease expired")
	errReleased     = []byte("released too often")
	errStreamClosed = []byte("stream closed")
)

func hashConsumer(c Consumer) uint64 {
	return table.HashID(c.Session.Hi^uint64(c.Sub)<<32, c.Session.Lo)
}

// consumer is the slot of a consumer, made if need be: the caller links a lease at once.
func (s *State) consumer(who Consumer) int32 {
	if c, ok := s.findConsumer(who); ok {
		return c
	}
	c := s.consumers.Alloc()
	*s.consumers.Mut(c) = consumer{who: who, oldest: none, newest: none}
	s.consumerIx.Insert(hashConsumer(who), c)
	return c
}

func (s *State) findConsumer(who Consumer) (int32, bool) {
	return s.consumerIx.Find(hashConsumer(who), func(v int32) bool { return s.consumers.Get(v).who == who })
}

func (s *State) linkConsumer(who, sl int32) {
	c, sd := s.consumers.Mut(who), s.sides.Mut(sl)
	sd.consumer, sd.older, sd.newer = who, c.newest, none
	if c.newest != none {
		s.sides.Mut(c.newest).newer = sl
	} else {
		c.oldest = sl
	}
	c.newest = sl
	c.count++
}

func (s *State) unlinkConsumer(sl int32) {
	sd := s.sides.Mut(sl)
	who := sd.consumer
	c := s.consumers.Mut(who)
	if sd.older != none {
		s.sides.Mut(sd.older).newer = sd.newer
	} else {
		c.oldest = sd.newer
	}
	if sd.newer != none {
		s.sides.Mut(sd.newer).older = sd.older
	} else {
		c.newest = sd.older
	}
	sd.consumer, sd.older, sd.newer = none, none, none
	if c.count--; c.count == 0 {
		s.consumerIx.Delete(hashConsumer(c.who), who)
		s.consumers.Free(who)
	}
}

// worker is the slot of a worker's text, made if need be: the caller counts a use at once.
func (s *State) worker(text []byte) int32 {
	h := s.hashText(text)
	w, ok := s.workerIdx.Find(h, func(v int32) bool { return string(s.workerText(v)) == string(text) })
	if ok {
		return w
	}
	w = s.workers.Alloc()
	*s.workers.Mut(w) = worker{text: s.arena.PutBytes(owner(ownWorker, w), text), hash: h}
	s.workerIdx.Insert(h, w)
	return w
}

func (s *State) dropWorker(w int32) {
	if w == none {
		return
	}
	r := s.workers.Mut(w)
	if r.count--; r.count == 0 {
		s.workerIdx.Delete(r.hash, w)
		s.arena.Free(r.text)
		s.workers.Free(w)
	}
}
