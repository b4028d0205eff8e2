package fsmtest

import (
	"bytes"
	"flag"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/fsm"
)

var (
	twinsFlag    = flag.Int("twins", 0, "how many sequences each of the metamorphic tests plays; 0: as many as fit in -twins-for, some at least")
	twinsForFlag = flag.Duration("twins-for", 500*time.Millisecond, "how long each of the metamorphic tests goes on where -twins is 0")
)

// leastTwins are played however long they take.
const leastTwins = 4

// copyEvery is how many entries there are between those after which a state is copied, which takes longer than all else.
const copyEvery = 5

// twins plays sequences of about 200 operations, each a test of its own.
func twins(t *testing.T, play func(t *testing.T, seed uint64)) {
	t.Helper()
	first := *seedFlag
	n := 0
	for until := time.Now().Add(*twinsForFlag); n < *twinsFlag || *twinsFlag == 0 && (n < leastTwins || time.Now().Before(until)); n++ {
		seed := first + uint64(n)
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { play(t, seed) }) {
			t.Logf("repeat with -seed %d -twins 1", seed)
			return
		}
	}
	t.Logf("%d sequences from seed %d on", n, first)
}

// drawLog draws entries of about so many operations. change, if any, may alter an entry before it is in the log.
func drawLog(seed uint64, ops int, change func(e *fsm.Entry)) []Step {
	m := NewModel(groupOf(seed))
	g := NewGenerator(seed, m)
	g.crowd, g.heavy = false, false
	var log []Step
	for n := 0; n < ops; {
		index, e := g.Next()
		if change != nil {
			change(&e)
		}
		n += len(e.Ops)
		g.Saw(e, m.Apply(index, e))
		log = append(log, Step{Index: index, Entry: e})
	}
	return log
}

// player applies entries to a state.
type player struct {
	t   *testing.T
	st  *fsm.State
	fx  fsm.Effects
	buf []byte
}

func newPlayer(t *testing.T, seed uint64) *player {
	p := &player{t: t, st: fsm.New(groupOf(seed))}
	t.Cleanup(func() { p.st.Close() })
	return p
}

func encodeEntry(b []byte, e fsm.Entry) []byte {
	b = fsm.AppendEntryHeader(b, e.Now, e.Shift)
	for _, op := range e.Ops {
		b = fsm.AppendOp(b, op)
	}
	return b
}

func (p *player) apply(index uint64, e fsm.Entry) *fsm.Effects {
	p.t.Helper()
	p.buf = encodeEntry(p.buf[:0], e)
	if err := p.st.Apply(index, p.buf, &p.fx); err != nil {
		p.t.Fatalf("entry %d: %v", index, err)
	}
	return &p.fx
}

// sameDigest wants two states to be one.
func sameDigest(t *testing.T, a, b *fsm.State, what string) {
	t.Helper()
	if x, y := digest(a), digest(b); x != y {
		var one, two bytes.Buffer
		for st, to := range map[*fsm.State]*bytes.Buffer{a: &one, b: &two} {
			v := st.View()
			_, _ = v.WriteTo(to)
			v.Release()
		}
		t.Fatalf("%s: digests %x and %x; snapshots of %d and %d bytes differ first at %d", what, x, y, one.Len(), two.Len(), firstDifference(one.Bytes(), two.Bytes()))
	}
}

// requestOf is the request id of an operation and how many numbers it takes; ok is false where the operation can have none.
func requestOf(op fsm.Op) (r fsm.Request, n int, ok bool) {
	f := reflect.ValueOf(op).Elem().FieldByName("Request")
	if !f.IsValid() {
		return r, 0, false
	}
	r = f.Interface().(fsm.Request)
	switch op := op.(type) {
	case *fsm.Enqueue:
		return r, len(op.Messages), true
	case *fsm.DeadRequeue:
		return r, len(op.IDs), true
	case *fsm.DeadDelete:
		return r, len(op.IDs), true
	}
	return r, 1, true
}

// copies are two states that hold what one holds, without anything that is over and not given back, and the index and T of their last entry.
func (p *player) copies(index uint64, now int64) (a, b *player, next uint64) {
	p.t.Helper()
	var snapshot bytes.Buffer
	v := p.st.View()
	_, err := v.WriteTo(&snapshot)
	v.Release()
	if err != nil {
		p.t.Fatal(err)
	}
	var two [2]*player
	for i := range two {
		st, err := fsm.Restore(p.st.Group(), bytes.NewReader(snapshot.Bytes()))
		if err != nil {
			p.t.Fatal(err)
		}
		two[i] = &player{t: p.t, st: st}
	}
	for some, _ := two[0].st.Untidy(now); some; some, _ = two[0].st.Untidy(now) {
		index++
		for _, c := range two {
			c.apply(index, fsm.Entry{Now: now})
		}
	}
	return two[0], two[1], index + 1
}

// Requests that are sent again with their ids, at the T of the first time, change nothing, be they answered with success or refused: the
// state is that of who gets an empty entry instead. So it is with idempotency keys, and with acks, nacks and releases that succeeded, which need no ids. Not so: what is
// not remembered (a lease that waits and found nothing, what no session had room for), and what never had an id.
func TestTwinRepeatsRequests(t *testing.T) {
	twins(t, func(t *testing.T, seed uint64) {
		p := newPlayer(t, seed)
		repeated := 0
		for n, s := range drawLog(seed, 200, nil) {
			fx := p.apply(s.Index, s.Entry)
			again := fsm.Entry{Now: fx.Time}
			from := int32(0)
			for i, op := range s.Entry.Ops {
				out := fx.Outcomes[from:fx.OpEnd[i]]
				from = fx.OpEnd[i]
				if repeats(p.st, op, out) {
					again.Ops = append(again.Ops, op)
				}
			}
			if fx.More || len(again.Ops) == 0 || n%copyEvery != 0 {
				continue
			}
			repeated++
			a, b, index := p.copies(s.Index, fx.Time)
			a.apply(index, again)
			b.apply(index, fsm.Entry{Now: fx.Time})
			sameDigest(t, a.st, b.st, fmt.Sprintf("entry %d repeated:\n%s", s.Index, Describe([]Step{{Index: index, Entry: again}})))
			a.st.Close()
			b.st.Close()
		}
		if repeated == 0 {
			t.Log("nothing was repeated")
		}
	})
}

// Operations with a token that is not its message's last are refused, and change nothing.
func TestTwinRefusesStaleTokens(t *testing.T) {
	twins(t, func(t *testing.T, seed uint64) {
		p := newPlayer(t, seed)
		last := map[fsm.ID]fsm.Token{} // by message
		var stale []fsm.Token
		for n, s := range drawLog(seed, 200, nil) {
			fx := p.apply(s.Index, s.Entry)
			for _, l := range fx.Leases {
				if was, ok := last[l.Token.Message]; ok && was != l.Token {
					stale = append(stale, was)
				}
				last[l.Token.Message] = l.Token
			}
			if fx.More || len(stale) == 0 || n%copyEvery != 0 {
				continue
			}
			token := stale[n/copyEvery%len(stale)]
			all := fsm.Entry{Now: fx.Time, Ops: []fsm.Op{
				&fsm.Extend{Token: token, LeaseMillis: 1000}, &fsm.Nack{Token: token, DelayMillis: 5}, &fsm.Release{Token: token},
				&fsm.Ack{Token: token, HasResult: true, Result: fsm.Result{Output: []byte("stale")}},
			}}
			a, b, index := p.copies(s.Index, fx.Time)
			for i, o := range a.apply(index, all).Outcomes {
				if o.Code != fsm.LeaseLost && o.Code != fsm.NotFound {
					t.Errorf("entry %d: %s with token %s, which is not the last, is answered %s", s.Index, describe(all.Ops[i]), token, outcomeText(o))
				}
			}
			b.apply(index, fsm.Entry{Now: fx.Time})
			sameDigest(t, a.st, b.st, fmt.Sprintf("behind entry %d:\n%s", s.Index, Describe([]Step{{Index: index, Entry: all}})))
			a.st.Close()
			b.st.Close()
		}
	})
}

// repeats says whether an operation that ended so is answered from memory, or as it was, when it comes again.
func repeats(st *fsm.State, op fsm.Op, out []fsm.Outcome) bool {
	switch op := op.(type) {
	case *fsm.Ack, *fsm.Nack, *fsm.Release:
		return out[0].Code == fsm.OK
	case *fsm.Idempotent:
		_, kept := st.Kept(&op.IdempotencyKey)
		return kept
	}
	r, n, ok := requestOf(op)
	if !ok || r.Session.IsZero() {
		return false
	}
	for i := range uint64(n) {
		if one := (fsm.Request{Session: r.Session, Number: r.Number + i, Low: r.Low}); !st.Remembered(one) {
			return false
		}
	}
	return true
}

// A batch is its messages one by one, in the same entry: enqueues and the bulk operations on dead letters, with their request ids, and leases
// without one, come to the same state when they are split. Not so: entries, since an id says in which one its message was made; a batch
// that is too large, which is refused as a whole; a lease with a request id, which has one outcome; and what comes behind an operation and
// not between two messages of it, as the callback of a batch does, and the deaths of what had to make room.
func TestTwinSplitsBatches(t *testing.T) {
	twins(t, func(t *testing.T, seed uint64) {
		a, b := newPlayer(t, seed), newPlayer(t, seed)
		split := 0
		for _, s := range drawLog(seed, 200, plainBatches) {
			parts := fsm.Entry{Now: s.Entry.Now, Shift: s.Entry.Shift}
			for _, op := range s.Entry.Ops {
				parts.Ops = append(parts.Ops, singles(op)...)
			}
			split += len(parts.Ops) - len(s.Entry.Ops)
			a.apply(s.Index, s.Entry)
			b.apply(s.Index, parts)
			sameDigest(t, a.st, b.st, fmt.Sprintf("entry %d split:\n%s", s.Index, Describe([]Step{s})))
		}
		if split == 0 {
			t.Error("nothing was split")
		}
	})
}

// plainBatches takes out what comes behind an operation whole: members of batches, and queues that push out what is old.
func plainBatches(e *fsm.Entry) {
	for _, op := range e.Ops {
		switch op := bare(op).(type) {
		case *fsm.Enqueue:
			for i := range op.Messages {
				op.Messages[i].Batch = fsm.ID{}
			}
		case *fsm.CreateQueue:
			op.Options.Overflow = fsm.OverflowReject
		case *fsm.SetQueue:
			op.Options.Overflow = fsm.OverflowReject
		case *fsm.ChangeQueue:
			op.Options.Overflow = fsm.OverflowReject
		}
	}
}

// singles are the operations of one message each that an operation stands for, or that operation alone.
func singles(op fsm.Op) (all []fsm.Op) {
	at := func(r fsm.Request, i int) fsm.Request {
		if !r.Session.IsZero() {
			r.Number += uint64(i)
		}
		return r
	}
	switch op := op.(type) {
	case *fsm.Enqueue:
		size := 0
		for i := range op.Messages {
			one := *op
			one.Request, one.Messages = at(op.Request, i), op.Messages[i:i+1]
			all = append(all, &one)
			size += len(op.Messages[i].Body)
		}
		if size > fsm.MaxBatchBytes || len(op.Messages) > fsm.MaxBatch {
			return []fsm.Op{op}
		}
	case *fsm.DeadRequeue:
		for i := range op.IDs { // never more than an operation may name
			all = append(all, &fsm.DeadRequeue{Request: at(op.Request, i), Queue: op.Queue, IDs: op.IDs[i : i+1]})
		}
	case *fsm.DeadDelete:
		for i := range op.IDs {
			all = append(all, &fsm.DeadDelete{Request: at(op.Request, i), Queue: op.Queue, IDs: op.IDs[i : i+1]})
		}
	case *fsm.Lease:
		if !op.Request.Session.IsZero() || op.Max < 1 || op.Max > 50 || op.MaxBytes < 1<<20 {
			return []fsm.Op{op}
		}
		for range op.Max {
			one := *op
			one.Max = 1
			all = append(all, &one)
		}
	}
	if len(all) == 0 {
		return []fsm.Op{op}
	}
	return all
}

// Ids are positions and nothing else: the same log at later indexes has the same answers, with every id that much later. Not so: jitter, which
// is drawn from the id.
func TestTwinRenamesIDs(t *testing.T) {
	const later = 1_000_003
	twins(t, func(t *testing.T, seed uint64) {
		a, b := newPlayer(t, seed), newPlayer(t, seed)
		for _, s := range drawLog(seed, 200, unjittered) {
			want := a.apply(s.Index, s.Entry)
			got := b.apply(s.Index+later, renamed(s.Entry, later))
			if diff := effectsDiff(walk(want, shiftIDs(later)).(*fsm.Effects), got); diff != "" {
				t.Fatalf("entry %d: %s\n%s", s.Index, diff, Describe([]Step{s}))
			}
		}
		sameCounts(t, a.st, b.st)
	})
}

// Names mean nothing: with other queues, task ids, kinds, workers and dedup keys, each as long as it was, the same log has the same
// answers, ids included. Not so: the order of listings; the jitter of a schedule, which is drawn from its name; a task id that is an id,
// which names a message; message keys, whose order is that of the first turns where messages wait already when keys come to take turns.
func TestTwinRenamesNames(t *testing.T) {
	twins(t, func(t *testing.T, seed uint64) {
		a, b := newPlayer(t, seed), newPlayer(t, seed)
		for _, s := range drawLog(seed, 200, unjittered) {
			want := a.apply(s.Index, s.Entry)
			got := b.apply(s.Index, walk(s.Entry, otherNames).(fsm.Entry))
			if diff := effectsDiff(want, got); diff != "" {
				t.Fatalf("entry %d: %s\n%s", s.Index, diff, Describe([]Step{s}))
			}
		}
		sameCounts(t, a.st, b.st)
	})
}

// effectsDiff says where two states' answers to an entry differ, "" where they do not.
func effectsDiff(want, got *fsm.Effects) string {
	for i := range want.Leases {
		want.Leases[i].Slot = 0
	}
	for i := range got.Leases {
		got.Leases[i].Slot = 0
	}
	switch {
	case want.Time != got.Time || want.More != got.More || want.KV != got.KV:
		return fmt.Sprintf("T, more and KV: %d %v %v and %d %v %v", want.Time, want.More, want.KV, got.Time, got.More, got.KV)
	case !slices.Equal(want.OpEnd, got.OpEnd):
		return fmt.Sprintf("ends of operations: %v and %v", want.OpEnd, got.OpEnd)
	}
	for _, err := range []error{
		same("outcomes", want.Outcomes, got.Outcomes), same("leases", want.Leases, got.Leases),
		same("ended leases", sorted(want.Ended), sorted(got.Ended)), same("cancelled leases", sorted(want.Cancelled), sorted(got.Cancelled)),
	} {
		if err != nil {
			return err.Error()
		}
	}
	return ""
}

// sameCounts wants two states to hold as much of everything.
func sameCounts(t *testing.T, a, b *fsm.State) {
	t.Helper()
	counts := func(st *fsm.State) fsm.Memory {
		m := st.Memory()
		m.Garbage, m.ArenaLive, m.ArenaHeld, m.TableBytes, m.SessionBytes = 0, 0, 0, 0, 0 // how, not what
		return m
	}
	if x, y := counts(a), counts(b); x != y {
		t.Errorf("they hold %+v and %+v", x, y)
	}
	for _, st := range []*fsm.State{a, b} {
		if err := st.Check(); err != nil {
			t.Error(err)
		}
	}
}
