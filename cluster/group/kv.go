package group

import (
	"context"

	"github.com/quorate/quorate/fsm"
)

// watchers are those who wait for the KV to change. The state lock guards them.
type watchers struct{ waiting map[*watcher]struct{} }

type watcher struct{ changed chan *Error } // buffered: nil, or why it is not known here

func (w *watchers) reset() { w.waiting = map[*watcher]struct{}{} }

// wake ends every wait; whom the change does not concern waits anew.
func (w *watchers) wake(err *Error) {
	for one := range w.waiting {
		one.changed <- err
	}
	clear(w.waiting)
}

// WaitKV returns nil when the KV has changed behind a position; at once if it has. The caller then reads how. ctx ends the
// wait (timeout, refused: waiting changes nothing).
func (g *Group) WaitKV(ctx context.Context, after uint64) *Error {
	w := &watcher{changed: make(chan *Error, 1)}
	changed := false
	var refused *Error
	_, err := g.Read(ctx, false, func(st *fsm.State) {
		switch {
		case st.KVPosition() > after:
			changed = true
		case !g.serving:
			refused = g.notLeading()
		case len(g.watchers.waiting) >= g.limits.TaskWaiters:
			refused = errWatchers
		default:
			g.watchers.waiting[w] = struct{}{}
		}
	})
	switch {
	case err != nil:
		return err
	case changed:
		return nil
	case refused != nil:
		return refused
	}
	select {
	case err := <-w.changed:
		return err
	case <-ctx.Done():
		g.mu.Lock()
		delete(g.watchers.waiting, w)
		g.mu.Unlock()
		return errWatchLate
	}
}
