package httpapi

import (
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/quorate/quorate/wire"
)

// route is one method and path: what it takes, what it answers, and who serves it. The OpenAPI document is made of the table of routes.
type route struct {
	method, path string
	summary      string
	query        []param
	in           reflect.Type // of the JSON body; nil: there is none
	optional     bool         // the body may be left out
	raw          string       // other content types are this: "" they are refused
	out          reflect.Type // of the JSON answer
	also         []string     // other content types that the answer can have
	status       int          // of success; 0: 200
	local        bool         // any node answers by itself
	secret       bool         // the answer is never compressed
	stream       bool         // the answer is Server-Sent Events
	unlogged     bool         // what it does is in no log
	serve        func(x *exchange) *wire.Fault
}

// ServeHTTP makes a route something that net/http's mux can find; nothing is served by it.
func (*route) ServeHTTP(http.ResponseWriter, *http.Request) {}

// param is a parameter of the query.
type param struct {
	name, kind  string // kind: integer, string, boolean
	doc         string
	enum        []string
	least, most int64 // of an integer, where most is not 0
	many        bool  // may be given more than once
}

var (
	staleParam = param{name: "stale", kind: "boolean", doc: "answer from the node that is asked, as of Quorate-Index, leader or not"}
	limitParam = param{name: "limit", kind: "integer", doc: "items of a page", most: wire.MaxList, least: 1}
	afterParam = param{name: "after", kind: "string", doc: "next of the page before"}
	queueParam = param{name: "queue", kind: "string", doc: "the task's queue; needed where the task id is not one that the broker made"}
	waitParam  = param{name: "wait_ms", kind: "integer", doc: "how long to wait for the first, at most", most: wire.MaxWaitMillis}
	encodeParm = param{name: "body_encoding", kind: "string", enum: []string{encBase64}, doc: "base64: bodies come byte for byte, whatever they are"}
	jobParam   = param{name: "envelope", kind: "string", enum: []string{"job"}, doc: "job: the job envelope (job_id, task_type, payload, meta) instead of a message"}
)

// with makes a route's serve of a function that takes a decoded body and gives the answer.
func with[In, Out any](r route, fn func(x *exchange, in *In) (*Out, *wire.Fault)) *route {
	r.in, r.out = reflect.TypeFor[In](), reflect.TypeFor[Out]()
	r.serve = func(x *exchange) *wire.Fault {
		in := new(In)
		if f := x.decode(in); f != nil {
			return f
		}
		out, f := fn(x, in)
		if f != nil {
			return f
		}
		x.reply(out)
		return nil
	}
	return &r
}

// plain is with for a route that takes no body.
func plain[Out any](r route, fn func(x *exchange) (*Out, *wire.Fault)) *route {
	r.out = reflect.TypeFor[Out]()
	r.serve = func(x *exchange) *wire.Fault {
		out, f := fn(x)
		if f != nil {
			return f
		}
		x.reply(out)
		return nil
	}
	return &r
}

// table is all routes.
func table() []*route {
	return slices.Concat(queueRoutes(), messageRoutes(), leaseRoutes(), listenRoutes(), deadRoutes(), taskRoutes(), resultRoutes(), kvRoutes(),
		scheduleRoutes(), batchRoutes(), clusterRoutes(), documentRoutes(), oneQueueRoutes())
}

// find looks for the route of a request, and for what its path names.
func (x *exchange) find() *wire.Fault {
	path := x.r.URL.EscapedPath()
	if rest, ok := strings.CutPrefix(path, "/v1/kv/"); ok {
		return x.findKey(rest)
	}
	h, pattern := x.api.mux.Handler(x.r)
	if r, ok := h.(*route); ok && pattern != "" {
		x.route = r
		for _, name := range r.names() {
			// Handler finds the pattern and does not take the path apart.
			x.path[name] = ""
		}
		return x.takeApart(path)
	}
	if pattern != "" { // a redirect to the cleaned path
		return wire.NewFault(wire.CodeNotFound, "path %.200q has an empty part, or one that is . or ..: %.200q is the path without", path, cleaned(h, x.r))
	}
	var allowed []string
	for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		probe := &http.Request{Method: m, URL: x.r.URL, Host: x.r.Host}
		if _, p := x.api.mux.Handler(probe); p != "" {
			allowed = append(allowed, m)
		}
	}
	if len(allowed) > 0 {
		return x.wrongMethod(allowed)
	}
	return wire.NewFault(wire.CodeNotFound, "nothing is served at %.200q: GET /v1/openapi.json describes what is", path)
}

// cleaned is where a redirect of the mux leads to.
func cleaned(h http.Handler, r *http.Request) string {
	rec := &location{header: http.Header{}}
	h.ServeHTTP(rec, r)
	return rec.header.Get("Location")
}

// location takes in a redirect.
type location struct{ header http.Header }

func (l *location) Header() http.Header         { return l.header }
func (l *location) Write(b []byte) (int, error) { return len(b), nil }
func (l *location) WriteHeader(int)             {}

func (x *exchange) wrongMethod(allowed []string) *wire.Fault {
	x.w.Header().Set("Allow", strings.Join(allowed, ", "))
	x.override = http.StatusMethodNotAllowed
	return wire.NewFault(wire.CodeInvalidArgument, "method %.20q is not served here: %s would be right", x.r.Method, strings.Join(allowed, " or "))
}

// names are the parameters in a route's path.
func (r *route) names() []string { return pathNames(r.path) }

func pathNames(path string) (names []string) {
	for part := range strings.SplitSeq(path, "/") {
		if strings.HasPrefix(part, "{") {
			names = append(names, strings.Trim(part, "{.}"))
		}
	}
	return names
}

// takeApart reads the parameters out of a path that the route's pattern has matched, each by itself, so that an escaped slash is part of a name.
func (x *exchange) takeApart(path string) *wire.Fault {
	parts, pattern := strings.Split(path, "/"), strings.Split(x.route.path, "/")
	for i, p := range pattern {
		if !strings.HasPrefix(p, "{") || i >= len(parts) {
			continue
		}
		v, f := unescape(parts[i])
		if f != nil {
			return f
		}
		x.path[strings.Trim(p, "{.}")] = v
	}
	return nil
}

func unescape(part string) (string, *wire.Fault) {
	v, err := url.PathUnescape(part)
	if err != nil || !utf8.ValidString(v) {
		return "", wire.NewFault(wire.CodeInvalidArgument, "path part %.200q is not UTF-8 with %%-escapes", part)
	}
	return v, nil
}

// findKey finds the routes of single keys: the strings of a key are the parts of the path, empty ones too, which the mux would clean away.
func (x *exchange) findKey(rest string) *wire.Fault {
	var allowed []string
	for _, r := range x.api.routes {
		if r.path != "/v1/kv/{key...}" {
			continue
		}
		allowed = append(allowed, r.method)
		if r.method == x.r.Method || r.method == http.MethodGet && x.r.Method == http.MethodHead {
			x.route = r
		}
	}
	if x.route == nil {
		return x.wrongMethod(allowed)
	}
	for part := range strings.SplitSeq(rest, "/") {
		v, f := unescape(part)
		if f != nil {
			return f
		}
		x.key = append(x.key, v)
	}
	return nil
}

// params judges the query by the route's table: what is not in it is refused, since a misspelt filter would be no filter.
func (x *exchange) params() *wire.Fault {
	q, err := url.ParseQuery(x.r.URL.RawQuery)
	if err != nil {
		return wire.NewFault(wire.CodeInvalidArgument, "the query cannot be read: %v", err)
	}
	for name, values := range q {
		i := slices.IndexFunc(x.route.query, func(p param) bool { return p.name == name })
		if i < 0 {
			known := make([]string, len(x.route.query))
			for i, p := range x.route.query {
				known[i] = p.name
			}
			if len(known) == 0 {
				return wire.Invalid(wire.CutText(name, 60), "no query parameter is known here")
			}
			return wire.Invalid(wire.CutText(name, 60), "no such query parameter here: known are %s", strings.Join(known, ", "))
		}
		p := &x.route.query[i]
		if len(values) > 1 && !p.many {
			return wire.Invalid(name, "given %d times: once would be right", len(values))
		}
		for _, v := range values {
			if f := p.judge(&v); f != nil {
				return f
			}
			x.query[name] = v
			x.queries[name] = append(x.queries[name], v)
		}
	}
	return nil
}

func (p *param) judge(v *string) *wire.Fault {
	if !utf8.ValidString(*v) {
		return wire.Invalid(p.name, "%.60q is not UTF-8", *v)
	}
	switch p.kind {
	case "integer":
		n, err := strconv.ParseInt(*v, 10, 64)
		if err != nil {
			return wire.Invalid(p.name, "%.40q; an integer would be right", *v)
		}
		if p.most != 0 && (n < p.least || n > p.most) {
			return wire.Invalid(p.name, "%d; %d to %d are allowed", n, p.least, p.most)
		}
	case "boolean":
		switch *v {
		case "1", "true", "": // ?stale
			*v = "true"
		case "0", "false":
			*v = "false"
		default:
			return wire.Invalid(p.name, "%.40q; true or false would be right", *v)
		}
	}
	if len(p.enum) > 0 && !slices.Contains(p.enum, *v) {
		return wire.Invalid(p.name, "%.40q; %s would be right", *v, strings.Join(p.enum, " or "))
	}
	return nil
}

// int is an integer of the query, 0 where it was not given.
func (x *exchange) int(name string) int64 {
	n, _ := strconv.ParseInt(x.query[name], 10, 64) // judged by params
	return n
}

func (x *exchange) bool(name string) bool { return x.query[name] == "true" }
