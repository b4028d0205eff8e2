package fsm

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

type badMapping struct {
	name  string
	o     QueueOptions
	field Field
}

// badMappingOptions are schemas and mappings out of range, or beside what they do not go with.
func badMappingOptions() []badMapping {
	to := MapTo{"next", "body"}
	return []badMapping{
		{"Schema too long", QueueOptions{Schema: string(over(MaxSchemaBytes))}, FieldSchema},
		{"Schema not text", QueueOptions{Schema: "\xff"}, FieldSchema},
		{"Map too long", QueueOptions{Map: string(over(MaxExpressionBytes))}, FieldMap},
		{"Map not text", QueueOptions{Map: "a\xff"}, FieldMap},
		{"MapTo.Expression too long", QueueOptions{MapTo: MapTo{"next", string(over(MaxExpressionBytes))}}, FieldMapTo},
		{"MapTo.Expression not text", QueueOptions{MapTo: MapTo{"next", "\xff"}}, FieldMapTo},
		{"MapTo.Expression missing", QueueOptions{MapTo: MapTo{Queue: "next"}}, FieldMapTo},
		{"MapTo.Queue missing", QueueOptions{MapTo: MapTo{Expression: "body"}}, FieldMapTo},
		{"MapTo.Queue no name", QueueOptions{MapTo: MapTo{"a b", "body"}}, FieldMapTo},
		{"MapTo.Queue too long", QueueOptions{MapTo: MapTo{string(over(MaxQueueName)), "body"}}, FieldMapTo},
		{"MapTo beside PushURL", QueueOptions{PushURL: "http://a", MapTo: to}, FieldMapTo},
		{"MapTo beside Delivery at most once", QueueOptions{Delivery: DeliverAtMostOnce, MapTo: to}, FieldMapTo},
	}
}

// mapRig is a rig with queue q that maps to next, and its generation.
func mapRig(t *testing.T) (*rig, uint64) {
	r := newRig(t)
	r.queue(QueueOptions{MapTo: MapTo{"next", "body"}})
	return r, r.generation("q")
}

func (r *rig) generation(queue string) uint64 {
	n, _ := r.s.QueueNumber([]byte(queue))
	return r.s.MappingGeneration(n)
}

func thenNext(body string) []ThenMessage { return []ThenMessage{{[]byte("next"), text(body)}} }

// Options at their limits are taken, kept by a snapshot, and found by those who need them; those beyond are refused.
func TestMappingOptions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	x := func(n int) string { return strings.Repeat("x", n) }
	all := map[string]QueueOptions{
		"most":  {Schema: x(MaxSchemaBytes), Map: x(MaxExpressionBytes), MapTo: MapTo{x(MaxQueueName), x(MaxExpressionBytes)}},
		"typed": {Schema: "true"}, "mapped": {Map: "body"}, "to": {MapTo: MapTo{"plain", "body"}}, "plain": {},
	}
	for name, o := range all {
		r.ok(&CreateQueue{Name: []byte(name), Options: o})
	}
	for _, c := range badMappingOptions() {
		r.refused(&CreateQueue{Name: []byte("bad"), Options: c.o}, InvalidArgument, c.field)
		r.refused(&SetQueue{Name: []byte("plain"), Options: c.o}, InvalidArgument, c.field)
	}
	r.everywhere()
	s := restoredOnly(t, snapshot(t, r.s))
	defer s.Close()
	for _, st := range []*State{r.s, s} {
		for name, want := range all {
			n, _ := st.QueueNumber([]byte(name))
			got := st.QueueOptions(n)
			want.Normalize()
			if !got.Equal(&want) || (st.MappingGeneration(n) != 0) != want.Mapped() || st.MappingGeneration(n) != r.generation(name) {
				t.Errorf("%s: %.100v of generation %d, want %.100v of %d", name, got, st.MappingGeneration(n), want, r.generation(name))
			}
		}
		for _, page := range []int{1, 2, 100} {
			var to, typed []string
			rounds := 0
			for after, more := "", true; more; more = after != "" {
				after = st.EachMapTo(after, page, func(name string, o *QueueOptions, generation uint64) bool {
					to = append(to, fmt.Sprint(name, " ", o.MapTo.Queue[:1], generation == r.generation(name)))
					return true
				})
				if rounds++; rounds > 6 {
					t.Fatalf("pages of %d do not end", page)
				}
			}
			for after, more := "", true; more; more = after != "" {
				after = st.EachSchema(after, page, func(name, schema string) bool {
					typed = append(typed, name+" "+schema[:1])
					return true
				})
			}
			if !slices.Equal(to, []string{"most xtrue", "to ptrue"}) || !slices.Equal(typed, []string{"most x", "typed t"}) {
				t.Errorf("in pages of %d: %q and %q", page, to, typed)
			}
		}
	}
}

// What was evaluated by a mapping ends a lease only while that is the queue's.
func TestMappingGeneration(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change Op
		stale  bool
	}{
		{"nothing", &TouchSession{}, false},
		{"another option", &ChangeQueue{Name: q0, Only: 1 << 21, Options: QueueOptions{MaxDepth: 9}}, false},
		{"all options, the same mapping", &SetQueue{Name: q0, Options: QueueOptions{MapTo: MapTo{"next", "body"}, Schema: "true"}}, false},
		{"another expression", &SetQueue{Name: q0, Options: QueueOptions{MapTo: MapTo{"next", "body.a"}}}, true},
		{"another queue", &SetQueue{Name: q0, Options: QueueOptions{MapTo: MapTo{"other", "body"}}}, true},
		{"another map", &ChangeQueue{Name: q0, Only: 1 << 48, Options: QueueOptions{Map: "body"}}, true},
		{"no mapping", &SetQueue{Name: q0}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, generation := mapRig(t)
			id, dies := r.put(text("a")), r.put(text("b"))
			toks := r.lease(2)
			r.one(c.change)
			ack := &Ack{Token: toks[0], Mapping: generation, Then: thenNext("A"), ThenAutoCreate: true}
			nack := &Nack{Token: toks[1], Mapping: generation, DelayMillis: -1, Error: []byte("map_to: 1:1")}
			if c.stale {
				r.refused(ack, FailedPrecondition, FieldMapping)
				r.refused(nack, FailedPrecondition, FieldMapping)
				if _, there := r.s.QueueNumber([]byte("next")); there || r.info(id).State != StateLeased || r.info(dies).State != StateLeased {
					t.Errorf("the refused ack has done something")
				}
				r.everywhere()
				return
			}
			r.ok(ack)
			must(t, "dead", r.ok(nack).Dead, true)
			r.wantState(id, StateDone)
			r.wantState(dies, StateDead)
			if in := r.info(dies); in.Reason != ReasonMapping || string(in.Error) != "map_to: 1:1" {
				t.Errorf("the dead letter has reason %d and error %q", in.Reason, in.Error)
			}
			// The repeat of what was done is answered as the first time, whatever the mapping has become.
			r.ok(&SetQueue{Name: q0})
			r.ok(ack)
			must(t, "dead again", r.ok(nack).Dead, true)
			if n, _ := r.s.QueueNumber([]byte("next")); r.s.Ready(n) != 1 {
				t.Errorf("%d messages in next, want 1", r.s.Ready(n))
			}
			r.everywhere()
		})
	}
}

// A mapping that was taken away and set again is another: what was evaluated before does not count as evaluated by it.
func TestMappingGenerationNeverReturns(t *testing.T) {
	t.Parallel()
	r, first := mapRig(t)
	r.put(text("a"))
	tok := r.lease1()
	r.ok(&SetQueue{Name: q0})
	must(t, "generation of none", r.generation("q"), 0)
	r.ok(&SetQueue{Name: q0, Options: QueueOptions{MapTo: MapTo{"next", "body"}}})
	if again := r.generation("q"); again <= first {
		t.Errorf("generation %d after %d", again, first)
	}
	r.refused(&Ack{Token: tok, Mapping: first}, FailedPrecondition, FieldMapping)
	r.ok(&DeleteQueue{Name: q0})
	r.queue(QueueOptions{MapTo: MapTo{"next", "body"}})
	r.refused(&Ack{Token: tok, Mapping: r.generation("q")}, NotFound, FieldToken)
	r.everywhere()
}

// What goes on by itself does not come round: every order of setting the last link of a ring is refused, and what is no ring is not.
func TestMapsRound(t *testing.T) {
	t.Parallel()
	to := func(q string) QueueOptions { return QueueOptions{MapTo: MapTo{q, "body"}} }
	dies := func(q string) QueueOptions { return QueueOptions{DeadLetterQueue: q} }
	both := func(q, dead string) QueueOptions {
		return QueueOptions{MapTo: MapTo{q, "body"}, DeadLetterQueue: dead}
	}
	type link struct {
		queue string
		o     QueueOptions
	}
	for _, c := range []struct {
		name  string
		links []link // set in every order that a rotation gives; the last of each closes the ring
		ring  bool
	}{
		{"two", []link{{"a", to("b")}, {"b", to("a")}}, true},
		{"three", []link{{"a", to("b")}, {"b", to("c")}, {"c", to("a")}}, true},
		{"by a death", []link{{"a", dies("d")}, {"d", to("a")}}, true},
		{"by a death further on", []link{{"a", to("b")}, {"b", dies("d")}, {"d", to("a")}}, true},
		{"mapped and dead", []link{{"a", both("b", "d")}, {"d", to("a")}}, true},
		{"a chain", []link{{"a", to("b")}, {"b", to("c")}, {"c", to("d")}}, false},
		{"two ways to one", []link{{"a", both("c", "b")}, {"b", to("c")}}, false},
		{"deaths alone", []link{{"a", dies("b")}, {"b", dies("a")}}, false},
		{"what died dies no further", []link{{"a", to("b")}, {"b", dies("d")}, {"d", dies("a")}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for first := range c.links {
				for _, made := range []bool{false, true} {
					r := newRig(t)
					for i := range c.links {
						l := c.links[(first+i)%len(c.links)]
						var op Op = &CreateQueue{Name: []byte(l.queue), Options: l.o}
						if made {
							r.ok(&CreateQueue{Name: []byte(l.queue)})
							op = &SetQueue{Name: []byte(l.queue), Options: l.o}
						}
						if c.ring && i == len(c.links)-1 {
							r.refused(op, FailedPrecondition, FieldMapTo)
							continue
						}
						r.ok(op)
					}
					r.everywhere()
				}
			}
		})
	}
}

// As many queues lie behind one as may; one more is refused, and an option that adds no link never is.
func TestMapWalk(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	name := func(i int) []byte { return fmt.Appendf(nil, "q%d", i) }
	link := func(i int) *SetQueue {
		return &SetQueue{Name: name(i), Options: QueueOptions{MapTo: MapTo{string(name(i + 1)), "body"}}}
	}
	for i := range MaxMapWalk + 2 {
		r.ok(&CreateQueue{Name: name(i)})
	}
	for i := MaxMapWalk; i >= 1; i-- {
		r.ok(link(i))
	}
	o := r.refused(link(0), FailedPrecondition, FieldMapTo)
	must(t, "limit", o.Limit, MaxMapWalk)
	r.ok(&CreateQueue{Name: name(MaxMapWalk + 2)})
	r.ok(link(MaxMapWalk + 1)) // behind the first one are more than may be now
	paused := link(1)
	paused.Options.Paused = true
	r.ok(paused)
	r.refused(&SetQueue{Name: name(MaxMapWalk + 2), Options: QueueOptions{MapTo: MapTo{"q1", "body"}}}, FailedPrecondition, FieldMapTo)
	restored(t, snapshot(t, r.s)).Close()
}

// The texts of all queues have a maximum; what goes makes room.
func TestMappingBytes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.s.lim.mappingBytes = 10
	schema := func(n int) QueueOptions { return QueueOptions{Schema: strings.Repeat("x", n)} }
	r.ok(&CreateQueue{Name: []byte("a"), Options: schema(6)})
	o := r.refused(&CreateQueue{Name: []byte("b"), Options: schema(5)}, Overloaded, FieldMapping)
	must(t, "limit", o.Limit, 10)
	r.ok(&CreateQueue{Name: []byte("b"), Options: schema(4)})
	r.refused(&SetQueue{Name: []byte("b"), Options: schema(5)}, Overloaded, FieldMapping)
	r.ok(&SetQueue{Name: []byte("a"), Options: schema(5)})
	r.ok(&SetQueue{Name: []byte("b"), Options: schema(5)})
	r.ok(&DeleteQueue{Name: []byte("a")})
	r.ok(&SetQueue{Name: []byte("b"), Options: schema(10)})
	r.s.lim.mappingBytes = 5 // what is there stays, and may be made less
	r.refused(&SetQueue{Name: []byte("b"), Options: schema(11)}, Overloaded, FieldMapping)
	r.ok(&SetQueue{Name: []byte("b"), Options: schema(9)})
}

// Whoever keeps schemas ready is told when they are not what they were.
func TestSchemaChanges(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	last := r.s.SchemaChanges()
	for _, c := range []struct {
		name  string
		op    Op
		rises bool
	}{
		{"a queue without", &CreateQueue{Name: q0}, false},
		{"a mapping", &SetQueue{Name: q0, Options: QueueOptions{Map: "body"}}, false},
		{"a schema", &SetQueue{Name: q0, Options: QueueOptions{Schema: "true"}}, true},
		{"another schema", &SetQueue{Name: q0, Options: QueueOptions{Schema: "false"}}, true},
		{"another option", &CreateQueue{Name: []byte("r"), Options: QueueOptions{MaxDepth: 1}}, false},
		{"no schema", &SetQueue{Name: q0}, true},
		{"a queue with one", &CreateQueue{Name: []byte("s"), Options: QueueOptions{Schema: "true"}}, true},
		{"a refusal", &CreateQueue{Name: []byte("s"), Options: QueueOptions{Schema: "false"}}, false},
		{"its deletion", &DeleteQueue{Name: []byte("s")}, true},
	} {
		r.one(c.op)
		if now := r.s.SchemaChanges(); (now > last) != c.rises || now < last {
			t.Errorf("%s: %d after %d", c.name, now, last)
		}
		last = r.s.SchemaChanges()
	}
}

// A snapshot without mappings is what earlier builds wrote; one with them is refused where what it holds cannot be.
func TestMappingSnapshot(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ok(&CreateQueue{Name: []byte("q")})
	before := snapshot(t, r.s)
	r.ok(&SetQueue{Name: []byte("q"), Options: QueueOptions{Map: "a", MapTo: MapTo{"m", "body"}}})
	r.ok(&SetQueue{Name: []byte("q")})
	if after := snapshot(t, r.s); len(before) != len(after) {
		t.Errorf("%d bytes before and %d after a mapping came and went", len(before), len(after))
	}
	r.ok(&SetQueue{Name: []byte("q"), Options: QueueOptions{Schema: "true", Map: "a", MapTo: MapTo{"m", "body"}}})
	good := snapshot(t, r.s)
	for _, c := range []struct {
		name, want string
		change     func(b []byte) []byte
	}{
		{"to itself", "ring", func(b []byte) []byte { return bytes.Replace(b, []byte("\x01m"), []byte("\x01q"), 1) }},
		{"to no queue name", "no queue name", func(b []byte) []byte { return bytes.Replace(b, []byte("\x01m"), []byte("\x01-"), 1) }},
		{"no text", "schema", func(b []byte) []byte { return bytes.Replace(b, []byte("true"), []byte("tru\xff"), 1) }},
		{"no generation", "generation 0", func(b []byte) []byte { return append(b[:len(b)-1:len(b)-1], 0) }},
		{"a generation to come", "generation 99", func(b []byte) []byte { return append(b[:len(b)-1:len(b)-1], 99) }},
		{"the queue again", "after", func(b []byte) []byte { return append(b, b...) }},
		{"cut off", "record", func(b []byte) []byte { return b[:len(b)-1] }},
	} {
		_, err := Restore(3, bytes.NewReader(rewrite(t, good, sectionMapping, c.change)))
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want ErrFormat with %q", c.name, err, c.want)
		}
	}
}
