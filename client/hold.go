package client

// hold keeps back the messages of one queue that were never sent, while earlier ones wait to be sent again after a refusal: sent now, they would
// be accepted before them. So it is with a queue that is ordered, or may be: nothing is known of one of which the log has answered nothing yet.
// Guarded by Client.mu.
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
	if ordered, known := c.ordered[queue]; known && !ordered {
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
	if cl.holds != h {
		if cl.holds != nil { // one that has been let go since
			cl.holds.waiting--
		}
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
	c.releaseHoldLocked(h, queue)
}

// releaseHoldLocked sends what was kept back.
func (c *Client) releaseHoldLocked(h *hold, queue string) {
	if c.held[queue] == h { // and not another one that has come since
		delete(c.held, queue)
	}
	if len(h.calls) > 0 {
		c.fresh.prepend(h.calls)
		h.calls = nil
		c.wakeWriter()
	}
}

// learnLocked notes whether a queue is ordered, as the log says. What was kept back while that was not known, and need not be, is sent.
func (c *Client) learnLocked(queue string, ordered bool) {
	if was, known := c.ordered[queue]; known && was == ordered {
		return
	}
	if len(c.ordered) >= maxOrdered {
		clear(c.ordered) // the next answers tell again
	}
	c.ordered[queue] = ordered
	if h := c.held[queue]; h != nil && !ordered {
		c.releaseHoldLocked(h, queue)
	}
}

// maxOrdered is of how many queues a client remembers whether they are ordered.
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
