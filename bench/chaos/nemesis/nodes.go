package nemesis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quorate/quorate/bench/chaos/forgetfs"
	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/fsm/mutant"
)

// member is one node, with its disk, and who has it.
type member struct {
	*proc.Node
	disk *forgetfs.Disk // nil: its data are on the machine's
	// token is there while no fault has the node: its process is started, ended, stopped by whoever has it alone.
	token  chan struct{}
	doomed *atomic.Bool // of its process: it may end, since a fault is at it
	// watched are the goroutines that wait for the ends of its processes.
	watched sync.WaitGroup
	place   []string      // the program that puts it where the Network has it
	mono    time.Duration // by how much its next process's monotonic clock differs from the machine's
}

// nodesPackage is what nodes are.
const nodesPackage = "github.com/quorate/quorate/cmd/quorate"

// Build builds the binary whose nodes show what they apply and whose clocks can be moved, with the planted bug of this build where it has
// one (fsm/mutant).
func Build(ctx context.Context, file string, race bool) error {
	args := []string{"build", "-tags", "chaos," + mutant.Tag(), "-o", file}
	if race {
		args = append(args, "-race")
	}
	build := exec.CommandContext(ctx, "go", append(args, nodesPackage)...)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the nodes' binary: %w\n%s", err, out)
	}
	return nil
}

// startCluster makes the nodes, on disks that forget where the schedule needs them, and starts them.
func (e *engine) startCluster(ctx context.Context) error {
	cfg := proc.Config{
		Binary: e.cfg.Binary, Nodes: e.sched.Nodes, Dir: filepath.Join(e.cfg.Dir, "nodes"),
		Env: []string{
			"QUORATE_CHAOS_TAP=" + filepath.Join(e.cfg.Dir, "taps"),
			fmt.Sprintf("QUORATE_CHAOS_SNAPSHOT_BYTES=%d", snapshotBytes), fmt.Sprintf("QUORATE_CHAOS_SEGMENT_BYTES=%d", 8*snapshotBytes),
		},
	}
	if e.sched.needs(func(m *Means) { m.Network = false }) {
		var err error
		if e.network, err = openNetwork(e.sched.Nodes, 2*e.sched.most()); err != nil {
			return err
		}
		for i := range e.sched.Nodes {
			cfg.Hosts = append(cfg.Hosts, e.network.Host(fmt.Sprintf("n%d", i+1)))
		}
	}
	c, err := proc.New(cfg)
	if err != nil {
		return err
	}
	for _, n := range c.Nodes {
		m := &member{Node: n, token: make(chan struct{}, 1)}
		m.token <- struct{}{}
		if e.network != nil {
			m.place = e.network.Wrap(n.Name)
		}
		m.wrap()
		e.nodes = append(e.nodes, m)
		if e.sched.needs(func(m *Means) { m.Disks = false }) {
			if err := m.mountDisk(); err != nil {
				return err
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		return err
	}
	for _, m := range e.nodes {
		e.watch(m)
	}
	return nil
}

// needs says whether a fault of the schedule cannot be without something that is taken from the means.
func (s *Schedule) needs(take func(*Means)) bool {
	rest := everything
	take(&rest)
	return s.Possible(rest) != nil
}

// mountDisk puts the node's data on a disk that forgets. This process serves it and never looks at it.
func (m *member) mountDisk() error {
	at := m.DataDir
	if err := os.Mkdir(at, 0o700); err != nil {
		return err
	}
	m.DataDir = filepath.Join(at, "data") // below the mount: a data directory's own name can get lost too
	m.Args[slices.Index(m.Args, at)] = m.DataDir
	m.disk = forgetfs.New(forgetfs.Options{})
	if err := m.disk.Mount(at); err != nil {
		return fmt.Errorf("disk of %s: %w", m.Name, err)
	}
	return nil
}

// wrap sets under what the node's next process is started: at its place, and in a time of its own.
func (m *member) wrap() {
	argv := slices.Clone(m.place)
	if m.mono != 0 {
		s := fmt.Sprint(int64(m.mono / time.Second))
		argv = append(argv, "unshare", "--time", "--monotonic", s, "--boottime", s)
	}
	m.Wrap(argv...)
}

// watch makes the end of the node's process a problem, where no fault is at it. To be called after each start.
func (e *engine) watch(m *member) {
	pid, doomed := m.Pid(), new(atomic.Bool)
	m.doomed = doomed
	m.watched.Go(func() {
		code, err := m.Exited(context.Background()) // the process ends with this one at the latest
		if err == nil && !doomed.Load() {
			e.problem("node %s (process %d) ended by itself, with code %d: %s", m.Name, pid, code, m.LastLog())
		}
	})
}

// start starts a node again; whoever has it is done with it.
func (e *engine) start(m *member) error {
	m.wrap()
	if err := m.Start(); err != nil {
		return err
	}
	e.watch(m)
	return nil
}

// startReady starts nodes again, and returns when all are ready.
func (e *engine) startReady(ctx context.Context, ms []*member) error {
	for _, m := range ms {
		if err := e.start(m); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	for _, m := range ms {
		if err := m.WaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// kill ends the processes of nodes at once.
func (e *engine) kill(ms []*member) {
	for _, m := range ms {
		m.doomed.Store(true)
		m.Signal(syscall.SIGKILL)
	}
	for _, m := range ms {
		m.Kill()
	}
}

// wipe empties the disk of a node that does not run. Another process does it: this one may be serving it.
func (m *member) wipe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "rm", "-rf", "--", m.DataDir).CombinedOutput(); err != nil {
		return fmt.Errorf("empty the disk of %s: %w: %s", m.Name, err, out)
	}
	return nil
}

// stopCluster ends what runs, looks through the logs, and takes the disks away.
func (e *engine) stopCluster() error {
	var errs []error
	for _, m := range e.nodes {
		if m.doomed != nil {
			m.doomed.Store(true)
		}
		m.Signal(syscall.SIGCONT)
		if m.disk != nil {
			m.disk.Clear()
		}
		errs = append(errs, m.Stop())
		m.watched.Wait()
	}
	if e.network != nil {
		errs = append(errs, e.network.Close())
	}
	for _, m := range e.nodes {
		if m.disk != nil {
			errs = append(errs, m.disk.Unmount(), m.disk.Err())
		}
		b, err := os.ReadFile(m.LogFile)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
		for _, bad := range []string{"WARNING: DATA RACE", "panic:", "fatal error:"} {
			if i := bytes.Index(b, []byte(bad)); i >= 0 {
				e.problem("node %s: %s", m.Name, b[i:min(len(b), i+3000)])
			}
		}
	}
	return errors.Join(errs...)
}

// logged counts the lines of the nodes' logs with a text in them.
func (e *engine) logged(text string) (n int, err error) {
	for _, m := range e.nodes {
		b, err := os.ReadFile(m.LogFile)
		if err != nil {
			return 0, err
		}
		n += strings.Count(string(b), text)
	}
	return n, nil
}
