package chaos

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/chaos/nemesis"
)

var mixedFor = flag.Duration("mixed-for", 15*time.Second, "how long clients work in TestMixedFaults")

// Faults of all sorts that this machine can have, drawn from the seed: processes, the network, clocks, membership, disks. What clients saw
// agrees with the log and the contract. The long form is bench/chaos/run. (L4)
func TestMixedFaults(t *testing.T) {
	rng := draw(t)
	meetsAll(t, func(t *testing.T) []string {
		s, err := nemesis.Draw(rng.Uint64(), nemesis.Mixed, 3, *mixedFor, nemesis.MeansHere())
		if err != nil {
			t.Fatal(err)
		}
		return carryOut(t, s)
	})
}

// Every sort of cut, every way to be a bad network, and resets, one after the other. What clients saw agrees with the log and the contract.
// The long form is bench/chaos/run with the kinds partition and net. (L4)
func TestNetworkFaults(t *testing.T) {
	if !nemesis.MeansHere().Network {
		t.Skip("nodes cannot have a network of their own here: it takes root, /dev/net/tun and nsenter")
	}
	rng := draw(t)
	meetsAll(t, func(t *testing.T) []string {
		s, err := nemesis.ReadSchedule(filepath.Join("testdata", "network.json"))
		if err != nil {
			t.Fatal(err)
		}
		s.Seed = rng.Uint64()
		return carryOut(t, s)
	})
}

// mostRuns is how many runs may be made of a test until what it is about has been met.
const mostRuns = 3

// meetsAll has a test's clients and faults at work until all that it is about has been met. A run is drawn, and what takes two clients, or
// one and a fault, at the same message may be missing from one; that is no more than a run too short, and says nothing of the nodes. So what one
// run has missed is looked for in the next. What is in none of mostRuns is not in reach, and fails; so does anything else that is wrong with a
// run, at once.
func meetsAll(t *testing.T, run func(t *testing.T) (missed []string)) {
	t.Helper()
	var missing []string
	for i := range mostRuns {
		var missed []string
		if !t.Run(fmt.Sprintf("run %d", i+1), func(t *testing.T) { missed = run(t) }) {
			return
		}
		if i == 0 {
			missing = missed
		}
		missing = slices.DeleteFunc(missing, func(what string) bool { return !slices.Contains(missed, what) })
		if len(missing) == 0 {
			return
		}
		t.Logf("nothing seen yet of: %s", strings.Join(missing, "; "))
	}
	t.Errorf("%d runs have shown nothing of: %s", mostRuns, strings.Join(missing, "; "))
}

// carryOut runs a schedule, demands that the run has broken nothing, and returns what it should have met and has not.
func carryOut(t *testing.T, s *nemesis.Schedule) (missed []string) {
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
	missed, r.Vacuous = r.Vacuous, nil
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	return missed
}
