package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster"
)

func TestLogConvert(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "n1")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	run := func(store string) {
		t.Helper()
		n, err := cluster.Start(ctx, cluster.Config{NodeID: "n1", DataDir: dir, RaftAddr: "127.0.0.1:0", GossipAddr: "127.0.0.1:0", BootstrapExpect: 1, LogStore: store})
		if err != nil {
			t.Fatal(err)
		}
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for ok := false; !ok; ok, _ = n.Ready() {
			select {
			case <-tick.C:
			case <-ctx.Done():
				t.Fatal("the node is not ready")
			}
		}
		if code, _, errs := cliRun(t, "", "", "log", "convert", "--data-dir", dir, "--to", "wal"); code != exitFailed || !strings.Contains(errs, "stop node n1") {
			t.Errorf("of a running node: exit %d: %s", code, errs)
		}
		if err := n.Stop(ctx); err != nil {
			t.Fatal(err)
		}
	}
	run("bolt")
	if out := must(t, "", "", "log", "convert", "--data-dir", dir, "--to", "wal"); !strings.Contains(out, "is a wal one now: entries 1 to ") || !strings.Contains(out, "raft.db is removed") {
		t.Errorf("it said %q", out)
	}
	run("wal")
	got := decode[struct {
		From, To, Removed string
		First, Last       uint64
	}](t, must(t, "", "", "log", "convert", "--data-dir", dir, "--to", "bolt", "-o", "json"))
	if got.From != "wal" || got.To != "bolt" || got.Removed != "raft.wal" || got.First != 1 || got.Last < 3 {
		t.Errorf("it said %+v", got)
	}
	if out := must(t, "", "", "log", "convert", "--data-dir", dir, "--to", "bolt"); !strings.Contains(out, "already") {
		t.Errorf("it said %q", out)
	}
	for _, tc := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"no directory", []string{"--to", "wal"}, exitUsage, "--data-dir"},
		{"no store", []string{"--data-dir", dir}, exitUsage, "bolt or wal"},
		{"no such store", []string{"--data-dir", dir, "--to", "rocks"}, exitUsage, `"rocks"`},
		{"not a data directory", []string{"--data-dir", t.TempDir(), "--to", "wal"}, exitFailed, "no data directory"},
		{"an argument", []string{"wal"}, exitUsage, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, _, errs := cliRun(t, "", "", append([]string{"log", "convert"}, tc.args...)...)
			if code != tc.code || !strings.Contains(errs, tc.want) {
				t.Errorf("exit %d: %s", code, errs)
			}
		})
	}
	run("")
}
