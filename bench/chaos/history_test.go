package chaos

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/chaos/history"
	"github.com/quorate/quorate/bench/chaos/workload"
	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
)

var (
	historyFor   = flag.Duration("history-for", 10*time.Second, "how long TestHistory works while leaders are killed")
	historyKills = flag.Int("history-kills", 4, "how many leaders TestHistory kills; on the way two nodes are killed at once, all nodes are, and every fourth time a leader is frozen first")
	historyModes = flag.String("history-modes", strings.Join(slices.Concat(workload.Modes, workload.Changes), ","), "what TestHistory's queues are about: an ordering mode each, or one of the others")
	historyKeep  = flag.String("history-keep", "", "new folder that keeps TestHistory's history; without it one is kept where the test fails")
	historySkew  = flag.Duration("history-skew", 20*time.Minute, "by how much at most the nodes' wall clocks are off, either way, when all of them start again")
	historyRace  = flag.Bool("history-race", false, "TestHistory's nodes are built with the race detector")
)

// A history of everything that clients of three nodes saw, while leaders are killed and once all nodes are, agrees with the
// log and with the contract: G1 to G15, for each ordering mode.
func TestHistory(t *testing.T) {
	rng := draw(t)
	meetsAll(t, func(t *testing.T) []string { return recordHistory(t, rng) })
}

// recordHistory has clients work while nodes are killed, judges what they saw, and returns what this run should have met and has not.
func recordHistory(t *testing.T, rng *rand.Rand) (missed []string) {
	t.Helper()
	keep := keepDir(t)
	taps := filepath.Join(keep, history.TapsDir)
	if err := os.Mkdir(taps, 0o700); err != nil {
		t.Fatal(err)
	}
	// Small snapshots: nodes that come back after a while are sent one.
	c := startWith(t, proc.Config{
		Binary: chaosBinary(t), Nodes: 3, Dir: t.TempDir(),
		Env: []string{"QUORATE_CHAOS_TAP=" + taps, "QUORATE_CHAOS_SNAPSHOT_BYTES=262144"},
	})
	cl := open(t, c.Addrs()...)
	rec, err := history.Record(filepath.Join(keep, history.EventsFile), 0)
	if err != nil {
		t.Fatal(err)
	}
	work, err := workload.New(workload.Config{Addrs: c.Addrs(), Rec: rec, Seed: rng.Uint64(), Modes: strings.Split(*historyModes, ",")})
	if err != nil {
		t.Fatal(err)
	}
	wctx, stop := context.WithCancel(t.Context())
	defer stop()
	if err := work.Begin(wctx, cl); err != nil {
		t.Fatal(err)
	}

	for i := range *historyKills {
		if err := linger(t, *historyFor/time.Duration(*historyKills+1)); err != nil {
			t.Fatal(err)
		}
		switch i {
		case *historyKills / 4:
			killMost(t, c, rec, rng)
		case *historyKills / 2:
			killAll(t, c, rec, rng)
		}
		if i%4 == 3 {
			freezeLeader(t, c, rec, time.Duration(rng.Int64N(int64(time.Second))))
		}
		killLeader(t, c, rec, time.Duration(rng.Int64N(int64(*historyFor/time.Duration(2**historyKills+2)))))
	}
	if err := linger(t, *historyFor/time.Duration(*historyKills+1)); err != nil {
		t.Fatal(err)
	}

	work.StopProducing()
	whole(t, cl, 3)
	work.Heal()
	rec.Add(history.Event{Kind: history.Mark, Note: history.Heal, Index: checkpoint(t, cl).Index})
	if err := work.Drain(within(t, 2*time.Minute), cl); err != nil {
		t.Fatal(err)
	}
	v := checkpoint(t, cl)
	rec.Add(history.Event{Kind: history.Mark, Note: history.Drained, Index: v.Index})
	if err := work.StopWorking(); err != nil {
		t.Error(err)
	}
	work.ReadAll(within(t, 2*time.Minute))
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
	for _, n := range c.Nodes {
		b, err := os.ReadFile(n.LogFile)
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range []string{"WARNING: DATA RACE", "panic:", "fatal error:"} {
			if i := bytes.Index(b, []byte(bad)); i >= 0 {
				t.Errorf("node %s: %s", n.Name, b[i:min(len(b), i+3000)])
			}
		}
	}
	return judgeHistory(t, keep, v, work.Required())
}

// keepDir is where the history goes: the folder that was asked for, or one that is removed unless the test fails.
func keepDir(t *testing.T) string {
	t.Helper()
	if *historyKeep != "" {
		if err := os.MkdirAll(*historyKeep, 0o700); err != nil {
			t.Fatal(err)
		}
		return *historyKeep
	}
	dir, err := os.MkdirTemp("", "quorate-history-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the history is kept in %s", dir)
		} else if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// judgeHistory checks what was recorded, and returns what of it should have been there and is not.
func judgeHistory(t *testing.T, dir string, last client.Verified, also []string) (missed []string) {
	t.Helper()
	states := history.States{Index: last.Index}
	for _, n := range last.Nodes {
		states.Nodes = append(states.Nodes, history.NodeState{Node: n.ID, Digest: n.Digest, Error: n.Error})
	}
	v, err := history.Judge(dir, states, history.Config{Also: also})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if _, err := v.Report.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	t.Logf("judged in %s, %d entries of %d terms:\n%s", v.Took, v.Entries, v.Terms, b.String())
	o := v.Opinion
	t.Logf("Porcupine judged %d messages, left %d, could not decide %d", o.Messages, o.Left, o.Undecided)
	for _, v := range o.Illegal {
		t.Errorf("%s: %s\n%s", v.Guarantee, v.What, strings.Join(v.Events, "\n"))
	}
	if n := v.Report.Broken(); n > 0 {
		t.Errorf("%d violations", n)
	}
	return v.Report.Vacuous
}

// chaosBinary is the binary whose nodes show what they apply.
func chaosBinary(t *testing.T) string {
	t.Helper()
	if *historyRace {
		return binaryWith(t, "chaos", "-race")
	}
	return binaryWith(t, "chaos")
}

// checkpoint has every node hash its state, and waits until all of them have.
func checkpoint(t *testing.T, cl *client.Client) (v client.Verified) {
	t.Helper()
	eventually(t, 60*time.Second, "a digest of every node", func(ctx context.Context) bool {
		got, err := cl.Verify(ctx)
		if err != nil || len(got.Nodes) != 3 {
			return false
		}
		for _, n := range got.Nodes {
			if n.Error != "" {
				return false
			}
		}
		v = got
		return true
	})
	return v
}

// killLeader kills the node that leads, and starts it again after a while.
func killLeader(t *testing.T, c *proc.Cluster, rec *history.Recorder, down time.Duration) {
	t.Helper()
	n := leader(t, c)
	n.Kill()
	rec.Add(history.Event{Kind: history.Mark, Note: history.Killed, Node: n.Name, Leader: true})
	leader(t, c)
	if err := linger(t, down); err != nil {
		t.Fatal(err)
	}
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	if err := n.WaitReady(within(t, 60*time.Second)); err != nil {
		t.Fatal(err)
	}
}

// freezeLeader stops the process that leads until another node leads, and for a while longer, and lets it go on: a leader that
// does not know it is none.
func freezeLeader(t *testing.T, c *proc.Cluster, rec *history.Recorder, longer time.Duration) {
	t.Helper()
	n := leader(t, c)
	thaw := freeze(t, n)
	defer thaw()
	rec.Add(history.Event{Kind: history.Mark, Note: history.Frozen, Node: n.Name})
	eventually(t, 30*time.Second, "another node leads", func(ctx context.Context) bool {
		for _, o := range c.Nodes {
			if o != n && o.Leads(ctx) {
				return true
			}
		}
		return false
	})
	if err := linger(t, longer); err != nil {
		t.Fatal(err)
	}
}

// killMost kills two nodes, the leader among them or not, lets clients try for a while, and starts both again. A leader that is
// left alone must answer nothing.
func killMost(t *testing.T, c *proc.Cluster, rec *history.Recorder, rng *rand.Rand) {
	t.Helper()
	l := leader(t, c)
	spared := rng.IntN(3)
	var two []*proc.Node
	for i, n := range c.Nodes {
		if i != spared {
			two = append(two, n)
		}
	}
	t.Logf("two nodes are killed; the leader is spared: %v", c.Nodes[spared] == l)
	for _, n := range two {
		n.Kill()
	}
	rec.Add(history.Event{Kind: history.Mark, Note: history.Down})
	if err := linger(t, time.Second); err != nil {
		t.Fatal(err)
	}
	rec.Add(history.Event{Kind: history.Mark, Note: history.Up})
	for _, n := range two {
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range two {
		if err := n.WaitReady(within(t, 60*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
}

// killAll kills every node at once and starts them again, each with a wall clock of its own. Who leads then may jump to its
// wall clock, which must shorten no lease.
func killAll(t *testing.T, c *proc.Cluster, rec *history.Recorder, rng *rand.Rand) {
	t.Helper()
	c.Kill()
	rec.Add(history.Event{Kind: history.Mark, Note: history.Down})
	if err := linger(t, 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	for _, n := range c.Nodes {
		off := time.Duration(0)
		if *historySkew > 0 {
			off = time.Duration(rng.Int64N(2*int64(*historySkew))) - *historySkew
		}
		n.Wrap("env", fmt.Sprintf("QUORATE_CHAOS_SKEW_MS=%d", off.Milliseconds()))
		t.Logf("node %s has its wall clock off by %s from now on", n.Name, off)
	}
	rec.Add(history.Event{Kind: history.Mark, Note: history.Up})
	if err := c.Start(within(t, 60*time.Second)); err != nil {
		t.Fatal(err)
	}
}

// linger lets time pass, in which clients work, or try to.
func linger(t *testing.T, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-t.Context().Done():
		return t.Context().Err()
	}
}
