package main

import (
	"bytes"
	"context"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/testbin"
)

// root is the module, as seen from this package.
const root = "../.."

// sources are the tests of a package and all the texts in them, which is what subtests are named by.
type sources struct {
	tests map[string]bool
	texts map[string]bool
}

// read looks at a package's test files under its build tags.
func read(t *testing.T, s shows) sources {
	t.Helper()
	ctx := build.Default
	if s.tags != "" {
		ctx.BuildTags = strings.Split(s.tags, ",")
	}
	dir := filepath.Join(root, s.pkg)
	pkg, err := ctx.ImportDir(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	out := sources{map[string]bool{}, map[string]bool{}}
	for _, name := range append(pkg.TestGoFiles, pkg.XTestGoFiles...) {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv == nil && strings.HasPrefix(n.Name.Name, "Test") {
					out.tests[n.Name.Name] = true
				}
			case *ast.BasicLit:
				if n.Kind == token.STRING {
					text, err := strconv.Unquote(n.Value)
					if err != nil {
						t.Fatal(err)
					}
					out.texts[text] = true
				}
			}
			return true
		})
	}
	return out
}

// TestCatalogue: each number is there once, in order; every test that is named exists; and what has no test, or not of all of it, says why.
func TestCatalogue(t *testing.T) {
	t.Parallel()
	if len(catalogue) != 66 {
		t.Errorf("%d cases, want 66", len(catalogue))
	}
	have := map[string]sources{}
	names := map[string]bool{}
	for i, c := range catalogue {
		if c.number != i+1 {
			t.Errorf("case %d stands where %d should", c.number, i+1)
		}
		if len(c.name) < 10 || names[c.name] {
			t.Errorf("case %d: name %q, want one of its own", c.number, c.name)
		}
		names[c.name] = true
		if len(c.shows) == 0 && c.open == "" {
			t.Errorf("case %d has neither tests nor a reason", c.number)
		}
		for _, s := range c.shows {
			key := s.pkg + " " + s.tags
			if _, ok := have[key]; !ok {
				have[key] = read(t, s)
			}
			if len(s.tests) == 0 {
				t.Errorf("case %d: no test of %s", c.number, s.pkg)
			}
			for _, name := range s.tests {
				for depth, part := range strings.Split(name, "/") {
					if depth == 0 && !have[key].tests[part] || depth > 0 && !have[key].texts[part] {
						t.Errorf("case %d: package %s has no test %s: %q is none of its names", c.number, s.pkg, name, part)
					}
				}
			}
		}
	}
}

// TestLot: a seed draws the same cases each time, each once, and none without tests.
func TestLot(t *testing.T) {
	t.Parallel()
	all := []fieldCase{{number: 1, shows: []shows{in("a", "TestA")}}, {number: 2, open: "why"}, {number: 3, shows: []shows{in("a", "TestB")}}, {number: 4, shows: []shows{in("a", "TestC")}}}
	numbers := func(cs []fieldCase) (out []int) {
		for _, c := range cs {
			out = append(out, c.number)
		}
		return out
	}
	orders := map[string]bool{}
	for seed := range uint64(50) {
		got, err := lot(all, 3, seed+1)
		again, err2 := lot(all, 3, seed+1)
		if err != nil || err2 != nil || !slices.Equal(numbers(got), numbers(again)) {
			t.Fatalf("seed %d draws %v and %v (%v, %v)", seed+1, numbers(got), numbers(again), err, err2)
		}
		orders[fmt.Sprint(numbers(got))] = true
		sorted := numbers(got)
		slices.Sort(sorted)
		if !slices.Equal(sorted, []int{1, 3, 4}) {
			t.Errorf("seed %d draws %v, want 1, 3 and 4 in some order", seed+1, numbers(got))
		}
	}
	if len(orders) != 6 {
		t.Errorf("50 seeds draw %d orders of three, want all 6", len(orders))
	}
	for _, n := range []int{0, -1, 4} {
		if _, err := lot(all, n, 1); err == nil || !strings.Contains(err.Error(), "want 1 to 3") {
			t.Errorf("a lot of %d: %v", n, err)
		}
	}
}

// TestChoose: what is asked for wrongly is refused with what would be right; the list has every case.
func TestChoose(t *testing.T) {
	t.Parallel()
	all := []fieldCase{{number: 1, name: "one", open: "it waits"}}
	for number, want := range map[int]string{0: "want 1 to 1", 2: "want 1 to 1", 1: "has no tests: it waits"} {
		if _, err := single(all, number); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("case %d: %v, want %q", number, err, want)
		}
	}
	var out, progress bytes.Buffer
	for _, args := range [][]string{{"-run", "3", "-case", "4"}, {"-case", "67"}, {"-run", "67"}, {"-no"}} {
		if code := run(args, &out, &progress); code != 2 {
			t.Errorf("%v ends with %d, want 2", args, code)
		}
	}
	out.Reset()
	if code := run(nil, &out, &progress); code != 0 {
		t.Errorf("the list ends with %d", code)
	}
	for _, c := range catalogue {
		if !strings.Contains(out.String(), fmt.Sprintf("C%d  %s\n", c.number, c.name)) {
			t.Errorf("the list has no case %d", c.number)
		}
	}
}

// TestNotFooled: a case is shown when every test of it ran and passed, and by nothing else.
func TestNotFooled(t *testing.T) {
	t.Parallel()
	c := fieldCase{number: 7, name: "seven", shows: []shows{in("a", "TestOne", "TestTwo/first sub", "TestTwo/second")}}
	whole := map[string]testbin.Result{
		"^(TestOne)$":                      {Verdict: testbin.Passed, Did: []string{"TestOne"}},
		"^(TestTwo)$/^(first_sub|second)$": {Verdict: testbin.Passed, Did: []string{"TestTwo/first_sub", "TestTwo/second", "TestTwo"}},
	}
	for _, tc := range []struct {
		name   string
		change func(map[string]testbin.Result)
		ok     bool
		says   []string
	}{
		{"all ran", func(map[string]testbin.Result) {}, true, []string{"C7    a TestOne", "1 of 1 cases shown"}},
		{"one failed", func(m map[string]testbin.Result) { m["^(TestOne)$"] = testbin.Result{Verdict: testbin.Failed} }, false, []string{"failed", "0 of 1"}},
		{"one was skipped beside others", func(m map[string]testbin.Result) {
			for k, r := range m {
				m[k] = testbin.Result{Verdict: r.Verdict, Did: slices.DeleteFunc(slices.Clone(r.Did), func(n string) bool { return n == "TestTwo/first_sub" })}
			}
		}, false, []string{"did not run", "0 of 1"}},
		{"nothing ran", func(m map[string]testbin.Result) { m["^(TestOne)$"] = testbin.Result{Verdict: testbin.NoTest} }, false, []string{"ran no test", "0 of 1"}},
		{"it does not build", func(m map[string]testbin.Result) { m["^(TestOne)$"] = testbin.Result{Verdict: testbin.NoBuild} }, false, []string{"does not build"}},
		{"it took too long", func(m map[string]testbin.Result) { m["^(TestOne)$"] = testbin.Result{Verdict: testbin.TooLate} }, false, []string{"took too long"}},
		{"it ended early", func(m map[string]testbin.Result) { m["^(TestOne)$"] = testbin.Result{Verdict: testbin.Broken} }, false, []string{"ended before"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			results := map[string]testbin.Result{}
			for k, v := range whole {
				results[k] = v
			}
			tc.change(results)
			var out, progress bytes.Buffer
			asked := 0
			ok, err := show(t.Context(), func(_ context.Context, ts testbin.Tests) testbin.Result {
				asked++
				res, known := results[ts.Run]
				if !known || ts.Pkg != "a" || ts.Most <= 0 {
					t.Errorf("asked for %+v", ts)
				}
				return res
			}, []fieldCase{c}, &out, &progress)
			if err != nil || ok != tc.ok || asked != 2 {
				t.Errorf("%v, %v after %d runs, want %v after 2", ok, err, asked, tc.ok)
			}
			for _, s := range tc.says {
				if !strings.Contains(out.String(), s) {
					t.Errorf("the table does not say %q:\n%s", s, out.String())
				}
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if ok, err := show(ctx, func(context.Context, testbin.Tests) testbin.Result { return testbin.Result{} }, []fieldCase{c}, &bytes.Buffer{}, &bytes.Buffer{}); ok || err == nil {
		t.Errorf("interrupted: %v, %v", ok, err)
	}
}

// TestPattern: the names of the list select the tests that they name, whatever is in them, in a real test binary.
func TestPattern(t *testing.T) {
	t.Parallel()
	r := testbin.In(root, t.TempDir())
	s := shows{pkg: "bench/cases", tests: []string{"TestPatternNames/a name, with (all) of it: it's [here]", "TestPatternNames/not there"}}
	p := s.parts()[0]
	p.Most = time.Minute
	res := r.Run(t.Context(), p.Tests)
	if said := p.judge(res); !slices.Equal(said, []string{ran, silent}) || len(res.Did) != 2 {
		t.Errorf("%v, %+v; want the first to have run, and not the second", said, res)
	}
}

// TestPatternNames is what TestPattern runs.
func TestPatternNames(t *testing.T) {
	t.Run("a name, with (all) of it: it's [here]", func(*testing.T) {})
	t.Run("not asked for", func(*testing.T) {})
}
