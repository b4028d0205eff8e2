package link

import (
	"net"
	"time"
)

// incoming is a connection over which a peer asks and raft answers, of which raft (hashicorp/raft v1.8.0, net_transport.go) waits for the
// next byte for ever. Between requests that is as it should be. Within one it is not: raft's loop itself reads a snapshot, and while it waits
// for a sender that has died, is frozen or is cut off, the node neither follows another leader nor votes for one. So within a request a read
// ends after Config.Silence, and the connection with it.
//
// Raft answers a request when it has read all of it, and reads nothing before it has answered. So a read is within a request if there has
// been one since the last answer. Where a peer sends requests without waiting for answers, the rest of one that came half with the one before is
// waited for as if it had not begun; snapshots are not sent so.
//
// One goroutine at a time uses it.
type incoming struct {
	net.Conn
	silence time.Duration
	within  bool // a request
	limited bool // a deadline is set
}

// Read implements net.Conn.
func (c *incoming) Read(b []byte) (n int, err error) {
	if c.within || c.limited {
		until := time.Time{}
		if c.limited = c.within; c.limited {
			until = time.Now().Add(c.silence)
		}
		if err := c.SetReadDeadline(until); err != nil {
			return 0, err
		}
	}
	n, err = c.Conn.Read(b)
	c.within = c.within || n > 0
	return n, err
}

// Write implements net.Conn.
func (c *incoming) Write(b []byte) (int, error) {
	c.within = false
	return c.Conn.Write(b)
}
