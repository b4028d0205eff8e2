package transport

import (
	"context"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/wire"
)

// page collects the tasks of a listing over several short holds of the state, within bounds of count, bytes and records
// examined. A cursor is the place of the last record looked at, so that a page may be short or even empty and yet not
// the last.
type page struct {
	limit    int
	tasks    []wire.Task
	bytes    int
	examined int
	held     int // in the present hold
	more     bool
	seen     map[fsm.ID]struct{} // a walk whose cursor has left its list begins again
}

// room reports whether another record may be looked at in this hold; if not, more says that the page goes on.
func (p *page) room() bool {
	if p.held == pageHold || p.examined == pageExamine {
		p.more = true
		return false
	}
	p.held++
	p.examined++
	return true
}

// full reports whether the page is at an end.
func (p *page) full() bool {
	return len(p.tasks) == p.limit || p.bytes >= wire.MaxLeaseBytes || p.examined == pageExamine
}

// exhausted ends the page: the state has looked at as many records as a call may.
func (p *page) exhausted() { p.examined, p.more = pageExamine, true }

// scanned counts bytes that were looked through as records looked at, one for each page of memory.
func (p *page) scanned(bytes int) {
	n := bytes >> 12
	p.held, p.examined = min(p.held+n, pageHold), min(p.examined+n, pageExamine)
}

// takeBrief is take for what costs no more to copy than to look at.
func (p *page) takeBrief(in *fsm.Info) {
	if _, again := p.seen[in.ID]; again {
		return
	}
	p.seen[in.ID] = struct{}{}
	p.tasks = append(p.tasks, taskOf(in, false))
	p.bytes += len(in.Error) + frameOverhead
	p.held = min(p.held+1, pageHold)
}

func (p *page) take(in *fsm.Info) {
	if _, again := p.seen[in.ID]; again {
		return
	}
	p.seen[in.ID] = struct{}{}
	p.tasks = append(p.tasks, taskOf(in, true))
	p.bytes += len(in.Body) + len(in.Error) + frameOverhead
	for _, h := range in.Headers {
		p.bytes += len(h.Name) + len(h.Value)
	}
	p.held += pageHold / pageTasksHold // copying costs more than looking
	p.held = min(p.held, pageHold)
}

var peekStates = map[string]fsm.MessageState{
	"":                    fsm.StateReady,
	wire.StatusPending:    fsm.StateReady,
	wire.StatusProcessing: fsm.StateLeased,
	wire.StatusScheduled:  fsm.StateScheduled,
	wire.StatusRetrying:   fsm.StateRetrying,
}

// peek looks at live messages without leasing them.
func (c *conn) peek(raw wire.Raw) bool {
	req := new(wire.Peek)
	if ok, alive := taken(c, raw, req, (*wire.Peek).Validate); !ok {
		return alive
	}
	var after fsm.ID
	if req.After != "" {
		var err error
		if after, err = fsm.ParseID(req.After); err != nil {
			return c.fault(raw.Tag, wire.Invalid("after", "%v: the cursor of an earlier page would be right", err))
		}
	}
	state := peekStates[req.State]
	limit := int(req.Limit)
	if limit == 0 {
		limit = peekDefault
	}
	return c.list(raw.Tag, req.Queue, req.Stale, limit, func(st *fsm.State, n uint32, p *page) string {
		partial := st.Peek(n, state, after, func(in *fsm.Info) bool {
			if p.full() {
				p.more = true
				return false
			}
			if !p.room() {
				return false
			}
			after = in.ID
			p.take(in)
			return true
		})
		if !partial.IsZero() { // it has looked at as much as a call may, without finding another
			after = partial
			p.exhausted()
		}
		return after.String()
	})
}

// list runs a listing: walk looks at records until the page or the hold is full, and gives the cursor.
func (c *conn) list(tag uint64, queue string, stale bool, limit int, walk func(*fsm.State, uint32, *page) string) bool {
	return c.slowly(tag, 0, 1, func(ctx context.Context, e *errand) (wire.Type, any, *wire.Fault) {
		if f := e.takeTurn(ctx, stale); f != nil {
			return 0, nil, f
		}
		p := &page{limit: limit, tasks: []wire.Task{}, more: true, seen: make(map[fsm.ID]struct{})}
		rep := new(wire.Tasks)
		cursor := ""
		for p.more && !p.full() {
			p.more, p.held = false, 0
			found := false
			at, f := c.readState(ctx, stale, func(st *fsm.State) {
				var n uint32
				if n, found = st.QueueNumber(wire.View(queue)); found {
					cursor = walk(st, n, p)
				}
			})
			if f != nil {
				return 0, nil, f
			}
			if !found {
				return 0, nil, noQueue(queue)
			}
			if rep.At.Index == 0 {
				rep.At = at
			}
			stale = true // the first hold was as fresh as was asked for, and the state only goes on
		}
		rep.Tasks = p.tasks
		if p.more {
			rep.Next = cursor
		}
		return wire.TypeTasks, rep, nil
	})
}
