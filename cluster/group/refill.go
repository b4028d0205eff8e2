package group

import (
	"container/heap"
	"time"
)

// refillEvery is the least time between two entries that are proposed because a rate lets out more: 100 a second. What rides
// along with other entries is not counted.
const refillEvery = 10 * time.Millisecond

// refills are the queues in which somebody waits for a rate to let out more, the first first. A queue whose consumers are all
// busy, or that has nothing ready, is not here: for it no entry is written. The state lock guards it.
type refills struct {
	queues []*queue
	from   time.Duration // no entry for a refill before, on Clock.Mono
	sooner bool          // another one is the first: keepTime is to know
}

func (r *refills) Len() int           { return len(r.queues) }
func (r *refills) Less(i, j int) bool { return r.queues[i].refillAt < r.queues[j].refillAt }

func (r *refills) Swap(i, j int) {
	q := r.queues
	q[i], q[j] = q[j], q[i]
	q[i].refillIx, q[j].refillIx = i, j
}

// Push is for container/heap.
func (r *refills) Push(x any) {
	q := x.(*queue)
	q.refillIx = len(r.queues)
	r.queues = append(r.queues, q)
}

// Pop is for container/heap.
func (r *refills) Pop() any {
	last := len(r.queues) - 1
	q := r.queues[last]
	r.queues[last] = nil
	r.queues = r.queues[:last]
	q.refillAt = 0
	return q
}

// at has a queue looked at again when T has come to t.
func (r *refills) at(q *queue, t int64) {
	if q.refillAt == t {
		return
	}
	if q.refillAt != 0 {
		q.refillAt = t
		heap.Fix(r, q.refillIx)
	} else {
		q.refillAt = t
		heap.Push(r, q)
	}
	r.sooner = r.sooner || q.refillIx == 0
}

func (r *refills) forget(q *queue) {
	if q.refillAt != 0 {
		heap.Remove(r, q.refillIx)
	}
}

// due marks the queues whose time has come at T = now, if somebody still waits, and says whether there are any.
func (r *refills) due(d *dispatcher, now int64) (found bool) {
	for len(r.queues) > 0 && r.queues[0].refillAt <= now {
		q := heap.Pop(r).(*queue)
		if q.count > 0 {
			d.mark(q)
			found = true
		}
	}
	return found
}

// refill marks what a rate lets out by now, no more often than every refillEvery, and says when to look again. The state lock
// is held; the caller kicks.
func (g *Group) refill(now time.Duration) (wait time.Duration, ok bool) {
	r := &g.dispatch.refills
	if now >= r.from {
		if t, _ := g.time.now(); r.due(&g.dispatch, t) {
			r.from = now + refillEvery
		}
	}
	if len(r.queues) == 0 {
		return 0, false
	}
	return max(g.time.until(r.queues[0].refillAt), r.from-now), true
}
