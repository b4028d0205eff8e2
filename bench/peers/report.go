package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// report is all that a run found: results.json.
type report struct {
	Command      string         `json:"command"`
	Date         time.Time      `json:"date"`
	TookS        float64        `json:"took_s"`
	Machine      machine        `json:"machine"`
	Size         int            `json:"size"`
	For          string         `json:"for"`
	WarmUp       string         `json:"warm_up"`
	Repeat       int            `json:"repeat"`
	CutShort     string         `json:"cut_short,omitempty"` // why there are fewer repeats than were asked for
	Rate         float64        `json:"w4_msgs_per_s"`
	Preload      int            `json:"w2_preload"`
	Queued       int            `json:"w7_messages"`
	Systems      []systemFacts  `json:"systems"`
	LeftOut      []string       `json:"left_out,omitempty"` // not installed
	Rows         []row          `json:"rows"`
	Measurements []*measurement `json:"measurements"`
}

type systemFacts struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	About   string `json:"about"`
	Version string `json:"version"`
}

// row is one metric over all systems.
type row struct {
	Metric string `json:"metric"`
	Title  string `json:"title"`
	Lower  bool   `json:"lower_is_better"`
	// Cells are in the order of Systems.
	Cells []cell `json:"cells"`
}

// cell is one system's figure.
type cell struct {
	System string    `json:"system"`
	Median *float64  `json:"median"` // null: not measured, or nothing but faults
	Values []float64 `json:"values,omitempty"`
	// Ratio says how many times better the first system's median is: above 1 better, below 1 worse. Null for itself, and
	// where one of the two has no median.
	Ratio  *float64 `json:"first_is_times_better"`
	Faulty int      `json:"faulty,omitempty"` // measurements that do not count
}

func newReport(ctx context.Context, e *env, o *options) *report {
	return &report{
		Command: strings.Join(append([]string{"go run ."}, o.args...), " "), Date: time.Now().UTC().Truncate(time.Second),
		Machine: machineFacts(ctx, e), Size: o.size, For: o.duration.String(), WarmUp: o.warmUp.String(), Repeat: o.repeat, Rate: o.rate,
		Preload: o.preload, Queued: o.queued,
	}
}

// find looks for the systems and notes their versions. One that is missing is left out, unless it was asked for by name or
// is the one that the others are compared with.
func (r *report) find(e *env, o *options, log io.Writer) (found []system, err error) {
	for i, s := range o.systems {
		version, err := s.find(e)
		switch {
		case err == nil:
			found = append(found, s)
			r.Systems = append(r.Systems, systemFacts{s.name, s.title, s.about, version})
		case o.byName || i == 0:
			return nil, fmt.Errorf("%s: %w", s.name, err)
		default:
			fmt.Fprintf(log, "%s is left out: %v\n", s.name, err)
			r.LeftOut = append(r.LeftOut, s.title)
		}
	}
	return found, nil
}

// finish works out the rows.
func (r *report) finish() {
	r.TookS = time.Since(r.Date).Seconds()
	r.Machine.LoadAfter = loadAverage()
	r.tabulate()
}

func (r *report) tabulate() {
	r.Rows = nil
	for i := range metrics {
		x := &metrics[i]
		w := row{Metric: x.key, Title: x.title, Lower: x.lower}
		some := false
		for _, s := range r.Systems {
			c := cell{System: s.Name}
			for _, m := range r.Measurements {
				if m.System != s.Name || m.Workload != x.workload {
					continue
				}
				if len(m.Faults) > 0 {
					c.Faulty++
				} else if v, ok := x.of(m); ok {
					c.Values = append(c.Values, v)
				}
			}
			if len(c.Values) > 0 {
				m := median(c.Values)
				c.Median = &m
			}
			some = some || c.Median != nil || c.Faulty > 0
			w.Cells = append(w.Cells, c)
		}
		if !some {
			continue
		}
		if !x.about {
			w.compare()
		}
		r.Rows = append(r.Rows, w)
	}
}

// compare fills in the ratios to the first cell.
func (w *row) compare() {
	first := w.Cells[0].Median
	for i := range w.Cells[1:] {
		c := &w.Cells[i+1]
		if first == nil || c.Median == nil {
			continue
		}
		over, under := *first, *c.Median
		if w.Lower {
			over, under = under, over
		}
		if under > 0 {
			q := over / under
			c.Ratio = &q
		}
	}
}

func (r *report) faults() (n int) {
	for _, m := range r.Measurements {
		if len(m.Faults) > 0 {
			n++
		}
	}
	return n
}

// write writes the three files. Each is written beside its place first, so that a full disk leaves the old one.
func (r *report) write(dir string) error {
	js, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	for _, f := range []struct {
		name string
		data []byte
	}{
		{"results.json", append(js, '\n')},
		{"results.svg", []byte(r.svg())},
		{"RESULTS.md", []byte(r.markdown())},
	} {
		path := filepath.Join(dir, f.name)
		if err := os.WriteFile(path+".new", f.data, 0o644); err != nil {
			return fmt.Errorf("write results: %w", err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			return fmt.Errorf("write results: %w", err)
		}
	}
	return nil
}

// The comments between which a file quotes the results.
const (
	quoteBegin = "<!-- peers -->"
	quoteEnd   = "<!-- /peers -->"
)

// quote replaces the part of a file that is between the two comments, which stay, by the short table and the chart, which
// is in the folder out.
func (r *report) quote(path, out string) error {
	chart, err := relative(path, filepath.Join(out, "results.svg"))
	if err != nil {
		return fmt.Errorf("quote the results: %w", err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("quote the results: %w", err)
	}
	before, rest, ok := strings.Cut(string(b), quoteBegin)
	_, after, ok2 := strings.Cut(rest, quoteEnd)
	if !ok || !ok2 {
		return fmt.Errorf("quote the results: %s has no part between %s and %s", path, quoteBegin, quoteEnd)
	}
	if err := os.WriteFile(path+".new", []byte(before+quoteBegin+"\n\n"+r.short()+"\n!["+chartTitle+"]("+chart+")\n"+quoteEnd+after), 0o644); err != nil {
		return fmt.Errorf("quote the results: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("quote the results: %w", err)
	}
	return nil
}

// relative is how a file names another.
func relative(from, to string) (string, error) {
	from, err := filepath.Abs(filepath.Dir(from))
	if err != nil {
		return "", err
	}
	if to, err = filepath.Abs(to); err != nil {
		return "", err
	}
	rel, err := filepath.Rel(from, to)
	return filepath.ToSlash(rel), err
}

// short is what is quoted: the figures of the chart.
func (r *report) short() string {
	var versions []string
	for _, s := range r.Systems {
		versions = append(versions, s.Title+" "+s.Version)
	}
	return r.table(0, func(_ row, c cell) string {
		s := "–"
		if c.Median != nil {
			s = figure(*c.Median)
		}
		if c.Ratio != nil {
			s += " (" + figure(*c.Ratio) + " ×)"
		}
		return s
	}, func(w row) bool { return slices.Contains(charted, w.Metric) }) +
		fmt.Sprintf("\nIn brackets: how many times better %s is. %s, `%s`, medians of %d. %s.\n%s.\n",
			r.Systems[0].Title, r.Date.Format("2006-01-02"), r.Command, r.Repeat, r.Machine, strings.Join(versions, ", "))
}

// markdown is RESULTS.md.
func (r *report) markdown() string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	p("# Quorate and its peers\n\nWritten by `%s` in bench/peers (`make peers`); the design and the workloads are in [doc.go](doc.go), every single "+
		"measurement in [results.json](results.json).\n\n", r.Command)
	p("- **Date** %s, %.0f minutes\n", r.Date.Format("2006-01-02 15:04 UTC"), r.TookS/60)
	p("- **Machine** %s; load average %s before, %s after\n", r.Machine, r.Machine.LoadBefore, r.Machine.LoadAfter)
	p("- **Work** %d B messages; servers and load on this machine; medians of %d, %s each after %s of warm-up; W2 %d messages, W4 %g/s, W7 %d messages\n",
		r.Size, r.Repeat, r.For, r.WarmUp, r.Preload, r.Rate, r.Queued)
	if r.CutShort != "" {
		p("- **Note** %s\n", r.CutShort)
	}
	for _, s := range r.Systems {
		p("- **%s** %s: %s\n", s.Title, s.Version, s.About)
	}
	for _, s := range r.LeftOut {
		p("- **%s** is left out: not installed\n", s)
	}
	p("\nOnly figures of one run compare: the machine, the disk and what else they do differ from run to run.\n\n![%s](results.svg)\n", chartTitle)
	p("\n## Medians\n\n%s", r.table(0, func(w row, c cell) string {
		s := "–"
		if c.Median != nil {
			s = figure(*c.Median)
		}
		if w.Metric == "W6.gap_ms" && len(c.Values) > 1 {
			s += fmt.Sprintf(" (%s–%s)", figure(slices.Min(c.Values)), figure(slices.Max(c.Values)))
		}
		if c.Faulty > 0 {
			s += fmt.Sprintf(" ✗%d", c.Faulty)
		}
		return s
	}, func(row) bool { return true }))
	if r.faults() > 0 {
		p("\n✗ marks measurements that do not count, with how many there were: see Faults.\n")
	}
	if len(r.Systems) > 1 {
		p("\n## How many times better %s is\n\nRates: its own divided by theirs; all else: theirs divided by its own. Below 1 it is worse.\n\n%s", r.Systems[0].Title,
			r.table(1, func(_ row, c cell) string {
				if c.Ratio == nil {
					return "–"
				}
				return figure(*c.Ratio) + " ×"
			}, func(w row) bool {
				return slices.ContainsFunc(w.Cells, func(c cell) bool { return c.Ratio != nil })
			}))
	}
	if r.faults() > 0 {
		p("\n## Faults\n\n")
		for _, m := range r.Measurements {
			for _, f := range m.Faults {
				p("- %s %s, repeat %d: %s\n", m.System, m.Workload, m.Repeat, strings.ReplaceAll(f, "\n", " "))
			}
		}
	}
	return b.String()
}

// table is a Markdown table of the rows that are wanted and of the systems from one on.
func (r *report) table(from int, show func(row, cell) string, want func(row) bool) string {
	var b strings.Builder
	b.WriteString("| work |")
	for _, s := range r.Systems[from:] {
		b.WriteString(" " + s.Title + " |")
	}
	b.WriteString("\n| --- |" + strings.Repeat(" ---: |", len(r.Systems)-from) + "\n")
	for _, w := range r.Rows {
		if !want(w) {
			continue
		}
		b.WriteString("| " + w.Title + " |")
		for _, c := range w.Cells[from:] {
			b.WriteString(" " + show(w, c) + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// figure writes a number with three digits that matter, or all of a larger one, in groups of three.
func figure(v float64) string {
	switch {
	case v < 0:
		return "-" + figure(-v)
	case v >= 999.5:
		s := fmt.Sprintf("%.0f", v)
		for i := len(s) - 3; i > 0; i -= 3 {
			s = s[:i] + "," + s[i:]
		}
		return s
	case v >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case v >= 9.995:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
