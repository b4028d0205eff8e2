package transport

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/wire"
)

// Refusals of a queue are told by what kept the messages out, in metrics and in the queue's counters, and go with the queue.
func TestRefusalMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	n := stations(t, 1, Config{Registry: reg, MetricQueues: 2})[0]
	p, _ := session(t, n.addr)
	var ok wire.OK
	p.ask(wire.TypeQueueCreate, &wire.QueueWrite{Queue: "a", Options: wire.QueueOptions{MaxDepth: 2, MaxBytes: 12}}, wire.TypeOK, &ok)
	messages := []wire.Message{
		{Body: wire.Bytes("1234567890123")},        // too large
		{Body: wire.Bytes("123"), TaskID: "t"},     // 3 and 2
		{Body: wire.Bytes("again"), TaskID: "t"},   // taken
		{Body: wire.Bytes("12345678")},             // no room for its bytes
		{}, {}, {Body: wire.Bytes("123456789012")}, // two are too many
	}
	var rep wire.Enqueued
	p.ask(wire.TypeEnqueue, &wire.Enqueue{Queue: "a", Messages: messages}, wire.TypeEnqueued, &rep)
	_, text, _ := get(t, "http://"+n.addr+"/metrics")
	for _, line := range []string{
		`quorate_queue_refused_total{queue="a",reason="too_large"} 1`, `quorate_queue_refused_total{queue="a",reason="task_id"} 1`,
		`quorate_queue_refused_total{queue="a",reason="max_bytes"} 1`, `quorate_queue_refused_total{queue="a",reason="max_depth"} 2`,
		`quorate_faults_total{code="too_large"} 1`, `quorate_faults_total{code="already_exists"} 1`, `quorate_faults_total{code="queue_full"} 3`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no %s", line)
		}
	}
	if n := strings.Count(text, "\nquorate_queue_refused_total{"); n != 4 {
		t.Errorf("%d series of refusals, want 4: those that are not zero", n)
	}
	if t.Failed() {
		t.Log(text)
	}
	var is wire.QueueIs
	p.ask(wire.TypeQueueShow, &wire.QueueRef{Queue: "a"}, wire.TypeQueueIs, &is)
	for name, want := range map[string]int64{"refused": 5, "refused_max_depth": 2, "refused_max_bytes": 1, "refused_task_id": 1, "refused_too_large": 1} {
		if got := is.Queue.Totals[name]; got != want {
			t.Errorf("counter %s is %d, want %d", name, got, want)
		}
	}
	p.ask(wire.TypeQueueDelete, &wire.QueueRef{Queue: "a"}, wire.TypeOK, &ok)
	if _, text, _ = get(t, "http://"+n.addr+"/metrics"); strings.Contains(text, "quorate_queue_refused_total{") {
		t.Error("series of a deleted queue stay")
	}
}

// Every kind of refusal has a name of its own that may be a label.
func TestRefusalNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for kind, name := range refusals {
		if name == "" || seen[name] || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") != "" {
			t.Errorf("kind %d is called %q", kind, name)
		}
		seen[name] = true
	}
	if len(seen) != fsm.Refusals {
		t.Errorf("%d names for %d kinds", len(seen), fsm.Refusals)
	}
}
