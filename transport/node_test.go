package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/wire"
)

// station is a real group with doors, its stores and network in memory.
type station struct {
	nodeGroup
	id    raft.ServerID
	addr  string // of the doors
	doors *Server
	mates []*station
	trans *raft.InmemTransport
	down  atomic.Bool
}

func (s *station) Clock() group.Clock { return realClock{} }
func (s *station) Label() string      { return string(s.id) }
func (s *station) Cluster() string    { return fmt.Sprintf("%x", s.nodeGroup.Cluster()) }
func (s *station) Group(uint16) Group { return s.nodeGroup }
func (s *station) Ready() (bool, string) {
	if !s.Status().Ready {
		return false, "no leader"
	}
	return true, ""
}

func (s *station) Members(context.Context) (cluster.Members, error) {
	m := cluster.Members{Leader: string(s.Status().LeaderID), Term: s.Status().Term}
	for _, o := range s.mates {
		m.Nodes = append(m.Nodes, cluster.Member{Label: string(o.id), UUID: string(o.id), Voter: true, Alive: !o.down.Load(), ClientAddr: o.addr})
	}
	return m, nil
}

func (s *station) Transfer(context.Context, string) error {
	return s.Raft().LeadershipTransfer().Error()
}

func (s *station) Remove(_ context.Context, node string) error {
	return errors.New("removing " + node + " would leave no majority")
}

// stations starts n of them and gives the leader first.
func stations(t testing.TB, n int, cfg Config) []*station {
	t.Helper()
	return stationsWith(t, n, cfg, nil)
}

// calm starts stations that keep their leader on a busy machine too, for tests of what stays open as long as he leads.
func calm(t testing.TB, n int, cfg Config) []*station {
	t.Helper()
	return stationsWith(t, n, cfg, func(c *raft.Config) {
		c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = 1500*time.Millisecond, 1500*time.Millisecond, 1500*time.Millisecond
	})
}

// handOver has a leader lead no longer. A hand-over that takes too long on a busy machine has failed, and is tried again.
func handOver(t testing.TB, s *station) {
	t.Helper()
	waitFor(t, func() bool { return s.Raft().LeadershipTransfer().Error() == nil || !s.Status().Leader })
}

// stationsWith starts stations with settings of raft's.
func stationsWith(t testing.TB, n int, cfg Config, settings func(*raft.Config)) []*station {
	t.Helper()
	all := make([]*station, n)
	listeners := make([]net.Listener, n)
	var servers []raft.Server
	for i := range all {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprintf("n%d", i+1)
		all[i] = &station{id: raft.ServerID(id), addr: l.Addr().String()}
		listeners[i] = l
		_, all[i].trans = raft.NewInmemTransportWithTimeout(raft.ServerAddress(id), 100*time.Millisecond) // ends before goleak looks
		servers = append(servers, raft.Server{ID: raft.ServerID(id), Address: raft.ServerAddress(id)})
	}
	for _, s := range all {
		s.mates = all
		stable := raft.NewInmemStore()
		g, err := group.New(group.Config{
			LocalID: s.id, Clock: realClock{}, Logs: stable, Stable: stable, Snapshots: raft.NewInmemSnapshotStore(), Transport: s.trans,
			MaxMessageBytes: cfg.MaxMessageBytes, Raft: settings,
			Fatal: func(err error) { t.Errorf("%s: fatal: %v", s.id, err) },
			ClientAddr: func(id raft.ServerID) string {
				for _, o := range all {
					if o.id == id {
						return o.addr
					}
				}
				return ""
			},
			Digests: func(ctx context.Context, index uint64) (ds []group.NodeDigest) {
				for _, o := range all {
					d := group.NodeDigest{ID: o.id}
					var err error
					if d.Digest, err = o.DigestAt(ctx, index); err != nil {
						d.Err = err.Error()
					}
					ds = append(ds, d)
				}
				return ds
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		s.nodeGroup = nodeGroup{g}
	}
	for _, s := range all { // before they hear of each other: who has been asked for a vote is new no longer
		if err := s.Bootstrap([16]byte{1}, servers); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range all {
		for _, o := range all {
			s.trans.Connect(o.trans.LocalAddr(), o.trans)
		}
	}
	for i, s := range all {
		c := cfg
		c.Broker = s
		d, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		s.doors = d
		served := make(chan error, 1)
		go func() { served <- d.Serve(listeners[i]) }()
		t.Cleanup(func() {
			s.stop(t)
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
	}
	return leaderFirst(t, all)
}

func leaderFirst(t testing.TB, all []*station) []*station {
	t.Helper()
	order := make([]*station, 0, len(all))
	waitFor(t, func() bool {
		order = order[:0]
		for _, s := range all {
			if st := s.Status(); st.Leader && st.Ready {
				order = append(order, s)
			}
		}
		for _, s := range all {
			if len(order) > 0 && s != order[0] {
				order = append(order, s)
			}
		}
		return len(order) == len(all)
	})
	return order
}

// stop ends a station in the order that a process does.
func (s *station) stop(t testing.TB) {
	t.Helper()
	if s.down.Swap(true) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s.doors.Drain()
	if err := s.Stop(ctx); err != nil {
		t.Errorf("stop %s: %v", s.id, err)
	}
	if err := s.doors.Stop(ctx); err != nil {
		t.Errorf("stop %s: %v", s.id, err)
	}
}

// enqueue puts one message in and gives its id.
func (p *peer) enqueue(queue string, m wire.Message) string {
	p.t.Helper()
	var rep wire.Enqueued
	p.ask(wire.TypeEnqueue, &wire.Enqueue{Queue: queue, Messages: []wire.Message{m}}, wire.TypeEnqueued, &rep)
	if f := rep.Outcomes[0].Fault; f != nil {
		p.t.Fatal(f)
	}
	return rep.Outcomes[0].ID
}

// pull leases one message.
func (p *peer) pull(queue string) wire.Delivered {
	p.t.Helper()
	var rep wire.Leased
	p.ask(wire.TypeLease, &wire.Lease{Queue: queue, Max: 1, WaitMillis: 5000, Worker: "w"}, wire.TypeLeased, &rep)
	if len(rep.Messages) != 1 {
		p.t.Fatalf("leased %d messages of %s", len(rep.Messages), queue)
	}
	return rep.Messages[0]
}
