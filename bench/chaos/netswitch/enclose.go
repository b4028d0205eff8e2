//go:build linux

package netswitch

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/quorate/quorate/bench/proc"
)

// envOuter is set in an enclosed program: the network namespace of the one that started it.
const envOuter = "NETSWITCH_OUTER"

// Available says why there can be no switch here, nil if there can: it takes the right to make network namespaces, /dev/net/tun, and
// nsenter(1).
func Available() error { return available() }

var available = sync.OnceValue(func() error {
	if _, err := exec.LookPath("nsenter"); err != nil {
		return fmt.Errorf("processes cannot be put into network namespaces: %w (it is in util-linux)", err)
	}
	err := onThread(func() error { return unix.Unshare(unix.CLONE_NEWNET) }, func() error {
		tun, err := openTUN()
		if err != nil {
			return err
		}
		return tun.Close()
	})
	if err != nil {
		return fmt.Errorf("no network namespaces with devices of their own: %w", err)
	}
	return nil
})

// Ready says why this process can have no switch, nil if it can: there are some here (Available), and it has been enclosed (Enclose).
func Ready() error {
	if err := Available(); err != nil {
		return err
	}
	inside, err := enclosed()
	if err == nil && !inside {
		err = errors.New("this process is in the machine's network: its main or TestMain must begin with netswitch.Enclose")
	}
	return err
}

// Enclose puts the program into a network namespace of its own, in which there is loopback and nothing else. To be called first, in main or
// TestMain: done says that the program has been run so, in a process that was started for it and has ended, and that this one should exit
// with its status. Otherwise this is that process, or there can be no switch here (Available), and the program goes on where it is; where
// something was wrong it has been said on standard error.
//
// The process gets this one's arguments, environment and files, and the signals that ask this one to end. It is killed when this one is.
func Enclose() (status int, done bool) {
	inside, err := enclosed()
	if err == nil {
		switch {
		case inside:
			if err = up("lo"); err == nil {
				return 0, false
			}
		case Available() != nil:
			return 0, false
		default:
			status, err = again()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "netswitch: run in a network namespace of its own:", err)
		return 1, true
	}
	return status, true
}

// enclosed says whether this process was started by Enclose.
func enclosed() (bool, error) {
	here, err := os.Readlink("/proc/self/ns/net")
	if errors.Is(err, os.ErrNotExist) {
		return false, nil // no namespaces at all: Available says so
	}
	if err != nil {
		return false, err
	}
	outer := os.Getenv(envOuter)
	return outer != "" && outer != here, nil // one that such a process has started somewhere else is not fooled
}

// again runs the program again, in a new namespace.
func again() (status int, err error) {
	here, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return 0, err
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), envOuter+"="+here)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	// A process group of its own: what a terminal sends comes through this process, once.
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Setpgid: true, Pdeathsig: syscall.SIGKILL}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP)
	defer signal.Stop(signals)
	release, err := proc.StartBound(cmd)
	if err != nil {
		return 0, err
	}
	defer release()
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				_ = cmd.Process.Signal(s) // it may just have ended
			case <-ended:
				return
			}
		}
	}()
	err = cmd.Wait()
	close(ended)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		fmt.Fprintln(os.Stderr, "netswitch: the enclosed program was ended by a signal:", ws.Signal())
		return 128 + int(ws.Signal()), nil
	}
	return cmd.ProcessState.ExitCode(), nil
}
