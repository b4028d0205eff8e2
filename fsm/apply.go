package fsm

import "fmt"

// Apply applies one committed entry: it advances T, makes up to MaxDueMoves due moves, applies the operations in order,
// and reclaims up to MaxReclaim ended records. data is only read during the call and never kept. fx may be nil (replay).
//
// The error is non-nil only for an entry that this build cannot read (unknown format version or op, damage: it wraps
// ErrFormat) or whose index is not above the last: the node must stop; the state is unchanged then. Everything a client can
// do wrong is an Outcome, never an error.
func (s *State) Apply(index uint64, data []byte, fx *Effects) error {
	if index <= s.index {
		return fmt.Errorf("%w: entry %d is not above the last applied %d", ErrFormat, index, s.index)
	}
	if err := s.readAhead(data); err != nil {
		return fmt.Errorf("entry %d: %w", index, err)
	}
	if err := s.dec.Reset(data); err != nil {
		return fmt.Errorf("entry %d: %w", index, err)
	}
	s.telling = fx != nil
	if fx == nil {
		fx = &s.scratchFx
	}
	fx.reset()
	s.fx, s.index, s.offset, s.opIndex = fx, index, 0, 0
	s.clearParked()

	s.advance(s.dec.Now(), s.dec.Shift())
	fx.Index, fx.Time = index, s.now
	s.dueMoves()
	s.lookAtAcks()
	for ; s.dec.Next(); s.opIndex++ {
		if s.dec.key.given {
			s.applyIdempotent()
		} else {
			s.applyOp()
		}
		s.fireBatches()
		fx.OpEnd = append(fx.OpEnd, int32(len(fx.Outcomes)))
	}
	s.sweepHooks()
	s.reclaim()
	s.collect()
	fx.More = s.dueNow() || s.hooks.sweep.at != none
	s.fx = nil
	return nil
}

func (fx *Effects) reset() {
	fx.Outcomes, fx.OpEnd, fx.Leases = fx.Outcomes[:0], fx.OpEnd[:0], fx.Leases[:0]
	fx.Ended, fx.Tasks, fx.Ready = fx.Ended[:0], fx.Tasks[:0], fx.Ready[:0]
	fx.Purged, fx.Checkpoints, fx.More = fx.Purged[:0], fx.Checkpoints[:0], false
	fx.Cancelled, fx.Results = fx.Cancelled[:0], fx.Results[:0]
	fx.KV = false
}

// applyOp decodes and applies the current operation.
func (s *State) applyOp() {
	d, op := &s.dec, &s.op
	switch d.Op() {
	case opBootstrap:
		d.Bootstrap(&op.bootstrap)
		s.bootstrap(&op.bootstrap)
	case opOpenSession:
		d.OpenSession(&op.open)
		s.openSession()
	case opTouchSession:
		d.TouchSession(&op.touch)
		s.touchSession(&op.touch)
	case opCreateQueue:
		d.CreateQueue(&op.create)
		s.single(op.create.Request, func(o *Outcome) { s.createQueue(&op.create, o) })
	case opSetQueue:
		d.SetQueue(&op.set)
		s.single(op.set.Request, func(o *Outcome) { s.setQueue(&op.set, o) })
	case opChangeQueue:
		d.ChangeQueue(&op.change)
		s.single(op.change.Request, func(o *Outcome) { s.changeQueue(&op.change, o) })
	case opDeleteQueue:
		d.DeleteQueue(&op.delete)
		s.single(op.delete.Request, func(o *Outcome) { s.deleteQueue(&op.delete, o) })
	case opPurgeQueue:
		d.PurgeQueue(&op.purge)
		s.single(op.purge.Request, func(o *Outcome) { s.purgeQueue(&op.purge, o) })
	case opEnqueue:
		d.Enqueue(&op.enqueue)
		s.enqueueBatch(&op.enqueue)
	case opLease, opPull:
		d.Lease(&op.lease)
		s.leaseOp(&op.lease)
	case opAck, opAckMapped:
		d.Ack(&op.ack)
		s.emit(s.ack(&op.ack))
	case opNack, opNackMapped:
		d.Nack(&op.nack)
		s.emit(s.nack(&op.nack))
	case opExtend:
		d.Extend(&op.extend)
		s.emit(s.extend(&op.extend))
	case opRelease, opReleaseSpent:
		d.Release(&op.release)
		s.emit(s.release(&op.release))
	case opPushResult:
		d.PushResult(&op.push)
		s.single(op.push.Request, func(o *Outcome) { *o = s.pushResult(&op.push) })
	case opDeadRequeue:
		d.DeadRequeue(&op.deadRequeue)
		s.deadRequeue(&op.deadRequeue)
	case opDeadDelete:
		d.DeadDelete(&op.deadDelete)
		s.deadDelete(&op.deadDelete)
	case opDeadPurge:
		d.DeadPurge(&op.deadPurge)
		s.single(op.deadPurge.Request, func(o *Outcome) { s.deadPurge(&op.deadPurge, o) })
	case opDeadEdit:
		d.DeadEdit(&op.deadEdit)
		s.single(op.deadEdit.Request, func(o *Outcome) { s.deadEdit(&op.deadEdit, o) })
	case opCheckpoint:
		d.Checkpoint(&op.checkpoint)
		s.fx.Checkpoints = append(s.fx.Checkpoints, op.checkpoint.Nonce)
		s.emit(Outcome{})
	case opNothing:
		d.Nothing(&op.nothing)
		s.emit(Outcome{})
	case opCancel:
		d.Cancel(&op.cancel)
		s.single(op.cancel.Request, func(o *Outcome) { *o = s.cancel(&op.cancel) })
	case opReschedule:
		d.Reschedule(&op.reschedule)
		s.single(op.reschedule.Request, func(o *Outcome) { *o = s.reschedule(&op.reschedule) })
	case opBatchCreate:
		d.BatchCreate(&op.batchCreate)
		s.single(op.batchCreate.Request, func(o *Outcome) { *o = s.batchCreate(&op.batchCreate) })
	case opBatchSeal:
		d.BatchSeal(&op.batchSeal)
		s.single(op.batchSeal.Request, func(o *Outcome) { *o = s.batchSeal(&op.batchSeal) })
	case opKVDelete:
		d.KVDelete(&op.kvDelete)
		s.single(op.kvDelete.Request, func(o *Outcome) { *o = s.kvDelete(&op.kvDelete) })
	case opCreateSchedule:
		c := &op.schedule.create
		d.CreateSchedule(c)
		s.single(c.Request, func(o *Outcome) { s.writeSchedule(&c.Schedule, false, o) })
	case opSetSchedule:
		c := &op.schedule.set
		d.SetSchedule(c)
		s.single(c.Request, func(o *Outcome) { s.writeSchedule(&c.Schedule, true, o) })
	case opDeleteSchedule:
		c := &op.schedule.delete
		d.DeleteSchedule(c)
		s.single(c.Request, func(o *Outcome) { s.deleteSchedule(c, o) })
	case opFireSchedule:
		d.FireSchedule(&op.schedule.fire)
		s.emit(s.fireSchedule(&op.schedule.fire))
	}
}

func (s *State) emit(o Outcome) { s.fx.Outcomes = append(s.fx.Outcomes, o) }

// single runs an operation that has one outcome under its request id.
func (s *State) single(r Request, run func(o *Outcome)) {
	o := &s.outcome
	*o = Outcome{}
	ses := s.openRequest(r)
	if s.admit(ses, r, 0, o) {
		run(o)
		s.remember(ses, r.Number, o)
	}
	s.emit(*o)
}

func (s *State) bootstrap(op *Bootstrap) {
	if s.cluster != [16]byte{} || s.epoch != 0 {
		s.emit(Outcome{Code: FailedPrecondition})
		return
	}
	if op.Cluster == [16]byte{} {
		s.emit(Outcome{Code: InvalidArgument})
		return
	}
	s.cluster, s.epoch = op.Cluster, op.Epoch
	s.emit(Outcome{})
}

// refuse makes a refusal that names a field and, where there is one, the limit.
func refuse(c Code, f Field, limit int64) Outcome { return Outcome{Code: c, Field: f, Limit: limit} }
