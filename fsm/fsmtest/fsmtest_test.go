package fsmtest

import (
	"flag"
	"runtime"
	"sync"
	"testing"
	"time"
)

const defaultOps = 400

var (
	seedFlag  = flag.Uint64("seed", 1, "first seed; 0 is drawn from the clock and printed")
	seedsFlag = flag.Int("seeds", 0, "how many seeds to run, one after another; 0: as many as there is time for")
	forFlag   = flag.Duration("for", 10*time.Second, "with -seeds 0: how long to go on with new seeds")
	opsFlag   = flag.Int("ops", defaultOps, "operations a seed")
	shrinkFor = flag.Duration("shrink", 8*time.Second, "how long to look for fewer steps that fail")
	lookFlag  = flag.Int("look", 0, "compare all queries after so many entries; 0 is drawn from the seed")
)

// coverSeeds of the default run are run however long they take, and must see all that is asked for.
const coverSeeds = 40

// TestModel compares the model and the state over random sequences.
func TestModel(t *testing.T) {
	first := *seedFlag
	if first == 0 {
		first = uint64(time.Now().UnixNano()) % 1_000_000_000
	}
	t.Logf("from seed %d on (-seed, -seeds, -for, -ops, -look, -shrink)", first)
	total := RunResult{Seen: NewCoverage()}
	least := *seedsFlag
	covers := *seedsFlag == 0 && *seedFlag == 1 && *opsFlag == defaultOps
	if covers {
		least = coverSeeds
	}
	seeds, failed := 0, false
	until := time.Now().Add(*forFlag)
	var mu sync.Mutex
	next := func() (n int, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if failed || seeds >= least && (*seedsFlag != 0 || !time.Now().Before(until)) {
			return 0, false
		}
		seeds++
		return seeds - 1, true
	}
	done := func(n int, res RunResult) {
		mu.Lock()
		defer mu.Unlock()
		total.Entries += res.Entries
		total.Ops += res.Ops
		total.Cuts += res.Cuts
		total.Views += res.Views
		if n < coverSeeds {
			total.Seen.Add(res.Seen)
		}
		for c, k := range res.Codes {
			total.Codes[c] += k
		}
		if res.Err != nil && !failed {
			failed = true
			report(t, first+uint64(n), res)
		}
	}
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for n, ok := next(); ok; n, ok = next() {
				done(n, Run(first+uint64(n), *opsFlag, *lookFlag))
			}
		})
	}
	wg.Wait()
	if failed {
		return
	}
	t.Logf("%d seeds, %d entries, %d operations, %d cuts, %d held views; outcomes by code %v",
		seeds, total.Entries, total.Ops, total.Cuts, total.Views, total.Codes)
	if covers {
		for _, what := range total.Seen.Missing(coreAnswers, nil) {
			t.Errorf("never answered: %s", what)
		}
	}
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
	steps := Shrink(group, res.Steps, *shrinkFor)
	t.Errorf("shrunk to\n%s%v", Describe(steps), RunSteps(group, steps))
}
