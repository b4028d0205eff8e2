package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/wire"
)

// aToken is well-formed, and of no lease.
var aToken = strings.Repeat("0", wire.TokenBytes-1) + "1"

// refusing has the fake node answer the requests of a type with faults, one after the other; nil closes the connection without an answer, and
// what comes after the last is carried out.
func refusing(f *fake, typ wire.Type, faults ...*wire.Fault) (numbers *[]uint64) {
	numbers = new([]uint64)
	n := 0
	f.do(func() {
		f.hook = func(fc *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
			if r.Type != typ {
				return pass, nil
			}
			if typ == wire.TypeQueueCreate {
				*numbers = append(*numbers, decode[wire.QueueWrite](fc, r).Request.Number)
			}
			if n++; n > len(faults) {
				return pass, nil
			}
			if faults[n-1] == nil {
				return hangUp, nil
			}
			return pass, faults[n-1]
		}
	})
	return numbers
}

// byLog is a refusal that the log gives.
func byLog(code wire.Code) *wire.Fault {
	f := wire.NewFault(code, "as the log has it")
	f.At = &wire.At{Index: 7, Time: 1}
	return f
}

func byDoor(code wire.Code) *wire.Fault { return wire.NewFault(code, "at the door") }

// A refusal speaks of its own sending, unless the log gave it under the call's number, or its ack's token.
func TestRefusalOfACallSentBefore(t *testing.T) {
	then := byLog(wire.CodeNotFound)
	then.Field = fieldThen
	create := func(ctx context.Context, c *Client) error { return c.CreateQueue(ctx, "q", QueueOptions{}) }
	ack := func(ctx context.Context, c *Client) error { _, err := c.Ack(ctx, aToken, AckOptions{}); return err }
	nack := func(ctx context.Context, c *Client) error { _, err := c.Nack(ctx, aToken, NackOptions{}); return err }
	extend := func(ctx context.Context, c *Client) error { _, err := c.Extend(ctx, aToken, 0); return err }
	release := func(ctx context.Context, c *Client) error { return c.Release(ctx, aToken) }
	show := func(ctx context.Context, c *Client) error { _, err := c.Queue(ctx, "q"); return err }
	remove := func(ctx context.Context, c *Client) error { return c.Remove(ctx, "n2") }
	const definite, unknown = false, true
	for _, tc := range []struct {
		name    string
		typ     wire.Type
		call    func(context.Context, *Client) error
		full    bool
		faults  []*wire.Fault
		code    wire.Code // "": it ends well
		ends    bool
		numbers []uint64
	}{
		{"numbered, at the door", wire.TypeQueueCreate, create, false, []*wire.Fault{nil, byDoor(wire.CodeInvalidArgument)}, wire.CodeInvalidArgument, unknown, []uint64{1, 1}},
		{"numbered, at the door, the first time", wire.TypeQueueCreate, create, false, []*wire.Fault{byDoor(wire.CodeInvalidArgument)}, wire.CodeInvalidArgument, definite, []uint64{1}},
		{"numbered, by the log", wire.TypeQueueCreate, create, false, []*wire.Fault{nil, byLog(wire.CodeAlreadyExists)}, wire.CodeAlreadyExists, definite, []uint64{1, 1}},
		{"numbered, at the door for now", wire.TypeQueueCreate, create, false, []*wire.Fault{nil, byDoor(wire.CodeOverloaded)}, "", definite, []uint64{1, 1, 1}},
		{"numbered, at the door for now, the first time", wire.TypeQueueCreate, create, false, []*wire.Fault{byDoor(wire.CodeOverloaded)}, "", definite, []uint64{1, 2}},
		{"numbered, at the door for now and then for good", wire.TypeQueueCreate, create, false,
			[]*wire.Fault{nil, byDoor(wire.CodeOverloaded), byDoor(wire.CodeTooLarge)}, wire.CodeTooLarge, unknown, []uint64{1, 1, 1}},
		{"numbered, by the log for now", wire.TypeQueueCreate, create, false, []*wire.Fault{nil, byLog(wire.CodeOverloaded)}, "", definite, []uint64{1, 1, 2}},
		{"numbered, by the log for now and then at the door for good", wire.TypeQueueCreate, create, false,
			[]*wire.Fault{nil, byLog(wire.CodeOverloaded), byDoor(wire.CodeInvalidArgument)}, wire.CodeInvalidArgument, definite, []uint64{1, 1, 2}},
		{"numbered, at the door for now, who will not wait", wire.TypeQueueCreate, create, true, []*wire.Fault{nil, byDoor(wire.CodeOverloaded)}, wire.CodeOverloaded, unknown, []uint64{1, 1}},
		{"numbered, by the log for now, who will not wait", wire.TypeQueueCreate, create, true, []*wire.Fault{nil, byLog(wire.CodeQueueFull)}, wire.CodeQueueFull, definite, []uint64{1, 1}},
		{"numbered, late and then at the door", wire.TypeQueueCreate, create, false, []*wire.Fault{byDoor(wire.CodeTimeout), byDoor(wire.CodeInvalidArgument)}, wire.CodeInvalidArgument, unknown, []uint64{1, 1}},
		{"numbered, not the leader and then at the door", wire.TypeQueueCreate, create, false, []*wire.Fault{byDoor(wire.CodeNotLeader), byDoor(wire.CodeInvalidArgument)}, wire.CodeInvalidArgument, definite, []uint64{1, 1}},
		{"numbered, the session has ended", wire.TypeQueueCreate, create, false, []*wire.Fault{nil, byLog(wire.CodeSessionExpired)}, wire.CodeSessionExpired, unknown, []uint64{1, 1}},

		{"ack, at the door", wire.TypeAck, ack, false, []*wire.Fault{nil, byDoor(wire.CodeInvalidArgument)}, wire.CodeInvalidArgument, unknown, nil},
		{"ack, lease lost", wire.TypeAck, ack, false, []*wire.Fault{nil, byLog(wire.CodeLeaseLost)}, wire.CodeLeaseLost, definite, nil},
		{"ack, of a message that nobody remembers", wire.TypeAck, ack, false, []*wire.Fault{nil, byLog(wire.CodeNotFound)}, wire.CodeNotFound, unknown, nil},
		{"ack, of a message that nobody remembers, the first time", wire.TypeAck, ack, false, []*wire.Fault{byLog(wire.CodeNotFound)}, wire.CodeNotFound, definite, nil},
		{"ack, no queue for what comes then", wire.TypeAck, ack, false, []*wire.Fault{nil, then}, wire.CodeNotFound, definite, nil},
		{"ack, by the log for now and then at the door", wire.TypeAck, ack, false,
			[]*wire.Fault{nil, byLog(wire.CodeQueueFull), byDoor(wire.CodeInvalidArgument)}, wire.CodeInvalidArgument, definite, nil},
		{"ack, at the door for now and then for good", wire.TypeAck, ack, false,
			[]*wire.Fault{nil, byDoor(wire.CodeOverloaded), byDoor(wire.CodeInvalidArgument)}, wire.CodeInvalidArgument, unknown, nil},

		{"nack, lease lost", wire.TypeNack, nack, false, []*wire.Fault{nil, byLog(wire.CodeLeaseLost)}, wire.CodeLeaseLost, unknown, nil},
		{"nack, lease lost, the first time", wire.TypeNack, nack, false, []*wire.Fault{byLog(wire.CodeLeaseLost)}, wire.CodeLeaseLost, definite, nil},
		{"nack, not found", wire.TypeNack, nack, false, []*wire.Fault{nil, byLog(wire.CodeNotFound)}, wire.CodeNotFound, unknown, nil},
		{"extend, lease lost", wire.TypeExtend, extend, false, []*wire.Fault{nil, byLog(wire.CodeLeaseLost)}, wire.CodeLeaseLost, unknown, nil},
		{"release, lease lost", wire.TypeRelease, release, false, []*wire.Fault{nil, byLog(wire.CodeLeaseLost)}, wire.CodeLeaseLost, unknown, nil},
		{"release, at the door", wire.TypeRelease, release, false, []*wire.Fault{nil, byDoor(wire.CodeInvalidArgument)}, wire.CodeInvalidArgument, unknown, nil},
		{"removal, no such node", wire.TypeClusterRemove, remove, false, []*wire.Fault{nil, byDoor(wire.CodeFailedPrecondition)}, wire.CodeFailedPrecondition, unknown, nil},

		{"read, not found", wire.TypeQueueShow, show, false, []*wire.Fault{nil, byDoor(wire.CodeNotFound)}, wire.CodeNotFound, definite, nil},
		{"read, at the door for now, who will not wait", wire.TypeQueueShow, show, true, []*wire.Fault{nil, byDoor(wire.CodeOverloaded)}, wire.CodeOverloaded, definite, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFake(t, 1)
			c := open(t, f, Options{FailWhenFull: tc.full})
			numbers := refusing(f, tc.typ, tc.faults...)
			err := tc.call(t.Context(), c)
			var e *Error
			switch {
			case tc.code == "" && err != nil, tc.code != "" && (!errors.As(err, &e) || e.Code != tc.code), Unknown(err) != tc.ends:
				t.Errorf("ended with %v, want %q, unknown=%t", err, tc.code, tc.ends)
			}
			f.do(func() {
				if !slices.Equal(*numbers, tc.numbers) {
					t.Errorf("sent under %v, want %v", *numbers, tc.numbers)
				}
			})
		})
	}
}

// Acks that share a frame are refused one by one.
func TestRefusalOfAcksSentBefore(t *testing.T) {
	a := newAckTrial(t, 4)
	a.judge(func(fc *fakeConn, r wire.Raw, nth int) (verdict, *wire.Fault) {
		if nth == 1 {
			return hangUp, nil
		}
		fc.push(wire.TypeAckedBatch, r.Tag, &wire.AckedBatch{At: wire.At{Index: 7}, Others: []wire.AckOutcome{
			{Index: 0, Fault: byLog(wire.CodeLeaseLost)}, {Index: 1, Fault: byLog(wire.CodeNotFound)}, {Index: 2, Fault: byDoor(wire.CodeInvalidArgument)},
		}})
		return ignore, nil
	})
	a.off()
	for i := range 4 {
		a.ack(i, AckOptions{})
	}
	a.on()
	a.left.Wait()
	for i, want := range []struct {
		err     error
		unknown bool
	}{{ErrLeaseLost, false}, {ErrNotFound, true}, {ErrInvalidArgument, true}, {nil, false}} {
		if err := a.ends[i]; !errors.Is(err, want.err) || Unknown(err) != want.unknown {
			t.Errorf("ack %d ended with %v, want %v, unknown=%t", i, err, want.err, want.unknown)
		}
	}
}

// A call whose caller gave up while its refusal was being read, or whose client was closed, ends with it: of unknown outcome where an earlier
// sending is.
func TestRefusedCallEndsForItsCaller(t *testing.T) {
	for _, how := range []string{"cancelled", "closed"} {
		for _, code := range []wire.Code{wire.CodeOverloaded, wire.CodeNotLeader} {
			for sent := 1; sent <= 2; sent++ {
				t.Run(fmt.Sprintf("%s, %s, sent %d times", how, code, sent), func(t *testing.T) {
					f := newFake(t, 1)
					c := open(t, f, Options{})
					c.mu.Lock()
					c.closed = how == "closed"
					cn := c.conn
					c.mu.Unlock()
					var err error
					cl := &call{
						typ: wire.TypeQueueCreate, req: &wire.Request{}, state: callAnswered, unresolved: sent, cancelled: how == "cancelled",
						notify: func(e error) { err = e },
					}
					c.refused(cn, cl, byDoor(code))
					if err == nil || Unknown(err) != (sent > 1) {
						t.Errorf("ended with %v", err)
					}
				})
			}
		}
	}
}

// What a node takes no longer, since its messages may be shorter, may have been taken by the last one.
func TestTooLargeForTheNextNode(t *testing.T) {
	for _, sent := range []bool{false, true} {
		t.Run(fmt.Sprintf("sent=%t", sent), func(t *testing.T) {
			f := newFake(t, 1)
			c := open(t, f, Options{})
			f.do(func() {
				f.hook = func(fc *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
					switch r.Type {
					case wire.TypeEnqueue:
						return loseHang, nil
					case wire.TypeHello:
						fc.push(wire.TypeWelcome, r.Tag, &wire.Welcome{
							Version: wire.Version, Leader: f.leaderAddr(), IsLeader: true, MaxMessageBytes: f.maxMsg, MaxFrameBytes: 5000, PingMillis: 1000,
						})
						return ignore, nil
					}
					return pass, nil
				}
				if !sent {
					for fc := range f.conns {
						_ = fc.ws.UnderlyingConn().Close()
					}
				}
			})
			if !sent {
				until(t, "the other limit", func() bool { return c.maxFrame.Load() == 5000 })
			}
			_, err := c.Enqueue(t.Context(), "q", Message{Body: make([]byte, 10_000)})
			if !errors.Is(err, ErrTooLarge) || Unknown(err) != sent {
				t.Errorf("ended with %v, want too_large, unknown=%t", err, sent)
			}
		})
	}
}

// The lease of a subscription's user ends with the code of what he was answered, whether or not the outcome of his ack or nack is known; and stays
// where the answer says that it does.
func TestLeaseEndsByTheCode(t *testing.T) {
	then := byLog(wire.CodeNotFound)
	then.Field = fieldThen
	for _, tc := range []struct {
		name   string
		nack   bool
		faults []*wire.Fault
		over   bool
	}{
		{"nack, sent before, lease lost", true, []*wire.Fault{nil, byLog(wire.CodeLeaseLost)}, true},
		{"nack, sent before, not found", true, []*wire.Fault{nil, byLog(wire.CodeNotFound)}, true},
		{"nack, sent before, cancelled", true, []*wire.Fault{nil, byLog(wire.CodeCancelled)}, true},
		{"nack, sent before, refused at the door", true, []*wire.Fault{nil, byDoor(wire.CodeInvalidArgument)}, false},
		{"ack, sent before, not found", false, []*wire.Fault{nil, byLog(wire.CodeNotFound)}, true},
		{"ack, no queue for what comes then", false, []*wire.Fault{then}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFake(t, 1)
			c := open(t, f, Options{})
			got := make(chan *Delivery, 1)
			if _, err := c.Subscribe(t.Context(), "q", SubscribeOptions{}, func(d *Delivery) { got <- d }); err != nil {
				t.Fatal(err)
			}
			f.put("q", "a")
			d := <-got
			until(t, "it to be known as started", func() bool {
				f.mu.Lock()
				defer f.mu.Unlock()
				sub := f.msgs[d.Token].sub
				return sub != nil && sub.started[d.Token]
			})
			typ := wire.TypeAck
			if tc.nack {
				typ = wire.TypeNack
			}
			refusing(f, typ, tc.faults...)
			var err error
			if tc.nack {
				_, err = c.Nack(t.Context(), d.Token, NackOptions{})
			} else {
				_, err = c.Ack(t.Context(), d.Token, AckOptions{})
			}
			if err == nil {
				t.Fatal("it was not refused")
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			if l := c.leases[d.Token]; (l == nil) != tc.over || l != nil && l.state != leaseRunning {
				t.Errorf("after %v the lease is %+v, want it over: %t", err, l, tc.over)
			}
		})
	}
}

// An extension that is sent again, and is told that the lease is lost, ends the handler's context there and then.
func TestLostLeaseIsLostThoughTheExtensionIsUnknown(t *testing.T) {
	for _, code := range []wire.Code{wire.CodeLeaseLost, wire.CodeNotFound} {
		t.Run(string(code), func(t *testing.T) {
			f := newFake(t, 1)
			f.lease = time.Minute
			c := open(t, f, Options{})
			refusing(f, wire.TypeExtend, nil, byLog(code))
			running, why := make(chan struct{}), make(chan error, 1)
			f.put("q", "a")
			stop := consuming(t, c, ConsumeOptions{}, func(ctx context.Context, _ *Delivery) (*Result, error) {
				close(running)
				<-ctx.Done()
				why <- context.Cause(ctx)
				return nil, nil
			})
			<-running
			f.do(func() { f.queue("q").ready = nil })
			c.mu.Lock()
			for _, l := range c.leases {
				c.extendLocked(l) // now, and not after a third of the lease
			}
			c.wakeWriter()
			c.mu.Unlock()
			select {
			case err := <-why:
				var e *Error
				if !errors.As(err, &e) || e.Code != code || !e.Unknown {
					t.Errorf("the handler was ended by %v, want %s", err, code)
				}
			case <-time.After(10 * time.Second):
				t.Error("the handler runs on without a lease")
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A result that is refused at the door is nacked with that, also where the ack was sent before: the nack of what is acked is refused.
func TestResultRefusedAfterAnAnswerWasLost(t *testing.T) {
	for _, v := range []verdict{hangUp, loseHang} {
		t.Run(fmt.Sprintf("verdict %d", v), func(t *testing.T) {
			f := newFake(t, 1)
			c := open(t, f, Options{})
			acks, nacks := 0, 0
			f.do(func() {
				f.hook = func(fc *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
					switch r.Type {
					case wire.TypeAck:
						if acks++; acks == 1 {
							return v, nil
						}
						return pass, byDoor(wire.CodeTooLarge)
					case wire.TypeNack:
						nacks++
						if n := decode[wire.Nack](fc, r); !bytes.Contains([]byte(n.Error), []byte("cannot be recorded")) {
							t.Errorf("nacked with %q", n.Error)
						}
					}
					return pass, nil
				}
			})
			f.put("q", "a")
			first := make(chan struct{})
			ran := 0
			stop := consuming(t, c, ConsumeOptions{}, func(context.Context, *Delivery) (*Result, error) {
				if ran++; ran == 1 {
					close(first)
					return &Result{Output: []byte("r")}, nil
				}
				return nil, ErrRelease
			})
			<-first
			until(t, "a nack", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return nacks == 1 })
			f.do(func() { f.queue("q").ready = nil })
			until(t, "the end of the lease", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.leases) == 0 })
			if err := stop(); err != nil {
				t.Error(err)
			}
			if got := f.state("q"); v == loseHang && got != "done 1" {
				t.Errorf("what was acked is %s", got)
			}
		})
	}
}
