package fsm

// Refusal is a kind of refusal of a message by the queue that it was for. Numbers are part of the snapshot format and are only ever
// added.
type Refusal uint8

// Kinds of refusals. A queue counts each.
const (
	RefusedInvalid  Refusal = iota // a field of the message, by itself or by the queue's order
	RefusedTooLarge                // it would not fit in the empty queue
	RefusedTaskID                  // its task id is taken
	RefusedDedupKey                // its dedup key stands for other content
	RefusedDepth                   // max_depth
	RefusedBytes                   // max_bytes
	RefusedTasks                   // MaxQueueMessages
	RefusedDead                    // max_dead
	RefusedResults                 // max_results_bytes
	RefusedDedup                   // dedup_max_keys
	RefusedKeyDebts                // keys in the debt of rate_per_key
	RefusedKV                      // the table of keys, or its room
	RefusedBatch                   // the batch that it names is unknown, sealed or full
	RefusedGroup                   // a limit of the group
	RefusedOther
	refusalEnd
)

// Refusals are all kinds.
const Refusals = int(refusalEnd)

// refusalOf is the kind of a refusal.
func refusalOf(o *Outcome) Refusal {
	switch o.Field {
	case FieldBatchID, FieldMembers:
		return RefusedBatch
	case FieldKV:
		return RefusedKV
	}
	switch o.Code {
	case InvalidArgument:
		return RefusedInvalid
	case TooLarge:
		return RefusedTooLarge
	case Overloaded:
		return RefusedGroup
	case AlreadyExists:
		switch o.Field {
		case FieldTaskID:
			return RefusedTaskID
		case FieldDedupKey:
			return RefusedDedupKey
		}
	case QueueFull:
		switch o.Field {
		case FieldDepth:
			return RefusedDepth
		case FieldBytes:
			return RefusedBytes
		case FieldTasks:
			return RefusedTasks
		case FieldDead:
			return RefusedDead
		case FieldResults:
			return RefusedResults
		case FieldDedup:
			return RefusedDedup
		case FieldRatePerKey:
			return RefusedKeyDebts
		}
	}
	return RefusedOther
}

// countRefused counts a message that a queue was not given.
func (s *State) countRefused(q *queue, o *Outcome) {
	t := s.tallies.Mut(q.slot)
	t.refused++
	t.refusedBy[refusalOf(o)]++
}

// writeRefusals writes what a queue refused by kind, if anything: as many numbers as this build knows kinds.
func (v *View) writeRefusals(f *frameWriter, slot int32) {
	t := v.tallies.Get(slot)
	if t.refused == 0 {
		return
	}
	f.record()
	f.uvarint(uint64(v.metas[slot].number))
	f.u8(uint8(refusalEnd))
	for _, n := range t.refusedBy {
		f.varint(n)
	}
}

func (rs *restorer) refusals() {
	s, f := rs.s, rs.f
	var last uint32
	for f.more() {
		q := rs.queue()
		kinds := f.u8()
		if f.err() != nil {
			return
		}
		if q.meta.number <= last || kinds != uint8(refusalEnd) {
			f.fail("refusals of queue %q are out of order, or of %d kinds, want %d", q.meta.name, kinds, refusalEnd)
			return
		}
		last = q.meta.number
		t := s.tallies.Mut(q.slot)
		for i := range t.refusedBy {
			if t.refusedBy[i] = f.varint(); t.refusedBy[i] < 0 || t.refusedBy[i] > t.refused {
				f.fail("queue %q has refused %d of kind %d, and %d in all", q.meta.name, t.refusedBy[i], i, t.refused)
			}
		}
		if f.err() != nil {
			return
		}
	}
	for _, q := range s.queues {
		if q == nil || f.err() != nil {
			continue
		}
		if t := s.tallies.Get(q.slot); t.refusedInKinds() != t.refused {
			f.fail("queue %q has refused %d, and %d by kind", q.meta.name, t.refused, t.refusedInKinds())
		}
	}
}

// refusedInKinds is the sum over all kinds.
func (t *tally) refusedInKinds() (n int64) {
	for _, k := range t.refusedBy {
		n += k
	}
	return n
}
