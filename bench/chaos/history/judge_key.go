package history

// flow is what waits of one key in a queue whose keys have a rate.
type flow struct {
	ready waiting
	pace  pace
}

// flow is where what has the key waits, nil where that is the queue.
func (q *queue) flow(key string) *flow {
	if q.opt.KeyRate == 0 || key == "" {
		return nil
	}
	f := q.flows[key]
	if f == nil {
		f = new(flow)
		q.flows[key] = f
	}
	return f
}

// keyGrace is how long in ms a key may still be held back when its rate has just let it go: T is whole milliseconds, and the state counts
// in finer units than the pace here.
const keyGrace = 2

// best is the message that the mode demands next, nil where none may go. Of what has a key whose rate holds it back nothing may; whether the
// key of m is one of them is judged by itself.
func (q *queue) best(m *message, now int64) *message {
	best := q.ready.first()
	for key, f := range q.flows {
		b := f.ready.first()
		if b == nil || key != m.key && !f.pace.open(q.opt.KeyRate, q.opt.KeyBurst, now-keyGrace) {
			continue
		}
		if best == nil || b.priority > best.priority || b.priority == best.priority && b.place < best.place {
			best = b
		}
	}
	return best
}
