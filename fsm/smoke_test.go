package fsm

import "testing"

func TestLifeOfAMessage(t *testing.T) {
	r := newRig(t)
	id := r.put(text("hello"))
	r.wantState(id, StateReady)
	tok := r.lease1()
	r.wantState(id, StateLeased)
	var d Delivery
	if !r.s.Deliver(r.fx.Leases[0], &d) || string(d.Body) != "hello" || d.Attempt != 1 || string(d.TaskID) != id.String() {
		t.Fatalf("delivery %+v", d)
	}
	r.ok(&Ack{Token: tok, HasResult: true, Result: Result{Output: []byte("done")}})
	r.wantState(id, StateDone)
	var res RecordedResult
	if _, ok := r.s.Result("q", []byte(id.String()), &res); !ok || string(res.Output) != "done" {
		t.Fatalf("result %+v", res)
	}
	r.tick(1000)
	a, b, c := r.put(text("a")), r.put(text("b")), r.put(Message{Body: []byte("c"), Priority: 9, DelayMillis: 100, TaskID: []byte("tc")})
	r.wantState(c, StateScheduled)
	r.tick(100)
	ts := r.lease(10)
	must(t, "leased", len(ts), 3)
	must(t, "first", ts[0].Message, c)
	must(t, "second", ts[1].Message, a)
	must(t, "third", ts[2].Message, b)
	r.ok(&Release{Token: ts[1]})
	o := r.ok(&Nack{Token: ts[0], Error: []byte("oops"), DelayMillis: -1})
	must(t, "due", o.Millis, r.now+1000)
	r.tick(1000)
	r.wantState(b, StateRetrying)
	r.tick(9000)
	ts = r.lease(10)
	must(t, "leased again", len(ts), 3)
	r.ok(&Nack{Token: ts[0], DelayMillis: -1, Permanent: true})
	r.ok(&DeadRequeue{Queue: []byte("q"), IDs: []ID{ts[0].Message}})
	r.everywhere()
}
