package transport

import (
	"encoding/json"
	"net/http"
)

// health is the body of /readyz.
type health struct {
	Ready  bool   `json:"ready"`
	Leader bool   `json:"leader" doc:"this node leads and serves"`
	Reason string `json:"reason" doc:"why it is not ready; of a node that is, what it cannot serve and why, else empty"`
}

// serveHealth says that the process is alive, nothing else.
func (s *Server) serveHealth(w http.ResponseWriter, _ *http.Request) {
	plainText(w, http.StatusOK, "alive\n")
}

// serveReady says whether clients should come here.
func (s *Server) serveReady(w http.ResponseWriter, _ *http.Request) {
	h := health{}
	h.Ready, h.Reason = s.cfg.Broker.Ready()
	st := s.group("").Status()
	h.Leader = st.Leader && st.Ready
	if s.draining.Load() {
		h = health{Reason: "stopping"}
	}
	b, err := json.Marshal(h)
	if err != nil {
		plainText(w, http.StatusInternalServerError, "readiness cannot be shown\n")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !h.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write(append(b, '\n')) // a scraper that has gone is none of our concern
}

func plainText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // as above
}
