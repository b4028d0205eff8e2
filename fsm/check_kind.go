package fsm

// kindKey is a kind of a queue that is counted apart; "": the others.
type kindKey struct {
	queue int32
	kind  string
}

// kinds holds the counts of ready messages by kind against those of a scan, and the rest against the queue's own.
func (c *checker) kinds(found map[kindKey]int64) {
	s := c.s
	all := 0
	for _, slot := range s.names {
		q := s.queues[slot]
		if q.kinds == nil {
			continue
		}
		all += len(q.kinds.kinds)
		if len(q.kinds.kinds) > MaxKinds {
			c.bad("queue %q counts %d kinds apart", q.meta.name, len(q.kinds.kinds))
		}
		for _, k := range append(q.kinds.kinds[:len(q.kinds.kinds):len(q.kinds.kinds)], &q.kinds.other) {
			if n := found[kindKey{slot, k.kind}]; k.ready != n {
				c.bad("queue %q counts %d ready of kind %q, a scan finds %d", q.meta.name, k.ready, k.kind, n)
			}
		}
		for i, k := range s.Kinds(q.meta.number, nil) {
			low := min(k.Ready, k.Acked)
			for _, n := range k.DiedByReason {
				low = min(low, n)
			}
			if low < 0 || i > 0 && k.Kind == "" {
				c.bad("queue %q counts %+v of kind %q", q.meta.name, k, k.Kind)
			}
		}
	}
	if all != s.groupKinds {
		c.bad("%d kinds are counted apart, queues have %d", s.groupKinds, all)
	}
}
