package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/load"
)

var update = flag.Bool("update", false, "rewrite golden files")

// example is a report with made-up figures: two systems that did everything, one with faults and without W6, and one that
// did nothing.
func example() *report {
	r := &report{
		Command: "go run . --for 10s", Date: time.Date(2026, 11, 28, 5, 10, 0, 0, time.UTC), TookS: 1830, Size: 256, For: "10s", WarmUp: "2s", Repeat: 3,
		Rate: 2000, Preload: 300_000, Queued: 1_000_000, LeftOut: []string{"Left & Out"},
		Machine: machine{CPU: "Some <CPU>", Cores: 2, MemoryGB: 25.2, Kernel: "6.18", FileSystem: "ext4", Go: "go1.26.8", Commit: "0123456789", LoadBefore: "0.10", LoadAfter: "2.50"},
		Systems: []systemFacts{
			{"quorate", "Quorate", "3 nodes", "v0.9"}, {"a", "System A", "3 nodes, <sync>", "1.2.3"}, {"b", "System B", "1 node", "4"}, {"c", "System C", "broken", "5"},
		},
	}
	add := func(system, workload string, faults []string, loads ...load.Result) {
		for i := range loads {
			r.Measurements = append(r.Measurements, &measurement{System: system, Workload: workload, Repeat: i + 1, Load: &loads[i], Faults: faults})
		}
	}
	result := func(rate, cpu, p50, p99 float64) load.Result {
		return load.Result{Rate: rate, ServerCPU: &cpu, Confirm: &load.Quantiles{P50: p50, P99: p99}, EndToEnd: &load.Quantiles{P50: 2 * p50, P99: 2 * p99}}
	}
	add("quorate", load.W1, nil, result(131_000, 11, 9, 40), result(90_000, 12, 12, 90), result(140_000, 10, 8, 30))
	add("a", load.W1, nil, result(27_000, 47, 70, 150), result(28_000, 48, 71, 140))
	add("b", load.W1, nil, result(113_000, 4.8, 18, 35))
	add("b", load.W1, []string{"lost 3, duplicates 0"}, result(999_999, 1, 1, 1))
	add("quorate", load.W3, nil, result(68_000, 18.25, 14, 27.4))
	add("a", load.W3, nil, result(5_800, 232, 906, 1677))
	add("quorate", load.W4, nil, result(2000, 600, 3, 12))
	add("a", load.W4, nil, result(1900, 700, 254, 721))
	for _, g := range []float64{700, 650, 900} {
		r.Measurements = append(r.Measurements, &measurement{System: "quorate", Workload: w6, Gap: &gapResult{LongestGapMS: g}})
	}
	r.Measurements = append(r.Measurements,
		&measurement{System: "a", Workload: w6, Gap: &gapResult{LongestGapMS: 5100}},
		&measurement{System: "quorate", Workload: w7, Queued: &queuedResult{RSS: []int64{500e6, 640e6, 600e6}, RestartS: 1.6}},
		&measurement{System: "c", Workload: load.W1, Repeat: 1, Faults: []string{"start System C:\nno such file"}})
	r.tabulate()
	return r
}

func TestReportGolden(t *testing.T) {
	r := example()
	for name, got := range map[string]string{"RESULTS.md": r.markdown(), "results.svg": r.svg()} {
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s differs from %s (rewrite it with -update and look at the difference):\n%s", name, path, got)
		}
	}
}

func TestChartIsXML(t *testing.T) {
	for name, r := range map[string]*report{"example": example(), "empty": {}} {
		d := xml.NewDecoder(strings.NewReader(r.svg()))
		for {
			_, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
}

func TestChartedMetricsExist(t *testing.T) {
	known := make(map[string]bool)
	for _, x := range metrics {
		if known[x.key] {
			t.Errorf("metric %s is there twice", x.key)
		}
		known[x.key] = true
	}
	for _, key := range charted {
		if !known[key] {
			t.Errorf("a panel is for %s, which is no metric", key)
		}
	}
}

func TestTabulate(t *testing.T) {
	r := example()
	cells := make(map[string][]cell)
	for _, w := range r.Rows {
		cells[w.Metric] = w.Cells
	}
	for _, c := range []struct {
		metric        string
		system        int
		median, ratio float64 // 0: null
		faulty        int
	}{
		{"W1.msgs_per_s", 0, 131_000, 0, 0},
		{"W1.msgs_per_s", 1, 27_500, 131_000. / 27_500, 0}, // a rate: ours over theirs
		{"W1.msgs_per_s", 2, 113_000, 131_000. / 113_000, 1},
		{"W1.msgs_per_s", 3, 0, 0, 1},
		{"W1.cpu_us", 2, 4.8, 4.8 / 11, 1}, // the lower the better: theirs over ours
		{"W3.e2e_p99_ms", 1, 3354, 3354 / 54.8, 0},
		{"W4.msgs_per_s", 1, 1900, 0, 0}, // the rate is given
		{"W6.gap_ms", 0, 700, 0, 0},
		{"W6.gap_ms", 1, 5100, 5100. / 700, 0},
		{"W7.rss_mb", 0, 640, 0, 0}, // the largest node
		{"W7.restart_s", 1, 0, 0, 0},
	} {
		if cells[c.metric] == nil {
			t.Errorf("there is no row for %s", c.metric)
			continue
		}
		got := cells[c.metric][c.system]
		if value(got.Median) != c.median || value(got.Ratio) != c.ratio || got.Faulty != c.faulty {
			t.Errorf("%s of system %d: median %g, ratio %g, faulty %d; want %g, %g, %d", c.metric, c.system, value(got.Median), value(got.Ratio), got.Faulty,
				c.median, c.ratio, c.faulty)
		}
	}
	if cells["W2.msgs_per_s"] != nil {
		t.Error("a workload that nobody did has a row")
	}
	if n := r.faults(); n != 2 {
		t.Errorf("%d measurements with faults, 2 expected", n)
	}
}

func value(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		name string
		vs   []float64
		want float64
	}{
		{"one", []float64{3}, 3},
		{"two", []float64{4, 2}, 3},
		{"three, unsorted", []float64{9, 1, 5}, 5},
		{"four", []float64{9, 1, 5, 7}, 6},
		{"equal", []float64{2, 2, 2}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := append([]float64{}, c.vs...)
			if got := median(c.vs); got != c.want {
				t.Errorf("%g, want %g", got, c.want)
			}
			for i := range before {
				if before[i] != c.vs[i] {
					t.Errorf("the values were changed: %v, were %v", c.vs, before)
				}
			}
		})
	}
}

func TestFigure(t *testing.T) {
	for _, c := range []struct {
		v    float64
		want string
	}{
		{0, "0.00"}, {0.004, "0.00"}, {1.234, "1.23"}, {9.994, "9.99"}, {9.996, "10.0"}, {99.94, "99.9"}, {99.96, "100"}, {999.4, "999"},
		{999.6, "1,000"}, {12_345.6, "12,346"}, {1_234_567, "1,234,567"}, {-12, "-12.0"},
	} {
		if got := figure(c.v); got != c.want {
			t.Errorf("%g is written %q, want %q", c.v, got, c.want)
		}
	}
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	r := example()
	if err := r.write(dir); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	var back report
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if back.markdown() != r.markdown() || back.svg() != r.svg() {
		t.Error("results.json does not hold what the other two files are made from")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Errorf("%d files were written (%v), 3 expected", len(entries), err)
	}
	if err := r.write(filepath.Join(dir, "nowhere")); err == nil {
		t.Error("results were written to a folder that is not there")
	}
}
