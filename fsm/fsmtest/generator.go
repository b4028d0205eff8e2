package fsmtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/quorate/quorate/fsm"
)

// Generator makes random entries, leaning towards the edges of the contract. It looks into the model to find what is
// there: live tokens, dead letters, the T at which something ends. The same seed and the same answers give the same
// entries.
type Generator struct {
	rng   *rand.Rand
	model *Model

	index    uint64
	t        int64 // T of the entry being made
	queues   []string
	tiny     bool     // options with tiny maxima
	byKey    bool     // queues in which keys matter
	crowd    bool     // batches large enough that more than 1,024 moves are due at once
	heavy    bool     // bodies of about a megabyte
	closing  *fsm.Ack // the last one of a moved message
	letters  bool     // queues name dead-letter queues
	focus    int      // when not 0, few messages live long: of 100 answers to a lease, so many are releases, the rest nacks
	extra    extras
	corner   corners
	epoch    int64 // T at the beginning, about
	sessions []*genSession
	tokens   []fsm.Token // of past leases, newest last
	ids      []fsm.ID    // of past messages, newest last
	sent     []fsm.Op    // operations that carried a request id
}

type genSession struct {
	id        fsm.ID
	next, low uint64
	leases    map[uint64]bool // numbers used, and whether for a lease
}

// use notes numbers as used and says whether none of them was used for another kind of operation before: a client
// that does that gets answers without sense.
func (s *genSession) use(number uint64, n int, lease bool) bool {
	for i := range uint64(n) {
		if was, ok := s.leases[number+i]; ok && was != lease {
			return false
		}
	}
	for i := range uint64(n) {
		s.leases[number+i] = lease
	}
	return true
}

// past is how many old tokens, ids and requests the generator remembers.
const past = 64

// NewGenerator makes a generator whose choices follow from the seed and from what the model holds.
func NewGenerator(seed uint64, model *Model) *Generator {
	g := &Generator{rng: rand.New(rand.NewPCG(seed, 0x5175f0a7e)), model: model}
	g.queues = []string{"jobs", "mail.out", "A:b-c_d.9", "dlq"}[:1+g.rng.IntN(4)]
	if g.letters = g.chance(50); g.letters {
		g.queues = []string{"jobs", "dlq", "mail.out"}[:2+g.rng.IntN(2)]
	}
	g.tiny = g.chance(50)
	g.crowd = g.chance(4)
	g.heavy = !g.crowd && g.chance(3)
	if !g.crowd && !g.heavy && g.chance(20) {
		g.focus = pick(g, 10, 50, 97)
	}
	g.byKey = !g.crowd && g.chance(50)
	g.drawExtras()
	g.drawCorners()
	switch g.rng.IntN(4) {
	case 0:
		g.index = 1<<32 - uint64(g.rng.IntN(50))
	case 1:
		g.index = g.rng.Uint64N(1 << 50)
	}
	return g
}

func (g *Generator) chance(percent int) bool { return g.rng.IntN(100) < percent }

func pick[T any](g *Generator, list ...T) T { return list[g.rng.IntN(len(list))] }

// Next makes the next entry and its log index. The first one bootstraps.
func (g *Generator) Next() (uint64, fsm.Entry) {
	g.index += 1 + uint64(g.rng.IntN(100)/90*g.rng.IntN(4))
	if g.model.index == 0 {
		g.t = g.epoch + int64(g.rng.IntN(1000))
		ops := []fsm.Op{
			&fsm.Bootstrap{Cluster: [16]byte{1, 2, 3, byte(g.rng.IntN(256))}, Epoch: uint16(1 + g.rng.IntN(3))},
			&fsm.OpenSession{},
		}
		for _, name := range g.queues {
			if g.letters || g.chance(60) {
				ops = append(ops, &fsm.CreateQueue{Name: []byte(name), Options: g.newOptions(name)})
			}
		}
		return g.index, fsm.Entry{Now: g.t, Ops: ops}
	}
	g.sessions = slices.DeleteFunc(g.sessions, func(s *genSession) bool {
		return g.model.session(s.id) == nil && g.chance(40)
	})
	e := fsm.Entry{Now: g.nextTime()}
	if len(g.sessions) == 0 {
		e.Ops = append(e.Ops, &fsm.OpenSession{})
	}
	g.t = max(g.model.t, e.Now)
	if g.chance(8) {
		gap := g.t - g.model.t
		e.Shift = pick(g, gap, gap, gap/2, gap+1, -1, int64(1)<<62)
	}
	n := 1 + g.rng.IntN(6)
	switch g.rng.IntN(20) {
	case 0:
		n = 0
	case 1:
		n = 30
	}
	for i := 0; i < n; i++ {
		e.Ops = append(e.Ops, g.op())
	}
	g.changeOnce(e.Ops)
	return g.index, e
}

// Saw tells the generator how an entry ended, so that it can use the ids and tokens that came of it.
func (g *Generator) Saw(e fsm.Entry, fx *fsm.Effects) {
	from := int32(0)
	for i, op := range e.Ops {
		op = bare(op)
		for _, o := range fx.Outcomes[from:fx.OpEnd[i]] {
			if o.Code != fsm.OK || o.ID.IsZero() {
				continue
			}
			if _, ok := op.(*fsm.OpenSession); ok {
				g.sessions = keepLast(append(g.sessions, &genSession{id: o.ID, next: uint64(g.rng.IntN(3)), leases: map[uint64]bool{}}), 8)
			} else if _, ok := op.(*fsm.BatchCreate); ok {
				g.extra.batches = keepLast(append(g.extra.batches, o.ID), 6)
			} else {
				g.ids = keepLast(append(g.ids, o.ID), past)
			}
		}
		from = fx.OpEnd[i]
	}
	for _, l := range fx.Leases {
		g.tokens = keepLast(append(g.tokens, l.Token), past)
	}
}

func keepLast[T any](list []T, n int) []T { return list[max(0, len(list)-n):] }

// nextTime draws the entry's time: mostly a little later, often on the edge of something, sometimes far away or back.
func (g *Generator) nextTime() int64 {
	now := g.model.t
	edge := int64(g.rng.IntN(3) - 1)
	switch p := g.rng.IntN(100); {
	case p < 35:
		return now + int64(g.rng.IntN(6))
	case p < 50:
		return now + int64(g.rng.IntN(2000))
	case p < 75:
		if at, ok := g.model.NextDue(); ok && (at < now+120_000 || g.chance(10)) {
			return at + edge
		}
		return now + 1
	case p < 87:
		if at, ok := g.someEnd(); ok && (at < now+15*60_000 || g.chance(4)) {
			return at + edge
		}
		return now + 1
	case p < 93:
		return now - int64(g.rng.IntN(1000))
	case p < 98:
		return now + int64(g.rng.IntN(120_000))
	case p < 99:
		return now + sessionIdle/2 + int64(g.rng.IntN(int(sessionIdle)))
	}
	if g.chance(80) {
		return now
	}
	return now + int64(g.rng.IntN(int(40*day)))
}

// someEnd picks a time at which some record ends.
func (g *Generator) someEnd() (int64, bool) {
	var ends []int64
	for _, q := range g.model.queues {
		for _, d := range q.dedup {
			ends = append(ends, d.end)
		}
		for _, r := range q.records {
			ends = append(ends, r.end)
		}
		for _, k := range q.keys {
			if at := (k.tat + 999_999) / 1_000_000; k.debt && k.hold == holdRate {
				ends = append(ends, k.until, k.until, at)
			} else if k.debt {
				ends = append(ends, at)
			}
		}
		for _, x := range q.dead {
			ends = append(ends, x.failedAt+q.options.DeadRetentionMillis)
		}
		for _, x := range q.messages {
			if x.expiresAt != 0 {
				ends = append(ends, x.expiresAt)
			}
			if x.state == fsm.StateLeased {
				ends = append(ends, x.deadline+g.model.shift)
			}
		}
	}
	for _, s := range g.model.sessions {
		ends = append(ends, s.touched+sessionIdle)
	}
	ends = append(ends, g.tableEnds()...)
	if len(ends) == 0 {
		return 0, false
	}
	slices.Sort(ends) // keys lie in a map, and a seed must give the same entries each time
	return ends[g.rng.IntN(len(ends))], true
}

func (g *Generator) queueName() []byte {
	switch g.rng.IntN(100) {
	case 0:
		return []byte(pick(g, "", "-x", "a b", "ä", strings.Repeat("q", 129)))
	case 1, 2:
		return []byte(pick(g, "unknown", strings.Repeat("q", 128)))
	}
	return []byte(pick(g, g.queues...))
}

// request draws a request id for an operation that takes n numbers, or none.
func (g *Generator) request(n int, lease bool) fsm.Request {
	if len(g.sessions) == 0 || g.chance(50) {
		return fsm.Request{}
	}
	s := pick(g, g.sessions...)
	if g.chance(4) {
		return fsm.Request{Session: fsm.MakeID(1, 99, g.rng.Uint64N(100), 0), Number: 1}
	}
	if g.chance(20) && s.next > s.low {
		s.low += g.rng.Uint64N(s.next - s.low + 1)
	}
	r := fsm.Request{Session: s.id, Number: s.next, Low: s.low}
	if g.chance(8) {
		switch g.rng.IntN(5) {
		case 0:
			r.Number = s.low + requestWindow - g.rng.Uint64N(4)*uint64(n)/2 + g.rng.Uint64N(4)
		case 1:
			r.Number = s.low - min(s.low, g.rng.Uint64N(3))
		case 2:
			r.Low = 0
		case 3:
			r.Number = s.next - min(s.next, g.rng.Uint64N(3))
		case 4:
			r.Low = r.Number + 1
		}
		if s.use(r.Number, n, lease) {
			return r
		}
		r = fsm.Request{Session: s.id, Number: s.next, Low: s.low}
	}
	for !s.use(r.Number, n, lease) {
		r.Number++
	}
	s.next = r.Number + uint64(n)
	return r
}

// op draws an operation.
func (g *Generator) op() fsm.Op {
	if len(g.sent) > 0 && g.chance(8) {
		return pick(g, g.sent...)
	}
	op, keep := g.freshOp()
	if op = g.withKey(op); keep {
		g.sent = keepLast(append(g.sent, op), past)
	}
	return op
}

// freshOp draws a new operation; requested says that it carries a request id.
func (g *Generator) freshOp() (op fsm.Op, requested bool) {
	if g.crowd && g.live() > crowdMost {
		o := &fsm.PurgeQueue{Request: g.request(1, false), Name: []byte(g.fullest())}
		return o, !o.Request.Session.IsZero()
	}
	if op, requested, ok := g.cornerOp(); ok {
		return op, requested
	}
	if op, requested, ok := g.extraOp(); ok {
		return op, requested
	}
	p := g.rng.IntN(1000)
	if g.byKey && g.chance(25) { // more waits and is out, and options change under it
		switch p := g.rng.IntN(100); {
		case p < 40:
			o := g.lease()
			return o, !o.Request.Session.IsZero()
		case p < 75:
			o := &fsm.Enqueue{Queue: g.queueName(), Messages: g.messages()}
			g.fit(o.Queue, o.Messages)
			o.Request = g.request(len(o.Messages), false)
			return o, !o.Request.Session.IsZero()
		}
		o := &fsm.SetQueue{Request: g.request(1, false), Name: g.queueName()}
		o.Options = g.setOptions(string(o.Name))
		return o, !o.Request.Session.IsZero()
	}
	if g.chance(1) {
		o := g.change()
		o.Request = g.request(1, false)
		return o, !o.Request.Session.IsZero()
	}
	if g.focus > 0 && p < 700 && g.live() > 2 {
		switch {
		case g.chance(45):
			o := g.lease()
			return o, !o.Request.Session.IsZero()
		case g.chance(g.focus):
			return &fsm.Release{Token: g.token(), Spent: g.chance(5)}, false
		}
		return g.nack(), false
	}
	if g.letters && g.chance(30) {
		o := g.letterOp()
		_, again := o.(*fsm.Ack)
		return o, again
	}
	switch {
	case p < 300:
		o := &fsm.Enqueue{Queue: g.queueName(), AutoCreate: !g.chance(8), Messages: g.messages()}
		g.fit(o.Queue, o.Messages)
		o.Request = g.request(len(o.Messages), false)
		return o, !o.Request.Session.IsZero()
	case p < 500:
		o := g.lease()
		return o, !o.Request.Session.IsZero()
	case p < 640:
		return g.ack(), false
	case p < 740:
		return g.nack(), false
	case p < 780:
		return &fsm.Extend{Token: g.token(), LeaseMillis: g.leaseMillis()}, false
	case p < 840:
		return &fsm.Release{Token: g.token(), Spent: g.chance(5)}, false
	case p < 880:
		o := &fsm.PushResult{Request: g.request(1, false), Queue: g.queueName(), TaskID: g.taskID(), Kind: g.text(128), Result: g.result()}
		if g.chance(25) {
			o.Queue, o.TaskID = g.taskName()
		}
		if g.chance(10) {
			o.Queue = nil
		}
		return o, !o.Request.Session.IsZero()
	case p < 887:
		o := g.edit()
		return o, !o.Request.Session.IsZero()
	case p < 910:
		o := &fsm.DeadRequeue{Queue: g.queueName()}
		o.IDs = g.deadIDs(string(o.Queue))
		o.Request = g.request(len(o.IDs), false)
		return o, !o.Request.Session.IsZero()
	case p < 925:
		o := &fsm.DeadDelete{Queue: g.queueName()}
		o.IDs = g.deadIDs(string(o.Queue))
		o.Request = g.request(len(o.IDs), false)
		return o, !o.Request.Session.IsZero()
	case p < 930:
		o := &fsm.DeadPurge{Request: g.request(1, false), Queue: g.queueName()}
		return o, !o.Request.Session.IsZero()
	case p < 936:
		o := &fsm.PurgeQueue{Request: g.request(1, false), Name: g.queueName()}
		return o, !o.Request.Session.IsZero()
	case p < 940:
		o := &fsm.DeleteQueue{Request: g.request(1, false), Name: g.queueName()}
		return o, !o.Request.Session.IsZero()
	case p < 955:
		o := &fsm.CreateQueue{Request: g.request(1, false), Name: g.queueName()}
		o.Options = g.newOptions(string(o.Name))
		return o, !o.Request.Session.IsZero()
	case p < 970 && g.chance(30):
		o := g.change()
		o.Request = g.request(1, false)
		return o, !o.Request.Session.IsZero()
	case p < 970:
		o := &fsm.SetQueue{Request: g.request(1, false), Name: g.queueName()}
		o.Options = g.setOptions(string(o.Name))
		return o, !o.Request.Session.IsZero()
	case p < 978:
		return &fsm.OpenSession{}, false
	case p < 990:
		if len(g.sessions) > 0 && !g.chance(10) {
			return &fsm.TouchSession{Session: pick(g, g.sessions...).id}, false
		}
		return &fsm.TouchSession{Session: g.someID()}, false
	case p < 995:
		return &fsm.Checkpoint{Nonce: g.rng.Uint64()}, false
	case p < 998:
		return &fsm.Nothing{}, false
	}
	return &fsm.Bootstrap{Cluster: [16]byte{9}, Epoch: 9}, false
}

// crowdMost is how many live messages a crowd has before its fullest queue is purged: half as much again as one entry moves. The model
// looks at each of them at each step, so that without a bound a long run would never end.
const crowdMost = 1536

// fullest is the queue with the most live messages.
func (g *Generator) fullest() (name string) {
	most := -1
	for _, q := range g.model.queues {
		if n := len(q.messages); n > most || n == most && q.name < name {
			most, name = n, q.name
		}
	}
	return name
}

// live counts the live messages.
func (g *Generator) live() (n int) {
	for _, q := range g.model.queues {
		n += len(q.messages)
	}
	return n
}

func (g *Generator) someID() fsm.ID {
	if len(g.ids) > 0 && !g.chance(20) {
		return pick(g, g.ids...)
	}
	return pick(g, fsm.ID{}, fsm.MakeID(1, 0, 1, 0), fsm.ID{Hi: ^uint64(0), Lo: ^uint64(0)})
}

// text is a short or empty text, or one at the edge of a limit.
func (g *Generator) text(limit int) []byte {
	switch g.rng.IntN(60) {
	case 0:
		return []byte(strings.Repeat("k", limit))
	case 1:
		return []byte(strings.Repeat("k", limit+1))
	case 2:
		return []byte("not \xff utf-8")
	}
	return []byte(pick(g, "", "", "hash", "resize", "été\x00"))
}

func (g *Generator) taskID() []byte {
	switch g.rng.IntN(20) {
	case 0, 3:
		return []byte(idText(g.someID()))
	case 1:
		return []byte(strings.Repeat("t", 126+g.rng.IntN(4)))
	case 2:
		return nil
	}
	return []byte(fmt.Sprintf("task-%d", g.rng.IntN(12)))
}

func (g *Generator) result() fsm.Result {
	return fsm.Result{Output: g.body(), ContentType: g.text(128)}
}

// body is drawn from few, so that bodies are often equal.
func (g *Generator) body() []byte {
	if g.heavy && g.chance(15) {
		return []byte(strings.Repeat("h", 1<<20+g.rng.IntN(1<<20)))
	}
	if g.chance(2) {
		return []byte(strings.Repeat("\x00b", g.rng.IntN(5000)))
	}
	return []byte(pick(g, "", "x", "y", "{}", "some longer body of thirty bytes"))
}

// token picks a token: mostly of a live lease, else an old one, or one that nobody ever had.
func (g *Generator) token() fsm.Token {
	var t fsm.Token
	if len(g.tokens) > 0 {
		t = pick(g, g.tokens...)
	}
	if g.chance(60) {
		var live []fsm.Token
		for _, q := range g.model.queues {
			for _, x := range q.messages {
				if x.state == fsm.StateLeased {
					live = append(live, x.token())
				}
			}
		}
		if len(live) > 0 {
			t = pick(g, live...)
		}
	}
	switch g.rng.IntN(40) {
	case 0:
		t.Lease.Lo++
	case 1:
		t.Lease = fsm.ID{}
	case 2:
		t.Lease = fsm.MakeID(0, t.Lease.Group(), t.Lease.Index(), t.Lease.Offset())
	case 3:
		t.Message = g.someID()
	case 4:
		t = fsm.Token{Message: g.someID(), Lease: g.someID()}
	}
	return t
}
