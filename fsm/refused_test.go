package fsm

import (
	"bytes"
	"fmt"
	"testing"
)

// TestRefusalsAreCounted refuses a message for each reason there is: the queue counts it once, under that kind alone, and a node that
// was restored counts alike.
func TestRefusalsAreCounted(t *testing.T) {
	name := []byte("q")
	task := text("x")
	task.TaskID = []byte("t")
	dedup := text("x")
	dedup.HasDedup, dedup.DedupKey, dedup.DedupContent = true, [16]byte{1}, [16]byte{2}
	otherContent := dedup
	otherContent.DedupContent = [16]byte{3}
	otherKey := dedup
	otherKey.DedupKey = [16]byte{4}
	keyed := withKey("x", "k")
	kv := text("x")
	kv.Keys = [][]byte{kvk("k")}
	one := func(m Message) *Enqueue { return &Enqueue{Queue: name, Messages: []Message{m}} }
	cases := []struct {
		kind   Refusal
		o      QueueOptions
		before func(r *rig)
		op     Op
		code   Code
		field  Field
	}{
		{RefusedInvalid, QueueOptions{Ordering: OrderFIFO}, nil, one(prio("x", 9)), InvalidArgument, FieldPriority},
		{RefusedInvalid, QueueOptions{}, nil, one(Message{Kind: make([]byte, MaxKind+1)}), InvalidArgument, FieldKind},
		{RefusedTooLarge, QueueOptions{MaxBytes: 2}, nil, one(text("xyz")), TooLarge, FieldBytes},
		{RefusedTooLarge, QueueOptions{}, nil, one(Message{Body: make([]byte, MaxBodyBytes+1)}), TooLarge, FieldBody},
		{RefusedTaskID, QueueOptions{}, func(r *rig) { r.put(task) }, one(task), AlreadyExists, FieldTaskID},
		{RefusedDedupKey, QueueOptions{}, func(r *rig) { r.put(dedup) }, one(otherContent), AlreadyExists, FieldDedupKey},
		{RefusedDepth, QueueOptions{MaxDepth: 1}, func(r *rig) { r.put(text("x")) }, one(text("x")), QueueFull, FieldDepth},
		{RefusedBytes, QueueOptions{MaxBytes: 1}, func(r *rig) { r.put(text("x")) }, one(text("x")), QueueFull, FieldBytes},
		{RefusedTasks, QueueOptions{}, func(r *rig) { r.s.lim.queueMessages = 1; r.put(text("x")) }, one(text("x")), QueueFull, FieldTasks},
		{RefusedDead, QueueOptions{MaxDead: 1}, func(r *rig) { r.put(text("x")); r.ok(&Nack{Token: r.lease1(), Permanent: true}) }, one(text("x")), QueueFull, FieldDead},
		{RefusedResults, QueueOptions{MaxResultsBytes: 1}, func(r *rig) {
			r.put(text("x"))
			r.ok(&Ack{Token: r.lease1(), HasResult: true, Result: Result{Output: []byte("out")}})
		}, one(text("x")), QueueFull, FieldResults},
		{RefusedDedup, QueueOptions{DedupMaxKeys: 1}, func(r *rig) { r.put(dedup) }, one(otherKey), QueueFull, FieldDedup},
		{RefusedKeyDebts, QueueOptions{RatePerKeyMilli: 1000}, func(r *rig) {
			r.s.lim.keyDebts = 1
			r.put(keyed)
			r.ok(&Ack{Token: r.lease1()})
		}, one(withKey("x", "other")), QueueFull, FieldRatePerKey},
		{RefusedKV, QueueOptions{}, func(r *rig) { r.s.lim.kvKeys = 0 }, one(kv), QueueFull, FieldKV},
		{RefusedBatch, QueueOptions{}, nil, one(memberOf(ID{1, 2}, "x")), NotFound, FieldBatchID},
		{RefusedGroup, QueueOptions{}, func(r *rig) { r.s.lim.groupMessages = 0 }, one(text("x")), Overloaded, FieldTasks},
	}
	seen := map[Refusal]bool{}
	for _, c := range cases {
		seen[c.kind] = true
		t.Run(fmt.Sprintf("kind %d, code %d field %d", c.kind, c.code, c.field), func(t *testing.T) {
			r := limited(t, c.o)
			if c.before != nil {
				c.before(r)
			}
			must(t, "refused before", r.stats().Refused, 0)
			r.refused(c.op, c.code, c.field)
			r.refused(c.op, c.code, c.field)
			want := [Refusals]int64{}
			want[c.kind] = 2
			must(t, "by kind", fmt.Sprint(r.stats().RefusedBy), fmt.Sprint(want))
			must(t, "in all", r.stats().Refused, 2)
			b := restored(t, snapshot(t, r.s))
			defer b.Close()
			n, _ := b.QueueNumber(name)
			must(t, "restored", fmt.Sprint(b.Stats(n).RefusedBy), fmt.Sprint(want))
			r.everywhere()
		})
	}
	for k := range refusalEnd {
		if !seen[k] && k != RefusedOther {
			t.Errorf("kind %d is not provoked here", k)
		}
	}
	// What has no kind of its own is counted as other, not lost.
	if k := refusalOf(&Outcome{Code: 99}); k != RefusedOther {
		t.Errorf("an unknown code is of kind %d", k)
	}
}

// TestRefusalsOfASnapshot restores no snapshot whose kinds do not add up to what was refused in all.
func TestRefusalsOfASnapshot(t *testing.T) {
	for name, lie := range map[string]func(q *tally){
		"one more of a kind":  func(q *tally) { q.refusedBy[RefusedDepth]++ },
		"one more in all":     func(q *tally) { q.refused++ },
		"less than none":      func(q *tally) { q.refusedBy[RefusedDepth], q.refusedBy[RefusedBytes] = -1, q.refused+1 },
		"none of what it was": func(q *tally) { clear(q.refusedBy[:]) },
	} {
		t.Run(name, func(t *testing.T) {
			r := limited(t, QueueOptions{MaxDepth: 1})
			r.put(text("x"))
			r.refused(&Enqueue{Queue: []byte("q"), Messages: []Message{text("x")}}, QueueFull, FieldDepth)
			q := r.s.findQueue([]byte("q"))
			lie(r.s.tallies.Mut(q.slot))
			if err := r.s.Check(); err == nil {
				t.Error("Check finds nothing")
			}
			if _, err := Restore(3, bytes.NewReader(snapshot(t, r.s))); err == nil {
				t.Error("it was restored")
			}
		})
	}
}
