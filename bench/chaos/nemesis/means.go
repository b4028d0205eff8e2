package nemesis

import (
	"context"
	"os/exec"
	"time"

	"github.com/quorate/quorate/bench/chaos/forgetfs"
)

// MeansHere finds out what a run can have on this machine and in this process.
func MeansHere() Means {
	m := Means{Disks: forgetfs.Available() == nil}
	if n, err := openNetwork(minNodes, time.Minute); err == nil {
		m.Network = n.Close() == nil
	}
	if c, err := newCgroup("probe"); err == nil {
		m.CPU = c.set("cpu.cfs_quota_us", quotaPeriod/2) == nil
		m.CPU = c.remove() == nil && m.CPU
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	m.TimeNS = exec.CommandContext(ctx, "unshare", "--time", "--monotonic", "100", "--boottime", "100", "true").Run() == nil
	return m
}
