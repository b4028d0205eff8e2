package main

import (
	"fmt"
	"strings"
	"testing"
)

type queueStats struct {
	Pending, Processing, Dlq int64
	Counters                 map[string]int64
}

func statsOf(t *testing.T, addr, queue string) queueStats {
	t.Helper()
	return decode[queueStats](t, must(t, addr, "", "queue", "stats", queue, "-o", "json"))
}

func TestOverflowByHand(t *testing.T) {
	t.Parallel()
	addr := devNode(t)
	must(t, addr, "", "queue", "create", "q", "--max-depth", "2", "--overflow", "drop_oldest")
	for i := range 5 {
		must(t, addr, "", "enqueue", "q", fmt.Sprint("body ", i))
	}
	if s := statsOf(t, addr, "q"); s.Pending != 2 || s.Dlq != 3 || s.Counters["overflowed"] != 3 || s.Counters["dead_overflow"] != 3 {
		t.Errorf("stats %+v", s)
	}
	for _, d := range deadList(t, addr, "q") {
		if d.Reason != "overflow" {
			t.Errorf("dead letter %+v", d)
		}
	}
	if out := must(t, addr, "", "queue", "show", "q"); !strings.Contains(out, "drop_oldest") {
		t.Errorf("show: %s", out)
	}
	must(t, addr, "", "queue", "set", "q", "--overflow", "reject")
	if out := must(t, addr, "", "queue", "show", "q"); !strings.Contains(out, "reject") {
		t.Errorf("show: %s", out)
	}
	if code, _, errs := cliRun(t, addr, "", "queue", "set", "q", "--overflow", "drop"); code != exitFailed || !strings.Contains(errs, "drop_oldest") {
		t.Errorf("an unknown overflow: exit %d, %s", code, errs)
	}
}
