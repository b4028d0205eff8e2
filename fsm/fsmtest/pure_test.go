//go:build !wasip1

package fsmtest

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// pure are the packages whose results depend on the log alone, from here.
var pure = []string{"..", "../table", "../arena", "../mutant"}

// What the settings of the linter cannot forbid: the state machine starts no goroutine, waits for nobody, walks no map, whose order differs
// from run to run, and knows nothing by its address.
func TestPure(t *testing.T) {
	t.Parallel()
	set := token.NewFileSet()
	imports := importer.ForCompiler(set, "gc", exported(t))
	for _, dir := range pure {
		found, err := impure(set, imports, dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			t.Error(f)
		}
	}
}

// exported opens what the compiler has left of the types of the packages that fsm is made of.
func exported(t *testing.T) func(path string) (io.ReadCloser, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}, pure...)...).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(files[path]) }
}

// Each kind of what is forbidden is found.
func TestImpureIsFound(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, code string }{
		{"goroutine", "func f() { go f() }"},
		{"select", "func f(c chan int) { select { case <-c: } }"},
		{"send", "func f(c chan int) { c <- 1 }"},
		{"receive", "func f(c chan int) int { return <-c }"},
		{"walked map", "func f(m map[int]int) (n int) { for range m { n++ }; return n }"},
		{"walked map of a named type", "type t map[int]int\nfunc f(m t) (n int) { for range m { n++ }; return n }"},
		{"map by address", "var m map[*int]bool"},
		{"map by an interface", "var m map[any]bool"},
		{"float", "var f = 0.5"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			set := token.NewFileSet()
			found, err := impure(set, nil, "", []byte("package p\n"+tc.code))
			if err != nil || len(found) != 1 {
				t.Errorf("found %q (%v), want one", found, err)
			}
		})
	}
}

// impure finds what a package of the state machine must not have, in the sources of a folder, or in one file.
func impure(set *token.FileSet, imports types.Importer, dir string, code []byte) (found []string, err error) {
	var files []*ast.File
	add := func(name string, src any) error {
		f, err := parser.ParseFile(set, name, src, parser.SkipObjectResolution)
		files = append(files, f)
		return err
	}
	if code != nil {
		if err := add("p.go", code); err != nil {
			return nil, err
		}
	} else {
		all, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, e := range all {
			name := e.Name()
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			built, err := build.Default.MatchFile(dir, name)
			if err == nil && built && strings.HasSuffix(name, ".go") {
				err = add(filepath.Join(dir, name), nil)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	conf := types.Config{Importer: imports}
	if _, err := conf.Check(dir, set, files, info); err != nil {
		return nil, err
	}
	say := func(at ast.Node, what string) {
		found = append(found, fmt.Sprintf("%s: %s", set.Position(at.Pos()), what))
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				say(n, "a goroutine is started")
			case *ast.SelectStmt:
				say(n, "something is waited for")
				return false
			case *ast.SendStmt:
				say(n, "something is sent")
			case *ast.UnaryExpr:
				if n.Op == token.ARROW {
					say(n, "something is received")
				}
			case *ast.RangeStmt:
				if m, ok := under(info, n.X).(*types.Map); ok {
					say(n, "a map is walked: "+m.String())
				}
			case *ast.MapType:
				switch k := under(info, n.Key).(type) {
				case *types.Pointer, *types.Interface, *types.Chan:
					say(n, "a map's keys are addresses: "+k.String())
				}
			case *ast.BasicLit:
				if n.Kind == token.FLOAT || n.Kind == token.IMAG {
					say(n, "floating point")
				}
			}
			return true
		})
	}
	return found, nil
}

func under(info *types.Info, x ast.Expr) types.Type {
	if t := info.TypeOf(x); t != nil {
		return t.Underlying()
	}
	return nil
}
