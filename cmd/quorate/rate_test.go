package main

import (
	"fmt"
	"strings"
	"testing"
)

func TestThousandths(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text, want string // want "": refused
		milli      int64
	}{
		{"2.5", "2.5", 2500},
		{"100", "100", 100_000},
		{"0.001", "0.001", 1},
		{"1000000", "1000000", 1_000_000_000},
		{"999999.999", "999999.999", 999_999_999},
		{"0.1", "0.1", 100},
		{"0", "none", 0},
		{"-1.5", "-1.5", -1500}, // for the range to refuse
		{"1e3", "1000", 1_000_000},
		{"0.0005", "", 0},
		{"1.2345", "", 0},
		{"NaN", "", 0},
		{"Inf", "", 0},
		{"fast", "", 0},
		{"", "", 0},
		{"10/s", "", 0},
	} {
		t.Run(tc.text, func(t *testing.T) {
			t.Parallel()
			var n thousandths
			err := n.Set(tc.text)
			switch {
			case tc.want == "" && (err == nil || !strings.Contains(err.Error(), "such as 2.5 or 100")):
				t.Errorf("%d, %v: want an error that says what would be right", n, err)
			case tc.want != "" && (err != nil || n.String() != tc.want || int64(n) != tc.milli):
				t.Errorf("%d %q, %v; want %d %q", n, n.String(), err, tc.milli, tc.want)
			}
		})
	}
}

// A queue's rate is made, shown, kept by a change of something else, and taken away with its burst.
func TestQueueRate(t *testing.T) {
	t.Parallel()
	addr := devNode(t)
	must(t, addr, "", "queue", "create", "slow", "--rate", "2.5", "--burst", "3")
	options := func() map[string]any {
		return decode[map[string]any](t, must(t, addr, "", "queue", "show", "slow", "-o", "json"))["options"].(map[string]any)
	}
	if o := options(); o["rate"] != 2.5 || o["burst"] != 3.0 {
		t.Errorf("made with %v", o)
	}
	must(t, addr, "", "queue", "set", "slow", "--lease", "10s")
	if out := must(t, addr, "", "queue", "show", "slow"); !strings.Contains(out, "2.5") {
		t.Errorf("show: %s", out)
	}
	must(t, addr, "a\nb\nc\nd\ne\n", "enqueue", "slow", "--lines")
	if ms := decode[[]any](t, must(t, addr, "", "lease", "slow", "--max", "10", "-o", "json")); len(ms) != 3 {
		t.Errorf("leased %d at once, want the burst of 3", len(ms))
	}
	must(t, addr, "", "queue", "set", "slow", "--rate", "0")
	if o := options(); o["rate"] != 0.0 || o["burst"] != 0.0 {
		t.Errorf("without a rate: %v", o)
	}
	for _, args := range [][]string{
		{"queue", "create", "bad", "--rate", "0.0001"},
		{"queue", "create", "bad", "--rate", "-2"},
		{"queue", "create", "bad", "--rate", "2000000"},
		{"queue", "create", "bad", "--burst", "2"},
		{"queue", "create", "bad", "--rate", "1", "--burst", "2000000"},
	} {
		code, _, errs := cliRun(t, addr, "", args...)
		if code == 0 || !strings.Contains(errs, strings.TrimPrefix(args[len(args)-2], "--")) {
			t.Errorf("%v: exit %d, %q", args, code, errs)
		}
	}
}

// A queue's options of keys are made, shown, kept by a change of something else, and taken away.
func TestQueueKeys(t *testing.T) {
	t.Parallel()
	addr := devNode(t)
	must(t, addr, "", "queue", "create", "fair", "--max-in-flight-per-key", "2", "--rate-per-key", "1000", "--burst-per-key", "7",
		"--fair-by", "key", "--fair-weight", "b=2", "--fair-weight", "x=y=3")
	options := func() map[string]any {
		return decode[map[string]any](t, must(t, addr, "", "queue", "show", "fair", "-o", "json"))["options"].(map[string]any)
	}
	want := "key map[b:2 x=y:3] 2 1000 7\n"
	said := func() string {
		o := options()
		return fmt.Sprintln(o["fair_by"], o["fair_weights"], o["max_in_flight_per_key"], o["rate_per_key"], o["burst_per_key"])
	}
	if got := said(); got != want {
		t.Errorf("made with %s, want %s", got, want)
	}
	must(t, addr, "", "queue", "set", "fair", "--lease", "10s")
	if out := must(t, addr, "", "queue", "show", "fair"); !strings.Contains(out, "b=2 x=y=3") {
		t.Errorf("show: %s", out)
	}
	for _, k := range []string{"a", "a", "a", "b", "b", "b"} {
		must(t, addr, "", "enqueue", "fair", k, "--key", k)
	}
	type leased struct{ Body []byte }
	var order string
	for _, m := range decode[[]leased](t, must(t, addr, "", "lease", "fair", "--max", "10", "-o", "json")) {
		order += string(m.Body)
	}
	if order != "abba" {
		t.Errorf("leased %s, want abba: a turn of one, a turn of two, and two at most", order)
	}
	if s := decode[map[string]any](t, must(t, addr, "", "queue", "stats", "fair", "-o", "json")); s["parked"] != 2.0 || s["pending"] != 2.0 {
		t.Errorf("stats: %v", s)
	}
	must(t, addr, "", "queue", "set", "fair", "--fair-by", "none", "--rate-per-key", "0", "--max-in-flight-per-key", "0")
	if got := said(); got != "none map[] 0 0 0\n" {
		t.Errorf("taken away: %s", got)
	}
	for _, args := range [][]string{
		{"queue", "set", "fair", "--fair-weight", "a"},
		{"queue", "set", "fair", "--fair-weight", "=2"},
		{"queue", "set", "fair", "--fair-weight", "a=b"},
		{"queue", "set", "fair", "--fair-weight", "a=1", "--fair-weight", "a=2"},
		{"queue", "set", "fair", "--fair-by", "key", "--fair-weight", "a=101"},
		{"queue", "set", "fair", "--fair-weight", "a=1"},
		{"queue", "set", "fair", "--fair-by", "tenant"},
	} {
		if code, _, errs := cliRun(t, addr, "", args...); code == 0 || !strings.Contains(errs, "fair") {
			t.Errorf("%v: exit %d, %q", args, code, errs)
		}
	}
}
