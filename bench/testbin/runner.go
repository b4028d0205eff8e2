package testbin

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Tests are some tests of one package.
type Tests struct {
	Pkg  string        // its folder below the module, with slashes
	Tags string        // build tags, with commas between them; "": none
	Race bool          // with the race detector
	Run  string        // as -test.run: one pattern for each depth, between slashes
	Args []string      // further flags of the test binary
	Most time.Duration // that the tests may take
}

// buildMost bounds a build: a change low down has everything above it built anew. What a test binary does before its tests, which may be
// a build too, is not under its own time-out.
const buildMost = 5 * time.Minute

// Runner builds and runs test binaries of one module. It keeps those that it has built, some 20 MB each, until Drop or Close. It is
// for one goroutine.
type Runner struct {
	root string // of the module
	dir  string // of the binaries
	have []string
}

// New is a runner for the module that the working directory is in, with a directory for its binaries that Close removes.
func New(ctx context.Context) (*Runner, error) {
	root, err := module(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "quorate-tests-")
	return In(root, dir), err
}

// In is a runner for the module at root that puts its binaries into dir, which belongs to it from then on.
func In(root, dir string) *Runner { return &Runner{root: root, dir: dir} }

// Close removes the binaries and their directory.
func (r *Runner) Close() { _ = os.RemoveAll(r.dir) }

// Drop removes the binaries that there are.
func (r *Runner) Drop() {
	for _, old := range r.have {
		_ = os.Remove(old)
	}
	r.have = nil
}

// module is the folder of the module that the working directory is in.
func module(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	mod := strings.TrimSpace(string(out))
	if mod == "" || mod == os.DevNull {
		return "", fmt.Errorf("find the module: the working directory is in none, want the repository")
	}
	return filepath.Dir(mod), nil
}

// Run builds the package's test binary, where it is not there yet, and runs the tests. Where ctx ends first the verdict is Broken.
func (r *Runner) Run(ctx context.Context, t Tests) Result {
	bin, out, err := r.Build(ctx, t)
	if err != nil {
		return Result{Verdict: NoBuild, Why: last(out, err)}
	}
	args := append([]string{"-test.v", "-test.count=1", "-test.run=" + t.Run, "-test.timeout=" + t.Most.String()}, t.Args...)
	began := time.Now()
	out, err = Command(ctx, filepath.Join(r.root, t.Pkg), t.Most+buildMost, bin, args...)
	res := judge(out, err, strings.Count(t.Run, "/"))
	res.Took = time.Since(began)
	return res
}

// Build is the path of the package's test binary, which it builds where it is not there yet; out is what the build said.
func (r *Runner) Build(ctx context.Context, t Tests) (bin string, out []byte, err error) {
	name := strings.ReplaceAll(t.Pkg, "/", "_") + strings.ReplaceAll(t.Tags, ",", "_")
	args := []string{"test", "-c", "-tags", t.Tags}
	if t.Race {
		name, args = name+"_race", append(args, "-race")
	}
	bin = filepath.Join(r.dir, name+".test")
	if slices.Contains(r.have, bin) {
		return bin, nil, nil
	}
	if out, err = Command(ctx, r.root, buildMost, "go", append(args, "-o", bin, "./"+t.Pkg)...); err == nil {
		r.have = append(r.have, bin)
	}
	return bin, out, err
}

// Command runs a program in a folder, with a process group of its own that is killed when the time is up or ctx ends, and returns all
// that it wrote. The error is then that of the context.
func Command(ctx context.Context, dir string, most time.Duration, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if cause := ctx.Err(); cause != nil {
		err = cause
	}
	return out.Bytes(), err
}
