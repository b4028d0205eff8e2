package fsm

import (
	"runtime"
	"testing"
)

// operations are what rounds applies; "again" is the lease of what was released, "due" the end of a retry's delay, and "result" an
// ack with one.
var operations = []string{"enqueue", "lease", "extend", "release", "again", "nack", "due", "ack", "result"}

// perEntry is how many operations of a kind an entry of rounds has, on as many messages.
const perEntry = 200

// rounds applies each of the common operations by turns to a queue that stays as long as it is.
type rounds struct {
	t    testing.TB
	r    *rig
	op   *Enqueue
	take []Op
	held []Token
	ops  []Op
	data []byte
	step func(name string, apply func()) // is to call apply, which applies one entry
}

func newRounds(t testing.TB, n int) *rounds {
	r, op := filled(t, n)
	r.ok(&SetQueue{Name: op.Queue, Options: QueueOptions{ResultTTLMillis: 10_000}})
	take := []Op{&Lease{Queue: op.Queue, Consumer: someone, Worker: []byte("host:1:2"), Max: perEntry}}
	return &rounds{t: t, r: r, op: op, take: take}
}

func (c *rounds) apply(name string, ops ...Op) {
	r := c.r
	c.data = AppendEntryHeader(c.data[:0], r.now, 0)
	for _, op := range ops {
		c.data = AppendOp(c.data, op)
	}
	r.index++
	c.step(name, func() {
		if err := r.s.Apply(r.index, c.data, &r.fx); err != nil {
			c.t.Fatal(err)
		}
	})
	for i := range r.fx.Outcomes {
		if o := &r.fx.Outcomes[i]; o.Code != OK {
			c.t.Fatalf("%s: %+v", name, o)
		}
	}
}

func (c *rounds) lease(name string) {
	if c.apply(name, c.take...); len(c.r.fx.Leases) != perEntry {
		c.t.Fatalf("%s: %d leased, want %d", name, len(c.r.fx.Leases), perEntry)
	}
	c.held = c.held[:0]
	for _, l := range c.r.fx.Leases {
		c.held = append(c.held, l.Token)
	}
}

func (c *rounds) each(name string, f func(t Token) Op) {
	c.ops = c.ops[:0]
	for _, t := range c.held {
		c.ops = append(c.ops, f(t))
	}
	c.apply(name, c.ops...)
}

// round applies each operation to perEntry messages, some twice.
func (c *rounds) round() {
	c.r.now += 100
	c.apply("enqueue", c.op)
	c.apply("enqueue", c.op)
	c.lease("lease")
	c.each("extend", func(t Token) Op { return &Extend{Token: t} })
	c.each("release", func(t Token) Op { return &Release{Token: t} })
	c.lease("again")
	c.each("nack", func(t Token) Op { return &Nack{Token: t, DelayMillis: 1} })
	c.r.now++
	c.apply("due")
	c.lease("lease")
	c.each("ack", func(t Token) Op { return &Ack{Token: t} })
	c.lease("lease")
	c.each("result", func(t Token) Op { return &Ack{Token: t, HasResult: true, Result: Result{Output: []byte("done")}} })
}

// TestOperationsAllocateNothing: once a state has grown to its size, an operation costs no allocation but for what its tables have to
// grow by, far from one in twenty.
func TestOperationsAllocateNothing(t *testing.T) {
	c := newRounds(t, 20_000)
	allocs, times := make(map[string]uint64), make(map[string]int)
	counting := false
	var before, after runtime.MemStats
	c.step = func(name string, apply func()) {
		if !counting {
			apply()
			return
		}
		runtime.ReadMemStats(&before)
		apply()
		runtime.ReadMemStats(&after)
		allocs[name] += after.Mallocs - before.Mallocs
		times[name]++
	}
	for range 120 { // past the time of results and leases
		c.round()
	}
	counting = true
	for range 40 {
		c.round()
	}
	for _, name := range operations {
		each := float64(allocs[name]) / float64(times[name]*perEntry)
		t.Logf("%-8s %.4f", name, each)
		if times[name] == 0 || each > 0.05 {
			t.Errorf("%s: %.3f allocations an operation, want at most 0.05", name, each)
		}
	}
	if err := c.r.s.Check(); err != nil {
		t.Error(err)
	}
}
