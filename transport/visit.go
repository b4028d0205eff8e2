package transport

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/transport/httpapi"
	"github.com/quorate/quorate/wire"
)

// visitors is the node as the HTTP API sees it. A request that comes by HTTP is a connection without a socket, a visit: its frames are
// decoded, judged, proposed and answered by what serves WebSockets, with the same bounds, and what stands in its outbox in the end is
// the answer. So there is one implementation of every operation, and what HTTP adds is JSON.
type visitors struct{ *Server }

// Leader says who leads: here, or the client address of another node, "" if that is not known.
func (v visitors) Leader() (addr string, here bool) {
	st := v.group("").Status()
	return st.LeaderAddr, st.Leader
}

// Do carries out requests of one caller, proposed together, and waits for all the answers. Until ctx ends, that is: then waits are ended
// as if they had been that long. Who has gone altogether says so by gone: what is leased to him from then on is given back, free.
func (v visitors) Do(ctx, gone context.Context, reqs ...httpapi.Request) []httpapi.Answer {
	answers := make([]httpapi.Answer, len(reqs))
	c := newConn(v.Server, &http.Request{RemoteAddr: "http"})
	c.greeted, c.visit = true, ctx
	if key := keyOf(reqs); key != nil {
		c.key = newKey(key)
		defer c.sayRepeats(key, len(reqs))
	}
	defer c.leaveVisit()
	defer context.AfterFunc(gone, c.endJudging)()
	if f := v.seat(gone, c, reqs); f != nil {
		for i := range answers {
			answers[i].Fault = f
		}
		return answers
	}
	c.now, c.deadline = time.Now(), v.cfg.Broker.Clock().Mono()+v.cfg.CallTimeout
	left, over := 0, false
	for i, r := range reqs {
		switch f := v.judge(r.Body); {
		case f != nil:
			v.metrics.fault(f)
			answers[i].Fault = f
		case over: // the frames before this one ended the conversation
			answers[i].Fault = wire.NewFault(wire.CodeInternal, "an earlier request of this batch could not be read")
		default:
			raw, _, err := wire.Next(wire.AppendFrame(nil, r.Type, uint64(i+1), r.Body))
			left++
			c.partOf(i)
			if err != nil {
				answers[i].Fault = wire.NewFault(wire.CodeInvalidArgument, "%s", err.Error())
				left--
				continue
			}
			over = !c.frame(raw)
		}
	}
	c.submit()
	ended := ctx.Done()
	for {
		n, closed := c.collect(answers)
		if left -= n; left <= 0 || closed {
			return filled(answers)
		}
		select {
		case <-c.wake:
		case <-ended:
			ended = nil
			for _, end := range c.waits {
				end()
			}
		case <-gone.Done():
			c.close(0, "") // from here on what is leased is declined, and given back by whoever leased it
			for _, end := range c.waits {
				end()
			}
			c.collect(answers) // what came before has to be given back by the caller
			return filled(answers)
		}
	}
}

// seat gives a visit the shared session where one of its requests is a lease.
func (v visitors) seat(ctx context.Context, c *conn, reqs []httpapi.Request) *wire.Fault {
	for _, r := range reqs {
		if r.Type == wire.TypeLease {
			a, f := v.houses.first().session(ctx)
			if f != nil {
				return f
			}
			c.attached.Store(a)
			return nil
		}
	}
	return nil
}

// judge finds what is wrong with a request before it is encoded, since a frame that breaks the protocol's own bounds has no good words.
func (v visitors) judge(req any) *wire.Fault {
	switch r := req.(type) {
	case interface{ Validate() *wire.Fault }:
		return r.Validate()
	case interface{ Validate(int64) *wire.Fault }:
		return r.Validate(v.cfg.MaxMessageBytes)
	}
	return nil
}

// collect moves the answers that have come from the outbox to their places. closed says that there will be no more.
func (c *conn) collect(answers []httpapi.Answer) (n int, closed bool) {
	c.mu.Lock()
	out := c.out
	c.out, c.cuts, c.msgStart, c.frames, c.lent = nil, c.cuts[:0], 0, 0, 0
	closed = c.closing
	c.mu.Unlock()
	ok := c.unframe(out, func(raw wire.Raw, body any) {
		a := httpapi.Answer{Type: raw.Type, Body: body}
		if f, ok := body.(*wire.Fault); ok {
			a = httpapi.Answer{Fault: f}
		}
		switch {
		case raw.Tag != 0 && raw.Tag <= uint64(len(answers)):
			answers[raw.Tag-1] = a
			n++
		case a.Fault != nil: // about the whole conversation
			for i := range answers {
				if answers[i].Fault == nil && answers[i].Body == nil {
					answers[i] = a
				}
			}
		}
	})
	return n, closed || !ok
}

// unframe reads what stood in the outbox of a visit, frame by frame. False: it could not.
func (c *conn) unframe(out []byte, take func(wire.Raw, any)) bool {
	for len(out) > 0 {
		raw, rest, err := wire.Next(out)
		if err != nil {
			c.log.Error("an answer that is no frame", "err", err)
			return false
		}
		out = rest
		body := wire.NewBody(raw.Type)
		if err := raw.Decode(body); err != nil {
			c.log.Error("an answer that cannot be read", "op", raw.Type, "err", err)
			return false
		}
		take(raw, body)
	}
	return true
}

// filled has every place hold an answer: of what has none nothing is known.
func filled(answers []httpapi.Answer) []httpapi.Answer {
	for i := range answers {
		if answers[i].Fault == nil && answers[i].Body == nil {
			answers[i].Fault = wire.NewFault(wire.CodeTimeout, "the connection ended before there was an answer")
		}
	}
	return answers
}

// leaveVisit ends a visit and waits for what it started.
func (c *conn) leaveVisit() {
	c.close(0, "")
	c.cancel()
	c.slow.Wait()
}

// GiveBack returns leases that were handed out and have not reached anybody, at no cost of an attempt.
func (v visitors) GiveBack(tokens ...string) {
	deadline := v.cfg.Broker.Clock().Mono() + v.cfg.CallTimeout
	for _, s := range tokens {
		t, err := fsm.ParseToken(s)
		if err != nil {
			continue // it was ours
		}
		v.metrics.unsent.Inc()
		v.group("").Propose(&group.Proposal{Op: fsm.AppendOp(nil, &fsm.Release{Token: t}), Deadline: deadline, Done: forgotten{}})
	}
}

// LastToken is the token of a message's last lease, for those who know messages by their ids alone.
func (v visitors) LastToken(ctx context.Context, id string) (string, *wire.Fault) {
	var token fsm.Token
	found := false
	_, err := v.group("").Read(ctx, false, func(st *fsm.State) {
		var in fsm.Info
		if found = st.Task("", wire.View(id), &in); found {
			token = in.Token
		}
	})
	switch {
	case err != nil:
		return "", sureFault(faultOf(err))
	case !found:
		return "", noTask(&wire.TaskRef{TaskID: id})
	case token.Lease.IsZero():
		return "", wire.NewFault(wire.CodeFailedPrecondition, "message %s has never been leased", id)
	}
	return token.String(), nil
}

// Kept says whether the first operation of a request has been carried out under its key, and what note came with it.
func (v visitors) Kept(ctx context.Context, key *httpapi.Idempotency) (note []byte, kept bool, f *wire.Fault) {
	k := newKey(key)
	_, err := v.group("").Read(ctx, false, func(st *fsm.State) {
		if note, kept = st.Kept(&k.IdempotencyKey); kept {
			note = bytes.Clone(note)
		}
	})
	if err != nil {
		return nil, false, sureFault(faultOf(err))
	}
	return note, kept, nil
}

// WaitDead waits until more or fewer messages than known have come to a queue's dead letters, or wait is over.
func (v visitors) WaitDead(ctx context.Context, queue string, known int64, wait time.Duration) (int64, *wire.Fault) {
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	now, err := v.group("").WaitDead(waiting, queue, known)
	if err != nil && waiting.Err() == nil {
		return known, sureFault(faultOf(err))
	}
	return now, nil
}
