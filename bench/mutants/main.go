package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/bench/testbin"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is the command.
func run(args []string, out, progress io.Writer) int {
	return testbin.Main("mutants", args, progress, func(flags *flag.FlagSet) func(context.Context) (bool, error) {
		number := flags.Int("mutant", 0, "the one bug to plant, 1 to 23; 0: all")
		layer := flags.String("layer", "", "the layers to run, with commas between them, of "+strings.Join(layers, ", ")+"; empty: all")
		return func(ctx context.Context) (bool, error) { return start(ctx, *number, *layer, out, progress) }
	})
}

func start(ctx context.Context, number int, layer string, out, progress io.Writer) (ok bool, err error) {
	chosen, err := choose(catalogue, number, layer)
	if err != nil {
		return false, err
	}
	r, err := testbin.New(ctx)
	if err != nil {
		return false, err
	}
	defer r.Close()
	return campaign(ctx, (&planter{Runner: r}).try, chosen, out, progress)
}

// choose is the part of the catalogue that was asked for.
func choose(all []mutant, number int, layer string) (chosen []mutant, err error) {
	wanted := layers
	if layer != "" {
		wanted = strings.Split(layer, ",")
	}
	for _, l := range wanted {
		if !slices.Contains(layers, l) {
			return nil, fmt.Errorf("layer %q: want %s", l, strings.Join(layers, ", "))
		}
	}
	for _, m := range all {
		if number != 0 && m.number != number {
			continue
		}
		m.slices = slices.DeleteFunc(slices.Clone(m.slices), func(s slice) bool { return !slices.Contains(wanted, s.layer) })
		if len(m.slices) > 0 {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("mutant %d, layer %q: the catalogue has nothing of that; it has mutants 1 to %d", number, layer, len(all))
	}
	return chosen, nil
}

// trier runs a slice with a bug, or without one (0).
type trier func(ctx context.Context, number int, s slice) testbin.Result

// planter has the binaries of one bug until the next one's turn.
type planter struct {
	*testbin.Runner
	number int // of the bug that they have
}

// try is a trier.
func (p *planter) try(ctx context.Context, number int, s slice) testbin.Result {
	if number != p.number {
		p.Drop()
		p.number = number
	}
	return p.Run(ctx, testsOf(number, s))
}

// testsOf is a slice in the build of a bug.
func testsOf(number int, s slice) testbin.Tests {
	return testbin.Tests{Pkg: s.pkg, Tags: tagOf(number), Run: s.run, Args: s.args, Most: s.most}
}

// tagOf is the build tag of a bug, "" of none (0).
func tagOf(number int) string {
	if number == 0 {
		return ""
	}
	return fmt.Sprintf("mutant_%02d", number)
}

// campaign tries each bug with its slices, and before that the slices without one. It writes a table, and says whether all was
// as it should be.
func campaign(ctx context.Context, try trier, ms []mutant, out, progress io.Writer) (ok bool, err error) {
	ok = true
	began := time.Now()
	controls := 0
	for _, s := range distinct(ms) {
		res := try(ctx, 0, s)
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		controls++
		fmt.Fprintf(progress, "%6.1fs  no bug                        %-10s %s %s: %s\n", res.Took.Seconds(), s.layer, s.pkg, s.run, res.Verdict)
		if res.Verdict != testbin.Passed {
			ok = false
			fmt.Fprintf(progress, "         it must pass without a bug: %s\n", res.Why)
		}
	}
	table := make([][]testbin.Result, len(ms))
	for i, m := range ms {
		for _, s := range byPackage(m.slices) {
			res := try(ctx, m.number, s)
			if ctx.Err() != nil {
				return false, ctx.Err()
			}
			fmt.Fprintf(progress, "%6.1fs  %02d %-26s %-10s %s %s: %s\n         %s\n", res.Took.Seconds(), m.number, m.name, s.layer, s.pkg, s.run, caught(res), res.Why)
			if res.Verdict != testbin.Failed {
				ok = false
			}
			table[i] = append(table[i], res)
		}
	}
	fmt.Fprint(out, report(ms, table))
	fmt.Fprintf(out, "\n%d slices passed or failed without a bug, %d bugs planted, in %s.\n", controls, len(ms), time.Since(began).Round(time.Second))
	if !ok {
		fmt.Fprintln(out, "\nNot all was as it should be: see above.")
	}
	return ok, nil
}

// caught says what a result means where there is a bug.
func caught(r testbin.Result) string {
	switch r.Verdict {
	case testbin.Failed:
		return "caught"
	case testbin.Passed:
		return "MISSED"
	default:
		return "NOT SHOWN, " + r.Verdict.String()
	}
}

// distinct are the slices of all of them, each once, one package after the other.
func distinct(ms []mutant) (all []slice) {
	seen := map[string]bool{}
	for _, m := range ms {
		for _, s := range m.slices {
			if key := fmt.Sprint(s.pkg, s.run, s.args); !seen[key] {
				seen[key] = true
				all = append(all, s)
			}
		}
	}
	return byPackage(all)
}

// byPackage puts slices of one package together, so that it is built once.
func byPackage(all []slice) []slice {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b slice) int { return strings.Compare(a.pkg, b.pkg) })
	return all
}

// report is the table of bugs and layers in Markdown. Results stand in the order of byPackage.
func report(ms []mutant, table [][]testbin.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| | planted bug | breaks | %s |\n|---|---|---|%s\n", strings.Join(layers, " | "), strings.Repeat("---|", len(layers)))
	for i, m := range ms {
		cells := make([]string, len(layers))
		for j, s := range byPackage(m.slices) {
			at := slices.Index(layers, s.layer)
			text := caught(table[i][j])
			if text == "caught" {
				text = fmt.Sprintf("%.1f s", table[i][j].Took.Seconds())
			}
			if cells[at] != "" {
				cells[at] += ", "
			}
			cells[at] += text
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s |\n", m.number, m.name, m.breaks, strings.Join(cells, " | "))
	}
	return b.String()
}
