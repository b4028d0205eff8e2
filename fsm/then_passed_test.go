package fsm

import "testing"

// TestThenPassedOver: a message of a chain that is passed over, since its dedup key was seen, takes no task id: another one of
// the list may have it, and the chain is not refused.
func TestThenPassedOver(t *testing.T) {
	keyed := func(task string, key byte) Message {
		m := text("x")
		m.HasDedup, m.DedupKey, m.DedupContent = true, [16]byte{key}, [16]byte{1}
		m.TaskID = []byte(task)
		return m
	}
	plain := func(task string) Message { m := text("y"); m.TaskID = []byte(task); return m }
	for _, c := range []struct {
		name  string
		queue string // where the chain goes
		then  []Message
		code  Code
		added int64
	}{
		{"its key is remembered", "q", []Message{keyed("a", 1), plain("a")}, OK, 1},
		{"its key is that of one before it", "q", []Message{keyed("a", 2), keyed("b", 2), plain("b")}, OK, 2},
		{"the same in a queue that is yet to be made", "new", []Message{keyed("a", 2), keyed("b", 2), plain("b")}, OK, 2},
		{"the one before it is stored", "q", []Message{keyed("a", 2), keyed("b", 2), plain("a")}, AlreadyExists, 0},
		{"none is passed over", "q", []Message{plain("a"), plain("a")}, AlreadyExists, 0},
		{"none is passed over, in a queue that is yet to be made", "new", []Message{keyed("a", 1), plain("a")}, AlreadyExists, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.ok(&Enqueue{Queue: []byte("q"), AutoCreate: true, Messages: []Message{keyed("first", 1)}})
			r.ok(&Lease{Queue: []byte("q"), Max: 1, MaxBytes: 1})
			ack := &Ack{Token: r.fx.Leases[0].Token, ThenAutoCreate: true}
			for _, m := range c.then {
				ack.Then = append(ack.Then, ThenMessage{Queue: []byte(c.queue), Message: m})
			}
			o := r.one(ack)
			if c.code == OK {
				must(t, "code", o.Code, OK)
			} else {
				must(t, "refused", [2]int{int(o.Code), int(o.Field)}, [2]int{int(c.code), int(FieldThen)})
			}
			var added int64
			if n, ok := r.s.QueueNumber([]byte(c.queue)); ok {
				st := r.s.Stats(n)
				added = st.Ready
			}
			must(t, "messages added", added, c.added)
			r.everywhere()
		})
	}
}
