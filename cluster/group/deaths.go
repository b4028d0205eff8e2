package group

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/fsm"
)

// deaths are those who wait for the next dead letter of a queue, by the queue's number. The state lock guards them.
type deaths struct {
	byQueue map[uint32]*mourning
	count   int
}

// mourning is those who wait at one queue. They all know of as many deaths: with one more none of them waits any longer.
type mourning struct {
	known   int64
	waiters map[chan *Error]struct{} // each buffered: a death, nil, or why none is to be heard of here
}

func (d *deaths) reset() { *d = deaths{byQueue: map[uint32]*mourning{}} }

func (d *deaths) add(queue uint32, known int64, w chan *Error) {
	m := d.byQueue[queue]
	if m == nil {
		m = &mourning{known: known, waiters: map[chan *Error]struct{}{}}
		d.byQueue[queue] = m
	}
	m.waiters[w] = struct{}{}
	d.count++
}

func (d *deaths) remove(queue uint32, w chan *Error) {
	m := d.byQueue[queue]
	if m == nil {
		return
	}
	if _, ok := m.waiters[w]; !ok {
		return
	}
	d.count--
	if delete(m.waiters, w); len(m.waiters) == 0 {
		delete(d.byQueue, queue)
	}
}

func (d *deaths) wake(queue uint32, err *Error) {
	m := d.byQueue[queue]
	if m == nil {
		return
	}
	for w := range m.waiters {
		w <- err
		d.count--
	}
	delete(d.byQueue, queue)
}

func (d *deaths) failAll(err *Error) {
	for queue := range d.byQueue {
		d.wake(queue, err)
	}
}

// wakeDeaths wakes those who wait at queues to which the entry just applied has brought dead letters, or which it has deleted. The state lock is
// held.
func (g *Group) wakeDeaths() {
	if g.deaths.count == 0 || len(g.fx.Tasks)+len(g.fx.Purged) == 0 {
		return
	}
	for queue, m := range g.deaths.byQueue {
		if g.st.QueueDeaths(queue) != m.known {
			g.deaths.wake(queue, nil)
		}
	}
	for _, queue := range g.fx.Purged {
		g.deaths.wake(queue, nil)
	}
}

// WaitDead returns when more or fewer messages have come to a queue's dead letters than known, at once if they have, and says how many there have
// ever been, those that were moved to it from other queues among them. The caller then lists them, and waits again. A deleted queue is one that
// nothing has come to. ctx ends the wait (timeout, refused: waiting changes nothing).
func (g *Group) WaitDead(ctx context.Context, queue string, known int64) (now int64, err *Error) {
	w := make(chan *Error, 1)
	var number uint32
	for {
		var refused *Error
		waits := false
		_, err := g.Read(ctx, false, func(st *fsm.State) {
			var ok bool
			if number, ok = st.QueueNumber([]byte(queue)); !ok {
				refused = &Error{Code: CodeNotFound, Message: fmt.Sprintf("queue %q is not known", queue)}
				return
			}
			switch now = st.QueueDeaths(number); {
			case now != known:
			case !g.serving:
				refused = g.notLeading()
			case g.deaths.count >= g.limits.ResultWaiters:
				refused = errMourners
			default:
				waits = true
				g.deaths.add(number, known, w)
			}
		})
		switch {
		case err != nil:
			return known, err
		case refused != nil || !waits:
			return now, refused
		}
		select {
		case err := <-w:
			if err != nil {
				return known, err
			}
		case <-ctx.Done():
			g.mu.Lock()
			g.deaths.remove(number, w)
			g.mu.Unlock()
			return known, errDeathLate
		}
	}
}
