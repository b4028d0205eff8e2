package transport

import (
	"bytes"
	"context"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/transport/httpapi"
	"github.com/quorate/quorate/wire"
)

// idempotencyKey is the key of a visit's operations, as the log carries it, with the number of the next one.
type idempotencyKey struct {
	fsm.IdempotencyKey
	from uint32 // the part of the visit's first request
	note []byte
}

// repeats counts what became of a visit's operations. Guarded by the connection's mu.
type repeats struct {
	replayed, fresh int
	note            []byte // that an operation which was a repeat came with the first time
}

// keyOf is the key that the requests of a visit have together.
func keyOf(reqs []httpapi.Request) *httpapi.Idempotency {
	if len(reqs) == 0 {
		return nil
	}
	return reqs[0].Idempotency
}

func newKey(key *httpapi.Idempotency) *idempotencyKey {
	return &idempotencyKey{
		IdempotencyKey: fsm.IdempotencyKey{Key: fsm.HashIdempotencyKey([]byte(key.Key)), Print: key.Print, Part: key.Part}, from: key.Part, note: key.Note,
	}
}

// Nothing has the log keep that a request has found nothing to do.
func (v visitors) Nothing(ctx context.Context, key *httpapi.Idempotency) (at wire.At, f *wire.Fault) {
	// A node that stops lets what has been proposed come to its end.
	until, cancel := context.WithTimeout(context.WithoutCancel(ctx), v.cfg.CallTimeout)
	defer cancel()
	k := newKey(key)
	o, stamp, f := v.ask(until, &fsm.Idempotent{IdempotencyKey: k.IdempotencyKey, Note: k.note, Op: &fsm.Nothing{}})
	switch at = wire.At(stamp); {
	case f != nil:
		v.metrics.fault(f)
		return at, f
	case o.Field == fsm.FieldIdempotency:
		f = judged(&call{}, nil, at, &o)
		v.metrics.fault(f)
		return at, f
	case !o.Replayed:
		key.Fresh++
		return at, nil
	}
	key.Replayed++
	v.metrics.replayed.Inc()
	note, _, f := v.Kept(ctx, key)
	key.Note = note
	return at, f
}

// keyFor gives the next operation its key.
func (c *conn) keyFor(op fsm.Op) *fsm.Idempotent {
	o := &fsm.Idempotent{IdempotencyKey: c.key.IdempotencyKey, Note: c.key.note, Op: op}
	c.key.Part++
	return o
}

// partOf has the operation of the i-th request of a visit bear its number, whatever became of those before it: one that was refused at the
// door the first time must not have the others take each other's answers the next time.
func (c *conn) partOf(i int) {
	if c.key != nil {
		c.key.Part = c.key.from + uint32(i)
	}
}

// answered says whether the next operation has been carried out under its key: then its answer is there, and what is judged by has changed since.
func (c *conn) answered() (is bool, f *wire.Fault) {
	if c.key == nil {
		return false, nil
	}
	_, err := c.srv.group("").Read(c.visit, false, func(st *fsm.State) { _, is = st.Kept(&c.key.IdempotencyKey) })
	if err != nil {
		return false, sureFault(faultOf(err))
	}
	return is, nil
}

// unlessAnswered is a refusal of the next operation at the door, or nil where the operation was carried out under its key before what refuses it
// now was there: then the first answer is what it gets.
func (c *conn) unlessAnswered(f *wire.Fault) *wire.Fault {
	if f == nil {
		return nil
	}
	kept, unsure := c.answered()
	switch {
	case unsure != nil:
		return unsure
	case kept:
		return nil
	}
	return f
}

// seeKey notes whether an operation with a key was carried out. mu is held, and st may be read.
func (c *conn) seeKey(k *call, st *fsm.State, repeat bool) {
	if !repeat {
		c.repeats.fresh++
		return
	}
	c.repeats.replayed++
	c.srv.metrics.replayed.Inc()
	if len(k.keyed.Note) > 0 && st != nil {
		note, _ := st.Kept(&k.keyed.IdempotencyKey)
		c.repeats.note = bytes.Clone(note)
	}
}

// sayRepeats tells whoever asked what became of the operations, when none is under way any more or he has gone.
func (c *conn) sayRepeats(key *httpapi.Idempotency, requests int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key.Part = c.key.Part
	if requests > 1 { // those that were refused at the door have their numbers too; one by itself may be no operation, but a read
		key.Part = c.key.from + uint32(requests)
	}
	key.Replayed += c.repeats.replayed
	key.Fresh += c.repeats.fresh
	if c.repeats.note != nil {
		key.Note = c.repeats.note
	}
}
