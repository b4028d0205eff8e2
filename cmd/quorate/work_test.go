package main

import (
	"context"
	"strings"
	"sync"
	"testing"
)

// told is what a command has written so far.
type told struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (w *told) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *told) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// A worker of a queue that is not there says so, and has the first message all the same; one that drains says that there is nothing.
func TestWorkOfNoQueue(t *testing.T) {
	t.Parallel()
	addr := devNode(t)
	var errs, out told
	if code := execute(t.Context(), []string{"work", "misspelt", "--drain", "--addr", addr, "--", "true"}, strings.NewReader(""), &out, &errs); code != exitDone {
		t.Errorf("exit %d", code)
	}
	if want := `quorate: queue "misspelt" does not exist: nothing is to be done` + "\n"; errs.String() != want {
		t.Errorf("it says %q, want %q", errs.String(), want)
	}

	var waits told
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan int, 1)
	go func() {
		done <- execute(ctx, []string{"work", "later", "--addr", addr, "--", "echo", "done"}, strings.NewReader(""), &out, &waits)
	}()
	want := `quorate: queue "later" does not exist yet: waiting for its first message, or for quorate queue create` + "\n"
	await(t, "a word", func() bool { return waits.String() == want }, &waits)
	id := strings.TrimSpace(must(t, addr, "", "enqueue", "later", "x"))
	if got := must(t, addr, "", "result", "wait", id); got != "done\n" {
		t.Errorf("the result is %q", got)
	}
	stop()
	if code := <-done; code != exitDone {
		t.Errorf("exit %d: %s", code, waits.String())
	}
	var still told
	if code := execute(t.Context(), []string{"work", "later", "--drain", "--addr", addr, "--", "true"}, strings.NewReader(""), &out, &still); code != exitDone || still.String() != "" {
		t.Errorf("a queue that is there: exit %d, it says %q", code, still.String())
	}
}
