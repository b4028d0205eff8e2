package fsm

import (
	"fmt"
	"testing"
)

func TestEditAndRequeue(t *testing.T) {
	before := Message{
		Kind: []byte("k"), ContentType: []byte("a/b"), Key: []byte("key"), Body: []byte("body"), Priority: 7,
		Headers: []Header{{[]byte("n"), []byte("v")}}, TTLMillis: 90_000, TimeoutMillis: 40_000, TaskID: []byte("t"),
		Retry: RetryPolicy{Kind: RetryFixed, MaxAttempts: 2},
	}
	after := Message{
		Kind: []byte("k2"), ContentType: []byte("c/d"), Key: []byte("key2"), Body: []byte("body2"), Priority: 1,
		Headers: []Header{{[]byte("n2"), []byte("v2")}, {[]byte("m2"), nil}}, TTLMillis: 5000, TimeoutMillis: 300, DelayMillis: 77,
		Retry: RetryPolicy{Kind: RetryFixed, MaxAttempts: 9},
	}
	show := func(in *Info, now int64) map[EditFields]string {
		var headers string
		for _, h := range in.Headers {
			headers += fmt.Sprintf("%s=%s ", h.Name, h.Value)
		}
		due := in.DueAt
		if due != 0 {
			due -= now
		}
		return map[EditFields]string{
			EditBody: string(in.Body), EditHeaders: headers, EditPriority: fmt.Sprint(in.Priority), EditContentType: string(in.ContentType),
			EditKind: string(in.Kind), EditKey: string(in.Key), EditTTL: fmt.Sprint(in.ExpiresAt - now),
			EditRetry: fmt.Sprint(in.MaxAttempts), EditDelay: fmt.Sprint(due, in.State),
		}
	}
	want := map[EditFields][2]string{
		EditBody: {"body", "body2"}, EditHeaders: {"n=v ", "n2=v2 m2= "}, EditPriority: {"7", "1"}, EditContentType: {"a/b", "c/d"},
		EditKind: {"k", "k2"}, EditKey: {"key", "key2"}, EditTTL: {"90000", "5000"}, EditRetry: {"2", "9"},
		EditDelay: {fmt.Sprint(0, StateReady), fmt.Sprint(77, StateScheduled)},
	}
	for _, moved := range []bool{false, true} {
		sets := []EditFields{0, editEnd - 1}
		for e := EditBody; e < editEnd; e <<= 1 {
			sets = append(sets, e)
		}
		for _, set := range sets {
			t.Run(fmt.Sprintf("moved %t fields %#x", moved, set), func(t *testing.T) {
				r := newRig(t)
				queue := "q"
				if moved {
					r, queue = deadRig(t), "d"
				}
				r.put(before)
				r.ok(&Nack{Token: r.lease1(), Permanent: true})
				in, _ := r.task("q", "t")
				r.tick(10)
				m := after
				id := r.ok(&DeadEdit{Queue: []byte(queue), ID: in.ID, Fields: set, Message: m}).ID
				in, _ = r.task("q", "t")
				must(t, "id", in.ID, id)
				must(t, "queue", fmt.Sprint(in.Queue, in.Redrives, in.Attempts), fmt.Sprint("q", 1, 0))
				got := show(&in, r.now)
				for e, w := range want {
					i := 0
					if set&e != 0 {
						i = 1
					}
					must(t, fmt.Sprintf("field %#x", e), got[e], w[i])
				}
				r.tick(77)
				r.leaseOf("q")
				var d Delivery
				r.s.Deliver(r.fx.Leases[0], &d)
				timeout := int64(40_000)
				if set&EditTimeout != 0 {
					timeout = 300
				}
				must(t, "timeout", d.TimeoutMillis, timeout)
				must(t, "redrives", d.Redrives, 1)
				r.everywhere()
			})
		}
	}
}

func TestEditRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		op    DeadEdit
		code  Code
		field Field
	}{
		{"no such queue", DeadEdit{Queue: []byte("none")}, NotFound, FieldQueue},
		{"no such letter", DeadEdit{Queue: []byte("q"), ID: ID{9, 9}}, NotFound, FieldNone},
		{"unknown field", DeadEdit{Queue: []byte("q"), Fields: editEnd}, InvalidArgument, FieldEdit},
		{"task id", DeadEdit{Queue: []byte("q"), Message: Message{TaskID: []byte("t")}}, InvalidArgument, FieldEdit},
		{"dedup key", DeadEdit{Queue: []byte("q"), Message: Message{HasDedup: true}}, InvalidArgument, FieldEdit},
		{"keys", DeadEdit{Queue: []byte("q"), Message: Message{Keys: [][]byte{AppendKVKey(nil, "k")}}}, InvalidArgument, FieldEdit},
		{"priority", DeadEdit{Queue: []byte("q"), Fields: EditPriority, Message: Message{Priority: 10}}, InvalidArgument, FieldPriority},
		{"body", DeadEdit{Queue: []byte("q"), Fields: EditBody, Message: Message{Body: make([]byte, MaxBodyBytes+1)}}, TooLarge, FieldBody},
		{"delay", DeadEdit{Queue: []byte("q"), Fields: EditDelay, Message: Message{DelayMillis: MaxDelayMillis + 1}}, InvalidArgument, FieldDelay},
		{"time", DeadEdit{Queue: []byte("q"), Fields: EditDelay, Message: Message{DueAt: t0 + 2*MaxDelayMillis}}, InvalidArgument, FieldDelay},
		{"kind", DeadEdit{Queue: []byte("q"), Fields: EditKind, Message: Message{Kind: []byte{0xff}}}, InvalidArgument, FieldKind},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			id := r.put(text("x"))
			r.ok(&Nack{Token: r.lease1(), Permanent: true})
			if c.op.ID.IsZero() {
				c.op.ID = id
			}
			before := snapshot(t, r.s)
			r.refused(&c.op, c.code, c.field)
			r.index, r.s.index = r.index-1, r.s.index-1 // of the refused one nothing is left but its index
			must(t, "nothing changed", string(snapshot(t, r.s)), string(before))
		})
	}
}

func TestEditIsRememberedByItsRequest(t *testing.T) {
	r := newRig(t)
	ses := r.ok(&OpenSession{}).ID
	id := r.put(text("x"))
	r.ok(&Nack{Token: r.lease1(), Permanent: true})
	op := &DeadEdit{Request: Request{Session: ses, Number: 1}, Queue: []byte("q"), ID: id, Fields: EditBody, Message: text("y")}
	first := r.ok(op)
	must(t, "again", r.ok(op).ID, first.ID)
	must(t, "once", r.s.Stats(1).Ready, int64(1))
	r.everywhere()
}
