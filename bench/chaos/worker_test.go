package chaos

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
)

// worker starts a `quorate work` process in a process group of its own; it is killed, children included, at the test's end.
func worker(t *testing.T, c *proc.Cluster, queue string, flags []string, script string) *exec.Cmd {
	t.Helper()
	args := append([]string{"work", queue, "--addr", strings.Join(c.Addrs(), ",")}, flags...)
	cmd := exec.Command(quorateBin, append(args, "--", "sh", "-c", script)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { killGroup(cmd) })
	return cmd
}

// busy starts a worker and returns when the command of its first task runs, which does what is named and then sleeps for half a
// minute. That a task is leased is not enough: what a worker hears of after it was told to end, it gives back unbegun.
func busy(t *testing.T, c *proc.Cluster, queue string, flags []string, first string) *exec.Cmd {
	t.Helper()
	begun := filepath.Join(t.TempDir(), "begun")
	w := worker(t, c, queue, flags, first+"; : >"+begun+"; exec sleep 30")
	eventually(t, 30*time.Second, "its command runs", func(context.Context) bool {
		_, err := os.Stat(begun)
		return err == nil
	})
	return w
}

// killGroup kills a process started by worker and waits for it. The commands it runs are groups of their own and end on
// their own.
func killGroup(cmd *exec.Cmd) {
	if cmd.ProcessState != nil {
		return
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended
	_ = cmd.Wait()                                      // killed is how it should end
}

// A worker killed in mid-task: its task goes to another after the lease, as the second attempt. (C32)
func TestWorkerKilledInMidTask(t *testing.T) {
	c := start(t, 3)
	cl := open(t, c.Addrs()...)
	r, err := cl.Enqueue(t.Context(), "jobs", client.Message{Body: []byte("x"), Retry: &client.RetryPolicy{Kind: "fixed", Initial: 50 * time.Millisecond, MaxAttempts: 5}})
	if err != nil {
		t.Fatal(err)
	}
	killGroup(busy(t, c, "jobs", []string{"--lease", "4s"}, "true"))
	worker(t, c, "jobs", []string{"--lease", "4s"}, "echo $QUORATE_ATTEMPT")
	res, err := cl.WaitResult(within(t, time.Minute), "", r.ID)
	if err != nil {
		t.Fatal(err)
	}
	if res.Result == nil || string(res.Result.Output) != "2\n" || res.Result.Attempts != 2 {
		t.Fatalf("result %+v, want the output of attempt 2", res.Result)
	}
}

// A message whose worker dies each time ends in the dead letters with its history, after exactly its attempts; requeue makes
// it a fresh task. (C32, C48, C54)
func TestCrashLoopEndsInDeadLetters(t *testing.T) {
	c := start(t, 3)
	cl := open(t, c.Addrs()...)
	r, err := cl.Enqueue(t.Context(), "jobs", client.Message{Body: []byte("poison"), Retry: &client.RetryPolicy{Kind: "fixed", Initial: 50 * time.Millisecond, MaxAttempts: 3}})
	if err != nil {
		t.Fatal(err)
	}
	var crashes atomic.Int32
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() { // a supervisor that restarts its crashing worker
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			// $PPID is the quorate process: the command takes its worker down.
			cmd := exec.Command(quorateBin, "work", "jobs", "--addr", strings.Join(c.Addrs(), ","), "--lease", "500ms", "--drain", "--", "sh", "-c", "kill -9 $PPID; sleep 0.2")
			if cmd.Run() != nil {
				crashes.Add(1)
			}
		}
	}()
	res, err := cl.WaitResult(within(t, 60*time.Second), "", r.ID)
	close(stop)
	if err != nil {
		t.Fatal(err)
	}
	<-done
	d := res.Dead
	if d == nil {
		t.Fatalf("got %+v, want a dead letter", res)
	}
	if d.Reason != "max_attempts" || d.Attempts != 3 || d.Error != "lease expired" || len(d.History) != 3 {
		t.Fatalf("dead letter %+v, want reason max_attempts, 3 attempts, error \"lease expired\", 3 in the history", d)
	}
	for i, a := range d.History {
		if a.Number != i+1 || a.Error != "lease expired" || a.Worker == "" {
			t.Errorf("attempt %d in the history is %+v", i+1, a)
		}
	}
	if n := crashes.Load(); n < 3 {
		t.Errorf("the worker crashed %d times, want 3 or more", n)
	}
	rs, errs := cl.Requeue(t.Context(), "jobs", d.ID)
	if errs[0] != nil {
		t.Fatal(errs[0])
	}
	worker(t, c, "jobs", nil, "echo fine")
	res, err = cl.WaitResult(within(t, time.Minute), "", rs[0].ID)
	if err != nil || res.Result == nil || string(res.Result.Output) != "fine\n" || res.Result.Attempts != 1 {
		t.Fatalf("after requeue: %+v, %v", res, err)
	}
}

// A graceful end of a worker costs nothing: what it held is at once available to another, at its first attempt. (C38)
func TestWorkerStoppedCostsNoAttempt(t *testing.T) {
	c := start(t, 1)
	cl := open(t, c.Addrs()...)
	for range 10 {
		if _, err := cl.Enqueue(t.Context(), "jobs", client.Message{Body: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	w := worker(t, c, "jobs", []string{"--prefetch", "10", "--lease", "60s"}, "exec sleep 1")
	eventually(t, 20*time.Second, "ten are out", func(ctx context.Context) bool {
		q, err := cl.Queue(ctx, "jobs")
		return err == nil && q.Processing+q.Totals["acked"] >= 10
	})
	if err := w.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := w.Wait(); err != nil {
		t.Fatalf("worker after SIGTERM: %v", err)
	}
	ds, err := cl.Lease(within(t, 30*time.Second), "jobs", client.LeaseOptions{Max: 10})
	if err != nil {
		t.Fatal(err)
	}
	if len(ds) == 0 {
		t.Fatal("nothing was given back")
	}
	for _, d := range ds {
		if d.Attempt != 1 {
			t.Errorf("%s is at attempt %d, want 1: giving it back costs nothing", d.ID, d.Attempt)
		}
	}
}
