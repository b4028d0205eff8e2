package client

import (
	"sync"

	"github.com/quorate/quorate/wire"
)

// ackBatch is one frame of acks that waited together: a call that stands in byTag for those of its callers. Guarded by Client.mu; once it
// is answered it belongs to the reader.
type ackBatch struct {
	call  call
	body  wire.AckBatch
	calls []*call // of the tokens; those that have ended meanwhile are passed over
	live  int     // of calls, how many are callSent
}

var ackBatches = sync.Pool{New: func() any { return new(ackBatch) }}

func (b *ackBatch) recycle() {
	clear(b.calls)
	clear(b.body.Tokens)
	*b = ackBatch{calls: b.calls[:0], body: wire.AckBatch{Tokens: b.body.Tokens[:0]}}
	ackBatches.Put(b)
}

// joins says whether a call is an ack that may share a frame with others.
func (cl *call) joins() bool {
	return cl.ackDone != nil && !cl.alone && cl.ack.Result == nil && len(cl.ack.Then) == 0 && cl.ack.Mapping == 0
}

// nextAcks appends the acks at the head of a queue, if there are two or more that may share a frame.
func (cn *conn) nextAcks(q *fifo) bool {
	b := ackBatches.Get().(*ackBatch)
	for len(b.calls) < wire.MaxAcks {
		cl := q.front()
		if cl == nil || !cl.joins() {
			break
		}
		q.pop()
		b.calls = append(b.calls, cl)
		b.body.Tokens = append(b.body.Tokens, cl.ack.Token)
	}
	if len(b.calls) < 2 {
		for _, cl := range b.calls {
			q.pushFront(cl)
		}
		b.recycle()
		return false
	}
	b.call = call{typ: wire.TypeAckBatch, acks: b}
	b.live = len(b.calls)
	cn.c.nextTag++
	b.call.tag = cn.c.nextTag
	cn.buf = wire.AppendFrame(cn.buf, wire.TypeAckBatch, b.call.tag, &b.body)
	cn.sentLocked(&b.call)
	for _, cl := range b.calls {
		cl.state, cl.tag, cl.sentAt, cl.shared = callSent, b.call.tag, b.call.sentAt, b
		cl.sends++
		cl.unresolved++
		cn.ackingLocked(cl)
	}
	return true
}

// ackingLocked notes that the buffer acks a lease: nobody need be told that it was started, since the one arrives with the other or not at
// all.
func (cn *conn) ackingLocked(cl *call) {
	if cl.lease != nil {
		cl.lease.ackedIn = cn.fills
	}
}

// leaveLocked takes a call that has ended out of the frame that it was sent in.
func (c *Client) leaveLocked(cl *call) {
	if cl.shared.live--; cl.shared.live == 0 {
		delete(c.byTag, cl.tag)
	}
}

// sentCalls are the calls of a frame whose answer is waited for.
func (cl *call) sentCalls(into []*call) []*call {
	if cl.acks == nil {
		if cl.state == callSent {
			into = append(into, cl)
		}
		return into
	}
	for _, one := range cl.acks.calls {
		if one.state == callSent && one.shared == cl.acks {
			into = append(into, one)
		}
	}
	return into
}

// ackBatchAnswered ends what a frame of acks stands for; runs on the reader's goroutine.
func (c *Client) ackBatchAnswered(cn *conn, b *ackBatch, raw wire.Raw) error {
	defer b.recycle()
	if raw.Type == wire.TypeFault {
		var f wire.Fault
		err := raw.Decode(&f)
		for _, cl := range b.calls {
			switch {
			case cl == nil:
			case err != nil:
				c.fail(cl, err)
			default:
				c.refused(cn, cl, &f)
			}
		}
		c.mu.Lock()
		c.waitTogetherLocked(b)
		c.mu.Unlock()
		return err
	}
	a := &cn.ackedBatch
	err := protocolError("frame type %d answers type %d, want %d", raw.Type, wire.TypeAckBatch, wire.TypeAckedBatch)
	if raw.Type == wire.TypeAckedBatch {
		if err = raw.Decode(a); err == nil {
			err = inOrder(a.Others, len(b.calls))
		}
	}
	if err != nil {
		for _, cl := range b.calls {
			if cl != nil {
				c.fail(cl, err)
			}
		}
		return err
	}
	special := func(others []wire.AckOutcome, i int) bool { return len(others) > 0 && int(others[0].Index) == i }
	c.mu.Lock()
	others := a.Others
	for i, cl := range b.calls {
		if special(others, i) {
			o := &others[0]
			others = others[1:]
			if cl == nil || o.Fault != nil || o.Again {
				continue
			}
		}
		if cl == nil {
			continue
		}
		cl.state = callDone
		c.acks--
		c.ackSettledLocked(cl, nil)
	}
	c.idleLocked()
	c.mu.Unlock()
	others = a.Others
	for i, cl := range b.calls {
		out := Acked{Index: a.At.Index, Time: a.At.Time}
		if special(others, i) {
			o := &others[0]
			others = others[1:]
			switch {
			case cl == nil:
			case o.Again: // it is judged: asked again, alone, it is answered the same
				cl.alone = true
				c.refused(cn, cl, wire.NewFault(wire.CodeTimeout, "the answer to several acks had no room for this one's"))
				continue
			case o.Fault != nil:
				c.refused(cn, cl, o.Fault)
				continue
			}
			if out.Duplicate = o.Duplicate; o.Result != nil {
				out.Result = resultOf(o.Result)
			}
		}
		if cl == nil {
			continue
		}
		cl.ackDone(out, nil)
		if cl.done == nil {
			*cl = call{}
			ackCalls.Put(cl)
		}
	}
	return nil
}

// waitTogetherLocked has those that are to be sent again after a while go together again.
func (c *Client) waitTogetherLocked(b *ackBatch) {
	at := int64(0)
	for _, cl := range b.calls {
		switch {
		case cl == nil || cl.state != callWaiting:
		case at == 0:
			at = cl.retryAt
		default:
			cl.retryAt = at
		}
	}
}

// inOrder says what is wrong with the indexes of an answer to n acks.
func inOrder(others []wire.AckOutcome, n int) error {
	last := -1
	for i := range others {
		at := int(others[i].Index)
		if at <= last || at >= n {
			return protocolError("index %d after %d answers one of %d acks", at, last, n)
		}
		last = at
	}
	return nil
}
