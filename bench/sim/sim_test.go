package sim

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var (
	seeds   = flag.Int("sim.seeds", 3, "how many seeds TestSeeds runs")
	seed    = flag.Uint64("sim.seed", 0, "the first of them; 0: drawn")
	length  = flag.Duration("sim.for", 15*time.Second, "the length of each on fake time, while faults go on")
	plan    = flag.String("sim.plan", "", "a plan as JSON, for TestPlan")
	tell    = flag.Bool("sim.tell", false, "tell the story of every run")
	results = flag.Bool("sim.results", false, "print every run's Result as a line of JSON")
)

// Whatever seeds draw for networks, disks, clocks and processes, the contract holds and the cluster converges.
func TestSeeds(t *testing.T) {
	first := *seed
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	for i := range *seeds {
		s := first + uint64(i)
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			began := time.Now()
			r := Run(t, Draw(s, *length), *tell)
			if *results {
				printed(t, r)
			}
			report(t, r)
			t.Logf("seed %d: %v of fake time in %v, %d operations, %d elections, trace %.16s, faults %v",
				s, time.Duration(r.FakeMillis)*time.Millisecond, time.Since(began).Round(time.Millisecond), r.Operations, r.Elections, r.Trace, r.Faults)
		})
	}
}

func report(t *testing.T, r *Result) {
	t.Helper()
	if len(r.Story) > 0 {
		t.Log(strings.Join(r.Story, "\n"))
		t.Log(r.Report)
		t.Logf("%v", r.Sometimes)
	}
	if r.Broken > 0 {
		t.Errorf("seed %d: %d wrong:\n%s", r.Seed, r.Broken, strings.Join(r.Wrong, "\n"))
	}
}

// TestPlan runs one plan and prints its Result as a line of JSON. It is what the wasm build is run for.
func TestPlan(t *testing.T) {
	if *plan == "" {
		t.Skip("no -sim.plan")
	}
	p, err := ParsePlan([]byte(*plan))
	if err != nil {
		t.Fatal(err)
	}
	printed(t, Run(t, p, *tell))
}

// printed prints a Result as a line of JSON.
func printed(t *testing.T, r *Result) {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(os.Stdout, "%s%s\n", ResultLine, b)
}

// Plans that went wrong once do not any more.
func TestKept(t *testing.T) {
	files, err := filepath.Glob("testdata/seeds/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			p, err := ParsePlan(b)
			if err != nil {
				t.Fatal(err)
			}
			report(t, Run(t, p, *tell))
		})
	}
}
