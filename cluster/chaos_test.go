//go:build chaos

package cluster

import (
	"context"
	"testing"
	"time"
)

func TestChaosSeams(t *testing.T) {
	t.Parallel()
	n := single(t)
	before := n.cfg.Clock.WallMillis()
	if err := n.ShiftWall(-time.Hour); err != nil {
		t.Fatal(err)
	}
	if d := n.cfg.Clock.WallMillis() - before; d > -3_500_000 {
		t.Errorf("the wall clock moved by %d ms, want an hour back", d)
	}
	index, digests, _, gerr := n.group.Verify(context.Background())
	if gerr != nil || len(digests) != 1 {
		t.Fatalf("verify: %v, %v", digests, gerr)
	}
	if d, err := n.StateHash(context.Background(), index); err != nil || d != digests[0].Digest {
		t.Errorf("hash %x, %v, want %x", d, err, digests[0].Digest)
	}
}
