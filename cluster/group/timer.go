package group

import (
	"fmt"
	"time"

	"github.com/hashicorp/raft"
	"github.com/quorate/quorate/fsm"
)

// How often deadlines are looked at. Due messages have a timer of their own; a jump of the wall clock or of an injected
// clock is noticed within a beat.
const (
	beatLeading   = 25 * time.Millisecond
	beatFollowing = 100 * time.Millisecond
)

// keepTime sees to all that time brings: deadlines of callers, waits of pulls, due messages, the watchdog. One goroutine.
func (g *Group) keepTime() {
	t := time.NewTimer(beatFollowing)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-g.timerWake:
		case <-g.stopTimer:
			return
		}
		t.Reset(g.beat())
	}
}

// wakeTimer has keepTime look now.
func (g *Group) wakeTimer() {
	select {
	case g.timerWake <- struct{}{}:
	default:
	}
}

// armTimer wakes keepTime if something has become due earlier than what it waits for. The state lock is held.
func (g *Group) armTimer(due int64) {
	if g.dueArmed == 0 || due < g.dueArmed {
		g.dueArmed = due
		g.wakeTimer()
	}
}

// pullUntil notes when a pull has waited long enough. The state lock is held.
func (g *Group) pullUntil(at time.Duration) {
	if g.pullNext == 0 || at < g.pullNext {
		g.pullNext = at
	}
}

// beat does what has come up and says when to look again.
func (g *Group) beat() (next time.Duration) {
	now := g.clock.Mono()
	var b batch
	b.failAll(g.intake.expired(now), errTooLate)
	next = beatFollowing

	g.mu.Lock()
	for _, f := range g.flights.list {
		if f.deadline == 0 || f.deadline > now {
			continue
		}
		f.deadline = 0
		for i := range f.ops {
			p := f.ops[i].p
			switch {
			case p == nil || p.Deadline == 0:
			case p.Deadline <= now:
				f.ops[i].p = nil
				p.Packed = f.packed
				b.fail(p, errDeadline)
			case f.deadline == 0 || p.Deadline < f.deadline:
				f.deadline = p.Deadline
			}
		}
	}
	for i, o := range g.orphans {
		b.fail(o.p, o.why)
		g.orphans[i] = orphan{}
	}
	g.orphans = g.orphans[:0]
	// One question at a time: on a disk that hangs there is no answer, and the beats would pile them up. endPulls has keepTime look again.
	waited := g.pullNext != 0 && g.pullNext <= now && !g.pullAsked
	switch {
	case waited:
		g.pullAsked = true
	case g.pullNext != 0 && !g.pullAsked:
		next = min(next, max(g.pullNext-now, time.Millisecond))
	}
	g.dueArmed = 0
	if g.serving {
		next = min(next, beatLeading)
		if due, ok := g.st.NextDue(); ok {
			g.dueArmed = due
			next = min(next, max(g.time.until(due), time.Millisecond))
		}
		if wait, ok := g.scheduleDue(); ok {
			next = min(next, max(wait, time.Millisecond))
		}
		if wait, ok := g.refill(now); ok {
			next = min(next, max(wait, time.Millisecond))
		}
	}
	g.dispatch.unblock(now)
	g.weigh(now)
	g.tidyUp(now)
	serving := g.serving
	stuck := g.stuck(now)
	g.mu.Unlock()

	g.finish(&b)
	if waited {
		g.readAsync(g.endPulls)
	}
	if serving {
		g.kick() // a tick if one is due, releases that waited, a hold that is over
	}
	g.metrics.gauge(g)
	if g.raft.State() == raft.Shutdown && !g.stopping.Load() {
		g.fatal(fmt.Errorf("raft of group %d has stopped by itself", g.cfg.Number))
	}
	if stuck != nil && !g.tripped.Swap(true) {
		g.loops.Go(func() { g.trip(stuck) })
	}
	return next
}

// pullGrace is how long a pull whose wait is over stays while the queue has messages, others perhaps being served first.
const pullGrace = time.Second

// endPulls answers pulls that have waited long enough with nothing, once leadership is confirmed: another leader might
// have messages for them. The state lock is held.
func (g *Group) endPulls(st *fsm.State, at Stamp, err *Error) {
	g.pullAsked = false
	if err != nil {
		if g.serving {
			g.pullNext = g.clock.Mono() + beatLeading // again; if leadership is lost they are failed
		}
		return
	}
	defer func() {
		if g.pullNext != 0 {
			g.wakeTimer()
		}
	}()
	now := g.clock.Mono()
	t, _ := g.time.now()
	d := &g.dispatch
	g.pullNext = 0
	none := []fsm.Outcome{{}}
	for _, s := range d.sessions {
		for w := range s.pulls {
			if w.until > now {
				g.pullUntil(w.until)
				continue
			}
			if avail, _, _ := d.look(w.queue, st, t); avail > 0 && now < w.until+pullGrace { // the next entry will have something for it
				d.mark(w.queue)
				g.pullUntil(now + time.Millisecond)
				continue
			}
			delete(s.pulls, w)
			d.delist(w.queue, &w.waiter)
			d.drop(w.queue)
			p := w.p
			p.session = nil
			done := p.Done
			if w.answered(st) {
				done.Complete(p, nil, Stamp{}, nil, nil, errAnswered)
			} else {
				done.Complete(p, st, at, none, nil, nil)
			}
			if f, ok := done.(Flusher); ok {
				f.Flush()
			}
		}
	}
}
