package group

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/quorate/quorate/fsm"
)

// Clock is where a group gets its time from; it never asks the machine itself, so that a simulation can.
type Clock interface {
	// WallMillis is the wall clock in Unix milliseconds. It may jump, in either direction.
	WallMillis() int64
	// Mono is a reading that only rises, at the pace of real time. Its zero means nothing.
	Mono() time.Duration
}

// NodeDigest is what one node answered about a checkpoint.
type NodeDigest struct {
	ID     raft.ServerID
	Digest [32]byte // SHA-256 of the logical state, where Err is empty
	Err    string
}

// Config is what a group is made of. Everything that touches the machine is passed in.
type Config struct {
	Number  uint16        // of the group; in every id it makes
	LocalID raft.ServerID // the node's UUID
	Logger  *slog.Logger  // nil: silent
	HCLog   hclog.Logger  // raft's own log; nil: silent
	Clock   Clock

	// Logs, Stable and Snapshots must be durable when they return, check what they read and end the process when they
	// fail: raft itself goes on after a failed write. The group puts its own cache before Logs.
	Logs      raft.LogStore
	Stable    raft.StableStore
	Snapshots raft.SnapshotStore
	Transport raft.Transport
	// Failed is closed when one of the stores has failed: from then on raft is handed no request. Nil: they never do.
	Failed <-chan struct{}

	// Raft has the last word on raft's settings; for tests.
	Raft func(*raft.Config)

	// Cluster is the id that the first leader writes into an empty log. Bootstrap sets it too; zero in a node that joins.
	Cluster [16]byte

	MaxMessageBytes int64 // the largest body a client may send; 0: 1 MiB

	// ClientAddr is where clients reach a node, "" if unknown; for redirects. It must not block.
	ClientAddr func(raft.ServerID) string
	// Digests asks every member for its digest at an index, for Verify.
	Digests func(ctx context.Context, index uint64) []NodeDigest
	// Fatal must end the process: the state could not go on truthfully (an entry that cannot be read, a stuck leader).
	// It may return: the group does nothing more then.
	Fatal func(error)

	Metrics *Metrics // nil: none

	// Aside runs f so that it leaves the CPU to others, and returns when f has: for what a follower has to catch up with. It may be
	// called on any goroutine. Nil: there is no such way.
	Aside func(f func())

	// Tap, where it is not nil, is shown every entry that was applied, in order and again after a restart, before anybody
	// is answered. It holds up the group, and keeps nothing of data. For a harness.
	Tap func(index, term uint64, data []byte)

	Limits Limits
}

// Limits bound what a group holds and does at once. Zero values mean the defaults.
type Limits struct {
	EntryBytes      int           // an entry closes before the operation that would pass it; default 64 KiB
	EntryOps        int           // operations of an entry; default 512
	InFlight        int           // entries proposed and not yet applied; default 8, at most 64
	InFlightBytes   int64         // their bytes; default 8 MiB, or one request where that alone is larger
	Queued          int           // proposals that wait to be packed; default 65,536
	QueuedBytes     int64         // their bytes; default 32 MiB
	Sessions        int           // attached to this group at once; default 20,000
	Subscriptions   int           // of all sessions; default 100,000
	Pulls           int           // leases that wait for a message; default 20,000
	TaskWaiters     int           // and as many that watch the KV; default 20,000
	ResultWaiters   int           // calls that wait for a queue's next result, and as many that wait for its next dead letter; default 5,000
	Readers         int           // reads that wait for the leader check; default 20,000
	CacheBytes      int64         // of the log cache; default 32 MiB
	SnapshotBytes   int64         // of log between two snapshots; default 128 MiB
	SnapshotEntries int64         // of log between two snapshots, whatever their size; default 250,000
	TrailingBytes   int64         // of log kept behind a snapshot, about; default 64 MiB
	MemoryBytes     int64         // what the state may hold before enqueues are refused (at 85 %); 0: no limit
	WatchdogAfter   time.Duration // how long a leader may commit nothing of what it proposed; default 10 s
	TransferWithin  time.Duration // how long Stop waits for another leader; default 2 s
}

// DefaultCacheBytes is what the log cache of a group holds at most where Limits do not say it.
const DefaultCacheBytes int64 = 32 << 20

// maxOp is the largest operation that is taken: a result and a batch of messages (an ack with followers is both), and room
// for their fields.
func (c *Config) maxOp() int64 {
	return 2*max(fsm.MaxBatchBytes, c.MaxMessageBytes) + 1<<20
}

func (l *Limits) defaults() {
	set(&l.EntryBytes, 64<<10)
	set(&l.EntryOps, 512)
	set(&l.InFlight, 8)
	set(&l.InFlightBytes, 8<<20)
	set(&l.Queued, 65536)
	set(&l.QueuedBytes, 32<<20)
	set(&l.Sessions, 20_000)
	set(&l.Subscriptions, 100_000)
	set(&l.Pulls, 20_000)
	set(&l.TaskWaiters, 20_000)
	set(&l.ResultWaiters, 5_000)
	set(&l.Readers, 20_000)
	set(&l.CacheBytes, DefaultCacheBytes)
	set(&l.SnapshotBytes, 128<<20)
	set(&l.SnapshotEntries, 250_000)
	set(&l.TrailingBytes, 64<<20)
	set(&l.WatchdogAfter, 10*time.Second)
	set(&l.TransferWithin, 2*time.Second)
}

func set[T int | int64 | time.Duration](p *T, v T) {
	if *p == 0 {
		*p = v
	}
}

// maxInFlight is a power of raft's append batch: proposing beyond it makes raft's own queue the bottleneck.
const maxInFlight = 64

// Validate names the first thing that is missing or out of range.
func (c *Config) Validate() error {
	for _, need := range []struct {
		what string
		ok   bool
	}{
		{"Clock", c.Clock != nil},
		{"Logs", c.Logs != nil},
		{"Stable", c.Stable != nil},
		{"Snapshots", c.Snapshots != nil},
		{"Transport", c.Transport != nil},
		{"Fatal", c.Fatal != nil},
		{"LocalID", c.LocalID != ""},
	} {
		if !need.ok {
			return fmt.Errorf("group config: %s is missing", need.what)
		}
	}
	if c.MaxMessageBytes < 0 || c.MaxMessageBytes > fsm.MaxBodyBytes {
		return fmt.Errorf("group config: MaxMessageBytes is %d, want 1 to %d, or 0 for %d",
			c.MaxMessageBytes, fsm.MaxBodyBytes, fsm.DefaultMaxBodyBytes)
	}
	l := c.Limits
	l.defaults()
	switch {
	case l.InFlight < 1 || l.InFlight > maxInFlight:
		return fmt.Errorf("group config: Limits.InFlight is %d, want 1 to %d", l.InFlight, maxInFlight)
	case l.EntryBytes < 1<<10 || l.EntryBytes > 1<<20:
		return fmt.Errorf("group config: Limits.EntryBytes is %d, want %d to %d", l.EntryBytes, 1<<10, 1<<20)
	case l.EntryOps < 1 || l.EntryOps > 4096:
		return fmt.Errorf("group config: Limits.EntryOps is %d, want 1 to 4096", l.EntryOps)
	case l.Queued < 1 || l.QueuedBytes < 1 || l.InFlightBytes < 1 || l.CacheBytes < 1 || l.SnapshotBytes < 1 || l.SnapshotEntries < 1:
		return errors.New("group config: a limit is negative, want all of them positive")
	}
	return nil
}

// electionTimeout is after how much silence a node looks for another leader, and a leader that hears of no majority is none.
const electionTimeout = 250 * time.Millisecond

// RaftConfig is raft's settings: one election timeout of 250 ms finds a new leader in half a second and has stood up to
// full load; raft's own snapshot trigger counts entries, so it is off and ours counts bytes.
func (c *Config) RaftConfig() *raft.Config {
	rc := raft.DefaultConfig()
	rc.LocalID = c.LocalID
	rc.HeartbeatTimeout = electionTimeout
	rc.ElectionTimeout = electionTimeout
	rc.LeaderLeaseTimeout = electionTimeout // the most raft allows: no safety hangs on it, since reads confirm the leader
	rc.CommitTimeout = 5 * time.Millisecond
	rc.MaxAppendEntries = maxInFlight
	rc.BatchApplyCh = true
	rc.ShutdownOnRemove = false // the node decides what a removed member does
	rc.SnapshotThreshold = 1 << 62
	rc.SnapshotInterval = time.Hour
	rc.TrailingLogs = 1024
	rc.NoLegacyTelemetry = true
	rc.Logger = c.HCLog
	if rc.Logger == nil {
		rc.Logger = hclog.New(&hclog.LoggerOptions{Output: io.Discard, Level: hclog.Off})
	}
	if c.Raft != nil {
		c.Raft(rc)
	}
	return rc
}
