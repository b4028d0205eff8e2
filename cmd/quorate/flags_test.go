package main

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A command line for each command that has flags for numbers and durations, good but for the flag that is tried.
var goodLines = map[string]string{
	"batch add": "BATCH q x", "batch create": "cb", "bench": "W3",
	"dlq delete": "q --all --dry-run", "dlq list": "q", "dlq requeue": "q --all --dry-run",
	"enqueue": "q x", "extend": "TOKEN", "kv list": "", "kv watch": "", "lease": "q", "nack": "TOKEN",
	"queue create": "fresh", "queue peek": "q", "queue set": "q", "result list": "q", "result stream": "q", "result wait": "BATCH",
	"schedule create": "s --queue q --cron @daily", "schedule set": "there --queue q --cron @daily",
	"task replace": "BATCH x", "task reschedule": "BATCH", "work": "q -- cat",
}

// editLine is that of "dlq requeue" where a flag edits one dead letter.
const editLine = "q BATCH"

// takes are the values that look out of range and are not, by command and flag.
var takes = map[string][]string{
	"kv watch --from":       {"-1"},       // from now on
	"result wait --timeout": {"8784h1ms"}, // the client asks again and again
	"work --timeout":        {"8784h1ms"}, // the command's, not the message's
}

// tooMuch are the lowest values above the ranges of flags, and the highest below where that is not a negative number.
var tooMuch = map[string][]string{
	"lease": {"99ms", "12h1ms"}, "delay": {"8784h1ms"}, "ttl": {"8784h1ms"}, "timeout": {"8784h1ms"}, "max-age": {"8784h1ms"},
	"dead-letter-retention": {"999ms", "87840h1ms"}, "dedup-window": {"999ms", "8784h1ms"}, "result-ttl": {"999ms", "8784h1ms"},
	"max-dead": {"10000001"}, "dedup-max-keys": {"10000001"}, "max-results-bytes": {"1099511627777"}, "max-depth": {"100000001"},
	"max-bytes": {"1099511627777"}, "max-in-flight": {"10000001"}, "priority": {"10"}, "jitter": {"24h1ms"}, "max-wait": {"8784h1ms"},
	"concurrency": {"0", "1001"}, "push-concurrency": {"257"}, "push-timeout": {"99ms", "10m1ms"}, "burst": {"1000001"}, "rate": {"1000001"},
}

// TestFlagsOutOfRange tries every flag for a number or a duration of every command: something else, a negative number, more than
// can be read, and what lies just outside its range. Each is refused, with the flag's name and what would be right.
func TestFlagsOutOfRange(t *testing.T) {
	t.Parallel()
	addr := devNode(t)
	must(t, addr, "", "queue", "create", "q")
	batch := strings.TrimSpace(must(t, addr, "", "batch", "create", "cb"))
	must(t, addr, "", "schedule", "create", "there", "--queue", "q", "--cron", "@daily")
	token := strings.Repeat("0", 52)
	tried := 0
	var walk func(cmd *cobra.Command, path string)
	walk = func(cmd *cobra.Command, path string) {
		for _, sub := range cmd.Commands() {
			walk(sub, strings.TrimSpace(path+" "+sub.Name()))
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			typ := f.Value.Type()
			if f.Name == "help" || slices.Contains([]string{"string", "stringArray", "stringSlice", "bool"}, typ) || f.Hidden {
				return
			}
			line, ok := goodLines[path]
			if !ok {
				t.Errorf("no command line to try %s --%s with", path, f.Name)
				return
			}
			if path == "dlq requeue" && !slices.Contains([]string{"rate", "max"}, f.Name) {
				line = editLine
			}
			values := []string{"zig", "-1", "99999999999999999999"}
			if typ == "duration" {
				values = []string{"zig", "-1", "-1s", "99999999999999999999", "9000000h", "1ns"}
			}
			for _, v := range append(values, tooMuch[f.Name]...) {
				name := path + " --" + f.Name
				if slices.Contains(takes[name], v) {
					continue
				}
				if path == "bench" && slices.Contains([]string{"lead", "count", "due-rate", "capacity", "keys", "stuck", "rounds", "rate", "window", "preload"}, f.Name) && v != "zig" {
					continue // of other workloads: bench/load judges them, and says so by name
				}
				args := append(strings.Fields(path), "--"+f.Name+"="+v, "--addr", addr)
				for _, word := range strings.Fields(line) {
					args = append(args, map[string]string{"BATCH": batch, "TOKEN": token}[word]+map[bool]string{true: "", false: word}[word == "BATCH" || word == "TOKEN"])
				}
				var out, errs bytes.Buffer
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // one that is taken may run for ever
				code := execute(ctx, args, strings.NewReader("x"), &out, &errs)
				cancel()
				want := "--" + f.Name
				if path == "bench" {
					want = f.Name
				}
				if code == exitDone || !strings.Contains(errs.String(), want) {
					t.Errorf("quorate %s: exit %d, %q; want a refusal that names %s", strings.Join(args, " "), code, errs.String(), want)
				}
				if out.Len() > 0 {
					t.Errorf("quorate %s: standard output is not empty: %q", strings.Join(args, " "), out.String())
				}
				tried++
			}
		})
	}
	walk(newRoot(strings.NewReader(""), new(bytes.Buffer), new(bytes.Buffer)), "")
	t.Logf("%d values", tried)
	if out := must(t, addr, "", "queue", "list", "-o", "json"); strings.Contains(out, `"fresh"`) {
		t.Error("a queue was made by a command that was refused")
	}
}
