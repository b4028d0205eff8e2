package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// devNode runs `quorate dev` in this process until the test ends and returns its address.
func devNode(t *testing.T) string {
	t.Helper()
	addr := freePorts(t)[0]
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan int, 1)
	var out bytes.Buffer
	go func() {
		done <- execute(ctx, []string{"dev", "--client-addr", addr}, strings.NewReader(""), &out, &out)
	}()
	t.Cleanup(func() {
		stop()
		if code := <-done; code != 0 {
			t.Errorf("dev ended with %d: %s", code, out.String())
		}
	})
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		res, err := http.Get("http://" + addr + "/readyz")
		if err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return addr
			}
		}
		select {
		case <-tick.C:
		case code := <-done:
			done <- code
			t.Fatalf("dev ended with %d: %s", code, out.String())
		case <-deadline.C:
			t.Fatal("dev is not ready after 20 s")
		}
	}
}

// cliRun is one command line against addr.
func cliRun(t *testing.T, addr, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	code = execute(ctx, append(args, "--addr", addr), strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

// must runs a command that has to succeed and returns its output.
func must(t *testing.T, addr, stdin string, args ...string) string {
	t.Helper()
	code, out, errs := cliRun(t, addr, stdin, args...)
	if code != 0 {
		t.Fatalf("quorate %s: exit %d: %s", strings.Join(args, " "), code, errs)
	}
	return out
}

func decode[T any](t *testing.T, s string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatalf("%v in %q", err, s)
	}
	return v
}

// The three commands of the README.
func TestThereAndBack(t *testing.T) {
	t.Parallel()
	addr := devNode(t)
	id := strings.TrimSpace(must(t, addr, "", "enqueue", "greetings", "world"))
	// The command's arguments come after --, so the address goes before.
	var out, errs bytes.Buffer
	code := execute(t.Context(), []string{"work", "greetings", "--drain", "--addr", addr, "--", "sh", "-c", `echo "hello $(cat)"`}, strings.NewReader(""), &out, &errs)
	if code != 0 {
		t.Fatalf("work: exit %d: %s", code, errs.String())
	}
	if got := must(t, addr, "", "result", "wait", id); got != "hello world\n" {
		t.Fatalf("result is %q", got)
	}
	if got := must(t, addr, "", "result", "get", id); got != "hello world\n" {
		t.Fatalf("result is %q", got)
	}
}

func TestByHand(t *testing.T) {
	t.Parallel()
	addr := devNode(t)
	must(t, addr, "", "queue", "create", "jobs", "--lease", "30s", "--retry", "fixed:1h*2")
	must(t, addr, "", "queue", "create", "jobs", "--lease", "30s", "--retry", "fixed:1h*2")
	out := must(t, addr, "one\ntwo\n\x00odd\n", "enqueue", "jobs", "--lines", "-o", "json")
	if lines := strings.Split(strings.TrimSpace(out), "\n"); len(lines) != 3 {
		t.Fatalf("three lines in, %d ids out: %s", len(lines), out)
	}
	type leased struct {
		ID, Token   string
		Attempt     int
		LeaseLeftMS int64 `json:"lease_left_ms"`
		Body        []byte
	}
	ms := decode[[]leased](t, must(t, addr, "", "lease", "jobs", "--max", "3", "-o", "json"))
	if len(ms) != 3 || string(ms[0].Body) != "one" || string(ms[2].Body) != "\x00odd" || ms[0].Attempt != 1 || ms[0].LeaseLeftMS < 20_000 {
		t.Fatalf("leased %+v", ms)
	}
	must(t, addr, "", "extend", ms[0].Token, "--lease", "1m")
	must(t, addr, "the result", "ack", ms[0].Token, "--result", "-")
	must(t, addr, "the result", "ack", ms[0].Token, "--result", "-")
	if code, _, errs := cliRun(t, addr, "another", "ack", ms[0].Token, "--result", "-"); code != exitFailed || !strings.Contains(errs, "already_exists") {
		t.Errorf("another result: exit %d, %s", code, errs)
	}
	must(t, addr, "", "nack", ms[1].Token, "--error", "no good", "--permanent")
	must(t, addr, "", "release", ms[2].Token)

	type dead struct {
		ID, Reason   string
		Attempts     int
		ErrorMessage string `json:"error_message"`
	}
	ds := decode[[]dead](t, must(t, addr, "", "dlq", "list", "jobs", "-o", "json"))
	if len(ds) != 1 || ds[0].ID != ms[1].ID || ds[0].Reason != "permanent" || ds[0].Attempts != 1 || ds[0].ErrorMessage != "no good" {
		t.Fatalf("dead letters %+v", ds)
	}
	if out := must(t, addr, "", "dlq", "show", "jobs", ds[0].ID); !strings.Contains(out, "no good") {
		t.Errorf("dlq show: %s", out)
	}
	must(t, addr, "", "dlq", "requeue", "jobs", "--all")
	type stats struct{ Pending, Processing, Scheduled, Retrying, DLQ, Total int }
	if s := decode[stats](t, must(t, addr, "", "queue", "stats", "jobs", "-o", "json")); s != (stats{Pending: 2, Total: 2}) {
		t.Errorf("stats %+v", s)
	}
	if out := must(t, addr, "", "queue", "peek", "jobs"); !strings.Contains(out, `\x00odd`) {
		t.Errorf("peek does not escape: %q", out)
	}
	if out := must(t, addr, "", "queue", "list"); !strings.Contains(out, "jobs") {
		t.Errorf("list: %s", out)
	}
	if out := must(t, addr, "", "queue", "show", "jobs"); !strings.Contains(out, "fixed:1h0m0s*2") {
		t.Errorf("show: %s", out)
	}
	must(t, addr, "", "queue", "set", "jobs", "--lease", "10s")
	if out := must(t, addr, "", "queue", "show", "jobs"); !strings.Contains(out, "fixed:1h0m0s*2") || !strings.Contains(out, "10s") {
		t.Errorf("set changed more or less than the lease: %s", out)
	}
	must(t, addr, "", "enqueue", "jobs", "later", "--delay", "1h", "--task-id", "mine", "--header", "a=b", "--priority", "9")
	if out := must(t, addr, "", "task", "status", "mine", "--queue", "jobs"); !strings.Contains(out, "scheduled") {
		t.Errorf("task status: %s", out)
	}
	first := must(t, addr, "", "enqueue", "jobs", "x", "--dedup-key", "k")
	if again := must(t, addr, "", "enqueue", "jobs", "x", "--dedup-key", "k"); again != strings.TrimSpace(first)+" (duplicate)\n" {
		t.Errorf("dedup: %q after %q", again, first)
	}
	must(t, addr, "", "result", "push", "never-seen", "out", "--queue", "jobs")
	if out := must(t, addr, "", "result", "get", "never-seen", "--queue", "jobs"); out != "out" {
		t.Errorf("pushed result: %q", out)
	}
	if out := must(t, addr, "", "cluster", "status"); !strings.Contains(out, "leader") {
		t.Errorf("cluster status: %s", out)
	}
	type verified struct{ Equal bool }
	if !decode[verified](t, must(t, addr, "", "cluster", "verify", "-o", "json")).Equal {
		t.Error("one node does not agree with itself")
	}
	// A worker need not say why: the text ends where there is nothing more to say.
	must(t, addr, "", "enqueue", "mute", "x", "--task-id", "silent")
	ms = decode[[]leased](t, must(t, addr, "", "lease", "mute", "-o", "json"))
	must(t, addr, "", "nack", ms[0].Token, "--permanent")
	if code, _, errs := cliRun(t, addr, "", "result", "get", "silent", "--queue", "mute"); code != exitFailed || !strings.HasSuffix(strings.TrimSpace(errs), "is dead (permanent)") {
		t.Errorf("dead without an error: exit %d, %q", code, errs)
	}
	must(t, addr, "", "queue", "purge", "jobs")
	must(t, addr, "", "queue", "delete", "jobs")
}

// Wrong use ends with the stated code, the reason on standard error and nothing on standard output. (C64, C66)
func TestWrongUse(t *testing.T) {
	t.Parallel()
	addr := devNode(t)
	must(t, addr, "", "queue", "create", "q", "--lease", "5s")
	must(t, addr, "", "queue", "create", "ordered", "--ordering", "fifo")
	big := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(big, make([]byte, 1<<20+1), 0o600); err != nil {
		t.Fatal(err)
	}
	const noToken = "00000000000000000000000000"
	for _, tc := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"unknown verb", []string{"frobnicate"}, exitUsage, "unknown command"},
		{"misspelt command", []string{"enqueu", "q"}, exitUsage, "did you mean enqueue?"},
		{"misspelt verb", []string{"queue", "crate", "q"}, exitUsage, "did you mean create?"},
		{"no such workload", []string{"bench", "W9"}, exitUsage, "W1, W2, W3, W4, W5"},
		{"a leader that is not the benchmark's", []string{"bench", "delayed", "--kill-leader"}, exitUsage, "only nodes that it has started"},
		{"nodes that are not the benchmark's", []string{"bench", "queued"}, exitUsage, "--self 2 or more"},
		{"keys of no HTTP requests", []string{"bench", "W3", "--http-keys"}, exitUsage, "--http-keys goes with --http N"},
		{"a workload not by HTTP", []string{"bench", "W2", "--http", "10"}, exitUsage, "--http goes with W1 and W3: W2 "},
		{"floor not by HTTP", []string{"bench", "floor", "--http", "10"}, exitUsage, "--http goes with W1 and W3: floor "},
		{"unknown flag", []string{"enqueue", "q", "--colour", "red"}, exitUsage, "unknown flag"},
		{"noun without a verb", []string{"queue"}, exitUsage, ""},
		{"missing argument", []string{"enqueue"}, exitUsage, "QUEUE is missing"},
		{"arguments where flags belong", []string{"schedule", "create", "nightly", "q", "tick"}, exitUsage, "--cron EXPRESSION"},
		{"bad output format", []string{"queue", "list", "-o", "xml"}, exitUsage, "table or json"},
		{"bad duration", []string{"lease", "q", "--wait", "soon"}, exitUsage, "duration"},
		{"bad retry", []string{"enqueue", "q", "x", "--retry", "often"}, exitUsage, "exponential:"},
		{"two bodies", []string{"enqueue", "q", "x", "--file", big}, exitUsage, "only one"},
		{"bad queue name", []string{"enqueue", "a/b", "x"}, exitFailed, "invalid_argument"},
		{"dots as queue name", []string{"queue", "create", ".."}, exitFailed, "invalid_argument"},
		{"body too large", []string{"enqueue", "q", "--file", big}, exitFailed, "1048576"},
		{"priority out of range", []string{"enqueue", "q", "x", "--priority", "10"}, exitFailed, "priority"},
		{"priority in an ordered queue", []string{"enqueue", "ordered", "x", "--priority", "9"}, exitFailed, "knows one priority: 4"},
		{"same queue, other options", []string{"queue", "create", "q", "--lease", "6s"}, exitFailed, "already_exists"},
		{"unknown queue", []string{"queue", "stats", "nope"}, exitNotFound, "not_found"},
		{"unknown task", []string{"task", "status", noToken}, exitNotFound, "not_found"},
		{"unknown dead letter", []string{"dlq", "show", "q", noToken}, exitNotFound, "not_found"},
		{"unknown token", []string{"ack", noToken + noToken}, exitNotFound, "not_found"},
		{"not a token", []string{"ack", "hello"}, exitFailed, "token"},
		{"wait that runs out", []string{"result", "wait", "later", "--queue", "q", "--timeout", "2s"}, exitTimeout, ""},
		{"removing the last node", []string{"cluster", "remove", "dev"}, exitFailed, "failed_precondition"},
		{"work without a command", []string{"work", "q"}, exitUsage, "--"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.name == "wait that runs out" {
				must(t, addr, "", "enqueue", "q", "x", "--task-id", "later")
			}
			code, out, errs := cliRun(t, addr, "", tc.args...)
			if code != tc.code || !strings.Contains(errs, tc.want) {
				t.Errorf("exit %d, want %d; stderr %q, want it to say %q", code, tc.code, errs, tc.want)
			}
			if out != "" && tc.name != "noun without a verb" {
				t.Errorf("standard output is not empty: %q", out)
			}
		})
	}
	t.Run("no server", func(t *testing.T) {
		for _, args := range [][]string{{"enqueue", "q", "x"}, {"queue", "list"}, {"cluster", "status"}, {"result", "get", "x", "--queue", "q"}, {"dlq", "list", "q"}, {"lease", "q"}} {
			code, out, errs := cliRun(t, "127.0.0.1:1", "", append(args, "--call-timeout", "300ms")...)
			if code != exitUnavailable || out != "" || errs == "" {
				t.Errorf("%v: exit %d, stdout %q, stderr %q", args, code, out, errs)
			}
		}
	})
	t.Run("off loopback", func(t *testing.T) {
		for _, flag := range []string{"--client-addr", "--raft-addr", "--gossip-addr"} {
			code, _, errs := cliRun(t, addr, "", "serve", "--data-dir", t.TempDir(), flag, "192.0.2.1:7999")
			if code != exitUsage || !strings.Contains(errs, "loopback") {
				t.Errorf("%s: exit %d, %s", flag, code, errs)
			}
		}
	})
	t.Run("port in use", func(t *testing.T) {
		code, _, errs := cliRun(t, addr, "", "dev", "--client-addr", addr)
		if code != exitFailed || !strings.Contains(errs, "in use") {
			t.Errorf("exit %d, %s", code, errs)
		}
	})
}

// A word that is no command is what is wrong, whatever flags come after it, with every noun.
func TestUnknownVerbs(t *testing.T) {
	t.Parallel()
	refused := func(name string, args []string, want string) {
		t.Run(name, func(t *testing.T) {
			code, out, errs := cliRun(t, "127.0.0.1:1", "", args...)
			if code != exitUsage || out != "" || !strings.Contains(errs, want) {
				t.Errorf("exit %d, stdout %q, stderr %q, want %q", code, out, errs, want)
			}
		})
	}
	nouns := 0
	for _, cmd := range newRoot(nil, io.Discard, io.Discard).Commands() {
		if !cmd.HasSubCommands() {
			continue
		}
		nouns++
		want := fmt.Sprintf(`unknown command "zzzzzz" for %q`, cmd.CommandPath())
		refused(cmd.Name(), []string{cmd.Name(), "zzzzzz"}, want)
		refused(cmd.Name()+" with a flag", []string{cmd.Name(), "zzzzzz", "--config", "quorate.toml"}, want)
	}
	if nouns < 9 {
		t.Errorf("%d nouns", nouns)
	}
	refused("no noun, with a flag", []string{"frobnicate", "--colour", "red"}, `unknown command "frobnicate" for "quorate"`)
	refused("misspelt, with a flag", []string{"queue", "crate", "q", "--lease", "5s"}, "did you mean create?")
	refused("a flag before the verb", []string{"queue", "--colour", "red"}, "unknown flag: --colour")
	refused("a verb's own flag", []string{"config", "diff", "--colour", "red"}, "unknown flag: --colour")
}

// Every command has help that ends with 0 and shows how it is used.
func TestHelp(t *testing.T) {
	t.Parallel()
	var walk func(path []string)
	walk = func(path []string) {
		var out, errs bytes.Buffer
		if code := execute(t.Context(), append(path, "--help"), strings.NewReader(""), &out, &errs); code != 0 || !strings.Contains(out.String(), "Usage:") {
			t.Errorf("%v --help: exit %d, %q %q", path, code, out.String(), errs.String())
		}
		root := newRoot(nil, &out, &errs)
		cmd, _, err := root.Find(path)
		if err != nil {
			t.Fatal(err)
		}
		if cmd.Short == "" {
			t.Errorf("%v says nothing of itself", path)
		}
		for _, sub := range cmd.Commands() {
			if sub.Name() != "help" && sub.Name() != "completion" {
				walk(append(append([]string{}, path...), sub.Name()))
			}
		}
	}
	walk(nil)
	if out := must(t, "127.0.0.1:1", "", "version", "-o", "json"); !strings.Contains(out, `"version"`) {
		t.Errorf("version: %s", out)
	}
}
