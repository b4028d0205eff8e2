package chaos

import (
	"bytes"
	"context"
	"encoding/hex"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/chaos/history"
	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/fsm/mutant"
)

var (
	historyFor   = flag.Duration("history-for", 12*time.Second, "how long TestHistory works while leaders are killed")
	historyKills = flag.Int("history-kills", 4, "how many leaders TestHistory kills; on the way two nodes are killed at once, all nodes are, and every fourth time a leader is frozen first")
	historyModes = flag.String("history-modes", "unordered,fifo,per_key,"+onceMode+","+ratedMode+","+redrivenMode+","+batchedMode, "what TestHistory's queues are about: an ordering mode each, or one of the others")
	historyKeep  = flag.String("history-keep", "", "new folder that keeps TestHistory's history; without it one is kept where the test fails")
	historySkew  = flag.Duration("history-skew", 20*time.Minute, "by how much at most the nodes' wall clocks are off, either way, when all of them start again")
	historyRace  = flag.Bool("history-race", false, "TestHistory's nodes are built with the race detector")
)

// A history of everything that clients of three nodes saw, while leaders are killed and once all nodes are, agrees with the
// log and with the contract: G1 to G15, for each ordering mode.
func TestHistory(t *testing.T) {
	rng := draw(t)
	keep := keepDir(t)
	taps := filepath.Join(keep, "taps")
	if err := os.Mkdir(taps, 0o700); err != nil {
		t.Fatal(err)
	}
	// Small snapshots: nodes that come back after a while are sent one.
	c := startWith(t, proc.Config{
		Binary: chaosBinary(t), Nodes: 3, Dir: t.TempDir(),
		Env: []string{"QUORATE_CHAOS_TAP=" + taps, "QUORATE_CHAOS_SNAPSHOT_BYTES=262144"},
	})
	cl := open(t, c.Addrs()...)
	file := filepath.Join(keep, "events.jsonl")
	rec, err := history.Record(file, 0)
	if err != nil {
		t.Fatal(err)
	}

	var loads []*workload
	for i, mode := range strings.Split(*historyModes, ",") {
		w := &workload{
			queue: "h-" + mode, kind: mode, mode: mode, addrs: c.Addrs(), rec: rec, seed: rng.Uint64(), ids: map[string]bool{},
			every: []time.Duration{40, 400, 80}[i%3] * time.Millisecond,
		}
		switch mode {
		case "fifo": // one at a time, and every failure stands in the way of all
			w.every = 400 * time.Millisecond
		case onceMode, ratedMode, redrivenMode, batchedMode:
			w.mode, w.every = "unordered", 120*time.Millisecond
		}
		if mode == onceMode {
			rec.Add(history.Event{Kind: history.Mark, Note: history.AtMostOnce, Queue: w.queue})
		}
		create(t, cl, w.queue, w.options())
		loads = append(loads, w)
	}

	wctx, stopWorkers := context.WithCancel(t.Context())
	pctx, stopProducers := context.WithCancel(t.Context())
	defer stopProducers()
	defer stopWorkers()
	var ps, ws sync.WaitGroup
	for _, w := range loads {
		for range 3 {
			ps.Go(func() { w.produce(pctx) })
		}
		ps.Go(func() { w.meddle(pctx, 2*w.every) })
		switch w.kind {
		case redrivenMode:
			ps.Go(func() { w.bury(pctx, w.every) })
		case batchedMode:
			ps.Go(func() { w.gather(pctx, w.every) })
		}
		for range 4 {
			ws.Go(func() { w.pull(wctx) })
		}
		sdk := open(t, c.Addrs()...)
		work := w.subscribed
		if w.kind == onceMode { // there is no lease for it to end
			work = w.consumed
		}
		ws.Go(func() {
			if err := work(wctx, sdk); err != nil {
				t.Errorf("queue %s: %v", w.queue, err)
			}
		})
	}

	for i := range *historyKills {
		if err := linger(t.Context(), *historyFor/time.Duration(*historyKills+1)); err != nil {
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
	if err := linger(t.Context(), *historyFor/time.Duration(*historyKills+1)); err != nil {
		t.Fatal(err)
	}

	stopProducers()
	ps.Wait()
	whole(t, cl, 3)
	for _, w := range loads {
		w.healthy.Store(true)
	}
	rec.Add(history.Event{Kind: history.Mark, Note: history.Heal, Index: checkpoint(t, cl).Index})
	for _, w := range loads {
		drained(t, cl, w.queue)
	}
	v := checkpoint(t, cl)
	rec.Add(history.Event{Kind: history.Mark, Note: history.Drained, Index: v.Index})
	stopWorkers()
	ws.Wait()
	for _, w := range loads {
		w.readAll(within(t, 2*time.Minute))
	}
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
	var also []string
	for _, w := range loads {
		also = append(also, w.required()...)
	}
	judgeHistory(t, file, taps, v, also)
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

// judgeHistory checks what was recorded.
func judgeHistory(t *testing.T, file, taps string, v client.Verified, also []string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := &history.History{}
	if h.Events, err = history.ReadEvents(f); err != nil {
		t.Fatal(err)
	}
	entries, err := history.ReadTaps(taps)
	if err != nil {
		t.Fatal(err)
	}
	var digests map[uint64][32]byte
	if h.Effects, digests, err = history.Replay(entries); err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(filepath.Dir(file), "effects.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := history.WriteEffects(out, h.Effects); err != nil {
		t.Fatal(err)
	}
	sum := digests[v.Index]
	for _, n := range v.Nodes {
		if n.Digest != hex.EncodeToString(sum[:]) {
			t.Errorf("G15: at index %d node %s has the digest %s %s, the log of the taps gives %x", v.Index, n.ID, n.Digest, n.Error, sum)
		}
	}
	began := time.Now()
	r := history.Check(h, history.Config{Also: also})
	took := time.Since(began)
	var b strings.Builder
	if _, err := r.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	t.Logf("checked in %s, %d entries:\n%s", took, len(entries), b.String())
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	began = time.Now()
	o := history.SecondOpinion(h.Events)
	t.Logf("Porcupine judged %d messages in %s, left %d, could not decide %d", o.Messages, time.Since(began), o.Left, o.Undecided)
	for _, v := range o.Illegal {
		t.Errorf("%s: %s\n%s", v.Guarantee, v.What, strings.Join(v.Events, "\n"))
	}
}

// chaosBinary builds the binary whose nodes show what they apply.
func chaosBinary(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "quorate-chaos")
	args := []string{"build", "-tags", "chaos," + mutant.Tag(), "-o", bin}
	if *historyRace {
		args = append(args, "-race")
	}
	build := exec.CommandContext(t.Context(), "go", append(args, "github.com/quorate/quorate/cmd/quorate")...)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the binary: %v\n%s", err, out)
	}
	return bin
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
	if err := linger(t.Context(), down); err != nil {
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
	if err := linger(t.Context(), longer); err != nil {
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
	if err := linger(t.Context(), time.Second); err != nil {
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
	if err := linger(t.Context(), 300*time.Millisecond); err != nil {
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

// readAll reads how every message stands at the end.
func (w *workload) readAll(ctx context.Context) {
	ids := make(chan string)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			l := w.link()
			defer l.drop()
			for id := range ids {
				w.status(ctx, l, id, history.Final)
				w.result(ctx, l, id)
			}
		})
	}
	w.mu.Lock()
	row := w.row
	w.mu.Unlock()
	for _, id := range row {
		ids <- id
	}
	close(ids)
	wg.Wait()
}
