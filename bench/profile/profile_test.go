package main

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const traces = `File: quorate
Type: cpu
Duration: 6s, Total samples = 100ms
-----------+-------------------------------------------------------
   30000us   internal/runtime/syscall.Syscall6
             syscall.Fdatasync
             go.etcd.io/bbolt.(*Tx).Commit
             github.com/quorate/quorate/cluster/store.(*Log).StoreLogs
-----------+-------------------------------------------------------
     5.5ms   runtime.memmove
             github.com/quorate/quorate/cluster/store.(*Log).Seal (inline)
-----------+-------------------------------------------------------
      10us   github.com/quorate/quorate/fsm.(*State).Apply
             github.com/quorate/quorate/cluster/group.machine.ApplyBatch
-----------+-------------------------------------------------------
      20us   somebody.else
`

func TestReadTraces(t *testing.T) {
	t.Parallel()
	got, err := readTraces([]byte(traces))
	if err != nil {
		t.Fatal(err)
	}
	want := tally{"log: sync of the disk": 30 * time.Millisecond, "log: all else of the store": 5500 * time.Microsecond,
		"state machine: apply": 10 * time.Microsecond, allElse: 20 * time.Microsecond}
	for name, d := range want {
		if got[name] != d {
			t.Errorf("%s: %s, want %s", name, got[name], d)
		}
	}
	if len(got) != len(want) || got.sum() != 35530*time.Microsecond {
		t.Errorf("%v", got)
	}
	if names := areaNames(got, tally{allElse: time.Second}); !slices.Equal(names, []string{allElse, "log: sync of the disk", "log: all else of the store", "state machine: apply"}) {
		t.Errorf("areas in the order %q", names)
	}
	for name, text := range map[string]string{
		"nothing": "", "no samples": "File: quorate\n-----------+---\n", "no time": "-----------+---\n  fast  f\n", "no function": "-----------+---\n  10us\n",
	} {
		if got, err := readTraces([]byte(text)); err == nil {
			t.Errorf("%s: %v, want an error", name, got)
		}
	}
}

// TestAreas: every function of ours that an area names is there. A renamed one would silently move its time elsewhere.
func TestAreas(t *testing.T) {
	t.Parallel()
	for _, a := range areas {
		for _, f := range a.funcs {
			pkg, name, ok := strings.Cut(f, ".")
			if !ok || name == "" || !slices.Contains([]string{"cluster/group", "fsm", "transport"}, pkg) {
				continue
			}
			name = name[strings.LastIndexByte(name, '.')+1:]
			files, err := filepath.Glob(filepath.Join("..", "..", pkg, "*.go"))
			if err != nil || len(files) == 0 {
				t.Fatalf("no files of %s (%v)", pkg, err)
			}
			found := false
			for _, file := range files {
				b, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				name := strings.Trim(name, "(*)")
				found = found || strings.Contains(string(b), ") "+name+"(") || strings.Contains(string(b), "\ntype "+name+" ")
			}
			if !found {
				t.Errorf("area %q names %s, which is not in %s", a.name, f, pkg)
			}
		}
	}
}

func TestReadMetrics(t *testing.T) {
	t.Parallel()
	before, err := readMetrics(strings.NewReader("# HELP x\nx_sum{a=\"b c\"} 1\nx_sum{a=\"d\"} 2\nx_count 2\nx_bucket{le=\"+Inf\"} 9\n"))
	if err != nil {
		t.Fatal(err)
	}
	after, err := readMetrics(strings.NewReader("x_sum 13\nx_count 4\n"))
	if err != nil {
		t.Fatal(err)
	}
	if v, n := mean(before, after, "x"); v != 5 || n != 2 {
		t.Errorf("a mean of %g over %g, want 5 over 2", v, n)
	}
	if v, n := mean(before, before, "x"); v != 0 || n != 0 || math.IsNaN(v) {
		t.Errorf("nothing observed: %g over %g, want zeros", v, n)
	}
	if _, err := readMetrics(strings.NewReader("x y\n")); err == nil {
		t.Error("a value that is no number was taken")
	}
	if _, err := readMetrics(strings.NewReader("17\n")); err == nil {
		t.Error("a line without a name was taken")
	}
}

func TestReplaced(t *testing.T) {
	t.Parallel()
	page, err := replaced("# Page\n", "W3", "one\n")
	if err != nil || page != "# Page\n\n## W3\n\n<!-- W3 -->\none\n<!-- /W3 -->\n" {
		t.Fatalf("%q %v", page, err)
	}
	page += "after\n"
	if page, err = replaced(page, "W3", "two\n"); err != nil || page != "# Page\n\n## W3\n\n<!-- W3 -->\ntwo\n<!-- /W3 -->\nafter\n" {
		t.Errorf("%q %v", page, err)
	}
	for _, bad := range []string{"<!-- W3 -->\n", "<!-- /W3 -->\n", "<!-- /W3 -->\n<!-- W3 -->\n"} {
		if page, err := replaced(bad, "W3", "x\n"); err == nil {
			t.Errorf("%q became %q, want an error", bad, page)
		}
	}
}

func TestProfileRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		o    options
		want string
	}{
		{"no workload", options{workload: "", cpu: 2 * time.Second}, "W1 to W5"},
		{"another workload", options{workload: "W6", cpu: 2 * time.Second}, "W1 to W5"},
		{"too short", options{workload: "w3", cpu: time.Second}, "2s to 5m"},
		{"too long", options{workload: "W3", cpu: time.Hour}, "2s to 5m"},
		{"no binary", options{workload: "W3", cpu: 2 * time.Second, out: t.TempDir(), binary: "/nowhere/quorate"}, "quorate binary"},
	} {
		if err := profile(t.Context(), c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
