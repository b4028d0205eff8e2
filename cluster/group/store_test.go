package group

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// slowDisk is a log store whose writes hang while hang is set, take delay (ns), and fail while fails is set.
type slowDisk struct {
	raft.LogStore
	hang  atomic.Pointer[chan struct{}]
	delay atomic.Int64
	fails atomic.Pointer[error]
}

func (s *slowDisk) StoreLogs(logs []*raft.Log) error {
	if ch := s.hang.Load(); ch != nil {
		<-*ch
	}
	if d := s.delay.Load(); d > 0 {
		<-time.After(time.Duration(d))
	}
	if err := s.fails.Load(); err != nil {
		return *err
	}
	return s.LogStore.StoreLogs(logs)
}

// newSlowCluster is a cluster whose disks can be made to hang, to be slow and to fail.
func newSlowCluster(t testing.TB, n int) (c *cluster, diskOf func(*node) *slowDisk) {
	var disks []*slowDisk // of the nodes in their order, which none leaves
	c = newCluster(t, n, func(cfg *Config) {
		d := &slowDisk{LogStore: cfg.Logs}
		disks = append(disks, d)
		cfg.Logs = d
	})
	return c, func(nd *node) *slowDisk { return disks[slices.Index(c.nodes, nd)] }
}

// Seal has entries sent ahead where the store below does.
func (s *slowDisk) Seal(logs []*raft.Log) bool {
	below, ok := s.LogStore.(sealer)
	return ok && below.Seal(logs)
}

func (s *slowDisk) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// sealing is a log store that completes entries, as the one with checksums does, so that a leader's go ahead.
type sealing struct{ raft.LogStore }

var testSeal = []byte("seal")

func (sealing) Seal(logs []*raft.Log) bool {
	own := true
	for _, l := range logs {
		if len(l.Extensions) == 0 {
			l.Extensions = testSeal
		} else {
			own = false
		}
	}
	return own
}

func (s sealing) StoreLogs(logs []*raft.Log) error {
	s.Seal(logs)
	return s.LogStore.StoreLogs(logs)
}

func (s sealing) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// fastBeat hands heartbeats over beside raft's main loop, as the network transport does, so that they pass a slow disk.
type fastBeat struct {
	*raft.InmemTransport
	out   chan raft.RPC
	end   chan struct{}
	beat  atomic.Pointer[func(raft.RPC)]
	alone atomic.Bool // other requests of the leader are refused
}

var errAlone = errors.New("heartbeats alone")

func newFastBeat(in *raft.InmemTransport) *fastBeat {
	f := &fastBeat{InmemTransport: in, out: make(chan raft.RPC, 256), end: make(chan struct{})}
	go func() {
		for {
			select {
			case rpc := <-in.Consumer():
				if a, ok := rpc.Command.(*raft.AppendEntriesRequest); ok {
					beat := a.Term != 0 && a.PrevLogEntry == 0 && a.PrevLogTerm == 0 && len(a.Entries) == 0 && a.LeaderCommitIndex == 0
					if handle := f.beat.Load(); beat && handle != nil {
						go (*handle)(rpc)
						continue
					}
					if f.alone.Load() {
						rpc.Respond(&raft.AppendEntriesResponse{}, errAlone)
						continue
					}
				}
				select {
				case f.out <- rpc:
				case <-f.end:
					return
				}
			case <-f.end:
				return
			}
		}
	}()
	return f
}

func (f *fastBeat) Consumer() <-chan raft.RPC            { return f.out }
func (f *fastBeat) SetHeartbeatHandler(h func(raft.RPC)) { f.beat.Store(&h) }

func (f *fastBeat) Close() error {
	close(f.end)
	return f.InmemTransport.Close()
}
