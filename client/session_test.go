package client

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
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
