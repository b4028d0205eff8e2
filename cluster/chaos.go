//go:build chaos

package cluster

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"
)

// skew is what the chaos harness adds to the wall clock, in milliseconds.
type skew struct{ ms atomic.Int64 }

func (s *skew) millis() int64 { return s.ms.Load() }

// EnvSkew is by how many milliseconds the node's wall clock differs from the machine's from its start on, before any
// request can say so.
const EnvSkew = "QUORATE_CHAOS_SKEW_MS"

// begin sets what the environment asks for. What is no number is nothing: the harness sees it in the node's time.
func (s *skew) begin() {
	if ms, err := strconv.ParseInt(os.Getenv(EnvSkew), 10, 64); err == nil {
		s.ms.Store(ms)
	}
}

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
