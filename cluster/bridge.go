package cluster

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// hclogBridge makes a slog.Logger out of what raft logs. Raft reports an unreachable peer as an error at every heartbeat;
// an error here is something that someone must act on, so that its errors arrive as warnings.
type hclogBridge struct {
	log    *slog.Logger
	name   string
	args   []any
	recent *recent
}

// recent tells what has just been said: raft repeats that a peer cannot be reached eight times a second, for ever.
type recent struct {
	mu   sync.Mutex
	said map[string]time.Time
}

const (
	// sayAgain is how long the same warning about the same peer is not said again, maxRecent how many of them are
	// remembered.
	sayAgain  = 30 * time.Second
	maxRecent = 256
)

// fresh says whether key has not been said lately, and that it is said now.
func (r *recent) fresh(key string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, ok := r.said[key]; ok && now.Sub(at) < sayAgain {
		return false
	}
	if len(r.said) >= maxRecent {
		clear(r.said)
	}
	r.said[key] = now
	return true
}

var _ hclog.Logger = (*hclogBridge)(nil)

func newHCLog(l *slog.Logger, component string) hclog.Logger {
	return &hclogBridge{log: l.With("component", component), name: component, recent: &recent{said: map[string]time.Time{}}}
}

func slogLevel(l hclog.Level) slog.Level {
	switch l {
	case hclog.Info:
		return slog.LevelInfo
	case hclog.Warn, hclog.Error:
		return slog.LevelWarn
	default:
		return slog.LevelDebug
	}
}

func (b *hclogBridge) Log(level hclog.Level, msg string, args ...any) {
	l := slogLevel(level)
	if level == hclog.Off || !b.log.Enabled(context.Background(), l) {
		return
	}
	if l == slog.LevelWarn {
		key := msg
		for i := 0; i+1 < len(args); i += 2 {
			if args[i] == "peer" || args[i] == "server-id" {
				key += fmt.Sprint(" ", args[i+1])
			}
		}
		if !b.recent.fresh(key, time.Now()) {
			l = slog.LevelDebug
		}
	}
	for i, a := range args {
		if f, ok := a.(hclog.Format); ok && len(f) > 0 {
			if text, ok := f[0].(string); ok {
				args[i] = fmt.Sprintf(text, f[1:]...)
			}
		}
	}
	b.log.Log(context.Background(), l, msg, args...)
}

func (b *hclogBridge) Trace(msg string, args ...any) {}
func (b *hclogBridge) Debug(msg string, args ...any) { b.Log(hclog.Debug, msg, args...) }
func (b *hclogBridge) Info(msg string, args ...any)  { b.Log(hclog.Info, msg, args...) }
func (b *hclogBridge) Warn(msg string, args ...any)  { b.Log(hclog.Warn, msg, args...) }
func (b *hclogBridge) Error(msg string, args ...any) { b.Log(hclog.Error, msg, args...) }

func (b *hclogBridge) enabled(l slog.Level) bool { return b.log.Enabled(context.Background(), l) }
func (b *hclogBridge) IsTrace() bool             { return false }
func (b *hclogBridge) IsDebug() bool             { return b.enabled(slog.LevelDebug) }
func (b *hclogBridge) IsInfo() bool              { return b.enabled(slog.LevelInfo) }
func (b *hclogBridge) IsWarn() bool              { return b.enabled(slog.LevelWarn) }
func (b *hclogBridge) IsError() bool             { return b.enabled(slog.LevelWarn) }
func (b *hclogBridge) ImpliedArgs() []any        { return b.args }
func (b *hclogBridge) Name() string              { return b.name }
func (b *hclogBridge) SetLevel(hclog.Level)      {}
func (b *hclogBridge) GetLevel() hclog.Level {
	switch {
	case b.IsDebug():
		return hclog.Debug
	case b.IsInfo():
		return hclog.Info
	default:
		return hclog.Warn
	}
}

func (b *hclogBridge) With(args ...any) hclog.Logger {
	return &hclogBridge{log: b.log.With(args...), name: b.name, args: append(b.args[:len(b.args):len(b.args)], args...), recent: b.recent}
}

func (b *hclogBridge) Named(name string) hclog.Logger {
	return b.ResetNamed(b.name + "." + name)
}

func (b *hclogBridge) ResetNamed(name string) hclog.Logger {
	return &hclogBridge{log: b.log.With("component", name), name: name, args: b.args, recent: b.recent}
}

func (b *hclogBridge) StandardLogger(o *hclog.StandardLoggerOptions) *log.Logger {
	return log.New(b.StandardWriter(o), "", 0)
}

func (b *hclogBridge) StandardWriter(*hclog.StandardLoggerOptions) io.Writer {
	return lineWriter{b.log}
}

// lineWriter takes lines like "2026/11/28 00:00:00 [WARN] memberlist: text", as memberlist writes them, one a call.
type lineWriter struct{ log *slog.Logger }

func (w lineWriter) Write(p []byte) (int, error) {
	line := strings.TrimSpace(string(p))
	level := slog.LevelDebug
	for _, t := range []struct {
		tag   string
		level slog.Level
	}{{"[ERR] ", slog.LevelWarn}, {"[ERROR] ", slog.LevelWarn}, {"[WARN] ", slog.LevelWarn}, {"[INFO] ", slog.LevelInfo}, {"[DEBUG] ", slog.LevelDebug}} {
		if _, rest, ok := strings.Cut(line, t.tag); ok {
			line, level = strings.TrimPrefix(rest, "memberlist: "), t.level
			break
		}
	}
	if strings.Contains(line, "unexpected node") {
		// Others still look for the last start of this node, which had another name.
		level = slog.LevelDebug
	}
	w.log.Log(context.Background(), level, line)
	return len(p), nil
}
