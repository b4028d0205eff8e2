package fsmtest

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/quorate/quorate/fsm"
)

// Step is one entry at its index, and whether the state is written, read back and exchanged after it.
type Step struct {
	Index uint64
	Entry fsm.Entry
	Cut   bool
}

// Pair runs the model and the state side by side, and beside them another replica: the state as it is for who was never down,
// while State goes through snapshots.
type Pair struct {
	Model *Model
	State *fsm.State

	group uint16
	fx    fsm.Effects
	other replica
	buf   []byte
	log   []loggedEntry // for Replay; only when KeepLog was asked for
	keep  bool
}

type loggedEntry struct {
	index uint64
	data  []byte
}

// NewPair makes both empty. keepLog makes Replay possible, at the price of holding every entry.
func NewPair(group uint16, keepLog bool) *Pair {
	return &Pair{Model: NewModel(group), State: fsm.New(group), other: replica{state: fsm.New(group)}, group: group, keep: keepLog}
}

// Close gives the states' memory back.
func (p *Pair) Close() {
	p.State.Close()
	p.other.state.Close()
}

// encode makes the log entry.
func (p *Pair) encode(e fsm.Entry) []byte {
	p.buf = fsm.AppendEntryHeader(p.buf[:0], e.Now, e.Shift)
	for _, op := range e.Ops {
		p.buf = fsm.AppendOp(p.buf, op)
	}
	return p.buf
}

// Apply applies an entry to both and compares what they answer.
func (p *Pair) Apply(index uint64, e fsm.Entry) (*fsm.Effects, error) {
	data := p.encode(e)
	if p.keep {
		p.log = append(p.log, loggedEntry{index, bytes.Clone(data)})
	}
	was := p.Model.servable(true)
	want := p.Model.Apply(index, e)
	if err := p.State.Apply(index, data, &p.fx); err != nil {
		return want, fmt.Errorf("state refuses to read the entry: %w", err)
	}
	if err := p.other.apply(index, data, p.State, &p.fx); err != nil {
		return want, fmt.Errorf("replicas differ: %w", err)
	}
	// The state must have copied what it keeps.
	for i := range data {
		data[i] = 0xEE
	}
	return want, errors.Join(p.compareEffects(e, want, &p.fx), p.compareWakes(want, was), p.compareDeliveries(), p.compareTold(want))
}

// compareEffects compares the answers to one entry.
func (p *Pair) compareEffects(e fsm.Entry, want, got *fsm.Effects) error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if want.Index != got.Index || want.Time != got.Time {
		fail("(index, T): want (%d, %d), got (%d, %d)", want.Index, want.Time, got.Index, got.Time)
	}
	if want.More != got.More {
		fail("more due moves: want %v, got %v", want.More, got.More)
	}
	if len(want.OpEnd) != len(got.OpEnd) {
		fail("operations answered: want %d, got %d", len(want.OpEnd), len(got.OpEnd))
		return errors.Join(errs...)
	}
	var from [2]int32
	for i, op := range e.Ops {
		w, g := want.Outcomes[from[0]:want.OpEnd[i]], got.Outcomes[from[1]:got.OpEnd[i]]
		from[0], from[1] = want.OpEnd[i], got.OpEnd[i]
		if len(w) != len(g) {
			fail("op %d %s: want %d outcomes %+v, got %d %+v", i, describe(op), len(w), w, len(g), g)
			continue
		}
		for j := range w {
			if err := p.compareOutcome(int32(i), w[j], g[j], want, got); err != nil {
				fail("op %d outcome %d of %s:\n  %w", i, j, describe(op), err)
			}
		}
	}
	errs = append(errs, compareEnded(want, got))
	return errors.Join(errs...)
}

// compareDeliveries compares what a worker gets for the leases of the entry that still live after it.
func (p *Pair) compareDeliveries() error {
	for _, l := range p.fx.Leases {
		want, live := p.Model.Delivery(l.Token)
		if l.Once {
			want, live = p.Model.Handed(l.Token)
		}
		var got fsm.Delivery
		ok := p.State.Deliver(l, &got)
		if live != ok {
			return fmt.Errorf("delivery of %s: want %v, got %v", l.Token, live, ok)
		}
		if diff := fieldDiff(want, got); live && diff != "" {
			return fmt.Errorf("delivery of %s:%s", l.Token, diff)
		}
	}
	return nil
}

// compareWakes checks that the leader is told of every queue that has something to hand out that it had not, and of every task that has
// come to its end. It may be told of more.
func (p *Pair) compareWakes(want *fsm.Effects, was map[servable]bool) error {
	var errs []error
	told := map[string]int{}
	for _, n := range p.fx.Ready {
		told[p.State.QueueName(n)]++
	}
	for x := range p.Model.servable(false) {
		if !was[x] && told[x.queue] != 1 {
			errs = append(errs, fmt.Errorf("message %s of queue %s can be leased, and the queue was told %d times", shortID(x.id), x.queue, told[x.queue]))
			break
		}
	}
	ended := map[fsm.TaskEnd]bool{}
	for _, e := range p.fx.Tasks {
		e.Queue = 0
		ended[e] = true
	}
	for _, e := range want.Tasks {
		if !ended[e] {
			errs = append(errs, fmt.Errorf("end of task %+v was not told, but %+v", e, p.fx.Tasks))
		}
	}
	return errors.Join(errs...)
}

// compareOutcome compares answers to the operation at a place of the entry, with the leases they stand for.
func (p *Pair) compareOutcome(op int32, w, g fsm.Outcome, want, got *fsm.Effects) error {
	if w.LeaseCount != g.LeaseCount {
		return fmt.Errorf("want %d leases, got %d: want %s, got %s", w.LeaseCount, g.LeaseCount, outcomeText(w), outcomeText(g))
	}
	for i := int32(0); i < w.LeaseCount; i++ {
		a, b := want.Leases[w.LeaseFrom+i], got.Leases[g.LeaseFrom+i]
		b.Slot = 0
		if a != b {
			return fmt.Errorf("lease %d: want %+v, got %+v", i, a, b)
		}
	}
	w.LeaseFrom, g.LeaseFrom = 0, 0
	if w.Replayed != g.Replayed {
		return fmt.Errorf("want replayed %v, got %v: want %s, got %s", w.Replayed, g.Replayed, outcomeText(w), outcomeText(g))
	}
	w.Replayed, g.Replayed = false, false // what may stand instead of an answer may stand instead of its repeat
	if w.Limit == 0 {
		g.Limit = 0 // the model names only the limits of tables
	}
	if w != g && !p.Model.instead[[2]fsm.Outcome{w, g}] && !p.Model.also[alternative{op, w, g}] {
		return fmt.Errorf("want %s\n  got  %s", outcomeText(w), outcomeText(g))
	}
	return nil
}

// compareEnded compares which leases the entry ended, in any order.
func compareEnded(want, got *fsm.Effects) error {
	count := map[fsm.LeaseEnd]int{}
	for _, e := range want.Ended {
		count[e]++
	}
	for _, e := range got.Ended {
		count[e]--
	}
	for e, n := range count {
		if n != 0 {
			return fmt.Errorf("ended leases: %+v told %+d times (want minus got)", e, n)
		}
	}
	return nil
}

// Cut writes a snapshot, reads it back, checks that both hold the same, and goes on with what was read.
func (p *Pair) Cut() error {
	view := p.State.View()
	defer view.Release()
	var first bytes.Buffer
	if _, err := view.WriteTo(&first); err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	restored, err := fsm.Restore(p.group, bytes.NewReader(first.Bytes()))
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	again := restored.View()
	defer again.Release()
	if a, b := view.Digest(), again.Digest(); a != b {
		restored.Close()
		return fmt.Errorf("digest after restore: want %x, got %x", a, b)
	}
	var second bytes.Buffer
	if _, err := again.WriteTo(&second); err != nil {
		restored.Close()
		return fmt.Errorf("write snapshot of the restored state: %w", err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		restored.Close()
		return fmt.Errorf("restored state writes other bytes: %d and %d, first difference at %d",
			first.Len(), second.Len(), firstDifference(first.Bytes(), second.Bytes()))
	}
	p.State.Close()
	p.State = restored
	return nil
}

func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// Replay applies the whole log to a fresh state, which must come out the same.
func (p *Pair) Replay() error {
	fresh := fsm.New(p.group)
	defer fresh.Close()
	for _, e := range p.log {
		if err := fresh.Apply(e.index, e.data, nil); err != nil {
			return fmt.Errorf("replay of entry %d: %w", e.index, err)
		}
	}
	want, got, other := digest(p.State), digest(fresh), digest(p.other.state)
	if want != got || want != other {
		return fmt.Errorf("digest: want %x, got %x after replay and %x by the log alone", want, got, other)
	}
	return nil
}

func digest(s *fsm.State) [32]byte {
	v := s.View()
	defer v.Release()
	return v.Digest()
}

// outcomeText shows only what is set.
func outcomeText(o fsm.Outcome) string {
	s := fmt.Sprintf("{code %d", o.Code)
	add := func(set bool, format string, args ...any) {
		if set {
			s += " " + fmt.Sprintf(format, args...)
		}
	}
	add(o.Field != 0, "field %d", o.Field)
	add(o.Duplicate, "duplicate")
	add(o.Dead, "dead")
	add(!o.ID.IsZero(), "id %s", shortID(o.ID))
	add(o.Millis != 0, "millis %d", o.Millis)
	add(o.Count != 0, "count %d", o.Count)
	add(o.Limit != 0, "limit %d", o.Limit)
	add(o.HasResult, "result of %s", shortID(o.Task))
	add(o.LeaseCount != 0, "leases %d", o.LeaseCount)
	return s + "}"
}

// shortID shows an id by its parts.
func shortID(id fsm.ID) string {
	return fmt.Sprintf("%d/%d/%d/%d", id.Epoch(), id.Group(), id.Index(), id.Offset())
}
