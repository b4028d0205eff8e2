package fsmtest

import (
	"flag"
	"testing"
	"time"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "first seed; 0 is drawn from the clock and printed")
	seedsFlag = flag.Int("seeds", 60, "how many seeds to run, one after another")
	lookFlag  = flag.Int("look", 0, "compare all queries after so many entries; 0 is drawn from the seed")
	opsFlag   = flag.Int("ops", 1500, "operations a seed")
)

// TestModel compares the model and the state over random sequences.
func TestModel(t *testing.T) {
	first := *seedFlag
	if first == 0 {
		first = uint64(time.Now().UnixNano()) % 1_000_000_000
	}
	t.Logf("seeds %d to %d (-seed, -seeds, -ops)", first, first+uint64(*seedsFlag)-1)
	var total RunResult
	for i := range *seedsFlag {
		seed := first + uint64(i)
		res := Run(seed, *opsFlag, *lookFlag)
		total.Entries += res.Entries
		total.Ops += res.Ops
		total.Cuts += res.Cuts
		for c, n := range res.Codes {
			total.Codes[c] += n
		}
		if res.Err != nil {
			report(t, seed, res)
			return
		}
	}
	t.Logf("%d entries, %d operations, %d cuts; outcomes by code %v", total.Entries, total.Ops, total.Cuts, total.Codes)
}

// report prints a failure in the fewest steps that still show it.
func report(t *testing.T, seed uint64, res RunResult) {
	t.Helper()
	last := res.Steps[len(res.Steps)-1]
	t.Errorf("seed %d failed at entry %d (number %d): %v", seed, last.Index, res.Entries, res.Err)
	group := groupOf(seed)
	if RunSteps(group, res.Steps) == nil {
		t.Errorf("the steps alone do not fail; the last ones were\n%s", Describe(res.Steps[max(0, len(res.Steps)-10):]))
		return
	}
	steps := Shrink(group, res.Steps, 8*time.Second)
	t.Errorf("shrunk to\n%s%v", Describe(steps), RunSteps(group, steps))
}
