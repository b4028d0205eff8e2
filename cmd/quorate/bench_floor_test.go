package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// TestMain lets this binary be the one that bench starts its nodes from.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "floor-node" || os.Args[1] == "serve") {
		os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// TestBenchFloor runs both paces on nodes of its own and leaves nothing behind.
func TestBenchFloor(t *testing.T) {
	t.Parallel()
	for _, pace := range []string{"", "--rate=200", "--outstanding=8"} {
		dir := t.TempDir()
		args := []string{"bench", "floor", "--for", "300ms", "--warm-up", "20ms", "--size", "64", "--data", dir, "-o", "json"}
		if pace != "" {
			args = append(args, pace)
		}
		type result struct {
			Workload string  `json:"workload"`
			Nodes    int     `json:"nodes"`
			Size     int     `json:"size"`
			Messages int     `json:"messages"`
			Rate     float64 `json:"msgs_per_s"`
			Confirm  struct {
				P50 float64 `json:"p50"`
				P99 float64 `json:"p99"`
			} `json:"confirm_ms"`
			CPU    *float64 `json:"server_cpu_us_per_msg"`
			Errors int      `json:"errors"`
		}
		var code int
		var out, errs string
		for range 5 { // the leader may lose its post on a busy machine, which ends a measurement
			if code, out, errs = cliRun(t, "", "", args...); code == 0 || !strings.Contains(errs, "has the leader changed?") {
				break
			}
			t.Log(errs)
		}
		if code != 0 {
			t.Fatalf("exit %d: %s", code, errs)
		}
		r := decode[result](t, out)
		if r.Workload != "floor" || r.Nodes != 3 || r.Size != 64 || r.Messages < 1 || r.Rate <= 0 || r.Confirm.P50 <= 0 || r.Confirm.P99 < r.Confirm.P50 || r.CPU == nil || r.Errors != 0 {
			t.Errorf("%q: %+v", pace, r)
		}
		if pace == "--rate=200" && r.Messages != 60 {
			t.Errorf("%d messages at 200/s in 300 ms, want 60", r.Messages)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%q: left behind: %v %v", pace, left, err)
		}
	}
}

func TestFloorNodeRefuses(t *testing.T) {
	t.Parallel()
	const cluster = "01234567-89ab-4cde-8f01-23456789abcd"
	for _, tc := range []struct {
		name, stdin, want string
		args              []string
		code              int
	}{
		{"no cluster", "", "is not a UUID", []string{"DIR", "n1", "x", ""}, exitUsage},
		{"no orders but text", "zig", "read an order", []string{"DIR", "n1", cluster, "bolt"}, exitFailed},
		{"no such log store", "", `"rocks"`, []string{"DIR", "n1", cluster, "rocks"}, exitUsage},
		{"a bad label", "", "node label", []string{"DIR", "n 1", cluster, ""}, exitFailed},
	} {
		args := append([]string{"floor-node"}, tc.args...)
		args[1] = t.TempDir()
		var out, errs bytes.Buffer
		if code := execute(t.Context(), args, strings.NewReader(tc.stdin), &out, &errs); code != tc.code || !strings.Contains(errs.String(), tc.want) {
			t.Errorf("%s: exit %d, %q; want %d and %q", tc.name, code, errs.String(), tc.code, tc.want)
		}
	}
}
