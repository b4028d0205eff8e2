package transport

import (
	"context"
	"slices"
	"strings"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/wire"
)

func optionsOf(o *wire.QueueOptions) fsm.QueueOptions {
	q := givenOptions(o)
	q.Normalize()
	return q
}

// givenOptions are options as they were given: what was not is unset.
func givenOptions(o *wire.QueueOptions) fsm.QueueOptions {
	q := fsm.QueueOptions{
		LeaseMillis: o.LeaseMillis, Retry: retryOf(o.Retry), MaxDead: o.MaxDead, DeadRetentionMillis: o.DeadRetentionMillis,
		DedupWindowMillis: o.DedupWindowMillis, DedupMaxKeys: o.DedupMaxKeys, ResultTTLMillis: o.ResultTTLMillis,
		MaxResultsBytes: o.MaxResultsBytes, DeadLetterQueue: o.DeadLetterQueue,
	}
	if o.DeadOverflow == wire.DeadDropOldest {
		q.DeadOverflow = fsm.DeadDropOldest
	}
	q.MaxDepth, q.MaxBytes, q.MaxInFlight, q.MaxAgeMillis, q.Paused = o.MaxDepth, o.MaxBytes, o.MaxInFlight, o.MaxAgeMillis, o.Paused
	if o.Overflow == wire.OverflowDropOldest {
		q.Overflow = fsm.OverflowDropOldest
	}
	if o.Delivery == wire.DeliverAtMostOnce {
		q.Delivery = fsm.DeliverAtMostOnce
	}
	switch o.Ordering {
	case wire.OrderFIFO:
		q.Ordering = fsm.OrderFIFO
	case wire.OrderPerKey:
		q.Ordering = fsm.OrderPerKey
	}
	q.RateMilli, q.Burst = o.RateMilli, o.Burst
	q.MaxInFlightPerKey, q.RatePerKeyMilli, q.BurstPerKey = o.MaxInFlightPerKey, o.RatePerKeyMilli, o.BurstPerKey
	if o.FairBy == wire.FairByKey {
		q.FairBy = fsm.FairByKey
	}
	for _, w := range o.FairWeights {
		q.FairWeights = append(q.FairWeights, fsm.FairWeight{Key: string(w.Key), Weight: w.Weight})
	}
	pushOptionsOf(&q, o)
	mappingOptionsOf(&q, o)
	slices.SortFunc(q.FairWeights, func(a, b fsm.FairWeight) int { return strings.Compare(a.Key, b.Key) })
	return q
}

// pushOptionsOf takes in the options of push: names of headers in lower case, and sorted what has no order.
func pushOptionsOf(q *fsm.QueueOptions, o *wire.QueueOptions) {
	q.PushURL, q.PushConcurrency, q.PushTimeoutMillis = o.PushURL, o.PushConcurrency, o.PushTimeoutMillis
	q.PushSecrets, q.PushPermanent = o.PushSecrets, slices.Clone(o.PushPermanent)
	for _, name := range o.PushHeaders {
		q.PushHeaders = append(q.PushHeaders, strings.ToLower(name))
	}
	slices.Sort(q.PushPermanent)
	slices.Sort(q.PushHeaders)
}

// onlyOptions reads the names of the options that are to be changed.
func onlyOptions(names []string) (only fsm.OptionSet, f *wire.Fault) {
	for _, name := range names {
		one, ok := fsm.OptionNamed(name)
		if !ok {
			var known []string
			fsm.Options(func(name string) bool { known = append(known, name); return true })
			return 0, wire.Invalid("only", "%.40q is no option of a queue: %s are", name, strings.Join(known, ", "))
		}
		only |= one
	}
	return only, nil
}

// NormalOptions is what a broker shows of a queue that was made with o: the defaults filled in. o is valid.
func NormalOptions(o wire.QueueOptions) wire.QueueOptions {
	q := optionsOf(&o)
	return wireOptions(&q)
}

func wireOptions(o *fsm.QueueOptions) wire.QueueOptions {
	q := wire.QueueOptions{
		LeaseMillis: o.LeaseMillis, Retry: wireRetry(o.Retry), MaxDead: o.MaxDead, DeadOverflow: wire.DeadRefuse,
		DeadRetentionMillis: o.DeadRetentionMillis, DedupWindowMillis: o.DedupWindowMillis, DedupMaxKeys: o.DedupMaxKeys,
		ResultTTLMillis: o.ResultTTLMillis, MaxResultsBytes: o.MaxResultsBytes, DeadLetterQueue: o.DeadLetterQueue,
	}
	if o.DeadOverflow == fsm.DeadDropOldest {
		q.DeadOverflow = wire.DeadDropOldest
	}
	q.Ordering, q.Overflow = orderings[o.Ordering], wire.OverflowReject
	if o.Overflow == fsm.OverflowDropOldest {
		q.Overflow = wire.OverflowDropOldest
	}
	if q.Delivery = wire.DeliverAtLeastOnce; o.Delivery == fsm.DeliverAtMostOnce {
		q.Delivery = wire.DeliverAtMostOnce
	}
	q.MaxDepth, q.MaxBytes, q.MaxInFlight, q.MaxAgeMillis, q.Paused = o.MaxDepth, o.MaxBytes, o.MaxInFlight, o.MaxAgeMillis, o.Paused
	q.RateMilli, q.Burst = o.RateMilli, o.Burst
	q.MaxInFlightPerKey, q.RatePerKeyMilli, q.BurstPerKey, q.FairBy = o.MaxInFlightPerKey, o.RatePerKeyMilli, o.BurstPerKey, wire.FairByNone
	if o.FairBy == fsm.FairByKey {
		q.FairBy = wire.FairByKey
	}
	for _, w := range o.FairWeights {
		q.FairWeights = append(q.FairWeights, wire.FairWeight{Key: wire.Bytes(w.Key), Weight: w.Weight})
	}
	q.PushURL, q.PushConcurrency, q.PushTimeoutMillis = o.PushURL, o.PushConcurrency, o.PushTimeoutMillis
	q.PushSecrets, q.PushPermanent, q.PushHeaders = slices.Clone(o.PushSecrets), slices.Clone(o.PushPermanent), slices.Clone(o.PushHeaders)
	q.Schema, q.Map, q.MapTo = o.Schema, o.Map, wireMapTo(o.MapTo)
	return q
}

var orderings = map[fsm.Ordering]string{
	fsm.OrderUnordered: wire.OrderUnordered, fsm.OrderFIFO: wire.OrderFIFO, fsm.OrderPerKey: wire.OrderPerKey,
}

// queueWrite creates a queue or sets its options.
func (c *conn) queueWrite(raw wire.Raw) bool {
	var req wire.QueueWrite
	if ok, alive := taken(c, raw, &req, (*wire.QueueWrite).Validate); !ok {
		return alive
	}
	request, f := c.request(req.Request)
	if f != nil {
		return c.fault(raw.Tag, f)
	}
	if f := CheckMapping(&req.Options); f != nil {
		return c.fault(raw.Tag, f)
	}
	name, options := wire.View(req.Queue), optionsOf(&req.Options)
	var op fsm.Op = &fsm.CreateQueue{Request: request, Name: name, Options: options}
	switch {
	case raw.Type == wire.TypeQueueSet && len(req.Only) > 0:
		only, f := onlyOptions(req.Only)
		if f != nil {
			return c.fault(raw.Tag, f)
		}
		op = &fsm.ChangeQueue{Request: request, Name: name, Only: only, Options: givenOptions(&req.Options)}
	case raw.Type == wire.TypeQueueSet:
		op = &fsm.SetQueue{Request: request, Name: name, Options: options}
	case len(req.Only) > 0:
		return c.fault(raw.Tag, wire.Invalid("only", "a queue is created with all of its options: leave it out"))
	}
	c.prepare(raw.Tag, raw.Type, op).queue = req.Queue
	return true
}

// queueEnd deletes or purges a queue, or purges its dead letters.
func (c *conn) queueEnd(raw wire.Raw) bool {
	var req wire.QueueRef
	if ok, alive := taken(c, raw, &req, (*wire.QueueRef).Validate); !ok {
		return alive
	}
	request, f := c.request(req.Request)
	if f != nil {
		return c.fault(raw.Tag, f)
	}
	name := wire.View(req.Queue)
	var op fsm.Op
	switch raw.Type {
	case wire.TypeQueueDelete:
		op = &fsm.DeleteQueue{Request: request, Name: name}
	case wire.TypeQueuePurge:
		op = &fsm.PurgeQueue{Request: request, Name: name}
	default:
		op = &fsm.DeadPurge{Request: request, Queue: name}
	}
	c.prepare(raw.Tag, raw.Type, op).queue = req.Queue
	return true
}

// queueInfo copies a queue's options, counters and standing out of the state. It is for functions that Read runs.
func (s *Server) queueInfo(st *fsm.State, n uint32, name string) wire.QueueInfo {
	stands := s.readQueue(s.group(name), st, n, name)
	q := countsOf(&stands.QueueStats, st.Time())
	q.PerMinute = s.pace.lastMinute(name, stands.Enqueued)
	stands.say(&q)
	q.Push = stands.push.Text
	if q.Options.MapTo != nil && s.cfg.MappingState != nil {
		q.Mapping = s.cfg.MappingState(name)
	}
	return q
}

// countsOf are a queue's options and counters at T = now.
func countsOf(s *fsm.QueueStats, now int64) wire.QueueInfo {
	q := wire.QueueInfo{
		Name: s.Name, Options: wireOptions(&s.Options),
		Pending: s.Ready, Processing: s.Leased, Scheduled: s.Scheduled, Retrying: s.Retrying, Dead: s.Dead,
		Blocked: s.Blocked, Bytes: s.Bytes, Results: s.Results, ResultBytes: s.ResultBytes, DedupKeys: s.DedupKeys, Tombstones: s.Tombstones,
		Totals: map[string]int64{
			"enqueued": s.Enqueued, "acked": s.Acked, "nacked": s.Nacked, "expired": s.Expired, "dead": s.Died,
			"duplicates": s.Duplicates, "redriven": s.Redriven, "refused": s.Refused, "dead_dropped": s.DeadDropped,
			"tombstones_dropped": s.TombstonesDropped, "cancelled": s.Cancelled, "rescheduled": s.Rescheduled,
			"dead_moved": s.MovedOut, "dead_received": s.MovedIn, "dead_stayed": s.Stayed,
			"overflowed": s.Overflowed,
		},
		Moved: s.Moved, Parked: s.Parked, KeyDebts: s.KeyDebts,
	}
	for reason, name := range reasons {
		if n := s.DiedByReason[reason]; n != 0 {
			q.Totals["dead_"+name] = n
		}
	}
	for kind, name := range refusals {
		if n := s.RefusedBy[kind]; n != 0 {
			q.Totals["refused_"+name] = n
		}
	}
	if s.OldestEnqueuedAt > 0 {
		q.OldestAgeMillis = max(0, now-s.OldestEnqueuedAt)
	}
	if s.Acked > 0 {
		q.AvgProcessingMillis = s.LeaseMillisSum / s.Acked
	}
	return q
}

// pageWeights is how many fair weights a page of queues may list before it ends early: a thousand queues could have a million of
// them, a quarter of a kilobyte each.
const pageWeights = 2000

// schemaWeight is how many bytes of a schema count as one of them.
const schemaWeight = 256

func noQueue(name string) *wire.Fault {
	return wire.NewFault(wire.CodeNotFound, "queue %q does not exist", name)
}

func (c *conn) queueShow(raw wire.Raw) bool {
	req := new(wire.QueueRef)
	if ok, alive := taken(c, raw, req, (*wire.QueueRef).Validate); !ok {
		return alive
	}
	return c.slowly(raw.Tag, 0, 1, func(ctx context.Context, e *errand) (wire.Type, any, *wire.Fault) {
		if f := e.takeTurn(ctx, req.Stale); f != nil {
			return 0, nil, f
		}
		rep := new(wire.QueueIs)
		found := false
		at, f := c.readState(ctx, req.Stale, func(st *fsm.State) {
			var n uint32
			if n, found = st.QueueNumber(wire.View(req.Queue)); found {
				rep.Queue = c.srv.queueInfo(st, n, req.Queue)
			}
		})
		if f == nil && !found {
			f = noQueue(req.Queue)
		}
		rep.At = at
		return wire.TypeQueueIs, rep, f
	})
}

// queueList lists queues by name, holding the state for pageTasksHold of them at a time.
func (c *conn) queueList(raw wire.Raw) bool {
	req := new(wire.QueueList)
	if ok, alive := taken(c, raw, req, (*wire.QueueList).Validate); !ok {
		return alive
	}
	limit := int(req.Limit)
	if limit == 0 {
		limit = pageDefault
	}
	return c.slowly(raw.Tag, 0, 1, func(ctx context.Context, e *errand) (wire.Type, any, *wire.Fault) {
		if f := e.takeTurn(ctx, req.Stale); f != nil {
			return 0, nil, f
		}
		rep := &wire.Queues{Queues: make([]wire.QueueInfo, 0, limit)}
		stale, after, more := req.Stale, req.After, true
		weights := 0
		for more {
			held := 0
			at, f := c.readState(ctx, stale, func(st *fsm.State) {
				more = false
				st.Queues(after, func(n uint32, name string) bool {
					if len(rep.Queues) == limit || weights > pageWeights {
						rep.Next = after // there is another one
						return false
					}
					if held == pageTasksHold {
						more = true
						return false
					}
					held++
					rep.Queues = append(rep.Queues, c.srv.queueInfo(st, n, name))
					o := &rep.Queues[len(rep.Queues)-1].Options
					weights += len(o.FairWeights) + len(o.Schema)/schemaWeight
					after = name
					return true
				})
			})
			if f != nil {
				return 0, nil, f
			}
			if rep.At.Index == 0 {
				rep.At = at
			}
			stale = true // the first hold was as fresh as was asked for, and the state only goes on
		}
		return wire.TypeQueues, rep, nil
	})
}
