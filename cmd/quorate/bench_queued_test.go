package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"
)

// TestBenchQueued fills, snapshots, kills and drains three nodes of its own, with large bodies so that little of them makes a snapshot due.
func TestBenchQueued(t *testing.T) {
	dir := t.TempDir()
	args := []string{"bench", "queued", "--self", "3", "--count", "200", "--size", "65536", "--warm-up", "10ms", "--outstanding", "8", "--window", "8", "--data", dir, "-o", "json"}
	type result struct {
		Lost       int64 `json:"lost"`
		Duplicates int64 `json:"duplicates"`
		Errors     int64 `json:"errors"`
		Queued     struct {
			Messages int       `json:"messages"`
			Payload  int64     `json:"payload_bytes"`
			RSS      []int64   `json:"rss_bytes"`
			Most     []int64   `json:"rss_bytes_most"`
			After    []int64   `json:"rss_bytes_after"`
			Hold     []float64 `json:"snapshot_hold_ms"`
			Write    []float64 `json:"snapshot_write_s"`
			One      float64   `json:"restart_one_s"`
			All      float64   `json:"restart_all_s"`
			Drain    float64   `json:"drain_s"`
		} `json:"queued"`
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	if code := execute(ctx, args, strings.NewReader(""), &out, &errs); code != 0 {
		t.Fatalf("exit %d: %s %s", code, errs.String(), out.String())
	}
	r := decode[result](t, out.String())
	q := r.Queued
	if r.Lost+r.Duplicates+r.Errors != 0 || q.Messages != 200 || q.Payload != 200*65536 || q.One <= 0 || q.All <= 0 || q.Drain <= 0 {
		t.Errorf("%+v", r)
	}
	for i := range 3 {
		if q.RSS[i] <= 0 || q.Most[i] < q.RSS[i]/2 || q.After[i] <= 0 || q.Hold[i] <= 0 || q.Write[i] <= 0 {
			t.Errorf("node %d: %+v", i, q)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}
