package sim

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/bench/chaos/history"
	"github.com/quorate/quorate/bench/chaos/workload"
	"github.com/quorate/quorate/client"
)

// Required are the counters that a row of seeds must have moved, or it has shown little.
var Required = []string{
	"attempts exhausted", "batch torn", "damage found", "dedup hit across terms", "deposed leader refused a read", "entry garbled", "expiry raced an ack",
	"keyed write answered again by another node", "keyed write answered again under another leader", "keyed write of unknown outcome found done",
	"leader killed with uncommitted entries", "log truncated", "membership change under partition", "snapshot came again, late", "snapshot installed during writes",
	"stale token refused", "started from a snapshot and what follows it", "stopped as it must", "unknown found absent", "unknown found applied",
}

// Result is what became of a run.
type Result struct {
	Seed       uint64         `json:"seed"`
	Wrong      []string       `json:"wrong,omitempty"` // what must not be, the first of it
	Broken     int            `json:"broken"`          // all of it
	Trace      string         `json:"trace"`           // sum of all that happened
	FakeMillis int64          `json:"fake_ms"`
	Operations int            `json:"operations"`
	Entries    int            `json:"entries"`
	Elections  int            `json:"elections"` // terms in which something was committed
	Messages   int            `json:"messages"`  // enqueued
	Faults     map[string]int `json:"faults"`
	Sometimes  map[string]int `json:"sometimes"`
	Story      []string       `json:"story,omitempty"`  // of a run that went wrong, or was asked to tell it
	Report     string         `json:"report,omitempty"` // the checker's, likewise
}

// Run carries out a plan on fake time and judges it. tell keeps the story of a run in which nothing was wrong too.
func Run(t *testing.T, p Plan, tell bool) (r *Result) {
	t.Helper()
	w, last := (*world)(nil), client.Verified{}
	var fake time.Duration
	synctest.Test(t, func(*testing.T) {
		began := time.Now()
		w = newWorld(&p)
		last = w.live()
		fake = time.Since(began)
	})
	r = w.judge(last)
	r.FakeMillis = fake.Milliseconds()
	if r.Broken == 0 && !tell {
		r.Story, r.Report = nil, ""
	}
	return r
}

// live is the whole run, from the first start to the last stop.
func (w *world) live() (last client.Verified) {
	defer w.close()
	if err := w.boot(); err != nil {
		w.blame("%v", err)
		return last
	}
	cl, err := client.Open(context.Background(), client.Options{
		Addrs: w.addrs(), Name: "sim", Worker: "sim", Seed: w.plan.Seed | 1, Dial: w.dial(clientHosts[0]), Timeout: 20 * time.Second,
	})
	if err != nil {
		w.blame("no client: %v", err)
		return last
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = cl.Close(ctx) // what has no answer has none
	}()
	load, err := workload.New(workload.Config{
		Addrs: w.addrs(), Rec: w.rec, Seed: w.plan.Seed, Modes: w.plan.Kinds, Every: time.Duration(w.plan.PaceMS) * time.Millisecond,
		Producers: 2, Pullers: 2, Wait: time.Duration(w.plan.WaitMS) * time.Millisecond, Calm: time.Duration(w.plan.CalmMS) * time.Millisecond,
		Dial: w.dial(clientHosts[1]),
	})
	if err == nil {
		err = load.Begin(context.Background(), cl)
	}
	if err != nil {
		w.blame("no load: %v", err)
		return last
	}
	w.keys = w.keyed()
	w.carryOut()
	whole := w.settle()
	load.StopProducing()
	w.keys.end(whole)
	if whole {
		last = w.drain(cl, load)
	}
	if err := load.StopWorking(); err != nil {
		w.blame("SDK: %v", err)
	}
	if last.Index > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		load.ReadAll(ctx)
	}
	return last
}

// convergeWithin is how long a cluster may take to be whole again when nothing hinders it.
const convergeWithin = 30 * time.Second

// settle heals the world and demands that it converges (G7): first a majority, where the plan wants that, then all.
func (w *world) settle() bool {
	w.net.calm()
	for _, n := range w.nodes {
		n.take()
		n.disk().flow()
		n.release()
	}
	spared := (*node)(nil)
	if w.plan.Minor {
		spared = w.nodes[int(w.plan.Seed%uint64(len(w.nodes)))]
		spared.take()
		spared.kill(true)
		spared.release()
	}
	for _, n := range w.nodes {
		if n != spared {
			w.restart(n)
		}
	}
	if !w.converge("a majority", spared) {
		return false
	}
	if spared != nil {
		w.restart(spared)
	}
	return w.converge("all", nil)
}

// converge waits until there is a leader and all nodes but one have applied what the first one had committed.
func (w *world) converge(who string, but *node) bool {
	began := time.Now()
	commit := uint64(0) // of the first leader; what comes after, while clients go on, followers hear of with the next message
	ok := w.until(convergeWithin, func() bool {
		l := w.leader()
		if l == nil {
			return false
		}
		if commit == 0 {
			commit = l.group.Raft().CommitIndex()
		}
		for _, n := range w.nodes {
			p := n.up.Load()
			if n != but && (p == nil || p.group.Raft().AppliedIndex() < commit) {
				return false
			}
		}
		return true
	})
	if !ok {
		w.describe()
		w.blame("G7: %s have not converged %v after the faults had ended", who, convergeWithin)
		return false
	}
	w.trace.say("converged, %s: after %v", who, time.Since(began).Round(time.Millisecond))
	return true
}

// describe tells how the nodes stand.
func (w *world) describe() {
	for _, n := range w.nodes {
		if p := n.up.Load(); p != nil {
			w.trace.say("%s: %+v, raft %v", p.id, p.group.Status(), p.group.Raft().Stats())
		}
	}
}

// drain has the queues become empty and all nodes say what they have.
func (w *world) drain(cl *client.Client, load *workload.Workload) (last client.Verified) {
	load.Heal()
	v, ok := w.checkpoint(cl)
	if !ok {
		return last
	}
	w.rec.Add(history.Event{Kind: history.Mark, Note: history.Heal, Index: v.Index})
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := load.Drain(ctx, cl); err != nil {
		w.blame("G7: two minutes after the faults had ended: %v", err)
	}
	if v, ok = w.checkpoint(cl); !ok {
		return last
	}
	w.rec.Add(history.Event{Kind: history.Mark, Note: history.Drained, Index: v.Index})
	return v
}

// checkpoint has every node hash its state, and waits until all have.
func (w *world) checkpoint(cl *client.Client) (v client.Verified, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var err error
	for ctx.Err() == nil {
		if v, err = cl.Verify(ctx); err == nil && len(v.Nodes) == len(w.nodes) && !slices.ContainsFunc(v.Nodes, func(n client.NodeDigest) bool { return n.Error != "" }) {
			return v, true
		}
		time.Sleep(200 * time.Millisecond)
	}
	w.describe()
	w.blame("G15: not every node hashed its state within a minute: %+v (%v)", v, err)
	return v, false
}

// close ends all that runs, and waits for what was left of it.
func (w *world) close() {
	select {
	case <-w.healed:
	default:
		close(w.healed)
	}
	for _, n := range w.nodes {
		n.take()
		n.kill(false)
		n.release()
	}
	w.graves.Wait()
	time.Sleep(30 * time.Second) // raft's transfers, and messages on their way, end by themselves
}

// judge holds the run against the contract.
func (w *world) judge(last client.Verified) *Result {
	r := &Result{
		Seed: w.plan.Seed, Wrong: w.wrong, Broken: w.broken, Faults: w.faults, Sometimes: w.sometimes, Story: w.trace.story, Entries: len(w.entries),
	}
	bad := func(format string, args ...any) {
		r.Broken++
		if len(r.Wrong) < shownWrongs {
			r.Wrong = append(r.Wrong, fmt.Sprintf(format, args...))
		}
	}
	events, err := w.rec.Kept()
	if err != nil {
		bad("%v", err)
	}
	if b, err := json.Marshal(events); err == nil {
		w.trace.add(b)
	}
	r.Trace = w.trace.hex()
	var entries []history.LogEntry
	terms := map[uint64]bool{}
	for _, i := range slices.Sorted(maps.Keys(w.entries)) {
		entries = append(entries, *w.entries[i])
		terms[w.entries[i].Term] = true
	}
	r.Elections = len(terms)
	effects, digests, err := history.Replay(entries)
	if err != nil {
		bad("G15: %v", err)
		return r
	}
	if last.Index > 0 {
		sum := digests[last.Index]
		for _, n := range last.Nodes {
			if n.Digest != hex.EncodeToString(sum[:]) {
				bad("G15: at index %d node %s has the digest %s, the log gives %x", last.Index, n.ID, n.Digest, sum)
			}
		}
	}
	if w.broken > 0 && last.Index == 0 {
		return r // it did not come to its end: what is missing then is no news
	}
	if w.keys != nil {
		effects = w.keys.judge(effects, bad)
	}
	report := history.Check(&history.History{Events: events, Effects: effects}, history.Config{MayBeVacuous: true})
	r.Operations = report.Operations
	for what, n := range report.Sometimes {
		r.Sometimes[what] += n
	}
	for _, m := range report.Modes {
		r.Messages += m.Enqueued
		for _, v := range m.Violations {
			bad("%s: %s", v.Guarantee, v.What)
		}
		r.Broken += m.Broken - len(m.Violations)
	}
	var b strings.Builder
	if _, err := report.WriteTo(&b); err == nil {
		r.Report = b.String()
	}
	w.look(effects, r)
	return r
}

// look counts what only log and terms together show.
func (w *world) look(effects []history.Effect, r *Result) {
	const near = 200 // ms of log time between an expiry and an ack
	now := int64(0)
	made := map[string]uint64{} // term in which a message was enqueued
	expired := map[string]int64{}
	acked := map[string]int64{}
	for i := range effects {
		e := &effects[i]
		term := uint64(0)
		if l := w.entries[e.Index]; l != nil {
			term = l.Term
		}
		switch e.Op {
		case history.Entry:
			now = e.Time
		case history.Enqueue:
			if e.Code != "" {
				continue
			}
			if first, ok := made[e.Message]; !ok {
				made[e.Message] = term
			} else if e.Duplicate && e.Dedup != "" && first < term {
				r.Sometimes["dedup hit across terms"]++
			}
		case history.Expire:
			expired[e.Token] = now
			if at, ok := acked[e.Token]; ok && now-at < near {
				r.Sometimes["expiry raced an ack"]++
			}
		case history.Ack:
			acked[e.Token] = now
			if at, ok := expired[e.Token]; ok && now-at < near {
				r.Sometimes["expiry raced an ack"]++
			}
		}
	}
}

// ResultLine begins the line of TestPlan's output that has the Result.
const ResultLine = "result: "
