package main

import (
	"encoding/csv"
	"fmt"
	"strings"
	"testing"
)

// deadQueue makes queue jobs with the dead-letter queue morgue, and lets messages of these bodies die in it.
func deadQueue(t *testing.T, addr string, bodies ...string) {
	t.Helper()
	must(t, addr, "", "queue", "create", "morgue")
	must(t, addr, "", "queue", "create", "jobs", "--dead-letter-queue", "morgue")
	for i, body := range bodies {
		must(t, addr, "", "enqueue", "jobs", body, "--kind", fmt.Sprint("k", i%2), "--header", "n="+fmt.Sprint(i), "--task-id", fmt.Sprint("t", i))
		ms := decode[[]struct{ Token string }](t, must(t, addr, "", "lease", "jobs", "-o", "json"))
		must(t, addr, "", "nack", ms[0].Token, "--permanent", "--error", "=cmd|' /C calc'!A0")
	}
}

type deadJSON struct {
	ID, Reason, Queue, Held, Kind string
	TaskID                        string `json:"task_id"`
	Origin                        string `json:"origin_queue"`
	OriginalID                    string `json:"original_id"`
	Error                         string `json:"error_message"`
	Redrives                      int
	Body                          []byte
}

func deadList(t *testing.T, addr, queue string, flags ...string) []deadJSON {
	t.Helper()
	return decode[[]deadJSON](t, must(t, addr, "", append([]string{"dlq", "list", queue, "-o", "json"}, flags...)...))
}

func TestDeadLetterQueueByHand(t *testing.T) {
	t.Parallel()
	addr := devNode(t)
	deadQueue(t, addr, "zero", "one", "two", "three", "four")
	if code, _, errs := cliRun(t, addr, "", "queue", "set", "jobs", "--dead-letter-queue", "jobs"); code != exitFailed || !strings.Contains(errs, "names itself") {
		t.Errorf("a queue that names itself: exit %d, %s", code, errs)
	}
	ds := deadList(t, addr, "morgue")
	if len(ds) != 5 || ds[0].Origin != "jobs" || ds[0].Queue != "morgue" || ds[0].TaskID != "t0" || ds[0].Held != "pending" || ds[0].Reason != "permanent" || ds[0].ID == ds[0].OriginalID {
		t.Fatalf("dead letters %+v", ds)
	}
	for _, c := range []struct {
		flags []string
		want  int
	}{
		{[]string{"--kind", "k1"}, 2}, {[]string{"--reason", "expired"}, 0}, {[]string{"--reason", "permanent", "--kind", "k0"}, 3},
		{[]string{"--text", "thre"}, 1}, {[]string{"--header", "n=2"}, 1}, {[]string{"--header", "n"}, 5}, {[]string{"--since", "1h"}, 5},
		{[]string{"--until", "1h"}, 0}, {[]string{"--limit", "2"}, 2}, {[]string{"--limit", "0"}, 5},
	} {
		if got := deadList(t, addr, "morgue", c.flags...); len(got) != c.want {
			t.Errorf("dlq list %v: %d letters, want %d", c.flags, len(got), c.want)
		}
	}
	if out := must(t, addr, "", "task", "status", "t3", "--queue", "jobs"); !strings.Contains(out, "dead") || !strings.Contains(out, "morgue") {
		t.Errorf("task status: %s", out)
	}

	// Nothing changes in a dry run.
	if out := must(t, addr, "", "dlq", "requeue", "morgue", "--all", "--kind", "k0", "--dry-run"); strings.Count(out, "\n") != 3 {
		t.Errorf("dry run: %s", out)
	}
	if n := len(deadList(t, addr, "morgue")); n != 5 {
		t.Fatalf("%d letters after a dry run, want 5", n)
	}
	out := must(t, addr, "", "dlq", "requeue", "morgue", "--all", "--kind", "k0", "--rate", "1000", "--max", "2")
	if strings.Count(out, "is now") != 2 {
		t.Errorf("requeue: %s", out)
	}
	if n := len(deadList(t, addr, "morgue")); n != 3 {
		t.Fatalf("%d letters after a requeue of two, want 3", n)
	}
	// Edit and requeue, found by the id it had at first.
	d := deadList(t, addr, "morgue", "--header", "n=3")[0]
	must(t, addr, "fixed", "dlq", "requeue", "morgue", d.OriginalID, "--body-file", "-", "--priority", "9", "--set-header", "edited=yes")
	ms := decode[[]struct {
		Body     []byte
		Priority int
		TaskID   string `json:"task_id"`
	}](t, must(t, addr, "", "lease", "jobs", "-o", "json"))
	if len(ms) != 1 || string(ms[0].Body) != "fixed" || ms[0].TaskID != "t3" {
		t.Errorf("edited %+v", ms)
	}
	if code, _, errs := cliRun(t, addr, "", "dlq", "requeue", "morgue", d.ID); code != exitNotFound || !strings.Contains(errs, "no such dead letter") {
		t.Errorf("again: exit %d, %s", code, errs)
	}
	must(t, addr, "", "dlq", "delete", "morgue", "--all", "--kind", "k1")
	if n := len(deadList(t, addr, "morgue")); n != 1 {
		t.Fatalf("%d letters after a delete, want 1", n)
	}
	if out := must(t, addr, "", "queue", "stats", "morgue", "-o", "json"); !strings.Contains(out, `"dead_received": 5`) || !strings.Contains(out, `"moved": 1`) {
		t.Errorf("stats: %s", out)
	}
	must(t, addr, "", "dlq", "purge", "morgue")
	if n := len(deadList(t, addr, "morgue")); n != 0 {
		t.Fatalf("%d letters after a purge", n)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"dlq", "requeue", "morgue", "x", "--rate", "5"}, "--rate goes with --all"},
		{[]string{"dlq", "requeue", "morgue", "--all", "--rate", "-1"}, "--rate is -1"},
		{[]string{"dlq", "requeue", "morgue", "--all", "--body", "x"}, "--body edits one dead letter"},
		{[]string{"dlq", "requeue", "morgue", "x", "--body", "x", "--body-file", "y"}, "only one of --body and --body-file"},
		{[]string{"dlq", "requeue", "morgue", "x", "--set-header", "novalue"}, "want name=value"},
		{[]string{"dlq", "delete", "morgue", "--all", "--max", "-1"}, "--max is -1"},
		{[]string{"dlq", "list", "morgue", "--reason", "age"}, "--reason is"},
		{[]string{"dlq", "export", "morgue", "--format", "xml"}, "want csv or json"},
	} {
		if code, _, errs := cliRun(t, addr, "", c.args...); code != exitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%v: exit %d, %s", c.args, code, errs)
		}
	}
}

func TestDeadExport(t *testing.T) {
	t.Parallel()
	addr := devNode(t)
	deadQueue(t, addr, "=HYPERLINK(\"http://x\")", "\x00bin", "a,b\n\"c\"", "@SUM", "")
	all := decode[[]deadJSON](t, must(t, addr, "", "dlq", "export", "morgue"))
	if len(all) != 5 || string(all[1].Body) != "\x00bin" || all[0].Error != "=cmd|' /C calc'!A0" {
		t.Fatalf("json %+v", all)
	}
	if out := must(t, addr, "", "dlq", "export", "morgue", "--kind", "none", "--format", "json"); len(decode[[]deadJSON](t, out)) != 0 {
		t.Errorf("an empty export: %q", out)
	}
	rows, err := csv.NewReader(strings.NewReader(must(t, addr, "", "dlq", "export", "morgue", "--format", "csv"))).ReadAll()
	if err != nil || len(rows) != 6 {
		t.Fatalf("csv of %d rows: %v", len(rows), err)
	}
	col := map[string]int{}
	for i, name := range rows[0] {
		col[name] = i
	}
	for i, want := range [][2]string{{"'=HYPERLINK(\"http://x\")", "text"}, {"AGJpbg==", "base64"}, {"a,b\n\"c\"", "text"}, {"'@SUM", "text"}, {"", "text"}} {
		r := rows[i+1]
		if r[col["body"]] != want[0] || r[col["body_encoding"]] != want[1] || r[col["task_id"]] != fmt.Sprint("t", i) || r[col["origin"]] != "jobs" {
			t.Errorf("row %d: %q", i, r)
		}
		if r[col["headers"]] != fmt.Sprintf(`{"n":"%d"}`, i) || r[col["error_message"]] != "'=cmd|' /C calc'!A0" {
			t.Errorf("row %d: %q", i, r)
		}
		for _, cell := range r {
			if strings.ContainsAny(cell[:min(1, len(cell))], "=+-@\t\r\n") {
				t.Errorf("row %d: cell %q is a formula", i, cell)
			}
		}
	}
}

// The attempts that a letter died of stand beside the maximum of the queue where it died, those where it was moved to beside that
// queue's, in every form of output.
func TestAttemptsOfMovedAreToldApart(t *testing.T) {
	t.Parallel()
	addr := devNode(t)
	must(t, addr, "", "queue", "create", "morgue", "--retry", "fixed:1s*6")
	must(t, addr, "", "queue", "create", "jobs", "--dead-letter-queue", "morgue", "--retry", "fixed:0s*2")
	must(t, addr, "", "enqueue", "jobs", "x", "--task-id", "t")
	token := func(queue string) string {
		return decode[[]struct{ Token string }](t, must(t, addr, "", "lease", queue, "--wait", "10s", "-o", "json"))[0].Token
	}
	must(t, addr, "", "nack", token("jobs"))
	must(t, addr, "", "nack", token("jobs"))
	for _, c := range []struct {
		name        string
		then        func()
		plain       [2]string         // attempts, held attempts
		json, inCSV map[string]string // value by key, "" for none
	}{
		{"moved", func() {}, [2]string{"2 of 2, in queue jobs", "0 of 6, in queue morgue"},
			map[string]string{"attempts": "2", "max_attempts": "2", "held": "pending", "held_attempts": "0", "held_max_attempts": "6"}, nil},
		{"out", func() { token("morgue") }, [2]string{"2 of 2, in queue jobs", "1 of 6, in queue morgue"},
			map[string]string{"attempts": "2", "max_attempts": "2", "held": "processing", "held_attempts": "1", "held_max_attempts": "6"}, nil},
		{"its queue is gone", func() { must(t, addr, "", "queue", "delete", "jobs") }, [2]string{"2, in queue jobs", "1 of 6, in queue morgue"},
			map[string]string{"attempts": "2", "max_attempts": "0", "held": "processing", "held_attempts": "1", "held_max_attempts": "6"},
			map[string]string{"max_attempts": ""}},
	} {
		c.then()
		id := deadList(t, addr, "morgue")[0].ID
		fields := map[string]string{}
		for _, line := range strings.Split(must(t, addr, "", "dlq", "show", "morgue", id), "\n") {
			if key, value, ok := strings.Cut(line, "  "); ok {
				fields[key] = strings.TrimSpace(value)
			}
		}
		if got := [2]string{fields["attempts"], fields["held attempts"]}; got != c.plain {
			t.Errorf("%s: shown as %q, want %q", c.name, got, c.plain)
		}
		for what, out := range map[string]map[string]any{
			"dlq show": decode[map[string]any](t, must(t, addr, "", "dlq", "show", "morgue", id, "-o", "json")),
			"dlq list": decode[[]map[string]any](t, must(t, addr, "", "dlq", "list", "morgue", "-o", "json"))[0],
			"export":   decode[[]map[string]any](t, must(t, addr, "", "dlq", "export", "morgue"))[0],
		} {
			for key, want := range c.json {
				if got := fmt.Sprint(out[key]); got != want {
					t.Errorf("%s: %s has %s %s, want %s", c.name, what, key, got, want)
				}
			}
		}
		rows, err := csv.NewReader(strings.NewReader(must(t, addr, "", "dlq", "export", "morgue", "--format", "csv"))).ReadAll()
		if err != nil || len(rows) != 2 {
			t.Fatalf("csv of %d rows: %v", len(rows), err)
		}
		for i, key := range rows[0] {
			want, ok := c.inCSV[key]
			if !ok {
				want, ok = c.json[key]
			}
			if ok && rows[1][i] != want {
				t.Errorf("%s: csv has %s %q, want %q", c.name, key, rows[1][i], want)
			}
		}
	}
}

func TestHarmless(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "", "x": "x", "=1": "'=1", "+1": "'+1", "-1": "'-1", "@x": "'@x", "\tx": "'\tx", "\rx": "'\rx", "\n=x": "'\n=x", "＝x": "'＝x",
		"x=1": "x=1", "'x": "'x", " =1": " =1",
	} {
		if got := harmless(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

// Where nothing passes the filters, that is said.
func TestBulkWithoutMatch(t *testing.T) {
	t.Parallel()
	addr := devNode(t)
	deadQueue(t, addr, "a")
	queue := "morgue"
	for _, args := range [][]string{
		{"dlq", "requeue", queue, "--all", "--kind", "other"}, {"dlq", "delete", queue, "--all", "--kind", "other"},
		{"dlq", "delete", queue, "--all", "--kind", "other", "--dry-run"}, {"dlq", "requeue", queue, "--all", "--kind", "other", "-o", "json"},
	} {
		code, out, errs := cliRun(t, addr, "", args...)
		if code != 0 || out != "" || !strings.HasPrefix(errs, "0 matched") {
			t.Errorf("%v: exit %d, stdout %q, stderr %q", args, code, out, errs)
		}
	}
}

// A benchmark of a cluster reports the cluster's nodes, not the addresses that were given.
func TestBenchCountsNodes(t *testing.T) {
	t.Parallel()
	addr := devNode(t)
	out := must(t, addr+","+addr, "", "bench", "W5", "--for", "100ms", "--warm-up", "10ms", "-o", "json")
	if r := decode[struct{ Nodes int }](t, out); r.Nodes != 1 {
		t.Errorf("%d nodes, want the one", r.Nodes)
	}
}

// An export that is refused writes nothing that looks like the beginning of one.
func TestRefusedExportIsEmpty(t *testing.T) {
	t.Parallel()
	addr := devNode(t)
	for _, format := range []string{"csv", "json"} {
		code, out, errs := cliRun(t, addr, "", "dlq", "export", "nosuch", "--format", format)
		if code != exitNotFound || out != "" || !strings.Contains(errs, "nosuch") {
			t.Errorf("%s: exit %d, %q, %q", format, code, out, errs)
		}
	}
}
