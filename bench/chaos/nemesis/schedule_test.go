package nemesis

import (
	"flag"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the schedules that are drawn; 0 draws one")

// Schedules of every kind, drawn from any seed: they can be, faults come every few seconds and end before the quiet, all of a kind's cards are
// dealt, the same seed gives the same, and a file brings back what was written.
func TestDraw(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d (repeat with -seed)", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, kind := range Kinds {
		t.Run(kind, func(t *testing.T) {
			faults, minutes := 0, 0.0
			for range 50 {
				s, nodes := rng.Uint64(), 3+2*rng.IntN(2)
				length := 20*time.Second + time.Duration(rng.Int64N(int64(5*time.Minute)))
				got, err := Draw(s, kind, nodes, length, everything)
				if err != nil {
					t.Fatalf("seed %d, %d nodes, %s: %v", s, nodes, length, err)
				}
				again, err := Draw(s, kind, nodes, length, everything)
				if err != nil || !reflect.DeepEqual(got, again) {
					t.Fatalf("seed %d: drawn twice it is not the same (%v)", s, err)
				}
				file := filepath.Join(t.TempDir(), ScheduleFile)
				if err := got.Write(file); err != nil {
					t.Fatal(err)
				}
				if back, err := ReadSchedule(file); err != nil || !reflect.DeepEqual(got, back) {
					t.Fatalf("seed %d: what was written is not what is read (%v)", s, err)
				}
				if err := got.Possible(everything); err != nil {
					t.Error(err)
				}
				faults += len(got.Faults)
				minutes += (length - QuietTail).Minutes()
				dealt := map[string]bool{}
				for _, f := range got.Faults {
					dealt[f.Kind+f.Target] = true
				}
				for _, c := range decks[kind] {
					if length > 4*time.Minute && kind != Mixed && !dealt[c.kind+c.target] {
						t.Errorf("seed %d: a run of %s has no %s of %s", s, length, c.kind, c.target)
					}
				}
			}
			if kind == "none" {
				if faults > 0 {
					t.Errorf("%d faults", faults)
				}
				return
			}
			if rate := float64(faults) / minutes; rate < 8 || rate > 30 {
				t.Errorf("%.1f faults a minute", rate)
			}
		})
	}
}

// What a machine does not have is left out, and where nothing is left the error says what it is.
func TestDrawWithout(t *testing.T) {
	for _, c := range []struct {
		kind  string
		means Means
		want  string // of the error, "" for none
		never []string
	}{
		{"pause", Means{}, "", []string{"throttle"}},
		{"partition", Means{Disks: true, CPU: true, TimeNS: true}, lacksNetwork, nil},
		{"disk", Means{Network: true}, lacksDisks, nil},
		{"clock", Means{}, "", []string{"mono_jump"}},
		{"member", Means{}, "", []string{"isolate"}},
		{Mixed, Means{}, "", []string{"throttle", "mono_jump", "isolate", "shape", "disk_eio", "power"}},
	} {
		t.Run(c.kind, func(t *testing.T) {
			s, err := Draw(1, c.kind, 3, 10*time.Minute, c.means)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("%v, want an error that says %q", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range s.Faults {
				if slices.Contains(c.never, f.Kind) {
					t.Errorf("%s is drawn", f.Kind)
				}
			}
			if err := s.Possible(c.means); err != nil {
				t.Error(err)
			}
		})
	}
	if s, err := Draw(1, "disk", 3, time.Minute, everything); err != nil {
		t.Error(err)
	} else if err := s.Possible(Means{}); err == nil || !strings.Contains(err.Error(), lacksDisks) {
		t.Errorf("%v", err)
	}
}

// A schedule that is not one is refused with what is wrong, and with what would be right.
func TestParseSchedule(t *testing.T) {
	const head = `{"seed":1,"kind":"kill","nodes":3,"for":"60s","quiet":"10s","faults":[`
	for name, c := range map[string]struct{ text, want string }{
		"good":                {head + `{"at":"1s","for":"2s","kind":"kill","target":"n1,n3"},{"at":"9s","for":"300ms","kind":"pause","target":"leader"}]}`, ""},
		"no JSON":             {`{`, "unexpected EOF"},
		"unknown field":       {`{"sed":1}`, `unknown field "sed"`},
		"unknown fault field": {head + `{"at":"1s","kind":"kill","target":"all","skewed":"1s"}]}`, `unknown field "skewed"`},
		"more behind":         {head + `]}{}`, "more behind"},
		"unknown run":         {`{"kind":"chaos","nodes":3,"for":"60s","faults":[]}`, "want one of none, kill"},
		"no nodes":            {`{"kind":"kill","nodes":2,"for":"60s","faults":[]}`, "nodes is 2, want 3 to 9"},
		"no length":           {`{"kind":"kill","nodes":3,"for":"0s","faults":[]}`, "for is 0s"},
		"length without unit": {`{"kind":"kill","nodes":3,"for":"60","faults":[]}`, "no length of time"},
		"all quiet":           {`{"kind":"kill","nodes":3,"for":"10s","quiet":"10s","faults":[]}`, "quiet is 10s"},
		"unknown kind":        {head + `{"at":"1s","for":"2s","kind":"explode","target":"all"}]}`, "no such kind of fault, only bridge, clock_jump"},
		"unknown target":      {head + `{"at":"1s","for":"2s","kind":"kill","target":"somebody"}]}`, `target is "somebody", want leader, follower`},
		"no such node":        {head + `{"at":"1s","for":"2s","kind":"kill","target":"n4"}]}`, "n1 to n3"},
		"node twice":          {head + `{"at":"1s","for":"2s","kind":"kill","target":"n1,n1"}]}`, "each once"},
		"no target":           {head + `{"at":"1s","for":"2s","kind":"kill"}]}`, "target is"},
		"target too much":     {head + `{"at":"1s","for":"2s","kind":"pause_workers","target":"n1"}]}`, "it takes none"},
		"one of a pair":       {head + `{"at":"1s","for":"2s","kind":"cut","target":"n1"}]}`, "two labels"},
		"none of a pair":      {head + `{"at":"1s","for":"2s","kind":"cut_one_way"}]}`, "two labels"},
		"parameter missing":   {head + `{"at":"1s","for":"2s","kind":"clock_jump","target":"n1"}]}`, "it needs skew"},
		"parameter too much":  {head + `{"at":"1s","for":"2s","kind":"kill","target":"n1","percent":5}]}`, "it takes no percent"},
		"percent":             {head + `{"at":"1s","for":"2s","kind":"throttle","target":"n1","percent":500}]}`, "want 1 to 100"},
		"pace":                {head + `{"at":"1s","for":"2s","kind":"swizzle","every":"1ms"}]}`, "want 10ms or more"},
		"loss":                {head + `{"at":"1s","for":"2s","kind":"shape","net":{"loss":101}}]}`, "net.loss is 101"},
		"delay":               {head + `{"at":"1s","for":"2s","kind":"shape","net":{"delay_low":"2s","delay_high":"1s"}}]}`, "delay of 2s to 1s"},
		"negative length":     {head + `{"at":"1s","for":"-2s","kind":"kill","target":"n1"}]}`, "want 0 or more"},
		"in the quiet":        {head + `{"at":"49s","for":"2s","kind":"kill","target":"n1"}]}`, "when the quiet begins"},
		"out of order":        {head + `{"at":"9s","for":"1s","kind":"kill","target":"n1"},{"at":"8s","for":"1s","kind":"kill","target":"n1"}]}`, "before the one that stands before it"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := ParseSchedule([]byte(c.text))
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want == "" && len(s.Faults) != 2:
				t.Errorf("%+v", s)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v, want an error that says %q", err, c.want)
			}
		})
	}
}
