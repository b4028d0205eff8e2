package proc

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestProcess starts a shell that has a child of its own and ends it.
func TestProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	// The child says that it is there through the fifo, uses some CPU, and goes when its parent has closed the other pipe.
	p := &Process{
		Name: "shell", LogFile: filepath.Join(dir, "log"), Binary: "sh", Dir: dir, Children: true, Env: []string{"GREETING=hello"},
		Args: []string{"-c", `sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo "$GREETING" >fifo; read x <fifo' & wait`},
	}
	if p.Pid() != 0 || p.Running() || p.RSS() != 0 || p.CPU() != 0 {
		t.Error("a process that was never started has a pid, memory or CPU time")
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	if err := p.Start(); err == nil {
		t.Error("a running process was started again")
	}
	f, err := os.OpenFile(fifo, os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(f).ReadString('\n')
	if err != nil || line != "hello\n" {
		t.Fatalf("the child said %q (%v)", line, err)
	}
	if n := len(p.pids(p.Pid())); n != 2 {
		t.Errorf("%d processes were found, 2 expected", n)
	}
	all, rss := p.CPU(), p.RSS()
	p.Children = false
	if alone := p.CPU(); all <= alone {
		t.Errorf("CPU with the child is %s, without %s", all, alone)
	}
	if alone := p.RSS(); rss <= alone || alone <= 0 {
		t.Errorf("resident memory with the child is %d, without %d", rss, alone)
	}
	// The child waits for a writer: be one, and go.
	w, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.WriteString("bye\n")
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if code, err := p.Exited(ctx); err != nil || code != 0 {
		t.Errorf("the shell ended with %d (%v)", code, err)
	}
	w.Close()
	f.Close()
	if err := p.Start(); err != nil {
		t.Errorf("start after the end: %v", err)
	}
	// This time the child is in the middle of its loop, or about to write into the fifo, which it cannot finish.
	p.Children = true
	for len(p.pids(p.Pid())) < 2 {
		if err := pause(ctx, time.Millisecond); err != nil {
			t.Fatal("the shell started no child")
		}
	}
	child := p.pids(p.Pid())[1]
	p.Kill()
	for {
		f := statFields(child)
		if len(f) == 0 || f[0] == "Z" { // gone, or waiting for whoever has inherited it
			break
		}
		if pause(ctx, time.Millisecond) != nil {
			t.Fatalf("the child of the killed shell is still there, in state %s", f[0])
		}
	}
	if code, err := p.Exited(ctx); err != nil || code != -1 {
		t.Errorf("the killed shell ended with %d (%v), -1 expected", code, err)
	}
}

func TestFreePorts(t *testing.T) {
	t.Parallel()
	ports, err := FreePorts(20)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, p := range ports {
		seen[p] = true
	}
	if len(seen) != 20 {
		t.Errorf("%d different ports of 20: %v", len(seen), ports)
	}
}
