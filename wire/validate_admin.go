package wire

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Bounds of queue options, where they are not named elsewhere.
const (
	secondMillis      = 1000
	dayMillis         = 86400_000
	maxRetentionDays  = 3660
	maxTableRecords   = 10_000_000
	maxResultsBytes   = 1 << 40
	maxQueueDepth     = 100_000_000
	maxRateMilli      = 1_000_000_000
	maxBurst          = 1_000_000
	maxStatusFilter   = 32 // bytes of a state or reason name
	versionsExplained = "the protocol versions that the client speaks"
)

// Validate judges the first frame of a connection; whether a version is shared is for the server to say.
func (h *Hello) Validate() *Fault {
	if n := len(h.Versions); n == 0 || n > MaxVersions {
		return Invalid("versions", "%d of them; 1 to %d expected, %s", n, MaxVersions, versionsExplained)
	}
	return checkText("client", h.Client, 0, MaxClientBytes)
}

// Speaks reports whether the client speaks version v.
func (h *Hello) Speaks(v uint16) bool {
	for _, w := range h.Versions {
		if w == v {
			return true
		}
	}
	return false
}

// Validate judges the opening of a session.
func (o *OpenSession) Validate() *Fault {
	if o.Session == "" {
		return nil
	}
	return CheckID("session", o.Session)
}

// Validate judges the name of a task: with its queue, or a broker's id alone.
func (t *TaskRef) Validate() *Fault {
	if f := checkText("task_id", t.TaskID, 1, MaxTaskIDBytes); f != nil {
		return f
	}
	if t.Queue == "" {
		if !IsID(t.TaskID) {
			return Invalid("queue", "missing; only a task id that the broker made may come without its queue, and %.60q is none", t.TaskID)
		}
		return nil
	}
	return CheckQueue("queue", t.Queue)
}

// Validate judges a request for a result.
func (r *ResultGet) Validate() *Fault {
	return first(r.Task.Validate(), checkRange("wait_ms", r.WaitMillis, 0, MaxWaitMillis))
}

// Validate judges a result that comes without a lease.
func (r *ResultPush) Validate(maxMessageBytes int64) *Fault {
	return first(r.Task.Validate(), checkText("kind", r.Kind, 0, MaxKindBytes), r.Result.Validate("result", maxMessageBytes),
		r.Request.Validate(1))
}

// Validate judges a request for a task's state.
func (t *TaskGet) Validate() *Fault { return t.Task.Validate() }

// Validate judges a queue's options; 0 and empty stand for defaults.
func (o *QueueOptions) Validate() *Fault { return first(o.each(), o.contradiction()) }

// each judges every option by itself.
func (o *QueueOptions) each() *Fault {
	count := func(field string, v, most int64) *Fault {
		if v != 0 && (v < 1 || v > most) {
			return Invalid(field, "%d; 1 to %d are allowed, or 0 for the default", v, most)
		}
		return nil
	}
	f := first(
		checkMillis("lease_ms", o.LeaseMillis, MinLeaseMillis, MaxLeaseMillis),
		count("max_dead", o.MaxDead, maxTableRecords),
		checkMillis("dead_letter_retention_ms", o.DeadRetentionMillis, secondMillis, maxRetentionDays*dayMillis),
		checkMillis("dedup_window_ms", o.DedupWindowMillis, secondMillis, MaxDelayMillis),
		count("dedup_max_keys", o.DedupMaxKeys, maxTableRecords),
		checkMillis("result_ttl_ms", o.ResultTTLMillis, secondMillis, MaxDelayMillis),
		count("max_results_bytes", o.MaxResultsBytes, maxResultsBytes),
		count("max_depth", o.MaxDepth, maxQueueDepth),
		count("max_bytes", o.MaxBytes, maxResultsBytes),
		count("max_in_flight", o.MaxInFlight, maxTableRecords),
		checkMillis("max_age_ms", o.MaxAgeMillis, 1, MaxDelayMillis),
		checkRate("rate", o.RateMilli, "burst", o.Burst),
		count("max_in_flight_per_key", o.MaxInFlightPerKey, maxTableRecords),
		checkRate("rate_per_key", o.RatePerKeyMilli, "burst_per_key", o.BurstPerKey),
	)
	if f != nil {
		return f
	}
	if o.DeadLetterQueue != "" {
		if f := CheckQueue("dead_letter_queue", o.DeadLetterQueue); f != nil {
			return f
		}
	}
	if o.DeadOverflow != "" && o.DeadOverflow != DeadRefuse && o.DeadOverflow != DeadDropOldest {
		return Invalid("dead_overflow", "%.40q; %s or %s expected", o.DeadOverflow, DeadRefuse, DeadDropOldest)
	}
	if o.Overflow != "" && o.Overflow != OverflowReject && o.Overflow != OverflowDropOldest {
		return Invalid("overflow", "%.40q; %s or %s expected", o.Overflow, OverflowReject, OverflowDropOldest)
	}
	if o.Delivery != "" && o.Delivery != DeliverAtLeastOnce && o.Delivery != DeliverAtMostOnce {
		return Invalid("delivery", "%.40q; %s or %s expected", o.Delivery, DeliverAtLeastOnce, DeliverAtMostOnce)
	}
	switch o.Ordering {
	case "", OrderUnordered, OrderFIFO, OrderPerKey:
	default:
		return Invalid("ordering", "%.40q; %s, %s or %s expected", o.Ordering, OrderUnordered, OrderFIFO, OrderPerKey)
	}
	if f := first(o.validateKeys(), o.validatePush(), o.validateMapping()); f != nil {
		return f
	}
	if o.Retry != nil {
		return o.Retry.Validate("retry")
	}
	return nil
}

// validateKeys judges the options of message keys, and that they go with the ordering.
func (o *QueueOptions) validateKeys() *Fault {
	switch {
	case o.FairBy != "" && o.FairBy != FairByNone && o.FairBy != FairByKey:
		return Invalid("fair_by", "%.40q; %s or %s expected", o.FairBy, FairByNone, FairByKey)
	case len(o.FairWeights) > MaxFairWeights:
		return Invalid("fair_weights", "%d of them; at most %d are allowed", len(o.FairWeights), MaxFairWeights)
	}
	seen := make(map[string]bool, len(o.FairWeights))
	for i := range o.FairWeights {
		w := &o.FairWeights[i]
		switch {
		case len(w.Key) == 0 || len(w.Key) > MaxKeyBytes:
			return Invalid("fair_weights", "a key of %d bytes; 1 to %d are allowed", len(w.Key), MaxKeyBytes)
		case w.Weight < 1 || w.Weight > MaxFairWeight:
			return Invalid("fair_weights", "%d for key %.40q; 1 to %d are allowed", w.Weight, w.Key, MaxFairWeight)
		case seen[string(w.Key)]:
			return Invalid("fair_weights", "key %.40q is there twice; once would be right", w.Key)
		}
		seen[string(w.Key)] = true
	}
	return nil
}

// checkRate judges a rate, in thousandths of a delivery a second, and its burst.
func checkRate(field string, milli int64, burstField string, burst int64) *Fault {
	switch {
	case milli < 0 || milli > maxRateMilli:
		return Invalid(field, "%s deliveries a second; 0.001 to %d are allowed, or 0 for no limit", thousandths(milli), maxRateMilli/1000)
	case burst < 0 || burst > maxBurst:
		return Invalid(burstField, "%d; 1 to %d are allowed, or 0 for one second's worth", burst, maxBurst)
	}
	return nil
}

// contradiction is what is wrong with options together: it is not judged where some of them are changed and the rest stays.
func (o *QueueOptions) contradiction() *Fault {
	fifo, perKey := o.Ordering == OrderFIFO, o.Ordering == OrderPerKey
	switch {
	case o.Burst != 0 && o.RateMilli == 0:
		return Invalid("burst", "%d without rate: both or neither would be right", o.Burst)
	case o.BurstPerKey != 0 && o.RatePerKeyMilli == 0:
		return Invalid("burst_per_key", "%d without rate_per_key: both or neither would be right", o.BurstPerKey)
	case o.MaxInFlightPerKey != 0 && (fifo || perKey):
		return Invalid("max_in_flight_per_key", "%d with ordering %s, in which one message of a key is out at a time; unordered would be right, or none",
			o.MaxInFlightPerKey, o.Ordering)
	case o.RatePerKeyMilli != 0 && fifo:
		return Invalid("rate_per_key", "with ordering fifo, in which keys do not matter; unordered or per_key would be right")
	case o.FairBy == FairByKey && fifo:
		return Invalid("fair_by", "key with ordering fifo, in which keys do not matter; unordered or per_key would be right")
	case len(o.FairWeights) > 0 && o.FairBy != FairByKey:
		return Invalid("fair_weights", "%d of them without fair_by: key would be right, or none", len(o.FairWeights))
	case len(o.FairWeights) > 0 && perKey:
		return Invalid("fair_weights", "%d of them with ordering per_key, in which one message of a key is out at a time; unordered would be right, or none",
			len(o.FairWeights))
	}
	return o.contradictMapping()
}

// thousandths writes a number that is kept in thousandths.
func thousandths(n int64) string {
	if n%1000 == 0 {
		return strconv.FormatInt(n/1000, 10)
	}
	sign := ""
	if n < 0 {
		sign = "-"
	}
	return sign + strings.TrimRight(fmt.Sprintf("%d.%03d", max(n/1000, -(n/1000)), max(n%1000, -(n%1000))), "0")
}

// Bounds of QueueWrite.Only; there are fewer options, and their names are shorter.
const (
	maxOptionNames = 64
	maxOptionName  = 64 // bytes
)

// Validate judges the making or setting of a queue.
func (q *QueueWrite) Validate() *Fault {
	if q.Options.DeadLetterQueue != "" && q.Options.DeadLetterQueue == q.Queue {
		return Invalid("dead_letter_queue", "%q names itself: another queue, or none, would be right", q.Queue)
	}
	if to := q.Options.MapTo; to != nil && to.Queue == q.Queue {
		return Invalid("map_to", "%q names itself: another queue, or none, would be right", q.Queue)
	}
	if len(q.Only) > maxOptionNames {
		return Invalid("only", "%d options are named; at most %d are allowed", len(q.Only), maxOptionNames)
	}
	for i, name := range q.Only {
		if f := checkText("only", name, 1, maxOptionName); f != nil {
			return f
		}
		if slices.Contains(q.Only[:i], name) {
			return Invalid("only", "%.40q is named twice", name)
		}
	}
	if len(q.Only) > 0 {
		return first(CheckQueue("queue", q.Queue), q.Options.each(), q.Request.Validate(1))
	}
	return first(CheckQueue("queue", q.Queue), q.Options.Validate(), q.Request.Validate(1))
}

// Validate judges a request about one queue.
func (q *QueueRef) Validate() *Fault {
	return first(CheckQueue("queue", q.Queue), q.Request.Validate(1))
}

// Validate judges a listing of queues.
func (q *QueueList) Validate() *Fault {
	return first(checkText("after", q.After, 0, MaxCursorBytes), checkRange("limit", int64(q.Limit), 0, MaxList))
}

// Validate judges a look at live messages.
func (p *Peek) Validate() *Fault {
	switch p.State {
	case "", StatusPending, StatusProcessing, StatusScheduled, StatusRetrying:
	default:
		return Invalid("state", "%.40q; %s, %s, %s or %s expected", p.State, StatusPending, StatusProcessing, StatusScheduled,
			StatusRetrying)
	}
	return first(CheckQueue("queue", p.Queue), checkRange("limit", int64(p.Limit), 0, MaxList),
		checkText("after", p.After, 0, MaxCursorBytes))
}

// Validate judges a listing of dead letters.
func (d *DeadList) Validate() *Fault {
	if d.Since < 0 {
		return Invalid("since", "%d; milliseconds since 1970 expected", d.Since)
	}
	if d.Until != 0 && d.Until < max(d.Since, 1) {
		return Invalid("until", "%d; milliseconds since 1970 expected, since or later", d.Until)
	}
	if !DeadReasons[d.Reason] && d.Reason != "" {
		return Invalid("reason", "%.40q; max_attempts, permanent, expired, overflow or mapping expected", d.Reason)
	}
	if len(d.Headers) > MaxDeadHeaders {
		return Invalid("headers", "%d of them; at most %d are allowed", len(d.Headers), MaxDeadHeaders)
	}
	if f := checkHeaders(d.Headers); f != nil {
		return f
	}
	return first(checkText("text", d.Text, 0, MaxDeadText),
		CheckQueue("queue", d.Queue), checkRange("limit", int64(d.Limit), 0, MaxList),
		checkText("after", d.After, 0, MaxCursorBytes), checkText("reason", d.Reason, 0, maxStatusFilter),
		checkText("kind", d.Kind, 0, MaxKindBytes))
}

// Validate judges a request for one dead letter.
func (d *DeadGet) Validate() *Fault { return first(CheckQueue("queue", d.Queue), CheckID("id", d.ID)) }

// Validate judges a request about several dead letters.
func (d *DeadIDs) Validate() *Fault {
	if n := len(d.IDs); n == 0 || n > MaxBatch {
		return Invalid("ids", "%d ids; 1 to %d are allowed", n, MaxBatch)
	}
	for i, id := range d.IDs {
		if !IsID(id) {
			return CheckID(fmt.Sprintf("ids[%d]", i), id)
		}
	}
	return first(CheckQueue("queue", d.Queue), d.Request.Validate(len(d.IDs)))
}

// Validate judges a transfer of leadership.
func (c *ClusterTransfer) Validate() *Fault { return checkText("node", c.Node, 0, MaxNodeBytes) }

// Validate judges the removal of a member.
func (c *ClusterRemove) Validate() *Fault { return checkText("node", c.Node, 1, MaxNodeBytes) }
