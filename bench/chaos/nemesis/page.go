package nemesis

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/quorate/quorate/bench/chaos/history"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"svg":       func(r *Result) template.HTML { return template.HTML(timeline(r)) },
	"err":       func(r *Result) string { return errText(r.Err()) },
	"sec":       func(s float64) string { return fmt.Sprintf("%.2f", s) },
	"msec":      func(s float64) string { return fmt.Sprintf("%.0f", s) },
	"thousands": thousands,
	"silence":   longest,
	"recovery":  recovery,
	"sometimes": func(r *Result, what string) int { return r.Sometimes[what] },
	"names":     func(m map[string]int) []string { return slices.Sorted(maps.Keys(m)) },
	"modes":     func(m map[string]*history.Counts) []string { return slices.Sorted(maps.Keys(m)) },
	"dead":      func(m *history.Counts) int { return m.Dead + m.Redriven + m.Deleted },
	"family":    family,
	"params":    params,
	"sum":       sums,
	"sub":       func(a, b float64) float64 { return a - b },
	"plural": func(n int, one, many string) string {
		if n == 1 {
			return one
		}
		return many
	},
}).Parse(pageText))

// Page writes a page about runs that needs nothing but itself: what is wrong first, then each run with its timeline.
func Page(w io.Writer, rs []*Result) error { return page.Execute(w, rs) }

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// thousands writes a number with spaces between thousands.
func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}

// longest is the longest silence of a run, in seconds.
func longest(r *Result) (most float64) {
	for _, s := range r.Silences {
		most = max(most, s.To-s.From)
	}
	return most
}

// recovery is the longest that clients waited after a fault was healed, in seconds, or that they waited in vain.
func recovery(r *Result) string {
	most := 0.0
	for _, s := range r.Faults {
		switch {
		case s.Skipped != "":
		case s.Recovery < 0:
			return "never"
		default:
			most = max(most, s.Recovery)
		}
	}
	return fmt.Sprintf("%.2f", most)
}

// total is what runs add up to.
type total struct {
	Runs, Operations, Faults, Elections, Installs, Terms, Violations, Problems, Vacuous, Failed int
	Minutes                                                                                     float64
}

func sums(rs []*Result) (t total) {
	for _, r := range rs {
		t.Runs++
		t.Operations += r.Operations
		t.Faults += r.Struck()
		t.Elections += r.Elections
		t.Installs += r.Installs
		t.Terms += r.Terms
		t.Violations += r.Broken
		t.Problems += len(r.Problems)
		t.Vacuous += len(r.Vacuous)
		t.Minutes += r.Worked / 60
		if r.Err() != nil {
			t.Failed++
		}
	}
	return t
}

// family is what a kind of fault is of, which has a colour.
func family(kind string) string {
	switch {
	case memberFaults[kind] != nil:
		return "member"
	case diskFaults[kind] != nil:
		return "disk"
	case networkFaults[kind] != nil:
		return "network"
	case strings.HasPrefix(kind, "clock"), kind == "mono_jump":
		return "clock"
	}
	return "process"
}

// params are a fault's parameters in words.
func params(f *Strike) string {
	var out []string
	if f.Skew != 0 {
		out = append(out, "by "+f.Skew.String())
	}
	if f.Every != 0 {
		out = append(out, "every "+f.Every.String())
	}
	if f.Percent != 0 {
		out = append(out, fmt.Sprintf("%d %% of a CPU", f.Percent))
	}
	if f.Clients {
		out = append(out, "from clients too")
	}
	if n := f.Net; n != nil {
		if n.DelayHigh > 0 {
			out = append(out, fmt.Sprintf("delay %s to %s", n.DelayLow, n.DelayHigh))
		}
		for _, p := range []struct {
			what string
			n    int
		}{{"lost", n.Loss}, {"twice", n.Duplicate}, {"out of order", n.Reorder}} {
			if p.n > 0 {
				out = append(out, fmt.Sprintf("%d %% %s", p.n, p.what))
			}
		}
		if n.Kbit > 0 {
			out = append(out, fmt.Sprintf("%d kbit/s", n.Kbit))
		}
	}
	return strings.Join(out, ", ")
}
