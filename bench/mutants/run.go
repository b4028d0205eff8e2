package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// verdict is what running a slice came to.
type verdict uint8

const (
	passed  verdict = iota + 1 // a test ran, and all that ran passed
	failed                     // a test ran and failed: with a bug that is a catch
	noBuild                    // the test binary could not be built
	noTest                     // no test of the slice ran, or all were skipped
	tooLate                    // the time was up
	broken                     // the process ended otherwise before a test had failed
)

func (v verdict) String() string {
	return [...]string{"", "passed", "failed", "does not build", "ran no test", "took too long", "ended before a test had failed"}[v]
}

// result is a verdict with how it came about.
type result struct {
	verdict
	took time.Duration // of the tests, without the build
	why  string        // the first failed test with what it said, or the end of what there was to read
}

// runner builds and runs slices. The binaries of one bug are kept until the next one's turn.
type runner struct {
	root string // of the module
	dir  string // of the binaries, some 20 MB each
	tag  string // what those that are there were built with
	have []string
}

func newRunner(ctx context.Context) (*runner, error) {
	root, err := module(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "quorate-mutants-")
	return &runner{root: root, dir: dir}, err
}

func (r *runner) close() { _ = os.RemoveAll(r.dir) }

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

// buildMost bounds a build: a bug low down has everything above it built anew.
const buildMost = 5 * time.Minute

// tagOf is the build tag of a bug, "" of none (0).
func tagOf(number int) string {
	if number == 0 {
		return ""
	}
	return fmt.Sprintf("mutant_%02d", number)
}

// try is a trier.
func (r *runner) try(ctx context.Context, number int, s slice) result {
	bin, out, err := r.build(ctx, tagOf(number), s.pkg)
	if err != nil {
		return result{verdict: noBuild, why: last(out, err)}
	}
	args := append([]string{"-test.v", "-test.count=1", "-test.run=" + s.run, "-test.timeout=" + s.most.String()}, s.args...)
	began := time.Now()
	// What a test binary does before its tests is not under its own time-out.
	out, err = command(ctx, filepath.Join(r.root, s.pkg), s.most+buildMost, bin, args...)
	res := judge(out, err, strings.Count(s.run, "/"))
	res.took = time.Since(began)
	return res
}

func (r *runner) build(ctx context.Context, tag, pkg string) (bin string, out []byte, err error) {
	if tag != r.tag {
		for _, old := range r.have {
			_ = os.Remove(old)
		}
		r.tag, r.have = tag, nil
	}
	bin = filepath.Join(r.dir, strings.ReplaceAll(pkg, "/", "_")+tag+".test")
	if slices.Contains(r.have, bin) {
		return bin, nil, nil
	}
	if out, err = command(ctx, r.root, buildMost, "go", "test", "-c", "-tags", tag, "-o", bin, "./"+pkg); err == nil {
		r.have = append(r.have, bin)
	}
	return bin, out, err
}

// command runs a program with a group of its own, which is killed when the time is up.
func command(ctx context.Context, dir string, most time.Duration, name string, args ...string) ([]byte, error) {
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

var (
	ended    = regexp.MustCompile(`(?m)^( *)--- (PASS|FAIL|SKIP): (\S+)`)
	started  = regexp.MustCompile(`(?m)^=== RUN `)
	panicked = regexp.MustCompile(`(?m)^(panic|fatal error): `)
	late     = regexp.MustCompile(`(?m)^panic: test timed out after `)
)

// judge reads what a test binary has said with -test.v. depth is how deep below a top-level test those are that the slice is
// about: where none of them ran, their parents say nothing.
func judge(out []byte, err error, depth int) result {
	passes, fails := 0, 0
	for _, m := range ended.FindAllSubmatch(out, -1) {
		switch deep := len(m[1])/4 >= depth; {
		case deep && string(m[2]) == "PASS":
			passes++
		case deep && string(m[2]) == "FAIL":
			fails++
		}
	}
	var exit *exec.ExitError
	why := last(out, err)
	switch {
	case late.Match(out), errors.Is(err, context.DeadlineExceeded):
		return result{verdict: tooLate, why: why}
	case err == nil && passes > 0:
		return result{verdict: passed}
	case err == nil:
		return result{verdict: noTest, why: why}
	case !errors.As(err, &exit):
		return result{verdict: broken, why: why}
	case fails > 0:
		return result{verdict: failed, why: first(out)}
	case started.Match(out) && panicked.Match(out): // in the midst of a test
		return result{verdict: failed, why: first(out)}
	default:
		return result{verdict: broken, why: why}
	}
}

// first is the first thing that a failed test said.
func first(out []byte) string {
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if at := saidBy.FindStringIndex(line); at != nil && at[0] == 0 || panicked.MatchString(line) {
			return line
		}
	}
	return last(out, nil)
}

// saidBy begins what a test says: file and line.
var saidBy = regexp.MustCompile(`^\S+_test\.go:\d+: `)

// last is the end of what there was to read.
func last(out []byte, err error) string {
	const most = 600
	out = bytes.TrimSpace(out)
	text := string(out[max(0, len(out)-most):])
	if err != nil {
		text += "\n" + err.Error()
	}
	return strings.TrimSpace(text)
}
