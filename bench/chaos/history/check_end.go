package history

import "fmt"

// Statuses of tasks, as clients read them.
const (
	succeeded     = "succeeded"
	wasDead       = "dead"
	wasCancelled  = "cancelled"
	leaseExpired  = "lease expired"
	spentAttempts = "max_attempts"
)

// ending says how a task stands at an index: its status, "" while it has not ended, and its result.
func (m *message) ending(index uint64) (status, result string) {
	switch {
	case m.letter != nil: // of which its status tells
		if m.letter.hasResult && m.letter.resultAt <= index {
			return succeeded, m.letter.result
		}
		return wasDead, ""
	case m.hasResult && m.resultAt <= index:
		return succeeded, m.result
	case !m.ended() || m.endIndex > index:
		return "", ""
	case m.state == dead:
		return wasDead, ""
	case m.state == cancelled:
		return wasCancelled, ""
	}
	return succeeded, ""
}

// nameless says whether a redriven message need not be found by an id of before: what is left of one that has ended without a result
// bears its last id alone, and the ids between its first and its last name nothing.
func (m *message) nameless(first *message) bool {
	return m != first && m.ended() && m.state != dead && !m.hasResult || first.redrives > 0 && (first.next != nil || first.gone != 0) ||
		m.gone != 0 && m.carried(first)
}

// carried says whether a message's result came before it was requeued: it is found by the task's id, and need not be by the last one.
func (m *message) carried(first *message) bool {
	return m == first && m.redrives > 0 && m.hasResult && m.resultAt <= m.created
}

// read compares what a linearizable read of a task's end saw with the log up to where it read (G6, G14).
func (c *checker) read(op *operation) {
	m := c.j.all[op.call.Message]
	if op.class() == Unknown || op.ret.Index == 0 {
		return
	}
	index := op.ret.Index
	if m == nil || m.created > index {
		if op.class() == OK {
			c.blame("G2", op, "a task was read that the log does not have there")
		}
		return
	}
	first := m
	m = m.asOf(index)
	if op.class() == Refused {
		if op.ret.Code == "not_found" && !c.j.forgottenBy(m, c.j.timeAt(index)) && !m.deletedBy(index) && !m.nameless(first) {
			c.blame("G1", op, fmt.Sprintf("the task of message %s is not found in entry %d; it was enqueued in entry %d and is to be remembered", m.id, index, m.created))
		}
		return
	}
	if m.deletedBy(index) {
		c.blame("G6", op, fmt.Sprintf("a task was read in entry %d whose dead letter was deleted in entry %d", index, m.gone))
		return
	}
	status, result := m.ending(index)
	if op.ret.Status != status {
		c.blame("G6", op, fmt.Sprintf("read as %q in entry %d, where the log has it as %q (ended in entry %d)", op.ret.Status, index, status, m.endIndex))
		return
	}
	if status == succeeded && op.call.Note != StatusOnly && op.ret.Result != result && (op.ret.Result != "" || !m.carried(first)) {
		c.blame("G6", op, fmt.Sprintf("the result read in entry %d is not the one that was recorded, %s", index, result))
	}
	if status == "" {
		status = "not ended"
	}
	c.r.count("task read as " + status)
}

// finals holds the end of the run against the log: every message that was confirmed is there and has ended as the log says
// (G1, G6, G7, G10).
func (c *checker) finals() {
	var reads []*operation
	read := map[string]bool{}
	for _, op := range c.ops {
		if op.call.Op == Final && op.ret != nil && op.class() != Unknown {
			reads = append(reads, op)
			read[op.call.Message] = true
		}
	}
	for _, op := range c.ops {
		if (op.call.Op == Enqueue && !op.isDuplicate() || op.call.Op == Requeue || op.call.Op == Edit) && op.class() == OK && !read[op.ret.Message] {
			c.r.mode(op.mode).Lost++
			c.blame("G1", op, "the message was confirmed, and nobody could read at the end what became of it")
		}
	}
	for _, op := range reads {
		m := c.j.all[op.call.Message]
		first := m
		if m != nil {
			m = m.now()
		}
		switch {
		case m == nil:
			if op.class() == OK {
				c.r.mode(op.mode).Unexpected++
				c.blame("G2", op, "a message is there at the end that the log does not have")
			} else {
				c.r.mode(op.mode).Lost++
				c.blame("G1", op, "a message is gone, and the log does not have it")
			}
			continue
		case op.class() == Refused:
			if !c.j.forgotten(m) && !m.deletedBy(^uint64(0)) && !m.nameless(first) {
				c.r.mode(op.mode).Lost++
				c.blame("G1", op, fmt.Sprintf("message %s of entry %d is gone; the log has it as %s since entry %d", m.id, m.created, m.state, m.endIndex))
			}
			continue
		}
		want, _ := m.ending(^uint64(0))
		switch {
		case m.deletedBy(^uint64(0)):
			c.blame("G6", op, fmt.Sprintf("message %s stands as %q at the end, and was deleted in entry %d", m.id, op.ret.Status, m.gone))
			continue
		case op.ret.Status != want && want == "":
			c.blame("G6", op, fmt.Sprintf("message %s stands as %q at the end; the log has not ended it", m.id, op.ret.Status))
		case op.ret.Status != want:
			c.blame("G6", op, fmt.Sprintf("message %s stands as %q at the end; the log has it as %q", m.id, op.ret.Status, want))
		case want == wasDead && m.letter != nil: // it is told of by its first id
		case want == wasDead && op.ret.Reason != m.reason:
			c.blame("G10", op, fmt.Sprintf("message %s died of %q; by the log it was %q", m.id, op.ret.Reason, m.reason))
		case want == wasDead && m.reason == spentAttempts && op.ret.Attempt != m.most:
			c.blame("G10", op, fmt.Sprintf("message %s died of its attempts after %d of %d", m.id, op.ret.Attempt, m.most))
		case want == wasDead && m.lastWord != "" && op.ret.Note != m.lastWord:
			c.blame("G10", op, fmt.Sprintf("the last error of message %s is %q, want %q", m.id, op.ret.Note, m.lastWord))
		case want == wasDead && m.moved != nil && (op.ret.Queue != m.moved.q.name || op.ret.Origin != m.q.name):
			c.blame("G6", op, fmt.Sprintf("dead letter %s stands in queue %s and died in %s; it died in %s and was moved to %s",
				m.id, op.ret.Queue, op.ret.Origin, m.q.name, m.moved.q.name))
		}
		if want == wasDead && m.lastWord == leaseExpired {
			c.r.count("died of an expired lease")
		}
	}
	if c.j.drained == 0 {
		return // said already
	}
	for _, m := range c.j.all {
		if !m.ended() && !m.pushed {
			c.j.blame("G7", m, nil, "message %s is %s at the end, after %d leases", m.id, m.state, m.leases)
		}
	}
}
