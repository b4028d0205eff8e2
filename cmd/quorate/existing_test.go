package main

import (
	"strings"
	"testing"
)

// A create says whether it has made something, found it the same, or found another of that name and in what it is another.
func TestCreateSaysWhatItDid(t *testing.T) {
	t.Parallel()
	addr := devNode(t)
	long := `{"description":"` + strings.Repeat("ä", 100) + `"}`
	for _, tc := range []struct {
		name string
		args []string
		code int
		want []string // in what is said
	}{
		{"a queue", []string{"queue", "create", "q", "--lease", "5s"}, exitDone, []string{"created q\n"}},
		{"the same queue", []string{"queue", "create", "q", "--lease", "5s"}, exitDone, []string{"q exists already and is the same: nothing is changed\n"}},
		{"the same with a default spelt out", []string{"queue", "create", "q", "--lease", "5000", "--max-dead", "0"}, exitDone, []string{"exists already"}},
		{"the same, for a script", []string{"queue", "create", "q", "--lease", "5s", "-o", "json"}, exitDone, []string{`"created": false`, `"ok": true`}},
		{"a queue, for a script", []string{"queue", "create", "r", "-o", "json"}, exitDone, []string{`"created": true`}},
		{"another queue", []string{"queue", "create", "q", "--max-depth", "7"}, exitFailed,
			[]string{`already_exists: queue "q" exists and is another: lease_ms is 5000, not 30000; max_depth is 0, not 7; to change it: quorate queue set q` + "\n"}},
		{"with more than can be said", []string{"queue", "create", "r", "--max-depth", "1", "--max-bytes", "2", "--max-in-flight", "3", "--rate", "4", "--max-age", "5s",
			"--result-ttl", "6s", "--dedup-window", "7s", "--lease", "8s", "--schema", long, "--ordering", "fifo"}, exitFailed, []string{"; and more; to change it"}},
		{"a long value", []string{"queue", "create", "r", "--schema", long}, exitFailed, []string{`schema is none, not {"description":"ää`, "…; to change it"}},
		{"a bad name", []string{"queue", "create", ".."}, exitFailed, []string{"invalid_argument"}},
		{"a schedule", []string{"schedule", "create", "s", "--queue", "q", "--cron", "@daily"}, exitDone, []string{"created s\n"}},
		{"the same schedule", []string{"schedule", "create", "s", "--queue", "q", "--cron", "@daily", "--zone", "UTC"}, exitDone, []string{"s exists already and is the same"}},
		{"another schedule", []string{"schedule", "create", "s", "--queue", "q", "--cron", "@hourly"}, exitFailed,
			[]string{`already_exists: schedule "s" exists and is another: cron is @daily, not @hourly; to change it: quorate schedule set s` + "\n"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, out, errs := cliRun(t, addr, "", tc.args...)
			for _, want := range tc.want {
				if code != tc.code || !strings.Contains(out+errs, want) {
					t.Errorf("exit %d, %q; want %d, %q", code, out+errs, tc.code, want)
				}
			}
		})
	}
}
