package group

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/quorate/quorate/fsm"
)

// deafTransport never gets an answer to the request that a transfer ends with.
type deafTransport struct {
	*raft.InmemTransport
	deaf *atomic.Bool
	end  chan struct{}
}

func (d *deafTransport) TimeoutNow(id raft.ServerID, target raft.ServerAddress, args *raft.TimeoutNowRequest,
	resp *raft.TimeoutNowResponse,
) error {
	if d.deaf.Load() {
		<-d.end
		return errors.New("injected: no answer")
	}
	return d.InmemTransport.TimeoutNow(id, target, args, resp)
}

// newStuckTransfer is a cluster whose leader waits for the answer to a transfer's last request, until end is closed.
func newStuckTransfer(t *testing.T) (c *cluster, leader *node, end chan struct{}) {
	var deaf atomic.Bool
	end = make(chan struct{})
	c = newCluster(t, 3, func(cfg *Config) {
		cfg.Transport = &deafTransport{InmemTransport: cfg.Transport.(*raft.InmemTransport), deaf: &deaf, end: end}
		cfg.Limits.WatchdogAfter = 3 * time.Second
	})
	leader = c.leader()
	deaf.Store(true)
	if err := leader.g.Raft().LeadershipTransfer().Error(); err == nil {
		t.Error("a transfer without an answer succeeded")
	}
	return c, leader, end
}

// C1 (hashicorp/raft#696): a transfer whose last request hangs leaves a leader that refuses every entry. Callers get
// refusals, never a hang, and the watchdog ends the node.
func TestStuckTransfer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, l, end := newStuckTransfer(t)
		began := time.Now()
		failed := false
		for !failed && time.Since(began) < 20*time.Second {
			a := l.send(enqueue("q", "x")).wait(t)
			if a.err == nil || a.err.Unknown || a.err.Code != CodeNoLeader {
				t.Fatalf("proposal during a stuck transfer: %+v, want no_leader", a.err)
			}
			select {
			case err := <-l.fatal:
				t.Logf("fatal after %v: %v", time.Since(began), err)
				failed = true
			case <-time.After(10 * time.Millisecond):
			}
		}
		if !failed {
			t.Error("the watchdog let the leader be")
		}
		close(end)
		c.stop()
	})
}

// A transfer that hangs is noticed by those who write now and then, too.
func TestStuckTransferUnderSparseWrites(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, l, end := newStuckTransfer(t)
		for range 6 {
			l.send(enqueue("q", "x")).wait(t)
			pass(2500 * time.Millisecond)
		}
		select {
		case err := <-l.fatal:
			t.Logf("fatal: %v", err)
		default:
			t.Error("the watchdog let the leader be")
		}
		close(end)
		c.stop()
	})
}

// A refusal during a transfer that is over is no reason to end a leader to whom nobody has written since.
func TestRefusedOnceLongAgo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, l, end := newStuckTransfer(t)
		defer c.stop()
		if a := l.send(enqueue("q", "x")).wait(t); a.err == nil {
			t.Error("an entry was taken during the transfer")
		}
		close(end) // the last request is answered, and the transfer over
		pass(20 * time.Second)
		l = c.leader()
		l.do(t, enqueue("q", "y"))
	})
}

// C2: transfers under load. Each ends in a new leader or an error, writing goes on at once, nothing is lost.
func TestTransfersUnderLoad(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		var stop atomic.Bool
		type tally struct {
			confirmed, unknown, refused int
			gap                         time.Duration
		}
		done := make(chan tally)
		go func() {
			var n tally
			last := time.Now()
			for !stop.Load() {
				for _, nd := range c.nodes {
					if !nd.g.Status().Leader {
						continue
					}
					switch a := <-nd.send(enqueue("q", "x")).end; {
					case a.err == nil:
						n.confirmed++
						n.gap = max(n.gap, time.Since(last))
						last = time.Now()
					case a.err.Unknown:
						n.unknown++
					default:
						n.refused++
					}
				}
				pass(time.Millisecond)
			}
			done <- n
		}()
		moved := 0
		for range 100 {
			l := c.leader()
			if err := l.g.Raft().LeadershipTransfer().Error(); err == nil && c.leader() != l {
				moved++
			}
			pass(20 * time.Millisecond)
		}
		stop.Store(true)
		n := <-done
		t.Logf("%d of 100 moved; %+v", moved, n)
		if moved < 80 || n.confirmed < 1000 || n.gap > 500*time.Millisecond {
			t.Errorf("%d of 100 moved, %d confirmed, longest gap %v", moved, n.confirmed, n.gap)
		}
		if got := int(c.leader().stats("q").Ready); got < n.confirmed || got > n.confirmed+n.unknown {
			t.Errorf("%d messages, %d confirmed, %d unknown", got, n.confirmed, n.unknown)
		}
		c.agree()
	})
}

// C20: many at the size limit are served in turn, within the bound on what is in flight, and without an election; one
// byte too much is refused.
func TestBigEntries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		term := l.g.Status().Term
		body := string(make([]byte, fsm.DefaultMaxBodyBytes))
		var ones []*one
		for range 60 {
			ones = append(ones, l.send(enqueue("q", body)))
			if n := l.g.inFlightBytes.Load(); n > 8<<20+fsm.DefaultMaxBodyBytes+1024 {
				t.Fatalf("%d bytes in flight", n)
			}
		}
		confirmed := 0
		for _, o := range ones {
			switch a := o.wait(t); {
			case a.err == nil:
				confirmed++
			case a.err.Code != CodeOverloaded || a.err.Unknown:
				t.Errorf("%+v, want success or overloaded", a.err)
			}
		}
		if want := int(l.g.limits.QueuedBytes) / len(fsm.AppendOp(nil, enqueue("q", body))); confirmed < want { // the proposer may not have run yet
			t.Errorf("%d confirmed, want at least the %d that may be queued", confirmed, want)
		}
		limit := int(l.g.maxOp)
		over := newOne()
		before, after := newOne(), newOne()
		ok := fsm.AppendOp(nil, enqueue("q", "x"))
		l.g.Propose(&Proposal{Op: ok, Done: before}, &Proposal{Op: make([]byte, limit+1), Done: over}, &Proposal{Op: ok, Done: after})
		if a := over.wait(t); a.err == nil || a.err.Code != CodeTooLarge || a.err.Unknown {
			t.Errorf("over the limit: %+v", a.err)
		}
		if a, b := before.wait(t), after.wait(t); a.err != nil || b.err != nil {
			t.Errorf("neighbours: %v, %v", a.err, b.err)
		}
		if got := l.g.Status(); got.Term != term || !got.Leader {
			t.Errorf("term %d became %d", term, got.Term)
		}
		c.agree()
	})
}
