package proc

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
)

// A process outlives the threads of the one that started it.
func TestStartBoundOutlivesThreads(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	release, err := StartBound(cmd)
	if err != nil {
		t.Fatal(err)
	}
	for range 50 { // threads that end, the idle ones first
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(runtime.LockOSThread)
		}
		wg.Wait()
	}
	// SIGTERM would not be what ends it, had it been killed before.
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it says how it ended
	release()
	release() // does nothing
	if s, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGTERM {
		t.Errorf("it ended by %v, want %v", cmd.ProcessState, syscall.SIGTERM)
	}
}

func TestStartBoundFails(t *testing.T) {
	if _, err := StartBound(exec.Command("/no/such/program")); err == nil {
		t.Error("no error")
	}
}
