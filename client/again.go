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
		// requeueLocked when it is taken down.
		cl.unresolved--
		cl.last = e
		cn.failLocked(e, f.Leader)
		c.againLocked(cl, e, &rs)
	case f.Code == wire.CodeSessionExpired && cl.batch == nil && cl.typ == wire.TypeOpenSession:
		c.sessionGone = true
		cn.failLocked(e, cn.addr)
		end(e)
	case f.Code == wire.CodeSessionExpired:
		c.sessionGone = true
		cn.failLocked(e, cn.addr)
		if cl.unresolved > 1 { // an earlier sending may have been applied
			end(e)
			break
		}
		c.renumberLocked(cl)
		c.againLocked(cl, e, &rs)
	case f.Code == wire.CodeTimeout && !cl.noWait:
		c.laterLocked(cl, e, &rs)
	case f.Retry && !f.Unknown && !c.o.FailWhenFull && f.Code != wire.CodeTimeout:
		if f.Code == wire.CodeQueueFull {
			cl.unresolved = 0 // judged in the log, so it is this number's outcome
		} else {
			cl.unresolved--
		}
		if cl.unresolved == 0 {
			c.renumberLocked(cl)
		}
		c.laterLocked(cl, e, &rs)
	default:
		if cl.unresolved > 1 && !f.Unknown && f.Retry {
			e.Unknown = true // refused this time, but an earlier sending is unaccounted for
		}
		end(e)
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

// againLocked queues an answered call for the next connection.
func (c *Client) againLocked(cl *call, e error, rs *[]run) {
	if cl.cancelled || c.closed || (cl.bound != nil && cl.bound.failed) {
		cl.state = callDone
		c.retireLocked(cl)
		*rs = append(*rs, c.finish(cl, e))
		return
	}
	cl.state = callQueued
	if !c.dropCancelledLocked(cl, e, rs) {
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
	if cl.cancelled || c.closed || (cl.bound != nil && cl.bound.failed) {
		cl.state = callDone
		c.retireLocked(cl)
		*rs = append(*rs, c.finish(cl, e))
		return
	}
	cl.state = callWaiting
	if !c.dropCancelledLocked(cl, e, rs) {
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
