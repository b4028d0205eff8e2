package history

import (
	"cmp"
	"fmt"
	"slices"
)

// realTime demands that the log's order keeps the order of real time: what had returned before something else was sent
// stands before it in the log (G9, G14), and nothing succeeds from end to end while no majority is alive (G12). Calls and
// returns are swept in the order of the clients' one clock.
func (c *checker) realTime(es []Event) {
	type point struct {
		at  int64
		ret bool
		op  *operation
	}
	points := make([]point, 0, 2*len(c.ops))
	for _, op := range c.ops {
		points = append(points, point{op.call.At, false, op})
		if op.ret != nil && op.ret.Index != 0 {
			points = append(points, point{op.ret.At, true, op})
		}
	}
	slices.SortStableFunc(points, func(a, b point) int {
		if a.at != b.at {
			return cmp.Compare(a.at, b.at)
		}
		switch { // at one tick nothing is known: calls first demand nothing
		case a.ret == b.ret:
			return 0
		case a.ret:
			return 1
		}
		return -1
	})
	var latest *operation // of those that have returned, the one with the highest index
	for _, p := range points {
		if p.ret {
			if latest == nil || p.op.ret.Index > latest.ret.Index {
				latest = p.op
			}
			continue
		}
		if latest == nil || p.op.ret == nil {
			continue
		}
		index, mutates := c.effectIndex(p.op)
		if index == 0 || index > latest.ret.Index || !mutates && index == latest.ret.Index {
			continue
		}
		g := "G14"
		if p.op.call.Op == Enqueue {
			g = "G9"
		}
		c.blame(g, p.op, fmt.Sprintf("it took effect in entry %d, and was sent after an answer of entry %d had returned", index, latest.ret.Index),
			latest.call, latest.ret)
	}
	var down *Event
	for i := range es {
		switch e := &es[i]; {
		case e.Kind != Mark:
		case e.Note == Down:
			down = e
		case e.Note == Up && down != nil:
			for _, op := range c.ops {
				if op.class() == OK && op.call.At > down.At && op.ret.At < e.At {
					c.blame("G12", op, "success while no majority was alive", down, e)
				}
			}
			down = nil
		}
	}
}

// effectIndex is the entry in which a successful operation took effect, 0 where that is not known, and whether the entry
// is the operation's own.
func (c *checker) effectIndex(op *operation) (index uint64, mutates bool) {
	if op.ret.Class != OK {
		return 0, false
	}
	switch op.call.Op {
	case Enqueue:
		if !op.ret.Duplicate {
			if first := c.firstCall(op); first != op {
				return op.ret.Index, true // sent again: it took effect after the first sending
			}
			return parseID(op.ret.Message).Index(), true
		}
	case Lease:
		if len(op.delivers) > 0 && c.firstCall(op) == op {
			return leaseIndex(op.delivers[0].Token), true
		}
		return op.ret.Index, false
	case Read, Final, Look:
		return op.ret.Index, false
	}
	return op.ret.Index, true
}

// calls are the calls under an operation's request id, in the order they were made: that one alone where it has no id.
func (c *checker) calls(op *operation) []*operation {
	if c.same == nil {
		c.same = map[request][]*operation{}
		for _, o := range c.ops {
			if id := (request{o.call.Session, o.call.Number}); id.session != "" {
				c.same[id] = append(c.same[id], o)
			}
		}
	}
	if all := c.same[request{op.call.Session, op.call.Number}]; len(all) > 0 {
		return all
	}
	return []*operation{op}
}

// firstCall is the first call under an operation's request id.
func (c *checker) firstCall(op *operation) *operation { return c.calls(op)[0] }

// tokens holds what clients alone can see of fencing: no ack succeeds with a token when a later one of the message had been
// granted before, and all acks of one token that succeed agree (G4, G5). It needs no log, and is a second opinion.
func (c *checker) tokens(es []Event) {
	latest := map[string][]string{} // tokens that were seen, by message, rising
	for i := range es {
		if d := &es[i]; d.Kind == Deliver {
			latest[d.Message] = append(latest[d.Message], d.Token)
		}
	}
	for _, ts := range latest {
		slices.Sort(ts)
	}
	results := map[string]*operation{}
	for _, op := range c.ops {
		if op.call.Op != Ack || op.class() != OK {
			continue
		}
		ts := latest[messageOf(op.call.Token)]
		if i, _ := slices.BinarySearch(ts, op.call.Token); i < len(ts) {
			for i < len(ts) && ts[i] == op.call.Token {
				i++
			}
			if i < len(ts) && leaseIndex(ts[i]) < op.ret.Index {
				c.blame("G4", op, fmt.Sprintf("an ack succeeded in entry %d, with a token that is older than %s of entry %d", op.ret.Index, ts[i], leaseIndex(ts[i])))
			}
		}
		if m := c.j.named(op.call.Token); op.ret.Duplicate || m != nil && m.letter != nil { // a moved dead letter has no result
			continue
		}
		if before := results[op.call.Token]; before == nil {
			results[op.call.Token] = op
		} else if before.call.Result != op.call.Result {
			c.blame("G5", op, "two acks with one token succeeded with different results", before.call, before.ret)
		}
	}
}

// clocks holds the leases that ran out against the clients' clock, which no leader has a hand in: from the call that
// brought a lease to the arrival of the next one of its message there must be the lease's length, less what log time may run
// ahead (G13).
func (c *checker) clocks(es []Event) {
	type grant struct {
		call *Event
		own  *Event
	}
	last := map[string]grant{} // the greatest token of each message that has come by a pull
	calls := map[uint64]*Event{}
	for _, op := range c.ops {
		calls[op.call.Call] = op.call
	}
	for i := range es {
		d := &es[i]
		if d.Kind != Deliver {
			continue
		}
		before, ok := last[d.Message]
		if ok && d.Token > before.own.Token {
			if length := c.j.lapsed[before.own.Token]; length > 0 {
				least := (length*94/100 - 50) * 1000
				if took := d.At - before.call.At; took < least {
					c.r.blame("G13", c.modeOf(d), fmt.Sprintf("a lease of %d ms ran out within %d µs of its call, by the clients' clock", length, took),
						before.call, before.own, d)
				}
				c.r.count("lapsed lease held against the clients' clock")
			}
		}
		if call := calls[d.Call]; call != nil && (!ok || d.Token > before.own.Token) {
			last[d.Message] = grant{call, d}
		} else if d.Call == 0 {
			delete(last, d.Message)
		}
	}
}
