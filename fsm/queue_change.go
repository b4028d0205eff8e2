package fsm

import "math/bits"

// OptionSet names some of a queue's options: bit n stands for the one whose key in the protocol's QueueOptions is n. The bits are
// part of the log format.
type OptionSet uint64

// changeable is one option that can be set by itself.
type changeable struct {
	key  uint8
	name string
	copy func(to, from *QueueOptions)
}

var changeables = [...]changeable{
	{1, "lease_ms", func(to, from *QueueOptions) { to.LeaseMillis = from.LeaseMillis }},
	{2, "retry", func(to, from *QueueOptions) { to.Retry = from.Retry }},
	{3, "max_dead", func(to, from *QueueOptions) { to.MaxDead = from.MaxDead }},
	{4, "dead_overflow", func(to, from *QueueOptions) { to.DeadOverflow = from.DeadOverflow }},
	{5, "dead_letter_retention_ms", func(to, from *QueueOptions) { to.DeadRetentionMillis = from.DeadRetentionMillis }},
	{6, "dedup_window_ms", func(to, from *QueueOptions) { to.DedupWindowMillis = from.DedupWindowMillis }},
	{7, "dedup_max_keys", func(to, from *QueueOptions) { to.DedupMaxKeys = from.DedupMaxKeys }},
	{8, "result_ttl_ms", func(to, from *QueueOptions) { to.ResultTTLMillis = from.ResultTTLMillis }},
	{9, "max_results_bytes", func(to, from *QueueOptions) { to.MaxResultsBytes = from.MaxResultsBytes }},
	{20, "ordering", func(to, from *QueueOptions) { to.Ordering = from.Ordering }},
	{21, "max_depth", func(to, from *QueueOptions) { to.MaxDepth = from.MaxDepth }},
	{22, "max_bytes", func(to, from *QueueOptions) { to.MaxBytes = from.MaxBytes }},
	{23, "overflow", func(to, from *QueueOptions) { to.Overflow = from.Overflow }},
	{24, "max_in_flight", func(to, from *QueueOptions) { to.MaxInFlight = from.MaxInFlight }},
	{25, "paused", func(to, from *QueueOptions) { to.Paused = from.Paused }},
	{26, "max_age_ms", func(to, from *QueueOptions) { to.MaxAgeMillis = from.MaxAgeMillis }},
	{27, "delivery", func(to, from *QueueOptions) { to.Delivery = from.Delivery }},
	{28, "max_in_flight_per_key", func(to, from *QueueOptions) { to.MaxInFlightPerKey = from.MaxInFlightPerKey }},
	{29, "rate", func(to, from *QueueOptions) { to.RateMilli = from.RateMilli }},
	{30, "burst", func(to, from *QueueOptions) { to.Burst = from.Burst }},
	{31, "rate_per_key", func(to, from *QueueOptions) { to.RatePerKeyMilli = from.RatePerKeyMilli }},
	{32, "burst_per_key", func(to, from *QueueOptions) { to.BurstPerKey = from.BurstPerKey }},
	{33, "fair_by", func(to, from *QueueOptions) { to.FairBy = from.FairBy }},
	{34, "fair_weights", func(to, from *QueueOptions) { to.FairWeights = from.FairWeights }},
	{40, "dead_letter_queue", func(to, from *QueueOptions) { to.DeadLetterQueue = from.DeadLetterQueue }},
	{41, "push_url", func(to, from *QueueOptions) { to.PushURL = from.PushURL }},
	{42, "push_concurrency", func(to, from *QueueOptions) { to.PushConcurrency = from.PushConcurrency }},
	{43, "push_timeout_ms", func(to, from *QueueOptions) { to.PushTimeoutMillis = from.PushTimeoutMillis }},
	{44, "push_secrets", func(to, from *QueueOptions) { to.PushSecrets = from.PushSecrets }},
	{45, "push_permanent", func(to, from *QueueOptions) { to.PushPermanent = from.PushPermanent }},
	{46, "push_headers", func(to, from *QueueOptions) { to.PushHeaders = from.PushHeaders }},
	{47, "schema", func(to, from *QueueOptions) { to.Schema = from.Schema }},
	{48, "map", func(to, from *QueueOptions) { to.Map = from.Map }},
	{49, "map_to", func(to, from *QueueOptions) { to.MapTo = from.MapTo }},
}

// changeableSet is all that this build can change.
var changeableSet = func() (all OptionSet) {
	for i := range changeables {
		all |= 1 << changeables[i].key
	}
	return all
}()

// OptionNamed is the option of a name, as in "max_depth"; false: there is none.
func OptionNamed(name string) (OptionSet, bool) {
	for i := range changeables {
		if changeables[i].name == name {
			return 1 << changeables[i].key, true
		}
	}
	return 0, false
}

// Options calls f with the name of each option that can be changed by itself, until it returns false.
func Options(f func(name string) bool) {
	for i := range changeables {
		if !f(changeables[i].name) {
			return
		}
	}
}

// Len is how many options are named.
func (s OptionSet) Len() int { return bits.OnesCount64(uint64(s)) }

// merge sets the named options of to as they are in from. Retry steps are shared.
func (s OptionSet) merge(to, from *QueueOptions) {
	for i := range changeables {
		if s&(1<<changeables[i].key) != 0 {
			changeables[i].copy(to, from)
		}
	}
}

// ChangeQueue sets those of a queue's options that Only names and leaves the others as they are when it is applied, so that changes
// of different options never undo each other. What is named and unset in Options becomes the default. The options are judged as
// they would be together.
type ChangeQueue struct {
	Request Request
	Name    []byte
	Only    OptionSet // at least one
	Options QueueOptions
}

const opChangeQueue uint8 = 36

func (*ChangeQueue) opNumber() uint8 { return opChangeQueue }

func appendChangeQueue(b []byte, o *ChangeQueue) []byte {
	b = appendBytes(appendRequest(b, &o.Request), o.Name)
	return appendQueueOptions(appendUvarint(b, uint64(o.Only)), &o.Options)
}

// ChangeQueue reads a ChangeQueue.
func (d *Decoder) ChangeQueue(op *ChangeQueue) {
	d.take(opChangeQueue)
	d.request(&op.Request)
	op.Name = d.bytes()
	op.Only = OptionSet(d.uvarint())
	if op.Only&^changeableSet != 0 {
		d.fail("ChangeQueue: options %#x, this build knows %#x", uint64(op.Only), uint64(changeableSet))
	}
	d.options(&op.Options)
}

func (s *State) changeQueue(op *ChangeQueue, o *Outcome) {
	switch {
	case !ValidQueueName(op.Name):
		*o = refuse(InvalidArgument, FieldQueue, MaxQueueName)
		return
	case op.Only == 0:
		*o = refuse(InvalidArgument, FieldOptions, 0)
		return
	}
	q := s.findQueue(op.Name)
	if q == nil {
		*o = refuse(NotFound, FieldQueue, 0)
		return
	}
	options := q.meta.options
	op.Only.merge(&options, &op.Options)
	*o = s.setOptions(q, &options)
}
