//go:build linux

package netswitch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/proc"
)

// A program that is started at a place is that process, and is in that namespace alone.
func TestWrap(t *testing.T) {
	s := begin(t, 2)
	namespaces := map[string]bool{}
	for _, name := range []string{"n1", "n2", Clients} {
		argv := append(s.Wrap(name), "sh", "-c", "echo $$; readlink /proc/self/ns/net; cat /proc/net/dev")
		cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(out), "\n")
		if lines[0] != fmt.Sprint(cmd.Process.Pid) {
			t.Errorf("%s: the program is process %s, want %d", name, lines[0], cmd.Process.Pid)
		}
		namespaces[lines[1]] = true
		var devices []string
		for _, line := range lines[2:] {
			if device, _, ok := strings.Cut(line, ":"); ok {
				devices = append(devices, strings.TrimSpace(device))
			}
		}
		// sit0, tunl0 and the like are there in every namespace where the kernel has them built in, and are down.
		if !slices.Contains(devices, "lo") || !slices.Contains(devices, tunName) || slices.ContainsFunc(devices, func(d string) bool {
			return strings.HasPrefix(d, "eth") || strings.HasPrefix(d, "en")
		}) {
			t.Errorf("%s: devices are %v", name, devices)
		}
	}
	if len(namespaces) != 3 {
		t.Errorf("the places are in the namespaces %v, want three", namespaces)
	}
}

// There is no way out: the machine's addresses cannot be reached, nor anybody else's.
func TestNoUplink(t *testing.T) {
	s := begin(t, 1)
	for _, at := range []string{Clients, "n1"} {
		for _, addr := range []string{"198.51.100.1:80", "192.0.2.200:80"} {
			err := s.At(at, func() error {
				c, err := net.DialTimeout("tcp4", addr, 50*time.Millisecond)
				if err == nil {
					c.Close()
				}
				return err
			})
			if err == nil {
				t.Errorf("%s is reached from %s", addr, at)
			}
		}
	}
}

func TestNewRefuses(t *testing.T) {
	if err := Available(); err != nil {
		t.Skipf("there can be no switch here: %v", err)
	}
	var many []string
	for i := range nodesMost + 1 {
		many = append(many, fmt.Sprint(i))
	}
	for says, o := range map[string]Options{
		"there are 0 nodes":               {Life: time.Second},
		"there are 16 nodes":              {Life: time.Second, Nodes: many},
		`a node is called "n1"`:           {Life: time.Second, Nodes: []string{"n1", "n2", "n1"}},
		`a node is called "clients"`:      {Life: time.Second, Nodes: []string{"clients"}},
		`a node is called ""`:             {Life: time.Second, Nodes: []string{""}},
		"life is 0s":                      {Nodes: []string{"n1"}},
		"life is 13h0m0s, want more than": {Life: 13 * time.Hour, Nodes: []string{"n1"}},
	} {
		s, err := New(o)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %q", err, says)
		}
	}
}

// After its life a switch is closed, and says so; a new one can be made.
func TestLife(t *testing.T) {
	if err := Available(); err != nil {
		t.Skipf("there can be no switch here: %v", err)
	}
	s, err := New(Options{Nodes: []string{"n1"}, Life: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		if err := s.Heal(); err != nil && strings.Contains(err.Error(), "after its life of 2s") {
			return ""
		}
		return "the switch closes"
	})
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	begin(t, 1)
}

// envVictim makes a test binary a program with a switch and a process at it, which waits to be killed.
const envVictim = "NETSWITCH_VICTIM"

// alive are the processes of a victim.
type alive struct{ Outer, Inner, Node int }

func victim() {
	s, err := New(Options{Nodes: []string{"n1"}, Life: time.Minute})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	argv := append(s.Wrap("n1"), "sleep", "60")
	p := proc.Process{Name: "n1", LogFile: os.DevNull, Binary: argv[0], Args: argv[1:]}
	if err := p.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = json.NewEncoder(os.Stdout).Encode(alive{os.Getppid(), os.Getpid(), p.Pid()}) // whoever reads it misses it
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')                                // until it is told, or killed
	p.Kill()
	if err := s.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(7)
}

// gone says that a process has ended, though nobody may have asked how.
func gone(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	rest := b[bytes.LastIndexByte(b, ')')+1:]
	return len(rest) > 1 && rest[1] == 'Z'
}

// Whichever of its processes is killed, or ends, nothing of an enclosed program is left; its status is told.
func TestNothingIsLeft(t *testing.T) {
	if err := Available(); err != nil {
		t.Skipf("there can be no switch here: %v", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		end    func(a alive, told func()) error
		status int
	}{
		{"ends by itself", func(_ alive, told func()) error { told(); return nil }, 7},
		{"the one that was started is killed", func(a alive, _ func()) error { return syscall.Kill(a.Outer, syscall.SIGKILL) }, -1},
		{"the enclosed one is killed", func(a alive, _ func()) error { return syscall.Kill(a.Inner, syscall.SIGKILL) }, 128 + 9},
		{"asked to end", func(a alive, _ func()) error { return syscall.Kill(a.Outer, syscall.SIGTERM) }, 128 + 15},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), self)
			for _, kv := range os.Environ() {
				if !strings.HasPrefix(kv, envOuter+"=") { // it encloses itself anew
					cmd.Env = append(cmd.Env, kv)
				}
			}
			cmd.Env = append(cmd.Env, envVictim+"=1")
			cmd.Stderr = os.Stderr
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var a alive
			if err := json.NewDecoder(out).Decode(&a); err != nil {
				t.Fatal(err)
			}
			if a.Outer != cmd.Process.Pid || a.Inner == a.Outer || a.Node == 0 {
				t.Errorf("processes are %+v, the one that was started is %d", a, cmd.Process.Pid)
			}
			if err := tc.end(a, func() { in.Close() }); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // the status says it
			if got := cmd.ProcessState.ExitCode(); got != tc.status {
				t.Errorf("ended with %d, want %d", got, tc.status)
			}
			for _, pid := range []int{a.Inner, a.Node} {
				eventually(t, func() string {
					if !gone(pid) {
						return fmt.Sprintf("process %d of %+v ends", pid, a)
					}
					return ""
				})
			}
		})
	}
}
