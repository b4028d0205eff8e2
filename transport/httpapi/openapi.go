package httpapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quorate/quorate/wire"
)

func documentRoutes() []*route {
	return []*route{{
		method: "GET", path: "/v1/openapi.json", summary: "This document", local: true, out: reflect.TypeFor[Any](),
		serve: func(x *exchange) *wire.Fault {
			docs, err := x.api.docs()
			if err != nil {
				return wire.NewFault(wire.CodeInternal, "no document: %v", err)
			}
			x.w.Header().Set("Cache-Control", "max-age=60")
			x.send(http.StatusOK, "application/json", docs)
			return nil
		},
	}}
}

// settings are of huma's package and not of a document, and there may be several nodes in a process.
var settings sync.Once

// document makes the OpenAPI 3.1 document of the routes and what is served beside them, with schemas made of the Go types that they take and answer. Requests have the fields
// that are described and no others; in answers more may follow.
func document(routes []*route, beside []Beside, version string) ([]byte, error) {
	settings.Do(func() { huma.DefaultArrayNullable = false }) // an empty array is written as one, never as null
	reg := huma.NewMapRegistry("#/components/schemas/", schemaName)
	requests := map[string]bool{}
	schema := func(t reflect.Type, request bool) *huma.Schema {
		s := reg.Schema(t, true, "")
		if request {
			requests[strings.TrimPrefix(s.Ref, "#/components/schemas/")] = true
		}
		return s
	}
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "Quorate", Version: cmp.Or(version, "dev"),
			Description: "A replicated queue broker. Any node answers: what needs the leader is sent on to it. Success means that it is committed on the disks of a majority. " +
				"Errors are application/problem+json with a code, an outcome (refused: certainly not applied; unknown: it may have been) and whether to retry. Times are Unix milliseconds.",
		},
		Paths:      map[string]*huma.PathItem{},
		Components: &huma.Components{Schemas: reg},
	}
	problem := &huma.Response{Description: "an error", Content: map[string]*huma.MediaType{ProblemType: {Schema: schema(reflect.TypeFor[Problem](), false)}}}
	for _, r := range routes {
		op := &huma.Operation{OperationID: operationID(r.method, r.path), Summary: r.summary, Tags: []string{tag(r.path)}, Responses: map[string]*huma.Response{"default": problem}}
		op.Parameters = pathParams(r.path)
		for i := range r.query {
			op.Parameters = append(op.Parameters, r.query[i].document())
		}
		if r.keyed() {
			least, most := 1, maxKeyBytes
			op.Parameters = append(op.Parameters, &huma.Param{Name: keyHeader, In: "header", Description: keyDoc,
				Schema: &huma.Schema{Type: huma.TypeString, MinLength: &least, MaxLength: &most, Pattern: "^[!-~]+$"}})
		}
		if r.in != nil && r.in.NumField() > 0 {
			op.RequestBody = &huma.RequestBody{Required: !r.optional, Content: map[string]*huma.MediaType{"application/json": {Schema: schema(r.in, true)}}}
			if r.raw != "" {
				op.RequestBody.Content[r.raw] = &huma.MediaType{Schema: &huma.Schema{}}
				op.RequestBody.Content["text/plain"] = &huma.MediaType{Schema: &huma.Schema{Type: "string"}}
			}
		}
		content := map[string]*huma.MediaType{}
		if r.stream {
			content[eventStream] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
		} else {
			content["application/json"] = &huma.MediaType{Schema: schema(r.out, false)}
		}
		ok := &huma.Response{Description: "success", Content: content,
			Headers: map[string]*huma.Param{
				"X-Request-Id":  requestIDParam(),
				"Quorate-Index": {Description: "the place in the log where it is true, where it was read or written", Schema: &huma.Schema{Type: "string"}},
				"Quorate-Time":  {Description: "log time there, Unix ms", Schema: &huma.Schema{Type: "string"}},
			}}
		if r.keyed() {
			ok.Headers[replayedHeader] = &huma.Param{Description: replayedDoc, Schema: &huma.Schema{Type: huma.TypeString}}
		}
		for _, kind := range r.also {
			ok.Content[kind] = &huma.MediaType{Schema: &huma.Schema{}}
		}
		status := cmp.Or(r.status, http.StatusOK)
		op.Responses[strconv.Itoa(status)] = ok
		if r.method == http.MethodPut && status == http.StatusOK {
			op.Responses["201"] = ok
		}
		path := strings.ReplaceAll(r.path, "...}", "}")
		item := doc.Paths[path]
		if item == nil {
			item = &huma.PathItem{}
			doc.Paths[path] = item
		}
		if err := place(item, r.method, op); err != nil {
			return nil, fmt.Errorf("route %s %s: %w", r.method, r.path, err)
		}
	}
	for i := range beside {
		if err := beside[i].document(doc, schema); err != nil {
			return nil, fmt.Errorf("beside the API: %s %s: %w", beside[i].Method, beside[i].Path, err)
		}
	}
	taken := reached(reg, requests)
	for name, s := range reg.Map() {
		if !taken[name] && s.Type == huma.TypeObject && s.AdditionalProperties == false {
			s.AdditionalProperties = nil
		}
	}
	return json.Marshal(doc)
}

// place puts an operation where its method belongs.
func place(item *huma.PathItem, method string, op *huma.Operation) error {
	var to **huma.Operation
	switch method {
	case http.MethodGet:
		to = &item.Get
	case http.MethodPost:
		to = &item.Post
	case http.MethodPut:
		to = &item.Put
	case http.MethodPatch:
		to = &item.Patch
	case http.MethodDelete:
		to = &item.Delete
	default:
		return errors.New("the document has no place for its method")
	}
	if *to != nil {
		return errors.New("it is there twice")
	}
	*to = op
	return nil
}

// reached are the schemas that requests are made of.
func reached(reg huma.Registry, from map[string]bool) map[string]bool {
	all := map[string]bool{}
	var visit func(s *huma.Schema)
	visit = func(s *huma.Schema) {
		if s == nil {
			return
		}
		if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok && !all[name] {
			all[name] = true
			visit(reg.Map()[name])
		}
		visit(s.Items)
		for _, p := range s.Properties {
			visit(p)
		}
	}
	for name := range from {
		all[name] = true
		visit(reg.Map()[name])
	}
	return all
}

// schemaName is a type's own name with a capital.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	if name == "" {
		return name
	}
	r := []rune(name)
	r[0] = unicode.ToUpper(r[0])
	return string(r)
}

func operationID(method, path string) string {
	var b strings.Builder
	b.WriteString(strings.ToLower(method))
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/v1"), "/") {
		part = strings.Trim(part, "{.}")
		for word := range strings.FieldsFuncSeq(part, func(c rune) bool { return c == '-' || c == '.' }) {
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return b.String()
}

// tag is the noun that a path is about.
func tag(path string) string {
	if strings.HasPrefix(path, "/queue/") {
		return "one queue"
	}
	noun, _, _ := strings.Cut(strings.TrimPrefix(path, "/v1/"), "/")
	switch {
	case strings.Contains(path, "/dlq"):
		return "dead letters"
	case strings.HasSuffix(path, "/messages"):
		return "messages"
	case strings.HasSuffix(path, "/lease"), strings.HasSuffix(path, "/listen"):
		return "leases"
	case noun == "kv-changes":
		return "kv"
	case noun == "openapi.json":
		return "document"
	}
	return noun
}

// pathParams are the parameters of a path.
func pathParams(path string) (ps []*huma.Param) {
	for _, name := range pathNames(path) {
		ps = append(ps, &huma.Param{Name: name, In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}})
	}
	return ps
}

func requestIDParam() *huma.Param {
	return &huma.Param{Description: "the request's, given or made", Schema: &huma.Schema{Type: huma.TypeString}}
}

func (p *param) document() *huma.Param {
	s := &huma.Schema{Type: p.kind}
	for _, e := range p.enum {
		s.Enum = append(s.Enum, e)
	}
	if p.kind == "integer" {
		s.Format = "int64"
		if p.most != 0 {
			least, most := float64(p.least), float64(p.most)
			s.Minimum, s.Maximum = &least, &most
		}
	}
	d := &huma.Param{Name: p.name, In: "query", Description: p.doc, Schema: s}
	if p.many {
		d.Schema = &huma.Schema{Type: huma.TypeArray, Items: s}
		explode := true
		d.Style, d.Explode = "form", &explode
	}
	return d
}
