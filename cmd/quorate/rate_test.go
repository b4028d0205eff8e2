package main

import (
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
