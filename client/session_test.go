package client

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/wire"
)

// A touch that failed is about the session that it was for, and looks at none that has come since: whoever ends the call does not hold the lock.
func TestFailedTouchNamesItsSession(t *testing.T) {
	var logged bytes.Buffer
	c := &Client{log: slog.New(slog.NewTextHandler(&logged, nil)), epoch: time.Now(), session: "one", alarm: make(chan struct{}, 1)}
	c.touchLocked()
	cl := c.plain.front()
	end := c.endLocked(cl, errors.New("no answer"))
	opened := make(chan struct{})
	go func() { // as a connection that opens another one meanwhile
		c.mu.Lock()
		c.session = "two"
		c.mu.Unlock()
		close(opened)
	}()
	end()
	<-opened
	if got := logged.String(); !strings.Contains(got, "session=one") {
		t.Errorf("logged %s, want the session that was touched", got)
	}
	logged.Reset()
	c.touchLocked()
	end = c.endLocked(c.plain.front(), errors.New("no answer"))
	c.session = "three"
	if end(); !strings.Contains(logged.String(), "session=two") {
		t.Errorf("logged %s, want the session that was touched", &logged)
	}
}

// All calls that are out when their session ends are ended, however many: the numbers of those behind are kept in less room as the first ones go.
func TestSessionEndsUnderManyCalls(t *testing.T) {
	const n = 3000
	f := newFake(t, 1)
	c := open(t, f, Options{Timeout: time.Minute})
	seen := 0
	f.do(func() {
		f.hook = func(_ *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
			if r.Type == wire.TypeBatchSeal {
				seen++
				return ignore, nil
			}
			return pass, nil
		}
	})
	ends := make(chan error, n)
	for range n {
		b := &wire.BatchSeal{}
		if err := c.submit(&call{typ: wire.TypeBatchSeal, body: b, req: &b.Request, count: 1, size: 256, notify: func(err error) { ends <- err }}); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "all to be out", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return seen == n })
	f.do(func() {
		clear(f.sessions)
		for fc := range f.conns {
			_ = fc.ws.UnderlyingConn().Close()
		}
	})
	late := time.NewTimer(30 * time.Second)
	defer late.Stop()
	for i := range n {
		select {
		case err := <-ends:
			if !errors.Is(err, ErrSessionExpired) || !Unknown(err) {
				t.Fatalf("ended with %v", err)
			}
		case <-late.C:
			t.Fatalf("%d of %d calls have ended", i, n)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.ring) != c.ringHead || len(c.liveLocked()) > 0 {
		t.Errorf("%d numbers are taken, %d calls live", len(c.ring)-c.ringHead, len(c.liveLocked()))
	}
}

// A time-out that says that nothing was done is no unknown outcome, however often it comes.
func TestTimeoutThatIsCertain(t *testing.T) {
	f := newFake(t, 1)
	c := open(t, f, Options{Timeout: 300 * time.Millisecond})
	busy := wire.NewFault(wire.CodeTimeout, "another change is under way")
	busy.Unknown = false
	f.do(func() {
		f.hook = func(_ *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
			if r.Type == wire.TypeClusterRemove {
				return pass, busy
			}
			return pass, nil
		}
	})
	err := c.Remove(t.Context(), "n1")
	if err == nil || Unknown(err) || !strings.Contains(err.Error(), "another change is under way") {
		t.Errorf("ended with %v, want what the server said, and nothing unknown", err)
	}
}

// An edit that is refused is an answer like any other, and the connection goes on.
func TestRefusedEditKeepsTheConnection(t *testing.T) {
	f := newFake(t, 1)
	c := open(t, f, Options{})
	f.do(func() {
		f.hook = func(fc *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
			if r.Type != wire.TypeDeadEdit {
				return pass, nil
			}
			fc.push(wire.TypeEnqueued, r.Tag, &wire.Enqueued{Outcomes: []wire.Outcome{{Fault: wire.NewFault(wire.CodeNotFound, "no such letter")}}})
			return ignore, nil
		}
	})
	before := f.greeted()
	if _, err := c.RequeueEdited(t.Context(), "q", "00000000000000000000000001", Message{Body: []byte("b")}, EditBody); !errors.Is(err, ErrNotFound) {
		t.Errorf("ended with %v, want %v", err, ErrNotFound)
	}
	enqueueOne(t, c, "goes on")
	if after := f.greeted(); after != before {
		t.Errorf("%d connections were made anew", after-before)
	}
}

// greeted is how many connections have said hello.
func (f *fake) greeted() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hellos
}
