package client

import (
	"slices"
	"time"

	"github.com/quorate/quorate/wire"
)

// Back-off of calls that are tried again on a living connection.
const (
	retryBase  = 20 * time.Millisecond
	retryMax   = time.Second
	retryAfter = 5 * time.Second // at most this much of a server's retry_after is honoured
)

// judged says whether the log gave a refusal. Then it is the outcome of what it names, and not of this sending alone.
func judged(f *wire.Fault) bool { return f.At != nil && f.At.Index != 0 }

// changes says whether a call is one that may have been applied: it has a number, or does the same to what it names however often it comes.
func (cl *call) changes() bool {
	switch cl.typ {
	case wire.TypeAck, wire.TypeNack, wire.TypeExtend, wire.TypeRelease, wire.TypeClusterTransfer, wire.TypeClusterRemove:
		return true
	}
	return cl.req != nil || cl.ackDone != nil
}

// settledBy says whether a refusal is the outcome of the earlier sendings too. The log remembers numbers: an earlier sending that had been applied
// would have been answered as it was then. So it does of the tokens of acks, as long as it knows the message; of other tokens it remembers the end of
// a lease until the next one, and answers then as if there had been no other end.
func (cl *call) settledBy(f *wire.Fault) bool {
	switch {
	case !judged(f):
		return false
	case cl.req != nil:
		return true
	}
	return cl.ackDone != nil && (f.Code != wire.CodeNotFound || f.Field == fieldThen)
}

// endedBy is the error of a call that ends with a refusal, with earlier sendings of unknown outcome still open: unresolved counts those.
func (cl *call) endedBy(e *Error) *Error {
	if cl.unresolved == 0 || e.Unknown || !cl.changes() {
		return e
	}
	u := *e
	u.Unknown = true
	return &u
}

// refused decides what a fault means for a call: again under the same number, again under a new one, or the end.
func (c *Client) refused(cn *conn, cl *call, f *wire.Fault) {
	e := errorOf(f)
	c.mu.Lock()
	var rs []run
	end := func(err error) {
		cl.state = callDone
		c.retireLocked(cl)
		rs = append(rs, c.finish(cl, err))
	}
	switch {
	case f.Code == wire.CodeNotLeader || f.Code == wire.CodeNoLeader:
		// Nothing happened to this sending; the connection is of no use any more. What was sent is sent again from
		// uninstall when it is taken down.
		cl.unresolved--
		cl.last = e
		cn.failLocked(e, f.Leader)
		c.againLocked(cl, e, &rs)
	case f.Code == wire.CodeSessionExpired:
		c.sessionGone = true
		cn.failLocked(e, cn.addr)
		cl.unresolved--
		if cl.unresolved > 0 || cl.typ == wire.TypeOpenSession {
			end(cl.endedBy(e))
			break
		}
		c.renumberLocked(cl)
		c.againLocked(cl, e, &rs)
	case f.Code == wire.CodeTimeout && !cl.noWait:
		if !f.Unknown { // it never came to it
			cl.unresolved--
		}
		c.laterLocked(cl, e, &rs)
	case f.Unknown || f.Code == wire.CodeTimeout:
		end(e)
	default:
		if cl.unresolved--; cl.settledBy(f) {
			cl.unresolved = 0
		}
		if !f.Retry || c.o.FailWhenFull {
			end(cl.endedBy(e))
			break
		}
		if cl.unresolved == 0 {
			c.renumberLocked(cl)
		}
		c.laterLocked(cl, e, &rs)
	}
	c.mu.Unlock()
	runAll(rs)
}

// renumberLocked gives up a call's number: it will be sent under a new one.
func (c *Client) renumberLocked(cl *call) {
	if cl.number == 0 {
		cl.sends, cl.unresolved = 0, 0
		return
	}
	for i := c.ringHead; i < len(c.ring); i++ {
		if c.ring[i] == cl {
			c.ring[i] = nil
			break
		}
	}
	cl.number, cl.sends, cl.unresolved = 0, 0, 0
	c.trimRingLocked()
}

// goesOnLocked has an answered call go on in another state, and says whether it does: nobody may wait for it any more.
func (c *Client) goesOnLocked(cl *call, state callState, e *Error, rs *[]run) bool {
	if cl.cancelled || c.closed || (cl.bound != nil && cl.bound.failed) {
		cl.state = callDone
		c.retireLocked(cl)
		*rs = append(*rs, c.finish(cl, cl.endedBy(e)))
		return false
	}
	cl.state = state
	return c.dropCancelledLocked(cl, cl.endedBy(e), rs)
}

// againLocked queues an answered call for the next connection.
func (c *Client) againLocked(cl *call, e *Error, rs *[]run) {
	if !c.goesOnLocked(cl, callQueued, e, rs) {
		return
	}
	switch {
	case cl.req == nil:
		c.plain.insertByTag(cl)
	case cl.number == 0:
		c.fresh.insertByTag(cl)
	default:
		c.again.insertByNumber(cl)
	}
}

// laterLocked lets an answered call wait before it is sent again.
func (c *Client) laterLocked(cl *call, e *Error, rs *[]run) {
	cl.last = e
	if !c.goesOnLocked(cl, callWaiting, e, rs) {
		return
	}
	c.tellLocked(cl.lease)
	cl.tries++
	cl.retryAt = c.now() + int64(c.jit.wait(cl.tries, retryBase, retryMax, min(e.RetryAfter, retryAfter)))
	c.holdLocked(cl)
	c.later = append(c.later, cl)
	c.watchDeadline(cl.retryAt)
}

// pruneLaterLocked drops from later what does not wait any more. Whatever takes a call out of callWaiting without being tick calls it: an
// entry that stayed would be another one of the same call as soon as that waits again.
func (c *Client) pruneLaterLocked() {
	c.later = slices.DeleteFunc(c.later, func(cl *call) bool { return cl.state != callWaiting })
}
