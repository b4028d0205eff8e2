package cluster

import (
	"time"

	"github.com/quorate/quorate/cluster/group"
)

// machineClock is the machine's wall clock and monotonic clock.
type machineClock struct {
	start time.Time
	skew  // nothing in a normal build
}

func newMachineClock() *machineClock {
	c := &machineClock{start: time.Now()}
	c.begin()
	return c
}

// WallMillis implements group.Clock.
func (c *machineClock) WallMillis() int64 { return time.Now().UnixMilli() + c.millis() }

// Mono implements group.Clock.
func (c *machineClock) Mono() time.Duration { return time.Since(c.start) }

// Clock is what this node runs on. Whoever proposes reads deadlines on it.
func (n *Node) Clock() group.Clock { return n.cfg.Clock }
