package proc

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Node is one node: a folder, three ports, and at most one process.
type Node struct {
	Name, ClientAddr, RaftAddr, GossipAddr string
	DataDir, LogFile                       string

	binary string
	args   []string
	env    []string
	wrap   []string // a program and its flags that runs the binary, such as strace

	mu   sync.Mutex // guards what follows
	cmd  *exec.Cmd
	done chan struct{} // closed when cmd has ended and its state is known
	past time.Duration // CPU of ended processes
	exit *os.ProcessState
}

// Start starts the process; output is appended to LogFile. Starting a running node is an error.
func (n *Node) Start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd != nil {
		return fmt.Errorf("node %s runs already", n.Name)
	}
	log, err := os.OpenFile(n.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log of node %s: %w", n.Name, err)
	}
	defer log.Close()
	argv := append(append(append([]string{}, n.wrap...), n.binary), n.args...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), n.env...)
	cmd.Stdout, cmd.Stderr = log, log
	// A node must not outlive whoever started it, and must not get its terminal's Ctrl-C.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start node %s: %w", n.Name, err)
	}
	done := make(chan struct{})
	n.cmd, n.done = cmd, done
	go func() {
		_ = cmd.Wait() // the state says how it ended
		n.mu.Lock()
		n.past += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		n.exit, n.cmd = cmd.ProcessState, nil
		n.mu.Unlock()
		close(done)
	}()
	return nil
}

// Wrap makes later starts run the binary under another program; without arguments it ends that.
func (n *Node) Wrap(argv ...string) { n.wrap = argv }

// Running says whether the process is alive.
func (n *Node) Running() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cmd != nil
}

// Pid is the process id, 0 when not running.
func (n *Node) Pid() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return 0
	}
	return n.cmd.Process.Pid
}

// Exited waits until the process has ended and returns its exit code (−1: by a signal).
func (n *Node) Exited(ctx context.Context) (int, error) {
	n.mu.Lock()
	done := n.done
	n.mu.Unlock()
	if done == nil {
		return 0, fmt.Errorf("node %s was never started", n.Name)
	}
	select {
	case <-done:
	case <-ctx.Done():
		return 0, fmt.Errorf("node %s still runs: %w", n.Name, ctx.Err())
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.exit.ExitCode(), nil
}

// Signal sends a signal to the process, if it runs.
func (n *Node) Signal(s os.Signal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd != nil {
		_ = n.cmd.Process.Signal(s) // it may just have ended
	}
}

// Kill ends the process with SIGKILL and waits for it.
func (n *Node) Kill() {
	n.Signal(syscall.SIGKILL)
	n.wait(time.Minute)
}

// Stop ends the process with SIGTERM and waits; after ten seconds it kills it and says so.
func (n *Node) Stop() error {
	n.Signal(syscall.SIGTERM)
	if n.wait(10 * time.Second) {
		return nil
	}
	n.Kill()
	return fmt.Errorf("node %s did not stop within 10 s of SIGTERM and was killed; see %s", n.Name, n.LogFile)
}

func (n *Node) wait(d time.Duration) bool {
	n.mu.Lock()
	done, running := n.done, n.cmd != nil
	n.mu.Unlock()
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

// CPU is the user and system time of all this node's processes so far.
func (n *Node) CPU() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	d := n.past
	if n.cmd != nil {
		d += procCPU(n.cmd.Process.Pid)
	}
	return d
}

// procCPU reads utime and stime, fields 14 and 15 of /proc/PID/stat (proc(5)), in ticks of 10 ms.
func procCPU(pid int) time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), ") ") // the name in field 2 may hold spaces
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	u, _ := strconv.ParseInt(f[11], 10, 64)
	s, _ := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(u+s) * 10 * time.Millisecond
}

// RSS is the resident memory of the process in bytes, 0 when not running.
func (n *Node) RSS() int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", n.Pid()))
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

// WaitReady waits until /readyz says yes; it fails at once when the process ends.
func (n *Node) WaitReady(ctx context.Context) error {
	for {
		if !n.Running() {
			return fmt.Errorf("node %s ended before it was ready: %s", n.Name, n.lastLog())
		}
		if code, _ := n.get(ctx, "/readyz"); code == http.StatusOK {
			return nil
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return fmt.Errorf("node %s is not ready: %w; last log: %s", n.Name, err, n.lastLog())
		}
	}
}

// Leads asks the node whether it leads (the "leader" field of /readyz).
func (n *Node) Leads(ctx context.Context) bool {
	_, body := n.get(ctx, "/readyz")
	var r struct {
		Leader bool `json:"leader"`
	}
	return json.Unmarshal(body, &r) == nil && r.Leader
}

func (n *Node) get(ctx context.Context, path string) (int, []byte) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.ClientAddr+path, nil)
	if err != nil {
		return 0, nil
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	if err != nil {
		return 0, nil
	}
	return res.StatusCode, b
}

// lastLog is the last line the node wrote, for error texts.
func (n *Node) lastLog() string {
	b, err := os.ReadFile(n.LogFile)
	if err != nil || len(b) == 0 {
		return "(no log)"
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[len(lines)-1]
}
