package group

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/fsm"
)

// tasks are those who wait for a task's end. The state lock guards them.
type tasks struct {
	byID   map[fsm.ID][]*taskWaiter
	byHash map[[16]byte][]*taskWaiter
	count  int
}

type taskWaiter struct {
	id    fsm.ID
	hash  [16]byte
	queue uint32
	ended chan *Error // buffered: the end, nil, or why it is not known here
	done  bool
}

func (t *tasks) reset() {
	*t = tasks{byID: map[fsm.ID][]*taskWaiter{}, byHash: map[[16]byte][]*taskWaiter{}}
}

func (t *tasks) add(w *taskWaiter) {
	t.byID[w.id] = append(t.byID[w.id], w)
	t.byHash[w.hash] = append(t.byHash[w.hash], w)
	t.count++
}

func (t *tasks) remove(w *taskWaiter) {
	if w.done {
		return
	}
	w.done = true
	t.count--
	without(t.byID, w.id, w)
	without(t.byHash, w.hash, w)
}

func without[K comparable](m map[K][]*taskWaiter, k K, w *taskWaiter) {
	list := m[k]
	for i := range list {
		if list[i] == w {
			list[i] = list[len(list)-1]
			list[len(list)-1] = nil
			list = list[:len(list)-1]
			break
		}
	}
	if len(list) == 0 {
		delete(m, k)
	} else {
		m[k] = list
	}
}

func (t *tasks) wake(list []*taskWaiter, err *Error) {
	for len(list) > 0 {
		w := list[len(list)-1]
		list = list[:len(list)-1]
		if w.done {
			continue
		}
		t.remove(w)
		w.ended <- err
	}
}

func (t *tasks) failAll(err *Error) {
	for _, list := range t.byID {
		for _, w := range list {
			w.done = true
			w.ended <- err
		}
	}
	t.reset()
}

// wakeTasks wakes those who wait for tasks that the entry just applied has ended. The state lock is held.
func (g *Group) wakeTasks() {
	t := &g.tasks
	if t.count == 0 {
		return
	}
	for i := range g.fx.Tasks {
		e := &g.fx.Tasks[i]
		if list := t.byID[e.Message]; len(list) > 0 {
			t.wake(append([]*taskWaiter(nil), list...), nil)
		}
		if e.TaskHash != [16]byte{} {
			if list := t.byHash[e.TaskHash]; len(list) > 0 {
				t.wake(append([]*taskWaiter(nil), list...), nil)
			}
		}
	}
	for _, n := range g.fx.Purged { // rare: all who wait are looked at, and those of the queue look again
		var list []*taskWaiter
		for _, ws := range t.byHash {
			for _, w := range ws {
				if w.queue == n {
					list = append(list, w)
				}
			}
		}
		t.wake(list, nil)
	}
}

// WaitTask returns nil when the task has ended: done, with a result or without, dead, or deleted; at once if it has. The
// caller then reads how. A task that the state does not know is not_found. ctx ends the wait (timeout, refused: waiting
// changes nothing).
func (g *Group) WaitTask(ctx context.Context, queue string, task []byte) *Error {
	w := &taskWaiter{ended: make(chan *Error, 1)}
	found, ended := false, false
	var refused *Error
	_, err := g.Read(ctx, false, func(st *fsm.State) {
		var in fsm.Info
		if found = st.Task(queue, task, &in); !found {
			return
		}
		switch in.State {
		case fsm.StateDone, fsm.StateDead, fsm.StateCancelled:
			ended = true
			return
		}
		switch {
		case !g.serving:
			refused = g.notLeading()
		case g.tasks.count >= g.limits.TaskWaiters:
			refused = errWaiters
		default:
			w.queue, _ = st.QueueNumber([]byte(in.Queue))
			w.id, w.hash = in.ID, fsm.HashTaskBytes([]byte(in.Queue), in.TaskID)
			g.tasks.add(w)
		}
	})
	switch {
	case err != nil:
		return err
	case !found:
		return &Error{Code: CodeNotFound, Message: fmt.Sprintf("task %q is not known", task)}
	case ended:
		return nil
	case refused != nil:
		return refused
	}
	select {
	case err := <-w.ended:
		return err
	case <-ctx.Done():
		g.mu.Lock()
		g.tasks.remove(w)
		g.mu.Unlock()
		return errWaitLate
	}
}
