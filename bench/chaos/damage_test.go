package chaos

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
)

var damagesFlag = flag.Int("damages", 3, "how many files TestDamageAtRest damages, with each log store; 160 are about all sorts in all ways")

// pristine is a cluster of three whose nodes were killed, with copies of their data directories at several ages. Each damage begins with it.
type pristine struct {
	*proc.Cluster
	copies string   // copies/AGE/NODE
	ages   []string // the last is what they have now
	leader int      // that led in the end
	ledger *Ledger
}

const (
	pristineMessages = 150 // before the copy in the middle, and after it
	pristineBytes    = 8 << 10
)

func makePristine(t *testing.T, bin string, args ...string) *pristine {
	t.Helper()
	dir := t.TempDir()
	c, err := proc.New(proc.Config{
		Binary: bin, Nodes: 3, Dir: filepath.Join(dir, "nodes"), Args: args,
		Env: []string{"QUORATE_CHAOS_SNAPSHOT_BYTES=262144", "QUORATE_CHAOS_SEGMENT_BYTES=262144"},
	})
	if err != nil {
		t.Fatal(err)
	}
	w := &pristine{Cluster: c, copies: filepath.Join(dir, "copies"), ledger: NewLedger()}
	t.Cleanup(c.Kill)
	keep := func(age string) {
		t.Helper()
		w.ages = append(w.ages, age)
		for _, n := range c.Nodes {
			copyDir(t, n.DataDir, w.copyOf(age, n))
		}
	}
	// One after the other, so that they are no cluster yet.
	for _, n := range c.Nodes {
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, 30*time.Second, "the node has a data directory", func(context.Context) bool {
			b, err := os.ReadFile(filepath.Join(n.DataDir, "identity.json"))
			return err == nil && strings.Contains(string(b), `"has_data": true`)
		})
		n.Kill()
	}
	keep("before the cluster")
	if err := c.Start(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	cl := open(t, c.Addrs()...)
	create(t, cl, "q", client.QueueOptions{})
	fill := func() {
		t.Helper()
		for range pristineMessages {
			n, b := w.ledger.body(pristineBytes)
			r, err := cl.Enqueue(within(t, 30*time.Second), "q", client.Message{Body: b})
			if w.ledger.answered(n, r, err); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill()
	takeAll(t, w.ledger, "q", c.Addrs()...)
	keep("in the middle")
	fill()
	eventually(t, 30*time.Second, "every node has two snapshots", func(context.Context) bool {
		for _, n := range c.Nodes {
			if snaps, err := filepath.Glob(filepath.Join(n.DataDir, "snapshots", "*-*-*[0-9]", "meta.json")); err != nil || len(snaps) < 2 {
				return false
			}
		}
		return true
	})
	verify(t, cl, 3) // all have everything
	leader, err := c.Leader(within(t, 30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	w.leader = slices.Index(c.Nodes, leader)
	c.Kill()
	keep("now")
	return w
}

func (w *pristine) copyOf(age string, n *proc.Node) string {
	return filepath.Join(w.copies, age, n.Name)
}

// cast says on how many nodes files are damaged.
type cast struct {
	name  string
	count int
	leads bool // the first of them led last, and is up before the others
}

var casts = []cast{{"leader to be", 1, true}, {"follower", 1, false}, {"majority", 2, true}}

// damage is one of what is tried.
type damage struct {
	sort string // of file
	harm harm
	cast cast
}

// victim is a node one of whose files is damaged.
type victim struct {
	*proc.Node
	path string   // of the file
	has  []string // the files that its data directory had before it was started
	from int64    // where its log had ended then
	late bool     // it was ready, and found the damage later
	end  string   // how it ended, "" while it has not
}

// One file of a node's data directory, or of two nodes', is damaged while they are down: a bit is flipped, a page zeroed, the file cut
// short, put back from an older copy or removed. A node that has damage ends, again at every start, with a file named, or has no need of what is
// gone; it never serves it. With two sound nodes nothing is lost, and none of those ends; with one, nothing is confirmed, and nothing that
// was is silently gone. (L5, G16)
func TestDamageAtRest(t *testing.T) {
	bin := chaosBinary(t)
	var table tally
	withLogStores(t, func(t *testing.T, args ...string) {
		rng := draw(t)
		var all []damage
		for _, sort := range sortsOf(args[len(args)-1]) {
			for _, h := range harms {
				for _, c := range casts {
					all = append(all, damage{sort, h, c})
				}
			}
		}
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		seeds := make([]uint64, *damagesFlag)
		for i := range seeds {
			seeds[i] = rng.Uint64()
		}
		// Each of those who work at once has a cluster of its own: two of one cluster's copies would meet.
		atOnce := max(1, min(*togetherFlag, *damagesFlag/3))
		eachOf(t, atOnce, atOnce, func(i int) string { return fmt.Sprintf("cluster %d", i) }, func(t *testing.T, i int) {
			w := makePristine(t, bin, args...)
			for k := i; k < len(seeds); k += atOnce {
				d := all[k%len(all)]
				t.Run(fmt.Sprintf("%s, %s, %s", d.sort, d.harm.name, d.cast.name), func(t *testing.T) {
					w.try(t, d, rand.New(rand.NewPCG(seeds[k], 1)), &table)
				})
			}
		})
	})
	report(t, "\n%s", table.String())
}

// try is one damage, of the whole cluster anew.
func (w *pristine) try(t *testing.T, d damage, rng *rand.Rand, table *tally) {
	t.Cleanup(func() {
		w.Kill()
		if t.Failed() {
			for _, n := range w.Nodes {
				b, _ := os.ReadFile(n.LogFile)
				t.Logf("log of %s:\n%s", n.Name, tail(b, 3000))
			}
		}
	})
	for _, n := range w.Nodes {
		if err := os.RemoveAll(n.DataDir); err != nil {
			t.Fatal(err)
		}
		copyDir(t, w.copyOf("now", n), n.DataDir)
	}
	victims, sound, done := w.harm(t, d, rng)
	if !done {
		table.add(d, "cannot be")
		return
	}
	// At first only a majority runs that the damaged ones are in: nothing is decided without them.
	first := sound[:2-len(victims)]
	for _, v := range victims {
		v.start(t)
	}
	for _, n := range first {
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, time.Minute, "each damaged node has ended, or is ready", func(ctx context.Context) bool {
		ready, ended := 0, 0
		for _, v := range victims {
			if !v.Running() {
				ended++
			} else if isReady(ctx, v.Node) {
				v.late = true
				ready++
			}
		}
		return ready+ended == len(victims) || ended > 0
	})
	for _, n := range sound[len(first):] {
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, time.Minute, "those who run are ready, or one is alone", func(ctx context.Context) bool {
		up := w.running()
		return len(up) < 2 || !slices.ContainsFunc(up, func(n *proc.Node) bool { return !isReady(ctx, n) })
	})
	for _, v := range victims {
		v.judge(t)
	}
	w.serve(t)
	for _, v := range victims {
		if v.end == "" {
			v.late = true
			v.judge(t)
		}
		table.add(d, v.outcome())
	}
	for _, n := range sound {
		if !n.Running() {
			t.Errorf("%s, none of whose files was damaged, has ended: %s", n.Name, n.LastLog())
		}
	}
}

// running are the nodes that have not ended.
func (w *pristine) running() (up []*proc.Node) {
	for _, n := range w.Nodes {
		if n.Running() {
			up = append(up, n)
		}
	}
	return up
}

// isReady looks once.
func isReady(ctx context.Context, n *proc.Node) bool {
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	return n.WaitReady(ctx) == nil
}

// harm damages the files of those who are in the cast, and says who is sound.
func (w *pristine) harm(t *testing.T, d damage, rng *rand.Rand) (victims []*victim, sound []*proc.Node, done bool) {
	t.Helper()
	order := rng.Perm(3)
	if at := slices.Index(order, w.leader); d.cast.leads {
		order[0], order[at] = order[at], order[0]
	} else {
		order[2], order[at] = order[at], order[2]
	}
	for i, at := range order {
		n := w.Nodes[at]
		if i >= d.cast.count {
			sound = append(sound, n)
			continue
		}
		all := parts(t, n.DataDir)
		k := slices.IndexFunc(all, func(p part) bool { return p.sort == d.sort })
		if k < 0 {
			return nil, nil, false
		}
		p := all[k]
		var copies []string
		for _, age := range w.ages[:len(w.ages)-1] {
			copies = append(copies, w.copyOf(age, n))
		}
		path := filepath.Join(n.DataDir, p.path)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		instead, what, ok := d.harm.do(rng, b, olderOf(t, n.DataDir, p, copies))
		switch {
		case !ok:
			return nil, nil, false
		case instead == nil:
			err = os.Remove(path)
		default:
			err = os.WriteFile(path, instead, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s, %s: %s %s", n.Name, p.path, d.harm.name, what)
		victims = append(victims, &victim{Node: n, path: path, has: files(t, n.DataDir)})
	}
	return victims, sound, true
}

func (v *victim) start(t *testing.T) {
	t.Helper()
	if st, err := os.Stat(v.LogFile); err == nil {
		v.from = st.Size()
	}
	if err := v.Start(); err != nil {
		t.Fatal(err)
	}
}

// judge looks at a damaged node: one that has ended has said which file is damaged, has removed none, and ends again when it is started
// again, unless it was only later that it came to read what is damaged.
func (v *victim) judge(t *testing.T) {
	t.Helper()
	for again := false; !v.Running() || again; again = true {
		code, err := v.Exited(within(t, 20*time.Second))
		if err != nil {
			t.Fatalf("%s has ended because of its damage, and goes on when it is started again: %v", v.Name, err)
		}
		b, err := os.ReadFile(v.LogFile)
		if err != nil {
			t.Fatal(err)
		}
		said := string(tail(b[v.from:], 2000))
		switch {
		case code <= 0 || !strings.Contains(said, v.DataDir) || strings.Contains(said, "goroutine "):
			t.Errorf("%s has ended with code %d, want a positive one and a line that names the file; its log:\n%s", v.Name, code, said)
		case strings.Contains(said, v.path):
			v.end = "named"
		default:
			v.end = "another named"
			t.Logf("%s: %s", v.Name, v.LastLog())
		}
		if now := files(t, v.DataDir); !containsAll(now, v.has) {
			t.Errorf("%s has damage, and has removed files: %v are left of %v", v.Name, now, v.has)
		}
		if again || v.late {
			return
		}
		v.start(t)
	}
}

func containsAll(all, some []string) bool {
	for _, s := range some {
		if !slices.Contains(all, s) && !strings.Contains(s, ".tmp") { // what was never finished goes
			return false
		}
	}
	return true
}

func (v *victim) outcome() string {
	switch {
	case v.end == "":
		return "not needed"
	case v.late:
		return "late, " + v.end
	default:
		return v.end
	}
}

// serve demands of two nodes that run that everything is there and they agree, and of one alone that it confirms nothing.
func (w *pristine) serve(t *testing.T) {
	t.Helper()
	up := w.running()
	var addrs []string
	for _, n := range up {
		addrs = append(addrs, n.ClientAddr)
	}
	if len(up) < 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
		defer cancel()
		cl, err := client.Open(ctx, client.Options{Addrs: addrs, Name: "alone", Timeout: 700 * time.Millisecond})
		if err != nil {
			return
		}
		defer cl.Close(ctx)
		if r, err := cl.Enqueue(ctx, "q", client.Message{Body: []byte("x")}); err == nil {
			t.Errorf("%s alone has confirmed %s", up[0].Name, r.ID)
		}
		return
	}
	l := w.ledger.Clone()
	cl := open(t, addrs...)
	n, b := l.body(64)
	l.answered(n, put(t, cl, "q", client.Message{Body: b}), nil)
	takeAll(t, l, "q", addrs...)
	r, err := l.Check(within(t, time.Minute), cl, "q")
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Lost)+len(r.Phantom) > 0 {
		t.Errorf("of %d that were confirmed: lost %q, invented %q", r.Confirmed, r.Lost, r.Phantom)
	}
	eventually(t, 30*time.Second, "a digest of every node that runs", func(ctx context.Context) bool {
		got, err := cl.Verify(ctx)
		if err != nil {
			return false
		}
		digests := map[string]string{}
		for _, n := range got.Nodes {
			if n.Error == "" {
				digests[n.ID] = n.Digest
			}
		}
		for _, n := range up {
			if digests[n.Name] == "" && n.Running() {
				return false
			}
		}
		if one := slices.Compact(slices.Sorted(maps.Values(digests))); len(one) > 1 {
			t.Fatalf("the nodes' states differ: %v", digests)
		}
		return true
	})
}

// tally counts what came of damages, by file and harm. Safe for concurrent use.
type tally struct {
	mu     sync.Mutex
	counts map[string]map[string]map[string]int
}

func (y *tally) add(d damage, outcome string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.counts == nil {
		y.counts = map[string]map[string]map[string]int{}
	}
	if y.counts[d.sort] == nil {
		y.counts[d.sort] = map[string]map[string]int{}
	}
	if y.counts[d.sort][d.harm.name] == nil {
		y.counts[d.sort][d.harm.name] = map[string]int{}
	}
	y.counts[d.sort][d.harm.name][outcome]++
}

// String is a table of files and harms.
func (y *tally) String() string {
	y.mu.Lock()
	defer y.mu.Unlock()
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 1, 2, ' ', 0)
	fmt.Fprint(tw, "file")
	for _, h := range harms {
		fmt.Fprintf(tw, "\t%s", h.name)
	}
	fmt.Fprintln(tw)
	sum := map[string]int{}
	for _, sort := range slices.Sorted(maps.Keys(y.counts)) {
		fmt.Fprint(tw, sort)
		for _, h := range harms {
			var cell []string
			of := y.counts[sort][h.name]
			for _, o := range slices.Sorted(maps.Keys(of)) {
				cell = append(cell, fmt.Sprintf("%d %s", of[o], o))
				sum[o] += of[o]
			}
			fmt.Fprintf(tw, "\t%s", strings.Join(cell, ", "))
		}
		fmt.Fprintln(tw)
	}
	if err := tw.Flush(); err != nil {
		fmt.Fprintln(&b, err)
	}
	fmt.Fprintf(&b, "in all: %v\n", sum)
	return b.String()
}
