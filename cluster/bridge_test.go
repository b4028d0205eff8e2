package cluster

import (
	"bytes"
	"errors"
	"log"
	"log/slog"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

func TestLogBridges(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	l := slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	h := newHCLog(l, "raft")
	h.Debug("not said")
	h.Trace("not said")
	h.Info("entering leader state", "term", 3, "servers", hclog.Fmt("%d of %d", 2, 3))
	h.With("peer", "n2").Named("net").Error("failed to heartbeat", "error", errors.New("refused"))
	for range 5 {
		h.Error("failed to heartbeat to", "peer", "n3", "error", "refused")
		h.Error("failed to heartbeat to", "peer", "n4", "error", "refused")
	}
	m := log.New(lineWriter{l.With("component", "gossip")}, "", 0)
	m.Print("[DEBUG] memberlist: not said")
	m.Print("[INFO] memberlist: Suspect n2 has failed")
	m.Print("[ERR] memberlist: Push/Pull failed")
	got := b.String()
	for _, want := range []string{
		`level=INFO msg="entering leader state" component=raft term=3 servers="2 of 3"`,
		`level=WARN msg="failed to heartbeat" component=raft peer=n2 component=raft.net error=refused`,
		`level=INFO msg="Suspect n2 has failed" component=gossip`,
		`level=WARN msg="Push/Pull failed" component=gossip`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if n := strings.Count(got, "failed to heartbeat to"); n != 2 {
		t.Errorf("repeated warnings of two peers are said %d times, want once each:\n%s", n, got)
	}
	if strings.Contains(got, "not said") {
		t.Errorf("debug is said:\n%s", got)
	}
}
