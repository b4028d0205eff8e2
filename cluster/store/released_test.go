package store

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// A node whose disk fails while it is being stopped comes to its end, whatever raft is at when it is let go: over a term that it could
// not store, or an entry that it could not read, it would panic.
func TestRaftEndsOnceReleased(t *testing.T) {
	t.Parallel()
	peer := raft.Server{ID: "b", Address: "b"}
	header := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("b"), Addr: []byte("b")}
	entries := func(term uint64, from, to uint64) (all []*raft.Log) {
		for i := from; i <= to; i++ {
			all = append(all, entry(i, term, "x"))
		}
		return all
	}
	cases := []struct {
		name   string
		before func(tr *raft.InmemTransport) error // while the disk is well
		at     func(tr *raft.InmemTransport)       // once it fails; nobody waits for its answer
	}{
		{"asked for a vote", nil, func(tr *raft.InmemTransport) {
			_ = tr.RequestVote("a", "a", &raft.RequestVoteRequest{RPCHeader: header, Term: 9, LastLogIndex: 100, LastLogTerm: 8, LeadershipTransfer: true}, &raft.RequestVoteResponse{})
		}},
		{"hears of a new term", nil, func(tr *raft.InmemTransport) {
			_ = tr.AppendEntries("a", "a", &raft.AppendEntriesRequest{RPCHeader: header, Term: 9}, &raft.AppendEntriesResponse{})
		}},
		{"told to stand for election", nil, func(tr *raft.InmemTransport) {
			_ = tr.TimeoutNow("a", "a", &raft.TimeoutNowRequest{RPCHeader: header}, &raft.TimeoutNowResponse{})
		}},
		{"is sent entries", nil, func(tr *raft.InmemTransport) {
			_ = tr.AppendEntries("a", "a", &raft.AppendEntriesRequest{RPCHeader: header, Term: 1, PrevLogEntry: 1, PrevLogTerm: 1, Entries: entries(1, 2, 3)}, &raft.AppendEntriesResponse{})
		}},
		{"is to apply what it has", func(tr *raft.InmemTransport) error {
			return tr.AppendEntries("a", "a", &raft.AppendEntriesRequest{RPCHeader: header, Term: 1, PrevLogEntry: 1, PrevLogTerm: 1, Entries: entries(1, 2, 3), LeaderCommitIndex: 1}, &raft.AppendEntriesResponse{})
		}, func(tr *raft.InmemTransport) {
			_ = tr.AppendEntries("a", "a", &raft.AppendEntriesRequest{RPCHeader: header, Term: 1, PrevLogEntry: 3, PrevLogTerm: 1, Entries: entries(1, 4, 5), LeaderCommitIndex: 3}, &raft.AppendEntriesResponse{})
			_ = tr.AppendEntries("a", "a", &raft.AppendEntriesRequest{RPCHeader: header, Term: 1, PrevLogEntry: 3, PrevLogTerm: 1, LeaderCommitIndex: 3}, &raft.AppendEntriesResponse{})
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h, fatal := testHalt(t)
			f := &failing{LogStore: raft.NewInmemStore(), StableStore: raft.NewInmemStore()}
			log, stable := NewLog(f, h, LogOptions{File: "raft.db"}), NewStable(f, h, "raft.db")
			cfg := raft.DefaultConfig()
			cfg.LocalID, cfg.LogOutput = "a", io.Discard
			cfg.HeartbeatTimeout, cfg.ElectionTimeout = time.Hour, time.Hour // it does nothing of its own accord
			_, mine := raft.NewInmemTransport("a")
			_, other := raft.NewInmemTransport("b")
			mine.Connect("b", other)
			other.Connect("a", mine)
			servers := raft.Configuration{Servers: []raft.Server{{ID: "a", Address: "a"}, peer}}
			if err := raft.BootstrapCluster(cfg, log, stable, raft.NewInmemSnapshotStore(), mine, servers); err != nil {
				t.Fatal(err)
			}
			r, err := raft.NewRaft(cfg, &raft.MockFSM{}, log, stable, raft.NewInmemSnapshotStore(), mine)
			if err != nil {
				t.Fatal(err)
			}
			if c.before != nil {
				if err := c.before(other); err != nil {
					t.Fatal(err)
				}
			}
			f.fail(errors.New("no space left on device"))
			go c.at(other)
			select {
			case <-fatal:
			case <-time.After(10 * time.Second):
				t.Fatal("no write has failed")
			}
			down := r.Shutdown()
			h.Release()
			if err := down.Error(); err != nil {
				t.Error(err)
			}
		})
	}
}
