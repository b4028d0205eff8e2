package main

import (
	"fmt"
	"strings"
	"testing"
)

func TestScheduleCommands(t *testing.T) {
	t.Parallel()
	addr := devNode(t)
	must(t, addr, "", "queue", "create", "runs")
	must(t, addr, "", "schedule", "create", "tick", "--queue", "runs", "--cron", "@every 1s", "--body", "go", "--kind", "k", "--header", "a=b")
	must(t, addr, "", "schedule", "create", "tick", "--queue", "runs", "--cron", "@every 1s", "--body", "go", "--kind", "k", "--header", "a=b")
	must(t, addr, "from stdin", "schedule", "create", "nightly", "--queue", "reports", "--cron", "0 3 * * *", "--zone", "Europe/Berlin",
		"--missed", "once", "--jitter", "5m", "--file", "-")
	type leased struct {
		TaskID string `json:"task_id"`
		Body   []byte
	}
	ms := decode[[]leased](t, must(t, addr, "", "lease", "runs", "--wait", "10s", "-o", "json"))
	if len(ms) != 1 || string(ms[0].Body) != "go" || !strings.HasPrefix(ms[0].TaskID, "tick@") {
		t.Fatalf("leased %+v", ms)
	}
	must(t, addr, "", "schedule", "pause", "tick")
	type schedule struct {
		Name, Queue, Cron, Zone, Missed string
		JitterMS                        int64 `json:"jitter_ms"`
		Paused                          bool
		NextAt                          int64 `json:"next_at"`
		Fired                           int64
		Message                         struct {
			Body []byte
			Kind string
		}
	}
	list := decode[[]schedule](t, must(t, addr, "", "schedule", "list", "-o", "json"))
	if len(list) != 2 || list[0].Name != "nightly" || list[0].NextAt == 0 || list[1].Name != "tick" || !list[1].Paused || list[1].NextAt != 0 {
		t.Errorf("listed %+v", list)
	}
	must(t, addr, "", "schedule", "set", "nightly", "--cron", "0 4 * * *", "--kind", "report", "--retry", "fixed:1s*2")
	must(t, addr, "", "schedule", "pause", "nightly")
	must(t, addr, "", "schedule", "resume", "nightly")
	s := decode[schedule](t, must(t, addr, "", "schedule", "show", "nightly", "-o", "json"))
	if s.Cron != "0 4 * * *" || s.Zone != "Europe/Berlin" || s.Missed != "once" || s.JitterMS != 300_000 || string(s.Message.Body) != "from stdin" || s.Message.Kind != "report" {
		t.Errorf("shown %+v", s)
	}
	if out := must(t, addr, "", "schedule", "show", "tick"); !strings.Contains(out, "paused") || !strings.Contains(out, "a=b") || !strings.Contains(out, "UTC") {
		t.Errorf("shown %s", out)
	}
	must(t, addr, "", "schedule", "resume", "tick")
	if out := must(t, addr, "", "schedule", "list"); strings.Contains(out, "paused") {
		t.Errorf("listed %s", out)
	}
	must(t, addr, "", "schedule", "delete", "tick")
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"schedule"}, exitUsage, ""},
		{[]string{"schedule", "create", "x"}, exitUsage, "--cron"},
		{[]string{"schedule", "create", "x", "--queue", "q", "--cron", "often"}, exitFailed, "five fields"},
		{[]string{"schedule", "create", "x", "--queue", "q", "--cron", "@daily", "--zone", "Nowhere"}, exitFailed, "Europe/Berlin"},
		{[]string{"schedule", "create", "nightly", "--queue", "q", "--cron", "@daily"}, exitFailed, "already_exists"},
		{[]string{"schedule", "create", "x", "--queue", "q", "--cron", "@daily", "--body", "a", "--file", "-"}, exitUsage, "only one"},
		{[]string{"schedule", "create", "x", "--queue", "q", "--cron", "@daily", "--header", "a"}, exitUsage, "name=value"},
		{[]string{"schedule", "create", "x", "--queue", "q", "--cron", "@daily", "--missed", "maybe"}, exitFailed, "skip"},
		{[]string{"schedule", "show", "tick"}, exitNotFound, "not_found"},
		{[]string{"schedule", "delete", "tick"}, exitNotFound, "not_found"},
		{[]string{"schedule", "set", "tick", "--cron", "@daily"}, exitNotFound, "not_found"},
	} {
		t.Run(fmt.Sprint(tc.args), func(t *testing.T) {
			if code, _, errs := cliRun(t, addr, "", tc.args...); code != tc.code || !strings.Contains(errs, tc.want) {
				t.Errorf("exit %d, want %d; %q, want it to say %q", code, tc.code, errs, tc.want)
			}
		})
	}
}
