package group

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/fsm"
)

// recorded are those who wait for the next result of a queue, by the queue's number. The state lock guards them.
type recorded struct {
	byQueue map[uint32]map[*resultWaiter]struct{}
	count   int
}

type resultWaiter struct{ done chan *Error } // buffered: a result, nil, or why there is none to be had here

func (r *recorded) reset() { *r = recorded{byQueue: map[uint32]map[*resultWaiter]struct{}{}} }

func (r *recorded) add(queue uint32, w *resultWaiter) {
	if r.byQueue[queue] == nil {
		r.byQueue[queue] = map[*resultWaiter]struct{}{}
	}
	r.byQueue[queue][w] = struct{}{}
	r.count++
}

func (r *recorded) remove(queue uint32, w *resultWaiter) {
	if _, ok := r.byQueue[queue][w]; !ok {
		return
	}
	r.count--
	if delete(r.byQueue[queue], w); len(r.byQueue[queue]) == 0 {
		delete(r.byQueue, queue)
	}
}

func (r *recorded) wake(queue uint32, err *Error) {
	for w := range r.byQueue[queue] {
		w.done <- err
		r.count--
	}
	delete(r.byQueue, queue)
}

func (r *recorded) failAll(err *Error) {
	for queue := range r.byQueue {
		r.wake(queue, err)
	}
}

// wakeResults wakes those who wait for results that the entry just applied has recorded, or whose queue it has deleted. The
// state lock is held.
func (g *Group) wakeResults() {
	if g.recorded.count == 0 {
		return
	}
	for _, n := range g.fx.Results {
		g.recorded.wake(n, nil)
	}
	for _, n := range g.fx.Purged {
		g.recorded.wake(n, nil)
	}
}

// WaitResult returns nil when a queue may have a result behind a position in the order of recording, at once if it has. The
// caller then reads it, and waits again if it is not of the kind it wants. A queue that does not exist, or is deleted
// meanwhile, is for the caller to find. ctx ends the wait (timeout, refused: waiting changes nothing).
func (g *Group) WaitResult(ctx context.Context, queue string, after uint64) *Error {
	w := &resultWaiter{done: make(chan *Error, 1)}
	var number uint32
	var refused *Error
	waits := false
	_, err := g.Read(ctx, false, func(st *fsm.State) {
		var known bool
		if number, known = st.QueueNumber([]byte(queue)); !known {
			refused = &Error{Code: CodeNotFound, Message: fmt.Sprintf("queue %q is not known", queue)}
			return
		}
		switch {
		case st.QueueResult(number) > after:
		case !g.serving:
			refused = g.notLeading()
		case g.recorded.count >= g.limits.ResultWaiters:
			refused = errWaiters
		default:
			waits = true
			g.recorded.add(number, w)
		}
	})
	switch {
	case err != nil:
		return err
	case refused != nil || !waits:
		return refused
	}
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		g.mu.Lock()
		g.recorded.remove(number, w)
		g.mu.Unlock()
		return errResultLate
	}
}
