package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/wire"
)

// ackTrial has leases of n messages, whose acks go out together because there was no connection when they were made.
type ackTrial struct {
	t      *testing.T
	f      *fake
	c      *Client
	leases []*Delivery

	mu     sync.Mutex
	frames []int // acks of each frame of them that came, −1: one of a single ack; under f.mu
	ends   map[int]error
	acked  map[int]Acked
	left   sync.WaitGroup
}

func newAckTrial(t *testing.T, n int) *ackTrial {
	f := newFake(t, 1)
	a := &ackTrial{t: t, f: f, c: open(t, f, Options{Timeout: time.Minute}), ends: map[int]error{}, acked: map[int]Acked{}}
	for i := range n {
		f.put("q", fmt.Sprint(i))
	}
	for len(a.leases) < n {
		some, err := a.c.Lease(t.Context(), "q", LeaseOptions{Max: 1000})
		if err != nil {
			t.Fatal(err)
		}
		a.leases = append(a.leases, some...)
	}
	return a
}

// judge has the fake node do with frames of acks what then says, and counts them.
func (a *ackTrial) judge(then func(fc *fakeConn, r wire.Raw, nth int) (verdict, *wire.Fault)) {
	nth := 0
	a.f.do(func() {
		a.f.hook = func(fc *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
			switch r.Type {
			case wire.TypeAck:
				a.frames = append(a.frames, -1)
			case wire.TypeAckBatch:
				a.frames = append(a.frames, len(decode[wire.AckBatch](fc, r).Tokens))
			default:
				return pass, nil
			}
			if nth++; then == nil {
				return pass, nil
			}
			return then(fc, r, nth)
		}
	})
}

// off takes the connection away and keeps it away until on.
func (a *ackTrial) off() {
	a.f.do(func() {
		a.f.leader = -1
		for fc := range a.f.conns {
			_ = fc.ws.UnderlyingConn().Close()
		}
	})
	until(a.t, "the connection to be missed", func() bool { a.c.mu.Lock(); defer a.c.mu.Unlock(); return a.c.conn == nil })
}

func (a *ackTrial) on() { a.f.do(func() { a.f.leader = 0 }) }

func (a *ackTrial) ack(i int, o AckOptions) {
	a.t.Helper()
	a.left.Add(1)
	err := a.c.AckAsync(context.Background(), a.leases[i].Token, o, func(got Acked, err error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if _, twice := a.ends[i]; twice {
			a.t.Errorf("ack %d ended twice", i)
		}
		a.ends[i], a.acked[i] = err, got
		a.left.Done()
	})
	if err != nil {
		a.t.Fatal(err)
	}
}

func (a *ackTrial) sent() []int {
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	return slices.Clone(a.frames)
}

func TestAcksShareFrames(t *testing.T) {
	once := func(v verdict, f *wire.Fault) func(*fakeConn, wire.Raw, int) (verdict, *wire.Fault) {
		return func(_ *fakeConn, _ wire.Raw, nth int) (verdict, *wire.Fault) {
			if nth == 1 {
				return v, f
			}
			return pass, nil
		}
	}
	answer := func(typ wire.Type, body any) func(*fakeConn, wire.Raw, int) (verdict, *wire.Fault) {
		return func(fc *fakeConn, r wire.Raw, nth int) (verdict, *wire.Fault) {
			if nth > 1 {
				return pass, nil
			}
			fc.carryOutQuietly(r)
			fc.push(typ, r.Tag, body)
			return ignore, nil
		}
	}
	others := func(o ...wire.AckOutcome) *wire.AckedBatch { return &wire.AckedBatch{Others: o, At: wire.At{Index: 7}} }
	busy := wire.NewFault(wire.CodeOverloaded, "busy")
	none := func(error) bool { return false }
	of := func(code wire.Code) func(error) bool {
		return func(err error) bool {
			var e *Error
			return errors.As(err, &e) && e.Code == code && !e.Unknown
		}
	}
	for _, tc := range []struct {
		name   string
		n      int
		then   func(*fakeConn, wire.Raw, int) (verdict, *wire.Fault)
		before func(a *ackTrial)
		with   map[int]AckOptions
		bad    map[int]func(error) bool // −1: all of them; others end well
		frames []int
	}{
		{name: "one alone", n: 1, frames: []int{-1}},
		{name: "two", n: 2, frames: []int{2}},
		{name: "as many as a frame has and two", n: wire.MaxAcks + 2, frames: []int{wire.MaxAcks, 2}},
		{name: "as many as a frame has and one", n: wire.MaxAcks + 1, frames: []int{wire.MaxAcks, -1}},
		{name: "one with a result", n: 5, with: map[int]AckOptions{2: {Result: &Result{Output: []byte("r")}}}, frames: []int{2, -1, 2}},
		{name: "one with what comes then", n: 3, with: map[int]AckOptions{0: {Then: []Then{{Queue: "next"}}}}, frames: []int{-1, 2}},
		{name: "one of a mapping", n: 3, with: map[int]AckOptions{2: {Mapping: 3}}, frames: []int{2, -1}},
		{name: "the connection ends before", n: 4, then: once(hangUp, nil), frames: []int{4, 4}},
		{name: "the connection ends after", n: 4, then: once(loseHang, nil), frames: []int{4, 4}},
		{name: "refused, to be tried again", n: 4, then: once(pass, busy), frames: []int{4, 4}},
		{name: "of unknown outcome", n: 4, then: once(pass, wire.NewFault(wire.CodeTimeout, "late")), frames: []int{4, 4}},
		{name: "refused for good", n: 3, then: once(pass, wire.NewFault(wire.CodeInvalidArgument, "no")),
			bad: map[int]func(error) bool{-1: of(wire.CodeInvalidArgument)}, frames: []int{3}},
		{name: "one is lost", n: 4, before: func(a *ackTrial) { a.f.do(func() { a.f.msgs[a.leases[1].Token].state = "dead" }) },
			bad: map[int]func(error) bool{1: of(wire.CodeLeaseLost)}, frames: []int{4}},
		{name: "the first and the last are refused", n: 3, then: answer(wire.TypeAckedBatch, others(
			wire.AckOutcome{Index: 0, Fault: wire.NewFault(wire.CodeNotFound, "no")}, wire.AckOutcome{Index: 2, Fault: wire.NewFault(wire.CodeCancelled, "no")})),
			bad: map[int]func(error) bool{0: of(wire.CodeNotFound), 2: of(wire.CodeCancelled)}, frames: []int{3}},
		{name: "one is to be tried again", n: 3, then: answer(wire.TypeAckedBatch, others(wire.AckOutcome{Index: 1, Fault: busy})), frames: []int{3, -1}},
		{name: "one is to be acked alone", n: 3, then: answer(wire.TypeAckedBatch, others(wire.AckOutcome{Index: 2, Again: true})), frames: []int{3, -1}},
		{name: "two are to be acked alone", n: 3, then: answer(wire.TypeAckedBatch, others(wire.AckOutcome{Index: 0, Again: true}, wire.AckOutcome{Index: 1, Again: true})),
			frames: []int{3, -1, -1}},
		{name: "an index too high", n: 2, then: answer(wire.TypeAckedBatch, others(wire.AckOutcome{Index: 2, Again: true})),
			bad: map[int]func(error) bool{-1: Unknown}, frames: []int{2}},
		{name: "an index below 0", n: 2, then: answer(wire.TypeAckedBatch, others(wire.AckOutcome{Index: -1, Again: true})),
			bad: map[int]func(error) bool{-1: Unknown}, frames: []int{2}},
		{name: "an index twice", n: 2, then: answer(wire.TypeAckedBatch, others(wire.AckOutcome{Index: 1, Duplicate: true}, wire.AckOutcome{Index: 1, Duplicate: true})),
			bad: map[int]func(error) bool{-1: Unknown}, frames: []int{2}},
		{name: "an answer to one ack", n: 2, then: answer(wire.TypeAcked, &wire.Acked{}), bad: map[int]func(error) bool{-1: Unknown}, frames: []int{2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newAckTrial(t, tc.n)
			a.judge(tc.then)
			a.off()
			if tc.before != nil {
				tc.before(a)
			}
			for i := range tc.n {
				a.ack(i, tc.with[i])
			}
			a.on()
			a.left.Wait()
			for i := range tc.n {
				bad := tc.bad[i]
				if bad == nil {
					bad = tc.bad[-1]
				}
				if bad == nil {
					bad = none
				}
				if err := a.ends[i]; (err != nil || tc.bad[i] != nil || tc.bad[-1] != nil) && !bad(err) {
					t.Errorf("ack %d ended with %v", i, err)
				}
				if a.ends[i] == nil && a.acked[i].Index == 0 {
					t.Errorf("ack %d: %+v", i, a.acked[i])
				}
			}
			if got := a.sent(); !slices.Equal(got, tc.frames) {
				t.Errorf("frames of %v acks, want %v", got, tc.frames)
			}
			a.c.mu.Lock()
			defer a.c.mu.Unlock()
			if a.c.acks != 0 {
				t.Errorf("%d acks are waited for", a.c.acks)
			}
		})
	}
}

// A duplicate among them tells of the result that was there.
func TestAckOfAFrameIsADuplicate(t *testing.T) {
	a := newAckTrial(t, 3)
	a.judge(func(fc *fakeConn, r wire.Raw, _ int) (verdict, *wire.Fault) {
		fc.carryOutQuietly(r)
		fc.push(wire.TypeAckedBatch, r.Tag, &wire.AckedBatch{At: wire.At{Index: 9, Time: 10}, Others: []wire.AckOutcome{
			{Index: 1, Duplicate: true, Result: &wire.Result{Output: wire.Bytes("first")}}}})
		return ignore, nil
	})
	a.off()
	for i := range a.leases {
		a.ack(i, AckOptions{})
	}
	a.on()
	a.left.Wait()
	for i, got := range a.acked {
		if got.Index != 9 || got.Time != 10 || got.Duplicate != (i == 1) || a.ends[i] != nil {
			t.Errorf("ack %d: %+v, %v", i, got, a.ends[i])
		}
		if i == 1 && (got.Result == nil || string(got.Result.Output) != "first") {
			t.Errorf("the duplicate's result is %+v", got.Result)
		}
	}
}

// Whoever gives up waiting takes his ack out of the frame that it was sent in; the frame is forgotten with the last.
func TestAcksOfAFrameAreGivenUp(t *testing.T) {
	for _, tc := range []struct {
		name  string
		given []int
		left  int // frames waited for
	}{
		{"one of three", []int{1}, 1},
		{"all of three", []int{0, 1, 2}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newAckTrial(t, 3)
			a.judge(func(*fakeConn, wire.Raw, int) (verdict, *wire.Fault) { return lose, nil })
			a.off()
			errs := make([]error, 3)
			var over sync.WaitGroup
			ctxs := make([]context.Context, 3)
			cancels := make([]context.CancelFunc, 3)
			for i := range 3 {
				ctxs[i], cancels[i] = context.WithCancel(context.Background())
				defer cancels[i]()
				over.Go(func() { _, errs[i] = a.c.Ack(ctxs[i], a.leases[i].Token, AckOptions{}) })
				until(t, "the ack to be queued", func() bool { a.c.mu.Lock(); defer a.c.mu.Unlock(); return a.c.plain.len() == i+1 })
			}
			a.on()
			until(t, "the frame", func() bool { return slices.Equal(a.sent(), []int{3}) })
			for _, i := range tc.given {
				cancels[i]()
			}
			waited := func() int { a.c.mu.Lock(); defer a.c.mu.Unlock(); return a.c.acks }
			until(t, "those given up to be over", func() bool { return waited() == 3-len(tc.given) })
			a.c.mu.Lock()
			if n := len(a.c.byTag); n != tc.left {
				t.Errorf("%d frames are waited for, want %d", n, tc.left)
			}
			a.c.mu.Unlock()
			closing, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if err := a.c.Close(closing); (err != nil) != (tc.left > 0) {
				t.Errorf("close: %v", err)
			}
			over.Wait()
			for i, err := range errs {
				want := ErrClosed
				if slices.Contains(tc.given, i) {
					want = context.Canceled
				}
				if !errors.Is(err, want) || !Unknown(err) {
					t.Errorf("ack %d: %v, want %v of unknown outcome", i, err, want)
				}
			}
		})
	}
}

// What a message acks is not told as started in it too; what it does not ack is.
func TestStartedIsNotToldOfWhatIsAcked(t *testing.T) {
	for _, tc := range []struct {
		name  string
		acked []int // in the first message
		want  []wire.Type
	}{
		{"none", nil, []wire.Type{wire.TypeStarted}},
		{"one", []int{1}, []wire.Type{wire.TypeAck, wire.TypeStarted}},
		{"two", []int{0, 2}, []wire.Type{wire.TypeAckBatch, wire.TypeStarted}},
		{"all", []int{0, 1, 2}, []wire.Type{wire.TypeAckBatch}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newAckTrial(t, 3)
			a.off()
			c := a.c
			cn := &conn{c: c} // nobody writes what it fills
			s := &subscription{c: c, num: 7, queue: "q", live: true}
			c.mu.Lock()
			c.subs[s.num] = s
			for _, d := range a.leases {
				l := &lease{s: s, d: d, state: leaseRunning}
				c.addLeaseLocked(l)
				s.telling = append(s.telling, l)
			}
			c.mu.Unlock()
			for _, i := range tc.acked {
				a.ack(i, AckOptions{})
			}
			told := map[string]bool{}
			var types []wire.Type
			for cn.fill() {
				for rest := cn.buf; len(rest) > 0; {
					var f wire.Raw
					var err error
					if f, rest, err = wire.Next(rest); err != nil {
						t.Fatal(err)
					}
					types = append(types, f.Type)
					var st wire.Started
					if f.Type == wire.TypeStarted {
						if err := f.Decode(&st); err != nil {
							t.Fatal(err)
						}
					}
					for _, token := range st.Tokens {
						told[token] = true
					}
				}
			}
			if !slices.Equal(types, tc.want) {
				t.Errorf("frames of types %v, want %v", types, tc.want)
			}
			for i, d := range a.leases {
				if told[d.Token] == slices.Contains(tc.acked, i) {
					t.Errorf("lease %d is told as started: %v, and acked: %v", i, told[d.Token], !told[d.Token])
				}
			}
			c.mu.Lock()
			delete(c.subs, s.num)
			c.mu.Unlock()
			a.c.shut()
		})
	}
}

// What was left out of a message for an ack is told when the ack has not ended the lease, for whatever reason: else the lease would go to
// somebody else with the connection, and its user works on.
func TestStartedIsToldWhenAnAckIsRefused(t *testing.T) {
	fault := func(code wire.Code) func(tag uint64) []byte {
		return func(tag uint64) []byte { return wire.AppendFrame(nil, wire.TypeFault, tag, wire.NewFault(code, "no")) }
	}
	const (
		stays = iota // the lease does, and is told as started
		ends
	)
	for _, tc := range []struct {
		name string
		n    int
		with AckOptions
		then func(tag uint64) []byte // the answer; nil: none
		want [2]int                  // of the leases
	}{
		{"to be tried again", 1, AckOptions{}, fault(wire.CodeOverloaded), [2]int{stays}},
		{"of unknown outcome", 1, AckOptions{}, fault(wire.CodeTimeout), [2]int{stays}},
		{"for good", 1, AckOptions{}, fault(wire.CodeFailedPrecondition), [2]int{stays}},
		{"lost", 1, AckOptions{}, fault(wire.CodeLeaseLost), [2]int{ends}},
		{"done", 1, AckOptions{}, func(tag uint64) []byte { return wire.AppendFrame(nil, wire.TypeAcked, tag, &wire.Acked{}) }, [2]int{ends}},
		{"too large to be sent", 1, AckOptions{Then: []Then{
			{Queue: "next", Message: Message{Body: make([]byte, 1<<19), Kind: "k"}}, {Queue: "next", Message: Message{Body: make([]byte, 1<<19)}},
		}}, nil, [2]int{stays}},
		{"two, to be tried again", 2, AckOptions{}, fault(wire.CodeOverloaded), [2]int{stays, stays}},
		{"two, for good", 2, AckOptions{}, fault(wire.CodeInvalidArgument), [2]int{stays, stays}},
		{"one of two", 2, AckOptions{}, func(tag uint64) []byte {
			return wire.AppendFrame(nil, wire.TypeAckedBatch, tag, &wire.AckedBatch{Others: []wire.AckOutcome{{Index: 1, Fault: wire.NewFault(wire.CodeFailedPrecondition, "no")}}})
		}, [2]int{ends, stays}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newAckTrial(t, tc.n)
			a.off()
			c := a.c
			if tc.then == nil {
				c.maxFrame.Store(1 << 20)
			}
			cn := &conn{c: c, dead: make(chan struct{})} // nobody writes what it fills
			s := &subscription{c: c, num: 7, queue: "q", live: true}
			c.mu.Lock()
			c.subs[s.num] = s
			for _, d := range a.leases {
				l := &lease{s: s, d: d, state: leaseRunning}
				c.addLeaseLocked(l)
				s.telling = append(s.telling, l)
			}
			c.mu.Unlock()
			for i := range a.leases {
				a.ack(i, tc.with)
			}
			told := map[string]bool{}
			var tag uint64
			fill := func() {
				for cn.fill() {
					for rest := cn.buf; len(rest) > 0; {
						var f wire.Raw
						var err error
						if f, rest, err = wire.Next(rest); err != nil {
							t.Fatal(err)
						}
						if f.Type != wire.TypeStarted {
							tag = f.Tag
							continue
						}
						var st wire.Started
						if err := f.Decode(&st); err != nil {
							t.Fatal(err)
						}
						for _, token := range st.Tokens {
							told[token] = true
						}
					}
				}
			}
			fill()
			if tc.then != nil {
				if len(told) != 0 {
					t.Errorf("%d leases were told as started with their acks", len(told))
				}
				f, _, err := wire.Next(tc.then(tag))
				if err != nil {
					t.Fatal(err)
				}
				if err := c.answered(cn, f); err != nil {
					t.Fatal(err)
				}
				fill()
			}
			for i, d := range a.leases {
				if told[d.Token] != (tc.want[i] == stays) {
					t.Errorf("lease %d is told as started: %v", i, told[d.Token])
				}
			}
			c.mu.Lock()
			delete(c.subs, s.num)
			c.mu.Unlock()
			c.shut()
		})
	}
}

// What a subscriber has in hands when he closes the subscription stays his: what the server has not been told of as started it is told before.
func TestCloseTellsWhatIsStarted(t *testing.T) {
	a := newAckTrial(t, 4) // told; not yet told, twice; and one of which nothing was said for its ack
	a.off()
	c := a.c
	cn := &conn{c: c, wake: make(chan struct{}, 1), dead: make(chan struct{})} // nobody writes what it fills
	s := &subscription{c: c, num: 7, queue: "q", live: true, up: make(chan struct{}), failed: make(chan struct{})}
	add := func(i int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.subs[s.num] = s
		l := &lease{s: s, d: a.leases[i], state: leaseRunning}
		c.addLeaseLocked(l)
		s.telling = append(s.telling, l)
	}
	add(0)
	cn.fill()
	add(2)
	a.ack(2, AckOptions{})
	cn.fill()
	add(1)
	add(3)
	c.mu.Lock()
	c.conn = cn
	c.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	var closed sync.WaitGroup
	closed.Go(func() { _ = (&Subscription{s}).Close(ctx) })
	until(t, "the end of the subscription to be queued", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.plain.len() == 1 })
	cn.fill()
	var types []wire.Type
	var told []string
	for rest := cn.buf; len(rest) > 0; {
		var f wire.Raw
		var err error
		if f, rest, err = wire.Next(rest); err != nil {
			t.Fatal(err)
		}
		if types = append(types, f.Type); f.Type == wire.TypeStarted {
			var st wire.Started
			if err := f.Decode(&st); err != nil {
				t.Fatal(err)
			}
			told = st.Tokens
		}
	}
	if want := []wire.Type{wire.TypeStarted, wire.TypeUnsubscribe}; !slices.Equal(types, want) {
		t.Errorf("frames of types %v, want %v", types, want)
	}
	slices.Sort(told)
	want := []string{a.leases[1].Token, a.leases[2].Token, a.leases[3].Token}
	if slices.Sort(want); !slices.Equal(told, want) {
		t.Errorf("told as started: %v, want %v", told, want)
	}
	cancel()
	closed.Wait()
	c.mu.Lock()
	c.conn = nil
	c.mu.Unlock()
	c.shut()
}
