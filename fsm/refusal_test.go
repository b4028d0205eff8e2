package fsm

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
)

// Bad input: every field of every operation out of its range, and fields that contradict one another. Each is refused with the
// code, the field and the limit, and the state is what it would be had the operation not come, but for the counters of refusals
// and, with a request id, what its session remembers.

// world is a state with something of everything, and what operations can name there.
type world struct {
	*rig
	token              Token // live
	dead, batch, sealD ID    // a dead letter; an open and a sealed batch
	session            ID
}

func newWorld(t *testing.T) *world {
	w := &world{rig: newRig(t)}
	w.queue(QueueOptions{LeaseMillis: 60_000})
	w.ok(&CreateQueue{Name: []byte("fifo"), Options: QueueOptions{Ordering: OrderFIFO}})
	w.rig.dead(1)
	w.dead = w.lastDead()
	w.put(keyed("value", "k"))
	w.kill()
	w.done(2, true)
	w.put(tasked("k"))
	w.token = w.lease1()
	m := text("waits")
	m.TaskID = []byte("waits")
	w.put(m)
	w.batch = w.newBatch()
	w.sealD = w.newBatch()
	w.put(memberOf(w.sealD, "member"))
	w.ok(&BatchSeal{Batch: w.sealD})
	w.ok(&CreateSchedule{Schedule: daily("d")})
	w.session = w.ok(&OpenSession{}).ID
	w.ok(&PurgeQueue{Request: Request{Session: w.session, Number: 10, Low: 10}, Name: []byte("fifo")})
	return w
}

// quietDigest is the digest without the counters of refusals.
func quietDigest(s *State) [32]byte {
	for _, slot := range s.names {
		t := s.tallies.Mut(slot)
		t.refused, t.refusedBy = 0, [Refusals]int64{}
	}
	return digest(s)
}

// A bad operation and its refusal.
type bad struct {
	name  string
	op    func(w *world) Op
	code  Code
	field Field
	limit int64
}

func scheduleOp(c Schedule, set bool) Op {
	if set {
		return &SetSchedule{Schedule: c}
	}
	return &CreateSchedule{Schedule: c}
}

func TestBadInputChangesNothing(t *testing.T) {
	w := newWorld(t)
	data := snapshot(t, w.s)
	s, untouched := restoredOnly(t, data), restoredOnly(t, data)
	defer func() { s.Close(); untouched.Close() }()
	index := w.index
	names := map[string]bool{}
	for _, c := range badCases() {
		if names[c.name] {
			t.Errorf("%s: twice", c.name)
		}
		names[c.name] = true
		var fx Effects
		index++
		if err := s.Apply(index, w.entry(0, c.op(w)), &fx); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if err := untouched.Apply(index, w.entry(0), nil); err != nil {
			t.Fatal(err)
		}
		for _, o := range fx.Outcomes {
			if o.Code != c.code || o.Field != c.field || o.Limit != c.limit {
				t.Errorf("%s: code %d field %d limit %d, want code %d field %d limit %d", c.name, o.Code, o.Field, o.Limit, c.code, c.field, c.limit)
				break
			}
		}
		if len(fx.Outcomes) == 0 || len(fx.Tasks)+len(fx.Ended)+len(fx.Leases)+len(fx.Purged)+len(fx.Results) > 0 || fx.KV {
			t.Errorf("%s: effects %+v, want outcomes alone", c.name, fx)
		}
		if quietDigest(s) != quietDigest(untouched) {
			t.Errorf("%s: the refused operation has changed the state", c.name)
			s.Close()
			untouched.Close()
			s, untouched = restoredOnly(t, data), restoredOnly(t, data)
		}
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	everyFieldIsTried(t, names)
}

// anyValue are the fields of operations that no value is bad for, each with why.
var anyValue = map[string]string{
	"Bootstrap.Cluster": "the cluster's own", "Bootstrap.Epoch": "the cluster's own", "Checkpoint.Nonce": "the asker's own",
	"SetSchedule.Schedule": "its fields are tried", "CreateSchedule.Schedule": "its fields are tried",
	"Enqueue.AutoCreate": "yes or no", "Ack.HasResult": "yes or no", "Ack.ThenAutoCreate": "yes or no", "Nack.Permanent": "yes or no",
	"Nack.Error": "cut, never refused", "Reschedule.HasBody": "yes or no", "BatchCreate.AutoCreate": "yes or no",
	"Lease.Consumer": "whose the lease is", "Lease.Waits": "yes or no", "Lease.MaxBytes": "cut to its range: at least one message is handed out",
	"QueueOptions.Paused": "yes or no", "Schedule.Paused": "yes or no", "Schedule.AutoCreate": "yes or no",
	"ChangeQueue.Options":       "its fields are tried",
	"Release.Spent":             "yes or no",
	"Idempotent.IdempotencyKey": "a key and what it is for; TestIdempotentOtherRequest has another request of a key", "Idempotent.Op": "tried by itself",
	"Idempotent.Note":    "bytes; what is too long is no entry",
	"IdempotencyKey.Key": "a hash", "IdempotencyKey.Print": "a hash", "IdempotencyKey.Part": "any number",
	"Message.DedupKey": "a hash", "FireSchedule.Fire": "yes or no", "Message.HasDedup": "yes or no",
}

// everyFieldIsTried fails for a field of an operation, or of what operations carry, that is in the name of no case.
func everyFieldIsTried(t *testing.T, names map[string]bool) {
	t.Helper()
	var all strings.Builder
	for name := range names {
		all.WriteString(name + "\n")
	}
	tried := all.String()
	var walk func(typ reflect.Type)
	seen := map[reflect.Type]bool{ // any id may name something, and TestBadRequestsChangeNothing tries requests
		reflect.TypeFor[ID](): true, reflect.TypeFor[Request](): true, reflect.TypeFor[Consumer](): true,
	}
	walk = func(typ reflect.Type) {
		for typ.Kind() == reflect.Slice || typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || typ.PkgPath() != "github.com/quorate/quorate/fsm" || seen[typ] {
			return
		}
		seen[typ] = true
		for i := range typ.NumField() {
			f := typ.Field(i)
			// A part is named by what holds it: "Enqueue.Messages.TTLMillis" tries Message.TTLMillis.
			name := typ.Name() + "." + f.Name
			part := map[string]string{
				"Message": "Messages.", "Header": "Headers.", "QueueOptions": "Options.", "RetryPolicy": "Retry.", "ThenMessage": "Then.",
			}[typ.Name()]
			if part == "" {
				part = typ.Name() + "."
			}
			if f.Type != reflect.TypeFor[Request]() && anyValue[name] == "" && !strings.Contains(tried, part+f.Name) {
				t.Errorf("no case tries a bad %s", name)
			}
			walk(f.Type)
		}
	}
	walk(reflect.TypeFor[Idempotent]())
	ops := reflect.TypeFor[opScratch]()
	for i := range ops.NumField() {
		f := ops.Field(i).Type
		if f == reflect.TypeFor[scheduleOps]() {
			for j := range f.NumField() {
				walk(f.Field(j).Type)
			}
			continue
		}
		walk(f)
	}
}

// A request that its session does not take is not executed, whatever it asks for.
func TestBadRequestsChangeNothing(t *testing.T) {
	w := newWorld(t)
	data := snapshot(t, w.s)
	for _, c := range []struct {
		name    string
		request Request
		code    Code
		limit   int64
	}{
		{"session unknown", Request{Session: ID{1, 1}, Number: 11, Low: 10}, SessionExpired, 0},
		{"number below low", Request{Session: w.session, Number: 8, Low: 10}, SessionExpired, 0},
		{"number far above low", Request{Session: w.session, Number: 10 + RequestWindow, Low: 10}, InvalidArgument, RequestWindow},
		{"number greatest", Request{Session: w.session, Number: math.MaxUint64, Low: 10}, InvalidArgument, RequestWindow},
	} {
		for _, op := range requested(w) {
			name := fmt.Sprintf("%T, %s", op, c.name)
			var ops []Op
			if c.request.Session == w.session {
				ops = append(ops, &TouchSession{Session: w.session})
			}
			a, b := restoredOnly(t, data), restoredOnly(t, data)
			if err := a.Apply(w.index+1, w.entry(0, ops...), nil); err != nil {
				t.Fatal(err)
			}
			reflect.ValueOf(op).Elem().FieldByName("Request").Set(reflect.ValueOf(c.request))
			var fx Effects
			if err := b.Apply(w.index+1, w.entry(0, op), &fx); err != nil {
				t.Fatal(err)
			}
			for i, o := range fx.Outcomes {
				if i > 0 && c.request.Number == math.MaxUint64 { // the numbers have run out
					must(t, name, o, refuse(SessionExpired, FieldRequest, 0))
					continue
				}
				must(t, name, o, refuse(c.code, FieldRequest, c.limit))
			}
			if quietDigest(a) != quietDigest(b) {
				t.Errorf("%s: has changed the state", name)
			}
			a.Close()
			b.Close()
		}
	}
}

// requested are good operations of all kinds that carry a request.
func requested(w *world) []Op {
	id := []ID{w.dead}
	return []Op{
		&CreateQueue{Name: []byte("new")}, &SetQueue{Name: q0, Options: QueueOptions{MaxDead: 5}}, &DeleteQueue{Name: q0}, &PurgeQueue{Name: q0},
		&ChangeQueue{Name: q0, Only: 1 << 25},
		&Enqueue{Queue: q0, Messages: []Message{text("a"), text("b")}}, &Lease{Queue: q0, Max: 1},
		&PushResult{Queue: q0, TaskID: []byte("new")}, &DeadRequeue{Queue: q0, IDs: id}, &DeadDelete{Queue: q0, IDs: id},
		&DeadPurge{Queue: q0}, &DeadEdit{Queue: q0, ID: w.dead}, &Cancel{Queue: q0, TaskID: []byte("waits")},
		&Reschedule{Queue: q0, TaskID: []byte("waits"), When: AfterDelay, Time: 5}, &KVDelete{Key: kvk("k")},
		&BatchCreate{Queue: q0, Callback: text("x")}, &BatchSeal{Batch: w.batch},
		&CreateSchedule{Schedule: daily("new")}, &SetSchedule{Schedule: daily("new")}, &DeleteSchedule{Name: []byte("d")},
	}
}

// A firing that nobody takes leaves no queue behind that would have been made for it.
func TestRefusedFiringMakesNoQueue(t *testing.T) {
	for name, bound := range map[string]func(s *State){
		"no room in the KV":    func(s *State) { s.lim.kvKeys = 0 },
		"no room in the group": func(s *State) { s.lim.groupMessages = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			c := daily("d")
			c.Message.Keys = [][]byte{kvk("k")}
			r.ok(&CreateSchedule{Schedule: c})
			r.ok(r.step(FireUnplanned, t0+1000, false))
			bound(r.s)
			r.now += 1000
			r.ok(r.step(t0+1000, t0+2000, true))
			must(t, "refused", r.schedule("d").Refused, 1)
			must(t, "queues", r.mem().Queues, 0)
			r.everywhere()
		})
	}
}
