package client

import "slices"

// fifo is a queue of calls.
type fifo struct {
	a    []*call
	head int
}

func (q *fifo) len() int { return len(q.a) - q.head }

func (q *fifo) pushBack(cl *call) { q.a = append(q.a, cl) }

func (q *fifo) pushFront(cl *call) {
	if q.head > 0 {
		q.head--
		q.a[q.head] = cl
		return
	}
	q.a = slices.Insert(q.a, 0, cl)
}

// prepend puts calls before all others.
func (q *fifo) prepend(cls []*call) {
	q.a = slices.Concat(cls, q.a[q.head:])
	q.head = 0
}

// insertByTag puts a call that was sent before those that never were, in the order of sending.
func (q *fifo) insertByTag(cl *call) {
	i := q.head
	for i < len(q.a) && q.a[i].tag != 0 && q.a[i].tag <= cl.tag {
		i++
	}
	q.a = slices.Insert(q.a, i, cl)
}

// insertByNumber keeps the queue ascending.
func (q *fifo) insertByNumber(cl *call) {
	i := len(q.a)
	for i > q.head && (q.a[i-1].state != callQueued || q.a[i-1].number > cl.number) {
		i--
	}
	q.a = slices.Insert(q.a, i, cl)
}

// front is the first call that has not ended, or nil.
func (q *fifo) front() *call {
	for q.head < len(q.a) {
		if cl := q.a[q.head]; cl.state == callQueued {
			return cl
		}
		q.pop()
	}
	return nil
}

func (q *fifo) pop() {
	q.a[q.head] = nil
	q.head++
	if q.head == len(q.a) {
		q.a, q.head = q.a[:0], 0
	} else if q.head > 1024 && q.head > len(q.a)/2 {
		n := copy(q.a, q.a[q.head:])
		clear(q.a[n:])
		q.a, q.head = q.a[:n], 0
	}
}

func (q *fifo) compact() {
	n := 0
	for _, cl := range q.a[q.head:] {
		if cl.state == callQueued {
			q.a[n] = cl
			n++
		}
	}
	clear(q.a[n:])
	q.a, q.head = q.a[:n], 0
}
