package main

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A command without a leader says after two seconds what it waits for, once, and when it has found one; nothing where one is
// found sooner, or the command ends first.
func TestWaiting(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(s *waiting, log *slog.Logger)
		want string
	}{
		{"found at once", func(*waiting, *slog.Logger) {}, ""},
		{"never found", func(_ *waiting, log *slog.Logger) {
			log.Info("not connected", "err", errors.New("connection refused"))
			<-time.After(waitingAfter)
		}, "no leader can be reached at a:1,b:2 (connection refused); a call waits for one up to --call-timeout 30s\n"},
		{"found late", func(_ *waiting, log *slog.Logger) {
			log.Debug("not connected", "err", errors.New("x"))
			<-time.After(waitingAfter + time.Second)
			log.Debug("not connected", "err", errors.New("y"))
			<-time.After(waitingAfter)
			log.Info("connected")
		}, "no leader can be reached at a:1,b:2 (x); a call waits for one up to --call-timeout 30s\nquorate: connected to the leader\n"},
		{"lost for a moment", func(_ *waiting, log *slog.Logger) {
			log.Info("connected")
			log.Info("not connected", "err", errors.New("x"))
			<-time.After(waitingAfter - time.Millisecond)
			log.Info("connected")
			<-time.After(time.Minute)
		}, ""},
		{"lost for longer", func(_ *waiting, log *slog.Logger) {
			log.Info("connected")
			<-time.After(time.Minute)
			log.Info("not connected", "err", errors.New("x"))
			<-time.After(waitingAfter)
		}, "no leader can be reached at a:1,b:2 (x); a call waits for one up to --call-timeout 30s\n"},
		{"ended first", func(s *waiting, log *slog.Logger) {
			log.Info("not connected", "err", errors.New("x"))
			s.end()
			<-time.After(time.Minute)
			log.Info("not connected", "err", errors.New("x"))
			<-time.After(time.Minute)
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				s := newWaiting(&out, "a:1,b:2", 30*time.Second, waitingAfter)
				c.run(s, slog.New(s).With("component", "client"))
				synctest.Wait()
				s.end()
				want := c.want
				if want != "" {
					want = "quorate: " + want
				}
				if out.String() != want {
					t.Errorf("said %q, want %q", out.String(), want)
				}
			})
		})
	}
}

func TestNoLeaderIsSaid(t *testing.T) {
	t.Parallel()
	code, out, errs := cliRun(t, "127.0.0.1:1", "", "queue", "list", "--call-timeout", "6s") // long after the two seconds
	if code != exitUnavailable || out != "" || !strings.Contains(errs, "no leader can be reached at 127.0.0.1:1 (nothing listens at 127.0.0.1:1); a call") || strings.Count(errs, "\n") != 2 {
		t.Errorf("exit %d, stdout %q, stderr %q", code, out, errs)
	}
}
