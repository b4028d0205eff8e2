package proc

import (
	"os/exec"
	"runtime"
	"sync"
)

// StartBound starts cmd on a thread that is kept until release is called, which must be after the process has ended. With
// Pdeathsig a process is sent its signal when the thread that started it ends, and threads do end in a program that locks
// goroutines to them, as a node does at its start.
func StartBound(cmd *exec.Cmd) (release func(), err error) {
	started, over := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			<-over
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() { close(over) }), nil
}
