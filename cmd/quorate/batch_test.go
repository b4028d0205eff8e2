package main

import (
	"strings"
	"testing"
)

func TestBatchCommands(t *testing.T) {
	t.Parallel()
	addr := devNode(t)
	b := strings.TrimSpace(must(t, addr, "", "batch", "create", "reports", "all are in", "--kind", "report"))
	if out := must(t, addr, "one\ntwo\n", "batch", "add", b, "pages", "--lines"); strings.Count(out, "\n") != 2 {
		t.Errorf("added: %q", out)
	}
	must(t, addr, "", "enqueue", "pages", "three", "--batch", b)
	type shown struct {
		Status                                    string
		Members, Open, Succeeded, Dead, Cancelled int
		Queue                                     string
		CallbackID                                string `json:"callback_id"`
	}
	if s := decode[shown](t, must(t, addr, "", "batch", "show", b, "-o", "json")); s.Status != "open" || s.Members != 3 || s.Open != 3 || s.Queue != "reports" {
		t.Errorf("open: %+v", s)
	}
	must(t, addr, "", "batch", "seal", b)
	must(t, addr, "", "batch", "seal", b)
	if code, _, errs := cliRun(t, addr, "", "batch", "add", b, "pages", "late"); code != exitFailed || !strings.Contains(errs, "sealed") {
		t.Errorf("a late member: exit %d, %s", code, errs)
	}
	type leased struct {
		ID, Token, Kind string
		Body            []byte
		Headers         map[string]string
	}
	ms := decode[[]leased](t, must(t, addr, "", "lease", "pages", "--max", "2", "-o", "json"))
	must(t, addr, "", "ack", ms[0].Token)
	must(t, addr, "", "nack", ms[1].Token, "--permanent")
	must(t, addr, "", "queue", "purge", "pages")
	cb := decode[[]leased](t, must(t, addr, "", "lease", "reports", "--wait", "10s", "-o", "json"))
	if len(cb) != 1 || string(cb[0].Body) != "all are in" || cb[0].Kind != "report" {
		t.Fatalf("callback: %+v", cb)
	}
	s := decode[shown](t, must(t, addr, "", "batch", "show", b, "-o", "json"))
	if s.Status != "done" || s.Open != 0 || s.Succeeded != 1 || s.Dead != 1 || s.Cancelled != 1 || s.CallbackID != cb[0].ID {
		t.Errorf("done: %+v", s)
	}
	if out := must(t, addr, "", "batch", "show", b); !strings.Contains(out, "succeeded") || !strings.Contains(out, cb[0].ID) {
		t.Errorf("shown: %s", out)
	}
	none := "00000G0000000000G000000002"
	for _, c := range []struct {
		code int
		args []string
	}{
		{exitNotFound, []string{"batch", "show", none}},
		{exitNotFound, []string{"batch", "seal", none}},
		{exitNotFound, []string{"batch", "add", none, "pages", "x"}},
		{exitFailed, []string{"batch", "show", "x"}},
		{exitFailed, []string{"batch", "create", "reports", "--header", "batch_dead=1"}},
		{exitUsage, []string{"batch", "create"}},
		{exitUsage, []string{"batch", "create", "reports", "x", "--file", "y"}},
		{exitUsage, []string{"batch", "add", none}},
		{exitUsage, []string{"batch", "add", "", "pages"}},
	} {
		if code, _, errs := cliRun(t, addr, "", c.args...); code != c.code || errs == "" {
			t.Errorf("quorate %s: exit %d, want %d: %s", strings.Join(c.args, " "), code, c.code, errs)
		}
	}
}
