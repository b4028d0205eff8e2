package fsmtest

import (
	"reflect"
	"testing"

	"github.com/quorate/quorate/fsm"
)

// TestGenerator runs the model alone, so that the generator is known to reach every outcome, and checks that every
// entry survives the log format.
func TestGenerator(t *testing.T) {
	var codes [16]int
	var fields [256]int
	ends := map[string]int{}
	for seed := uint64(1); seed <= 16; seed++ {
		m := NewModel(groupOf(seed))
		g := NewGenerator(seed, m)
		p := Pair{}
		for range 200 {
			index, e := g.Next()
			for i, op := range e.Ops {
				if err := fsm.CheckOp(op); err != nil {
					t.Fatalf("seed %d entry %d op %d %s: %v", seed, index, i, describe(op), err)
				}
			}
			decoded, err := fsm.DecodeEntry(p.encode(e))
			if err != nil {
				t.Fatalf("seed %d entry %d: %v", seed, index, err)
			}
			if want, got := Describe([]Step{{Entry: e}}), Describe([]Step{{Entry: decoded}}); want != got {
				t.Fatalf("seed %d entry %d: want\n%s got\n%s", seed, index, want, got)
			}
			fx := m.Apply(index, e)
			g.Saw(e, fx)
			for _, o := range fx.Outcomes {
				codes[o.Code]++
				fields[o.Field]++
				if o.Duplicate {
					ends["duplicate"]++
				}
				if o.Dead {
					ends["dead by nack"]++
				}
			}
			if fx.More {
				ends["more due moves"]++
			}
		}
		for _, q := range m.queues {
			for reason, n := range q.stats.DiedByReason {
				ends["died "+string(rune('0'+reason))] += int(n)
			}
			ends["redriven"] += int(q.stats.Redriven)
		}
	}
	t.Log(codes, fields, ends)
	for _, c := range []fsm.Code{fsm.OK, fsm.InvalidArgument, fsm.NotFound, fsm.AlreadyExists, fsm.LeaseLost, fsm.QueueFull, fsm.FailedPrecondition, fsm.SessionExpired} {
		if codes[c] < 20 {
			t.Errorf("code %d was seen %d times only: the generator is blind there", c, codes[c])
		}
	}
	for _, f := range []fsm.Field{fsm.FieldDead, fsm.FieldDedup, fsm.FieldResults, fsm.FieldRequest, fsm.FieldTaskID, fsm.FieldDedupKey} {
		if fields[f] == 0 {
			t.Errorf("field %d was never refused", f)
		}
	}
	for _, what := range []string{"duplicate", "dead by nack", "more due moves", "died 1", "died 2", "died 3", "redriven"} {
		if ends[what] == 0 {
			t.Errorf("%s: never seen", what)
		}
	}
}

// script applies entries by hand; every entry is the next index, one millisecond later.
type script struct {
	t *testing.T
	m *Model
}

func newScript(t *testing.T) *script {
	s := &script{t, NewModel(0)}
	s.do(1_000_000, &fsm.Bootstrap{Cluster: [16]byte{1}, Epoch: 1})
	return s
}

// do applies operations at T and returns the outcomes.
func (s *script) do(now int64, ops ...fsm.Op) []fsm.Outcome {
	return s.m.Apply(s.m.index+1, fsm.Entry{Now: now, Ops: ops}).Outcomes
}

func (s *script) enqueue(x fsm.Message) fsm.ID {
	s.t.Helper()
	o := s.do(s.m.t, &fsm.Enqueue{Queue: []byte("q"), AutoCreate: true, Messages: []fsm.Message{x}})[0]
	if o.Code != fsm.OK {
		s.t.Fatalf("enqueue: %+v", o)
	}
	return o.ID
}

func (s *script) lease() fsm.Leased {
	s.t.Helper()
	fx := s.m.Apply(s.m.index+1, fsm.Entry{Now: s.m.t, Ops: []fsm.Op{&fsm.Lease{Queue: []byte("q"), Max: 1, LeaseMillis: 1000}}})
	if len(fx.Leases) != 1 {
		s.t.Fatalf("leases: %+v", fx)
	}
	return fx.Leases[0]
}

// TestLeaseEnd is the contract's table of what an operation answers by how the lease ended.
func TestLeaseEnd(t *testing.T) {
	ack := func(t fsm.Token) fsm.Op { return &fsm.Ack{Token: t} }
	nack := func(t fsm.Token) fsm.Op { return &fsm.Nack{Token: t, DelayMillis: -1} }
	extend := func(t fsm.Token) fsm.Op { return &fsm.Extend{Token: t, LeaseMillis: 700} }
	release := func(t fsm.Token) fsm.Op { return &fsm.Release{Token: t} }
	for _, c := range []struct {
		end                        string
		how                        func(s *script, t fsm.Token)
		ack, nack, extend, release fsm.Code
	}{
		{"live", func(*script, fsm.Token) {}, fsm.OK, fsm.OK, fsm.OK, fsm.OK},
		{"expired", func(s *script, _ fsm.Token) { s.do(s.m.t + 1000) }, fsm.OK, fsm.LeaseLost, fsm.LeaseLost, fsm.LeaseLost},
		{"nacked", func(s *script, t fsm.Token) { s.do(s.m.t, nack(t)) }, fsm.LeaseLost, fsm.OK, fsm.LeaseLost, fsm.LeaseLost},
		{"released", func(s *script, t fsm.Token) { s.do(s.m.t, release(t)) }, fsm.OK, fsm.LeaseLost, fsm.LeaseLost, fsm.OK},
		{"acked", func(s *script, t fsm.Token) { s.do(s.m.t, ack(t)) }, fsm.OK, fsm.LeaseLost, fsm.LeaseLost, fsm.LeaseLost},
		{"leased again", func(s *script, t fsm.Token) { s.do(s.m.t, release(t)); s.lease() }, fsm.LeaseLost, fsm.LeaseLost, fsm.LeaseLost, fsm.LeaseLost},
		{"purged", func(s *script, t fsm.Token) { s.do(s.m.t, release(t), &fsm.PurgeQueue{Name: []byte("q")}) }, fsm.NotFound, fsm.NotFound, fsm.NotFound, fsm.NotFound},
		{"dead", func(s *script, t fsm.Token) { s.do(s.m.t, &fsm.Nack{Token: t, Permanent: true, DelayMillis: -1}) }, fsm.LeaseLost, fsm.OK, fsm.LeaseLost, fsm.LeaseLost},
	} {
		t.Run(c.end, func(t *testing.T) {
			for _, op := range []struct {
				name string
				make func(fsm.Token) fsm.Op
				want fsm.Code
			}{{"ack", ack, c.ack}, {"nack", nack, c.nack}, {"extend", extend, c.extend}, {"release", release, c.release}} {
				s := newScript(t)
				s.enqueue(fsm.Message{Priority: 4})
				l := s.lease()
				c.how(s, l.Token)
				if got := s.do(s.m.t, op.make(l.Token))[0]; got.Code != op.want {
					t.Errorf("%s: want code %d, got %+v", op.name, op.want, got)
				}
			}
		})
	}
}

// TestRetryDelay holds the four kinds to figures worked out by hand.
func TestRetryDelay(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy fsm.RetryPolicy
		want   []int64
		most   int32
	}{
		{"default schedule", withDefaults(fsm.QueueOptions{}).Retry, []int64{1000, 5000, 10000}, 4},
		{"fixed", fsm.RetryPolicy{Kind: fsm.RetryFixed, InitialMillis: 70, MaxAttempts: 3}, []int64{70, 70}, 3},
		{"linear", fsm.RetryPolicy{Kind: fsm.RetryLinear, InitialMillis: 400, MaxMillis: 1000}, []int64{400, 800, 1000, 1000}, 5},
		{"exponential by default", fsm.RetryPolicy{Kind: fsm.RetryExponential}, []int64{1000, 2000, 4000, 8000}, 5},
		{"exponential in thousandths", fsm.RetryPolicy{Kind: fsm.RetryExponential, InitialMillis: 3, MultiplierMilli: 1500}, []int64{3, 4, 6, 10, 15}, 5},
		{"exponential to its cap", fsm.RetryPolicy{Kind: fsm.RetryExponential, MultiplierMilli: 100_000, MaxMillis: maxDelay, MaxAttempts: 9}, []int64{1000, 100_000, 10_000_000, 1_000_000_000, maxDelay, maxDelay}, 9},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := retryWithDefaults(c.policy)
			var got []int64
			for n := range c.want {
				got = append(got, retryDelay(p, fsm.ID{}, int32(n+1)))
			}
			if !reflect.DeepEqual(got, c.want) || maxAttempts(p) != c.most {
				t.Errorf("want %v of %d attempts, got %v of %d", c.want, c.most, got, maxAttempts(p))
			}
		})
	}
}

// TestIDText compares the model's text of an id with that of the package.
func TestIDText(t *testing.T) {
	for _, id := range []fsm.ID{{}, {Hi: 1, Lo: 2}, fsm.MakeID(1, 2, 1<<40+7, 9), {Hi: ^uint64(0), Lo: ^uint64(0)}} {
		if want, got := idText(id), id.String(); want != got {
			t.Errorf("id %s: want %s, got %s", shortID(id), want, got)
		}
	}
}

// TestSeedRepeats is that a seed decides everything: the same entries, step by step.
func TestSeedRepeats(t *testing.T) {
	for seed := uint64(29005); seed < 29008; seed++ {
		a, b := Run(seed, 1500, 100), Run(seed, 1500, 100)
		if a.Err != nil || b.Err != nil {
			t.Fatalf("seed %d: %v, %v", seed, a.Err, b.Err)
		}
		if a.Codes != b.Codes || Describe(a.Steps) != Describe(b.Steps) {
			t.Errorf("seed %d gave other entries the second time", seed)
		}
	}
}
