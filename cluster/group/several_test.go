package group

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/fsm"
)

// several is one proposal of an enqueue for each body.
func several(o *one, bodies ...string) *Proposal {
	p := &Proposal{Count: len(bodies), Done: o}
	for _, b := range bodies {
		p.Op = fsm.AppendOp(p.Op, enqueue("q", b))
	}
	return p
}

// Operations that are proposed together are applied one after the other in one entry, have an outcome each, and are completed once.
func TestSeveralTogether(t *testing.T) {
	for _, test := range []struct {
		name     string
		entryOps int
		sizes    []int // of proposals, handed over together
	}{
		{"one alone", 512, []int{1}},
		{"three", 512, []int{3}},
		{"beside others", 512, []int{1, 3, 2, 1}},
		{"more than an entry has", 2, []int{1, 5, 1, 2, 3}},
		{"as many as an entry has", 4, []int{4, 4}},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newCluster(t, 3, func(cfg *Config) { cfg.Limits.EntryOps = test.entryOps })
				defer c.stop()
				l := c.leader()
				var ps []*Proposal
				var ones []*one
				n := 0
				for _, size := range test.sizes {
					var bodies []string
					for range size {
						bodies = append(bodies, fmt.Sprint(n))
						n++
					}
					o := newOne()
					ones = append(ones, o)
					ps = append(ps, several(o, bodies...))
				}
				l.g.Propose(ps...)
				var last fsm.ID
				for i, o := range ones {
					a := o.wait(t)
					if a.err != nil || len(a.out) != test.sizes[i] {
						t.Fatalf("proposal %d of %d operations: %d outcomes, %v", i, test.sizes[i], len(a.out), a.err)
					}
					for _, out := range a.out {
						if out.Code != fsm.OK || out.ID.Compare(last) <= 0 {
							t.Errorf("proposal %d: outcome %+v after id %v", i, out, last)
						}
						last = out.ID
					}
					select {
					case again := <-o.end:
						t.Errorf("proposal %d: answered twice, %+v", i, again)
					default:
					}
				}
				if got := l.stats("q").Ready; got != int64(n) {
					t.Errorf("%d messages, want %d", got, n)
				}
				c.agree()
			})
		})
	}
}

// A refusal of one of several leaves the others alone, and the ends of leases among them open windows as they would alone.
func TestAcksTogether(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		s, conn, _ := l.attach(t)
		must(t, s.Subscribe(1, "q", 3, 0, "w"))
		bodies := make([]string, 7)
		for i := range bodies {
			bodies[i] = fmt.Sprint(i)
		}
		l.do(t, enqueue("q", bodies...))
		c.until(time.Second, "three deliveries", func() bool { return len(conn.have(1)) == 3 })
		first := conn.have(1)
		o := newOne()
		p := &Proposal{Done: o, Count: 4}
		for _, token := range []fsm.Token{first[0].token, {Message: fsm.ID{Hi: 1, Lo: 2}, Lease: fsm.ID{Hi: 3}}, first[1].token, first[2].token} {
			p.Op = fsm.AppendOp(p.Op, &fsm.Ack{Token: token})
		}
		l.g.Propose(p)
		a := o.wait(t)
		if a.err != nil || len(a.out) != 4 {
			t.Fatalf("%+v", a)
		}
		for i, want := range []fsm.Code{fsm.OK, fsm.NotFound, fsm.OK, fsm.OK} {
			if a.out[i].Code != want {
				t.Errorf("ack %d: code %v, want %v", i, a.out[i].Code, want)
			}
		}
		c.until(time.Second, "three more", func() bool { return len(conn.have(1)) == 6 })
		for _, d := range conn.have(1)[3:] {
			if d.t != a.at.Time {
				t.Errorf("message %s was leased at %d, want with the acks at %d", d.body, d.t, a.at.Time)
			}
		}
		c.agree()
	})
}

// What is not as many operations as it says is refused as a whole, and leaves those beside it alone; so is what a full queue has no room
// for; and what has no answer by its deadline is told so once.
func TestSeveralRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, func(cfg *Config) { cfg.Limits.Queued = 8 })
		defer c.stop()
		l := c.leader()
		for _, count := range []int{0, 1, 2, 4} {
			bad := newOne()
			p := several(bad, "a", "b", "c")
			p.Count = count
			before, after := newOne(), newOne()
			l.g.Propose(several(before, "x", "y"), p, several(after, "z"))
			if a := bad.wait(t); a.err == nil || a.err.Code != CodeInternal || a.err.Unknown {
				t.Errorf("three operations that say they are %d: %+v, want a refusal", count, a)
			}
			if a, b := before.wait(t), after.wait(t); a.err != nil || b.err != nil || len(a.out) != 2 || len(b.out) != 1 {
				t.Errorf("beside three operations that say they are %d: %+v and %+v", count, a, b)
			}
		}
		for _, f := range c.followers() {
			c.cut(f)
		}
		var ones []*one
		for i := range 40 {
			o := newOne()
			p := several(o, "a", "b", "c")
			p.Deadline = l.clock.Mono() + time.Duration(1+i%2)*time.Second
			ones = append(ones, o)
			l.g.Propose(p)
		}
		refused, unknown := 0, 0
		for _, o := range ones {
			switch a := o.wait(t); {
			case a.err == nil:
				t.Error("applied without a majority")
			case a.err.Unknown:
				unknown++
			default:
				refused++
			}
		}
		if refused == 0 || unknown == 0 {
			t.Errorf("%d refused and %d unknown, want some of both", refused, unknown)
		}
		for _, f := range c.nodes {
			c.join(f)
		}
		c.leader().do(t, enqueue("q", "x"))
		c.agree()
		for i, o := range ones {
			select {
			case again := <-o.end:
				t.Errorf("proposal %d: answered twice, %+v", i, again)
			default:
			}
		}
	})
}
