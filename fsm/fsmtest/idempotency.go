package fsmtest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/quorate/quorate/fsm"
)

const (
	maxIdemKeys = 1_000_000
	idemTime    = int64(3600 * 1000)
)

// idemKey is an idempotency key that was used, with what came of the parts of its request.
type idemKey struct {
	key, print [16]byte
	end        int64
	seq        uint64
	parts      map[uint32]idemPart
}

// idemPart is how one operation ended.
type idemPart struct {
	outcomes []fsm.Outcome
	wrong    []fsm.Field // what a refusal is for, where it is several fields
	first    fsm.Leased  // of a lease
	note     []byte
}

// idem finds a key that has not ended.
func (m *Model) idem(key [16]byte) *idemKey {
	for _, k := range m.idems {
		if k.key == key && !m.ended(k.end) {
			return k
		}
	}
	return nil
}

// idempotent carries out an operation that has a key, or answers it from memory.
func (m *Model) idempotent(op *fsm.Idempotent) []fsm.Outcome {
	k := m.idem(op.Key)
	if k != nil && k.print != op.Print {
		return one(refuse(fsm.AlreadyExists, fsm.FieldIdempotency))
	}
	if k != nil {
		if was, ok := k.parts[op.Part]; ok {
			return m.replay(was)
		}
	} else if len(m.idems) >= maxIdemKeys {
		return one(fsm.Outcome{Code: fsm.Overloaded, Field: fsm.FieldIdempotency, Limit: maxIdemKeys})
	}
	m.wrong = nil
	out := m.do(op.Op)
	lasting := false
	for _, o := range out {
		lasting = lasting || o.Code != fsm.QueueFull && o.Code != fsm.Overloaded
	}
	if pull, ok := op.Op.(*fsm.Lease); ok && pull.Waits && out[0].Code == fsm.OK && out[0].LeaseCount == 0 {
		lasting = false
	}
	if !lasting {
		m.sometimes("idempotency: an answer that is not kept")
		return out
	}
	if k == nil {
		k = &idemKey{key: op.Key, print: op.Print, end: m.t + idemTime, seq: m.newSeq(), parts: map[uint32]idemPart{}}
		m.idems = append(m.idems, k)
	}
	was := idemPart{outcomes: slices.Clone(out), wrong: m.wrong, note: bytes.Clone(op.Note)}
	if _, ok := op.Op.(*fsm.Ack); ok {
		was.outcomes[0].Millis = 0 // how long the message was out is said once
	}
	if len(out) == 1 && out[0].LeaseCount > 0 {
		was.first = m.fx.Leases[out[0].LeaseFrom]
	}
	k.parts[op.Part] = was
	return out
}

// replay answers as the first time; the tokens of a lease are those that still live.
func (m *Model) replay(was idemPart) []fsm.Outcome {
	m.sometimes("idempotency: the first answer again")
	var out []fsm.Outcome
	for _, o := range was.outcomes {
		switch {
		case o.LeaseCount > 0:
			again := remembered{outcome: fsm.Outcome{}, first: was.first.Token.Lease, leaseTotal: o.LeaseCount}
			o = m.again(again, &fsm.Lease{Consumer: was.first.Consumer})
			if o.LeaseCount > 0 {
				m.sometimes("idempotency: leases again")
			}
		case len(was.wrong) > 0:
			o = m.refuseAny(was.wrong)
		}
		o.Replayed = true
		out = append(out, o)
	}
	return out
}

// endedIdems lists the keys that are over.
func (m *Model) endedIdems() (ended []endedRecord) {
	for _, k := range m.idems {
		if m.ended(k.end) {
			ended = append(ended, endedRecord{9, k.end, k.seq, func() { m.idems = remove(m.idems, k) }})
		}
	}
	return ended
}

// compareIdems compares what is kept under idempotency keys.
func (p *Pair) compareIdems() error {
	m, s := p.Model, p.State
	var errs []error
	if got, want := s.Memory().IdempotencyKeys, int64(len(m.idems)); got != want {
		errs = append(errs, fmt.Errorf("idempotency keys: want %d, got %d", want, got))
	}
	for _, k := range m.idems {
		live := m.idem(k.key)
		for part := range uint32(4) {
			for _, print := range [][16]byte{k.print, {255}} {
				was, want := idemPart{}, false
				if live != nil && live.print == print {
					was, want = live.parts[part], live.parts[part].outcomes != nil
				}
				note, got := s.Kept(&fsm.IdempotencyKey{Key: k.key, Print: print, Part: part})
				if got != want || !bytes.Equal(note, was.note) {
					errs = append(errs, fmt.Errorf("idempotency key %x, part %d: want kept %v with note %x, got %v with %x", k.key[:4], part, want, was.note, got, note))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// withKey gives an operation an idempotency key at times: mostly a new request's, at times one of a request before, or of its next part.
func (g *Generator) withKey(op fsm.Op) fsm.Op {
	x := &g.extra
	if x.idem == 0 {
		return op
	}
	if len(x.keyed) > 0 && g.chance(x.idem) { // again, as it was
		o := *pick(g, x.keyed...)
		if g.chance(15) { // another request of the same key
			o.Print[0]++
		}
		return &o
	}
	if !g.chance(x.idem) {
		return op
	}
	switch op.(type) {
	case *fsm.Bootstrap, *fsm.OpenSession, *fsm.Checkpoint, *fsm.ChangeQueue, *fsm.Idempotent:
		return op // those that the generator, or the effects, must see for what they are
	}
	o := &fsm.Idempotent{IdempotencyKey: fsm.IdempotencyKey{Key: hash16("idem", byte(g.rng.IntN(256)), byte(g.rng.IntN(256)))}, Op: op}
	o.Print = hash16("print", o.Key[:]...)
	if len(x.keyed) > 0 && g.chance(30) {
		o.IdempotencyKey = pick(g, x.keyed...).IdempotencyKey
		o.Part = uint32(g.rng.IntN(4))
	}
	if g.chance(30) {
		o.Note = []byte(pick(g, "n", "a note", "\x00\xff"))
	}
	x.keyed = keepLast(append(x.keyed, o), 12)
	return o
}

// bare is an operation without its key.
func bare(op fsm.Op) fsm.Op {
	if o, ok := op.(*fsm.Idempotent); ok {
		return o.Op
	}
	return op
}
