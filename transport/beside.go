package transport

import (
	"net/http"
	"reflect"
	"strings"

	"github.com/prometheus/common/expfmt"

	"github.com/quorate/quorate/transport/hook"
	"github.com/quorate/quorate/transport/httpapi"
)

// beside is a route that is served beside the JSON API. All that the doors serve is in besides or in the API's own table, and the OpenAPI document
// is made of both.
type beside struct {
	pattern string // of the mux
	serve   http.Handler
	doc     *httpapi.Beside // nil: why says why the document does not have it
	why     string
}

func (s *Server) besides() ([]beside, error) {
	in := s.cfg.Hooks
	if in == nil { // one that knows of no hook says so as one that has some does
		none, err := hook.New(hook.Config{Logger: s.log})
		if err != nil {
			return nil, err
		}
		in = none
	}
	text := func(status int, doc string) httpapi.BesideAnswer {
		return httpapi.BesideAnswer{Status: status, Doc: doc, Type: "text/plain"}
	}
	busy := text(http.StatusServiceUnavailable, "too many connections, or the node is stopping")
	busy.Retried = true
	ready := func(status int, doc string) httpapi.BesideAnswer {
		return httpapi.BesideAnswer{Status: status, Doc: doc, Type: "application/json", Body: reflect.TypeFor[health]()}
	}
	metrics, _, _ := strings.Cut(string(expfmt.NewFormat(expfmt.TypeTextPlain)), ";")
	hooks := hook.Describe()
	all := []beside{
		{pattern: "GET /healthz", serve: http.HandlerFunc(s.serveHealth), doc: &httpapi.Beside{
			Method: http.MethodGet, Path: "/healthz", Tag: "node", Summary: "Whether the process lives", Answers: []httpapi.BesideAnswer{text(http.StatusOK, "it does")}}},
		{pattern: "GET /readyz", serve: http.HandlerFunc(s.serveReady), doc: &httpapi.Beside{
			Method: http.MethodGet, Path: "/readyz", Tag: "node", Summary: "Whether clients should come to this node",
			Answers: []httpapi.BesideAnswer{ready(http.StatusOK, "they should"), ready(http.StatusServiceUnavailable, "they should not: reason says why")}}},
		{pattern: "GET /metrics", serve: http.HandlerFunc(s.serveMetrics), doc: &httpapi.Beside{
			Method: http.MethodGet, Path: "/metrics", Tag: "node", Summary: "The node's metrics, and of the node that leads those of queues, in Prometheus' text format",
			Answers: []httpapi.BesideAnswer{{Status: http.StatusOK, Type: metrics}, text(http.StatusServiceUnavailable, "too many scrapes at once"),
				text(http.StatusInternalServerError, "metrics cannot be gathered")}}},
		{pattern: "GET /v1/ws", serve: http.HandlerFunc(s.serveSocket), doc: &httpapi.Beside{
			Method: http.MethodGet, Path: "/v1/ws", Tag: "node", Summary: "The WebSocket protocol of the SDK; its subprotocol is needed",
			Answers: []httpapi.BesideAnswer{{Status: http.StatusSwitchingProtocols, Doc: "a WebSocket from here on"}, text(http.StatusBadRequest, "no WebSocket handshake, or of no subprotocol that is spoken here"),
				text(http.StatusForbidden, "a page of another origin"), busy, text(0, "a handshake that cannot be answered")}}},
		{pattern: "/hook/", serve: in, doc: &hooks},
		{pattern: "/", serve: http.HandlerFunc(serveNothing), why: "nothing is there"},
	}
	if s.cfg.Debug != nil {
		all = append(all, beside{pattern: "/debug/", serve: s.cfg.Debug, why: "for those who look into a build of their own"})
	}
	return all, nil
}

// described are those that the document has.
func described(all []beside) (docs []httpapi.Beside) {
	for i := range all {
		if all[i].doc != nil {
			docs = append(docs, *all[i].doc)
		}
	}
	return docs
}

func serveNothing(w http.ResponseWriter, _ *http.Request) {
	plainText(w, http.StatusNotFound, "nothing is served at this path: GET /v1/openapi.json describes what is\n")
}
