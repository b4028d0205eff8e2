package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
)

func TestTaskVerbs(t *testing.T) {
	addr := devNode(t)
	put := func(task string, args ...string) {
		t.Helper()
		must(t, addr, "", append([]string{"enqueue", "q", "body of " + task, "--task-id", task}, args...)...)
	}
	status := func(task string) map[string]any {
		t.Helper()
		return decode[map[string]any](t, must(t, addr, "", "task", "status", task, "--queue", "q", "-o", "json"))
	}
	q := []string{"--queue", "q"}
	run := func(args ...string) string { t.Helper(); return must(t, addr, "", append(args, q...)...) }

	put("a")
	if out := run("task", "cancel", "a"); out != "cancelled\n" {
		t.Errorf("cancel: %q", out)
	}
	if out := run("task", "cancel", "a"); out != "it was cancelled before\n" {
		t.Errorf("cancel again: %q", out)
	}
	if s := status("a"); s["status"] != "cancelled" || s["ended_at"] == nil {
		t.Errorf("status %v", s)
	}
	if code, _, errs := cliRun(t, addr, "", "result", "wait", "a", "--queue", "q"); code != exitFailed || !strings.Contains(errs, "cancelled") {
		t.Errorf("wait for a cancelled task: %d %s", code, errs)
	}

	put("b")
	leased := decode[[]leasedMessage](t, must(t, addr, "", "lease", "q", "-o", "json"))
	if out := run("task", "cancel", "b", "-o", "json"); !strings.Contains(out, `"out": true`) {
		t.Errorf("cancel of what is out: %s", out)
	}
	for _, verb := range []string{"extend", "ack", "nack", "release"} {
		if code, _, errs := cliRun(t, addr, "", verb, leased[0].Token); code != exitFailed || !strings.Contains(errs, "cancelled: the task was cancelled") {
			t.Errorf("%s: %d %s", verb, code, errs)
		}
	}

	put("c")
	if out := run("task", "reschedule", "c", "--delay", "1h"); !strings.HasPrefix(out, "scheduled, due 2") {
		t.Errorf("reschedule: %q", out)
	}
	out := decode[map[string]any](t, run("task", "reschedule", "c", "--delay", "1h", "--max-wait", "30m", "-o", "json"))
	info := status("c")
	if out["status"] != "scheduled" || out["due_at"].(float64)-info["enqueued_at"].(float64) != 30*60_000 {
		t.Errorf("debounce %v of %v", out, info)
	}
	if out := run("task", "replace", "c", "another body"); !strings.HasPrefix(out, "scheduled, due 2") {
		t.Errorf("replace keeps the time: %q", out)
	}
	if out := must(t, addr, "from a pipe", append([]string{"task", "replace", "c", "--file", "-", "--delay", "0", "--content-type", "text/x"}, q...)...); out != "pending\n" {
		t.Errorf("replace now: %q", out)
	}
	got := decode[[]leasedMessage](t, must(t, addr, "", "lease", "q", "-o", "json"))
	if len(got) != 1 || string(got[0].Body) != "from a pipe" || got[0].ContentType != "text/x" {
		t.Fatalf("leased %+v", got)
	}
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"reschedule of what is out", []string{"task", "reschedule", "c", "--delay", "1s"}, exitFailed, "failed_precondition: the task does not wait"},
		{"replace of what is out", []string{"task", "replace", "c", "x"}, exitFailed, "failed_precondition"},
		{"no time", []string{"task", "reschedule", "c"}, exitUsage, "give --delay or --at"},
		{"two times", []string{"task", "reschedule", "c", "--delay", "1s", "--at", "2026-12-24T18:00:00Z"}, exitUsage, "only one of --delay and --at"},
		{"bad time", []string{"task", "reschedule", "c", "--at", "tomorrow"}, exitUsage, "want a time such as"},
		{"wait alone", []string{"task", "replace", "c", "x", "--max-wait", "1s"}, exitUsage, "--max-wait caps --delay"},
		{"no body", []string{"task", "replace", "c"}, exitUsage, "there is no body"},
		{"two bodies", []string{"task", "replace", "c", "x", "--file", "y"}, exitUsage, "not both"},
		{"no such task", []string{"task", "cancel", "nobody"}, exitNotFound, "no such task"},
		{"no such task to move", []string{"task", "reschedule", "nobody", "--delay", "1s"}, exitNotFound, "no such task"},
	} {
		code, _, errs := cliRun(t, addr, "", append(c.args, q...)...)
		if code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit %d %q, want %d and %q", c.name, code, errs, c.code, c.want)
		}
	}
	must(t, addr, "", "ack", got[0].Token)
	if code, _, errs := cliRun(t, addr, "", "task", "cancel", "c", "--queue", "q"); code != exitFailed || !strings.Contains(errs, "has ended") {
		t.Errorf("cancel of what is done: %d %s", code, errs)
	}
	if code, _, errs := cliRun(t, addr, "", "task", "cancel", "c"); code != exitFailed || !strings.Contains(errs, "queue: missing") {
		t.Errorf("cancel without a queue: %d %s", code, errs)
	}
}

func TestResultListAndStream(t *testing.T) {
	addr := devNode(t)
	must(t, addr, "", "queue", "create", "q")
	for i := range 5 {
		kind := []string{"odd", "even"}[i%2]
		must(t, addr, "", "result", "push", fmt.Sprintf("t%d", i), fmt.Sprintf("out%d", i), "--queue", "q", "--kind", kind)
	}
	list := func(args ...string) (tasks []string, last uint64) {
		t.Helper()
		for _, m := range decode[[]map[string]any](t, must(t, addr, "", append([]string{"result", "list", "q", "-o", "json"}, args...)...)) {
			tasks = append(tasks, m["task_id"].(string))
			last = uint64(m["position"].(float64))
		}
		return tasks, last
	}
	for _, c := range []struct{ args, want string }{
		{"", "[t0 t1 t2 t3 t4]"}, {"--kind even", "[t1 t3]"}, {"--limit 2", "[t0 t1]"}, {"--limit 0", "[t0 t1 t2 t3 t4]"}, {"--kind none", "[]"},
	} {
		if got, _ := list(strings.Fields(c.args)...); fmt.Sprint(got) != c.want {
			t.Errorf("list %s: %v, want %s", c.args, got, c.want)
		}
	}
	_, second := list("--limit", "2")
	if got, _ := list("--after", fmt.Sprint(second)); fmt.Sprint(got) != "[t2 t3 t4]" {
		t.Errorf("behind the second: %v", got)
	}
	if out := must(t, addr, "", "result", "list", "q"); !strings.Contains(out, "POSITION") || strings.Count(out, "\n") != 6 || !strings.Contains(out, "out4") {
		t.Errorf("table: %s", out)
	}
	if code, _, _ := cliRun(t, addr, "", "result", "list", "none"); code != exitNotFound {
		t.Errorf("of no queue: exit %d", code)
	}
	if code, _, errs := cliRun(t, addr, "", "result", "list", "q", "--after", "4711"); code != exitFailed || !strings.Contains(errs, "the last position is") {
		t.Errorf("behind what is not there: exit %d, %s", code, errs)
	}
	if code, _, _ := cliRun(t, addr, "", "result", "stream", "q", "--after", "1", "--new"); code != exitUsage {
		t.Errorf("from two places: exit %d", code)
	}

	// What is there, and then what comes, while it comes; ended by hand it has succeeded.
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	r, w := io.Pipe()
	done := make(chan int, 1)
	go func() {
		done <- execute(ctx, []string{"result", "stream", "q", "--kind", "odd", "-o", "json", "--addr", addr}, strings.NewReader(""), w, io.Discard)
		w.Close()
	}()
	lines := bufio.NewScanner(r)
	next := func() map[string]any {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("the stream ended: %v", lines.Err())
		}
		var m map[string]any
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	for _, want := range []string{"t0", "t2", "t4"} {
		if m := next(); m["task_id"] != want || m["kind"] != "odd" {
			t.Errorf("streamed %v, want %s", m, want)
		}
	}
	cl, err := client.Open(ctx, client.Options{Addrs: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"even", "odd"} {
		if _, err := cl.PushResult(ctx, "q", "later-"+kind, kind, client.Result{Output: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := cl.Close(ctx); err != nil {
		t.Error(err)
	}
	if m := next(); m["task_id"] != "later-odd" {
		t.Errorf("streamed %v, want later-odd", m)
	}
	stop()
	if code := <-done; code != 0 {
		t.Errorf("the stream ended with %d", code)
	}
}

// A command whose task is cancelled is killed, and the worker goes on to the next.
func TestWorkCancelled(t *testing.T) {
	addr := devNode(t)
	ctx, stop := context.WithTimeout(t.Context(), 60*time.Second)
	defer stop()
	done := make(chan int, 1)
	go func() {
		done <- execute(ctx, []string{"work", "q", "--addr", addr, "--lease", "10m", "--prefetch", "1", "--", "sh", "-c",
			`read x; [ "$x" = long ] && sleep 600; echo "did $x"`}, strings.NewReader(""), io.Discard, io.Discard)
	}()
	must(t, addr, "", "enqueue", "q", "long", "--task-id", "long")
	must(t, addr, "", "enqueue", "q", "short", "--task-id", "short")
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for decode[map[string]any](t, must(t, addr, "", "task", "status", "long", "--queue", "q", "-o", "json"))["status"] != "processing" {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("the command does not start")
		}
	}
	must(t, addr, "", "task", "cancel", "long", "--queue", "q")
	if out := must(t, addr, "", "result", "wait", "short", "--queue", "q", "--timeout", "30s"); out != "did short\n" {
		t.Errorf("the next one: %q", out)
	}
	stop()
	if code := <-done; code != 0 {
		t.Errorf("work ended with %d", code)
	}
}
