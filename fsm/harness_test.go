package fsm

import (
	"bytes"
	"testing"
)

// rig drives a State entry by entry and checks every invariant after each.
type rig struct {
	t     testing.TB
	s     *State
	fx    Effects
	index uint64
	now   int64
	log   [][]byte // every entry applied, log[i] at index first+i
	quiet bool     // do not check after each entry

	session, batchID ID // of a table's case
	lastNumber       uint64
	limit            int64 // that its refusal names
	token            Token
}

const t0 = 1_700_000_000_000

func newRig(t testing.TB) *rig {
	r := &rig{t: t, s: New(3), now: t0}
	t.Cleanup(func() { r.s.Close() })
	r.apply(&Bootstrap{Cluster: [16]byte{1}, Epoch: 7})
	return r
}

// entry encodes operations at the rig's time.
func (r *rig) entry(shift int64, ops ...Op) []byte {
	b := AppendEntryHeader(nil, r.now, shift)
	for _, op := range ops {
		b = AppendOp(b, op)
	}
	return b
}

// apply applies one entry and returns its outcomes.
func (r *rig) apply(ops ...Op) []Outcome {
	r.t.Helper()
	return r.applyData(r.entry(0, ops...))
}

func (r *rig) applyData(data []byte) []Outcome {
	r.t.Helper()
	r.index++
	if err := r.s.Apply(r.index, data, &r.fx); err != nil {
		r.t.Fatalf("entry %d: %v", r.index, err)
	}
	r.log = append(r.log, data)
	if !r.quiet {
		if err := r.s.Check(); err != nil {
			r.t.Fatalf("after entry %d: %v", r.index, err)
		}
	}
	return append([]Outcome(nil), r.fx.Outcomes...)
}

// one applies one operation with one outcome.
func (r *rig) one(op Op) Outcome {
	r.t.Helper()
	o := r.apply(op)
	if len(o) != 1 {
		r.t.Fatalf("%T has %d outcomes, want 1", op, len(o))
	}
	return o[0]
}

// ok is one, which must succeed.
func (r *rig) ok(op Op) Outcome {
	r.t.Helper()
	o := r.one(op)
	if o.Code != OK {
		r.t.Fatalf("%T: code %d field %d limit %d, want OK", op, o.Code, o.Field, o.Limit)
	}
	return o
}

// refused is one, which must be refused like this.
func (r *rig) refused(op Op, c Code, f Field) Outcome {
	r.t.Helper()
	o := r.one(op)
	if o.Code != c || o.Field != f {
		r.t.Fatalf("%T: code %d field %d, want code %d field %d", op, o.Code, o.Field, c, f)
	}
	return o
}

// tick applies an empty entry so many ms later.
func (r *rig) tick(ms int64) { r.t.Helper(); r.now += ms; r.apply() }

// put enqueues one message in queue q and returns its id.
func (r *rig) put(m Message) ID {
	r.t.Helper()
	return r.ok(&Enqueue{Queue: []byte("q"), AutoCreate: true, Messages: []Message{m}}).ID
}

// text makes a message of a body.
func text(body string) Message { return Message{Body: []byte(body), Priority: DefaultPriority} }

var someone = Consumer{Session: ID{1, 2}, Sub: 3}

// lease leases up to n of queue q for 1 s and returns the tokens.
func (r *rig) lease(n int32) []Token {
	r.t.Helper()
	r.ok(&Lease{Queue: []byte("q"), Consumer: someone, Worker: []byte("w"), Max: n, LeaseMillis: 1000})
	var ts []Token
	for _, l := range r.fx.Leases {
		ts = append(ts, l.Token)
	}
	return ts
}

// lease1 leases exactly one.
func (r *rig) lease1() Token {
	r.t.Helper()
	ts := r.lease(1)
	if len(ts) != 1 {
		r.t.Fatalf("leased %d messages, want 1", len(ts))
	}
	return ts[0]
}

// info is what the state knows of a message.
func (r *rig) info(id ID) Info {
	r.t.Helper()
	var in Info
	if !r.s.Task("", []byte(id.String()), &in) {
		return Info{}
	}
	return in
}

func (r *rig) wantState(id ID, st MessageState) {
	r.t.Helper()
	if got := r.info(id).State; got != st {
		r.t.Fatalf("message %s is in state %d, want %d", id, got, st)
	}
}

func snapshot(t testing.TB, s *State) []byte {
	t.Helper()
	v := s.View()
	defer v.Release()
	var b bytes.Buffer
	n, err := v.WriteTo(&b)
	if err != nil || n != int64(b.Len()) {
		t.Fatalf("snapshot: %d bytes of %d, %v", n, b.Len(), err)
	}
	return b.Bytes()
}

func digest(s *State) [32]byte {
	v := s.View()
	defer v.Release()
	return v.Digest()
}

// restored is the state of a snapshot, which must check and give the same snapshot again.
func restored(t testing.TB, b []byte) *State {
	t.Helper()
	s, err := Restore(3, bytes.NewReader(b))
	if err != nil {
		t.Fatalf("restore: %v", err)
	}
	if err := s.Check(); err != nil {
		t.Fatalf("after restore: %v", err)
	}
	if again := snapshot(t, s); !bytes.Equal(again, b) {
		t.Fatalf("a restored state gives another snapshot: %d bytes, want %d", len(again), len(b))
	}
	return s
}

// everywhere cuts the rig's log at every index, restores there, and applies the rest: each must end in the same state.
func (r *rig) everywhere() {
	r.t.Helper()
	want := digest(r.s)
	a := New(3)
	a.lim = r.s.lim
	defer a.Close()
	for i := range r.log {
		if err := a.Apply(uint64(i+1), r.log[i], nil); err != nil {
			r.t.Fatal(err)
		}
		b := restored(r.t, snapshot(r.t, a))
		b.lim = r.s.lim
		for j := i + 1; j < len(r.log); j++ {
			if err := b.Apply(uint64(j+1), r.log[j], nil); err != nil {
				r.t.Fatal(err)
			}
		}
		if got := digest(b); got != want {
			r.t.Fatalf("restored at %d of %d: digest %x, want %x", i+1, len(r.log), got[:4], want[:4])
		}
		b.Close()
	}
	if got := digest(a); got != want {
		r.t.Fatalf("replayed: digest %x, want %x", got[:4], want[:4])
	}
}

func must[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

func restoredOnly(t testing.TB, b []byte) *State {
	t.Helper()
	s, err := Restore(3, bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return s
}
