package cluster

import (
	"syscall"
	"testing"
	"time"
)

func niceHere(t *testing.T) int {
	t.Helper()
	p, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	if err != nil {
		t.Error(err)
	}
	return threadNice(p)
}

// Only the thread that works aside is nicer, what it starts is not, and it is gone afterwards.
func TestAside(t *testing.T) {
	base := niceHere(t)
	var thread, within, started int
	aside(func() {
		thread, within = syscall.Gettid(), niceHere(t)
		done := make(chan int)
		go func() { done <- niceHere(t) }()
		started = <-done
	})
	if thread == syscall.Getpid() {
		t.Error("it ran on the main thread")
	}
	if want := min(base+asideNice, 19); within != want {
		t.Errorf("nice %d aside, want %d", within, want)
	}
	if started != base {
		t.Errorf("a goroutine started there runs at nice %d, want %d", started, base)
	}
	gone := func() bool { // or its number has been given to another
		p, err := syscall.Getpriority(syscall.PRIO_PROCESS, thread)
		return err != nil || threadNice(p) == base
	}
	for deadline := time.Now().Add(30 * time.Second); !gone(); aside(func() {}) { // it ends a moment after its goroutine
		if time.Now().After(deadline) {
			t.Fatalf("thread %d is still there", thread)
		}
	}
	if n := niceHere(t); n != base {
		t.Errorf("nice %d afterwards, want %d", n, base)
	}
}
