package transport

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/transport/hook"
)

// operations are the methods and paths of the document that a node serves, with the statuses that each is said to answer with.
func operations(t *testing.T, b *browser) map[string][]string {
	t.Helper()
	var doc struct {
		Paths map[string]map[string]struct {
			Responses map[string]any
		}
	}
	b.plain("GET", "/v1/openapi.json", "", nil).into(t, &doc)
	all := map[string][]string{}
	for path, methods := range doc.Paths {
		for m, op := range methods {
			all[strings.ToUpper(m)+" "+path] = slices.Sorted(maps.Keys(op.Responses))
		}
	}
	return all
}

// All that is served is in the document, but for what has a reason not to be; and a path is served by no other way than by the table that both
// are made of.
func TestWhatIsServedIsDescribed(t *testing.T) {
	t.Parallel()
	s := stations(t, 1, Config{Debug: http.NotFoundHandler()})[0]
	b := browse(t, s.addr)
	in := operations(t, b)
	all, err := s.doors.besides()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range all {
		method, path, ok := strings.Cut(x.pattern, " ")
		if !ok {
			method, path = "", x.pattern
		}
		switch {
		case (x.doc == nil) == (x.why == ""):
			t.Errorf("%q is described: %t, and has a reason not to be: %q", x.pattern, x.doc != nil, x.why)
		case x.doc == nil:
		case in[x.doc.Method+" "+x.doc.Path] == nil:
			t.Errorf("%q is not in the document that is served", x.pattern)
		case !strings.HasPrefix(x.doc.Path, path), path != x.doc.Path && !strings.HasSuffix(path, "/"), method != "" && method != x.doc.Method:
			t.Errorf("%q is described as %s %s", x.pattern, x.doc.Method, x.doc.Path)
		}
	}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	places := 0
	for _, e := range entries {
		if name := e.Name(); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			places += len(regexp.MustCompile(`\.Handle(Func)?\(`).FindAll(text, -1))
		}
	}
	if places != 1 {
		t.Errorf("handlers are registered at %d places: besides is the one table", places)
	}
}

// What is served beside the API answers as the document says, with each status that a test can bring about.
func TestBeside(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	hooks, err := hook.New(hook.Config{Registry: reg, MaxMessageBytes: 1 << 20,
		Hooks:   []hook.Hook{{Name: "gh", Queue: "q", Verify: hook.Verify{Scheme: "github"}, MaxBodyBytes: 10}},
		Secrets: map[string][][]byte{"gh": {[]byte("a secret of sixteen bytes and more")}}})
	if err != nil {
		t.Fatal(err)
	}
	with := stations(t, 1, Config{Hooks: hooks, Registry: reg})[0]
	without := stations(t, 1, Config{})[0]
	for _, tc := range []struct {
		name, method, path, body string
		header                   map[string]string
		at                       *station
		status                   int
		op                       string // of the document
	}{
		{"alive", "GET", "/healthz", "", nil, with, 200, "GET /healthz"},
		{"ready", "GET", "/readyz", "", nil, with, 200, "GET /readyz"},
		{"metrics", "GET", "/metrics", "", nil, with, 200, "GET /metrics"},
		{"no handshake", "GET", "/v1/ws", "", nil, with, 400, "GET /v1/ws"},
		{"unsigned", "POST", "/hook/gh", "x", nil, with, 401, "POST /hook/{name}"},
		{"GET of a hook", "GET", "/hook/gh", "", nil, with, 405, "POST /hook/{name}"},
		{"too large", "POST", "/hook/gh", "more than ten", map[string]string{"X-Hub-Signature-256": "sha256=" + strings.Repeat("0", 64)}, with, 413, "POST /hook/{name}"},
		{"no such hook", "POST", "/hook/none", "x", nil, with, 404, "POST /hook/{name}"},
		{"a hook of a node that has none", "POST", "/hook/gh", "x", nil, without, 404, "POST /hook/{name}"},
		{"nothing", "GET", "/nothing", "", nil, without, 404, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := browse(t, tc.at.addr)
			a := b.plain(tc.method, tc.path, tc.body, tc.header)
			if a.status != tc.status {
				t.Fatalf("%d %s, want %d", a.status, a.body, tc.status)
			}
			if ops := operations(t, b); tc.op != "" && !slices.Contains(ops[tc.op], strings.TrimSpace(string(mustJSON(t, tc.status)))) {
				t.Errorf("the document has %v for %s", ops[tc.op], tc.op)
			}
			if strings.HasPrefix(tc.path, "/hook/") {
				if tc.method == "POST" {
					b.conforms(tc.method, tc.path, tc.body, tc.header, a)
				}
				b.problem(tc.name, a)
			}
		})
	}
	var h struct{ Ready, Leader *bool }
	browse(t, with.addr).plain("GET", "/readyz", "", nil).into(t, &h)
	if h.Ready == nil || h.Leader == nil {
		t.Error("/readyz has no ready or no leader")
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
