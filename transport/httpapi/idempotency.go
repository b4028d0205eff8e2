package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"strings"

	"github.com/quorate/quorate/wire"
)

const (
	keyHeader      = "Idempotency-Key"
	replayedHeader = "Idempotency-Replayed"
	maxKeyBytes    = 255
	keyDoc         = "1 to 255 visible ASCII bytes of the caller's own: within an hour (log time), a request that is sent again with its key gets the first answer, through any node, and is not " +
		"carried out again. The same key with another request is refused (409). What was refused for now (429, 503) and of which nothing happened may be sent again under its key"
	replayedDoc = "true: nothing was carried out, this is the answer of an earlier request with the same Idempotency-Key"
)

// Idempotency is a caller's key, and what has become of the request so far. The Node gives the key to every operation that the request
// comes to in the log, in their order, and counts.
type Idempotency struct {
	Key   string
	Print [16]byte // of the request that it is for
	Part  uint32   // number of the next operation

	// Note is what a repeat has to know to give the same answer: it is kept with the next operation. Where that turns out to be a repeat,
	// Do puts in its place what was kept the first time.
	Note            []byte
	Replayed, Fresh int // operations that had been carried out before, and others that have an outcome
}

// readKey takes in the caller's key, when the body is there.
func (x *exchange) readKey() *wire.Fault {
	given := x.r.Header.Values(keyHeader)
	if len(given) == 0 {
		return nil
	}
	if !x.route.keyed() {
		return wire.Invalid(keyHeader, "not taken here: %s", x.route.whyNoKey())
	}
	if len(given) > 1 {
		return wire.Invalid(keyHeader, "given %d times: once would be right", len(given))
	}
	key := given[0]
	if n := len(key); n == 0 || n > maxKeyBytes {
		return wire.Invalid(keyHeader, "%d bytes; 1 to %d are right", n, maxKeyBytes)
	}
	if i := strings.IndexFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }); i >= 0 {
		return wire.Invalid(keyHeader, "byte %d is %#02x; visible ASCII alone would be right", i, key[i])
	}
	x.idem = &Idempotency{Key: key, Print: x.print()}
	return nil
}

// print tells requests of one key apart: by all that says what they ask for.
func (x *exchange) print() (p [16]byte) {
	h := sha256.New()
	var n [8]byte
	for _, part := range []string{"quorate/print/1", x.r.Method, x.r.URL.EscapedPath(), x.r.URL.RawQuery, x.r.Header.Get("Content-Type"), x.r.Header.Get("If-None-Match")} {
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		_, _ = h.Write(n[:]) // a hash never fails to write
		_, _ = h.Write([]byte(part))
	}
	_, _ = h.Write(x.body)
	var sum [sha256.Size]byte
	copy(p[:], h.Sum(sum[:0]))
	return p
}

// keyed says whether requests of a route may have a key: those that write into the log.
func (r *route) keyed() bool {
	return !r.stream && !r.unlogged && !r.local && r.writes()
}

// writes says whether requests of a route change anything that outlives them: a poll leases.
func (r *route) writes() bool { return r.method != http.MethodGet || r.path == pollPath }

func (r *route) whyNoKey() string {
	switch {
	case r.stream:
		return "a stream has no answer that could be kept; its leases go back when it ends"
	case r.unlogged:
		return "it is no operation of the log, in which keys are kept; look at GET /v1/cluster before asking again"
	}
	return "nothing is written, so asking again is safe without"
}

// replayed says whether nothing was carried out: every operation that has an outcome had it before.
func (x *exchange) replayed() bool {
	return x.idem != nil && x.idem.Replayed > 0 && x.idem.Fresh == 0
}

// kept says whether the request has been carried out under its key, as far as to its next operation, and what note came with that. It is asked where a request cannot
// be told what it asks for without a look at the state, which is another by then.
func (x *exchange) kept() (note []byte, is bool, f *wire.Fault) {
	if x.idem == nil {
		return nil, false, nil
	}
	ctx, cancel := context.WithTimeout(x.ctx, x.api.cfg.CallTimeout)
	defer cancel()
	return x.api.cfg.Node.Kept(ctx, x.idem)
}

// note gives the next operation a note.
func (x *exchange) note(b []byte) {
	if x.idem != nil {
		x.idem.Note = b
	}
}

// found are dead letters that a filter had found when the request was first carried out.
type found struct {
	ids  []string
	more bool
}

func (d *found) pack() []byte {
	b := make([]byte, 1, 1+len(d.ids)*wire.IDBytes)
	if d.more {
		b[0] = 1
	}
	for _, id := range d.ids {
		b = append(b, id...)
	}
	return b
}

// unpack reads what pack has written. False: something else has.
func (d *found) unpack(b []byte) bool {
	if len(b) == 0 || b[0] > 1 || (len(b)-1)%wire.IDBytes != 0 {
		return false
	}
	d.more, d.ids = b[0] == 1, nil
	for b = b[1:]; len(b) > 0; b = b[wire.IDBytes:] {
		d.ids = append(d.ids, string(b[:wire.IDBytes]))
	}
	return true
}

// findDead looks for up to limit dead letters that pass a filter, or takes those that this request found when it was first carried out. The
// operation on them takes them along in its note; where there are none, that is kept.
func (x *exchange) findDead(filter *DeadFilter, limit int32) (d found, f *wire.Fault) {
	note, kept, f := x.kept()
	switch {
	case f != nil:
		return d, f
	case kept && d.unpack(note):
	case kept:
		return d, unreadable()
	default:
		if d.ids, d.more, f = x.found(filter, limit); f != nil {
			return d, f
		}
	}
	x.note(d.pack())
	if len(d.ids) == 0 {
		f = d.nothing(x)
	}
	return d, f
}

// again has d be what the first request found, where the operation was a repeat after all: of one that was under way. The outcomes are those of
// d's dead letters: none, where the first had found nothing, and its one outcome is of that.
func (d *found) again(x *exchange, out []wire.Outcome) ([]wire.Outcome, *wire.Fault) {
	if !x.replayed() {
		return out, nil
	}
	if d.unpack(x.idem.Note) {
		switch len(d.ids) {
		case len(out):
			return out, nil
		case 0:
			return nil, nil
		}
	}
	return nil, unreadable()
}

func unreadable() *wire.Fault {
	return wire.NewFault(wire.CodeInternal, "what is kept of this request cannot be read")
}

// nothing keeps, under the caller's key, that nothing was found. Where the request was carried out before after all, and had found something, d is
// that, and the operation on it is still to be asked for its outcomes.
func (d *found) nothing(x *exchange) *wire.Fault {
	if x.idem == nil {
		return nil
	}
	before := x.idem.Replayed
	at, f := x.api.cfg.Node.Nothing(x.ctx, x.idem)
	if f != nil {
		return f
	}
	x.stamp(at)
	switch {
	case x.idem.Replayed == before:
	case !d.unpack(x.idem.Note):
		return unreadable()
	case len(d.ids) > 0:
		x.idem.Replayed = before // it is counted with the outcomes
	}
	return nil
}

// noteTask has the note of a requeue be the task id of its dead letter: the message that it becomes may be forgotten when the request comes again, and
// then nobody else would know.
func (x *exchange) noteTask(id string) *wire.Fault {
	if x.idem == nil {
		return nil
	}
	note, kept, f := x.kept()
	if f != nil {
		return f
	}
	if !kept {
		rep, f := call[wire.TaskIs](x, wire.TypeTask, &wire.TaskGet{Task: wire.TaskRef{TaskID: id}})
		switch {
		case f == nil:
			note = []byte(rep.Task.TaskID)
		case !missing(f): // of what is not there nothing comes back either
			return f
		}
	}
	x.note(note)
	return nil
}
