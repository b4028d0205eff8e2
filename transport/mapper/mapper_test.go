package mapper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/transport/mapping"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeBroker hands out messages and notes what becomes of them.
type fakeBroker struct {
	mu      sync.Mutex
	leads   bool
	targets []Target
	queued  map[string][]string // bodies that wait, by queue
	events  []string
	changed chan struct{}                                 // gets a value for each event, as far as it has room
	ack     func(body string, generation uint64) error    // nil: fine
	unmap   func(generation uint64) error                 // nil: fine
	consume func(ctx context.Context, queue string) error // nil: hands out what is queued
}

func newFake(targets ...Target) *fakeBroker {
	return &fakeBroker{leads: true, targets: targets, queued: map[string][]string{}, changed: make(chan struct{}, 1000)}
}

func (b *fakeBroker) note(format string, args ...any) {
	b.mu.Lock()
	b.events = append(b.events, fmt.Sprintf(format, args...))
	b.mu.Unlock()
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

func (b *fakeBroker) set(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

func (b *fakeBroker) Leads() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.leads
}

func (b *fakeBroker) Targets(context.Context, int) []Target {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]Target(nil), b.targets...)
}

func (b *fakeBroker) Consume(ctx context.Context, queue string, concurrency int, lease time.Duration, handle func(ctx context.Context, m *Message) Verdict) error {
	if concurrency != Concurrency || lease != leaseTime {
		b.note("consumes %d for %s", concurrency, lease)
	}
	b.mu.Lock()
	f := b.consume
	b.mu.Unlock()
	if f != nil {
		if err := f(ctx, queue); err != nil {
			return err
		}
	}
	for ctx.Err() == nil {
		b.mu.Lock()
		var body string
		some := len(b.queued[queue]) > 0
		if some {
			body, b.queued[queue] = b.queued[queue][0], b.queued[queue][1:]
		}
		b.mu.Unlock()
		if !some {
			select {
			case <-ctx.Done():
			case <-time.After(time.Millisecond):
			}
			continue
		}
		m := &Message{Token: "token of " + body, Input: mapping.Input{Body: []byte(body), Queue: queue, Kind: "k"}}
		switch v := handle(ctx, m); v.Do {
		case Return:
			b.set(func() { b.queued[queue] = append([]string{body}, b.queued[queue]...) })
			b.note("%s returned", body)
		case Retry:
			b.note("%s retried: %s", body, v.Error)
		}
	}
	return nil
}

func (b *fakeBroker) Ack(_ context.Context, token, to string, generation uint64, made []mapping.Message) error {
	b.mu.Lock()
	f := b.ack
	b.mu.Unlock()
	if f != nil {
		if err := f(strings.TrimPrefix(token, "token of "), generation); err != nil {
			return err
		}
	}
	var bodies []string
	for _, m := range made {
		bodies = append(bodies, string(m.Body)+" "+m.Kind)
	}
	b.note("%s acked to %s by %d: %s", token, to, generation, strings.Join(bodies, ", "))
	return nil
}

func (b *fakeBroker) Unmapped(_ context.Context, token string, generation uint64, text string) error {
	b.mu.Lock()
	f := b.unmap
	b.mu.Unlock()
	if f != nil {
		if err := f(generation); err != nil {
			return err
		}
	}
	b.note("%s dead by %d: %s", token, generation, text)
	return nil
}

// wait waits until an event holds this text.
func (b *fakeBroker) wait(t *testing.T, text string) {
	t.Helper()
	b.waitFor(t, text, func(events []string) bool {
		for _, e := range events {
			if strings.Contains(e, text) {
				return true
			}
		}
		return false
	})
}

func (b *fakeBroker) waitFor(t *testing.T, what string, ok func(events []string) bool) {
	t.Helper()
	late := time.After(10 * time.Second)
	for {
		b.mu.Lock()
		done, events := ok(b.events), strings.Join(b.events, "\n")
		b.mu.Unlock()
		if done {
			return
		}
		select {
		case <-b.changed:
		case <-late:
			t.Fatalf("no %q within 10 s, but\n%s", what, events)
		}
	}
}

// run runs a Mapper over the broker until the test ends. Waits take no time.
func run(t *testing.T, b *fakeBroker, reg prometheus.Registerer) *Mapper {
	t.Helper()
	now := make(chan time.Time)
	close(now)
	m, err := New(Config{Broker: b, Registry: reg, LookEvery: time.Millisecond, MaxBytes: 1000, After: func(time.Duration) <-chan time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return m
}

func target(expression string, generation uint64) Target {
	return Target{Queue: "from", To: "to", Expression: expression, Generation: generation}
}

// series are what a registry has: the counts by queue and outcome, and how many queues.
func series(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, family := range all {
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			switch family.GetName() {
			case "quorate_mapped_messages_total":
				out[labels["queue"]+" "+labels["outcome"]] = m.GetCounter().GetValue()
			case "quorate_mapped_queues":
				out["queues"] = m.GetGauge().GetValue()
			}
		}
	}
	return out
}

func TestMaps(t *testing.T) {
	b := newFake(target(`body.n > 0 ? [body, body.n] : nil`, 7), Target{Queue: "other", To: "to", Expression: "body", Generation: 8})
	b.queued["from"] = []string{`{"n":1}`, `{"n":0}`, `{"n":"x"}`}
	b.queued["other"] = []string{`2`}
	reg := prometheus.NewRegistry()
	m := run(t, b, reg)
	b.wait(t, `token of {"n":1} acked to to by 7: {"n":1} k, 1 k`)
	b.wait(t, `token of {"n":0} acked to to by 7: `)
	b.wait(t, `token of {"n":"x"} dead by 7: map_to: 1:`)
	b.wait(t, `token of 2 acked to to by 8: 2 k`)
	want := map[string]float64{"from failed": 1, "from mapped": 1, "from nothing": 1, "other mapped": 1, "queues": 2}
	b.waitFor(t, fmt.Sprint(want), func([]string) bool { // they come behind the answers
		b.changed <- struct{}{}
		return maps.Equal(series(t, reg), want)
	})
	if got := m.State("from"); got != "mapping" {
		t.Errorf("state %q", got)
	}
	if got := m.State("none"); got != "" {
		t.Errorf("state of a queue that is not mapped: %q", got)
	}
	// What is mapped no longer has no series.
	b.set(func() { b.targets = nil })
	b.waitFor(t, "no series", func([]string) bool {
		b.changed <- struct{}{}
		return maps.Equal(series(t, reg), map[string]float64{"queues": 0})
	})
}

// A full queue is waited for, with the lease, and is said to be.
func TestWaits(t *testing.T) {
	b := newFake(target("body", 7))
	b.queued["from"] = []string{"1"}
	tries := 0
	m := (*Mapper)(nil)
	ready, said := make(chan struct{}), make(chan string, 1)
	b.ack = func(string, uint64) error {
		tries++
		if tries == 3 {
			<-ready
			select {
			case said <- m.State("from"):
			default:
			}
		}
		if tries < 5 {
			return &Refusal{Text: "queue_full: queue \"to\" holds 5 messages", Later: true}
		}
		return nil
	}
	m = run(t, b, nil)
	close(ready)
	b.wait(t, "token of 1 acked")
	if got := <-said; got != "mapping" && !strings.Contains(got, "holds 5 messages") {
		t.Errorf("state %q", got)
	}
	if tries != 5 {
		t.Errorf("%d tries, want 5", tries)
	}
}

// What would never be taken is a dead letter.
func TestRefusedForGood(t *testing.T) {
	b := newFake(target("body", 7))
	b.queued["from"] = []string{"1"}
	b.ack = func(string, uint64) error { return &Refusal{Text: "then[0].message.body: it does not fit the schema"} }
	run(t, b, nil)
	b.wait(t, "token of 1 dead by 7: map_to: then[0].message.body: it does not fit the schema")
}

// A mapping that has been changed meanwhile is looked for at once, and the message goes by the new one.
func TestStale(t *testing.T) {
	for _, c := range []struct{ name, old string }{{"what it has come to", "body"}, {"that it fails", "body.x.y"}} {
		t.Run(c.name, func(t *testing.T) {
			b := newFake(target(c.old, 7))
			b.queued["from"] = []string{"1"}
			stale := func(generation uint64) error {
				if generation == 7 {
					b.set(func() { b.targets = []Target{target("body + 1", 8)} })
					return ErrStale
				}
				return nil
			}
			b.ack = func(_ string, generation uint64) error { return stale(generation) }
			b.unmap = stale
			run(t, b, nil)
			b.wait(t, "1 returned")
			b.wait(t, "token of 1 acked to to by 8: 2 k")
		})
	}
}

// A node that leads no longer maps nothing more, whatever it still has leased.
func TestLeadership(t *testing.T) {
	b := newFake(target("body", 7))
	held := make(chan struct{})
	first := true
	b.ack = func(string, uint64) error {
		b.set(func() {
			if first {
				b.leads, first = false, false
				close(held)
			}
		})
		return nil
	}
	b.queued["from"] = []string{"1", "2"}
	run(t, b, nil)
	<-held
	b.wait(t, "2 returned")
	b.set(func() { b.leads = true })
	b.wait(t, "token of 2 acked")
}

// An error that says nothing of the message gives it back; its token decides.
func TestUnknown(t *testing.T) {
	b := newFake(target("body", 7))
	b.queued["from"] = []string{"1"}
	n := 0
	b.ack = func(string, uint64) error {
		if n++; n == 1 {
			return errors.New("timeout")
		}
		return nil
	}
	run(t, b, nil)
	b.wait(t, "1 returned")
	b.wait(t, "token of 1 acked")
}

// Where no messages are to be had a queue rests, and says so.
func TestRests(t *testing.T) {
	b := newFake(target("body", 7))
	b.queued["from"] = []string{"1"}
	n := 0
	b.consume = func(context.Context, string) error {
		if n++; n < 3 {
			b.note("refused")
			return errors.New("queue does not exist")
		}
		return nil
	}
	run(t, b, nil)
	b.wait(t, "token of 1 acked")
}

// An expression that this build cannot use, and queues beyond the most, are said to be so.
func TestBarred(t *testing.T) {
	b := newFake(Target{Queue: "broken", To: "to", Expression: "now()", Generation: 1})
	for i := range MaxQueues + 2 {
		b.targets = append(b.targets, Target{Queue: fmt.Sprintf("q%04d", i), To: "to", Expression: "body", Generation: 1})
	}
	m := run(t, b, nil)
	beyond := []string{fmt.Sprintf("q%04d", MaxQueues-1), fmt.Sprintf("q%04d", MaxQueues+1), "zz"} // the listing may not have the last ones
	b.waitFor(t, "states", func([]string) bool {
		b.changed <- struct{}{}
		return strings.Contains(m.State("broken"), "cannot use the expression: 1:1:") && m.State("q0000") == "mapping" &&
			!slices.ContainsFunc(beyond, func(q string) bool { return m.State(q) != tooMany })
	})
	if !strings.HasPrefix(tooMany, "not mapped: the first 500 queues by name") {
		t.Errorf("%q", tooMany)
	}
}

func TestOneLine(t *testing.T) {
	if got := oneLine("a\n b\t" + strings.Repeat("é", maxLine)); !strings.HasPrefix(got, "a b é") || len(got) > maxLine || strings.ContainsRune(got, '\uFFFD') {
		t.Errorf("%q", got)
	}
}

// What a runner keeps ready is counted in while it runs, and out when it has ended.
func TestProgramsAreCounted(t *testing.T) {
	before, bytes := mapping.Held()
	t.Run("while it maps", func(t *testing.T) {
		b := newFake(target(`body`, 7))
		b.queued["from"] = []string{`1`}
		run(t, b, nil)
		b.wait(t, "1 acked")
		if n, held := mapping.Held(); n != before+1 || held <= bytes {
			t.Errorf("%d programs of %d bytes are kept, want one more than %d of %d", n, held, before, bytes)
		}
	})
	if n, held := mapping.Held(); n != before || held != bytes {
		t.Errorf("%d programs of %d bytes are kept afterwards, want %d of %d", n, held, before, bytes)
	}
}
