package group

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/quorate/quorate/fsm"
)

// G11: what an error of raft means to those who wait.
func TestClassify(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err     error
		code    string
		unknown bool
	}{
		{raft.ErrNotLeader, CodeNoLeader, false},
		{raft.ErrEnqueueTimeout, CodeOverloaded, false},
		{raft.ErrLeadershipTransferInProgress, CodeNoLeader, false},
		{raft.ErrLeadershipLost, CodeTimeout, true},
		{raft.ErrRaftShutdown, CodeTimeout, true},
		{raft.ErrAbortedByRestore, CodeTimeout, true},
		{errDisk, CodeTimeout, true},
		{fmt.Errorf("wrapped: %w", raft.ErrNotLeader), CodeNoLeader, false},
	} {
		got, refused := classify(test.err)
		if got.Code != test.code || got.Unknown != test.unknown || refused == test.unknown {
			t.Errorf("%v: %+v, refused %v; want %s, unknown %v", test.err, got, refused, test.code, test.unknown)
		}
	}
}

func TestIntake(t *testing.T) {
	t.Parallel()
	of := func(tag uint64, size int, deadline time.Duration) *Proposal {
		return &Proposal{Tag: tag, Op: make([]byte, size), Deadline: deadline}
	}
	tags := func(ps []*Proposal) (out []uint64) {
		for _, p := range ps {
			out = append(out, p.Tag)
		}
		return out
	}
	var q intake
	for i := range uint64(6) {
		q.push(of(i, 100, time.Duration(i)*time.Second)) // 0: none
	}
	q.push(of(6, 5000, 0))
	q.push(of(7, 10, 0))
	steps := []struct {
		name string
		got  func() []uint64
		want string
	}{
		{"by operations", func() []uint64 { return tags(q.take(nil, 2, 1000)) }, "[0 1]"},
		{"by bytes", func() []uint64 { return tags(q.take(nil, 10, 250)) }, "[2 3]"},
		{"none has expired", func() (out []uint64) {
			for p := q.expired(3 * time.Second); p != nil; p = p.next {
				out = append(out, p.Tag)
			}
			return out
		}, "[]"},
		{"one has", func() (out []uint64) {
			for p := q.expired(4500 * time.Millisecond); p != nil; p = p.next {
				out = append(out, p.Tag)
			}
			return out
		}, "[4]"},
		{"not with one too large", func() []uint64 { return tags(q.take(nil, 10, 1000)) }, "[5]"},
		{"which goes alone", func() []uint64 { return tags(q.take(nil, 10, 1000)) }, "[6]"},
		{"the rest on closing", func() (out []uint64) {
			for p := q.close(); p != nil; p = p.next {
				out = append(out, p.Tag)
			}
			return out
		}, "[7]"},
	}
	for _, step := range steps {
		if got := fmt.Sprint(step.got()); got != step.want {
			t.Errorf("%s: %s, want %s", step.name, got, step.want)
		}
	}
	if n, b := q.size(); n != 0 || b != 0 {
		t.Errorf("%d of %d bytes left", n, b)
	}
}

// sink records what a snapshot is written with.
type sink struct {
	raft.SnapshotSink
	writes            []int
	fail              error
	closed, cancelled bool
}

func (s *sink) Write(p []byte) (int, error) {
	if s.fail != nil {
		return 0, s.fail
	}
	s.writes = append(s.writes, len(p))
	return len(p), nil
}
func (s *sink) Close() error  { s.closed = true; return nil }
func (s *sink) Cancel() error { s.cancelled = true; return nil }

func TestPersist(t *testing.T) {
	t.Parallel()
	st := fsm.New(0)
	defer st.Close()
	var fx fsm.Effects
	data := fsm.AppendOp(fsm.AppendEntryHeader(nil, 1000, 0), &fsm.Bootstrap{Cluster: testCluster16, Epoch: 1})
	check(t, st.Apply(1, data, &fx))
	for i := range 500 {
		op := fsm.AppendOp(fsm.AppendEntryHeader(nil, 1000, 0), enqueue("q", string(make([]byte, 1000))))
		check(t, st.Apply(uint64(i+2), op, &fx))
	}
	good := &sink{}
	s := &snapshot{view: st.View()}
	check(t, s.Persist(good))
	s.Release()
	if !good.closed || good.cancelled || len(good.writes) < 4 {
		t.Fatalf("closed %v, cancelled %v, %d writes", good.closed, good.cancelled, len(good.writes))
	}
	for _, n := range good.writes[:len(good.writes)-2] { // the last two are what is left, and the end
		if n < 64<<10 {
			t.Errorf("a write of %d bytes, want 64 KiB at least: it is what the sink sums up at once", n)
		}
	}
	bad := &sink{fail: errDisk}
	s = &snapshot{view: st.View()}
	defer s.Release()
	if err := s.Persist(bad); !errors.Is(err, errDisk) || !bad.cancelled || bad.closed {
		t.Errorf("failing sink: %v, cancelled %v, closed %v", err, bad.cancelled, bad.closed)
	}
}

func TestMetrics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		metrics := map[raft.ServerID]*Metrics{}
		c := newCluster(t, 3, func(cfg *Config) {
			if metrics[cfg.LocalID] == nil {
				metrics[cfg.LocalID] = NewMetrics(prometheus.Labels{"group": "0"})
			}
			cfg.Metrics = metrics[cfg.LocalID]
		})
		defer c.stop()
		l := c.leader()
		s, _, _ := l.attach(t)
		must(t, s.Subscribe(1, "q", 10, 0, "w"))
		for range 5 {
			l.do(t, enqueue("q", "x"))
		}
		pass(100 * time.Millisecond)
		c.followers()[0].send(enqueue("q", "x")).wait(t)
		check(t, l.g.Raft().Snapshot().Error())
		value := func(m *Metrics, name string) float64 {
			reg := prometheus.NewRegistry()
			reg.MustRegister(m.Collectors()...)
			families, err := reg.Gather()
			check(t, err)
			for _, f := range families {
				if f.GetName() != "quorate_group_"+name {
					continue
				}
				one := f.GetMetric()[0]
				switch {
				case one.Gauge != nil:
					return one.Gauge.GetValue()
				case one.Counter != nil:
					return one.Counter.GetValue()
				case one.Histogram != nil:
					return float64(one.Histogram.GetSampleCount())
				}
			}
			t.Errorf("no metric %s", name)
			return -1
		}
		for name, want := range map[string]float64{
			"leading": 1, "leader_changes_total": 1, "entries_total": 6, "entry_operations": 6, "commit_seconds": 6,
			"delivered_total": 5, "sessions": 1, "subscriptions": 1, "inflight_entries": 0, "waiting_operations": 0, "snapshot_hold_seconds": 1,
		} {
			if got := value(metrics[l.id], name); got != want {
				t.Errorf("%s is %v on the leader, want %v", name, got, want)
			}
		}
		f := metrics[c.followers()[0].id]
		if leading, refused := value(f, "leading"), value(f, "refused_total"); leading != 0 || refused != 1 {
			t.Errorf("follower: leading %v, refused %v; want 0 and 1", leading, refused)
		}
	})
}
