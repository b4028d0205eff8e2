package history

import "fmt"

// phantoms demands that every message in the log is one that a client tried to enqueue.
func (c *checker) phantoms() {
	sent := map[request]string{} // bodies, by the request that brought them
	carried := map[string]string{}
	for _, op := range c.ops {
		switch op.call.Op {
		case Enqueue, Batch, Plan, Move, Edit:
			sent[request{op.call.Session, op.call.Number}] = op.call.Body
		case Ack:
			if op.call.Body != "" {
				carried[op.call.Token] = op.call.Body
			}
		}
	}
	nobody := func(mode, format string, args ...any) {
		c.r.mode(mode).Unexpected++
		c.r.blame("G2", mode, fmt.Sprintf(format, args...))
	}
	for token, ms := range c.j.chained {
		for _, m := range ms {
			if to, mapped := c.j.mapped[token]; mapped { // nobody sent it: it is what the leader has made
				if m.q.name != to {
					nobody(m.q.opt.Mode, "message %s is in queue %s behind the ack %s of a mapping to queue %s", m.id, m.q.name, token, to)
				}
				continue
			}
			if carried[token] != m.sent {
				nobody(m.q.opt.Mode, "message %s is in the log behind the ack %s, and nobody sent it so", m.id, token)
			}
		}
	}
	for _, b := range c.j.batches {
		if sent[b.by] != b.callback.Body {
			nobody(b.q.opt.Mode, "batch %s is in the log under request %s/%d, and nobody made it so", b.id, b.by.session, b.by.number)
		}
	}
	for id, m := range c.j.created {
		if body, ok := sent[id]; !ok || body != m.sent {
			nobody(m.q.opt.Mode, "message %s is in the log under request %s/%d, and nobody sent it so", m.id, id.session, id.number)
		}
	}
	for id, body := range c.j.bodies {
		if sent[id] != body {
			nobody("", "a body was replaced in the log under request %s/%d, and nobody sent it so", id.session, id.number)
		}
	}
	for id, e := range c.j.plans {
		if body, ok := sent[id]; !ok || body != e.Body {
			nobody(c.j.mode(e.Queue), "schedule %s is in the log under request %s/%d, and nobody declared it so", e.Name, id.session, id.number)
		}
	}
}

// bodyOf is the body that a lease of a message went out with.
func (j *judge) bodyOf(m *message, token string) string {
	if b, ok := j.given[token]; ok {
		return b
	}
	return m.sent
}

// ends holds what clients alone can see of ends: a task whose cancel was confirmed goes out no more and takes no result, and each time of a
// schedule made one message (G6).
func (c *checker) ends(es []Event) {
	cancelled := map[string]*operation{} // by message, the first that was confirmed
	for _, op := range c.ops {
		if op.call.Op == Cancel && op.class() == OK && op.ret.Index != 0 {
			if first := cancelled[op.call.Message]; first == nil || op.ret.Index < first.ret.Index {
				cancelled[op.call.Message] = op
			}
		}
	}
	for _, op := range c.ops {
		if op.call.Op != Ack || op.class() != OK {
			continue
		}
		if at := cancelled[messageOf(op.call.Token)]; at != nil && op.ret.Index > at.ret.Index {
			c.blame("G6", op, "an ack succeeds after its task was cancelled", at.call, at.ret)
		}
	}
	fired := map[string]*Event{}
	for i := range es {
		d := &es[i]
		if d.Kind != Deliver {
			continue
		}
		if at := cancelled[d.Message]; at != nil && leaseIndex(d.Token) > at.ret.Index {
			c.r.blame("G6", c.modeOf(d), "a task is delivered after it was cancelled", at.call, at.ret, d)
		}
		m := c.j.all[d.Message]
		if d.Firing == "" || m == nil || m.redrives > 0 || m.letter != nil { // or it is what became of the first
			continue
		}
		if before := fired[d.Firing]; before != nil && before.Message != d.Message {
			c.r.blame("G6", c.modeOf(d), "one time of a schedule made two messages", before, d)
		} else if before == nil {
			fired[d.Firing] = d
		}
		if c.j.firings[d.Firing] != d.Message {
			c.r.blame("G6", c.modeOf(d), "a message says that it was made for "+d.Firing+", and by the log it was not", d)
		}
	}
}
