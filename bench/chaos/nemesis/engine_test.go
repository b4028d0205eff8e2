package nemesis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/bench/proc"
)

// idle is an engine whose nodes do not run.
func idle(nodes int) *engine {
	e := &engine{cfg: Config{Log: func(string, ...any) {}}, sched: &Schedule{Nodes: nodes}, net: make(chan struct{}, 1), members: make(chan struct{}, 1)}
	e.net <- struct{}{}
	e.members <- struct{}{}
	for i := range nodes {
		m := &member{Node: &proc.Node{Process: proc.Process{Name: fmt.Sprintf("n%d", i+1)}}, token: make(chan struct{}, 1)}
		m.token <- struct{}{}
		e.nodes = append(e.nodes, m)
	}
	return e
}

func (e *engine) fault(ctx context.Context, f Fault) *strike {
	return &strike{Fault: f, engine: e, ctx: ctx, rng: rand.New(rand.NewPCG(1, 2))}
}

// A fault has its nodes alone: another one takes others, or waits, or is skipped.
func TestTake(t *testing.T) {
	for _, c := range []struct {
		target string
		nodes  int
		want   int
	}{
		{"minority", 3, 1}, {"minority", 4, 1}, {"minority", 5, 2}, {"majority", 3, 2}, {"majority", 4, 3}, {"majority", 5, 3}, {"all", 5, 5}, {"n2", 3, 1}, {"n3,n1", 3, 2},
	} {
		t.Run(fmt.Sprintf("%s of %d", c.target, c.nodes), func(t *testing.T) {
			e := idle(c.nodes)
			s := e.fault(t.Context(), Fault{Target: c.target})
			_, giveBack, err := s.take()
			if err != nil || len(s.On) != c.want {
				t.Fatalf("took %v (%v), want %d", s.On, err, c.want)
			}
			for _, label := range strings.Split(c.target, ",") {
				if label[0] == 'n' && !slices.Contains(s.On, label) {
					t.Errorf("took %v", s.On)
				}
			}
			left := 0
			for _, m := range e.nodes {
				left += len(m.token)
			}
			if left != c.nodes-c.want {
				t.Errorf("%d nodes are left to others, want %d", left, c.nodes-c.want)
			}
			giveBack()
			if _, _, err := e.fault(t.Context(), Fault{Target: "all"}).take(); err != nil {
				t.Errorf("what was given back cannot be had: %v", err)
			}
		})
	}
	t.Run("in its way", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e := idle(3)
			_, giveBack, err := e.fault(t.Context(), Fault{Target: "n2"}).take()
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := e.fault(t.Context(), Fault{Target: "all"}).take(); !errors.Is(err, errSkipped) {
				t.Errorf("%v, want that it is skipped", err)
			}
			for i, m := range e.nodes {
				if (len(m.token) == 1) == (i == 1) {
					t.Errorf("after a fault that was skipped, node %s is free: %v", m.Name, len(m.token) == 1)
				}
			}
			time.AfterFunc(time.Second, giveBack)
			if _, _, err := e.fault(t.Context(), Fault{Target: "majority"}).take(); err != nil {
				t.Errorf("two of three were free: %v", err)
			}
		})
	})
	t.Run("one out of the cluster at a time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e := idle(5)
			done, err := e.fault(t.Context(), Fault{Target: "follower"}).alone()
			if err != nil {
				t.Fatal(err)
			}
			for _, kind := range []string{"remove", "replace", "wiped"} {
				if err := faultKinds[kind].run(e.fault(t.Context(), Fault{Kind: kind, Target: "n2"})); !errors.Is(err, errSkipped) {
					t.Errorf("%s: %v, want that it is skipped", kind, err)
				}
			}
			time.AfterFunc(time.Second, done)
			if _, err := e.fault(t.Context(), Fault{Target: "follower"}).alone(); err != nil {
				t.Errorf("the first was done in time: %v", err)
			}
		})
	})
	t.Run("no leader", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			if _, _, err := idle(3).fault(t.Context(), Fault{Target: "leader"}).take(); !errors.Is(err, errSkipped) || !strings.Contains(err.Error(), "no leader") {
				t.Errorf("%v", err)
			}
		})
	})
}

// A process that ends while no fault is at it is a problem, and is none where one is.
func TestWatch(t *testing.T) {
	for name, doomed := range map[string]bool{"by itself": false, "by a fault": true} {
		t.Run(name, func(t *testing.T) {
			e := idle(1)
			m := e.nodes[0]
			m.Binary, m.Args, m.LogFile = "sleep", []string{"600"}, filepath.Join(t.TempDir(), "log")
			if err := m.Start(); err != nil {
				t.Fatal(err)
			}
			e.watch(m)
			if doomed {
				e.kill(e.nodes)
			} else {
				m.Signal(syscall.SIGKILL)
			}
			m.watched.Wait()
			if n := len(e.problems); (n == 0) != doomed {
				t.Errorf("problems: %q", e.problems)
			}
		})
	}
}

// A cgroup's quota holds a process down, and its removal lets it go.
func TestThrottle(t *testing.T) {
	if !MeansHere().CPU {
		t.Skip("no cgroup with a CPU quota can be made here")
	}
	e := idle(1)
	m := e.nodes[0]
	m.Binary, m.Args, m.LogFile = "sleep", []string{"600"}, filepath.Join(t.TempDir(), "log")
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	defer m.Kill()
	c, err := newCgroup("test")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.limit(m.Pid(), 5); err != nil {
		t.Fatal(err)
	}
	read := func(file string) string {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(b))
	}
	if got := read(filepath.Join(c.dir, "cpu.cfs_quota_us")); got != "5000" {
		t.Errorf("the quota is %s µs of %d", got, quotaPeriod)
	}
	in := func() bool {
		return strings.Contains(read(fmt.Sprintf("/proc/%d/cgroup", m.Pid())), filepath.Base(c.dir))
	}
	if !in() {
		t.Error("the process is not in the cgroup")
	}
	if err := c.remove(); err != nil {
		t.Fatal(err)
	}
	if in() {
		t.Error("the process is still in the cgroup")
	}
}
