package testbin

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// Verdict is what running some tests came to.
type Verdict uint8

// Verdicts.
const (
	Passed  Verdict = iota + 1 // a test ran, and all that ran passed
	Failed                     // a test ran and failed
	NoBuild                    // the test binary could not be built
	NoTest                     // none of the tests ran, or all were skipped
	TooLate                    // the time was up
	Broken                     // the process ended otherwise before a test had failed
)

func (v Verdict) String() string {
	return [...]string{"", "passed", "failed", "does not build", "ran no test", "took too long", "ended before a test had failed"}[v]
}

// Result is a verdict with how it came about.
type Result struct {
	Verdict
	Took time.Duration // of the tests, without the build
	Why  string        // the first failed test with what it said, or the end of what there was to read
	Did  []string      // the tests that ran and passed, below one another with slashes, as the binary names them
}

var (
	ended    = regexp.MustCompile(`(?m)^( *)--- (PASS|FAIL|SKIP): (\S+)`)
	started  = regexp.MustCompile(`(?m)^=== RUN `)
	panicked = regexp.MustCompile(`(?m)^(panic|fatal error): `)
	late     = regexp.MustCompile(`(?m)^panic: test timed out after `)
	saidBy   = regexp.MustCompile(`^\S+_test\.go:\d+: `) // begins what a test says: file and line
)

// judge reads what a test binary has said with -test.v. depth is how deep below a top-level test those are that it was run for: where
// none of them ran, their parents say nothing.
func judge(out []byte, err error, depth int) (r Result) {
	passes, fails := 0, 0
	for _, m := range ended.FindAllSubmatch(out, -1) {
		deep := len(m[1])/4 >= depth
		switch string(m[2]) {
		case "PASS":
			r.Did = append(r.Did, string(m[3]))
			if deep {
				passes++
			}
		case "FAIL":
			if deep {
				fails++
			}
		}
	}
	var exit *exec.ExitError
	r.Why = last(out, err)
	switch {
	case late.Match(out), errors.Is(err, context.DeadlineExceeded):
		r.Verdict = TooLate
	case err == nil && passes > 0:
		r.Verdict, r.Why = Passed, ""
	case err == nil:
		r.Verdict = NoTest
	case !errors.As(err, &exit):
		r.Verdict = Broken
	case fails > 0, started.Match(out) && panicked.Match(out): // in the midst of a test
		r.Verdict, r.Why = Failed, first(out)
	default:
		r.Verdict = Broken
	}
	return r
}

// first is the first thing that a failed test said.
func first(out []byte) string {
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if saidBy.MatchString(line) || panicked.MatchString(line) {
			return line
		}
	}
	return last(out, nil)
}

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
