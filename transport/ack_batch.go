package transport

import (
	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/wire"
)

// resultRoom is about what a result takes beside its output.
const resultRoom = 1 << 10

// ackBatch ends leases with success. Each is an operation of its own in the log, as an ack is; they are proposed, applied and answered
// together.
func (c *conn) ackBatch(raw wire.Raw) bool {
	req := &c.acks
	if err := raw.DecodeWith(req, &c.strings); err != nil {
		return c.badFrame(err)
	}
	if ok, alive := c.begin(raw); !ok {
		return alive
	}
	if f := req.Validate(); f != nil {
		return c.fault(raw.Tag, f)
	}
	if c.key != nil {
		return c.fault(raw.Tag, wire.NewFault(wire.CodeInternal, "a batch of acks was to be remembered under an idempotency key, which an ack alone can be"))
	}
	op := &c.opAck
	*op = fsm.Ack{Then: op.Then[:0]}
	k := c.newCall(raw.Tag, wire.TypeAck, nil)
	for i := range req.Tokens {
		var err error
		if op.Token, err = fsm.ParseToken(req.Tokens[i]); err != nil { // Validate has found nothing wrong with it
			k.free()
			return c.fault(raw.Tag, wire.Invalid("tokens", "tokens[%d]: %v", i, err))
		}
		k.Op = fsm.AppendOp(k.Op, op)
	}
	k.Count = len(req.Tokens)
	c.props = append(c.props, &k.Proposal)
	return true
}

// answerAckBatch tells of each that is not simply done. Results go with it up to the bytes of a batch, or of one result: those whose results
// have no room are to be acked alone. mu is held.
func (c *conn) answerAckBatch(k *call, st *fsm.State, at wire.At, out []fsm.Outcome) {
	rep := &c.ackedBatchRep
	rep.At = at
	room := wire.MaxBatchBytes(c.srv.cfg.MaxMessageBytes) + resultRoom // the largest result there can be has it
	fits := func(r *wire.Result) bool {
		if r == nil {
			return true
		}
		size := int64(len(r.Output) + resultRoom)
		if size > room { // which a smaller one may still have
			return false
		}
		room -= size
		return true
	}
	for i := range out {
		o := &out[i]
		switch {
		case o.Code != fsm.OK:
			f := judged(k, st, at, o)
			c.srv.metrics.fault(f)
			other := wire.AckOutcome{Index: int32(i), Fault: f}
			if !fits(f.Result) {
				other = wire.AckOutcome{Index: int32(i), Again: true}
			}
			rep.Others = append(rep.Others, other)
		case o.Duplicate:
			other := wire.AckOutcome{Index: int32(i), Duplicate: true}
			if o.HasResult {
				other.Result = recorded(k, st, o)
			}
			if !fits(other.Result) {
				other = wire.AckOutcome{Index: int32(i), Again: true}
			}
			rep.Others = append(rep.Others, other)
		default:
			c.srv.metrics.acked(o)
		}
	}
	c.appendFrame(wire.TypeAckedBatch, k.tag, rep)
	clear(rep.Others)
	rep.Others = rep.Others[:0]
}
