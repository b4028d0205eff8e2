package transport

import (
	"context"
	"time"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/wire"
)

// resultPage collects results over several short holds of the state, within bounds of count, bytes and records examined.
type resultPage struct {
	limit    int
	kind     string
	rep      wire.Results
	bytes    int
	examined int
}

func (p *resultPage) full() bool {
	return len(p.rep.Results) >= p.limit || p.bytes >= wire.MaxLeaseBytes || p.examined >= pageExamine
}

// walk looks at the results of a queue behind p.rep.Next until the page or the hold is full; false: there is none behind.
func (p *resultPage) walk(st *fsm.State, queue uint32) (more bool) {
	held := 0
	partial := st.Results(queue, p.rep.Next, func(r *fsm.RecordedResult) bool {
		if p.full() || held >= pageHold {
			more = true
			return false
		}
		p.examined++
		held++
		p.rep.Next = r.Seq
		if p.kind == "" || p.kind == string(r.Kind) {
			p.rep.Results = append(p.rep.Results, wire.Recorded{Position: r.Seq, Result: *resultOf(r), EndsAt: r.EndsAt})
			p.bytes += len(r.Output) + frameOverhead
			held += pageHold / pageTasksHold // copying costs more than looking
		}
		return true
	})
	switch {
	case partial != 0: // it has looked at as much as a call may, all of it ended
		p.rep.Next, p.examined = partial, pageExamine
		return true
	case !more: // nothing of the queue is behind, so whatever comes next is behind the last of all
		p.rep.Next = max(p.rep.Next, st.LastResult())
	}
	return more
}

// resultList lists a queue's results in the order of recording from a position on, and waits for the first if asked to.
func (c *conn) resultList(raw wire.Raw) bool {
	req := new(wire.ResultList)
	if ok, alive := taken(c, raw, req, (*wire.ResultList).Validate); !ok {
		return alive
	}
	wait := time.Duration(req.WaitMillis) * time.Millisecond
	return c.slowly(raw.Tag, wait, 1, func(ctx context.Context, e *errand) (wire.Type, any, *wire.Fault) {
		waiting, cancel := e.waiting(ctx, wait)
		defer cancel()
		p := &resultPage{limit: int(req.Limit), kind: req.Kind}
		if p.limit == 0 {
			p.limit = pageDefault
		}
		p.rep.Next = req.After
		last := req.Last
		for {
			if f := e.takeTurn(ctx, req.Stale); f != nil {
				return 0, nil, f
			}
			if f := c.results(ctx, req, p, last); f != nil {
				return 0, nil, f
			}
			if last = false; len(p.rep.Results) > 0 || p.rep.More || wait == 0 || waiting.Err() != nil {
				return wire.TypeResults, &p.rep, nil
			}
			e.leaveTurn()
			if err := c.srv.group("").WaitResult(waiting, req.Queue, p.rep.Next); err != nil && waiting.Err() == nil {
				f := faultOf(err)
				f.Unknown = false
				return 0, nil, f
			}
			if waiting.Err() != nil {
				return wire.TypeResults, &p.rep, nil
			}
		}
	})
}

// results fills a page; last: only finds where the order of recording stands.
func (c *conn) results(ctx context.Context, req *wire.ResultList, p *resultPage, last bool) *wire.Fault {
	stale := req.Stale
	p.rep.At, p.rep.Results = wire.At{}, []wire.Recorded{}
	for p.rep.More = true; p.rep.More && !p.full(); {
		var refused *wire.Fault
		at, f := c.readState(ctx, stale, func(st *fsm.State) {
			n, found := st.QueueNumber(wire.View(req.Queue))
			switch {
			case !found:
				refused = noQueue(req.Queue)
			case last:
				p.rep.Next, p.rep.More = st.LastResult(), false
			case p.rep.Next > st.LastResult() && !req.Stale:
				refused = wire.Invalid("after", "%d; the last position is %d: the one of an earlier page would be right", p.rep.Next, st.LastResult())
			default:
				p.rep.More = p.walk(st, n)
			}
		})
		if f == nil {
			f = refused
		}
		if f != nil {
			return f
		}
		if p.rep.At.Index == 0 {
			p.rep.At = at
		}
		stale = true // the first hold was as fresh as was asked for, and the state only goes on
	}
	return nil
}
