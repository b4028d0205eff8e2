package fsm

import (
	"fmt"
	"slices"
	"testing"
)

func ofKind(kind string) Message {
	m := text("x")
	m.Kind = []byte(kind)
	return m
}

// kindsOf are the counts of queue q as "kind ready/acked/died", those of kind "" first.
func (r *rig) kindsOf(name string) (all []string) {
	r.t.Helper()
	n, ok := r.s.QueueNumber([]byte(name))
	if !ok {
		return nil
	}
	stats := r.s.Stats(n)
	var ready, acked, died int64
	for _, k := range r.s.Kinds(n, nil) {
		var d int64
		for _, n := range k.DiedByReason {
			d += n
		}
		all = append(all, fmt.Sprintf("%s %d/%d/%d", k.Kind, k.Ready, k.Acked, d))
		ready, acked, died = ready+k.Ready, acked+k.Acked, died+d
	}
	if ready != stats.Ready || acked != stats.Acked || died != stats.Died {
		r.t.Errorf("kinds of %q sum up to %d/%d/%d, the queue counts %d/%d/%d", name, ready, acked, died, stats.Ready, stats.Acked, stats.Died)
	}
	return all
}

func (r *rig) wantKinds(name string, want ...string) {
	r.t.Helper()
	if got := r.kindsOf(name); !slices.Equal(got, want) {
		r.t.Errorf("kinds of %q are %q, want %q", name, got, want)
	}
}

// TestKinds follows messages of two kinds and of none through every change of what is ready, done and dead.
func TestKinds(t *testing.T) {
	permanent := func(r *rig) { r.ok(&Nack{Token: r.lease1(), Permanent: true}) }
	two := func(r *rig) { r.put(ofKind("a")); r.put(ofKind("b")); r.put(text("x")) }
	for _, c := range []struct {
		name string
		o    QueueOptions
		do   func(r *rig)
		want []string
	}{
		{"no kind", QueueOptions{}, func(r *rig) { r.put(text("x")) }, []string{" 1/0/0"}},
		{"ready", QueueOptions{}, two, []string{" 1/0/0", "a 1/0/0", "b 1/0/0"}},
		{"leased", QueueOptions{}, func(r *rig) { two(r); r.lease1() }, []string{" 1/0/0", "a 0/0/0", "b 1/0/0"}},
		{"acked", QueueOptions{}, func(r *rig) { two(r); r.ok(&Ack{Token: r.lease1()}) }, []string{" 1/0/0", "a 0/1/0", "b 1/0/0"}},
		{"acked late", QueueOptions{}, func(r *rig) {
			two(r)
			token := r.lease1()
			r.ok(&Release{Token: token})
			r.ok(&Ack{Token: token})
		}, []string{" 1/0/0", "a 0/1/0", "b 1/0/0"}},
		{"released", QueueOptions{}, func(r *rig) { two(r); r.ok(&Release{Token: r.lease1()}) }, []string{" 1/0/0", "a 1/0/0", "b 1/0/0"}},
		{"retried", QueueOptions{}, func(r *rig) { two(r); r.ok(&Nack{Token: r.lease1()}); r.tick(60_000) }, []string{" 1/0/0", "a 1/0/0", "b 1/0/0"}},
		{"dead", QueueOptions{}, func(r *rig) { two(r); permanent(r) }, []string{" 1/0/0", "a 0/0/1", "b 1/0/0"}},
		{"redriven", QueueOptions{}, func(r *rig) {
			two(r)
			token := r.lease1()
			r.ok(&Nack{Token: token, Permanent: true})
			r.ok(&DeadRequeue{Queue: []byte("q"), IDs: []ID{token.Message}})
		}, []string{" 1/0/0", "a 1/0/1", "b 1/0/0"}},
		{"delayed", QueueOptions{}, func(r *rig) {
			m := ofKind("a")
			m.DelayMillis = 1000
			r.put(m)
			r.wantKinds("q", " 0/0/0")
			r.tick(1000)
		}, []string{" 0/0/0", "a 1/0/0"}},
		{"handed over", QueueOptions{Delivery: DeliverAtMostOnce}, func(r *rig) { two(r); r.lease(1) }, []string{" 1/0/0", "a 0/1/0", "b 1/0/0"}},
		{"dropped for others", QueueOptions{MaxDepth: 3, Overflow: OverflowDropOldest}, func(r *rig) { two(r); r.put(ofKind("b")) },
			[]string{" 1/0/0", "a 0/0/1", "b 2/0/0"}},
		{"expired", QueueOptions{MaxAgeMillis: 1000}, func(r *rig) { two(r); r.tick(1001) }, []string{" 0/0/1", "a 0/0/1", "b 0/0/1"}},
		{"purged", QueueOptions{}, func(r *rig) { two(r); r.lease1(); r.ok(&PurgeQueue{Name: []byte("q")}) }, []string{" 0/0/0", "a 0/0/0", "b 0/0/0"}},
		{"kept behind their key", QueueOptions{Ordering: OrderPerKey}, func(r *rig) {
			for range 3 {
				m := ofKind("a")
				m.Key = []byte("k")
				r.put(m)
			}
			r.ok(&Ack{Token: r.lease1()})
		}, []string{" 0/0/0", "a 2/1/0"}},
		{"named like the rest", QueueOptions{}, func(r *rig) { r.put(ofKind(KindOther)) }, []string{" 0/0/0", "other 1/0/0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.ok(&CreateQueue{Name: []byte("q"), Options: c.o})
			c.do(r)
			r.wantKinds("q", c.want...)
		})
	}
}

// What dies where a dead-letter queue is named has died in its own queue, and is ready in the other.
func TestKindsOfMoved(t *testing.T) {
	r := newRig(t)
	r.ok(&CreateQueue{Name: []byte("dead")})
	r.ok(&CreateQueue{Name: []byte("q"), Options: QueueOptions{DeadLetterQueue: "dead"}})
	r.put(ofKind("a"))
	r.ok(&Nack{Token: r.lease1(), Permanent: true})
	r.wantKinds("q", " 0/0/0", "a 0/0/1")
	r.wantKinds("dead", " 0/0/0", "a 1/0/0")
}

// Beyond MaxKinds of a queue, and beyond the group's maximum, kinds are counted together; a queue that goes gives its own back.
func TestKindsFold(t *testing.T) {
	r := newRig(t)
	for i := range MaxKinds + 20 {
		r.put(ofKind(fmt.Sprintf("k%03d", i)))
	}
	all := r.kindsOf("q")
	if n := len(all); n != MaxKinds+2 || all[n-1] != "other 20/0/0" {
		t.Fatalf("%d kinds, the last %q, want %d and 20 others", n, all[n-1], MaxKinds+2)
	}
	for range MaxKinds + 20 {
		r.ok(&Ack{Token: r.lease1()})
	}
	if last := r.kindsOf("q")[MaxKinds+1]; last != "other 0/20/0" {
		t.Errorf("others are %q when all is done", last)
	}
	r.ok(&DeleteQueue{Name: []byte("q")})
	if r.s.groupKinds != 0 {
		t.Errorf("%d kinds of a queue that is gone", r.s.groupKinds)
	}
	r.wantKinds("q")

	r.s.groupKinds = maxGroupKinds // as though other queues had them
	r.quiet = true
	r.put(ofKind("a"))
	r.wantKinds("q", " 0/0/0", "other 1/0/0")
	r.s.groupKinds = 0 // and were gone: what was counted with others still is
	r.quiet = false
	r.put(ofKind("b"))
	r.ok(&Ack{Token: r.lease1()})
	r.wantKinds("q", " 0/0/0", "other 1/1/0")
}

// A node that reads its state from a snapshot counts what is ready anew; totals from before have no kind.
func TestKindsRestored(t *testing.T) {
	r := newRig(t)
	for range 3 {
		r.put(ofKind("a"))
	}
	r.ok(&Ack{Token: r.lease1()})
	r.wantKinds("q", " 0/0/0", "a 2/1/0")
	s := restored(t, snapshot(t, r.s))
	defer s.Close()
	o := &rig{t: t, s: s}
	o.wantKinds("q", " 0/1/0", "a 2/0/0")
}

// TestWaitingSince is since when the first that can be leased has been ready.
func TestWaitingSince(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(r *rig)
		want int64 // after t0; -1: none
	}{
		{"nothing", func(r *rig) { r.ok(&CreateQueue{Name: []byte("q")}) }, -1},
		{"since its enqueue", func(r *rig) { r.put(text("x")); r.tick(50); r.put(text("y")) }, 0},
		{"not what is out", func(r *rig) { r.put(text("x")); r.tick(50); r.put(text("y")); r.lease1() }, 50},
		{"since its delay was over", func(r *rig) {
			m := text("x")
			m.DelayMillis = 100
			r.put(m)
			r.tick(300)
		}, 100},
		{"not what is delayed", func(r *rig) {
			m := text("x")
			m.DelayMillis = 100
			r.put(m)
		}, -1},
		{"since its retry was due", func(r *rig) {
			r.put(text("x"))
			r.tick(10)
			r.ok(&Nack{Token: r.lease1(), DelayMillis: 1000})
			r.tick(5000)
		}, 1010},
		{"since the retry of a lease that ran out was due", func(r *rig) { r.put(text("x")); r.lease1(); r.tick(1000); r.tick(5000) }, 2000},
		{"since the lease it came back from", func(r *rig) { r.put(text("x")); r.tick(10); r.ok(&Release{Token: r.lease1()}); r.tick(5000) }, 10},
		{"lowest of all priorities", func(r *rig) { r.put(prio("x", 1)); r.tick(50); r.put(prio("x", 9)) }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			c.do(r)
			n, _ := r.s.QueueNumber([]byte("q"))
			want := t0 + c.want
			if c.want < 0 {
				want = 0
			}
			if got := r.s.Stats(n).WaitingSince; got != want {
				t.Errorf("waits since %d, want %d", got-t0, want-t0)
			}
		})
	}
}

// BenchmarkKinds is BenchmarkCycle where every message has one of so many kinds; 0: none has.
func BenchmarkKinds(b *testing.B) {
	for _, kinds := range []int{0, 1, 20, 200} {
		b.Run(fmt.Sprintf("kinds=%d", kinds), func(b *testing.B) {
			t := newTurns(b, QueueOptions{}, 256)
			if kinds > 0 {
				t.dress = func(n int, m *Message) { m.Kind = fmt.Appendf(m.Kind[:0], "kind-%d", n%kinds) }
			}
			t.fill(100_000)
			t.run(b, 1)
		})
	}
}
