package client

import (
	"fmt"
	"slices"

	"github.com/quorate/quorate/wire"
)

func (fc *fakeConn) carryOut(raw wire.Raw) {
	f := fc.f
	if raw.Type == wire.TypeHello {
		f.hellos++
		fc.push(wire.TypeWelcome, raw.Tag, &wire.Welcome{
			Version: wire.Version, Node: fmt.Sprintf("n%d", fc.n.i), Leader: f.leaderAddr(), IsLeader: fc.n.i == f.leader,
			MaxMessageBytes: f.maxMsg, MaxFrameBytes: wire.MaxFrameBytes(f.maxMsg), MaxBatch: wire.MaxBatch,
			PingMillis: f.ping.Milliseconds(), Server: "fake",
		})
		return
	}
	if fc.n.i != f.leader {
		fault := wire.NewFault(wire.CodeNotLeader, "n%d does not lead", fc.n.i)
		if f.leader < 0 {
			fault = wire.NewFault(wire.CodeNoLeader, "no leader")
		}
		fault.Leader = f.leaderAddr()
		fc.fault(raw.Tag, fault)
		return
	}
	f.index++
	if raw.Type == wire.TypeOpenSession {
		o := decode[wire.OpenSession](fc, raw)
		s := f.sessions[o.Session]
		switch {
		case o.Session == "":
			s = &fakeSession{id: f.id(), outcomes: map[uint64]wire.Outcome{}, raw: map[uint64]any{}, subs: map[uint32]*fakeSub{}}
			f.sessions[s.id] = s
		case s == nil:
			fc.fault(raw.Tag, wire.NewFault(wire.CodeSessionExpired, "no session %s", o.Session))
			return
		case s.conn == fc:
			f.touched++
		}
		f.attaches++
		s.conn, fc.session = fc, s
		fc.push(wire.TypeSessionOpened, raw.Tag, &wire.SessionOpened{Session: s.id, At: f.at()})
		return
	}
	s := fc.session
	if s == nil || f.sessions[s.id] == nil {
		fault := f.judged(wire.NewFault(wire.CodeSessionExpired, "no session"))
		if raw.Type != wire.TypeEnqueue {
			fc.fault(raw.Tag, fault)
			return
		}
		a := wire.Enqueued{At: f.at(), Ordered: f.ordered}
		for range decode[wire.Enqueue](fc, raw).Messages {
			a.Outcomes = append(a.Outcomes, wire.Outcome{Fault: fault})
		}
		fc.push(wire.TypeEnqueued, raw.Tag, &a)
		return
	}
	fc.request(s, raw)
	f.pump()
}

// judged is a refusal that the log gives.
func (f *fake) judged(fault *wire.Fault) *wire.Fault {
	if fault == nil {
		return nil
	}
	g, at := *fault, f.at()
	g.At = &at
	return &g
}

// number checks a request id; false: refused.
func (fc *fakeConn) number(s *fakeSession, raw wire.Raw, r wire.Request, n int) bool {
	s.low = max(s.low, r.Low)
	if r.Number == 0 || r.Number+uint64(n) > r.Low+wire.MaxRequestSpan {
		fc.f.t.Errorf("client sent number %d+%d with low %d", r.Number, n, r.Low)
	}
	if r.Number < s.low {
		fc.fault(raw.Tag, fc.f.judged(wire.NewFault(wire.CodeSessionExpired, "number %d is below low %d", r.Number, s.low)))
		return false
	}
	for k := range s.outcomes {
		if k < s.low {
			delete(s.outcomes, k)
		}
	}
	return true
}

func (fc *fakeConn) request(s *fakeSession, raw wire.Raw) {
	f := fc.f
	switch raw.Type {
	case wire.TypeEnqueue:
		e := decode[wire.Enqueue](fc, raw)
		if fault := e.Validate(f.maxMsg); fault != nil {
			f.t.Errorf("client sent a bad batch: %v", fault)
		}
		f.numbers = append(f.numbers, e.Request.Number)
		if !fc.number(s, raw, e.Request, len(e.Messages)) {
			return
		}
		var a wire.Enqueued
		for i := range e.Messages {
			a.Outcomes = append(a.Outcomes, f.enqueue(fc, s, e.Queue, &e.Messages[i], e.Request.Number+uint64(i)))
		}
		a.At, a.Ordered = f.at(), f.ordered
		fc.push(wire.TypeEnqueued, raw.Tag, &a)
	case wire.TypeQueueCreate:
		q := decode[wire.QueueWrite](fc, raw)
		if fc.number(s, raw, q.Request, 1) {
			f.queue(q.Queue)
			fc.push(wire.TypeOK, raw.Tag, &wire.OK{At: f.at()})
		}
	case wire.TypeQueueShow:
		r := decode[wire.QueueRef](fc, raw)
		q := f.queues[r.Queue]
		if q == nil {
			fc.fault(raw.Tag, wire.NewFault(wire.CodeNotFound, "no queue %s", r.Queue))
			return
		}
		info := wire.QueueInfo{Name: r.Queue, Pending: int64(len(q.ready)), Retrying: int64(q.retry), Totals: map[string]int64{}}
		for _, m := range f.msgs {
			if m.queue == r.Queue && m.state == "leased" {
				info.Processing++
			}
		}
		fc.push(wire.TypeQueueIs, raw.Tag, &wire.QueueIs{Queue: info, At: f.at()})
	case wire.TypeLease:
		l := decode[wire.Lease](fc, raw)
		if !fc.number(s, raw, l.Request, 1) {
			return
		}
		if old, ok := s.raw[l.Request.Number]; ok {
			fc.push(wire.TypeLeased, raw.Tag, old)
			return
		}
		a := &wire.Leased{At: f.at()}
		q := f.queue(l.Queue)
		for len(q.ready) > 0 && len(a.Messages) < int(l.Max) {
			a.Messages = append(a.Messages, f.hand(q, nil))
		}
		s.raw[l.Request.Number] = a
		fc.push(wire.TypeLeased, raw.Tag, a)
	case wire.TypeSubscribe:
		b := decode[wire.Subscribe](fc, raw)
		s.subs[b.Sub] = &fakeSub{num: b.Sub, queue: b.Queue, credit: int(b.Credit), out: map[string]bool{}, started: map[string]bool{}, attached: true}
		f.hold(s.subs[b.Sub], b.Unfinished)
		fc.push(wire.TypeOK, raw.Tag, &wire.OK{At: f.at()})
	case wire.TypeResume:
		r := decode[wire.Resume](fc, raw)
		sub := s.subs[r.Subscribe.Sub]
		if sub == nil {
			f.t.Errorf("client resumes unknown subscription %d", r.Subscribe.Sub)
			return
		}
		sub.attached, sub.credit = true, int(r.Subscribe.Credit)
		have := map[string]bool{}
		var lost []string
		for _, tok := range append(slices.Clone(r.Started), r.Held...) {
			have[tok] = true
			if !sub.out[tok] {
				lost = append(lost, tok)
			}
		}
		for tok := range sub.out {
			if !have[tok] && f.msgs[tok] != nil {
				f.release(f.msgs[tok])
			}
		}
		f.hold(sub, r.Subscribe.Unfinished)
		for _, tok := range r.Started {
			sub.started[tok] = true
		}
		fc.push(wire.TypeResumed, raw.Tag, &wire.Resumed{Lost: lost, At: f.at()})
	case wire.TypeCredit:
		b := decode[wire.Credit](fc, raw)
		if sub := s.subs[b.Sub]; sub != nil {
			sub.credit = int(b.Credit)
		}
		fc.push(wire.TypeOK, raw.Tag, &wire.OK{At: f.at()})
	case wire.TypeUnsubscribe:
		b := decode[wire.Unsubscribe](fc, raw)
		delete(s.subs, b.Sub)
		fc.push(wire.TypeOK, raw.Tag, &wire.OK{At: f.at()})
	case wire.TypeStarted:
		b := decode[wire.Started](fc, raw)
		if sub := s.subs[b.Sub]; sub != nil {
			for _, tok := range b.Tokens {
				if f.msgs[tok] == nil {
					delete(sub.out, tok) // delivered at most once, and done with
					continue
				}
				sub.started[tok] = true
			}
		}
	case wire.TypeAck:
		a := decode[wire.Ack](fc, raw)
		if fault := f.judged(f.ack(a.Token, a.Result)); fault != nil {
			fc.fault(raw.Tag, fault)
			break
		}
		fc.push(wire.TypeAcked, raw.Tag, &wire.Acked{At: f.at()})
	case wire.TypeAckBatch:
		a := decode[wire.AckBatch](fc, raw)
		rep := wire.AckedBatch{}
		for i, token := range a.Tokens {
			if fault := f.judged(f.ack(token, nil)); fault != nil {
				rep.Others = append(rep.Others, wire.AckOutcome{Index: int32(i), Fault: fault})
			}
		}
		rep.At = f.at()
		fc.push(wire.TypeAckedBatch, raw.Tag, &rep)
	case wire.TypeNack:
		n := decode[wire.Nack](fc, raw)
		if m := f.live(fc, raw, n.Token); m != nil {
			m.err = n.Error
			f.end(m, "dead")
			if !n.Permanent {
				m.state = "ready"
				f.queue(m.queue).ready = append(f.queue(m.queue).ready, m)
			}
			fc.push(wire.TypeNacked, raw.Tag, &wire.Nacked{Dead: n.Permanent, At: f.at()})
		}
	case wire.TypeExtend:
		e := decode[wire.Extend](fc, raw)
		if m := f.live(fc, raw, e.Token); m != nil {
			fc.push(wire.TypeExtended, raw.Tag, &wire.Extended{LeaseLeftMillis: f.lease.Milliseconds(), At: f.at()})
		}
	case wire.TypeRelease:
		r := decode[wire.Release](fc, raw)
		if m := f.live(fc, raw, r.Token); m != nil {
			f.release(m)
			fc.push(wire.TypeOK, raw.Tag, &wire.OK{At: f.at()})
		}
	case wire.TypeResultGet:
		g := decode[wire.ResultGet](fc, raw)
		m := f.byID[g.Task.TaskID]
		switch {
		case m == nil:
			fc.fault(raw.Tag, wire.NewFault(wire.CodeNotFound, "no task"))
		case m.state == "done":
			fc.push(wire.TypeResultIs, raw.Tag, &wire.ResultIs{Status: "succeeded", Result: m.result, HasOutput: true, At: f.at()})
		case m.state == "dead":
			fc.push(wire.TypeResultIs, raw.Tag, &wire.ResultIs{Status: "dead", Dead: &wire.Task{ID: m.id, TaskID: m.id, Queue: m.queue, Status: "dead", Error: m.err}, At: f.at()})
		default:
			fc.fault(raw.Tag, wire.NewFault(wire.CodeTimeout, "not yet"))
		}
	case wire.TypeClusterStatus:
		fc.push(wire.TypeClusterIs, raw.Tag, &wire.ClusterIs{Leader: fmt.Sprintf("n%d", f.leader), Term: 1, At: f.at()})
	default:
		fc.fault(raw.Tag, wire.NewFault(wire.CodeInvalidArgument, "the fake does not know frame type %d", raw.Type))
	}
}

// hold takes the client's word of the at-most-once deliveries that it has.
func (f *fake) hold(sub *fakeSub, unfinished []string) {
	for tok := range sub.out {
		if f.msgs[tok] == nil {
			delete(sub.out, tok)
		}
	}
	for _, tok := range unfinished {
		sub.out[tok] = true
	}
}

func (f *fake) live(fc *fakeConn, raw wire.Raw, tok string) *fakeMsg {
	m := f.msgs[tok]
	if m == nil {
		fc.fault(raw.Tag, f.judged(wire.NewFault(wire.CodeNotFound, "no message")))
		return nil
	}
	if m.token != tok || m.state != "leased" {
		fc.fault(raw.Tag, f.judged(wire.NewFault(wire.CodeLeaseLost, "the lease is over")))
		return nil
	}
	return m
}

func (f *fake) enqueue(fc *fakeConn, s *fakeSession, queue string, m *wire.Message, number uint64) wire.Outcome {
	if o, ok := s.outcomes[number]; ok {
		return o
	}
	if f.onMessage != nil {
		if fault := f.onMessage(fc, m); fault != nil {
			o := wire.Outcome{Fault: f.judged(fault)}
			s.outcomes[number] = o
			return o
		}
	}
	id := f.id()
	if f.keepLog {
		f.log = append(f.log, string(m.Body))
		f.seen[string(m.Body)]++
		q := f.queue(queue)
		c := *m
		c.Body, c.Headers = slices.Clone(m.Body), slices.Clone(m.Headers)
		fm := &fakeMsg{id: id, queue: queue, m: c, state: "ready"}
		q.ready = append(q.ready, fm)
		f.byID[id] = fm
	}
	o := wire.Outcome{ID: id}
	s.outcomes[number] = o
	return o
}

func (f *fake) hand(q *fakeQueue, sub *fakeSub) wire.Delivered {
	m := q.ready[0]
	q.ready = q.ready[1:]
	m.leases++
	m.attempt++
	m.state, m.sub = "leased", sub
	m.token = m.id + f.id()
	if q.once {
		m.state = "done"
		if sub != nil {
			sub.out[m.token] = true
		}
		return wire.Delivered{ID: m.id, Token: m.token, Attempt: 1, Body: m.m.Body, EnqueuedAt: 1_700_000_000_000, TimeoutMillis: m.m.TimeoutMillis, AtMostOnce: true}
	}
	f.msgs[m.token] = m
	if sub != nil {
		sub.out[m.token] = true
	}
	return wire.Delivered{
		ID: m.id, Token: m.token, Attempt: m.attempt, LeaseLeftMillis: f.lease.Milliseconds(), Body: m.m.Body, Priority: 4,
		EnqueuedAt: 1_700_000_000_000, TimeoutMillis: m.m.TimeoutMillis, Headers: m.m.Headers,
	}
}

func (f *fake) end(m *fakeMsg, state string) {
	m.state = state
	if m.sub != nil {
		delete(m.sub.out, m.token)
		delete(m.sub.started, m.token)
	}
}

// release gives a lease back, free.
func (f *fake) release(m *fakeMsg) {
	f.end(m, "ready")
	m.attempt--
	q := f.queue(m.queue)
	q.ready = slices.Insert(q.ready, 0, m)
}

// expire ends a lease as the clock would.
func (f *fake) expire(tok string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.msgs[tok]
	if m == nil || m.state != "leased" || m.token != tok {
		f.t.Errorf("lease %s is not live", tok)
		return
	}
	sub := m.sub
	f.end(m, "ready")
	m.leases = 0
	if sub != nil {
		for _, s := range f.sessions {
			if s.subs[sub.num] == sub && s.conn != nil {
				s.conn.push(wire.TypeLeaseGone, 0, &wire.LeaseGone{Sub: sub.num, Tokens: []string{tok}})
				s.conn.flush()
			}
		}
	}
	f.queue(m.queue).ready = append(f.queue(m.queue).ready, m)
}

// pump hands ready messages to subscriptions with room; under f.mu.
func (f *fake) pump() {
	for _, s := range f.sessions {
		if s.conn == nil || s.conn.n.i != f.leader {
			continue
		}
		for _, sub := range s.subs {
			q := f.queues[sub.queue]
			if q == nil || !sub.attached {
				continue
			}
			d := wire.Delivery{Sub: sub.num}
			for len(q.ready) > 0 && len(sub.out) < sub.credit {
				d.Messages = append(d.Messages, f.hand(q, sub))
			}
			if len(d.Messages) > 0 {
				s.conn.push(wire.TypeDelivery, 0, &d)
				s.conn.flush()
			}
		}
	}
}

// ack ends a lease with success; under mu.
func (f *fake) ack(token string, result *wire.Result) *wire.Fault {
	m := f.msgs[token]
	switch {
	case m == nil:
		return wire.NewFault(wire.CodeNotFound, "no message")
	case m.token != token || m.state == "ready" && m.leases == 0 || m.state == "dead":
		return wire.NewFault(wire.CodeLeaseLost, "the lease is over")
	}
	if m.state != "done" {
		f.end(m, "done")
		m.result = &wire.Result{}
		if result != nil {
			m.result.Output = slices.Clone(result.Output)
		}
	}
	return nil
}
