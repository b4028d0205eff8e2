package fsm

import (
	"encoding/binary"
	"fmt"
)

// opIdempotent comes before an operation and belongs to it: together they are one operation, with the outcomes of the second. Its fields
// are key, print, part and note; then follows the operation.
const opIdempotent uint8 = 26

const domainIdempotency = "quorate/idempotency/1"

// IdempotencyKey names an operation that is to be carried out once, whoever asks for it how often.
type IdempotencyKey struct {
	Key   [16]byte // hash of the caller's key, see HashIdempotencyKey
	Print [16]byte // hash of the whole request, made by the proposer: the key is for this one alone
	Part  uint32   // which of the request's operations it is, where it has several
}

// HashIdempotencyKey is what the log carries in place of a caller's key.
func HashIdempotencyKey(key []byte) [16]byte { return hashParts(domainIdempotency, key, nil, 1) }

// Idempotent is an operation with an idempotency key. The first time it is carried out, and its outcomes are kept for
// IdempotencyMillis in the same entry; from then on they are given again, with Outcome.Replayed, whatever Op says.
//
// One outcome, of FieldIdempotency, says that nothing was carried out: AlreadyExists, the key is another request's; Overloaded, there is
// no room to keep more.
type Idempotent struct {
	IdempotencyKey
	// Note is what the proposer needs to answer with the outcomes again: bytes that mean nothing here. It is kept with them, see
	// State.Kept. At most MaxIdempotencyNote.
	Note []byte
	Op   Op // not an Idempotent
}

func (*Idempotent) opNumber() uint8 { return opIdempotent }

// opNothing does nothing and has no fields.
const opNothing uint8 = 27

// Nothing is what a request comes to that has looked and found nothing to do. Its outcome is OK; behind a key that is kept, with the note, so that
// the request sent again is answered as the first time, whatever there is by then.
type Nothing struct{}

func (*Nothing) opNumber() uint8 { return opNothing }

// Nothing reads a Nothing.
func (d *Decoder) Nothing(*Nothing) { d.take(opNothing) }

func (o *Idempotent) check() error {
	if _, twice := o.Op.(*Idempotent); twice || o.Op == nil {
		return fmt.Errorf("%w: Idempotent has %T for its operation, want one without a key", ErrOpLimit, o.Op)
	}
	if len(o.Note) > MaxIdempotencyNote {
		return fmt.Errorf("%w: Idempotent has a note of %d bytes, want at most %d", ErrOpLimit, len(o.Note), MaxIdempotencyNote)
	}
	return CheckOp(o.Op)
}

func appendIdempotent(b []byte, o *Idempotent) []byte {
	if err := o.check(); err != nil {
		panic(fmt.Sprintf("fsm: %v: CheckOp was not asked", err))
	}
	b = append(append(b, o.Key[:]...), o.Print[:]...)
	return AppendOp(appendBytes(binary.AppendUvarint(b, uint64(o.Part)), o.Note), o.Op)
}

// opKey is what the decoder has read before the operation at hand.
type opKey struct {
	IdempotencyKey
	note  []byte
	given bool
}

// Key is the idempotency key of the operation that Next has found, if it has one.
func (d *Decoder) Key() (k IdempotencyKey, note []byte, given bool) {
	return d.key.IdempotencyKey, d.key.note, d.key.given
}

// idempotent reads a key and goes on to the operation that it is for.
func (d *Decoder) idempotent() bool {
	k := &d.key
	copy(k.Key[:], d.raw(16))
	copy(k.Print[:], d.raw(16))
	part := d.uvarint()
	if part > 1<<32-1 {
		d.fail("Idempotent: part %d does not fit in 32 bits", part)
	}
	k.Part = uint32(part)
	if k.note = d.bytes(); len(k.note) > MaxIdempotencyNote {
		d.fail("Idempotent: a note of %d bytes, want at most %d", len(k.note), MaxIdempotencyNote)
	}
	op := d.byte()
	if d.err != nil {
		return false
	}
	if op == opIdempotent || op >= opEnd || opNames[op] == "" {
		d.pos--
		d.fail("operation %d is unknown to this build behind a key", op)
		return false
	}
	d.op, k.given = op, true
	return true
}

// OpNumber is the number of an encoded operation: of one with an idempotency key, that of the operation that the key is for. 0: it is none.
func OpNumber(op []byte) uint8 {
	const fixed = 1 + 16 + 16
	switch {
	case len(op) == 0:
		return 0
	case op[0] != opIdempotent:
		return op[0]
	case len(op) < fixed:
		return 0
	}
	rest := op[fixed:]
	_, n := binary.Uvarint(rest) // part
	if n <= 0 {
		return 0
	}
	rest = rest[n:]
	note, n := binary.Uvarint(rest)
	if n <= 0 || note >= uint64(len(rest)-n) {
		return 0
	}
	return rest[n+int(note)]
}
