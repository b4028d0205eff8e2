package main

import (
	"strings"
	"testing"
)

// A wrong command line is told in words of this program, with what was perhaps meant.
func TestWrongWords(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		line string
		want string
	}{
		{"an argument too few", "enqueue", "QUEUE is missing; want quorate enqueue QUEUE [BODY] [flags]"},
		{"the second of two", "batch add X", "QUEUE is missing; want quorate batch add BATCH QUEUE"},
		{"a word too many", "enqueue q body more", `"more" is one word too many; want quorate enqueue QUEUE [BODY] [flags]`},
		{"a word where none belongs", "version x", `"x" is one word too many; want quorate version`},
		{"flags in the usage", "schedule create", "NAME is missing; want quorate schedule create NAME --queue QUEUE --cron EXPRESSION"},
		{"a flag that is near", "enqueue q x --prioritty 9", "unknown flag: --prioritty; did you mean --priority?"},
		{"a flag's beginning", "enqueue q x --prio 9", "unknown flag: --prio; did you mean --priority?"},
		{"a flag that is nowhere near", "enqueue q x --colour red", "unknown flag: --colour\n"},
		{"a flag with one dash", "enqueue q x -priority 9", "unknown flag: -priority; did you mean --priority?"},
		{"a letter", "enqueue q x -z", "unknown flag: -z\n"},
		{"a flag without its value", "enqueue q x --priority", "--priority needs a value: --priority int"},
		{"no number", "enqueue q x --priority high", `--priority: "high" is not a whole number`},
		{"no number of the kind", "result list q --after -1", `--after: "-1" is not a whole number, 0 or more`},
		{"no fraction", "bench fair --capacity much", `--capacity: "much" is not a number`},
		{"a number beyond all", "queue create q --max-depth 99999999999999999999", `--max-depth: "99999999999999999999" is out of range`},
		{"neither true nor false", "dlq requeue q --all=perhaps", `--all: "perhaps" is not true or false`},
		{"no duration", "lease q --wait soon", `--wait: "soon" is neither a duration`},
		{"a retry policy", "enqueue q x --retry often", `--retry "often": there is no colon`},
		{"no address", "queue list --addr nowhere", `--addr: "nowhere" is not host:port (such as 127.0.0.1:7340)`},
		{"one address of two", "queue list --addr 127.0.0.1:1,nowhere", `--addr: "nowhere" is not host:port`},
		{"a program that is not there", "work q -- no-such-program-here", `there is no program "no-such-program-here" in PATH`},
		{"a file that is not there", "work q -- ./no-such-program-here", `program "./no-such-program-here": stat ./no-such-program-here: no such file`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			args := strings.Fields(tc.line)
			if !strings.Contains(tc.line, "--addr") { // before what is tried, which may be the last word
				args = append([]string{"--addr", "127.0.0.1:1", "--call-timeout", "100ms"}, args...)
			}
			var out, errs strings.Builder
			code := execute(t.Context(), args, strings.NewReader(""), &out, &errs)
			if code != exitUsage || out.Len() > 0 || !strings.Contains(errs.String(), "quorate: "+tc.want) {
				t.Errorf("exit %d, %q, %q; want %q", code, out.String(), errs.String(), tc.want)
			}
		})
	}
}

func TestVersionFlag(t *testing.T) {
	t.Parallel()
	if flag, verb := must(t, "127.0.0.1:1", "", "--version"), must(t, "127.0.0.1:1", "", "version"); flag != verb {
		t.Errorf("--version says %q, version %q", flag, verb)
	}
}
