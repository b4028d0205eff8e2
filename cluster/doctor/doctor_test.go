package doctor

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/clustertest"
	"github.com/quorate/quorate/cluster/store"
)

func find(fs []Finding, check string, level Level, what string) bool {
	for _, f := range fs {
		if f.Check == check && (f.Level == level || level == "") && strings.Contains(f.What, what) {
			if f.Level != OK && f.Do == "" && !strings.Contains(f.What, "quorate cluster remove") {
				return false // a complaint without advice
			}
			return true
		}
	}
	return false
}

func TestExamineBeforeTheStart(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() })
	cases := []struct {
		name   string
		change func(t *testing.T, c *cluster.Config)
		check  string
		level  Level
		what   string
	}{
		{"fresh", func(*testing.T, *cluster.Config) {}, "data_dir", OK, "does not exist yet"},
		{"log store of a new directory", func(_ *testing.T, c *cluster.Config) { c.LogStore = "wal" }, "log_store", OK, "wal"},
		{"disk", func(*testing.T, *cluster.Config) {}, "disk", "", "median"}, // as slow as the machine is
		{"clock", func(*testing.T, *cluster.Config) {}, "clock", OK, "20"},
		{"config", func(_ *testing.T, c *cluster.Config) { c.RaftAddr = "x" }, "config", Bad, "host:port"},
		{"memory", func(_ *testing.T, c *cluster.Config) { c.DataDir = "" }, "data_dir", Warn, "in memory"},
		{"port taken", func(_ *testing.T, c *cluster.Config) { c.RaftAddr = taken.Addr().String() }, "ports", Bad, "in use by another process"},
		{"foreign address", func(_ *testing.T, c *cluster.Config) { c.RaftAddr = "192.0.2.1:7341" }, "ports", Bad, "raft address"},
		{"join nobody", func(_ *testing.T, c *cluster.Config) { c.Join = []string{"127.0.0.1:1"} }, "peers", Warn, "refused"},
		{"join somebody", func(_ *testing.T, c *cluster.Config) { c.Join = []string{taken.Addr().String()} }, "peers", OK, "answers"},
		{"readable by others", func(t *testing.T, c *cluster.Config) {
			if err := os.MkdirAll(c.DataDir, 0o755); err != nil {
				t.Fatal(err)
			}
		}, "data_dir", Bad, "mode 0755"},
		{"damaged identity", func(t *testing.T, c *cluster.Config) {
			if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(c.DataDir, "identity.json"), []byte("{}"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "identity", Bad, "is damaged"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg := cluster.Config{NodeID: "n1", DataDir: filepath.Join(t.TempDir(), "d"), RaftAddr: "127.0.0.1:0", GossipAddr: "127.0.0.1:0"}
			c.change(t, &cfg)
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if fs := Examine(ctx, cfg); !find(fs, c.check, c.level, c.what) {
				t.Errorf("no %s finding of %s with %q in\n%+v", c.level, c.check, c.what, fs)
			}
		})
	}
}

func TestExamineARunningNode(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, 2, clustertest.Options{})
	c.WaitVoters(2)
	n := c.Node(0)
	cfg := cluster.Config{NodeID: n.Label(), DataDir: c.Dir(0), RaftAddr: n.RaftAddr(), GossipAddr: n.GossipAddr(), Version: "test"}
	var fs []Finding
	c.Until("the peer to be known on disk", func() bool {
		fs = Examine(context.Background(), cfg)
		return find(fs, "peers", OK, "node n2 at")
	})
	if !find(fs, "identity", OK, "running: true") || !find(fs, "ports", OK, "by this node as it seems") || Worst(fs) == Bad {
		t.Errorf("findings %+v", fs)
	}
	if !find(fs, "log_store", OK, string(store.Kinds[0])) {
		t.Errorf("no word of the log store: %+v", fs)
	}
	cfg.LogStore = string(store.Kinds[1])
	if fs := Examine(context.Background(), cfg); !find(fs, "log_store", Bad, "will not start") {
		t.Errorf("the other log store: %+v", fs)
	}
	cfg.LogStore = ""
	cfg.NodeID = "n9"
	if fs := Examine(context.Background(), cfg); !find(fs, "identity", Bad, `belongs to node "n1"`) {
		t.Errorf("another label: %+v", fs)
	}
	c.Kill(1)
	if fs := Examine(context.Background(), cfg); !find(fs, "peers", Warn, "refused") {
		t.Errorf("a dead peer: %+v", fs)
	}
}

func TestClock(t *testing.T) {
	t.Parallel()
	d := &doctor{now: func() time.Time { return time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC) }}
	d.clock("")
	if !find(d.findings, "clock", Bad, "1980") {
		t.Errorf("findings %+v", d.findings)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "identity.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d = &doctor{now: func() time.Time { return time.Now().Add(-time.Hour) }}
	d.clock(dir)
	if !find(d.findings, "clock", Warn, "last start") {
		t.Errorf("findings %+v", d.findings)
	}
}
