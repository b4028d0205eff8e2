//go:build chaos

package cluster

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// skew is what the chaos harness adds to the wall clock, in milliseconds.
type skew struct{ ms atomic.Int64 }

func (s *skew) millis() int64 { return s.ms.Load() }

// ShiftWall makes this node's wall clock differ from the machine's by d. For the chaos harness.
func (n *Node) ShiftWall(d time.Duration) error {
	c, ok := n.cfg.Clock.(*machineClock)
	if !ok {
		return fmt.Errorf("this node's clock is a %T, not the machine's", n.cfg.Clock)
	}
	c.ms.Store(d.Milliseconds())
	return nil
}

// StateHash is the digest of this node's state at a checkpoint's index. For the chaos harness.
func (n *Node) StateHash(ctx context.Context, index uint64) ([32]byte, error) {
	return n.group.DigestAt(ctx, index)
}
