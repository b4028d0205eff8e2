package load

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/quorate/quorate/bench/proc"
)

// Self is a cluster that exists for a benchmark: processes of a given binary on free loopback ports, with data in a
// folder of their own, each with one Go processor. Close ends the processes and removes the folder.
type Self struct {
	cluster *proc.Cluster
	dir     string
}

// startTimeout bounds the time from start until all nodes are ready.
const startTimeout = time.Minute

// StartSelf starts n nodes and waits until they are ready. dir is where their temporary folder is made; empty: the
// system's place for those, or the working directory where that place is in memory, since a figure without a disk would
// be another figure. args are more flags for each `serve`.
func StartSelf(ctx context.Context, binary string, n int, dir string, args ...string) (*Self, error) {
	dir, err := TempDir(dir)
	if err != nil {
		return nil, err
	}
	c, err := proc.New(proc.Config{Binary: binary, Nodes: n, Dir: dir, Args: args, Env: []string{"GOMAXPROCS=1"}})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("bench: %w", err), os.RemoveAll(dir))
	}
	s := &Self{cluster: c, dir: dir}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		c.Kill()
		return nil, errors.Join(fmt.Errorf("bench: %w", err), os.RemoveAll(dir))
	}
	if _, err := c.Leader(ctx); err != nil {
		c.Kill()
		return nil, errors.Join(fmt.Errorf("bench: %w", err), os.RemoveAll(dir))
	}
	return s, nil
}

// TempDir makes a new folder for the nodes of a run, below dir; see StartSelf for "". Its caller removes it.
func TempDir(dir string) (string, error) {
	if dir == "" && inMemory(os.TempDir()) {
		dir = "."
	}
	dir, err := os.MkdirTemp(dir, "quorate-bench-")
	if err != nil {
		return "", fmt.Errorf("bench: folder for the nodes: %w", err)
	}
	return dir, nil
}

// inMemory reports whether a folder is on a tmpfs, where syncing costs nothing.
func inMemory(dir string) bool {
	const tmpfsMagic = 0x01021994 // statfs(2)
	var st syscall.Statfs_t
	return syscall.Statfs(dir, &st) == nil && int64(st.Type) == tmpfsMagic //nolint:unconvert // not int64 on every architecture
}

// Cluster is the running cluster, for those that disturb it.
func (s *Self) Cluster() *proc.Cluster { return s.cluster }

// Configure points cfg at the cluster.
func (s *Self) Configure(cfg *Config) {
	cfg.Addrs, cfg.Nodes, cfg.ServerCPU, cfg.ServerRSS = s.cluster.Addrs(), len(s.cluster.Nodes), s.cluster.CPU, s.rss
	cfg.ServerGC, cfg.Cluster = s.gc, s.cluster
}

// gc adds up what the nodes' runtimes say of themselves. They take stock at the end of each collection, so that it is good for runs
// of some seconds.
func (s *Self) gc() (d time.Duration, ok bool) {
	for _, n := range s.cluster.Nodes {
		seconds, ok := n.Metric(context.Background(), "go_cpu_classes_gc_total_cpu_seconds_total")
		if !ok {
			return 0, false
		}
		d += time.Duration(seconds * float64(time.Second))
	}
	return d, true
}

func (s *Self) rss() []int64 {
	var all []int64
	for _, n := range s.cluster.Nodes {
		all = append(all, n.RSS())
	}
	return all
}

// KillLeader kills the leader with SIGKILL and starts it again once another node leads. It is good as Config.Disturb.
func (s *Self) KillLeader(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	n, err := s.cluster.Leader(ctx)
	if err != nil {
		return fmt.Errorf("kill the leader: %w", err)
	}
	n.Kill()
	if _, err := s.cluster.Leader(ctx); err != nil {
		return fmt.Errorf("after the leader %s was killed: %w", n.Name, err)
	}
	if err := n.Start(); err != nil {
		return fmt.Errorf("start the killed leader again: %w", err)
	}
	return nil
}

// Close stops the nodes, in order, and removes all they wrote. Twice is fine.
func (s *Self) Close() error {
	if s.dir == "" {
		return nil
	}
	err := s.cluster.Stop()
	err = errors.Join(err, os.RemoveAll(s.dir))
	s.dir = ""
	return err
}
