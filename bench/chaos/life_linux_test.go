package chaos

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/chaos/forgetfs"
	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
)

const (
	lifeMessages = 14
	lifeBytes    = 60 << 10
	// lifeEntries is how many small messages make the log long enough to be compacted: 64 entries at least stay behind a snapshot.
	lifeEntries = 90
)

// life is what nodes on disks of their own live through: one, or one and another that joins it. Something strikes the victim in it.
type life struct {
	*forgetful
	victim int
	ledger *Ledger
	ended  chan struct{} // closed when the process that begin has started has ended
	code   int           // that it has ended with
	asked  bool          // whoever was to end has been told to

	strikes func() // is called before the trap is set; nil: nothing
}

// story is what happens in a life.
type story struct {
	name    string
	nodes   int
	victim  int
	prelude func(ctx context.Context, v *life) error // in which nothing strikes; nil: it begins with the victim's first start
	act     func(ctx context.Context, v *life) error // in which it does; an error means only that it did not come to its end
	check   func(t *testing.T, v *life)              // afterwards, on disks that are well, the victim's process ended
	shows   string                                   // what the first node's log says if all of it happens
}

// Stories of one node, and of one that joins another, each of which is the victim once.
var (
	alone = []story{
		{"first start to stop", 1, 0, nil, fillAndStop(5, 6), checkAlone, "snapshot taken"},
		{"compaction to stop", 1, 0, longLog, fillAndStop(5, 6, 12), checkAlone, "compacting logs"},
	}
	members = []story{
		{"joins and is removed", 2, 1, longLogOfAnother, memberLife, checkMember, "installing snapshot on"},
		{"leads another through that", 2, 0, longLogOfAnother, memberLife, checkMember, "installing snapshot on"},
	}
)

func newLife(t *testing.T, bin string, s story, args ...string) *life {
	t.Helper()
	f := onForgetfulDisks(t, bin, s.nodes, args...)
	for i, n := range f.Nodes {
		expect := 1 - i // the first makes a cluster by itself, the other joins it
		n.Args = append(n.Args, "--gossip-bootstrap-expect", fmt.Sprint(expect))
	}
	return &life{forgetful: f, victim: s.victim, ledger: NewLedger()}
}

func (v *life) node() *proc.Node     { return v.Nodes[v.victim] }
func (v *life) disk() *forgetfs.Disk { return v.disks[v.victim] }

// run has the story happen, and the trap strike in it.
func (s story) run(t *testing.T, v *life, trap forgetfs.Trap) {
	t.Helper()
	if s.prelude != nil {
		if s.victim == 0 {
			v.watch(t)
		} else if err := v.Nodes[0].Start(); err != nil {
			t.Fatal(err)
		}
		if err := v.until(t, nil, s.prelude); err != nil {
			t.Fatalf("before anything strikes: %v", err)
		}
	}
	if v.strikes != nil {
		v.strikes()
	}
	struck := v.disk().Set(trap)
	if trap.Do == forgetfs.Fail { // what is confirmed after that has to be there too
		struck = nil
	}
	if v.ended == nil {
		v.watch(t)
	}
	_ = v.until(t, struck, s.act) // where it strikes, whatever was under way does not come to its end
}

// watch starts the victim's process, and sees its end.
func (v *life) watch(t *testing.T) {
	t.Helper()
	if err := v.node().Start(); err != nil {
		t.Fatal(err)
	}
	v.ended = make(chan struct{})
	ctx := context.WithoutCancel(t.Context())
	go func() {
		defer close(v.ended)
		v.code, _ = v.node().Exited(ctx)
	}()
}

// until runs f until its end, until the channel is closed, or until the victim has ended: who asks a node that has would wait for it.
func (v *life) until(t *testing.T, struck <-chan struct{}, f func(ctx context.Context, v *life) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := v.ended // it may be started again when this is over
	go func() {
		defer cancel()
		select {
		case <-struck:
		case <-ended:
		case <-ctx.Done():
		}
	}()
	return f(ctx, v)
}

// queue waits for the first node, and opens it, with a queue.
func (v *life) queue(ctx context.Context) (*client.Client, error) {
	if err := v.Nodes[0].WaitReady(ctx); err != nil {
		return nil, err
	}
	cl, err := client.Open(ctx, client.Options{Addrs: []string{v.Nodes[0].ClientAddr}, Name: "life", Timeout: time.Minute})
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = cl.Close(ctx) }) // at once: nothing that is under way is waited for
	return cl, cl.CreateQueue(ctx, "q", client.QueueOptions{MaxResultsBytes: 4 << 30})
}

// put enqueues messages, one after the other.
func (v *life) put(ctx context.Context, cl *client.Client, messages, size int) error {
	for range messages {
		n, b := v.ledger.body(size)
		r, err := cl.Enqueue(ctx, "q", client.Message{Body: b})
		v.ledger.answered(n, r, err)
		if err != nil {
			return err
		}
	}
	return nil
}

// fillAndStop: a node takes messages, and after each of so many makes a snapshot, which is to be when the log has grown by 256 KiB or as much
// as the last one has; it compacts its log if that is long enough, begins and drops segments, drops a third snapshot, and is stopped.
func fillAndStop(messages ...int) func(ctx context.Context, v *life) error {
	return func(ctx context.Context, v *life) error {
		cl, err := v.queue(ctx)
		if err != nil {
			return err
		}
		for i, n := range messages {
			if err := v.put(ctx, cl, n, lifeBytes); err != nil {
				return err
			}
			if err := v.says(ctx, 0, "snapshot taken", i+1); err != nil {
				return err
			}
		}
		v.asked = true
		v.node().Signal(syscall.SIGTERM)
		select {
		case <-v.ended:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// longLog: a node has a log that is long enough to be compacted by the next snapshot.
func longLog(ctx context.Context, v *life) error {
	cl, err := v.queue(ctx)
	if err == nil {
		err = v.put(ctx, cl, lifeEntries, 512)
	}
	return err
}

// longLogOfAnother: the first node has compacted its log, so that who joins it is given a snapshot.
func longLogOfAnother(ctx context.Context, v *life) error {
	cl, err := v.queue(ctx)
	if err == nil {
		err = v.put(ctx, cl, lifeEntries, 512)
	}
	if err == nil {
		err = v.put(ctx, cl, lifeMessages, lifeBytes)
	}
	if err == nil {
		err = v.says(ctx, 0, "snapshot taken", 1)
	}
	return err
}

// says waits until a node's log has a text so many times.
func (v *life) says(ctx context.Context, node int, text string, times int) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if b, err := os.ReadFile(v.Nodes[node].LogFile); err == nil && strings.Count(string(b), text) >= times {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s does not say %q %d times: %w", v.Nodes[node].Name, text, times, ctx.Err())
		}
	}
}

// memberLife: the second node joins the first, is given a snapshot, becomes a voter, takes messages and is removed.
func memberLife(ctx context.Context, v *life) error {
	if v.victim == 0 {
		if err := v.Nodes[1].Start(); err != nil {
			return err
		}
	}
	cl, err := v.queue(ctx)
	if err != nil {
		return err
	}
	if err := v.voter(ctx, cl, v.Nodes[1].Name); err != nil {
		return err
	}
	if err := v.put(ctx, cl, lifeMessages/2, lifeBytes); err != nil {
		return err
	}
	v.asked = true
	if err := cl.Remove(ctx, v.Nodes[1].Name); err != nil {
		return err
	}
	if err := v.put(ctx, cl, 1, 512); err != nil {
		return err
	}
	_, err = v.Nodes[1].Exited(ctx)
	return err
}

// voter waits until a node is one.
func (v *life) voter(ctx context.Context, cl *client.Client, name string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if s, err := cl.ClusterStatus(ctx); err == nil {
			for _, n := range s.Nodes {
				if n.ID == name && n.Voter && n.Alive {
					return nil
				}
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s is no voter: %w", name, ctx.Err())
		}
	}
}

// checkAlone starts the node again and looks for what was confirmed.
func checkAlone(t *testing.T, v *life) {
	t.Helper()
	v.restart(t, []int{0})
	if v.slowest > startMost {
		t.Errorf("the start took %s, want at most %s", v.slowest, startMost)
	}
	v.audit(t)
	if err := v.node().Stop(); err != nil {
		t.Error(err)
	}
}

// audit has the first node take one more message, takes everything that is in the queue, and looks for what was confirmed.
func (v *life) audit(t *testing.T) {
	t.Helper()
	addr := v.Nodes[0].ClientAddr
	cl := open(t, addr)
	if _, err := cl.Queue(within(t, 10*time.Second), "q"); err != nil {
		if v.ledger.Confirmed() > 0 {
			t.Fatalf("the queue with %d messages: %v", v.ledger.Confirmed(), err)
		}
		create(t, cl, "q", client.QueueOptions{MaxResultsBytes: 4 << 30})
	}
	n, b := v.ledger.body(64)
	v.ledger.answered(n, put(t, cl, "q", client.Message{Body: b}), nil)
	takeAll(t, v.ledger, "q", addr)
	r, err := v.ledger.Check(within(t, time.Minute), cl, "q")
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Lost)+len(r.Phantom) > 0 {
		t.Errorf("of %d that were confirmed: lost %q, invented %q", r.Confirmed, r.Lost, r.Phantom)
	}
}

// checkMember starts whose power was cut, and waits until the other node is what it is to be: a voter, or removed and gone. One that has
// lost everything before it was a member comes as a new one, once its label is free.
func checkMember(t *testing.T, v *life) {
	t.Helper()
	second := v.Nodes[1]
	for _, n := range v.Nodes {
		if !n.Running() && (n != second || !wasRemoved(second)) {
			if err := n.Start(); err != nil {
				t.Fatal(err)
			}
		}
	}
	cl := open(t, v.Nodes[0].ClientAddr)
	freed := false
	eventually(t, 40*time.Second, "the second node is a voter, or removed", func(ctx context.Context) bool {
		if !second.Running() {
			if !wasRemoved(second) {
				t.Fatalf("%s has ended: %s", second.Name, second.LastLog())
			}
			s, err := cl.ClusterStatus(ctx)
			return err == nil && len(s.Nodes) == 1
		}
		s, err := cl.ClusterStatus(ctx)
		if err != nil {
			return false
		}
		for _, n := range s.Nodes {
			if n.ID != second.Name {
				continue
			}
			if b, err := os.ReadFile(second.LogFile); !n.Voter && !freed && err == nil && strings.Contains(string(b), "the cluster does not take this node") {
				freed = cl.Remove(ctx, n.UUID) == nil
			}
			return n.Voter && n.Alive
		}
		return false
	})
	v.audit(t)
	eventually(t, 30*time.Second, "the nodes' states are equal", func(ctx context.Context) bool {
		got, err := cl.Verify(ctx)
		for _, n := range got.Nodes {
			if n.Error != "" {
				return false
			}
		}
		if err == nil && !got.Equal {
			t.Fatalf("the nodes' states differ: %+v", got)
		}
		return err == nil
	})
}

// wasRemoved says whether a node has ended because it is a member no more.
func wasRemoved(n *proc.Node) bool {
	return !n.Running() && strings.Contains(n.LastLog(), "removed from its cluster")
}
