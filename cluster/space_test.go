package cluster_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/clustertest"
	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/fsm"
)

// TestLowSpace: enqueues are refused while there is little room on the leader's disk, or on that of a voter that lives; all else goes on, the
// node stays ready and says what it does not take, and with room enqueues go on too. (C5)
func TestLowSpace(t *testing.T) {
	t.Parallel()
	const size, want = 100 << 30, 1 << 30
	var free [3]atomic.Int64
	reg := [3]*prometheus.Registry{prometheus.NewRegistry(), prometheus.NewRegistry(), prometheus.NewRegistry()}
	c := clustertest.Start(t, 3, clustertest.Options{Config: func(i int, k *cluster.Config) {
		steady(i, k)
		free[i].Store(size)
		k.DiskFreeBytes, k.Registry = want, reg[i]
		cluster.SetSpace(k, func() (int64, int64, error) { return free[i].Load(), size, nil })
	}})
	c.WaitVoters(3)
	lead := c.Leader()
	at := c.Index(lead)
	others := []int{(at + 1) % 3, (at + 2) % 3}
	send := func(op fsm.Op) result {
		done := make(one, 1)
		lead.Group(0).Propose(&group.Proposal{Op: fsm.AppendOp(nil, op), Done: done})
		return <-done
	}
	put := func() *group.Error {
		return send(&fsm.Enqueue{Queue: []byte("q"), AutoCreate: true, Messages: []fsm.Message{{Body: []byte("x"), Priority: 4}}}).err
	}
	taken := func() bool { return put() == nil }
	refused := func() bool {
		err := put()
		if err != nil && (err.Code != group.CodeNoSpace || err.Unknown || err.RetryAfter <= 0 || !strings.Contains(err.Message, "limits.disk_free_bytes")) {
			t.Fatalf("refused by %+v, want no_space, certain, with a wait, naming the setting", err)
		}
		return err != nil
	}
	low := func(i int) float64 {
		families, err := reg[i].Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "quorate_disk_low" {
				return f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		t.Fatal("no metric quorate_disk_low")
		return 0
	}
	c.Until("enqueues to be taken", taken)

	free[at].Store(want - 1)
	c.Until("enqueues to be refused by a leader without room", refused)
	leased := send(&fsm.Lease{Queue: []byte("q"), Max: 1, LeaseMillis: 60_000})
	if leased.err != nil || len(leased.out) != 1 || leased.out[0].Code != fsm.OK {
		t.Errorf("a lease meanwhile: %+v", leased)
	}
	if r := send(&fsm.PurgeQueue{Name: []byte("q")}); r.err != nil || r.out[0].Code != fsm.OK {
		t.Errorf("a purge meanwhile: %+v", r)
	}
	if ok, what := lead.Ready(); !ok || !strings.Contains(what, "enqueues are refused") || !strings.Contains(what, "node "+c.Label(at)) {
		t.Errorf("ready %v, %q; want true, and what is refused for which node", ok, what)
	}
	if low(at) != 1 || low(others[0]) != 0 {
		t.Errorf("quorate_disk_low is %v at the leader and %v at a node with room", low(at), low(others[0]))
	}

	free[at].Store(want)
	c.Until("enqueues to be taken again", taken)
	if ok, what := lead.Ready(); !ok || what != "" {
		t.Errorf("ready %v, %q; want true and no more", ok, what)
	}

	free[others[0]].Store(want - 1)
	c.Until("enqueues to be refused with a voter without room", refused)
	if ok, what := lead.Ready(); !ok || !strings.Contains(what, "node "+c.Label(others[0])) || low(at) != 0 {
		t.Errorf("ready %v, %q, quorate_disk_low %v; want the other node named, and this one's disk to be well", ok, what, low(at))
	}
	c.Kill(others[0])
	c.Until("enqueues to be taken without the node that had no room", taken)
	if err := c.TryStart(others[0], 3); err != nil { // with room, as at each start here
		t.Fatal(err)
	}
	c.WaitVoters(3)
	c.Until("enqueues to be taken by all", taken)
	if s := lead.Group(0).Status(); !s.Leader {
		t.Errorf("the leader is another: %+v", s)
	}
}

// TestSpaceWanted: what must be left by default goes by the file system.
func TestSpaceWanted(t *testing.T) {
	t.Parallel()
	for _, k := range []struct {
		name             string
		free, size, told int64
		low              bool
	}{
		{"much of a large one", 1 << 40, 2 << 40, 0, false},
		{"just enough of a large one", 256 << 20, 2 << 40, 0, false},
		{"a byte too little of a large one", 256<<20 - 1, 2 << 40, 0, true},
		{"a tenth of a small one", 10 << 20, 100 << 20, 0, false},
		{"less than a tenth of a small one", 10<<20 - 1, 100 << 20, 0, true},
		{"as told", 1 << 20, 2 << 40, 1 << 20, false},
		{"less than told", 1<<20 - 1, 2 << 40, 1 << 20, true},
		{"none, whatever is told", 0, 2 << 40, 1, true},
	} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			c := clustertest.Start(t, 1, clustertest.Options{Config: func(_ int, cfg *cluster.Config) {
				cfg.DiskFreeBytes = k.told
				cluster.SetSpace(cfg, func() (int64, int64, error) { return k.free, k.size, nil })
			}})
			c.Until("a look at the disk", func() bool { _, what := c.Leader().Ready(); return (what != "") == k.low })
		})
	}
	bad := cluster.Config{NodeID: "n1", DiskFreeBytes: -1}
	if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), "disk_free_bytes is -1") {
		t.Errorf("-1: %v", err)
	}
}
