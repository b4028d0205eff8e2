package transport

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gorilla/websocket"

	"github.com/quorate/quorate/wire"
)

// serveSocket turns GET /v1/ws into a connection and serves it until it ends. What is wrong with the request is answered
// in plain HTTP, so that it can be read with any tool.
func (s *Server) serveSocket(w http.ResponseWriter, r *http.Request) {
	if s.draining.Load() {
		w.Header().Set("Retry-After", "1")
		plainText(w, http.StatusServiceUnavailable, "this node is stopping: connect to another\n")
		return
	}
	if websocket.IsWebSocketUpgrade(r) {
		offered := websocket.Subprotocols(r)
		if !slices.Contains(offered, wire.Subprotocol) {
			got := "none was offered"
			if len(offered) > 0 {
				got = fmt.Sprintf("%.100q was offered", strings.Join(offered, ", "))
			}
			plainText(w, http.StatusBadRequest, fmt.Sprintf("subprotocol: %s; Sec-WebSocket-Protocol: %s would be right\n", got, wire.Subprotocol))
			return
		}
	}
	c := newConn(s, r)
	if !s.join(c) {
		s.metrics.refused.Inc()
		w.Header().Set("Retry-After", "5")
		plainText(w, http.StatusServiceUnavailable, fmt.Sprintf("this node serves %d connections and no more: connect to another, or later\n", s.cfg.MaxConnections))
		return
	}
	defer s.leave(c)
	up := websocket.Upgrader{
		HandshakeTimeout: s.cfg.HelloTimeout,
		// Buffer sizes 0: the HTTP server's two of 4 KiB are used on. What is longer goes past them.
		Subprotocols: []string{wire.Subprotocol},
		// No EnableCompression: an offer is declined, so a read limit counts what it says.
		CheckOrigin: sameHost,
		Error: func(w http.ResponseWriter, _ *http.Request, status int, reason error) {
			w.Header().Set("Sec-Websocket-Version", "13")
			text := strings.TrimPrefix(reason.Error(), "websocket: ")
			if status == http.StatusForbidden {
				text = fmt.Sprintf("origin %.100q is not this host: pages of other sites may not connect", r.Header.Get("Origin"))
			}
			plainText(w, status, text+"; a WebSocket handshake with Sec-WebSocket-Protocol: "+wire.Subprotocol+" would be right\n")
		},
	}
	ws, err := up.Upgrade(w, r, nil)
	if err != nil {
		s.log.Debug("handshake refused", "remote", r.RemoteAddr, "err", err)
		return
	}
	c.serve(ws)
}

// sameHost lets in programs, which send no Origin, and pages of this very host under a loopback name: a page of another
// site whose name has been made to resolve to loopback is same-host too.
func sameHost(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || !strings.EqualFold(u.Host, r.Host) {
		return false
	}
	return RefuseOffLoopback(net.JoinHostPort(u.Hostname(), "0")) == nil
}
