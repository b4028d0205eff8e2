package fsm

import (
	"cmp"
	"fmt"
	"reflect"
	"testing"
)

// TestAckRepeated repeats every kind of ack that succeeds: the same token with the same result gets the same success (G5), and
// the two ids under which a task's result may lie change nothing of that.
func TestAckRepeated(t *testing.T) {
	push := func(task string) Op {
		return &PushResult{Queue: []byte("q"), TaskID: []byte(task), Result: Result{Output: []byte("pushed")}}
	}
	for _, c := range []struct {
		name  string
		token func(r *rig) Token
	}{
		{"live", func(r *rig) Token { r.put(Message{TaskID: []byte("t")}); return r.lease1() }},
		{"pushed while it is out", func(r *rig) Token {
			r.put(Message{TaskID: []byte("t")})
			tok := r.lease1()
			r.ok(push("t"))
			return tok
		}},
		{"redriven, pushed while it was dead", func(r *rig) Token {
			_, id, _ := r.bury(Message{TaskID: []byte("t")})
			r.ok(push("t"))
			r.ok(&DeadRequeue{Queue: []byte("d"), IDs: []ID{id}})
			return r.lease1()
		}},
		{"redriven without a task id, pushed under the first id", func(r *rig) Token {
			old, id, _ := r.bury(Message{})
			r.ok(push(old.String()))
			r.ok(&DeadRequeue{Queue: []byte("d"), IDs: []ID{id}})
			return r.lease1()
		}},
		{"redriven, pushed while it was out before", func(r *rig) Token {
			r.put(Message{TaskID: []byte("t")})
			tok := r.lease1()
			r.ok(push("t"))
			r.ok(&Nack{Token: tok, Permanent: true})
			r.ok(&DeadRequeue{Queue: []byte("d"), IDs: []ID{tok.Message}})
			return r.lease1()
		}},
		{"redriven where it died, without a task id, pushed while it was dead", func(r *rig) Token {
			tok := r.stays(Message{})
			r.ok(push(tok.Message.String()))
			r.ok(&DeadRequeue{Queue: []byte("q"), IDs: []ID{tok.Message}})
			return r.lease1()
		}},
		{"redriven where it died, without a task id, pushed while it was out before", func(r *rig) Token {
			r.ok(&SetQueue{Name: []byte("q")}) // it stays
			r.put(Message{})
			tok := r.lease1()
			r.ok(push(tok.Message.String()))
			r.ok(&Nack{Token: tok, Permanent: true})
			r.ok(&DeadRequeue{Queue: []byte("q"), IDs: []ID{tok.Message}})
			return r.lease1()
		}},
		{"redriven twice where it died, without a task id, pushed before", func(r *rig) Token {
			tok := r.stays(Message{})
			r.ok(push(tok.Message.String()))
			for range 2 {
				r.ok(&DeadRequeue{Queue: []byte("q"), IDs: []ID{tok.Message}})
				if tok = r.lease1(); r.s.Stats(numQ).Redriven == 1 {
					r.ok(&Nack{Token: tok, Permanent: true})
				}
			}
			return tok
		}},
		{"moved", func(r *rig) Token { r.bury(Message{TaskID: []byte("t")}); return r.leaseOf("d") }},
		{"moved, pushed before it was out there", func(r *rig) Token {
			r.bury(Message{TaskID: []byte("t")})
			r.ok(push("t"))
			return r.leaseOf("d")
		}},
		{"moved, pushed while it is out there", func(r *rig) Token {
			r.bury(Message{TaskID: []byte("t")})
			tok := r.leaseOf("d")
			r.ok(push("t"))
			return tok
		}},
	} {
		for _, with := range []bool{true, false} {
			name := c.name + ", without a result"
			if with {
				name = c.name + ", with a result"
			}
			t.Run(name, func(t *testing.T) {
				r := deadRig(t)
				ack := &Ack{Token: c.token(r), HasResult: with, Result: Result{Output: []byte("acked")}}
				again := r.ok(ack)
				if !again.Duplicate {
					again.Millis = -1
				}
				must(t, "the repeat", r.one(ack), again)
				r.tick(10)
				must(t, "the repeat later", r.one(ack), again)
				r.everywhere()
				must(t, "the repeat after a restore", r.one(ack), again)
				r.tick(DefaultResultTTL + TombstoneMillis)
				must(t, "results left", r.s.Memory().Results, 0)
				r.everywhere()
			})
		}
	}
}

// stays enqueues a message in q, which names no dead-letter queue any more, and lets it die at once.
func (r *rig) stays(m Message) Token {
	r.t.Helper()
	r.ok(&SetQueue{Name: []byte("q")})
	r.put(m)
	tok := r.lease1()
	r.ok(&Nack{Token: tok, Permanent: true})
	return tok
}

// TestPushedAttempts is that a result pushed for a dead letter tells of the attempts of its task, not of how often the letter
// went out where it was moved to.
func TestPushedAttempts(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(r *rig)
	}{
		{"never out there", func(*rig) {}},
		{"out there", func(r *rig) { r.leaseOf("d") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := deadRig(t)
			r.put(Message{TaskID: []byte("t")})
			for range 2 {
				r.ok(&Nack{Token: r.lease1(), DelayMillis: 0})
				r.tick(0)
			}
			must(t, "dead letters", r.s.Stats(numD).Moved, 1)
			c.before(r)
			r.ok(&PushResult{Queue: []byte("q"), TaskID: []byte("t")})
			var res RecordedResult
			r.s.Result("q", []byte("t"), &res)
			must(t, "attempts", res.Attempts, 2)
		})
	}
}

// TestNamedLikeAnID is that a task named by its producer with the text of another message's id is not found by that id
// without its queue, redriven or not: only a task's own first id is its name in the whole group.
func TestNamedLikeAnID(t *testing.T) {
	r := newRig(t)
	r.ok(&CreateQueue{Name: []byte("q"), Options: QueueOptions{}})
	other := r.put(Message{TaskID: []byte("other")})
	r.ok(&Ack{Token: r.lease1(), HasResult: true})
	task := other.String()
	r.put(Message{TaskID: []byte(task)})
	tok := r.lease1()
	r.ok(&Nack{Token: tok, Permanent: true})
	r.ok(&DeadRequeue{Queue: []byte("q"), IDs: []ID{tok.Message}})
	r.tick(DefaultResultTTL + 1) // nothing has that id any more
	r.gone("", task)
	if _, ok := r.task("q", task); !ok {
		t.Fatal("it is not found in its queue")
	}
	r.ok(&Ack{Token: r.lease1(), HasResult: true})
	r.gone("", task)
	r.everywhere()
}

// TestMovedDuplicate is that a message whose dedup key stands for a task that died and was moved is told the result that was
// pushed for it.
func TestMovedDuplicate(t *testing.T) {
	r := deadRig(t)
	m := Message{TaskID: []byte("t"), HasDedup: true, DedupKey: [16]byte{1}, DedupContent: [16]byte{2}}
	old, id, _ := r.bury(m)
	r.ok(&PushResult{Queue: []byte("q"), TaskID: []byte("t"), Result: Result{Output: []byte("R")}})
	m.TaskID = nil
	o := r.ok(&Enqueue{Queue: []byte("q"), Messages: []Message{m}})
	must(t, "answer", o, Outcome{Duplicate: true, ID: old, HasResult: true, Task: id})
	r.everywhere()
}

// TestMovedReleaseRepeated is that a release gets its first answer again, also when the message has died and been moved since.
func TestMovedReleaseRepeated(t *testing.T) {
	r := deadRig(t)
	r.put(Message{TTLMillis: 50})
	release := &Release{Token: r.lease1()}
	first := r.ok(release)
	r.tick(60)
	must(t, "moved", r.s.Stats(numD).Moved, 1)
	must(t, "the repeat", r.one(release), first)
	r.everywhere()
}

// TestDeathRepeated is that a nack or release that its message died of, or was followed by its death, gets its first answer again,
// and every other operation with that token lease_lost: where the dead letter stays and where it is moved, with a result of the
// task pushed while the message was out or after its death, and without one. The dead letter comes before the result.
func TestDeathRepeated(t *testing.T) {
	type ends struct {
		name string
		op   func(tok Token) Op
		dies int64 // ms until it is dead
	}
	all := []ends{
		{"nack, permanent", func(tok Token) Op { return &Nack{Token: tok, Permanent: true} }, 0},
		{"nack, then its time is over", func(tok Token) Op { return &Nack{Token: tok, DelayMillis: 3_600_000} }, 60_000},
		{"release, then its time is over", func(tok Token) Op { return &Release{Token: tok} }, 60_000},
		{"release after its time", func(tok Token) Op { return &Release{Token: tok} }, 0},
	}
	pushed := []string{"no result", "pushed while it was out", "pushed when it was dead"}
	for _, c := range all {
		for _, stays := range []bool{true, false} {
			for _, when := range pushed {
				for _, task := range []string{"", "t"} {
					t.Run(fmt.Sprintf("%s, stays %v, %s, task %q", c.name, stays, when, task), func(t *testing.T) {
						r := deadRig(t)
						if stays {
							r.ok(&SetQueue{Name: []byte("q")})
						}
						id := r.put(Message{TaskID: []byte(task), TTLMillis: 50_000})
						r.ok(&Lease{Queue: []byte("q"), Max: 1, LeaseMillis: 3_600_000})
						tok := r.fx.Leases[0].Token
						name := cmp.Or(task, id.String())
						push := &PushResult{Queue: []byte("q"), TaskID: []byte(name), Result: Result{Output: []byte("pushed")}}
						if when == pushed[1] {
							r.ok(push)
						}
						if c.name == "release after its time" {
							r.tick(60_000)
						}
						first := r.ok(c.op(tok))
						r.tick(c.dies)
						if when == pushed[2] {
							r.ok(push)
						}
						must(t, "own dead letters", r.s.Stats(numQ).Dead == 1, stays)
						for range 2 {
							for _, op := range []Op{&Nack{Token: tok}, &Release{Token: tok}, &Ack{Token: tok}, &Ack{Token: tok, HasResult: true}, &Extend{Token: tok}} {
								want := Outcome{Code: LeaseLost, Field: FieldToken}
								if reflect.TypeOf(op) == reflect.TypeOf(c.op(tok)) {
									want = first
								}
								must(t, fmt.Sprintf("the repeat as %T", op), r.one(op), want)
							}
							r.everywhere()
						}
					})
				}
			}
		}
	}
}

// A result pushed for a message that died when its lease ended, by expiry or by release, answers the late ack of that lease
// once the dead letter is gone, and not before.
func TestAckOfPushedAfterDeath(t *testing.T) {
	for _, by := range []string{"expiry", "release"} {
		t.Run(by, func(t *testing.T) {
			r := newRig(t)
			r.apply(&CreateQueue{Name: []byte("q"), Options: QueueOptions{DeadRetentionMillis: 1000}})
			o := r.apply(&Enqueue{Queue: []byte("q"), Messages: []Message{{Priority: DefaultPriority, TTLMillis: 1000}}})
			r.apply(&Lease{Queue: []byte("q"), Max: 1, LeaseMillis: 2000})
			token := r.fx.Leases[0].Token
			if by == "release" {
				r.now += 1500
				if o := r.apply(&Release{Token: token}); !o[0].Dead {
					t.Fatalf("released after its time: %+v", o[0])
				}
			} else {
				r.now += 2500
			}
			if o := r.apply(&PushResult{Queue: []byte("q"), TaskID: []byte(o[0].ID.String())}); o[0].Code != OK {
				t.Fatalf("push: %+v", o[0])
			}
			if o := r.apply(&Ack{Token: token}); o[0].Code != LeaseLost {
				t.Errorf("ack beside the dead letter: %+v", o[0])
			}
			r.now += 1001
			if o := r.apply(&Ack{Token: token}); o[0].Code != OK || !o[0].Duplicate || !o[0].HasResult {
				t.Errorf("ack after it: %+v", o[0])
			}
		})
	}
}
