package proc

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is one process of a program, started, ended and started again by whoever has it. Set the exported fields
// before Start; all methods may be called from any goroutine.
type Process struct {
	Name    string // for error texts
	LogFile string // standard output and error are appended to it
	Binary  string
	Args    []string
	Env     []string // beside this process's own, "K=V"
	Dir     string   // working directory; empty: this process's
	// Children adds the processes below it to CPU and RSS, for programs that start helpers.
	Children bool

	wrap []string // a program and its flags that runs the binary, such as strace

	mu   sync.Mutex // guards what follows
	cmd  *exec.Cmd
	done chan struct{} // closed when cmd has ended and its state is known
	past time.Duration // CPU of ended processes
	exit *os.ProcessState
}

// Start starts the process. Starting a running one is an error.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		return fmt.Errorf("node %s runs already", p.Name)
	}
	log, err := os.OpenFile(p.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log of node %s: %w", p.Name, err)
	}
	defer log.Close()
	argv := append(append(append([]string{}, p.wrap...), p.Binary), p.Args...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = p.Dir
	cmd.Env = append(os.Environ(), p.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	// A node must not outlive whoever started it, and must not get its terminal's Ctrl-C.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	release, err := StartBound(cmd)
	if err != nil {
		return fmt.Errorf("start node %s: %w", p.Name, err)
	}
	done := make(chan struct{})
	p.cmd, p.done = cmd, done
	go func() {
		_ = cmd.Wait() // the state says how it ended
		release()
		p.mu.Lock()
		p.past += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		p.exit, p.cmd = cmd.ProcessState, nil
		p.mu.Unlock()
		close(done)
	}()
	return nil
}

// Wrap makes later starts run the binary under another program; without arguments it ends that.
func (p *Process) Wrap(argv ...string) { p.wrap = argv }

// Running says whether the process is alive.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd != nil
}

// Pid is the process id, 0 when not running.
func (p *Process) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Exited waits until the process has ended and returns its exit code (−1: by a signal).
func (p *Process) Exited(ctx context.Context) (int, error) {
	p.mu.Lock()
	done := p.done
	p.mu.Unlock()
	if done == nil {
		return 0, fmt.Errorf("node %s was never started", p.Name)
	}
	select {
	case <-done:
	case <-ctx.Done():
		return 0, fmt.Errorf("node %s still runs: %w", p.Name, ctx.Err())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exit.ExitCode(), nil
}

// Signal sends a signal to the process, if it runs. With Children, SIGKILL goes to those below it too: it cannot end them
// itself any more.
func (p *Process) Signal(s os.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	var below []int
	if s == syscall.SIGKILL {
		below = p.pids(p.cmd.Process.Pid)[1:]
	}
	_ = p.cmd.Process.Signal(s) // it may just have ended
	for _, pid := range below {
		_ = syscall.Kill(pid, syscall.SIGKILL) // the same
	}
}

// Kill ends the process with SIGKILL and waits for it.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	p.wait(time.Minute)
}

// Stop ends the process with SIGTERM and waits; after ten seconds it kills it and says so.
func (p *Process) Stop() error {
	p.Signal(syscall.SIGTERM)
	if p.wait(10 * time.Second) {
		return nil
	}
	p.Kill()
	return fmt.Errorf("node %s did not stop within 10 s of SIGTERM and was killed; see %s", p.Name, p.LogFile)
}

func (p *Process) wait(d time.Duration) bool {
	p.mu.Lock()
	done, running := p.done, p.cmd != nil
	p.mu.Unlock()
	if !running {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// CPU is the user and system time of all processes so far, ended ones included (their children not).
func (p *Process) CPU() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.past
	if p.cmd != nil {
		for _, pid := range p.pids(p.cmd.Process.Pid) {
			d += procCPU(pid)
		}
	}
	return d
}

// RSS is the resident memory in bytes, 0 when not running.
func (p *Process) RSS() int64 {
	var sum int64
	for _, pid := range p.pids(p.Pid()) {
		sum += procRSS(pid)
	}
	return sum
}

// LastLog is the last line the process wrote, for error texts.
func (p *Process) LastLog() string {
	b, err := os.ReadFile(p.LogFile)
	if err != nil || len(b) == 0 {
		return "(no log)"
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[len(lines)-1]
}

// pids lists the process and, with Children, all below it.
func (p *Process) pids(root int) []int {
	if !p.Children || root == 0 {
		return []int{root}
	}
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return []int{root}
	}
	below := make(map[int][]int)
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		if f := statFields(pid); len(f) > 1 {
			if parent, err := strconv.Atoi(f[1]); err == nil {
				below[parent] = append(below[parent], pid)
			}
		}
	}
	all := []int{root}
	for i := 0; i < len(all); i++ {
		all = append(all, below[all[i]]...)
	}
	return all
}

// statFields are the fields of /proc/PID/stat (proc(5)) from the third on, the state; nil when the process is gone. The
// name in field 2 may hold spaces and parentheses.
func statFields(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
}

// procCPU reads utime and stime, fields 14 and 15, in ticks of 10 ms.
func procCPU(pid int) time.Duration {
	f := statFields(pid)
	if len(f) < 13 {
		return 0
	}
	u, _ := strconv.ParseInt(f[11], 10, 64)
	s, _ := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(u+s) * 10 * time.Millisecond
}

func procRSS(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(f[1], 10, 64)
	return pages * int64(os.Getpagesize())
}
