package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
)

// fixed is the retry policy of one wait, for so many attempts.
func fixed(wait time.Duration, attempts int) *client.RetryPolicy {
	return &client.RetryPolicy{Kind: "fixed", Initial: wait, MaxAttempts: attempts}
}

// create makes a queue.
func create(t *testing.T, cl *client.Client, queue string, o client.QueueOptions) {
	t.Helper()
	if err := cl.CreateQueue(within(t, 30*time.Second), queue, o); err != nil {
		t.Fatal(err)
	}
}

// put enqueues one message.
func put(t *testing.T, cl *client.Client, queue string, m client.Message) client.Receipt {
	t.Helper()
	r, err := cl.Enqueue(within(t, 30*time.Second), queue, m)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// take leases exactly one message, waiting for it.
func take(t *testing.T, cl *client.Client, queue string, lease time.Duration) *client.Delivery {
	t.Helper()
	ds, err := cl.Lease(within(t, 60*time.Second), queue, client.LeaseOptions{Max: 1, Wait: 30 * time.Second, Lease: lease})
	if err != nil || len(ds) != 1 {
		t.Fatalf("leased %d messages of %s (%v), want one", len(ds), queue, err)
	}
	return ds[0]
}

// ack ends a lease with a result.
func ack(t *testing.T, cl *client.Client, d *client.Delivery, output string) client.Acked {
	t.Helper()
	a, err := cl.Ack(within(t, 30*time.Second), d.Token, client.AckOptions{Result: &client.Result{Output: []byte(output)}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// nack ends a lease with failure; a negative wait leaves it to the policy.
func nack(t *testing.T, cl *client.Client, d *client.Delivery, wait time.Duration) client.Nacked {
	t.Helper()
	o := client.NackOptions{Error: "no"}
	if wait >= 0 {
		o.Delay = &wait
	}
	n, err := cl.Nack(within(t, 30*time.Second), d.Token, o)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// task reads where a task stands.
func task(t *testing.T, cl *client.Client, id string) *client.Task {
	t.Helper()
	got, err := cl.Task(within(t, 30*time.Second), "", id)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// becomes waits until a task has the status.
func becomes(t *testing.T, cl *client.Client, id, status string) *client.Task {
	t.Helper()
	var last *client.Task
	eventually(t, 30*time.Second, id+" is "+status, func(ctx context.Context) bool {
		got, err := cl.Task(ctx, "", id)
		if err == nil {
			last = got
		}
		return err == nil && got.Status == status
	})
	return last
}

// counts demands a queue's numbers: pending, processing, scheduled, retrying, dead.
func counts(t *testing.T, cl *client.Client, queue string, want [5]int64) client.QueueInfo {
	t.Helper()
	q, err := cl.Queue(within(t, 30*time.Second), queue)
	if err != nil {
		t.Fatal(err)
	}
	if got := [5]int64{q.Pending, q.Processing, q.Scheduled, q.Retrying, q.Dead}; got != want {
		t.Errorf("queue %s has pending, processing, scheduled, retrying, dead %v, want %v", queue, got, want)
	}
	return q
}

// refused demands an error of a kind whose outcome is certain: nothing happened.
func refused(t *testing.T, what string, err, want error) *client.Error {
	t.Helper()
	var e *client.Error
	if !errors.Is(err, want) || !errors.As(err, &e) {
		t.Errorf("%s: got %v, want %v", what, err, want)
		return &client.Error{}
	}
	if e.Unknown {
		t.Errorf("%s: the outcome is unknown, want refused: %v", what, err)
	}
	return e
}

// stale demands that every use of a token is refused with the error.
func stale(t *testing.T, cl *client.Client, what, token string, want error) {
	t.Helper()
	ctx := within(t, 30*time.Second)
	_, err := cl.Ack(ctx, token, client.AckOptions{Result: &client.Result{Output: []byte("stale")}})
	refused(t, "ack with "+what, err, want)
	_, err = cl.Nack(ctx, token, client.NackOptions{Error: "stale"})
	refused(t, "nack with "+what, err, want)
	_, err = cl.Extend(ctx, token, time.Minute)
	refused(t, "extend with "+what, err, want)
	refused(t, "release with "+what, cl.Release(ctx, token), want)
}

// leader is the node that leads; it waits for one.
func leader(t *testing.T, c *proc.Cluster) *proc.Node {
	t.Helper()
	n, err := c.Leader(within(t, 30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// follower is a node that does not lead.
func follower(t *testing.T, c *proc.Cluster) *proc.Node {
	t.Helper()
	l := leader(t, c)
	for _, n := range c.Nodes {
		if n != l {
			return n
		}
	}
	panic("a cluster of one")
}

// moved has another node lead. An offer of leadership that is not taken within an election time-out has failed, as on a crowded machine it may,
// and is made again.
func moved(t *testing.T, c *proc.Cluster, cl *client.Client) {
	t.Helper()
	before := leader(t, c)
	eventually(t, 60*time.Second, "another node leads", func(ctx context.Context) bool {
		_ = cl.Transfer(ctx, "") // what came of it is seen
		now, err := c.Leader(ctx)
		return err == nil && now != before
	})
}

// status is the cluster as its leader sees it; it waits for one.
func status(t *testing.T, cl *client.Client) client.ClusterStatus {
	t.Helper()
	var s client.ClusterStatus
	eventually(t, 30*time.Second, "the cluster's status", func(ctx context.Context) (ok bool) {
		var err error
		s, err = cl.ClusterStatus(ctx)
		return err == nil && s.Leader != ""
	})
	return s
}

// whole waits until all nodes are voters, alive, and one leads.
func whole(t *testing.T, cl *client.Client, nodes int) {
	t.Helper()
	var last client.ClusterStatus
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("last status: %+v", last)
		}
	})
	eventually(t, 60*time.Second, "every node is an alive voter", func(ctx context.Context) bool {
		s, err := cl.ClusterStatus(ctx)
		if err != nil || len(s.Nodes) != nodes || s.Leader == "" {
			return false
		}
		last = s
		for _, n := range s.Nodes {
			if !n.Voter || !n.Alive || n.Role == "" {
				return false
			}
		}
		return true
	})
}

// freeze stops a process as SIGSTOP does, and returns when it stands still; the returned function, and the test's end, thaw it.
func freeze(t *testing.T, n *proc.Node) (thaw func()) {
	t.Helper()
	n.Signal(syscall.SIGSTOP)
	eventually(t, 10*time.Second, "the process stands still", func(context.Context) bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.Pid()))
		// "pid (name) state …", where the name may hold anything
		return err == nil && bytes.HasPrefix(b[bytes.LastIndexByte(b, ')')+1:], []byte(" T"))
	})
	thaw = func() { n.Signal(syscall.SIGCONT) }
	t.Cleanup(thaw)
	return thaw
}

// more waits until so many further enqueues are confirmed.
func more(t *testing.T, l *Ledger, n int, what string) {
	t.Helper()
	want := l.Confirmed() + n
	eventually(t, 60*time.Second, what, func(context.Context) bool { return l.Confirmed() >= want })
}

// quick demands that an enqueue is confirmed within the bound.
func quick(t *testing.T, cl *client.Client, bound time.Duration, when string) {
	t.Helper()
	begin := time.Now()
	if _, err := cl.Enqueue(within(t, time.Minute), "quick", client.Message{}); err != nil {
		t.Fatalf("enqueue %s: %v", when, err)
	}
	if since := time.Since(begin); since > bound {
		t.Errorf("an enqueue %s took %s, want less than %s", when, since, bound)
	}
}
