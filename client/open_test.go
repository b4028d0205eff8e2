package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/wire"
)

func enqueueOne(t *testing.T, c *Client, body string) Receipt {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	r, err := c.Enqueue(ctx, "q", Message{Body: []byte(body)})
	if err != nil {
		t.Fatalf("enqueue %s: %v", body, err)
	}
	return r
}

// deadAddr is where nobody listens; a port that has just been let go could be given to somebody else.
const deadAddr = "127.0.0.1:1"

// silentAddr accepts connections and never says a word.
func silentAddr(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln.Addr().String()
}

// C24: whoever of the cluster is named, the user ends up at the leader without noticing.
func TestOpenFindsTheLeader(t *testing.T) {
	for _, tc := range []struct {
		name  string
		addrs func(t *testing.T, f *fake) []string
	}{
		{"the leader itself", func(_ *testing.T, f *fake) []string { return []string{f.nodes[2].addr} }},
		{"a follower", func(_ *testing.T, f *fake) []string { return []string{f.nodes[0].addr} }},
		{"a dead node and two live ones", func(_ *testing.T, f *fake) []string {
			return []string{deadAddr, f.nodes[0].addr, f.nodes[1].addr}
		}},
		{"a silent node and a follower", func(t *testing.T, f *fake) []string { return []string{silentAddr(t), f.nodes[1].addr} }},
		{"all", func(_ *testing.T, f *fake) []string { return f.addrs() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFake(t, 3)
			f.leader = 2
			c := open(t, f, Options{Addrs: tc.addrs(t, f)})
			if r := enqueueOne(t, c, "x"); r.ID == "" || r.TaskID != r.ID || r.Index == 0 {
				t.Fatalf("receipt %+v", r)
			}
		})
	}
}

func TestOpenFails(t *testing.T) {
	for _, tc := range []struct {
		name string
		o    func(t *testing.T) Options
		want error
		fast bool // must not take until the context ends
	}{
		{"no address", func(*testing.T) Options { return Options{} }, nil, true},
		{"address without port", func(*testing.T) Options { return Options{Addrs: []string{"localhost"}} }, nil, true},
		{"negative timeout", func(*testing.T) Options { return Options{Addrs: []string{"a:1"}, Timeout: -1} }, nil, true},
		{"too much pending", func(*testing.T) Options { return Options{Addrs: []string{"a:1"}, MaxPending: 1 << 30} }, nil, true},
		{"nobody there", func(*testing.T) Options { return Options{Addrs: []string{deadAddr}} }, ErrUnavailable, false},
		{"no leader", func(t *testing.T) Options {
			f := newFake(t, 2)
			f.leader = -1
			return Options{Addrs: f.addrs()}
		}, ErrUnavailable, false},
		{"followers that name each other", func(t *testing.T) Options {
			f := newFake(t, 2)
			f.leader = -1
			f.hint = f.nodes[1].addr
			return Options{Addrs: f.addrs()[:1]}
		}, ErrUnavailable, false},
		{"version refused", func(t *testing.T) Options {
			f := newFake(t, 1)
			f.hook = func(_ *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
				return pass, wire.NewFault(wire.CodeUnsupportedVersion, "versions 7 to 9")
			}
			return Options{Addrs: f.addrs()}
		}, ErrUnsupportedVersion, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			limit := 700 * time.Millisecond
			if tc.fast { // as fast as the machine is
				limit = 10 * time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			start := time.Now()
			c, err := Open(ctx, tc.o(t))
			if err == nil {
				_ = c.Close(t.Context())
				t.Fatal("open succeeded")
			}
			if tc.want != nil && !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
			if took := time.Since(start); took > limit+5*time.Second || (tc.fast && ctx.Err() != nil) {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestOpenRefusesAnotherProtocol(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute}
	go func() { _ = srv.Serve(ln) }()
	defer func() { _ = srv.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = Open(ctx, Options{Addrs: []string{ln.Addr().String()}})
	if !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("error %v", err)
	}
}

// The leader moves by a redirect, by refusals, and by dying: nobody notices but by delay.
func TestLeaderMoves(t *testing.T) {
	for _, how := range []string{"redirect", "silent", "killed"} {
		t.Run(how, func(t *testing.T) {
			f := newFake(t, 3)
			f.keepLog = true
			c := open(t, f, Options{})
			for i := range 5 {
				enqueueOne(t, c, fmt.Sprint(i))
				next := (f.leader + 1) % 3
				switch how {
				case "redirect":
					f.lead(next, true)
				case "silent": // the old one answers not_leader
					f.lead(next, false)
				case "killed":
					old := f.nodes[f.leader]
					f.lead(next, false)
					old.kill()
					defer old.kill()
					old.listen(old.addr)
				}
			}
			enqueueOne(t, c, "last")
			f.do(func() {
				if len(f.log) != 6 {
					t.Errorf("log %q, want 6 messages, each once", f.log)
				}
				if len(f.sessions) != 1 {
					t.Errorf("%d sessions, want the one that moved along", len(f.sessions))
				}
			})
		})
	}
}

// A server that redirects in a circle, or hangs up at once, is not hammered.
func TestReconnectStormsAreBounded(t *testing.T) {
	for _, how := range []string{"circle", "hangs up"} {
		t.Run(how, func(t *testing.T) {
			f := newFake(t, 2)
			c := open(t, f, Options{})
			f.do(func() {
				f.hellos = 0
				f.hook = func(fc *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
					switch {
					case how == "hangs up" && r.Type == wire.TypeOpenSession:
						return hangUp, nil
					case how == "circle" && r.Type == wire.TypeOpenSession:
						f.leader = 1 - f.leader
						fault := wire.NewFault(wire.CodeNotLeader, "go there")
						fault.Leader = f.leaderAddr()
						return pass, fault
					}
					return pass, nil
				}
			})
			f.lead(1, true)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			start := time.Now()
			go func() { // after 1.5 s, and three connections, which may take longer on a busy machine
				defer cancel()
				<-time.After(1500 * time.Millisecond)
				until(t, "three connections", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.hellos >= 3 })
			}()
			if _, err := c.Enqueue(ctx, "q", Message{}); !errors.Is(err, context.Canceled) {
				t.Errorf("enqueue: %v", err)
			}
			f.do(func() {
				took := time.Since(start)
				if most := int(40 * took / (1500 * time.Millisecond)); f.hellos > most {
					t.Errorf("%d connections in %v, want a few, at most %d", f.hellos, took, most)
				}
				f.hook = nil
			})
			enqueueOne(t, c, "after")
		})
	}
}

// A connection on which the server has fallen silent is given up within some pings; one lost pong does not end it.
func TestHalfOpenConnection(t *testing.T) {
	f := newFake(t, 2)
	f.keepLog = true
	f.ping = 250 * time.Millisecond
	c := open(t, f, Options{})
	enqueueOne(t, c, "a")
	f.do(func() {
		for fc := range f.conns {
			fc.mute = true
		}
	})
	start := time.Now()
	enqueueOne(t, c, "b")
	if took := time.Since(start); took > 8*time.Second {
		t.Errorf("took %v", took)
	}
	f.do(func() {
		if f.seen["b"] != 1 {
			t.Errorf("b is in %d times", f.seen["b"])
		}
	})
}

// C24: the leader stands still and closes nothing. The others have a new one, and say so long before the pings would.
func TestFrozenLeader(t *testing.T) {
	f := newFake(t, 3)
	f.keepLog = true
	f.ping = 30 * time.Second
	c := open(t, f, Options{})
	enqueueOne(t, c, "a")
	f.do(func() {
		for fc := range f.conns {
			fc.mute = true
		}
		f.leader = 1
	})
	start := time.Now()
	enqueueOne(t, c, "b")
	if took := time.Since(start); took < suspectAfter || took > 8*time.Second {
		t.Errorf("took %v", took)
	}
	f.do(func() {
		if f.seen["b"] != 1 {
			t.Errorf("b is in %d times", f.seen["b"])
		}
	})
}

// The same for a client that waits for deliveries and owes nothing: the missing pong makes it ask.
func TestFrozenLeaderOfAConsumer(t *testing.T) {
	f := newFake(t, 3)
	f.ping = 4 * time.Second
	c := open(t, f, Options{})
	got := make(chan string, 1)
	stop := consuming(t, c, ConsumeOptions{}, func(_ context.Context, d *Delivery) (*Result, error) {
		got <- string(d.Body)
		return nil, nil
	})
	f.put("q", "a")
	<-got
	until(t, "the ack", func() bool { return f.state("q") == "done 1" && c.sent() == 0 })
	start := time.Now()
	f.do(func() {
		for fc := range f.conns {
			fc.mute = true
		}
		f.leader = 1
	})
	f.put("q", "b")
	<-got
	if took := time.Since(start); took > 8800*time.Millisecond {
		t.Errorf("took %v, want less than the read deadline", took)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// A leader that is only slow keeps its connection, whatever the silence: nobody names another.
func TestSlowLeaderIsKept(t *testing.T) {
	f := newFake(t, 3)
	f.ping = 30 * time.Second
	c := open(t, f, Options{})
	var late *fakeConn
	var frame wire.Raw
	f.do(func() {
		f.hook = func(fc *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
			if r.Type == wire.TypeEnqueue && late == nil {
				late, frame = fc, wire.Raw{Type: r.Type, Tag: r.Tag, Body: slices.Clone(r.Body)}
				return ignore, nil
			}
			return pass, nil
		}
		f.hellos = 0
	})
	answer := make(chan error, 1)
	if err := c.EnqueueAsync(t.Context(), "q", Message{}, func(_ Receipt, err error) { answer <- err }); err != nil {
		t.Fatal(err)
	}
	until(t, "the others to be asked", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.hellos >= 2 })
	f.do(func() {
		late.carryOut(frame)
		late.flush()
		if f.attaches != 1 {
			t.Errorf("attached %d times", f.attaches)
		}
	})
	if err := <-answer; err != nil {
		t.Error(err)
	}
}

func TestCloseTwice(t *testing.T) {
	f := newFake(t, 1)
	c := open(t, f, Options{})
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Enqueue(t.Context(), "q", Message{}); !errors.Is(err, ErrClosed) {
		t.Errorf("enqueue after close: %v", err)
	}
	if err := c.EnqueueAsync(t.Context(), "q", Message{}, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("enqueue after close: %v", err)
	}
	if _, err := c.Queue(t.Context(), "q"); !errors.Is(err, ErrClosed) {
		t.Errorf("queue after close: %v", err)
	}
	if err := c.Consume(t.Context(), "q", ConsumeOptions{}, nop); !errors.Is(err, ErrClosed) {
		t.Errorf("consume after close: %v", err)
	}
}

// Close lets what is under way be answered, and says unknown of what is not.
func TestCloseWithWorkUnderWay(t *testing.T) {
	for _, answered := range []bool{true, false} {
		t.Run(fmt.Sprintf("answered=%v", answered), func(t *testing.T) {
			f := newFake(t, 1)
			f.keepLog = true
			c := open(t, f, Options{})
			if !answered {
				f.do(func() {
					f.hook = func(_ *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
						if r.Type == wire.TypeEnqueue {
							return lose, nil
						}
						return pass, nil
					}
				})
			}
			got := make(chan error, 100)
			for i := range 100 {
				err := c.EnqueueAsync(t.Context(), "q", Message{Body: fmt.Append(nil, i)}, func(_ Receipt, err error) { got <- err })
				if err != nil {
					t.Fatal(err)
				}
			}
			if !answered {
				until(t, "the messages to be in the log", func() bool {
					f.mu.Lock()
					defer f.mu.Unlock()
					return len(f.log) == 100
				})
			}
			limit := 10 * time.Second
			if !answered {
				limit = 500 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			err := c.Close(ctx)
			if (err == nil) != answered {
				t.Errorf("close: %v", err)
			}
			for range 100 {
				switch err := <-got; {
				case answered && err != nil:
					t.Fatalf("enqueue: %v", err)
				case !answered && (!Unknown(err) || !errors.Is(err, ErrClosed)):
					t.Fatalf("enqueue: %v, want unknown and closed", err)
				}
			}
		})
	}
}
