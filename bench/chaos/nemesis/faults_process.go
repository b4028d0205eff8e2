package nemesis

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/quorate/quorate/bench/chaos/history"
)

func init() {
	faultKinds = map[string]*faultKind{
		"kill":  {help: "SIGKILL of the target's processes, which are started again after for", targets: anyone, run: killNodes},
		"pause": {help: "SIGSTOP of the target's processes, SIGCONT after for", targets: anyone, run: pauseNodes},
		"pause_workers": {
			help: "workers stand still for that long with the leases they have, their connections open", run: pauseWorkers,
		},
		"throttle": {
			help: "the target's processes get percent of a CPU for that long", targets: anyone, params: []string{"percent"},
			needs: func(m Means) bool { return m.CPU }, lacks: "the right to make a cgroup with a CPU quota (cgroup v1)", run: throttle,
		},
		"clock_jump": {
			help: "the target's wall clocks are off by skew for that long", targets: anyone, params: []string{"skew"}, run: jumpClocks,
		},
		"clock_strobe": {
			help: "the target's wall clocks go to and fro by skew, once in every, for that long", targets: anyone,
			params: []string{"skew", "every"}, run: strobeClocks,
		},
		"mono_jump": {
			help:    "the target's processes are killed and start again after for with monotonic clocks that are skew further on",
			targets: anyone, params: []string{"skew"},
			needs: func(m Means) bool { return m.TimeNS }, lacks: "time namespaces (unshare --time)", run: jumpMono,
		},
	}
	for _, more := range []map[string]*faultKind{memberFaults, diskFaults, networkFaults} {
		for name, k := range more {
			faultKinds[name] = k
		}
	}
}

// killNodes kills nodes at once, and starts them again after a while. Where no majority is left alive, nothing may succeed meanwhile.
func killNodes(s *strike) error {
	ms, giveBack, err := s.take()
	if err != nil {
		return err
	}
	defer giveBack()
	s.down(ms)
	if s.last() != nil {
		return nil
	}
	return s.up(ms)
}

// down kills nodes and notes it.
func (s *strike) down(ms []*member) {
	e := s.engine
	e.kill(ms)
	s.begin()
	for _, m := range ms {
		e.rec.Add(history.Event{Kind: history.Mark, Note: history.Killed, Node: m.Name, Leader: m.Name == s.Led})
	}
	if s.quorum(ms) {
		s.mark(history.Down)
	}
}

// up starts them again.
func (s *strike) up(ms []*member) error {
	if s.quorum(ms) {
		s.mark(history.Up)
	}
	s.heal()
	return s.engine.startReady(s.ctx, ms)
}

// pauseNodes has processes stand still: nothing of theirs runs, and whoever talks to them hears nothing. A leader does not know that
// another has been elected.
func pauseNodes(s *strike) error {
	ms, giveBack, err := s.take()
	if err != nil {
		return err
	}
	defer giveBack()
	for _, m := range ms {
		m.Signal(syscall.SIGSTOP)
		defer m.Signal(syscall.SIGCONT)
	}
	for _, m := range ms {
		if err := s.stands(m); err != nil {
			return err
		}
	}
	s.begin()
	if s.Led != "" && time.Duration(s.For) >= time.Second {
		s.engine.rec.Add(history.Event{Kind: history.Mark, Note: history.Frozen, Node: s.Led})
	}
	if s.quorum(ms) {
		s.mark(history.Down)
	}
	_ = s.last() // they go on also where the run ends
	if s.quorum(ms) {
		s.mark(history.Up)
	}
	s.heal()
	return nil
}

// stands waits until a process stands still.
func (s *strike) stands(m *member) error {
	const within = 5 * time.Second
	for began := time.Now(); time.Since(began) < within; {
		// "pid (name) state …", where the name may hold anything
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.Pid()))
		if err == nil && bytes.HasPrefix(b[bytes.LastIndexByte(b, ')')+1:], []byte(" T")) {
			return nil
		}
		if !m.Running() {
			return fmt.Errorf("%w: node %s does not run", errSkipped, m.Name)
		}
		if err := pause(s.ctx, 2*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("node %s does not stand still within %s of SIGSTOP", m.Name, within)
}

func pauseWorkers(s *strike) error {
	s.begin()
	defer s.heal()
	return s.engine.work.Hold(s.ctx, time.Duration(s.For))
}

// cpuRoot is where cgroups with CPU quotas are made (cgroup v1).
const cpuRoot = "/sys/fs/cgroup/cpu"

// quotaPeriod is over which a quota is counted, in µs.
const quotaPeriod = 100_000

// cgroup is a CPU cgroup of this run.
type cgroup struct{ dir string }

func newCgroup(name string) (*cgroup, error) {
	dir := filepath.Join(cpuRoot, fmt.Sprintf("quorate-chaos-%d-%s", os.Getpid(), name))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	return &cgroup{dir}, nil
}

func (c *cgroup) set(file string, n int) error {
	return os.WriteFile(filepath.Join(c.dir, file), []byte(strconv.Itoa(n)), 0)
}

// limit gives a process a part of a CPU.
func (c *cgroup) limit(pid, percent int) error {
	return errors.Join(c.set("cpu.cfs_period_us", quotaPeriod), c.set("cpu.cfs_quota_us", quotaPeriod*percent/100), c.set("cgroup.procs", pid))
}

// remove puts what is in the cgroup back where it was, and takes it away.
func (c *cgroup) remove() error {
	err := c.set("cpu.cfs_quota_us", -1)
	b, readErr := os.ReadFile(filepath.Join(c.dir, "cgroup.procs"))
	for _, pid := range bytes.Fields(b) {
		if e := os.WriteFile(filepath.Join(cpuRoot, "cgroup.procs"), pid, 0); e != nil && !errors.Is(e, syscall.ESRCH) {
			err = errors.Join(err, e)
		}
	}
	return errors.Join(err, readErr, os.Remove(c.dir))
}

// throttle gives nodes next to no CPU: they do everything, and all of it late.
func throttle(s *strike) error {
	ms, giveBack, err := s.take()
	if err != nil {
		return err
	}
	defer giveBack()
	for _, m := range ms {
		c, err := newCgroup(m.Name)
		if err != nil {
			return err
		}
		defer func() {
			if err := c.remove(); err != nil {
				s.engine.problem("cgroup of %s: %v", m.Name, err)
			}
		}()
		if err := c.limit(m.Pid(), s.Percent); err != nil {
			return fmt.Errorf("give node %s %d%% of a CPU: %w", m.Name, s.Percent, err)
		}
	}
	s.begin()
	defer s.heal()
	return s.last()
}
