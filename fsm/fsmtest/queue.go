package fsmtest

import (
	"reflect"
	"slices"

	"github.com/quorate/quorate/fsm"
)

func (m *Model) queue(name string) *queue {
	for _, q := range m.queues {
		if q.name == name {
			return q
		}
	}
	return nil
}

func validQueueName(name string) bool {
	if len(name) < 1 || len(name) > 128 {
		return false
	}
	for i, c := range []byte(name) {
		switch {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
		case i > 0 && (c == '.' || c == '_' || c == ':' || c == '-'):
		default:
			return false
		}
	}
	return true
}

// withDefaults fills in what is unset.
func withDefaults(o fsm.QueueOptions) fsm.QueueOptions {
	def := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.LeaseMillis, 30_000)
	def(&o.MaxDead, 1_000_000)
	def(&o.DeadRetentionMillis, 30*day)
	def(&o.DedupWindowMillis, day)
	def(&o.DedupMaxKeys, 1_000_000)
	def(&o.ResultTTLMillis, day)
	def(&o.MaxResultsBytes, 256<<20)
	if o.Retry.Kind == fsm.RetryDefault {
		o.Retry = fsm.RetryPolicy{Kind: fsm.RetrySchedule, Steps: []int64{1000, 5000, 10000}, JitterMillis: o.Retry.JitterMillis}
	}
	o.Retry = retryWithDefaults(o.Retry)
	return o
}

func within(v, low, high int64) bool { return v >= low && v <= high }

// fault is a field of options, and whether something is wrong with it.
type fault struct {
	field fsm.Field
	wrong bool
}

// faultsOf lists each field of options that is wrong. They have their defaults.
func faultsOf(name string, o fsm.QueueOptions) (wrong []fsm.Field) {
	all := append([]fault{
		{fsm.FieldLease, !within(o.LeaseMillis, minLease, maxLease)},
		{fsm.FieldRetry, !validRetry(o.Retry)},
		{fsm.FieldOrdering, o.Ordering > fsm.OrderPerKey},
		{fsm.FieldOptions, !within(o.MaxDead, 1, 10_000_000) ||
			o.DeadOverflow > fsm.DeadDropOldest ||
			!within(o.DeadRetentionMillis, 1000, 3660*day) ||
			!within(o.DedupWindowMillis, 1000, 366*day) ||
			!within(o.DedupMaxKeys, 1, 10_000_000) ||
			!within(o.ResultTTLMillis, 1000, 366*day) ||
			!within(o.MaxResultsBytes, 1, 1<<40)},
		{fsm.FieldDeadLetterQueue, o.DeadLetterQueue == name || o.DeadLetterQueue != "" && !validQueueName(o.DeadLetterQueue)},
	}, limitFaults(o)...)
	for _, f := range slices.Concat(all, modeFaults(o), keyFaults(o), pushFaults(o), mappingFaults(name, o)) {
		if f.wrong {
			wrong = append(wrong, f.field)
		}
	}
	return wrong
}

// refuseAny refuses an operation for several fields, of which one is named; which one is the implementation's affair.
func (m *Model) refuseAny(wrong []fsm.Field) fsm.Outcome {
	m.wrong = wrong
	o := refuse(fsm.InvalidArgument, wrong[0])
	for _, f := range wrong[1:] {
		m.also[alternative{m.op, o, refuse(fsm.InvalidArgument, f)}] = true
		m.sometimes("options: several are wrong")
	}
	return o
}

func refuse(code fsm.Code, field fsm.Field) fsm.Outcome { return fsm.Outcome{Code: code, Field: field} }

func (m *Model) createQueue(op *fsm.CreateQueue) fsm.Outcome {
	name := string(op.Name)
	if !validQueueName(name) {
		return refuse(fsm.InvalidArgument, fsm.FieldQueue)
	}
	o := withDefaults(op.Options)
	if wrong := faultsOf(name, o); len(wrong) > 0 {
		return m.refuseAny(wrong)
	}
	if q := m.queue(name); q != nil {
		if reflect.DeepEqual(q.options, o) {
			return fsm.Outcome{Duplicate: true}
		}
		return refuse(fsm.AlreadyExists, fsm.FieldOptions)
	}
	if out := m.mappingFits(name, o, fsm.QueueOptions{}); out.Code != fsm.OK {
		return out
	}
	if len(m.queues) >= maxQueues {
		return refuse(fsm.Overloaded, fsm.FieldQueues)
	}
	m.remap(m.newQueue(name, o), fsm.QueueOptions{})
	return fsm.Outcome{}
}

func (m *Model) newQueue(name string, o fsm.QueueOptions) *queue {
	o.Retry.Steps = append([]int64(nil), o.Retry.Steps...)
	o.FairWeights = append([]fsm.FairWeight(nil), o.FairWeights...)
	m.numbers++
	q := &queue{name: name, number: m.numbers, options: o}
	m.queues = append(m.queues, q)
	return q
}

func (m *Model) setQueue(op *fsm.SetQueue) fsm.Outcome {
	if !validQueueName(string(op.Name)) {
		return refuse(fsm.InvalidArgument, fsm.FieldQueue)
	}
	o := withDefaults(op.Options)
	if wrong := faultsOf(string(op.Name), o); len(wrong) > 0 {
		return m.refuseAny(wrong)
	}
	q := m.queue(string(op.Name))
	if q == nil {
		return refuse(fsm.NotFound, fsm.FieldQueue)
	}
	if o.Ordering != q.options.Ordering && len(q.messages) > 0 {
		return refuse(fsm.FailedPrecondition, fsm.FieldOrdering)
	}
	if o.Delivery != q.options.Delivery && len(q.messages) > 0 {
		return refuse(fsm.FailedPrecondition, fsm.FieldDelivery)
	}
	if out := m.mappingFits(q.name, o, q.options); out.Code != fsm.OK {
		return out
	}
	m.seeOptions(q, &o)
	q.tat = newBucket(o.RateMilli, o.Burst).cut(q.tat, m.t)
	for _, x := range q.dead {
		x.over = m.deadEnded(q, x) // a longer retention brings nothing back
	}
	o.Retry.Steps = append([]int64(nil), o.Retry.Steps...)
	o.FairWeights = append([]fsm.FairWeight(nil), o.FairWeights...)
	was := q.options
	q.options = o
	m.remap(q, was)
	m.changeKeys(q, &was)
	return fsm.Outcome{}
}

func (m *Model) deleteQueue(op *fsm.DeleteQueue) fsm.Outcome {
	q := m.queue(string(op.Name))
	if q == nil {
		return refuse(fsm.NotFound, fsm.FieldQueue)
	}
	for _, x := range q.messages {
		if x.state == fsm.StateLeased {
			m.leaseEnded(x, false)
		}
	}
	m.queues = remove(m.queues, q)
	m.sweepLater()
	return fsm.Outcome{Count: int64(len(q.messages) + len(q.dead))}
}

// purgeQueue removes what is not out.
func (m *Model) purgeQueue(op *fsm.PurgeQueue) fsm.Outcome {
	q := m.queue(string(op.Name))
	if q == nil {
		return refuse(fsm.NotFound, fsm.FieldQueue)
	}
	var stay []*message
	for _, x := range q.messages {
		if x.state == fsm.StateLeased {
			stay = append(stay, x)
		}
	}
	n := len(q.messages) - len(stay)
	q.messages = stay
	if n > 0 {
		m.sweepLater()
	}
	return fsm.Outcome{Count: int64(n)}
}
