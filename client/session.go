package client

import (
	"errors"
	"time"

	"github.com/quorate/quorate/wire"
)

// sessionRefresh is how long a session may be quiet before the client touches it; the cluster ends it after an hour.
const sessionRefresh = 20 * time.Minute

// attach opens a session on the connection, or attaches it to the one there is; a session that has ended is replaced.
func (c *Client) attach(d *dialed) (string, error) {
	if w := &d.welcome; w.MaxMessageBytes > 0 {
		c.maxMessage.Store(w.MaxMessageBytes)
		c.maxFrame.Store(wire.MaxFrameBytes(w.MaxMessageBytes))
		if w.MaxFrameBytes > 0 {
			c.maxFrame.Store(w.MaxFrameBytes)
		}
	}
	for {
		c.mu.Lock()
		rs := c.dropSessionLocked()
		session := c.session
		c.mu.Unlock()
		runAll(rs)
		var opened wire.SessionOpened
		err := exchange(d.ws, attachLimit, wire.TypeOpenSession, &wire.OpenSession{Session: session}, wire.TypeSessionOpened, &opened)
		if err == nil {
			return opened.Session, nil
		}
		if session == "" || !errors.Is(err, ErrSessionExpired) {
			return "", err
		}
		c.log.Warn("session expired, opening a new one", "session", session)
		c.mu.Lock()
		c.sessionGone = true
		c.mu.Unlock()
	}
}

// dropSessionLocked forgets a session that has ended. What may have been executed in it ends as unknown; what was never
// sent will be sent in the next one.
func (c *Client) dropSessionLocked() []run {
	if !c.sessionGone {
		return nil
	}
	c.sessionGone = false
	c.session = ""
	var rs []run
	var never []*call
	all := c.ring[c.ringHead:]
	c.ring, c.ringHead, c.next = nil, 0, 1 // an ending call moves what is behind it
	for _, cl := range all {
		if cl == nil || cl.number == 0 || cl.state == callDone {
			continue
		}
		if cl.unresolved == 0 { // refused each time it was sent
			never = append(never, cl)
			continue
		}
		rs = append(rs, c.endLocked(cl, &Error{
			Code: wire.CodeSessionExpired, Message: "the session ended before the answer came", Unknown: true,
		}))
	}
	c.again = fifo{}
	for i := len(never) - 1; i >= 0; i-- {
		cl := never[i]
		cl.number, cl.sends, cl.state = 0, 0, callQueued
		c.fresh.pushFront(cl)
	}
	c.pruneLaterLocked()
	for _, s := range c.subs {
		s.known = false
	}
	return rs
}

// touchLocked keeps a quiet session alive.
func (c *Client) touchLocked() {
	c.sessionUsed = c.now()
	session := c.session // another one may have been opened by the time it ends, on whatever goroutine
	c.queueLocked(&call{
		typ: wire.TypeOpenSession, body: &wire.OpenSession{Session: session}, size: 64, bound: c.conn,
		deadline: c.now() + int64(c.o.Timeout),
		notify: func(err error) {
			if err != nil && !errors.Is(err, ErrClosed) {
				c.log.Warn("session not refreshed", "session", session, "err", err)
			}
		},
	})
}
