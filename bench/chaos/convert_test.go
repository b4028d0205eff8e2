package chaos

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/proc"
)

// A cluster under load is converted to the other log store node by node, each conversion once killed on its way: nothing is
// lost, and a node that is still told the old store does not start.
func TestConvertNodeByNode(t *testing.T) {
	for _, tc := range []struct{ from, to string }{{"bolt", "wal"}, {"wal", "bolt"}} {
		t.Run(tc.from+" to "+tc.to, func(t *testing.T) {
			c := start(t, 3, "--raft-log-store", tc.from)
			l := NewLedger()
			stop := load(t, c, l, "q", 1, 1)
			eventually(t, 30*time.Second, "enqueues are confirmed", func(context.Context) bool { return l.Confirmed() >= 2000 })
			for _, n := range c.Nodes {
				if out, err := convert(t, n, tc.to); err == nil || !strings.Contains(out, "stop node "+n.Name) {
					t.Fatalf("convert a running node: %v, %s", err, out)
				}
				if err := n.Stop(); err != nil {
					t.Fatal(err)
				}
				killed := exec.Command(quorateBin, "log", "convert", "--data-dir", n.DataDir, "--to", tc.to)
				if err := killed.Start(); err != nil {
					t.Fatal(err)
				}
				eventually(t, 10*time.Second, "the conversion has begun or is done", func(context.Context) bool {
					a, _ := os.Stat(n.DataDir + "/raft.wal.converting")
					b, _ := os.Stat(n.DataDir + "/raft.db.converting")
					return a != nil || b != nil || strings.Contains(identity(t, n), `"`+tc.to+`"`)
				})
				_ = killed.Process.Kill()
				_ = killed.Wait() // it may just have been done
				if out, err := convert(t, n, tc.to); err != nil {
					t.Fatalf("convert %s: %v, %s", n.Name, err, out)
				}
				if err := n.Start(); err != nil {
					t.Fatal(err)
				}
				if code, err := n.Exited(within(t, 20*time.Second)); err != nil || code == 0 || !strings.Contains(n.LastLog(), "quorate log convert") {
					t.Fatalf("told %s, it ended with %d, %v: %s", tc.from, code, err, n.LastLog())
				}
				n.Args[slices.Index(n.Args, "--raft-log-store")+1] = tc.to
				if err := n.Start(); err != nil {
					t.Fatal(err)
				}
				if err := n.WaitReady(within(t, 30*time.Second)); err != nil {
					t.Fatal(err)
				}
				after := l.Confirmed() + 500
				eventually(t, 30*time.Second, "enqueues go on", func(context.Context) bool { return l.Confirmed() >= after })
			}
			stop()
			audit(t, c, l, "q")
			verify(t, open(t, c.Addrs()...), 3)
		})
	}
}

func convert(t *testing.T, n *proc.Node, to string) (out string, err error) {
	b, err := exec.CommandContext(within(t, time.Minute), quorateBin, "log", "convert", "--data-dir", n.DataDir, "--to", to).CombinedOutput()
	return string(b), err
}

func identity(t *testing.T, n *proc.Node) string {
	b, err := os.ReadFile(n.DataDir + "/identity.json")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
