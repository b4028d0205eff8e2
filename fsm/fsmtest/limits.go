package fsmtest

import "github.com/quorate/quorate/fsm"

// limitFaults judges the options that bound a queue.
func limitFaults(o fsm.QueueOptions) []fault {
	return []fault{
		{fsm.FieldDepth, !within(o.MaxDepth, 0, 100_000_000)},
		{fsm.FieldBytes, !within(o.MaxBytes, 0, 1<<40)},
		{fsm.FieldInFlight, !within(o.MaxInFlight, 0, 10_000_000)},
		{fsm.FieldAge, !within(o.MaxAgeMillis, 0, maxDelay)},
	}
}

// modeFaults judges the options that came with rates and modes.
func modeFaults(o fsm.QueueOptions) []fault {
	return append([]fault{
		{fsm.FieldOverflow, o.Overflow > fsm.OverflowDropOldest},
		{fsm.FieldDelivery, o.Delivery > fsm.DeliverAtMostOnce},
	}, rateFaults(o.RateMilli, o.Burst, fsm.FieldRate, fsm.FieldBurst)...)
}

// uvarint is how many bytes a number takes, seven bits in each.
func uvarint(v int64) (n int64) {
	for n = 1; v >= 128; v >>= 7 {
		n++
	}
	return n
}

// optional is how many bytes a field takes that is only written where it is not empty, with its length before it.
func optional(n int) int64 {
	if n == 0 {
		return 0
	}
	return uvarint(int64(n)) + int64(n)
}

// size is what a message counts towards its queue's max_bytes: its body and each field that is set. A task id that is the
// message's own id counts nothing, nor does the default content type where it was left out.
func (x *message) size() int64 {
	n := int64(len(x.body)) + optional(len(x.kind)) + optional(len(x.givenType)) + optional(len(x.key))
	if x.id.IsZero() || x.task != idText(x.id) {
		n += optional(len(x.task))
	}
	pairs := 0
	for _, h := range x.headers {
		pairs += int(uvarint(int64(len(h.Name)))) + len(h.Name) + int(uvarint(int64(len(h.Value)))) + len(h.Value)
	}
	n += optional(pairs)
	if x.timeout > 0 {
		n += uvarint(x.timeout)
	}
	if x.redrives > 0 || x.moved != nil { // its first id, when that was made, and how often it was redriven
		n += 16 + uvarint(x.originalEnqueuedAt) + uvarint(int64(x.redrives))
	}
	return n + optional(retrySize(x.retry))
}

// retrySize counts a policy of a message's own: its kind, and six numbers, of which those that the kind does not use are 0.
func retrySize(p fsm.RetryPolicy) int {
	n := 1 + uvarint(p.JitterMillis)
	switch p.Kind {
	case fsm.RetryDefault:
		return 0
	case fsm.RetrySchedule:
		n += uvarint(int64(len(p.Steps))) + 4
		for _, s := range p.Steps {
			n += uvarint(s)
		}
		return int(n)
	}
	n += 1 + uvarint(p.InitialMillis) + uvarint(int64(p.MaxAttempts))
	if p.Kind == fsm.RetryFixed {
		return int(n + 2)
	}
	n += uvarint(p.MaxMillis)
	if p.Kind == fsm.RetryLinear {
		return int(n + 1)
	}
	return int(n + uvarint(p.MultiplierMilli))
}

// bytes is what a queue's live messages count.
func (q *queue) bytes() (n int64) {
	for _, x := range q.messages {
		if !x.doomed {
			n += x.size()
		}
	}
	return n
}

// live counts a queue's messages, but for those that are to make room.
func (q *queue) live() (n int64) {
	for _, x := range q.messages {
		if !x.doomed {
			n++
		}
	}
	return n
}

// deep says whether max_depth keeps another message out.
func (q *queue) deep() fsm.Outcome {
	if most := q.options.MaxDepth; most > 0 && q.live() >= most {
		return fsm.Outcome{Code: fsm.QueueFull, Field: fsm.FieldDepth, Limit: most}
	}
	return fsm.Outcome{}
}

// large says whether max_bytes keeps a message of the given size out.
func (q *queue) large(size int64) fsm.Outcome {
	if most := q.options.MaxBytes; most > 0 && q.bytes()+size > most {
		return fsm.Outcome{Code: fsm.QueueFull, Field: fsm.FieldBytes, Limit: most}
	}
	return fsm.Outcome{}
}

// never says why a queue can never take a message of the given size: alone, or with what comes and goes by the ack in hand, it is
// more than the queue may hold.
func (q *queue) never(size int64) fsm.Outcome {
	messages, bytes := int64(1), size
	for _, x := range q.messages {
		if x.link {
			messages, bytes = messages+1, bytes+x.size()
		}
	}
	switch {
	case q.options.MaxDepth > 0 && messages > q.options.MaxDepth:
		return fsm.Outcome{Code: fsm.TooLarge, Field: fsm.FieldDepth, Limit: q.options.MaxDepth}
	case q.options.MaxBytes > 0 && bytes > q.options.MaxBytes:
		return fsm.Outcome{Code: fsm.TooLarge, Field: fsm.FieldBytes, Limit: q.options.MaxBytes}
	}
	return fsm.Outcome{}
}

// first is the first refusal of a list of checks. Where several refuse, which one is named is the implementation's affair.
func (m *Model) first(list ...fsm.Outcome) (first fsm.Outcome) {
	for _, o := range list {
		switch {
		case o.Code == fsm.OK:
		case first.Code == fsm.OK:
			first = o
		default:
			m.instead[[2]fsm.Outcome{first, o}] = true
		}
	}
	return first
}

// asRight says whether a refusal of one field has once been as right as that of another.
func (m *Model) asRight(a, b fsm.Field) bool {
	for pair := range m.instead {
		if pair[0].Field == a && pair[1].Field == b {
			return true
		}
	}
	return false
}

// out counts a queue's messages that are leased.
func (q *queue) out() (n int64) {
	for _, x := range q.messages {
		if x.state == fsm.StateLeased {
			n++
		}
	}
	return n
}

// slots is how many more messages may be out.
func (q *queue) slots() int64 {
	switch {
	case q.options.Paused:
		return 0
	case q.options.MaxInFlight == 0 || q.options.Delivery == fsm.DeliverAtMostOnce:
		return 1 << 40
	}
	return max(0, q.options.MaxInFlight-q.out())
}

// seeLimit notes what keeps a queue from handing out what it has.
func (m *Model) seeLimit(q *queue) {
	switch {
	case len(q.unblocked()) == 0:
	case q.options.Paused:
		m.sometimes("limit: paused")
	default:
		m.sometimes("limit: as many are out as may be")
	}
}

// seeOptions notes what a change of options means for what is there.
func (m *Model) seeOptions(q *queue, o *fsm.QueueOptions) {
	for branch, met := range map[string]bool{
		"option: a lower depth than there is":       o.MaxDepth > 0 && o.MaxDepth < int64(len(q.messages)),
		"option: fewer in flight than are out":      o.MaxInFlight > 0 && o.MaxInFlight < q.out(),
		"option: a shorter dead letter retention":   len(q.dead) > 0 && o.DeadRetentionMillis < q.options.DeadRetentionMillis,
		"option: a longer dead letter retention":    len(q.dead) > 0 && o.DeadRetentionMillis > q.options.DeadRetentionMillis,
		"option: fewer dedup keys than there are":   o.DedupMaxKeys < int64(len(q.dedup)),
		"option: fewer result bytes than there are": o.MaxResultsBytes < q.resultBytes(),
	} {
		if met {
			m.sometimes(branch)
		}
	}
}

// servable is a message that a lease may hand out.
type servable struct {
	queue string
	id    fsm.ID
	key   string // instead of the id, of all that a key's rate holds
}

// servable are the messages of all queues that a lease may hand out, as far as their limits go.
//
// What a rate holds is told of once a key, since the leader then knows when it goes; and what a key's lease leaves behind needs no
// telling. So before an entry each message of a key that is not full counts, and the key.
func (m *Model) servable(before bool) map[servable]bool {
	set := map[servable]bool{}
	for _, q := range m.queues {
		if q.slots() > 0 {
			for _, x := range q.unblocked() {
				k := q.keys[x.key]
				held := k != nil && k.hold == holdRate
				free := k == nil || k.hold != holdFull
				if held || before && free { // it goes in time, with all of its key
					set[servable{queue: q.name, key: x.key}] = true
				}
				if free && (!held || before) {
					set[servable{q.name, x.id, ""}] = true
				}
			}
		}
	}
	return set
}

// servable counts the messages that could go, one after the other, in one lease: where nothing stays out, those too that
// wait behind one that goes.
func (q *queue) servable() int64 {
	if q.options.Delivery == fsm.DeliverAtLeastOnce {
		return int64(len(q.unblocked()))
	}
	n := int64(0)
	for _, x := range q.messages {
		if x.state == fsm.StateReady {
			n++
		}
	}
	return n
}

// Leasable counts the messages of a queue that a lease would hand out now.
func (m *Model) Leasable(name string) int64 {
	q := m.queue(name)
	if q == nil {
		return 0
	}
	return min(q.slots(), q.servable(), q.rate().tokens(q.tat, m.t))
}
