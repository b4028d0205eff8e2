package fsm

import "encoding/binary"

// Each method reads the operation that Next has found into *op: every field is overwritten, and the slices that op has
// (Messages and the Headers in them, Steps, Then, IDs) are used again. Bytes alias the entry.

// Bootstrap reads a Bootstrap.
func (d *Decoder) Bootstrap(op *Bootstrap) {
	d.take(opBootstrap)
	copy(op.Cluster[:], d.raw(16))
	op.Epoch = 0
	if b := d.raw(2); b != nil {
		op.Epoch = binary.LittleEndian.Uint16(b)
	}
}

// OpenSession reads an OpenSession.
func (d *Decoder) OpenSession(*OpenSession) { d.take(opOpenSession) }

// TouchSession reads a TouchSession.
func (d *Decoder) TouchSession(op *TouchSession) {
	d.take(opTouchSession)
	op.Session = d.id()
}

// CreateQueue reads a CreateQueue.
func (d *Decoder) CreateQueue(op *CreateQueue) {
	d.take(opCreateQueue)
	d.request(&op.Request)
	op.Name = d.bytes()
	d.options(&op.Options)
}

// SetQueue reads a SetQueue.
func (d *Decoder) SetQueue(op *SetQueue) {
	d.take(opSetQueue)
	d.request(&op.Request)
	op.Name = d.bytes()
	d.options(&op.Options)
}

// DeleteQueue reads a DeleteQueue.
func (d *Decoder) DeleteQueue(op *DeleteQueue) {
	d.take(opDeleteQueue)
	d.request(&op.Request)
	op.Name = d.bytes()
}

// PurgeQueue reads a PurgeQueue.
func (d *Decoder) PurgeQueue(op *PurgeQueue) {
	d.take(opPurgeQueue)
	d.request(&op.Request)
	op.Name = d.bytes()
}

// minMessage is the size of the smallest encoding of a message: its presence bits and the length of its body.
const minMessage = 2

// letGo drops what a message of an earlier batch has of its entry, and keeps its slices for the next long batch: without
// it each place of the longest batch would hold on to the last entry that had so many messages.
func (m *Message) letGo() {
	m.TaskID, m.Kind, m.ContentType, m.Body, m.Key = nil, nil, nil, nil, nil
	clear(m.Headers)
	m.Headers = m.Headers[:0]
	clear(m.Keys)
	m.Keys = m.Keys[:0]
}

// Enqueue reads an Enqueue.
func (d *Decoder) Enqueue(op *Enqueue) {
	d.take(opEnqueue)
	d.request(&op.Request)
	op.Queue = d.bytes()
	op.AutoCreate = d.bool()
	n := d.count("messages", minMessage, formatMessages)
	for i := n; i < len(op.Messages); i++ {
		op.Messages[i].letGo()
	}
	op.Messages = op.Messages[:0]
	for range n {
		if d.scan {
			d.message(&d.scratch.message)
			continue
		}
		if len(op.Messages) < cap(op.Messages) { // has the slices of an earlier batch
			op.Messages = op.Messages[:len(op.Messages)+1]
		} else {
			op.Messages = append(op.Messages, Message{})
		}
		d.message(&op.Messages[len(op.Messages)-1])
		if d.err != nil {
			return
		}
	}
}

// Lease reads a Lease, one that waits too.
func (d *Decoder) Lease(op *Lease) {
	if op.Waits = d.op == opPull; op.Waits {
		d.take(opPull)
	} else {
		d.take(opLease)
	}
	d.request(&op.Request)
	op.Queue = d.bytes()
	op.Consumer.Session = d.id()
	sub := d.uvarint()
	if sub > 1<<32-1 {
		d.fail("Lease: subscription %d does not fit in 32 bits", sub)
	}
	op.Consumer.Sub = uint32(sub)
	op.Worker = d.bytes()
	op.Max = d.int32(d.varint())
	op.MaxBytes = d.varint()
	op.LeaseMillis = d.varint()
}

// Ack reads an Ack, one of a mapping too.
func (d *Decoder) Ack(op *Ack) {
	mapped := d.op == opAckMapped
	if mapped {
		d.take(opAckMapped)
	} else {
		d.take(opAck)
	}
	op.Mapping = 0
	op.Token = d.token()
	op.Result = Result{}
	if op.HasResult = d.bool(); op.HasResult {
		d.result(&op.Result)
	}
	n := d.count("then messages", 1+minMessage, formatMessages)
	for i := n; i < len(op.Then); i++ {
		op.Then[i].Queue = nil
		op.Then[i].Message.letGo()
	}
	op.Then = op.Then[:0]
	for range n {
		if d.scan {
			d.bytes()
			d.message(&d.scratch.message)
			continue
		}
		if len(op.Then) < cap(op.Then) {
			op.Then = op.Then[:len(op.Then)+1]
		} else {
			op.Then = append(op.Then, ThenMessage{})
		}
		t := &op.Then[len(op.Then)-1]
		t.Queue = d.bytes()
		d.message(&t.Message)
		if d.err != nil {
			return
		}
	}
	op.ThenAutoCreate = d.bool()
	if mapped {
		op.Mapping = d.generation()
	}
}

// Nack reads a Nack, one of a mapping too.
func (d *Decoder) Nack(op *Nack) {
	mapped := d.op == opNackMapped
	if mapped {
		d.take(opNackMapped)
	} else {
		d.take(opNack)
	}
	op.Token = d.token()
	op.Error = d.bytes()
	op.DelayMillis = d.varint()
	op.Permanent = d.bool()
	if op.Mapping = 0; mapped {
		op.Mapping = d.generation()
	}
}

// Extend reads an Extend.
func (d *Decoder) Extend(op *Extend) {
	d.take(opExtend)
	op.Token = d.token()
	op.LeaseMillis = d.varint()
}

// Release reads a Release.
func (d *Decoder) Release(op *Release) {
	if op.Spent = d.op == opReleaseSpent; op.Spent {
		d.take(opReleaseSpent)
	} else {
		d.take(opRelease)
	}
	op.Token = d.token()
}

// PushResult reads a PushResult.
func (d *Decoder) PushResult(op *PushResult) {
	d.take(opPushResult)
	d.request(&op.Request)
	op.Queue, op.TaskID, op.Kind = d.bytes(), d.bytes(), d.bytes()
	d.result(&op.Result)
}

// DeadRequeue reads a DeadRequeue.
func (d *Decoder) DeadRequeue(op *DeadRequeue) {
	d.take(opDeadRequeue)
	d.request(&op.Request)
	op.Queue = d.bytes()
	op.IDs = d.ids(op.IDs)
}

// DeadDelete reads a DeadDelete.
func (d *Decoder) DeadDelete(op *DeadDelete) {
	d.take(opDeadDelete)
	d.request(&op.Request)
	op.Queue = d.bytes()
	op.IDs = d.ids(op.IDs)
}

// DeadPurge reads a DeadPurge.
func (d *Decoder) DeadPurge(op *DeadPurge) {
	d.take(opDeadPurge)
	d.request(&op.Request)
	op.Queue = d.bytes()
}

// DeadEdit reads a DeadEdit.
func (d *Decoder) DeadEdit(op *DeadEdit) {
	d.take(opDeadEdit)
	d.request(&op.Request)
	op.Queue = d.bytes()
	op.ID = d.id()
	fields := d.uvarint()
	if fields > 1<<16-1 {
		d.fail("DeadEdit: fields %#x do not fit in 16 bits", fields)
	}
	op.Fields = EditFields(fields)
	d.message(&op.Message)
}

// Checkpoint reads a Checkpoint.
func (d *Decoder) Checkpoint(op *Checkpoint) {
	d.take(opCheckpoint)
	op.Nonce = 0
	if b := d.raw(8); b != nil {
		op.Nonce = binary.LittleEndian.Uint64(b)
	}
}

// Skip passes over the current operation, which is checked as strictly as if it were read.
func (d *Decoder) Skip() {
	d.scan = true
	s := &d.scratch
	switch d.op {
	case opBootstrap:
		d.Bootstrap(&s.bootstrap)
	case opOpenSession:
		d.OpenSession(&s.open)
	case opTouchSession:
		d.TouchSession(&s.touch)
	case opCreateQueue:
		d.CreateQueue(&s.create)
	case opSetQueue:
		d.SetQueue(&s.set)
	case opChangeQueue:
		d.ChangeQueue(&s.change)
	case opDeleteQueue:
		d.DeleteQueue(&s.del)
	case opPurgeQueue:
		d.PurgeQueue(&s.purge)
	case opEnqueue:
		d.Enqueue(&s.enqueue)
	case opLease, opPull:
		d.Lease(&s.lease)
	case opAck, opAckMapped:
		d.Ack(&s.ack)
	case opNack, opNackMapped:
		d.Nack(&s.nack)
	case opExtend:
		d.Extend(&s.extend)
	case opRelease, opReleaseSpent:
		d.Release(&s.release)
	case opPushResult:
		d.PushResult(&s.push)
	case opDeadRequeue:
		d.DeadRequeue(&s.deadRequeue)
	case opDeadDelete:
		d.DeadDelete(&s.deadDelete)
	case opDeadPurge:
		d.DeadPurge(&s.deadPurge)
	case opCheckpoint:
		d.Checkpoint(&s.checkpoint)
	case opNothing:
		d.Nothing(&s.nothing)
	case opCancel:
		d.Cancel(&s.cancel)
	case opReschedule:
		d.Reschedule(&s.reschedule)
	case opDeadEdit:
		d.DeadEdit(&s.deadEdit)
	case opBatchCreate:
		d.BatchCreate(&s.batchCreate)
	case opBatchSeal:
		d.BatchSeal(&s.batchSeal)
	case opKVDelete:
		d.KVDelete(&s.kvDelete)
	case opCreateSchedule:
		d.CreateSchedule(&s.schedule.create)
	case opSetSchedule:
		d.SetSchedule(&s.schedule.set)
	case opDeleteSchedule:
		d.DeleteSchedule(&s.schedule.delete)
	case opFireSchedule:
		d.FireSchedule(&s.schedule.fire)
	}
	d.scan = false
}

// value reads the current operation into a new value.
func (d *Decoder) value() Op {
	switch d.op {
	case opBootstrap:
		return read(d.Bootstrap)
	case opOpenSession:
		return read(d.OpenSession)
	case opTouchSession:
		return read(d.TouchSession)
	case opCreateQueue:
		return read(d.CreateQueue)
	case opSetQueue:
		return read(d.SetQueue)
	case opChangeQueue:
		return read(d.ChangeQueue)
	case opDeleteQueue:
		return read(d.DeleteQueue)
	case opPurgeQueue:
		return read(d.PurgeQueue)
	case opEnqueue:
		return read(d.Enqueue)
	case opLease, opPull:
		return read(d.Lease)
	case opAck, opAckMapped:
		return read(d.Ack)
	case opNack, opNackMapped:
		return read(d.Nack)
	case opExtend:
		return read(d.Extend)
	case opRelease, opReleaseSpent:
		return read(d.Release)
	case opPushResult:
		return read(d.PushResult)
	case opDeadRequeue:
		return read(d.DeadRequeue)
	case opDeadDelete:
		return read(d.DeadDelete)
	case opDeadPurge:
		return read(d.DeadPurge)
	case opCheckpoint:
		return read(d.Checkpoint)
	case opNothing:
		return read(d.Nothing)
	case opCancel:
		return read(d.Cancel)
	case opReschedule:
		return read(d.Reschedule)
	case opDeadEdit:
		return read(d.DeadEdit)
	case opBatchCreate:
		return read(d.BatchCreate)
	case opBatchSeal:
		return read(d.BatchSeal)
	case opKVDelete:
		return read(d.KVDelete)
	case opCreateSchedule:
		return read(d.CreateSchedule)
	case opSetSchedule:
		return read(d.SetSchedule)
	case opDeleteSchedule:
		return read(d.DeleteSchedule)
	case opFireSchedule:
		return read(d.FireSchedule)
	}
	panic("fsm: no value for an operation that Next let through")
}

func read[T any, P interface {
	*T
	Op
}](f func(P)) Op {
	p := P(new(T))
	f(p)
	return p
}
