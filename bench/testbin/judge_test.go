package testbin

import (
	"os/exec"
	"testing"
)

// TestJudge: what the small module of bench/mutants' tests, which go through Run, cannot say.
func TestJudge(t *testing.T) {
	t.Parallel()
	exit := exec.Command("false").Run()
	for _, c := range []struct {
		name  string
		out   string
		err   error
		depth int
		want  Verdict
	}{
		{"a fatal error in the midst of a test", "=== RUN   TestX\nfatal error: concurrent map writes\n", exit, 0, Failed},
		{"a panic before any test", "panic: in an init\n", exit, 0, Broken},
		{"a test that timed out", "=== RUN   TestX\npanic: test timed out after 1s\n--- FAIL: TestX (1.00s)\n", exit, 0, TooLate},
		{"a failure that somebody else's output hides", "=== RUN   TestX\nlog--- FAIL: TestX (0.00s)\n", exit, 0, Broken},
		{"a failed subtest in a passing process", "    --- FAIL: TestX/y (0.00s)\n--- FAIL: TestX (0.00s)\n", nil, 1, NoTest},
		{"nothing at all", "", nil, 0, NoTest},
		{"a program that is not there", "", &exec.Error{Name: "x", Err: exec.ErrNotFound}, 0, Broken},
	} {
		if res := judge([]byte(c.out), c.err, c.depth); res.Verdict != c.want {
			t.Errorf("%s: %s, want %s", c.name, res.Verdict, c.want)
		}
	}
}
