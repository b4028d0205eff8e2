package fsmtest

import (
	"testing"

	"github.com/quorate/quorate/fsm"
)

// TestControl plants a difference into the model and wants it to be seen, so that silence of the other tests means
// something.
func TestControl(t *testing.T) {
	lease := &fsm.Lease{Queue: []byte("q"), Max: 1, MaxBytes: 100, Worker: []byte("w")}
	keyedPurge := &fsm.Idempotent{IdempotencyKey: fsm.IdempotencyKey{Key: [16]byte{1}}, Op: &fsm.DeadPurge{Queue: []byte("other")}}
	for _, c := range []struct {
		name  string
		plant func(m *Model, q *queue)
		then  []fsm.Op // what shows it; none: the queries do
	}{
		{"an attempt too many", func(_ *Model, q *queue) { q.messages[0].attempts++ }, nil},
		{"another deadline", func(_ *Model, q *queue) { q.messages[0].deadline++ }, nil},
		{"another worker", func(_ *Model, q *queue) { q.messages[0].worker = "x" }, nil},
		{"another header", func(_ *Model, q *queue) { q.messages[1].headers[0].Value = []byte("x") }, nil},
		{"a byte of a body", func(_ *Model, q *queue) { q.messages[1].body = []byte("bodY") }, nil},
		{"a message missing", func(_ *Model, q *queue) { q.messages = q.messages[1:] }, nil},
		{"a later ttl", func(_ *Model, q *queue) { q.messages[2].expiresAt++ }, nil},
		{"another place", func(_ *Model, q *queue) {
			q.messages[1].place, q.messages[2].place = q.messages[2].place, q.messages[1].place
		}, []fsm.Op{lease}},
		{"a dead letter's reason", func(_ *Model, q *queue) { q.dead[0].reason = fsm.ReasonExpired }, nil},
		{"a history forgotten", func(_ *Model, q *queue) { q.dead[0].history = nil }, nil},
		{"another result", func(_ *Model, q *queue) { q.records[0].output = []byte("X") }, nil},
		{"a result's end", func(_ *Model, q *queue) { q.records[0].end++ }, nil},
		{"a dedup key forgotten", func(_ *Model, q *queue) { q.dedup = nil }, nil},
		{"other dedup content", func(_ *Model, q *queue) { q.dedup[0].content[3]++ }, []fsm.Op{
			batch(1, fsm.Message{HasDedup: true, DedupKey: [16]byte{1}, DedupContent: [16]byte{2}}),
		}},
		{"a request forgotten", func(m *Model, _ *queue) { delete(m.sessions[0].outcomes, 7) }, nil},
		{"a session too many", func(m *Model, _ *queue) { m.sessions = append(m.sessions, &session{}) }, nil},
		{"an idempotency key forgotten", func(m *Model, _ *queue) { m.idems = nil }, nil},
		{"another answer of a key", func(m *Model, _ *queue) { m.idems[0].parts[0].outcomes[0].Count++ }, []fsm.Op{keyedPurge}},
		{"a key's end", func(m *Model, _ *queue) { m.idems[0].end = 0 }, nil},
		{"a counter", func(_ *Model, q *queue) { q.stats.Nacked++ }, nil},
		{"an option", func(_ *Model, q *queue) { q.options.MaxDead-- }, nil},
		{"a mapping's generation", func(_ *Model, q *queue) { q.mapping++ }, nil},
		{"ΣShift", func(m *Model, _ *queue) { m.shift++ }, nil},
		{"another epoch", func(m *Model, _ *queue) { m.epoch++ }, []fsm.Op{lease}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newPairScript(t)
			header := []fsm.Header{{Name: []byte("h"), Value: []byte("v")}}
			session := s.do(1_000_000, &fsm.OpenSession{}).Outcomes[0].ID
			s.do(1_000_000, batch(5, fsm.Message{Priority: 4, Body: []byte("body"), Headers: header, TTLMillis: 9000}))
			s.do(1_000_000, batch(1, fsm.Message{Priority: 4, HasDedup: true, DedupKey: [16]byte{1}, DedupContent: [16]byte{2}}))
			fx := s.do(1_000_000, lease, lease, &fsm.Lease{Request: fsm.Request{Session: session, Number: 7}, Queue: []byte("q"), Max: 1, MaxBytes: 100})
			s.do(1_000_001, &fsm.Nack{Token: fx.Leases[0].Token, Permanent: true, DelayMillis: -1, Error: []byte("e")},
				&fsm.Ack{Token: fx.Leases[1].Token, HasResult: true, Result: fsm.Result{Output: []byte("R")}})
			s.do(1_000_001, keyedPurge)
			s.look()
			c.plant(s.p.Model, s.p.Model.queue("q"))
			s.index++
			_, err := s.p.Apply(s.index, fsm.Entry{Now: 1_000_001, Ops: c.then})
			if err == nil && len(c.then) == 0 {
				err = s.p.CompareQueries()
			}
			if err == nil {
				t.Error("not seen")
			}
		})
	}
}

// TestControlReplica has the other replica be another in something, and wants that to be seen.
func TestControlReplica(t *testing.T) {
	lease := &fsm.Lease{Queue: []byte("q"), Max: 4, MaxBytes: maxLeaseBytes}
	for _, c := range []struct {
		name  string
		plant fsm.Op // applied by that one alone
		then  fsm.Op
	}{
		{"order", &fsm.SetQueue{Name: []byte("q"), Options: fsm.QueueOptions{FairBy: fsm.FairByKey}}, lease},
		{"one message more", batch(1, fsm.Message{Priority: 9}), lease},
		{"an outcome", &fsm.PurgeQueue{Name: []byte("q")}, &fsm.PurgeQueue{Name: []byte("q")}},
		{"an end", &fsm.Cancel{Queue: []byte("q"), TaskID: []byte("t")}, &fsm.DeleteQueue{Name: []byte("q")}},
		{"a queue option, which no answer shows", &fsm.SetQueue{Name: []byte("q"), Options: fsm.QueueOptions{MaxDead: 7}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newPairScript(t)
			s.do(1_000_000, &fsm.CreateQueue{Name: []byte("q")}, batch(3, fsm.Message{Priority: 4, Key: []byte("a")}), batch(3, fsm.Message{Priority: 4, Key: []byte("b")}),
				batch(1, fsm.Message{Priority: 4, TaskID: []byte("t")}))
			s.index++
			e := fsm.Entry{Now: 1_000_000}
			if _, err := s.p.Apply(s.index, e); err != nil {
				t.Fatal(err)
			}
			s.index++
			if err := s.p.other.state.Apply(s.index, s.p.encode(fsm.Entry{Now: 1_000_000, Ops: []fsm.Op{c.plant}}), nil); err != nil {
				t.Fatal(err)
			}
			var err error
			if s.index++; c.then != nil {
				e.Ops = []fsm.Op{c.then}
				_, err = s.p.Apply(s.index, e)
			} else {
				err = s.p.Replay()
			}
			if err == nil {
				t.Error("not seen")
			}
		})
	}
}

// TestRatesEnd is that rates hold nothing back from their horizon on, nor what they have held until then.
func TestRatesEnd(t *testing.T) {
	const from = int64(rateHorizon - 500)
	s := newPairScript(t)
	s.do(from, &fsm.CreateQueue{Name: []byte("q"), Options: fsm.QueueOptions{
		RatePerKeyMilli: 1, BurstPerKey: 1, RateMilli: 2000, Burst: 3, FairBy: fsm.FairByKey, LeaseMillis: maxLease,
	}}, batch(5, fsm.Message{Priority: 4, Key: []byte("a")}), batch(5, fsm.Message{Priority: 4, Key: []byte("b")}))
	lease := &fsm.Lease{Queue: []byte("q"), Max: 4, MaxBytes: maxLeaseBytes}
	for _, c := range []struct {
		now    int64
		leases int
	}{{from, 2}, {from + 499, 0}, {from + 500, 4}, {from + 501, 4}, {from + 502, 0}} {
		if fx := s.do(c.now, lease); len(fx.Leases) != c.leases {
			t.Fatalf("at T = horizon %+d: %d leases, want %d", c.now-rateHorizon, len(fx.Leases), c.leases)
		}
		s.look()
	}
}
