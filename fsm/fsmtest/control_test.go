package fsmtest

import (
	"testing"

	"github.com/quorate/quorate/fsm"
)

// TestControl plants a difference into the model and wants it to be seen, so that silence of the other tests means
// something.
func TestControl(t *testing.T) {
	lease := &fsm.Lease{Queue: []byte("q"), Max: 1, MaxBytes: 100, Worker: []byte("w")}
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
		{"a counter", func(_ *Model, q *queue) { q.stats.Nacked++ }, nil},
		{"an option", func(_ *Model, q *queue) { q.options.MaxDead-- }, nil},
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
