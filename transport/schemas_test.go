package transport

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quorate/quorate/wire"
)

const needsA = `{"type":"object","required":["a"],"properties":{"a":{"type":"integer"}}}`

// misfits wants a fault about a body that does not fit the schema of a queue.
func misfits(t *testing.T, what string, f *wire.Fault, field, queue string) {
	t.Helper()
	if f == nil || f.Code != wire.CodeInvalidArgument || f.Field != field || !strings.Contains(f.Message, fmt.Sprintf("it does not fit the schema of queue %q: /", queue)) {
		t.Errorf("%s: %+v, want that %s does not fit the schema of %s", what, f, field, queue)
	}
}

// A body comes into a queue by no door that does not ask the queue's schema.
func TestSchemaAtEveryDoor(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	p, _ := session(t, n.addr)
	var ok wire.OK
	p.ask(wire.TypeQueueCreate, &wire.QueueWrite{Queue: "typed", Options: wire.QueueOptions{Schema: needsA,
		Retry: &wire.RetryPolicy{Kind: wire.RetryFixed, InitialMillis: 1, MaxAttempts: 1}}}, wire.TypeOK, &ok)
	good, bad := wire.Message{Body: wire.Bytes(`{"a":1}`)}, wire.Message{Body: wire.Bytes(`{"a":"x"}`)}

	var rep wire.Enqueued
	p.ask(wire.TypeEnqueue, &wire.Enqueue{Queue: "typed", Messages: []wire.Message{good, bad, good, {Body: wire.Bytes("no JSON")}}}, wire.TypeEnqueued, &rep)
	if rep.Outcomes[0].Fault != nil || rep.Outcomes[2].Fault != nil || rep.Outcomes[3].Fault == nil {
		t.Errorf("a batch of four: %+v", rep.Outcomes)
	}
	misfits(t, "the second of a batch", rep.Outcomes[1].Fault, "body", "typed")

	d := p.pull("typed")
	f := p.refused(wire.TypeAck, &wire.Ack{Token: d.Token, Then: []wire.Then{{Queue: "any", Message: bad}, {Queue: "typed", Message: bad}}}, wire.CodeInvalidArgument)
	misfits(t, "then", f, "then[1].message.body", "typed")
	var acked wire.Acked
	p.ask(wire.TypeAck, &wire.Ack{Token: d.Token, Then: []wire.Then{{Queue: "any", Message: bad}, {Queue: "typed", Message: good}}}, wire.TypeAcked, &acked)

	schedule := wire.Schedule{Name: "s", Queue: "typed", Cron: "0 3 * * *", Message: bad}
	misfits(t, "a schedule", p.refused(wire.TypeScheduleCreate, &wire.ScheduleWrite{Schedule: schedule}, wire.CodeInvalidArgument), "message.body", "typed")
	schedule.Message = good
	p.ask(wire.TypeScheduleCreate, &wire.ScheduleWrite{Schedule: schedule}, wire.TypeOK, &ok)
	schedule.Message = bad
	misfits(t, "a schedule set", p.refused(wire.TypeScheduleSet, &wire.ScheduleWrite{Schedule: schedule}, wire.CodeInvalidArgument), "message.body", "typed")

	misfits(t, "a callback", p.refused(wire.TypeBatchCreate, &wire.BatchCreate{Queue: "typed", Callback: bad}, wire.CodeInvalidArgument), "callback.body", "typed")
	var made wire.BatchCreated
	p.ask(wire.TypeBatchCreate, &wire.BatchCreate{Queue: "typed", Callback: good}, wire.TypeBatchCreated, &made)

	named := good
	named.TaskID, named.DelayMillis = "t-1", 60_000
	id := p.enqueue("typed", named)
	for _, task := range []wire.TaskRef{{Queue: "typed", TaskID: "t-1"}, {TaskID: id}} {
		f := p.refused(wire.TypeTaskReschedule, &wire.TaskReschedule{Task: task, Replace: &wire.Replacement{Body: bad.Body}}, wire.CodeInvalidArgument)
		misfits(t, "a replacement", f, "replace.body", "typed")
	}
	var scheduled wire.TaskScheduled
	p.ask(wire.TypeTaskReschedule, &wire.TaskReschedule{Task: wire.TaskRef{Queue: "typed", TaskID: "t-1"}, Replace: &wire.Replacement{Body: wire.Bytes(`{"a":2}`)}}, wire.TypeTaskScheduled, &scheduled)

	d = p.pull("typed")
	var nacked wire.Nacked
	p.ask(wire.TypeNack, &wire.Nack{Token: d.Token, Permanent: true}, wire.TypeNacked, &nacked)
	edit := &wire.DeadEdit{Queue: "typed", ID: d.ID, Fields: []string{wire.EditBody}, Set: bad}
	misfits(t, "a dead letter's new body", p.refused(wire.TypeDeadEdit, edit, wire.CodeInvalidArgument), "set.body", "typed")
	edit.Set = good
	p.ask(wire.TypeDeadEdit, edit, wire.TypeEnqueued, &rep)

	b := browse(t, n.addr)
	b.refused("POST", "/v1/queues/typed/messages", `{"body":{"a":"x"}}`, wire.CodeInvalidArgument, "schema", "/a: ")
	b.refused("POST", "/queue/enqueue?queue=typed", `{"value":{"b":1}}`, wire.CodeInvalidArgument, "schema")
	b.ok("POST", "/v1/queues/typed/messages", `{"body":{"a":1}}`, nil)
	b.ok("POST", "/queue/enqueue?queue=typed", `{"value":{"a":1}}`, nil)
	b.ok("POST", "/v1/queues/any/messages", `{"body":{"a":"x"}}`, nil)
}

// A moved dead letter's new body is judged by the queue that it goes back to.
func TestSchemaOfTheOrigin(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	p, _ := session(t, n.addr)
	var ok wire.OK
	p.ask(wire.TypeQueueCreate, &wire.QueueWrite{Queue: "morgue", Options: wire.QueueOptions{Schema: `false`}}, wire.TypeOK, &ok)
	p.ask(wire.TypeQueueCreate, &wire.QueueWrite{Queue: "typed", Options: wire.QueueOptions{Schema: needsA, DeadLetterQueue: "morgue"}}, wire.TypeOK, &ok)
	p.enqueue("typed", wire.Message{Body: wire.Bytes(`{"a":1}`)})
	d := p.pull("typed")
	var nacked wire.Nacked
	p.ask(wire.TypeNack, &wire.Nack{Token: d.Token, Permanent: true}, wire.TypeNacked, &nacked)
	edit := &wire.DeadEdit{Queue: "morgue", ID: d.ID, Fields: []string{wire.EditBody}, Set: wire.Message{Body: wire.Bytes(`{}`)}}
	misfits(t, "its new body", p.refused(wire.TypeDeadEdit, edit, wire.CodeInvalidArgument), "set.body", "typed")
	edit.Set.Body = wire.Bytes(`{"a":2}`)
	var rep wire.Enqueued
	p.ask(wire.TypeDeadEdit, edit, wire.TypeEnqueued, &rep)
	if f := rep.Outcomes[0].Fault; f != nil {
		t.Error(f)
	}
}

// A schema counts from the answer on that sets it, and no longer than until it is taken away; what is in stays in.
func TestSchemaChanges(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	p, _ := session(t, n.addr)
	var ok wire.OK
	set := func(schema string) {
		p.ask(wire.TypeQueueSet, &wire.QueueWrite{Queue: "q", Options: wire.QueueOptions{Schema: schema}, Only: []string{"schema"}}, wire.TypeOK, &ok)
	}
	p.ask(wire.TypeQueueCreate, &wire.QueueWrite{Queue: "q"}, wire.TypeOK, &ok)
	for _, step := range []struct {
		schema string
		fits   bool
	}{{"", true}, {needsA, false}, {`{"required":["b"]}`, true}, {`false`, false}, {"", true}} {
		set(step.schema)
		var rep wire.Enqueued
		p.ask(wire.TypeEnqueue, one(`{"b":1}`), wire.TypeEnqueued, &rep)
		if fits := rep.Outcomes[0].Fault == nil; fits != step.fits {
			t.Errorf("schema %s: %+v", step.schema, rep.Outcomes[0].Fault)
		}
	}
	var is wire.QueueIs
	p.ask(wire.TypeQueueShow, &wire.QueueRef{Queue: "q"}, wire.TypeQueueIs, &is)
	if is.Queue.Pending != 3 {
		t.Errorf("%d messages, want 3", is.Queue.Pending)
	}
	p.ask(wire.TypeQueueDelete, &wire.QueueRef{Queue: "q"}, wire.TypeOK, &ok)
}

// What is no schema and no expression is refused where it is set, with the place.
func TestMappingOptions(t *testing.T) {
	n := stations(t, 1, Config{MappingState: func(queue string) string { return "the mapping of " + queue }})[0]
	p, _ := session(t, n.addr)
	for _, c := range []struct {
		name, field, want string
		o                 wire.QueueOptions
	}{
		{"no JSON", "schema", "the schema is no JSON", wire.QueueOptions{Schema: "{"}},
		{"another file", "schema", "outside the schema", wire.QueueOptions{Schema: `{"$ref":"file:///a"}`}},
		{"no expression", "map", "1:", wire.QueueOptions{Map: "body +"}},
		{"an unknown name", "map_to", "2:1: ", wire.QueueOptions{MapTo: &wire.MapTo{Queue: "next", Expression: "body ==\nnobody"}}},
		{"its own queue", "map_to", "names itself", wire.QueueOptions{MapTo: &wire.MapTo{Queue: "q", Expression: "body"}}},
	} {
		for _, typ := range []wire.Type{wire.TypeQueueCreate, wire.TypeQueueSet} {
			f := p.refused(typ, &wire.QueueWrite{Queue: "q", Options: c.o}, wire.CodeInvalidArgument)
			if f.Field != c.field || !strings.Contains(f.Message, c.want) {
				t.Errorf("%s: %+v, want %q of %s", c.name, f, c.want, c.field)
			}
		}
	}
	var ok wire.OK
	p.ask(wire.TypeQueueCreate, &wire.QueueWrite{Queue: "a", Options: wire.QueueOptions{MapTo: &wire.MapTo{Queue: "b", Expression: "body"}, Map: "body.a", Schema: "true"}}, wire.TypeOK, &ok)
	f := p.refused(wire.TypeQueueCreate, &wire.QueueWrite{Queue: "b", Options: wire.QueueOptions{MapTo: &wire.MapTo{Queue: "a", Expression: "body"}}}, wire.CodeFailedPrecondition)
	if f.Field != "map_to" || !strings.Contains(f.Message, "would come back") {
		t.Errorf("a ring: %+v", f)
	}
	var is wire.QueueIs
	p.ask(wire.TypeQueueShow, &wire.QueueRef{Queue: "a"}, wire.TypeQueueIs, &is)
	if o := is.Queue.Options; o.MapTo == nil || *o.MapTo != (wire.MapTo{Queue: "b", Expression: "body"}) || o.Map != "body.a" || o.Schema != "true" || is.Queue.Mapping != "the mapping of a" {
		t.Errorf("shown %+v, %q", o, is.Queue.Mapping)
	}
}

// An ack that speaks of a mapping is taken while the queue has that, and only then; over HTTP and WebSocket the options are the same.
func TestAckOfMapping(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	p, _ := session(t, n.addr)
	b := browse(t, n.addr)
	b.ok("PUT", "/v1/queues/from", `{"map_to":{"queue":"to","expression":"body"},"retry":{"kind":"fixed","max_attempts":3}}`, nil)
	p.enqueue("from", wire.Message{Body: wire.Bytes("1")})
	d := p.pull("from")
	f := p.refused(wire.TypeAck, &wire.Ack{Token: d.Token, Mapping: 1}, wire.CodeFailedPrecondition)
	if f.Field != "mapping" || !strings.Contains(f.Message, "another mapping") {
		t.Errorf("%+v", f)
	}
	f = p.refused(wire.TypeNack, &wire.Nack{Token: d.Token, Mapping: 1}, wire.CodeFailedPrecondition)
	if f.Field != "mapping" {
		t.Errorf("%+v", f)
	}
	var acked wire.Acked
	p.ask(wire.TypeAck, &wire.Ack{Token: d.Token}, wire.TypeAcked, &acked)
	var q struct {
		Options struct {
			MapTo map[string]string `json:"map_to"`
		}
	}
	b.ok("GET", "/v1/queues/from", "", &q)
	if q.Options.MapTo["queue"] != "to" || q.Options.MapTo["expression"] != "body" {
		t.Errorf("over HTTP: %+v", q)
	}
	b.ok("PATCH", "/v1/queues/from", `{"map_to":null}`, nil)
	var is wire.QueueIs
	p.ask(wire.TypeQueueShow, &wire.QueueRef{Queue: "from"}, wire.TypeQueueIs, &is)
	if is.Queue.Options.MapTo != nil {
		t.Errorf("taken away, it is %+v", is.Queue.Options.MapTo)
	}
}

// At any node a body is judged by what the leader knows.
func TestSchemaAtFollowers(t *testing.T) {
	all := stations(t, 3, Config{})
	for i, s := range all {
		b := browse(t, s.addr)
		b.steady = true
		if i == 0 {
			b.ok("PUT", "/v1/queues/typed", fmt.Sprintf(`{"schema":%q}`, needsA), nil)
		}
		b.refused("POST", "/v1/queues/typed/messages", `{"body":{"a":"x"}}`, wire.CodeInvalidArgument, "schema")
		b.ok("POST", "/v1/queues/typed/messages", `{"body":{"a":1}}`, nil)
	}
}
