package history

import (
	"cmp"
	"slices"

	"github.com/quorate/quorate/fsm"
)

// defaults are the options of a queue that an enqueue made.
func defaults() Options {
	return Options{
		Mode: "unordered", Lease: 30_000, Window: 24 * 3_600_000,
		Retry: fsm.RetryPolicy{Kind: fsm.RetrySchedule, Steps: []int64{1000, 5000, 10_000}},
	}
}

// queueOf is the queue that an operation on a queue as a whole takes effect on, nil where it has none: a repeat, a refusal, or what is
// blamed for being neither.
func (j *judge) queueOf(e *Effect) *queue {
	if j.repeated(e) {
		return nil
	}
	q := j.queues[e.Queue]
	if q == nil {
		j.verdict("G14", nil, e, "not_found", "there is no queue "+e.Queue)
		return nil
	}
	if !j.verdict("G14", nil, e, "", "the queue is there") {
		return nil
	}
	return q
}

// empty judges a purge: what waits is gone at once, what is out stays.
func (j *judge) empty(e *Effect) {
	q := j.queueOf(e)
	if q == nil {
		return
	}
	n := int64(0)
	for m := range q.live {
		if m.state == leased {
			j.r.count("out at a purge")
			continue
		}
		n++
		j.vanish(m)
	}
	if n != e.Count {
		j.blame("G14", nil, e, "a purge says that it took %d messages, where %d waited", e.Count, n)
	}
	if n > 0 {
		j.r.count("waiting messages purged")
	}
}

// drop judges the deletion of a queue: all that was of it is gone at once.
func (j *judge) drop(e *Effect) {
	q := j.queueOf(e)
	if q == nil {
		return
	}
	n, out := int64(len(q.live)+len(q.dead)), int64(0)
	for _, m := range q.all {
		if m.out { // whether the lease of a cancelled task counts is not said
			out++
		}
	}
	if e.Count < n || e.Count > n+out {
		j.blame("G14", nil, e, "the deletion of queue %s says that it took %d messages, where it had %d live ones and %d dead", q.name, e.Count, len(q.live), len(q.dead))
	}
	for m := range q.live {
		j.vanish(m)
	}
	for _, m := range q.all {
		m.out = false
		m.gen++ // what is out of a cancelled task
		m.dropped = j.index
		m.gone = cmp.Or(m.gone, j.index)
		if m.letter != nil {
			m.letter.gone = cmp.Or(m.letter.gone, j.index)
		}
	}
	delete(j.queues, q.name)
	j.r.count("queue deleted")
}

// vanish ends a message without an end: nobody is told, and nothing remembers it.
func (j *judge) vanish(m *message) {
	j.standUp(m)
	delete(m.q.live, m)
	m.state, m.gone = purged, j.index
	m.endIndex, m.endTime = j.index, j.time
	m.gen++
	if m.letter != nil {
		m.letter.gone = j.index
	}
	if m.batch != nil {
		j.swept = append(j.swept, m)
	}
}

// sweep counts the members of batches that a purge took: behind the operations of the entry, in the order of their ids.
func (j *judge) sweep() {
	slices.SortFunc(j.swept, func(a, b *message) int { return cmp.Compare(a.id, b.id) })
	for _, m := range j.swept {
		j.leaves(m)
		j.fire()
	}
	j.swept = j.swept[:0]
}

// home is where the callback of a batch goes: where its queue was deleted, one is made.
func (j *judge) home(b *batch) *queue {
	if q := j.queues[b.q.name]; q != nil {
		return q
	}
	return j.addQueue(b.q.name, defaults())
}
