package client

// hold keeps back the messages of one ordered queue that were never sent, while earlier ones wait to be sent again after a
// refusal: sent now, they would be accepted before them. Guarded by Client.mu.
type hold struct {
	waiting int     // calls that were refused and have not ended
	last    int64   // the latest time at which one of them is sent again: those behind it do not overtake it
	calls   []*call // kept back, in order; queued, but in none of the client's queues
}

// holdLocked is called when a batch is to be sent again later.
func (c *Client) holdLocked(cl *call) {
	if cl.batch == nil {
		return
	}
	queue := cl.batch.body.Queue
	if _, ordered := c.ordered[queue]; !ordered {
		return
	}
	h := c.held[queue]
	if h == nil {
		h = new(hold)
		c.held[queue] = h
		n := c.fresh.head
		for _, f := range c.fresh.a[c.fresh.head:] {
			if f.state == callQueued && f.batch != nil && f.tag == 0 && f.batch.body.Queue == queue {
				h.calls = append(h.calls, f)
				continue
			}
			c.fresh.a[n] = f
			n++
		}
		clear(c.fresh.a[n:])
		c.fresh.a = c.fresh.a[:n]
	}
	if cl.holds == nil {
		cl.holds = h
		h.waiting++
	}
	h.last = max(h.last, cl.retryAt)
	cl.retryAt = h.last
}

// unholdLocked is called when a call has ended; once nothing of its queue waits any more, what was kept back is sent.
func (c *Client) unholdLocked(cl *call, queue string) {
	h := cl.holds
	if h == nil {
		return
	}
	cl.holds = nil
	if h.waiting--; h.waiting > 0 {
		return
	}
	delete(c.held, queue)
	c.fresh.prepend(h.calls)
	c.wakeWriter()
}

// learnLocked notes whether a queue is ordered, as an answer says.
func (c *Client) learnLocked(queue string, ordered bool) {
	if !ordered {
		delete(c.ordered, queue)
		return
	}
	if len(c.ordered) >= maxOrdered {
		clear(c.ordered) // the next answers tell again
	}
	c.ordered[queue] = struct{}{}
}

// maxOrdered is how many ordered queues a client remembers.
const maxOrdered = 100_000

// startLocked queues a new batch, or keeps it back.
func (c *Client) startLocked(cl *call) {
	cl.state = callQueued
	if h := c.held[cl.batch.body.Queue]; h != nil {
		h.calls = append(h.calls, cl)
		return
	}
	c.fresh.pushBack(cl)
}

// compactHeldLocked drops ended calls from what is kept back.
func (c *Client) compactHeldLocked() {
	for _, h := range c.held {
		q := fifo{a: h.calls}
		q.compact()
		h.calls = q.a
	}
}

func (c *Client) heldLocked() (n int) {
	for _, h := range c.held {
		n += len(h.calls)
	}
	return n
}
