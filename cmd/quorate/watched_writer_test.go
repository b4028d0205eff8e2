package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
)

var errFull = errors.New("no space left on device")

// fullDisk is a standard output that takes room bytes.
type fullDisk struct{ room int }

func (d *fullDisk) Write(p []byte) (int, error) {
	n := min(d.room, len(p))
	if d.room -= n; n < len(p) {
		return n, errFull
	}
	return n, nil
}

// A command whose output is lost says so and fails, also where it has done its work.
func TestLostOutputIsAnError(t *testing.T) {
	t.Parallel()
	addr := devNode(t)
	must(t, addr, "", "queue", "create", "q")
	must(t, addr, "", "enqueue", "q", "x", "--task-id", "kept", "--delay", "1h")
	must(t, addr, "", "enqueue", "q", "x", "--task-id", "gone", "--delay", "1h")
	must(t, addr, "", "result", "push", "done", "output", "--queue", "q")
	batch := strings.TrimSpace(must(t, addr, "", "batch", "create", "q"))
	must(t, addr, "", "schedule", "create", "s", "--queue", "q", "--cron", "@yearly")
	for _, line := range []string{
		"enqueue q x", "enqueue q --lines", "enqueue q x -o json", "queue list", "queue list -o json", "queue create q2", "queue set q --lease 20s",
		"queue pause q", "queue resume q", "queue show q", "queue stats q", "queue peek q", "task status kept --queue q",
		"task reschedule kept --queue q --delay 2h", "task replace kept y --queue q", "task cancel gone --queue q", "result get done --queue q",
		"result list q", "result push more x --queue q", "batch create q", "batch show " + batch, "batch add " + batch + " q x", "batch seal " + batch,
		"schedule create s2 --queue q --cron @yearly", "schedule list", "schedule show s", "schedule pause s", "schedule resume s",
		"kv list", "dlq list q", "dlq export q", "dlq export q --format csv", "dlq purge q", "lease q", "cluster status", "version", "--help",
	} {
		for name, room := range map[string]int{"nothing": 0, "one_byte": 1} {
			if strings.HasPrefix(line, "result get") && room > 0 {
				room = 3
			}
			var errs bytes.Buffer
			args := append(strings.Fields(line), "--addr", addr)
			if code := execute(t.Context(), args, strings.NewReader("a\nb\n"), &fullDisk{room}, &errs); code == 0 || !strings.Contains(errs.String(), errFull.Error()) {
				t.Errorf("%s into a disk with room for %s: exit %d, %q", line, name, code, errs.String())
			}
		}
	}
}

// Ctrl-C is called by its name.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	addr := devNode(t)
	must(t, addr, "", "enqueue", "q", "x", "--task-id", "never", "--delay", "1h")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	code := execute(ctx, []string{"result", "wait", "never", "--queue", "q", "--addr", addr}, strings.NewReader(""), &out, &errs)
	if code != exitFailed || errs.String() != "quorate: interrupted\n" {
		t.Errorf("exit %d, %q", code, errs.String())
	}
}
