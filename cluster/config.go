package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/cluster/link"
	"github.com/quorate/quorate/cluster/store"
)

const (
	// maxMembers is how many nodes a cluster may have; raft's cost grows with each, and status asks them all.
	maxMembers = 32
	// maxJoin is how many gossip addresses a node may be told.
	maxJoin = 64
	// maxClientAddr is how long a client address may be, so that it fits into gossip with all the rest.
	maxClientAddr = 200
)

// Config is what a node is told. The zero value of what is not marked as required is good.
type Config struct {
	NodeID  string // label, required; 1 to 64 letters, digits, dots, dashes, underscores
	DataDir string // "": all in memory, one voter, no gossip: quorate dev
	// LogStore is the sort of log store that the data directory must have, a store.Kind; "": what is there, for a new one the
	// default. It means nothing in memory.
	LogStore string

	RaftAddr, RaftAdvertise     string // host:port of the node port, and what others dial, "": the same; required with DataDir
	GossipAddr, GossipAdvertise string // host:port, TCP and UDP; required with DataDir
	Join                        []string
	BootstrapExpect             int // how many empty nodes make a new cluster together; 0: this node only joins

	ClientAddr      string // what clients dial
	Version         string // of the binary
	MemoryBytes     int64  // what the messages and tables may hold before enqueues are refused, at 85 %; 0: no limit
	DiskFreeBytes   int64  // what must be left of DataDir's file system for enqueues to be taken; 0: 256 MiB, or a tenth of it where that is less
	MaxMessageBytes int64  // largest body; 0: the group's default

	Logger   *slog.Logger          // nil: silent
	Registry prometheus.Registerer // nil: no metrics
	Clock    group.Clock           // nil: the machine's
	Raft     func(*raft.Config)    // last word on raft's timings, for tests

	// Fatal ends the process when the node must not go on (damage, a failed write, another process with its identity). It
	// is called at most once, on its own goroutine. nil: log and exit with status 1.
	Fatal func(error)

	gossip func(*memberlist.Config)             // last word on gossip, for tests of this package
	space  func() (free, size int64, err error) // instead of what the data directory's file system has left and in all, for tests of this package
	logs   func(*store.Log) raft.LogStore       // what raft is given instead of the log on disk, for tests of this package
}

// Validate names the first field that cannot be right, and what would be.
func (c *Config) Validate() error {
	if err := link.CheckLabel(c.NodeID); err != nil {
		return fmt.Errorf("node_id: %w", err)
	}
	if c.BootstrapExpect < 0 || c.BootstrapExpect > maxMembers {
		return fmt.Errorf("bootstrap_expect is %d: want the number of nodes that make the new cluster, 1 to %d, or 0 to join an existing one", c.BootstrapExpect, maxMembers)
	}
	if _, err := store.ParseKind(c.LogStore); err != nil {
		return fmt.Errorf("raft.log_store: %w", err)
	}
	if c.DiskFreeBytes < 0 {
		return fmt.Errorf("limits.disk_free_bytes is %d: want the bytes that must be left on disk for enqueues to be taken, or 0 for the default", c.DiskFreeBytes)
	}
	if len(c.Join) > maxJoin {
		return fmt.Errorf("join has %d addresses: want at most %d", len(c.Join), maxJoin)
	}
	if len(c.ClientAddr) > maxClientAddr || len(c.Version) > 64 {
		return fmt.Errorf("client address has %d bytes, version %d: want at most %d and 64", len(c.ClientAddr), len(c.Version), maxClientAddr)
	}
	if c.DataDir == "" {
		if len(c.Join) > 0 || c.BootstrapExpect > 1 {
			return errors.New("a node without data_dir is a cluster of its own: give it a data_dir, or neither join nor bootstrap_expect")
		}
		return nil
	}
	for _, a := range []struct {
		name, val string
		port0     bool
		optional  bool
	}{
		{"raft address", c.RaftAddr, true, false},
		{"advertised raft address", c.RaftAdvertise, false, true},
		{"gossip address", c.GossipAddr, true, false},
		{"advertised gossip address", c.GossipAdvertise, false, true},
	} {
		if a.val == "" && a.optional {
			continue
		}
		if err := checkAddr(a.val, a.port0); err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
	}
	for _, a := range c.Join {
		if err := checkAddr(a, false); err != nil {
			return fmt.Errorf("join: %w", err)
		}
	}
	return nil
}

func checkAddr(s string, port0 bool) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil || len(s) > 128 {
		return fmt.Errorf("%.140q: want host:port, like 127.0.0.1:7341", s)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 && !port0 {
		return fmt.Errorf("%q: want a port from 1 to 65535", s)
	}
	if host == "" && !port0 {
		return fmt.Errorf("%q: want a host before the port", s)
	}
	return nil
}

func (c *Config) defaults() {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = newMachineClock()
	}
	if c.Fatal == nil {
		log := c.Logger
		c.Fatal = func(err error) {
			log.Error("this node cannot go on", "err", err)
			fmt.Fprintf(os.Stderr, "quorate: %v\n", err)
			os.Exit(1)
		}
	}
}
