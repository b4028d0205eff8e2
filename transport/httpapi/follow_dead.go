package httpapi

import (
	"strconv"
	"strings"

	"github.com/quorate/quorate/wire"
)

// deadFeed is how far a stream of dead letters has come. They are listed by the time they died and, within a millisecond, by their ids, so one that
// dies later may stand before one that has been sent. Each look therefore begins with the millisecond that the one before has come to, and passes
// over what of that has been sent.
type deadFeed struct {
	x    *exchange
	req  wire.DeadList
	at   int64           // the millisecond; nothing that died before it is still to be sent
	last string          // id of what was sent last of it; "": nothing
	sent map[string]bool // ids of what was sent of it
}

// noID stands before every id.
const noID = "00000000000000000000000000"

// place is what goes on where this feed is.
func (d *deadFeed) place() string {
	if d.last == "" {
		return strconv.FormatInt(d.at, 10) + "." + noID
	}
	return strconv.FormatInt(d.at, 10) + "." + d.last
}

// reach goes on to a millisecond, never back.
func (d *deadFeed) reach(at int64) {
	if at > d.at {
		d.at, d.last = at, ""
		clear(d.sent)
	}
}

// from begins behind a place.
func (d *deadFeed) from(field, place string) *wire.Fault {
	at, id, _ := strings.Cut(place, ".")
	ms, err := strconv.ParseInt(at, 10, 64)
	if err != nil || ms < 0 || wire.CheckID(field, id) != nil {
		return wire.Invalid(field, "%.64q; the id of an event, or next of a page, would be right", place)
	}
	d.at = ms
	if id != noID {
		d.last, d.sent[id] = id, true
	}
	return nil
}

// look sends what there is to a stream, or, if there is none, only passes over it. It begins the stream, where that has not begun.
func (d *deadFeed) look(e **events, send bool) *wire.Fault {
	x := d.x
	d.req.After = strconv.FormatInt(d.at, 10) + "." + noID
	for first := int64(-1); ; {
		rep, f := call[wire.Tasks](x, wire.TypeDeadList, &d.req)
		if f != nil {
			return f
		}
		if first < 0 {
			first = rep.At.Time // what dies after this look dies then or later
		}
		if send && *e == nil {
			*e = x.begin(d.place())
		}
		if f := d.pass(*e, rep.Tasks); f != nil {
			return f
		}
		if *e != nil && (*e).gone {
			return nil
		}
		if d.req.After = rep.Next; rep.Next == "" {
			d.reach(first)
			return nil
		}
	}
}

// pass sends a page. e is nil where it is only passed over.
func (d *deadFeed) pass(e *events, page []wire.Task) *wire.Fault {
	size := 0
	for i := range page {
		size += len(page[i].Body)
	}
	done, f := d.x.unread(size)
	if f != nil {
		return f
	}
	defer done()
	for i := range page {
		t := &page[i]
		d.reach(t.EndedAt)
		if d.sent[t.ID] {
			continue
		}
		d.last, d.sent[t.ID] = t.ID, true
		if e == nil {
			continue
		}
		j := taskOf(t, d.x.query["body_encoding"])
		e.add(eventDead, d.place(), &j)
		if e.gone {
			return nil
		}
	}
	if e != nil {
		e.flush()
	}
	return nil
}

// followDead streams a queue's dead letters that pass the filter.
func (x *exchange) followDead() *wire.Fault {
	filter := x.filter()
	d := &deadFeed{x: x, req: *filter.list(x.path["q"]), sent: map[string]bool{}}
	place, field := x.query["after"], "after"
	if id := x.r.Header.Get("Last-Event-ID"); id != "" {
		place, field = id, "Last-Event-ID"
	}
	if place != "" {
		if f := d.from(field, place); f != nil {
			return f
		}
	}
	known, f := x.api.cfg.Node.WaitDead(x.ctx, d.req.Queue, -1, x.api.cfg.PingEvery) // before the first look, so that none is missed
	if f == nil && place == "" && x.bool("last") {
		f = d.skip()
	}
	var e *events
	for f == nil {
		if f = d.look(&e, true); f != nil {
			break
		}
		for known0 := known; f == nil && known == known0; {
			if e.gone || x.r.Context().Err() != nil {
				return nil
			}
			if x.ctx.Err() != nil {
				f = stopping()
				break
			}
			if known, f = x.api.cfg.Node.WaitDead(x.ctx, d.req.Queue, known0, x.api.cfg.PingEvery); f == nil && known == known0 && x.ctx.Err() == nil {
				e.rest(d.place())
			}
		}
	}
	if e == nil {
		return f
	}
	e.end(f)
	return nil
}

// skip passes over what has died until now.
func (d *deadFeed) skip() *wire.Fault {
	req := d.req
	req.Limit, req.Brief = 1, true
	rep, f := call[wire.Tasks](d.x, wire.TypeDeadList, &req)
	if f != nil {
		return f
	}
	d.reach(rep.At.Time)
	var none *events
	return d.look(&none, false)
}
