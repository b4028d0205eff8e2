package main

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// Work that ends before half of it was seen done ends the demo at once, with what would be right; else the kill's outcome counts.
func TestLeaderKilled(t *testing.T) {
	t.Parallel()
	failed := errors.New("no other leader")
	for _, tc := range []struct {
		name    string
		halfway bool
		outcome error
		want    string
	}{
		{"too few files", false, nil, "3 files are done before a leader could be killed half-way: choose a folder with some hundreds of files"},
		{"killed", true, nil, ""},
		{"killed in vain", true, failed, failed.Error()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			killed := make(chan error, 1)
			if tc.halfway {
				killed <- tc.outcome
			}
			got := ""
			if err := (&watch{total: 3, halfway: tc.halfway}).leaderKilled(killed); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// A watch that ends before its first look has not begun to kill.
func TestWatchEndsBeforeHalf(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := &watch{total: 3, half: func() { t.Error("half was called") }}
	w.run(ctx)
	if err := w.leaderKilled(nil); err == nil || !strings.HasPrefix(err.Error(), "3 files ") {
		t.Errorf("%v", err)
	}
}
