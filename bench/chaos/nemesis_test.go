package chaos

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/chaos/nemesis"
)

var mixedFor = flag.Duration("mixed-for", 15*time.Second, "how long clients work in TestMixedFaults")

// Faults of all sorts that this machine can have, drawn from the seed: processes, the network, clocks, membership, disks. What clients saw
// agrees with the log and the contract. The long form is bench/chaos/run. (L4)
func TestMixedFaults(t *testing.T) {
	s, err := nemesis.Draw(draw(t).Uint64(), nemesis.Mixed, 3, *mixedFor, nemesis.MeansHere())
	if err != nil {
		t.Fatal(err)
	}
	carryOut(t, s)
}

// Every sort of cut, every way to be a bad network, and resets, one after the other. What clients saw agrees with the log and the contract.
// The long form is bench/chaos/run with the kinds partition and net. (L4)
func TestNetworkFaults(t *testing.T) {
	if !nemesis.MeansHere().Network {
		t.Skip("nodes cannot have a network of their own here: it takes root, /dev/net/tun and nsenter")
	}
	s, err := nemesis.ReadSchedule(filepath.Join("testdata", "network.json"))
	if err != nil {
		t.Fatal(err)
	}
	s.Seed = draw(t).Uint64()
	carryOut(t, s)
}

// carryOut runs a schedule, and demands that the run has broken nothing.
func carryOut(t *testing.T, s *nemesis.Schedule) {
	t.Helper()
	dir, err := os.MkdirTemp("", "quorate-"+s.Kind+"-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the history, the schedule, logs and data are kept in %s", dir)
		} else if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	r, err := nemesis.Run(t.Context(), nemesis.Config{Schedule: s, Binary: chaosBinary(t), Dir: dir, Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := nemesis.Page(f, []*nemesis.Result{r}); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d operations, %d faults, %d elections, %d snapshot installs, %.0f s", r.Operations, r.Struck(), r.Elections, r.Installs, r.Seconds)
	for _, v := range r.Violations {
		t.Errorf("%s: %s\n%v", v.Guarantee, v.What, v.Events)
	}
	if err := r.Err(); err != nil {
		t.Error(err)
	}
}
