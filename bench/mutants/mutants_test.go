package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/testbin"
)

// root is the module, as seen from this package.
const root = "../.."

// planted reads the bugs' constants, in their order.
func planted(t *testing.T) (names []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "fsm/mutant/mutant.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		is := spec.Values[0].(*ast.BinaryExpr).Y.(*ast.BasicLit).Value
		names = append(names, spec.Names[0].Name)
		if is != fmt.Sprint(len(names)) {
			t.Errorf("%s has number %s, want %d", spec.Names[0].Name, is, len(names))
		}
		return false
	})
	return names
}

// TestCatalogue: every bug that can be built is in the catalogue and planted where that says, every slice has a test, and every bug
// has two layers or a reason.
func TestCatalogue(t *testing.T) {
	t.Parallel()
	names := planted(t)
	if len(names) != len(catalogue) {
		t.Fatalf("%d bugs can be built, the catalogue has %d", len(names), len(catalogue))
	}
	where := uses(t)
	for i, m := range catalogue {
		if m.number != i+1 || m.name != names[i] {
			t.Errorf("the catalogue has %d %s, want %d %s", m.number, m.name, i+1, names[i])
		}
		if got := where[m.name]; len(got) == 0 || len(slices.Compact(got)) > 1 || got[0] != m.pkg {
			t.Errorf("%s is planted in %v, the catalogue says %s", m.name, got, m.pkg)
		}
		if !regexp.MustCompile(`^G\d+( G\d+)*$`).MatchString(m.breaks) {
			t.Errorf("%s breaks %q, want guarantees", m.name, m.breaks)
		}
		have := map[string]bool{}
		for _, s := range m.slices {
			have[s.layer] = true
			if !slices.Contains(layers, s.layer) || s.most <= 0 || s.most > 3*time.Minute {
				t.Errorf("%s: %+v: want a layer of %v, and 3 minutes at most", m.name, s, layers)
			}
			top, _, _ := strings.Cut(s.run, "/")
			if re := regexp.MustCompile(top); !slices.ContainsFunc(tests(t, s.pkg), re.MatchString) {
				t.Errorf("%s: package %s has no test %s", m.name, s.pkg, top)
			}
		}
		if (m.alone == "") != (len(have) > 1) {
			t.Errorf("%s is in %d layers, and the reason for having but one is %q", m.name, len(have), m.alone)
		}
	}
}

// uses says in which packages each bug is planted, for each time.
func uses(t *testing.T) map[string][]string {
	t.Helper()
	where := map[string][]string{}
	use := regexp.MustCompile(`\bmutant\.([A-Z]\w+)`)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || d.Name() == "mutants"):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(b, []byte(`quorate/fsm/mutant"`)) {
			return err
		}
		pkg, err := filepath.Rel(root, filepath.Dir(path))
		for _, m := range use.FindAllSubmatch(b, -1) {
			where[string(m[1])] = append(where[string(m[1])], filepath.ToSlash(pkg))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return where
}

// tests are the names of a package's tests.
func tests(t *testing.T, pkg string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(b, -1) {
			names = append(names, string(m[1]))
		}
	}
	return names
}

// TestTags: each tag has its bug alone, no tag none, and two tags cannot be built.
func TestTags(t *testing.T) {
	t.Parallel()
	text := func(name, constraint string, number int) {
		b, err := os.ReadFile(filepath.Join(root, "fsm/mutant", name+".go"))
		if want := fmt.Sprintf("//go:build %s\n\npackage mutant\n\nconst on = %d\n", constraint, number); err != nil || string(b) != want {
			t.Errorf("%s.go is %q, %v; want %q", name, b, err, want)
		}
	}
	var all []string
	for _, m := range catalogue {
		all = append(all, tagOf(m.number))
		text(tagOf(m.number), tagOf(m.number), m.number)
	}
	text("none", "!("+strings.Join(all, " || ")+")", 0)
	for tags, want := range map[string]bool{"": true, all[0]: true, all[0] + "," + all[1]: false} {
		out, err := testbin.Command(t.Context(), root, 5*time.Minute, "go", "vet", "-tags", tags, "./fsm/mutant")
		if (err == nil) != want {
			t.Errorf("go vet -tags %q: %v, want it to pass: %v\n%s", tags, err, want, out)
		}
	}
}

// TestQuick: three of the bugs are caught here too; and a binary has nothing of the bugs' package but with a bug that needs some of it.
func TestQuick(t *testing.T) {
	t.Parallel()
	r := &planter{Runner: testbin.In(root, t.TempDir())}
	var all []mutant
	for _, n := range quick {
		m := catalogue[n-1]
		m.slices = slices.DeleteFunc(slices.Clone(m.slices), func(s slice) bool { return s.layer != unit })
		all = append(all, m)
	}
	looked := 0
	try := func(ctx context.Context, number int, s slice) testbin.Result {
		res := r.try(ctx, number, s)
		bin, _, err := r.Build(ctx, testsOf(number, s))
		if err != nil {
			t.Fatal(err)
		}
		symbols, err := testbin.Command(ctx, root, time.Minute, "go", "tool", "nm", bin)
		if err != nil {
			t.Fatalf("%v\n%s", err, symbols)
		}
		looked++
		if got, want := bytes.Contains(symbols, []byte("quorate/fsm/mutant.")), number == 8; got != want {
			t.Errorf("bug %d: the binary has something of the bugs' package: %v, want %v", number, got, want)
		}
		return res
	}
	var said bytes.Buffer
	if ok, err := campaign(t.Context(), try, all, &said, &said); err != nil || !ok || looked != 2*len(quick) {
		t.Errorf("%v, %v after %d slices, want %d:\n%s", ok, err, looked, 2*len(quick), said.String())
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		number int
		layer  string
		want   int
		fails  string
	}{
		{0, "", len(catalogue), ""},
		{7, "", 1, ""},
		{1, disk, 1, ""},
		{1, model, 0, "nothing of that"},
		{25, "", 0, "nothing of that"},
		{12, disk + "," + nodes, 1, ""},
		{0, disk + ",units", 0, `layer "units": want model`},
	} {
		ms, err := choose(catalogue, c.number, c.layer)
		if len(ms) != c.want || (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("mutant %d, layer %q: %d, %v; want %d, %q", c.number, c.layer, len(ms), err, c.want, c.fails)
		}
		for _, m := range ms {
			for _, s := range m.slices {
				if c.layer != "" && !strings.Contains(c.layer, s.layer) {
					t.Errorf("layer %q: there is a slice of %q", c.layer, s.layer)
				}
			}
		}
	}
}

// TestNotFooled: of all ways in which a slice can end only one is a catch, and whatever is not as it should be fails the campaign.
func TestNotFooled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":            "module example.com/fooled\n\ngo 1.25\n",
		"a/none.go":         "//go:build !(mutant_01 || mutant_02)\n\npackage a\n\nconst bug = false\n",
		"a/mutant_01.go":    "//go:build mutant_01\n\npackage a\n\nconst bug = true\n",
		"a/mutant_02.go":    "//go:build mutant_02\n\npackage a\n\nconst bug = nonsense\n",
		"a/a_test.go":       fooled,
		"ends/ends.go":      "package ends\n",
		"ends/ends_test.go": "package ends\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestMain(*testing.M) { os.Exit(1) }\n\nfunc TestX(*testing.T) {}\n",
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	cases := []struct {
		name          string
		number        int
		pkg, run      string
		without, with testbin.Verdict
	}{
		{"a test fails", 1, "a", "^TestBug$", testbin.Passed, testbin.Failed},
		{"a subtest fails", 1, "a", "^TestSub$/^bug$", testbin.Passed, testbin.Failed},
		{"a test panics", 1, "a", "^TestPanic$", testbin.Passed, testbin.Failed},
		{"nobody sees it", 1, "a", "^TestFine$", testbin.Passed, testbin.Passed},
		{"another subtest than the one that fails", 1, "a", "^TestSub$/^fine$", testbin.Passed, testbin.Passed},
		{"no such test", 1, "a", "^TestNone$", testbin.NoTest, testbin.NoTest},
		{"no such subtest", 1, "a", "^TestSub$/^none$", testbin.NoTest, testbin.NoTest},
		{"what fails is not the subtest", 1, "a", "^TestParent$/^none$", testbin.NoTest, testbin.Broken},
		{"what fails is not the subtest that ran", 1, "a", "^TestParent$/^sub$", testbin.Passed, testbin.Broken},
		{"skipped", 1, "a", "^TestSkipped$", testbin.NoTest, testbin.NoTest},
		{"it hangs", 1, "a", "^TestHang$", testbin.Passed, testbin.TooLate},
		{"it exits", 1, "a", "^TestExit$", testbin.Passed, testbin.Broken},
		{"it fails without a bug", 1, "a", "^TestAlways$", testbin.Failed, testbin.Failed},
		{"it ends before a test", 1, "ends", "^TestX$", testbin.Broken, testbin.Broken},
		{"it does not build", 2, "a", "^TestBug$", testbin.Passed, testbin.NoBuild},
	}
	// Each is tried once, so that few binaries are built.
	r := &planter{Runner: testbin.In(dir, t.TempDir())}
	tried := map[string]testbin.Result{}
	for _, without := range []bool{true, false} {
		for _, c := range cases {
			n := c.number
			if without {
				n = 0
			}
			tried[fmt.Sprint(n, c.pkg, c.run)] = r.try(t.Context(), n, slice{unit, c.pkg, c.run, nil, 10 * time.Second})
		}
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			was := map[int]testbin.Verdict{}
			try := func(_ context.Context, number int, s slice) testbin.Result {
				res := tried[fmt.Sprint(number, s.pkg, s.run)]
				was[number] = res.Verdict
				return res
			}
			var out, progress bytes.Buffer
			ok, err := campaign(t.Context(), try, []mutant{{number: c.number, name: "Bug", slices: []slice{{unit, c.pkg, c.run, nil, 0}}}}, &out, &progress)
			if want := c.without == testbin.Passed && c.with == testbin.Failed; err != nil || ok != want {
				t.Errorf("the campaign says %v, %v; want %v", ok, err, want)
			}
			if was[0] != c.without || was[c.number] != c.with {
				t.Errorf("%q without the bug and %q with it, want %q and %q\n%s", was[0], was[c.number], c.without, c.with, progress.String())
			}
			cell := "| NOT SHOWN, " + c.with.String()
			switch c.with {
			case testbin.Failed:
				cell = " s | "
			case testbin.Passed:
				cell = "| MISSED |"
			}
			if !strings.Contains(out.String(), cell) {
				t.Errorf("the table has no %q:\n%s", cell, out.String())
			}
		})
	}
}

// fooled are tests that end in all sorts of ways.
const fooled = `package a

import (
	"os"
	"testing"
)

func TestBug(t *testing.T) {
	if bug {
		t.Error("caught")
	}
}

func TestSub(t *testing.T) {
	t.Run("bug", TestBug)
	t.Run("fine", TestFine)
}

func TestPanic(t *testing.T) {
	if bug {
		panic("caught")
	}
}

func TestFine(*testing.T) {}

func TestParent(t *testing.T) {
	t.Run("sub", TestFine)
	if bug {
		t.Error("not what the slice is about")
	}
}

func TestSkipped(t *testing.T) { t.Skip() }

func TestHang(*testing.T) {
	if bug {
		select {}
	}
}

func TestExit(*testing.T) {
	if bug {
		os.Exit(3)
	}
}

func TestAlways(t *testing.T) { t.Error("always") }
`
