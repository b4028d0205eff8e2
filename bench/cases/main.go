package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/quorate/quorate/bench/testbin"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is the command.
func run(args []string, out, progress io.Writer) int {
	return testbin.Main("cases", args, progress, func(flags *flag.FlagSet) func(context.Context) (bool, error) {
		draw := flags.Int("run", 0, "how many cases to draw and run; 0: list them all")
		seed := flags.Uint64("seed", 0, "seed of the lot; 0 draws one")
		one := flags.Int("case", 0, "the one case to run, 1 to 66")
		return func(ctx context.Context) (bool, error) { return start(ctx, *draw, *seed, *one, out, progress) }
	})
}

func start(ctx context.Context, draw int, seed uint64, one int, out, progress io.Writer) (ok bool, err error) {
	if draw == 0 && one == 0 {
		list(catalogue, out)
		return true, nil
	}
	var chosen []fieldCase
	switch {
	case draw != 0 && one != 0:
		return false, fmt.Errorf("-run %d and -case %d: want one of them", draw, one)
	case one != 0:
		chosen, err = single(catalogue, one)
	default:
		for seed == 0 {
			seed = rand.Uint64()
		}
		fmt.Fprintf(out, "seed %d (repeat with -seed)\n", seed)
		chosen, err = lot(catalogue, draw, seed)
	}
	if err != nil {
		return false, err
	}
	r, err := testbin.New(ctx)
	if err != nil {
		return false, err
	}
	defer r.Close()
	return show(ctx, r.Run, chosen, out, progress)
}

// single is the case of a number.
func single(all []fieldCase, number int) ([]fieldCase, error) {
	at := slices.IndexFunc(all, func(c fieldCase) bool { return c.number == number })
	switch {
	case at < 0:
		return nil, fmt.Errorf("case %d: want 1 to %d", number, len(all))
	case len(all[at].shows) == 0:
		return nil, fmt.Errorf("case %d, %s, has no tests: %s", number, all[at].name, all[at].open)
	}
	return all[at : at+1], nil
}

// lot draws so many of those that have tests, each once.
func lot(all []fieldCase, n int, seed uint64) ([]fieldCase, error) {
	all = slices.DeleteFunc(slices.Clone(all), func(c fieldCase) bool { return len(c.shows) == 0 })
	if n < 1 || n > len(all) {
		return nil, fmt.Errorf("-run %d: want 1 to %d, the cases that have tests", n, len(all))
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:n], nil
}

// list writes all of them with their tests.
func list(all []fieldCase, out io.Writer) {
	for _, c := range all {
		fmt.Fprintf(out, "C%d  %s\n", c.number, c.name)
		for _, s := range c.shows {
			for _, t := range s.tests {
				fmt.Fprintf(out, "      %s %s%s\n", s.pkg, t, s.build())
			}
		}
		if c.open != "" {
			fmt.Fprintf(out, "      not shown: %s\n", c.open)
		}
	}
}

// runner builds and runs some tests.
type runner func(context.Context, testbin.Tests) testbin.Result

// show runs the tests of each case, writes a table, and says whether all ran and passed.
func show(ctx context.Context, run runner, cases []fieldCase, out, progress io.Writer) (ok bool, err error) {
	ok = true
	began := time.Now()
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "case\ttest\ttime\tresult\n")
	shown := 0
	for _, c := range cases {
		fmt.Fprintf(progress, "C%d  %s\n", c.number, c.name)
		all := true
		for _, s := range c.shows {
			for _, part := range s.parts() {
				res := run(ctx, part.Tests)
				if ctx.Err() != nil {
					return false, ctx.Err()
				}
				said := part.judge(res)
				for i, t := range part.names {
					took := ""
					if i == 0 { // of all that ran together
						took = fmt.Sprintf("%.1f s", res.Took.Seconds())
					}
					fmt.Fprintf(table, "C%d\t%s %s%s\t%s\t%s\n", c.number, s.pkg, t, s.build(), took, said[i])
					fmt.Fprintf(progress, "%7.1fs  %s %s: %s\n", res.Took.Seconds(), s.pkg, t, said[i])
					all = all && said[i] == ran
				}
				if res.Verdict != testbin.Passed {
					fmt.Fprintf(progress, "          %s\n", res.Why)
				}
			}
		}
		if all {
			shown++
		}
		ok = ok && all
	}
	if err := table.Flush(); err != nil {
		return false, err
	}
	fmt.Fprintf(out, "\n%d of %d cases shown, in %s.\n", shown, len(cases), time.Since(began).Round(time.Second))
	return ok, nil
}

// What is said of a test.
const (
	ran    = "passed"
	silent = "did not run"
)

// part is tests of one package that run together: those below one test.
type part struct {
	testbin.Tests
	names []string
}

// parts are the tests of s, those right below the same test together: what they share is started once.
func (s shows) parts() (all []part) {
	for _, name := range s.tests {
		above := strings.LastIndexByte(name, '/') + 1
		at := slices.IndexFunc(all, func(p part) bool {
			return above > 0 && strings.LastIndexByte(p.names[0], '/')+1 == above && p.names[0][:above] == name[:above]
		})
		if at < 0 {
			all = append(all, part{Tests: testbin.Tests{Pkg: s.pkg, Tags: s.tags, Race: s.race, Most: most}})
			at = len(all) - 1
		}
		all[at].names = append(all[at].names, name)
	}
	for i := range all {
		all[i].Run = pattern(all[i].names)
	}
	return all
}

// judge says of each test whether it ran and passed.
func (p part) judge(r testbin.Result) (said []string) {
	for _, name := range p.names {
		switch {
		case r.Verdict != testbin.Passed:
			said = append(said, r.String())
		case slices.Contains(r.Did, underscored(name)):
			said = append(said, ran)
		default:
			said = append(said, silent)
		}
	}
	return said
}
