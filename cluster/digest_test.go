package cluster_test

import (
	"context"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster/clustertest"
)

// A digest that takes longer than one call between nodes is waited for: whoever asks gives up by its own deadline alone. An
// index that is never reached stands for a state that is very long in hashing.
func TestDigestOutlastsACall(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, 3, clustertest.Options{})
	c.WaitVoters(3)
	leader := c.Leader()
	ctx, cancel := context.WithTimeout(bounded(t), 3500*time.Millisecond)
	defer cancel()
	start := time.Now()
	digests := leader.DigestsAt(ctx, leader.Group(0).Status().Applied+1_000_000)
	if len(digests) != 3 {
		t.Fatalf("digests %+v", digests)
	}
	for _, d := range digests {
		if d.Err == "" {
			t.Errorf("a digest of an index that was never reached: %+v", d)
		}
	}
	if took := time.Since(start); took < 3*time.Second {
		t.Errorf("gave up after %v: %+v", took, digests)
	}
}
