package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

// waitingAfter is how long a command may be without a leader before it says what it waits for.
const waitingAfter = 2 * time.Second

// waiting says on stderr that no leader can be reached, and when one is. It hears of that as the client's log.
type waiting struct {
	w     io.Writer
	addr  string
	bound string // how long it goes on
	after time.Duration

	mu    sync.Mutex
	timer *time.Timer // runs while there is no connection and nothing was said; guarded by mu
	why   error       // why there is none, nil: nothing was heard yet; guarded by mu
	said  bool        // guarded by mu
	ended bool        // guarded by mu
}

func newWaiting(w io.Writer, addr string, most, after time.Duration) *waiting {
	s := &waiting{w: w, addr: addr, bound: most.String(), after: after}
	s.lost(nil)
	return s
}

// lost notes that there is no connection to a leader.
func (s *waiting) lost(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if why != nil {
		s.why = why
	}
	if s.timer == nil && !s.said && !s.ended {
		s.timer = time.AfterFunc(s.after, s.say)
	}
}

func (s *waiting) say() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer == nil || s.ended { // there was a connection meanwhile
		return
	}
	s.timer, s.said = nil, true
	why := ""
	if said := heard(s.why).text(); said != "" {
		why = " (" + said + ")"
	}
	fmt.Fprintf(s.w, "quorate: no leader can be reached at %s%s; a call waits for one up to --call-timeout %s\n", s.addr, why, s.bound)
}

// found notes that there is one.
func (s *waiting) found() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	if s.said && !s.ended {
		fmt.Fprintln(s.w, "quorate: connected to the leader")
	}
	s.said = false
}

// last is why there was no leader the last time.
func (s *waiting) last() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}

// end is the end of the command: nothing is said any more.
func (s *waiting) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
}

// Enabled is of slog.Handler.
func (s *waiting) Enabled(context.Context, slog.Level) bool { return true }

// Handle is of slog.Handler: it hears of connections.
func (s *waiting) Handle(_ context.Context, r slog.Record) error {
	switch r.Message {
	case "connected":
		s.found()
	case "not connected":
		var why error
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "err" {
				why, _ = a.Value.Any().(error)
			}
			return true
		})
		s.lost(why)
	}
	return nil
}

// WithAttrs is of slog.Handler.
func (s *waiting) WithAttrs([]slog.Attr) slog.Handler { return s }

// WithGroup is of slog.Handler.
func (s *waiting) WithGroup(string) slog.Handler { return s }
