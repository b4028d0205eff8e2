package client

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/wire"
)

// A node that stands still, or is cut off, closes no connection. Waiting for the pings to tell takes several seconds,
// while the others have a new leader after half of one. So the others are asked who leads: when an answer is overdue and
// nothing at all is heard, or when not even a pong has come for a little more than the ping's period. Only an answer that
// names somebody else ends the connection: slowness alone does not.
const (
	suspectAfter = 1500 * time.Millisecond // an answer is overdue, and silence suspicious
	suspectAgain = time.Second             // between questions
)

// silence is how long nothing may be heard from a server that owes no answer but pongs, in nanoseconds.
func (cn *conn) silence() int64 { return int64(cn.ping + cn.ping/6) }

// waits reports whether the server may take its time to answer.
func (cl *call) waits() bool { return cl.typ == wire.TypeLease || cl.typ == wire.TypeResultGet }

// suspectLocked looks whether the connection is suspiciously silent, and returns when to look again.
func (c *Client) suspectLocked(now int64) int64 {
	cn := c.conn
	switch {
	case cn == nil || cn.failed:
		return 0
	case cn.suspectAt > now:
		return cn.suspectAt
	}
	heard := cn.heard.Load()
	due := heard + cn.silence()
	oldest := int64(0)
	for _, cl := range c.byTag {
		if cl.state == callSent && !cl.waits() && (oldest == 0 || cl.sentAt < oldest) {
			oldest = cl.sentAt
		}
	}
	if oldest != 0 {
		due = min(due, max(oldest, heard)+int64(suspectAfter))
	}
	if due <= now {
		if !cn.asking {
			cn.asking = true
			c.wg.Add(1) // watch, which is the caller, is counted, so that shut cannot have waited already
			go c.askOthers(cn)
		}
		due = now + int64(suspectAgain)
	}
	cn.suspectAt = due
	return due
}

// askOthers asks the other nodes who leads, and ends a connection to somebody else.
func (c *Client) askOthers(cn *conn) {
	defer c.wg.Done()
	ctx, cancel := context.WithTimeout(c.life, dialTimeout)
	defer cancel()
	for _, a := range c.addresses("") {
		if a == cn.addr || a == cn.self {
			continue
		}
		d, err := c.hello(ctx, a)
		if err != nil {
			continue
		}
		_ = d.ws.Close()
		leader := d.welcome.Leader
		if d.welcome.IsLeader {
			leader = a
		}
		if leader != "" && leader != cn.addr && leader != cn.self {
			silent := time.Duration(c.now() - cn.heard.Load()).Round(time.Millisecond)
			cn.fail(fmt.Errorf("silent for %v, and %s says that %s leads", silent, d.welcome.Node, leader), leader)
			return
		}
	}
	c.mu.Lock()
	cn.asking = false
	c.mu.Unlock()
}
