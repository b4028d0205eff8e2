package client

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/wire"
)

// sendings scripts what becomes of each message of a batch, sending by sending; a message is known by its body, its place in the batch. The
// last letter goes for all that follow.
//
//	.  done                           !  done, and then the connection ends without an answer
//	q  refused by the log, for now    ?  not done, and the connection ends
//	o  overloaded, not in the log     u  timeout, not done      U  timeout, done all the same
//	x  refused at the door            n  the node leads no more
//	i  internal, unknown              s  the session has ended
type sendings struct {
	f       *fake
	script  []string
	numbers [][]uint64 // of each message, under f.mu
	frames  []int      // messages of each request, under f.mu
	conns   map[*fakeConn]bool
}

func newSendings(f *fake, script ...string) *sendings {
	s := &sendings{f: f, script: script, numbers: make([][]uint64, len(script)), conns: map[*fakeConn]bool{}}
	f.do(func() { f.keepLog, f.hook = true, s.judge })
	return s
}

// enqueue sends the messages in one request: there is no connection until they are all there.
func (s *sendings) enqueue(t *testing.T, c *Client) []error {
	var ms []Message
	for i := range s.script {
		ms = append(ms, Message{Body: fmt.Append(nil, i)})
	}
	s.away(t, c)
	done := make(chan []error, 1)
	go func() {
		_, errs := c.EnqueueBatch(t.Context(), "q", ms)
		done <- errs
	}()
	until(t, "all messages", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.pending == len(ms) })
	s.f.lead(0, false)
	return <-done
}

// away takes the connection and the leader away.
func (s *sendings) away(t *testing.T, c *Client) {
	s.f.do(func() {
		s.f.leader = -1
		for fc := range s.f.conns {
			_ = fc.ws.UnderlyingConn().Close()
		}
	})
	until(t, "the connection to be missed", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.conn == nil })
}

func (s *sendings) judge(fc *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
	if r.Type != wire.TypeEnqueue || fc.n.i != s.f.leader {
		return pass, nil
	}
	e := decode[wire.Enqueue](fc, r)
	s.frames = append(s.frames, len(e.Messages))
	s.conns[fc] = true
	s.f.index++
	a := wire.Enqueued{}
	hang := false
	for i := range e.Messages {
		m, number := &e.Messages[i], e.Request.Number+uint64(i)
		var at int
		_, _ = fmt.Sscan(string(m.Body), &at)
		s.numbers[at] = append(s.numbers[at], number)
		fates := s.script[at]
		fate := fates[min(len(s.numbers[at]), len(fates))-1]
		var o wire.Outcome
		switch fate {
		case '.', '!', 'U':
			o = s.f.enqueue(fc, fc.session, e.Queue, m, number)
		case 'q':
			was, there := fc.session.outcomes[number]
			if o = was; !there {
				o = wire.Outcome{Fault: s.f.judged(wire.NewFault(wire.CodeQueueFull, "full"))}
				fc.session.outcomes[number] = o
			}
		case 's':
			delete(s.f.sessions, fc.session.id)
			o.Fault = s.f.judged(wire.NewFault(wire.CodeSessionExpired, "ended"))
		case '?':
		default:
			o.Fault = wire.NewFault(map[byte]wire.Code{
				'o': wire.CodeOverloaded, 'u': wire.CodeTimeout, 'x': wire.CodeInvalidArgument, 'n': wire.CodeNotLeader, 'i': wire.CodeInternal,
			}[fate], "as it is written")
		}
		if fate == 'U' {
			o = wire.Outcome{Fault: wire.NewFault(wire.CodeTimeout, "late")}
		}
		if strings.ContainsRune(".qs", rune(fate)) {
			a.At = s.f.at()
		}
		hang = hang || fate == '!' || fate == '?'
		a.Outcomes = append(a.Outcomes, o)
	}
	if hang {
		return hangUp, nil
	}
	fc.push(wire.TypeEnqueued, r.Tag, &a)
	return ignore, nil
}

// The messages of a batch that goes into the log in parts, or not at all, have fates of their own. None is done twice, none that is refused
// is done, and each is sent under its number for as long as an earlier sending of it is not accounted for.
func TestMessagesOfABatchSentTwice(t *testing.T) {
	const ok, refused, unknown = "ok", "refused", "unknown"
	for _, tc := range []struct {
		name     string
		failFull bool
		script   []string
		ends     []string
		numbers  [][]uint64
		frames   []int
	}{
		{"the answer is lost, and then one is refused at the door and the other by the group", false,
			[]string{"!o.", "?x"}, []string{ok, unknown}, [][]uint64{{1, 1, 1}, {2, 2}}, []int{2, 2, 1}},
		{"the same, and more than once", false,
			[]string{"!ooo.", "?x"}, []string{ok, unknown}, [][]uint64{{1, 1, 1, 1, 1}, {2, 2}}, []int{2, 2, 1, 1, 1}},
		{"the same, for one who will not wait", true, []string{"!o", "?x"}, []string{unknown, unknown}, [][]uint64{{1, 1}, {2, 2}}, []int{2, 2}},
		{"not done at first, and then refused by the group for one who will not wait", true,
			[]string{"?o", "?x"}, []string{unknown, unknown}, [][]uint64{{1, 1}, {2, 2}}, []int{2, 2}},
		{"sent once, and refused by the group", false, []string{"o.", "x"}, []string{ok, refused}, [][]uint64{{1, 3}, {2}}, []int{2, 1}},
		{"sent once, and refused for one who will not wait", true, []string{"o", "x"}, []string{refused, refused}, [][]uint64{{1}, {2}}, []int{2}},
		{"a part has no answer in time", false, []string{"u.", "x"}, []string{ok, refused}, [][]uint64{{1, 1}, {2}}, []int{2, 1}},
		{"a part has no answer in time and is done", false, []string{"U.", "x"}, []string{ok, refused}, [][]uint64{{1, 1}, {2}}, []int{2, 1}},
		{"the same, for one who will not wait", true, []string{"U.", "x"}, []string{ok, refused}, [][]uint64{{1, 1}, {2}}, []int{2, 1}},
		{"the same, and is then refused for good at the door", false, []string{"Ux", "x"}, []string{unknown, refused}, [][]uint64{{1, 1}, {2}}, []int{2, 1}},
		{"a part was not done and the log refuses it", false, []string{"uq.", "x"}, []string{ok, refused}, [][]uint64{{1, 1, 3}, {2}}, []int{2, 1, 1}},
		{"a part was not done and the log refuses it to one who will not wait", true,
			[]string{"uq", "x"}, []string{refused, refused}, [][]uint64{{1, 1}, {2}}, []int{2, 1}},
		{"a part was done, and is asked for where the queue is full", false, []string{"Uq", "x"}, []string{ok, refused}, [][]uint64{{1, 1}, {2}}, []int{2, 1}},
		{"a part met a node that leads no more", false, []string{"n.", "x"}, []string{ok, refused}, [][]uint64{{1, 3}, {2}}, []int{2, 1}},
		{"the same, for one who will not wait", true, []string{"n.", "x"}, []string{ok, refused}, [][]uint64{{1, 3}, {2}}, []int{2, 1}},
		{"a part was done before it met a node that leads no more", false, []string{"!n.", "?x"}, []string{ok, unknown}, [][]uint64{{1, 1, 1}, {2, 2}}, []int{2, 2, 1}},
		{"the log refuses one", false, []string{"q.", "."}, []string{ok, ok}, [][]uint64{{1, 3}, {2}}, []int{2, 1}},
		{"the answer is lost, and the log refuses one", false, []string{"?q.", "?."}, []string{ok, ok}, [][]uint64{{1, 1, 3}, {2, 2}}, []int{2, 2, 1}},
		{"a part broke something", false, []string{"i", "."}, []string{unknown, ok}, [][]uint64{{1}, {2}}, []int{2}},
		{"neighbours with one fate go together", false, []string{"Uo.", "x", "U.", "U.", "q.", "u.", "."}, []string{ok, refused, ok, ok, ok, ok, ok},
			[][]uint64{{1, 1, 1}, {2}, {3, 3}, {4, 4}, {5, 8}, {6, 6}, {7}}, []int{7, 1, 2, 1, 1, 1}},
		{"neighbours with different fates do not", false, []string{"?u.", "?o.", "?x"}, []string{ok, ok, unknown}, [][]uint64{{1, 1, 1}, {2, 2, 2}, {3, 3}}, []int{3, 3, 1, 1}},
		{"the session has ended", false, []string{"s.", "s."}, []string{ok, ok}, [][]uint64{{1, 1}, {2, 2}}, []int{2, 2}},
		{"the session has ended, for one who will not wait", true, []string{"s.", "x"}, []string{ok, refused}, [][]uint64{{1, 1}, {2}}, []int{2, 1}},
		{"the session has ended since the answer was lost", false, []string{"!s", "?s"}, []string{unknown, unknown}, [][]uint64{{1, 1}, {2, 2}}, []int{2, 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFake(t, 1)
			c := open(t, f, Options{FailWhenFull: tc.failFull})
			s := newSendings(f, tc.script...)
			for i, err := range s.enqueue(t, c) {
				got := ok
				switch {
				case Unknown(err):
					got = unknown
				case err != nil:
					got = refused
				}
				f.mu.Lock()
				times := f.seen[fmt.Sprint(i)]
				f.mu.Unlock()
				if got != tc.ends[i] {
					t.Errorf("message %d ended with %v, want %s", i, err, tc.ends[i])
				}
				if times > 1 || got == ok && times != 1 || got == refused && times != 0 {
					t.Errorf("message %d ended with %v and is in the log %d times", i, err, times)
				}
			}
			f.do(func() {
				// Runs that wait differently long come in any order.
				slices.Sort(s.frames[1:])
				slices.Sort(tc.frames[1:])
				if led := strings.Contains(strings.Join(tc.script, ""), "n"); led && len(s.conns) < 2 {
					t.Error("the connection was kept to a node that leads no more")
				}
				if fmt.Sprint(s.numbers) != fmt.Sprint(tc.numbers) || !slices.Equal(s.frames, tc.frames) {
					t.Errorf("sent under %v in requests of %d, want %v in %d", s.numbers, s.frames, tc.numbers, tc.frames)
				}
			})
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.pending != 0 || len(c.later) != 0 || c.lowLocked() != c.next || len(c.held) != 0 {
				t.Errorf("left: %d pending, %d waiting, low %d of %d, %d holds", c.pending, len(c.later), c.lowLocked(), c.next, len(c.held))
			}
		})
	}
}

// What was given up while the batch was out is not sent again with what keeps its number, and its number counts as answered.
func TestGivenUpMessageLeavesItsRun(t *testing.T) {
	f := newFake(t, 1)
	c := open(t, f, Options{})
	s := newSendings(f, "u.", "u.", "u.")
	s.away(t, c)
	var conn *fakeConn
	var held wire.Raw
	f.do(func() {
		f.hook = func(fc *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
			if r.Type == wire.TypeEnqueue && conn == nil {
				conn, held = fc, wire.Raw{Type: r.Type, Tag: r.Tag, Body: slices.Clone(r.Body)}
				return ignore, nil
			}
			return s.judge(fc, r)
		}
	})
	ends := make(chan error, 2)
	add := func(body string) {
		if err := c.EnqueueAsync(t.Context(), "q", Message{Body: []byte(body)}, func(_ Receipt, err error) { ends <- err }); err != nil {
			t.Fatal(err)
		}
	}
	add("0")
	ctx, cancel := cancelled(t)
	given := make(chan error, 1)
	go func() {
		_, err := c.Enqueue(ctx, "q", Message{Body: []byte("1")})
		given <- err
	}()
	until(t, "two messages", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.pending == 2 })
	add("2")
	f.lead(0, false) // and they share a request
	until(t, "the request", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return conn != nil })
	cancel()
	if err := <-given; !Unknown(err) {
		t.Errorf("given up with %v, want unknown", err)
	}
	f.do(func() {
		if v, fault := s.judge(conn, held); v != ignore || fault != nil {
			t.Error("the request was not answered")
		}
		conn.flush()
	})
	for range 2 {
		if err := <-ends; err != nil {
			t.Error(err)
		}
	}
	f.do(func() {
		if fmt.Sprint(s.numbers) != "[[1 1] [2] [3 3]]" {
			t.Errorf("sent under %v, want the second one once", s.numbers)
		}
		if f.seen["0"] != 1 || f.seen["1"] != 0 || f.seen["2"] != 1 {
			t.Errorf("in the log: %v", f.seen)
		}
	})
}

// The operations on several dead letters hear of the end of their session id by id too.
func TestSessionEndsUnderDeadLetters(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("an answer was lost=%t", lost), func(t *testing.T) {
			f := newFake(t, 1)
			c := open(t, f, Options{})
			var numbers []uint64
			f.do(func() {
				f.hook = func(fc *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
					if r.Type != wire.TypeDeadRequeue {
						return pass, nil
					}
					req := decode[wire.DeadIDs](fc, r)
					numbers = append(numbers, req.Request.Number)
					a := wire.Enqueued{At: wire.At{Index: 7}, Outcomes: make([]wire.Outcome, len(req.IDs))}
					switch {
					case lost && len(numbers) == 1:
						return hangUp, nil
					case !lost && len(numbers) == 2:
						for i := range a.Outcomes {
							a.Outcomes[i].ID = req.IDs[i]
						}
					default:
						delete(f.sessions, fc.session.id)
						for i := range a.Outcomes {
							a.Outcomes[i].Fault = f.judged(wire.NewFault(wire.CodeSessionExpired, "ended"))
						}
					}
					fc.push(wire.TypeEnqueued, r.Tag, &a)
					return ignore, nil
				}
			})
			id := strings.Repeat("0", wire.IDBytes)
			_, errs := c.Requeue(t.Context(), "q", id, id)
			for _, err := range errs {
				if lost != (errors.Is(err, ErrSessionExpired) && Unknown(err)) || !lost && err != nil {
					t.Errorf("ended with %v", err)
				}
			}
			f.do(func() {
				if want := []uint64{1, 1}; !slices.Equal(numbers, want) {
					t.Errorf("numbers %v, want %v", numbers, want)
				}
			})
		})
	}
}
