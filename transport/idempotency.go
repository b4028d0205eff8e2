package transport

import (
	"bytes"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/transport/httpapi"
)

// idempotencyKey is the key of a visit's operations, as the log carries it, with the number of the next one.
type idempotencyKey struct {
	fsm.IdempotencyKey
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
		IdempotencyKey: fsm.IdempotencyKey{Key: fsm.HashIdempotencyKey([]byte(key.Key)), Print: key.Print, Part: key.Part}, note: key.Note,
	}
}

// keyFor gives the next operation its key.
func (c *conn) keyFor(op fsm.Op) *fsm.Idempotent {
	o := &fsm.Idempotent{IdempotencyKey: c.key.IdempotencyKey, Note: c.key.note, Op: op}
	c.key.Part++
	return o
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
func (c *conn) sayRepeats(key *httpapi.Idempotency) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key.Part = c.key.Part
	key.Replayed += c.repeats.replayed
	key.Fresh += c.repeats.fresh
	if c.repeats.note != nil {
		key.Note = c.repeats.note
	}
}
