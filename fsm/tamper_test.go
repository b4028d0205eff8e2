package fsm

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/quorate/quorate/fsm/table"
)

// slotOf is the slot of some message in a state.
func (r *rig) keyOf(text string) *keyRec {
	r.t.Helper()
	ki, ok := r.s.findKey(r.s.queues[r.slotOfQueue("keys")], []byte(text))
	if !ok {
		r.t.Fatalf("no key %q", text)
	}
	return r.s.keys.Mut(ki)
}

// heldKey is a key of queue keys that its rate holds.
func (r *rig) heldKey() *keyRec {
	r.t.Helper()
	_, ki, ok := r.s.queues[r.slotOfQueue("keys")].held.Min()
	if !ok {
		r.t.Fatal("no key is held")
	}
	return r.s.keys.Mut(ki)
}

// openFlow is the head of the ring of queue keys, which has more than one.
func (r *rig) openFlow() *flow {
	r.t.Helper()
	f := r.s.flows.Mut(r.s.tallies.Get(r.slotOfQueue("keys")).rings[DefaultPriority])
	if r.s.flows.Get(f.next) == f {
		r.t.Fatal("the ring has one flow")
	}
	return f
}

func (r *rig) slotOfQueue(name string) int32 { return r.s.findQueueRead([]byte(name)).slot }

func (r *rig) slotOf(st MessageState) int32 {
	r.t.Helper()
	at := none
	r.s.messages.Each(func(i int32, m *message) bool {
		if m.state == st && r.s.alive(m) {
			at = i
		}
		return at == none
	})
	if at == none {
		r.t.Fatalf("no message in state %d", st)
	}
	return at
}

func (r *rig) sideOf(st MessageState) *side {
	return r.s.sides.Mut(r.s.messages.Get(r.slotOf(st)).side)
}

func firstOf[T any](p *table.Pages[T]) *T {
	at := none
	p.Each(func(i int32, _ *T) bool { at = i; return false })
	return p.Mut(at)
}

// tampered are ways to break a state; want is in what Check says, and where restore is set, in what Restore says of its
// snapshot.
var tampered = []struct {
	name          string
	do            func(r *rig)
	want, restore string
}{
	{"ready count", func(r *rig) { r.s.tallies.Mut(0).ready++ }, "ready, a scan finds", ""},
	{"scheduled count", func(r *rig) { r.s.tallies.Mut(0).scheduled++ }, "scheduled, a scan finds", ""},
	{"bytes", func(r *rig) { r.s.tallies.Mut(0).bytes-- }, "bytes, a scan finds", ""},
	{"group count", func(r *rig) { r.s.groupCount++ }, "messages of the group", ""},
	{"instant of a rate", func(r *rig) { r.s.tallies.Mut(r.slotOfQueue("rated")).tat = 1<<63 - 1 }, "", "instant 9223372036854775807"},
	{"rate out of range", func(r *rig) { r.s.queues[r.slotOfQueue("rated")].meta.options.RateMilli = -1 }, "", "rate -1"},
	{"burst out of range", func(r *rig) { r.s.queues[r.slotOfQueue("rated")].meta.options.Burst = LimitBurst + 1 }, "", "burst 1000001"},
	{"key's ready", func(r *rig) { r.keyOf("a").ready++ }, "a scan finds", ""},
	{"key's out", func(r *rig) { r.keyOf("a").out++ }, "a scan finds", ""},
	{"key's flows", func(r *rig) { r.keyOf("a").records-- }, "a scan finds", ""},
	{"key's offer", func(r *rig) { r.keyOf("c").offer++ }, "offers", ""},
	{"key's state", func(r *rig) { r.keyOf("c").state = keyFull }, "in state 2", ""},
	{"key's debt", func(r *rig) { r.keyOf("a").tat++ }, "among the debts", ""},
	{"key's text", func(r *rig) { r.s.arena.Get(r.keyOf("a").text)[0] = 'z' }, "is not found", ""},
	{"key held until another time", func(r *rig) { r.heldKey().until++ }, "until", "does not fit"},
	{"key that is not held", func(r *rig) { r.keyOf("e").until = r.s.now }, "until", "does not fit"},
	{"key's instant", func(r *rig) { r.keyOf("e").tat = 1<<63 - 1 }, "among the debts", "does not fit"},
	{"keys twice", func(r *rig) { r.keyOf("a").text = r.keyOf("e").text }, "", "key"},
	{"flow's key", func(r *rig) { firstOf(&r.s.flows).key = r.s.flows.Top() + 5 }, "is not its key's", ""},
	{"flow's list", func(r *rig) { r.openFlow().tail = none }, "tail is -1", ""},
	{"flow lost", func(r *rig) { q := r.s.queues[r.slotOfQueue("keys")]; q.flows.head = r.s.flows.Get(q.flows.head).newer }, "", ""},
	{"turn", func(r *rig) { r.openFlow().deficit = LimitFairWeight }, "does not belong into the ring", "messages left"},
	{"turn of another than the head", func(r *rig) { f := r.openFlow(); r.s.flows.Mut(f.next).deficit = 1 }, "does not belong into the ring", "messages left"},
	{"ring without one", func(r *rig) {
		f := *r.openFlow()
		r.s.flows.Mut(f.prev).next, r.s.flows.Mut(f.next).prev = f.next, f.prev
		r.s.tallies.Mut(r.slotOfQueue("keys")).rings[f.priority] = f.next
	}, "stand in rings", "flows are in rings"},
	{"rings' bits", func(r *rig) { r.s.queues[r.slotOfQueue("keys")].rings ^= 1 << 3 }, "says nothing of ring", ""},
	{"parked", func(r *rig) { r.s.queues[r.slotOfQueue("keys")].parked++ }, "parked", ""},
	{"offered", func(r *rig) { r.s.queues[r.slotOfQueue("keys")].offered++ }, "offered", ""},
	{"head's place", func(r *rig) { h := &r.s.queues[r.slotOfQueue("places")].heads; _, fi := h.At(0); h.Fix(0, 5); _ = fi }, "among the heads", ""},
	{"keyed queues", func(r *rig) { r.s.keyedQueues++ }, "queues whose keys matter", ""},
	{"in flight per key out of range", func(r *rig) { r.s.queues[r.slotOfQueue("keys")].meta.options.MaxInFlightPerKey = -1 }, "", "max_in_flight_per_key -1"},
	{"fair by what", func(r *rig) { r.s.queues[r.slotOfQueue("keys")].meta.options.FairBy = 7 }, "", "fair_by 7"},
	{"weights out of order", func(r *rig) { r.s.queues[r.slotOfQueue("keys")].meta.options.FairWeights[1].Key = "a" }, "", "not in order"},
	{"list link", func(r *rig) { r.s.messages.Mut(r.slotOf(StateReady)).prev = 5 }, "has prev 5", ""},
	{"list tail", func(r *rig) { r.s.queues[0].ready[4].tail = none }, "tail is -1", ""},
	{"list ring", func(r *rig) { q := r.s.queues[0]; r.s.messages.Mut(q.ready[4].tail).next = q.ready[4].head }, "in queue \"q\" ready and in", ""},
	{"filled bits", func(r *rig) { r.s.queues[0].filled ^= 1 << 4 }, "filled", ""},
	{"lost message", func(r *rig) { r.s.queues[0].ready[4] = emptyList }, "is linked: false", ""},
	{"state", func(r *rig) { r.s.messages.Mut(r.slotOf(StateScheduled)).state = StateReady }, "does not belong", ""},
	{"no state", func(r *rig) { r.s.messages.Mut(r.slotOf(StateReady)).state = 9 }, "does not belong", "is in state 9"},
	{"priority", func(r *rig) { r.s.messages.Mut(r.slotOf(StateReady)).priority = 12 }, "does not belong", "fields out of range"},
	{"place", func(r *rig) { r.s.messages.Mut(r.slotOf(StateReady)).place = r.s.places + 1 }, "", "fields out of range"},
	{"no place", func(r *rig) { r.s.messages.Mut(r.slotOf(StateReady)).place = 0 }, "does not belong", "not its own"},
	{"flags", func(r *rig) { r.s.messages.Mut(r.slotOf(StateReady)).flags = 16 }, "", "fields out of range"},
	{"holds", func(r *rig) { r.s.messages.Mut(r.slotOf(StateReady)).flags |= flagHolds }, "is in a lane", ""},
	{"bits", func(r *rig) { r.s.messages.Mut(r.slotOf(StateReady)).bits = 0xff }, "damaged blob", "fields out of range"},
	{"enqueued", func(r *rig) { r.s.messages.Mut(r.slotOf(StateReady)).enqueued = -1 }, "", "time -1"},
	{"due", func(r *rig) { r.sideOf(StateScheduled).due++ }, "due: message", ""},
	{"due far", func(r *rig) { r.sideOf(StateScheduled).due = maxInstant + 1 }, "due: message", "time"},
	{"deadline", func(r *rig) { r.sideOf(StateLeased).due++ }, "leases: message", ""},
	{"lease zero", func(r *rig) { r.sideOf(StateLeased).lease = ID{} }, "has worker", "does not fit its state"},
	{"lease twice", func(r *rig) {
		l := r.sideOf(StateLeased).lease
		r.s.sides.Each(func(i int32, sd *side) bool {
			if sd.consumer != none {
				r.s.sides.Mut(i).lease = l
			}
			return true
		})
	}, "out of place", "is there twice"},
	{"lease end", func(r *rig) { r.sideOf(StateLeased).end = endNack }, "", "does not fit its state"},
	{"lease end out of range", func(r *rig) { r.sideOf(StateLeased).end = 99 }, "", "lease out of range"},
	{"free returns", func(r *rig) { r.sideOf(StateLeased).free = 99 }, "", "lease out of range"},
	{"reason", func(r *rig) { r.sideOf(StateDead).reason = ReasonNone }, "dead: message", "does not fit its state"},
	{"failed at", func(r *rig) { r.sideOf(StateDead).due += 1e9 }, "clock", ""},
	{"heap position", func(r *rig) { r.sideOf(StateScheduled).heapPos = none }, "of a heap", ""},
	{"history", func(r *rig) { r.s.arena.Get(r.sideOf(StateRetrying).history)[0] = 200 }, "damaged history", "damaged history"},
	{"history's owner", func(r *rig) { r.s.arena.SetOwner(r.sideOf(StateRetrying).history, 3) }, "belongs to owner", ""},
	{"leaked blob", func(r *rig) { r.s.arena.PutBytes(1, make([]byte, 4000)) }, "arena holds", ""},
	{"side of another", func(r *rig) { r.sideOf(StateLeased).message = r.slotOf(StateReady) }, "do not know each other", ""},
	{"no side", func(r *rig) { r.s.messages.Mut(r.slotOf(StateScheduled)).side = none }, "has no side", "lacks what its state"},
	{"id index", func(r *rig) { i := r.slotOf(StateReady); r.s.byID.Delete(hashID(r.s.messages.Get(i).id), i) }, "not found by its id", ""},
	{"queue names", func(r *rig) { r.s.names[0], r.s.names[1] = r.s.names[1], r.s.names[0] }, "out of order", ""},
	{"queue index", func(r *rig) { r.s.queueByName.Delete(r.s.hashText([]byte("q")), 0) }, "not found by name", ""},
	{"clock position", func(r *rig) { r.s.queues[0].clockPos[clockDue] = 7 }, "which is elsewhere", ""},
	{"consumer count", func(r *rig) { firstOf(&r.s.consumers).count++ }, "a walk finds", ""},
	{"consumer name", func(r *rig) { firstOf(&r.s.consumers).who.Sub++ }, "is not found", ""},
	{"worker count", func(r *rig) { firstOf(&r.s.workers).count++ }, "uses, a scan finds", ""},
	{"dedup count", func(r *rig) { r.s.tallies.Mut(0).dedups++ }, "dedup keys, a scan finds", ""},
	{"dedup key", func(r *rig) { firstOf(&r.s.dedups).key[3]++ }, "dedup key of", ""},
	{"dedup end", func(r *rig) { firstOf(&r.s.dedups).end = -4 }, "", "time -4"},
	{"result bytes", func(r *rig) { r.s.tallies.Mut(1).resultBytes++ }, "results of", ""},
	{"result id", func(r *rig) { firstOf(&r.s.results).id.Lo++ }, "is not found", ""},
	{"result hash", func(r *rig) { firstOf(&r.s.results).task[0]++ }, "another task's hash", "another task's hash"},
	{"result flags", func(r *rig) { firstOf(&r.s.results).flags = 64 }, "flags that do not fit", "flags that do not fit"},
	{"result origin", func(r *rig) { firstOf(&r.s.results).flags = resultOrigin | resultHasTask }, "origin", "origin that is no id"},
	{"result blob", func(r *rig) { r.s.arena.Get(firstOf(&r.s.results).blob)[0] = 0xff }, "damaged blob", "damaged blob"},
	{"result sequence", func(r *rig) { firstOf(&r.s.results).seq = r.s.resultSeq + 1 }, "is past", "result"},
	{"tombstone count", func(r *rig) { r.s.tallies.Mut(0).tombs++ }, "tombstones", ""},
	{"tombstone id", func(r *rig) { firstOf(&r.s.tombs).id.Lo++ }, "tombstone of", ""},
	{"tombstone outcome", func(r *rig) { firstOf(&r.s.tombs).ends |= 8 }, "", "has outcome 9"},
	{"tombstone order", func(r *rig) { firstOf(&r.s.tombs).ends += 1 << 30 }, "", "out of order"},
	{"cancelled, not out", func(r *rig) { r.s.messages.Mut(r.slotOf(StateScheduled)).flags |= flagCancelled }, "is cancelled", "fields out of range"},
	{"lease's end", func(r *rig) { r.sideOf(StateDead).end = endReplaced + 1 }, "", "lease out of range"},
	{"result not listed", func(r *rig) { r.s.queues[firstOf(&r.s.results).queue].order = resultOrder{} }, "lists 0 results", ""},
	{"result listed elsewhere", func(r *rig) { r.s.queues[firstOf(&r.s.results).queue].order.row()[0].slots[0] = 77 }, "not its own", ""},
	{"task total", func(r *rig) { r.s.tallies.Mut(0).cancelled = -1 }, "", "totals of queue"},
	{"tombstones over", func(r *rig) { r.s.lim.tombstones = 0 }, "want at most 0", ""},
	{"session id", func(r *rig) { firstOf(&r.s.sessions).id.Lo++ }, "is not found", ""},
	{"session count", func(r *rig) { firstOf(&r.s.sessions).count += 5000 }, "outcomes", "session"},
	{"outcome below low", func(r *rig) { firstOf(&r.s.sessions).low = 1 << 40 }, "out of place", "out of place"},
	{"outcome order", func(r *rig) { r.s.memos.Mut(firstOf(&r.s.sessions).oldest).number += 500 }, "out of place", "out of place"},
	{"outcome flags", func(r *rig) { firstOf(&r.s.memos).flags = 99 }, "", "out of place"},
	{"idempotency key", func(r *rig) { firstOf(&r.s.idems.keys).key[0]++ }, "is not found", ""},
	{"idempotency key twice", func(r *rig) {
		a := r.s.idems.keys.Get(r.s.idems.all.head)
		r.s.idems.keys.Mut(a.newer).key = a.key
	}, "is not found", "is there twice"},
	{"idempotency key's end", func(r *rig) { firstOf(&r.s.idems.keys).end += 5 * IdempotencyMillis }, "T is", "T is"},
	{"idempotency key's count", func(r *rig) { firstOf(&r.s.idems.keys).count++ }, "a walk finds", ""},
	{"idempotency key without answers", func(r *rig) { firstOf(&r.s.idems.keys).count = 0 }, "a walk finds", "has no answer"},
	{"idempotency key's parts", func(r *rig) { firstOf(&r.s.idems.keys).parts++ }, "a walk finds", ""},
	{"idempotency answer of none", func(r *rig) { firstOf(&r.s.idems.answers).count = 0 }, "stands for no outcome", "stands for no outcome"},
	{"idempotency answer of many", func(r *rig) { firstOf(&r.s.idems.answers).count = idemRun + 1 }, "or too many", "out of range"},
	{"idempotency answer's code", func(r *rig) { firstOf(&r.s.idems.answers).code = TooLarge + 1 }, "do not fit", "do not fit"},
	{"idempotency answer's flags", func(r *rig) { firstOf(&r.s.idems.answers).flags |= idemEnd }, "do not fit", "do not fit"},
	{"idempotency answer's leases", func(r *rig) { firstOf(&r.s.idems.answers).leases = 2 }, "leases that do not fit", "leases that do not fit"},
	{"idempotency note's owner", func(r *rig) { r.s.arena.SetOwner(r.noted().note, 3) }, "belongs to owner", ""},
	{"idempotency note lost", func(r *rig) { r.noted().note = 0 }, "notes of", ""},
	{"idempotency keys over", func(r *rig) { r.s.lim.idemKeys = 1 }, "want at most 1", ""},
	{"session bytes", func(r *rig) { r.s.lim.sessionBytes = 10 }, "want at most 10", ""},
	{"queue total", func(r *rig) { r.s.tallies.Mut(0).acked = -1 }, "", "negative total"},
	{"queue option", func(r *rig) { r.s.queues[0].meta.options.LeaseMillis = 1 }, "", "options that are out of range"},
	{"queue name", func(r *rig) { r.s.queues[0].meta.name = "?" }, "queue", "is not valid or there twice"},
	{"queue number", func(r *rig) { r.s.queueNumbers = 1 }, "", "queue number"},
	{"places", func(r *rig) { r.s.places = 1 << 60 }, "", "counters"},
	{"same task id twice", func(r *rig) {
		a, b := none, none
		r.s.messages.Each(func(i int32, m *message) bool {
			switch {
			case m.queue != 0 || !r.s.alive(m):
			case b == none && m.bits&hasTask != 0:
				b = i
			default:
				a = i
			}
			return true
		})
		r.s.messages.Mut(a).body, r.s.messages.Mut(a).bits = r.s.messages.Get(b).body, r.s.messages.Get(b).bits
	}, "belongs to owner", "same task id"},
	{"time", func(r *rig) { r.s.now = -1 }, "", "snapshot of T -1"},
	{"shift", func(r *rig) { r.s.shift = r.s.now + 1 }, "", "with shift"},
}

// noted is an answer with a note.
func (r *rig) noted() (a *idemAnswer) {
	r.s.idems.answers.Each(func(i int32, at *idemAnswer) bool {
		if at.note != 0 {
			a = r.s.idems.answers.Mut(i)
		}
		return a == nil
	})
	return a
}

// TestTampered breaks a good state in many ways: Check finds each, and where it shows in a snapshot, Restore refuses it.
func TestTampered(t *testing.T) {
	for _, c := range tampered {
		t.Run(c.name, func(t *testing.T) {
			r := goldenRig(t)
			if r.s.tallies.Get(0).tombs < 2 {
				r.ok(&Ack{Token: r.info(r.s.messages.Get(r.slotOf(StateLeased)).id).Token})
				r.tick(1)
				r.put(text("x"))
				r.ok(&Ack{Token: r.lease1()})
			}
			r.quiet = true
			c.do(r)
			err := r.s.Check()
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Fatalf("Check: %v, want something of %q", err, c.want)
			}
			if c.restore == "" {
				return
			}
			v := r.s.View()
			defer v.Release()
			var b bytes.Buffer
			if _, err := v.WriteTo(&b); err != nil {
				t.Fatal(err)
			}
			s, err := Restore(3, &b)
			if err == nil {
				s.Close()
			}
			if !errors.Is(err, ErrFormat) || !strings.Contains(fmt.Sprint(err), c.restore) {
				t.Fatalf("Restore: %v, want something of %q", err, c.restore)
			}
		})
	}
}
