package transport

import (
	"bufio"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/quorate/quorate/transport/httpapi"
)

// The access log has a line for every HTTP request when it has been answered, and two for every WebSocket. A line names the route and not the
// path, in which tokens and keys stand, and nothing of a query, a body, or a header but the request's id and the node that has sent it on.

// counting counts what is answered through it.
type counting struct {
	http.ResponseWriter
	status int
	bytes  int64
	taken  bool // the socket was taken away
}

// Unwrap is for http.ResponseController.
func (c *counting) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *counting) WriteHeader(status int) {
	if c.status == 0 {
		c.status = status
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *counting) Write(b []byte) (int, error) {
	if c.status == 0 {
		c.status = http.StatusOK
	}
	n, err := c.ResponseWriter.Write(b)
	c.bytes += int64(n)
	return n, err
}

// Hijack is for WebSockets.
func (c *counting) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(c.ResponseWriter).Hijack()
	c.taken = c.taken || err == nil
	return conn, rw, err
}

// accessed logs what h answers. A WebSocket, which takes its socket away, has lines of its own.
func (s *Server) accessed(h http.Handler) http.Handler {
	if s.cfg.AccessLog == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		c := &counting{ResponseWriter: w}
		defer func() {
			if c.taken { // by a WebSocket
				return
			}
			attrs := []slog.Attr{slog.String("method", r.Method[:min(len(r.Method), 20)]), slog.String("route", routeOf(r)), slog.Int("code", c.status),
				slog.Int64("bytes", c.bytes), slog.Duration("took", time.Since(began)), slog.String("remote", r.RemoteAddr)}
			if id := w.Header().Get("X-Request-Id"); id != "" {
				attrs = append(attrs, slog.String("request", id))
			}
			if by := httpapi.SentOnBy(r); by != "" {
				attrs = append(attrs, slog.String("by", by))
			}
			s.cfg.AccessLog.LogAttrs(r.Context(), slog.LevelInfo, "http", attrs...)
		}()
		h.ServeHTTP(c, r)
	})
}

// routeOf is the pattern that a request was found by, without the method.
func routeOf(r *http.Request) string {
	if at := strings.IndexByte(r.Pattern, '/'); at >= 0 && r.Pattern != "/" {
		return r.Pattern[at:]
	}
	return "none"
}

// logged says that a WebSocket has been opened, and gives what is to be called when all that belongs to it has ended.
func (c *conn) logged() (ended func()) {
	log := c.srv.cfg.AccessLog
	if log == nil {
		return func() {}
	}
	began := time.Now()
	log.Info("websocket opened", "remote", c.remote)
	return func() {
		c.mu.Lock()
		code := c.closeCode
		c.mu.Unlock()
		log.Info("websocket closed", "remote", c.remote, "code", code, "bytes_in", c.bytesIn, "bytes_out", c.bytesOut, "took", time.Since(began))
	}
}
