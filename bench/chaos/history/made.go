package history

import (
	"fmt"
	"maps"
	"slices"

	"github.com/quorate/quorate/fsm"
)

// made follows the ids that an entry gives out, which are numbered from 0: an ack's outcome does not tell those of the
// messages that it enqueued.
type made struct {
	st     *fsm.State
	index  uint64
	next   uint32
	fired  []uint32 // offsets of callbacks and of what was moved to dead-letter queues
	hidden uint32   // messages that acks may have enqueued and that are gone
}

// callbacks tells which batches called back in the entry.
func (d *made) callbacks(to []Effect, batches map[fsm.ID]bool) []Effect {
	type called struct {
		batch fsm.BatchInfo
		e     Effect
	}
	var all []called
	for id := range batches {
		var b fsm.BatchInfo
		if !d.st.Batch(id, &b) || b.Callback.IsZero() {
			continue
		}
		delete(batches, id)
		e := Effect{
			Op: Callback, Index: d.index, Batch: id.String(), Message: b.Callback.String(),
			Note: fmt.Sprintf("%d members: %d succeeded, %d dead, %d cancelled", b.Added, b.Succeeded, b.Dead, b.Cancelled),
		}
		var in fsm.Info
		if d.st.Task("", []byte(e.Message), &in) && in.State != fsm.StateDone {
			e.Queue, e.Body = in.Queue, Sum(in.Body)
		}
		all = append(all, called{b, e})
	}
	slices.SortFunc(all, func(a, b called) int { return a.batch.Callback.Compare(b.batch.Callback) })
	for _, c := range all {
		to = append(to, c.e)
		d.fired = append(d.fired, c.batch.Callback.Offset())
	}
	return to
}

// note takes account of an operation.
func (d *made) note(out []fsm.Outcome, leases []fsm.Leased) {
	for i := range out {
		o := &out[i]
		if o.ID.Index() == d.index {
			d.next = max(d.next, o.ID.Offset()+1)
		}
		for _, l := range leases[o.LeaseFrom : o.LeaseFrom+o.LeaseCount] {
			if l.Token.Lease.Index() == d.index {
				d.next = max(d.next, l.Token.Lease.Offset()+1)
			}
		}
	}
}

// chain looks up what an ack has enqueued. Nobody can have done anything to it yet, but that a later operation of the entry may have purged
// or deleted the queue it is in: then it is not to be seen whether this was the first ack or its repeat, and the judge is told what the
// message would be.
func (d *made) chain(to []Effect, ack *fsm.Ack, later []fsm.Op) []Effect {
	for i := range ack.Then {
		th := &ack.Then[i]
		e := describe(d.index, string(th.Queue), &th.Message)
		e.Op, e.Token = Chain, ack.Token.String()
		for offset := d.next; offset <= d.next+d.hidden+uint32(len(d.fired)); offset++ {
			id := fsm.MakeID(d.st.Epoch(), 0, d.index, offset)
			var in fsm.Info
			if !slices.Contains(d.fired, offset) && d.st.Task("", []byte(id.String()), &in) && in.Queue == e.Queue && Sum(in.Body) == e.Body {
				e.Message = id.String()
				d.next = offset + 1
				break
			}
		}
		if e.Message == "" && slices.ContainsFunc(later, func(op fsm.Op) bool { return sweeps(op, e.Queue) }) {
			d.hidden++
			e.Made = fsm.MakeID(d.st.Epoch(), 0, d.index, hiddenFrom+d.hidden).String()
		}
		to = append(to, e)
	}
	return to
}

// hiddenFrom is where the offsets begin of messages whose own are not known.
const hiddenFrom = 1 << 30

// sweeps says whether an operation takes what waits in a queue.
func sweeps(op fsm.Op, queue string) bool {
	switch op := op.(type) {
	case *fsm.PurgeQueue:
		return string(op.Name) == queue
	case *fsm.DeleteQueue:
		return string(op.Name) == queue
	}
	return false
}

// causes are why messages die, as clients see it.
var causes = map[fsm.DeadReason]string{
	fsm.ReasonMaxAttempts: "max_attempts", fsm.ReasonPermanent: "permanent", fsm.ReasonExpired: "expired",
	fsm.ReasonOverflow: "overflow", fsm.ReasonMapping: "mapping",
}

// letters follows what is moved to dead-letter queues.
type letters struct {
	moved map[string]int64 // how many have come to each of them
	from  map[fsm.ID]bool  // messages of queues that name one, whose tasks have ended, or may have when they came back: one may die all the same
}

// buried tells which messages the entry moved to a dead-letter queue. Nobody can have done anything to them there yet.
func (d *made) buried(to []Effect, ends []fsm.TaskEnd, l *letters) []Effect {
	for _, end := range ends {
		if !end.Message.IsZero() && d.st.QueueName(end.Queue) != "" && d.st.QueueOptions(end.Queue).DeadLetterQueue != "" {
			l.from[end.Message] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.moved)) {
		n, ok := d.st.QueueNumber([]byte(name))
		if !ok {
			l.moved[name] = 0
			continue
		}
		count := d.st.Stats(n).MovedIn
		if count == l.moved[name] {
			continue
		}
		l.moved[name] = count
		var in fsm.Info
		for _, id := range slices.SortedFunc(maps.Keys(l.from), fsm.ID.Compare) {
			if !d.st.DeadLetter(n, id, &in) || in.Origin == "" || in.ID.Index() != d.index || in.ID == id {
				continue
			}
			to = append(to, Effect{
				Op: Bury, Index: d.index, Message: id.String(), Made: in.ID.String(), Queue: in.Queue, Origin: in.Origin,
				Reason: causes[in.Reason], Body: Sum(in.Body),
			})
			d.fired = append(d.fired, in.ID.Offset())
			delete(l.from, id)
		}
	}
	return to
}

// KeyName is how a key of the KV stands in a history.
func KeyName(parts []string) string { return fmt.Sprintf("%q", parts) }

// keys tells which keys of the KV the entry changed, behind a position.
func (d *made) keys(to []Effect, after uint64) ([]Effect, uint64, error) {
	if d.st.KVPosition() == after {
		return to, after, nil
	}
	upTo, ok := d.st.KVChanges(nil, after, func(e *fsm.KVEntry) bool {
		k := Effect{Op: Key, Index: d.index, Name: KeyName(fsm.KVKeyParts(e.Key)), Gone: e.Deleted}
		if !e.Deleted {
			k.Body, k.Message = Sum(e.Value), e.Message.String()
		}
		to = append(to, k)
		return true
	})
	if !ok || upTo < d.st.KVPosition() {
		return nil, 0, fmt.Errorf("entry %d: changes of the KV from position %d on end at %d, want %d", d.index, after, upTo, d.st.KVPosition())
	}
	return to, upTo, nil
}

// appendChange tells of an operation that changes what waits, queues, schedules or the KV; false where it is none of them.
func appendChange(e *Effect, op fsm.Op, o *fsm.Outcome, request func(fsm.Request)) bool {
	switch op := op.(type) {
	case *fsm.Reschedule:
		request(op.Request)
		e.Op, e.Queue, e.Message, e.Millis = Move, string(op.Queue), string(op.TaskID), o.Count
		switch op.When {
		case fsm.AfterDelay:
			e.When, e.Delay, e.Wait = After, op.Time, op.MaxWaitMillis
		case fsm.AtTime:
			e.When, e.Due = AtTime, op.Time
		default:
			e.When = KeepTime
		}
		if op.HasBody {
			e.Body = Sum(op.Body)
		}
	case *fsm.PurgeQueue:
		request(op.Request)
		e.Op, e.Queue, e.Count = Empty, string(op.Name), o.Count
	case *fsm.DeleteQueue:
		request(op.Request)
		e.Op, e.Queue, e.Count = Drop, string(op.Name), o.Count
	case *fsm.DeadEdit:
		code := e.Code
		*e = describe(e.Index, string(op.Queue), &op.Message)
		request(op.Request)
		e.Op, e.Code, e.Message, e.Fields = Edit, code, op.ID.String(), edited(op.Fields)
		if o.Code == fsm.OK {
			e.Made = o.ID.String()
		}
	case *fsm.CreateSchedule:
		declare(e, &op.Schedule, "made", request, op.Request)
	case *fsm.SetSchedule:
		declare(e, &op.Schedule, "set", request, op.Request)
	case *fsm.DeleteSchedule:
		request(op.Request)
		e.Op, e.Name = Unplan, string(op.Name)
	case *fsm.FireSchedule:
		e.Op, e.Name, e.Generation, e.At, e.Next, e.Fired, e.Count = Fire, string(op.Name), op.Generation, op.At, op.Next, op.Fire, op.Skipped
		if o.Code == fsm.OK && !o.ID.IsZero() {
			e.Message = o.ID.String()
		}
	case *fsm.KVDelete:
		request(op.Request)
		e.Op, e.Name = Erase, KeyName(fsm.KVKeyParts(op.Key))
	default:
		return false
	}
	return true
}

var policies = map[fsm.MissedPolicy]string{fsm.MissedSkip: "skip", fsm.MissedOnce: "once", fsm.MissedAll: "all"}

// declare tells of a schedule that is made or set.
func declare(e *Effect, s *fsm.Schedule, how string, request func(fsm.Request), r fsm.Request) {
	code, duplicate := e.Code, e.Duplicate
	*e = describe(e.Index, string(s.Queue), &s.Message)
	request(r)
	e.Op, e.Code, e.Duplicate, e.Name, e.Note, e.Auto = Plan, code, duplicate, string(s.Name), how, s.AutoCreate
	e.Declared = &Schedule{Cron: string(s.Cron), Zone: string(s.Zone), Jitter: s.JitterMillis, Missed: policies[s.Policy], Paused: s.Paused}
}

// edited names the fields of an edit, as the wire does.
func edited(f fsm.EditFields) (names []string) {
	for i, name := range []string{"body", "headers", "priority", "content_type", "kind", "key", "ttl_ms", "timeout_ms", "retry", "delay"} {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}
