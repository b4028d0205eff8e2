package main

import (
	"bytes"
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

func TestAtMostOnceByHand(t *testing.T) {
	t.Parallel()
	addr := devNode(t)
	must(t, addr, "", "queue", "create", "q", "--delivery", "at_most_once")
	must(t, addr, "", "enqueue", "q", "one")
	if code, _, errs := cliRun(t, addr, "", "queue", "set", "q", "--delivery", "at_least_once"); code != exitFailed || !strings.Contains(errs, "live messages") {
		t.Errorf("delivery changed over a message: exit %d, %s", code, errs)
	}
	type leased struct {
		Token       string
		Body        []byte
		Attempt     int
		LeaseLeftMS int64 `json:"lease_left_ms"`
		AtMostOnce  bool  `json:"at_most_once"`
	}
	ms := decode[[]leased](t, must(t, addr, "", "lease", "q", "-o", "json"))
	if len(ms) != 1 || string(ms[0].Body) != "one" || ms[0].Attempt != 1 || !ms[0].AtMostOnce || ms[0].LeaseLeftMS != 0 {
		t.Fatalf("leased %+v", ms)
	}
	if s := statsOf(t, addr, "q"); s.Pending != 0 || s.Processing != 0 || s.Counters["acked"] != 1 {
		t.Errorf("stats %+v", s)
	}
	must(t, addr, "", "ack", ms[0].Token)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"nack", ms[0].Token}, "lease_lost"}, {[]string{"release", ms[0].Token}, "lease_lost"}, {[]string{"extend", ms[0].Token}, "lease_lost"},
		{[]string{"ack", ms[0].Token, "--result", "-"}, "already_exists"},
	} {
		if code, _, errs := cliRun(t, addr, "x", c.args...); code != exitFailed || !strings.Contains(errs, c.want) {
			t.Errorf("%v: exit %d, %s", c.args[0], code, errs)
		}
	}
	for i := range 3 {
		must(t, addr, "", "enqueue", "q", fmt.Sprint("body ", i))
	}
	// One fails, and nobody tries it again.
	var out, errs bytes.Buffer
	if code := execute(t.Context(), []string{"work", "q", "--drain", "--addr", addr, "--", "sh", "-c", `read -r body; [ "$body" != "body 1" ]`},
		strings.NewReader(""), &out, &errs); code != 0 {
		t.Fatalf("work: exit %d: %s", code, errs.String())
	}
	if s := statsOf(t, addr, "q"); s.Pending != 0 || s.Dlq != 0 || s.Counters["acked"] != 4 || s.Counters["nacked"] != 0 {
		t.Errorf("stats %+v", s)
	}
	must(t, addr, "", "queue", "set", "q", "--delivery", "at_least_once")
}
