package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
)

// Leaders that move, hang and come back, on one cluster, one after the other.
func TestLeaderChanges(t *testing.T) {
	c := start(t, 3)
	cl := open(t, c.Addrs()...)
	for _, tc := range []struct {
		name string
		test func(*testing.T, *proc.Cluster, *client.Client)
	}{
		{"a late ack is good at the next leader too", lateAckAcrossLeaders},
		{"leadership moves to and fro under load", transfersUnderLoad},
		{"leadership offered to a node that hangs", transferToHanging},
		{"leadership offered to a node that is far behind", transferToLaggard},
		{"a node that was away deposes nobody", returnOfAFollower},
		{"a deposed leader that wakes up hands out nothing", deposedLeader},
		{"without a majority calls end by their deadline", noMajority},
		{"living workers keep their leases, dead ones' come back", leasesAcrossKill},
		{"idle consumers go on after the leader's death", idleConsumers},
		{"a rolling restart fails no call", rollingRestart},
		{"dedup keys and delays survive everything", dedupAndDelaysSurvive},
		{"fast and mass restarts end in a whole cluster", restarts},
	} {
		if !t.Run(tc.name, func(t *testing.T) { tc.test(t, c, cl) }) {
			t.Fatal("the cluster is left as that test left it")
		}
	}
	verify(t, cl, 3)
}

// (C28)
func lateAckAcrossLeaders(t *testing.T, c *proc.Cluster, cl *client.Client) {
	create(t, cl, "late", client.QueueOptions{Retry: fixed(time.Hour, 3)})
	for range 3 {
		r := put(t, cl, "late", client.Message{})
		d := take(t, cl, "late", 100*time.Millisecond)
		becomes(t, cl, r.ID, "retrying")
		moved(t, c, cl)
		ack(t, cl, d, "late")
		ack(t, cl, d, "late")
	}
	if q := counts(t, cl, "late", [5]int64{}); q.Totals["acked"] != 3 {
		t.Errorf("%d acked, want 3", q.Totals["acked"])
	}
}

// (C2)
func transfersUnderLoad(t *testing.T, c *proc.Cluster, cl *client.Client) {
	l := NewLedger()
	stop := load(t, c, l, "transfers", 1, 1)
	more(t, l, 200, "enqueues are confirmed")
	moved := 0
	const rounds = 12
	for range rounds {
		before := status(t, cl).Leader
		err := cl.Transfer(within(t, 30*time.Second), "")
		after := status(t, cl).Leader
		switch e := new(client.Error); {
		case err == nil && after != before:
			moved++
		case err != nil && !errors.As(err, &e):
			t.Errorf("transfer: %v, want a clear error", err)
		}
		more(t, l, 50, "enqueues are confirmed after a transfer")
	}
	stop()
	r := audit(t, c, l, "transfers")
	if moved < rounds*3/4 {
		t.Errorf("leadership moved in %d of %d", moved, rounds)
	}
	if r.Refused+r.Unknown > 0 || r.LongestGap > longGap {
		t.Errorf("%d refused, %d unknown, longest gap %s; want none and less than %s", r.Refused, r.Unknown, r.LongestGap, longGap)
	}
}

// longGap is longer than the cluster is without a leader who can be written to, twice and thrice on a crowded machine, and shorter than what a
// client takes that hears nothing of it: its pings'.
const longGap = 6 * time.Second

// The offer ends with an error, the leader goes on, and whoever leads later can be written to. (C1)
func transferToHanging(t *testing.T, c *proc.Cluster, cl *client.Client) {
	for range 2 {
		old, target := leader(t, c), follower(t, c)
		thaw := freeze(t, target)
		if err := cl.Transfer(within(t, 30*time.Second), target.Name); err == nil {
			t.Errorf("leadership was handed to node %s, which hangs", target.Name)
		}
		quick(t, cl, 7*time.Second, "after an aborted transfer")
		thaw()
		for _, n := range []*proc.Node{target, old} { // there and back
			eventually(t, 30*time.Second, n.Name+" leads", func(ctx context.Context) bool {
				return n.Leads(ctx) || cl.Transfer(ctx, n.Name) == nil && n.Leads(ctx)
			})
			quick(t, cl, 7*time.Second, "at leader "+n.Name)
		}
	}
}

// (C3)
func transferToLaggard(t *testing.T, c *proc.Cluster, cl *client.Client) {
	target := follower(t, c)
	thaw := freeze(t, target)
	for range 3 { // 48 MiB
		ms := make([]client.Message, 16)
		for i := range ms {
			ms[i].Body = make([]byte, 1<<20)
		}
		if _, errs := cl.EnqueueBatch(within(t, time.Minute), "bulk", ms); errors.Join(errs...) != nil {
			t.Fatal(errors.Join(errs...))
		}
	}
	thaw()
	err := cl.Transfer(within(t, 30*time.Second), target.Name)
	quick(t, cl, 7*time.Second, fmt.Sprintf("after a transfer to a node far behind (%v)", err))
	whole(t, cl, 3)
	if err := cl.DeleteQueue(within(t, 30*time.Second), "bulk"); err != nil {
		t.Fatal(err)
	}
}

// A node that was away for many of its election time-outs comes back as a follower. A leader may step down by itself when
// the one follower left to it is late, as on a busy machine: such a round shows nothing and is made again. (C10)
func returnOfAFollower(t *testing.T, c *proc.Cluster, cl *client.Client) {
	l := NewLedger()
	ctx, cancel := context.WithCancel(t.Context())
	produced := make(chan error, 1)
	go func() { produced <- l.Produce(ctx, cl, "away", 256, 1) }()
	shown := false
	for round := 0; round < 5 && !shown; round++ {
		lead := leader(t, c)
		log, err := os.ReadFile(lead.LogFile)
		if err != nil {
			t.Fatal(err)
		}
		before := status(t, cl)
		away := follower(t, c)
		thaw := freeze(t, away)
		hold(t, 2*time.Second)
		thaw()
		more(t, l, 50, "enqueues go on")
		hold(t, 2*time.Second)
		whole(t, cl, 3)
		after := status(t, cl)
		if shown = after.Term == before.Term && after.Leader == before.Leader; shown {
			break
		}
		now, err := os.ReadFile(lead.LogFile)
		if err != nil || !strings.Contains(string(now[len(log):]), "failed to contact quorum") {
			t.Errorf("leader %s of term %d became %s of term %d when %s came back (%v)", before.Leader, before.Term, after.Leader, after.Term, away.Name, err)
		}
		t.Logf("round %d: the leader lost touch with the other follower", round+1)
	}
	if !shown {
		t.Error("no round in five kept its leader")
	}
	cancel()
	if err := <-produced; err != nil {
		t.Error(err)
	}
	for n, e := range l.sent {
		if e.refused || e.unknown {
			t.Errorf("enqueue %d was refused (%v) or unknown (%v)", n, e.refused, e.unknown)
		}
	}
	counts(t, cl, "away", [5]int64{0: int64(l.Confirmed())})
}

// hold lets time pass, which is what some faults are made of.
func hold(t *testing.T, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

// (C18, G12)
func noMajority(t *testing.T, c *proc.Cluster, cl *client.Client) {
	l := NewLedger()
	create(t, cl, "lone", client.QueueOptions{})
	lone := leader(t, c)
	var thaw []func()
	for _, n := range c.Nodes {
		if n != lone {
			thaw = append(thaw, freeze(t, n))
		}
	}
	// It does not know yet that it is alone.
	if q, err := cl.Queue(within(t, 500*time.Millisecond), "lone"); err == nil {
		t.Errorf("a read was answered without a majority: %+v", q)
	}
	const waves, each, deadline = 3, 300, time.Second
	latest := make(chan time.Duration, waves*each)
	for range waves {
		for range each {
			n, b := l.body(256)
			begin := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			err := cl.EnqueueAsync(ctx, "lone", client.Message{Body: b}, func(r client.Receipt, err error) {
				l.answered(n, r, err)
				latest <- time.Since(begin)
				cancel()
			})
			if err != nil {
				cancel()
				l.answered(n, client.Receipt{}, err)
				latest <- time.Since(begin)
			}
		}
		hold(t, deadline)
	}
	for i := range waves * each {
		select {
		case d := <-latest:
			if d > deadline+4*time.Second {
				t.Fatalf("a call took %s, want at most its deadline of %s and what a crowded machine takes", d, deadline)
			}
		case <-within(t, 10*time.Second).Done():
			t.Fatalf("only %d of %d calls have ended", i, waves*each)
		}
	}
	if n := l.Confirmed(); n > 2*each { // the first may have been under way when the others fell silent
		t.Errorf("%d enqueues were confirmed without a majority", n)
	}
	for _, f := range thaw {
		f()
	}
	quick(t, cl, 8*time.Second, "after the majority came back") // 5 s, and the loaded machine
	stop := load(t, c, l, "lone", 1, 1)
	more(t, l, 100, "enqueues are confirmed again")
	stop()
	r := audit(t, c, l, "lone")
	if r.Unknown == 0 {
		t.Log("no outcome was unknown: all were refused at the door")
	}
	whole(t, cl, 3)
}

// Workers that extend keep what they have through the leader's death, at their first attempt; what others held who died
// with it comes back after its lease, not before, and not minutes later. (C25)
func leasesAcrossKill(t *testing.T, c *proc.Cluster, cl *client.Client) {
	const many, lease = 50, 10 * time.Second // longer than a fail-over, on a crowded machine too
	ms := make([]client.Message, 2*many)
	create(t, cl, "held", client.QueueOptions{Retry: fixed(time.Millisecond, 5)})
	if _, errs := cl.EnqueueBatch(within(t, 30*time.Second), "held", ms); errors.Join(errs...) != nil {
		t.Fatal(errors.Join(errs...))
	}
	begin := time.Now()
	all, err := cl.Lease(within(t, 30*time.Second), "held", client.LeaseOptions{Max: 2 * many, Lease: lease})
	if err != nil || len(all) != 2*many {
		t.Fatalf("leased %d, %v", len(all), err)
	}
	living, dead := all[:many], map[string]bool{}
	for _, d := range all[many:] {
		dead[d.ID] = true
	}
	ctx, stop := context.WithCancel(t.Context())
	extended := make(chan error, many)
	for _, d := range living {
		go func() {
			tick := time.NewTicker(time.Second)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					if _, err := cl.Extend(context.WithoutCancel(ctx), d.Token, lease); err != nil {
						extended <- fmt.Errorf("extend %s: %w", d.ID, err)
						return
					}
				case <-ctx.Done():
					extended <- nil
					return
				}
			}
		}()
	}
	victim := leader(t, c)
	victim.Kill()
	for len(dead) > 0 {
		d := take(t, cl, "held", time.Minute)
		since := time.Since(begin)
		if !dead[d.ID] || d.Attempt != 2 {
			t.Fatalf("%s came at attempt %d after %s: a living worker's", d.ID, d.Attempt, since)
		}
		if since < lease*94/100-50*time.Millisecond || since > lease+15*time.Second {
			t.Errorf("%s came back after %s, want the lease and the fail-over", d.ID, since)
		}
		delete(dead, d.ID)
		ack(t, cl, d, "second")
	}
	stop()
	for range many {
		if err := <-extended; err != nil {
			t.Error(err)
		}
	}
	for _, d := range living {
		ack(t, cl, d, "first")
	}
	if q := counts(t, cl, "held", [5]int64{}); q.Totals["expired"] != many || q.Totals["acked"] != 2*many {
		t.Errorf("%d expired, %d acked, want %d and %d", q.Totals["expired"], q.Totals["acked"], many, 2*many)
	}
	revive(t, cl, victim)
}

// revive starts a killed node and waits until the cluster is whole.
func revive(t *testing.T, cl *client.Client, n *proc.Node) {
	t.Helper()
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	if err := n.WaitReady(within(t, time.Minute)); err != nil {
		log, _ := os.ReadFile(n.LogFile)
		t.Fatalf("%v\n%s", err, tail(log, 2000))
	}
	whole(t, cl, 3)
}

// (C33)
func idleConsumers(t *testing.T, c *proc.Cluster, cl *client.Client) {
	const consumers, messages = 24, 300
	ctx, stop := context.WithCancel(t.Context())
	got := make(chan string, messages*2)
	ended := make(chan error, consumers)
	create(t, cl, "idle", client.QueueOptions{})
	for i := range consumers {
		worker := open(t, c.Addrs()[i%3], c.Addrs()[(i+1)%3], c.Addrs()[(i+2)%3])
		if i%2 == 0 {
			go func() {
				ended <- worker.Consume(ctx, "idle", client.ConsumeOptions{Lease: time.Minute}, func(_ context.Context, d *client.Delivery) (*client.Result, error) {
					got <- d.ID
					return nil, nil
				})
			}()
			continue
		}
		go func() {
			for ctx.Err() == nil {
				ds, err := worker.Lease(ctx, "idle", client.LeaseOptions{Max: 4, Wait: 30 * time.Second, Lease: time.Minute})
				if err != nil && ctx.Err() == nil {
					ended <- err
					return
				}
				for _, d := range ds {
					if _, err := worker.Ack(context.WithoutCancel(ctx), d.Token, client.AckOptions{}); err != nil {
						ended <- err
						return
					}
					got <- d.ID
				}
			}
			ended <- nil
		}()
	}
	put(t, cl, "idle", client.Message{})
	first := <-got
	victim := leader(t, c)
	victim.Kill()
	begin := time.Now()
	if _, errs := cl.EnqueueBatch(within(t, time.Minute), "idle", make([]client.Message, messages)); errors.Join(errs...) != nil {
		t.Fatal(errors.Join(errs...))
	}
	seen := map[string]bool{first: true}
	for deadline := within(t, 30*time.Second); len(seen) < messages+1; {
		select {
		case id := <-got:
			seen[id] = true
		case err := <-ended:
			t.Fatalf("a consumer ended: %v", err)
		case <-deadline.Done():
			t.Fatalf("%d of %d delivered", len(seen), messages+1)
		}
	}
	t.Logf("%d messages delivered %s after the leader's death", messages, time.Since(begin))
	stop()
	for range consumers {
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	revive(t, cl, victim)
}

// Stopping and starting each node in turn, leaders included, fails no call and stalls none for long. (C24)
func rollingRestart(t *testing.T, c *proc.Cluster, cl *client.Client) {
	l := NewLedger()
	stop := load(t, c, l, "rolling", 1, 1)
	for _, n := range c.Nodes {
		more(t, l, 200, "enqueues are confirmed")
		if err := n.Stop(); err != nil {
			t.Error(err)
		}
		more(t, l, 200, "enqueues are confirmed with "+n.Name+" stopped")
		revive(t, cl, n)
	}
	stop()
	if r := audit(t, c, l, "rolling"); r.Refused+r.Unknown > 0 || r.LongestGap > longGap {
		t.Errorf("%d refused, %d unknown, longest gap %s; want none and less than %s", r.Refused, r.Unknown, r.LongestGap, longGap)
	}
}

// A dedup key holds through ack, purge, change of leader and the restart of all; only the queue's deletion ends it. Delayed
// messages come once and none early through the same. (C34, C50)
func dedupAndDelaysSurvive(t *testing.T, c *proc.Cluster, cl *client.Client) {
	const delay, many = 8 * time.Second, 300
	m := client.Message{Body: []byte("b"), DedupKey: []byte("k")}
	first := put(t, cl, "dedup", m)
	again := func(when string) {
		t.Helper()
		if r := put(t, cl, "dedup", m); !r.Duplicate || r.ID != first.ID {
			t.Errorf("%s: %+v, want a duplicate of %s", when, r, first.ID)
		}
	}
	late := make([]client.Message, many)
	for i := range late {
		late[i].Delay = delay
	}
	typed := client.Message{Body: []byte{0xff, 0, 1}, Key: []byte{0, 0xfe}}
	for _, v := range []string{"1", "-1", "1.0", "9223372036854775808", "null", "true", "", "☃"} {
		typed.Headers = append(typed.Headers, client.Header{Name: "v", Value: v})
	}
	put(t, cl, "typed", typed)
	rs, errs := cl.EnqueueBatch(within(t, 30*time.Second), "delayed", late)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	ack(t, cl, take(t, cl, "dedup", time.Minute), "")
	again("after the ack")
	if _, err := cl.PurgeQueue(within(t, 30*time.Second), "dedup"); err != nil {
		t.Fatal(err)
	}
	again("after a purge")
	moved(t, c, cl)
	again("at another leader")
	c.Kill()
	if err := c.Start(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	again("after the restart of all")
	d := take(t, cl, "typed", time.Minute)
	if !bytes.Equal(d.Body, typed.Body) || !bytes.Equal(d.Key, typed.Key) || !slices.Equal(d.Headers, typed.Headers) {
		t.Errorf("after the restart of all body %x, key %x, headers %q; want %x, %x, %q", d.Body, d.Key, d.Headers, typed.Body, typed.Key, typed.Headers)
	}
	ack(t, cl, d, "")

	seen := map[string]int{}
	got := make(chan *client.Delivery, many*2)
	sub, err := cl.Subscribe(within(t, 30*time.Second), "delayed", client.SubscribeOptions{Credit: many * 2, Lease: time.Minute}, func(d *client.Delivery) { got <- d })
	if err != nil {
		t.Fatal(err)
	}
	for deadline := within(t, 60*time.Second); len(seen) < many; {
		select {
		case d := <-got:
			seen[d.ID]++
			// By log time, which delays follow; it may have fallen behind the wall's while there was no leader, and make up
			// for that when all start anew.
			if a := ack(t, cl, d, ""); a.Time-rs[0].Time < delay.Milliseconds() {
				t.Fatalf("%s came after %d ms, want %s", d.ID, a.Time-rs[0].Time, delay)
			}
		case <-deadline.Done():
			t.Fatalf("%d of %d delayed messages came", len(seen), many)
		}
	}
	for _, r := range rs {
		if seen[r.ID] != 1 {
			t.Errorf("%s came %d times", r.ID, seen[r.ID])
		}
	}
	counts(t, cl, "delayed", [5]int64{})
	if err := sub.Close(within(t, 30*time.Second)); err != nil {
		t.Error(err)
	}
	if err := cl.DeleteQueue(within(t, 30*time.Second), "dedup"); err != nil {
		t.Fatal(err)
	}
	if r := put(t, cl, "dedup", m); r.Duplicate {
		t.Error("the key outlives its queue")
	}
}

// Nodes that come back at once, alone after a kill or a stop, or all together, are members again. (C14, C16, C12)
func restarts(t *testing.T, c *proc.Cluster, cl *client.Client) {
	for i, n := range c.Nodes {
		if i%2 == 0 {
			n.Kill()
		} else if err := n.Stop(); err != nil {
			t.Error(err)
		}
		revive(t, cl, n)
	}
	for range 3 {
		c.Kill()
		if err := c.Start(within(t, time.Minute)); err != nil {
			t.Fatal(err)
		}
		whole(t, cl, 3)
		quick(t, cl, 7*time.Second, "after a mass restart")
	}
}
