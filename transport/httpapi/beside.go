package httpapi

import (
	"cmp"
	"errors"
	"net/http"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
)

// Beside is a route of the same port that others serve, as the OpenAPI document describes it.
type Beside struct {
	Method, Path string // a parameter of the path is in braces
	Tag          string
	Summary      string
	Body         string // what the bytes of the body are, which may be of any type; "": none is taken
	Identified   bool   // answers have an X-Request-Id
	Answers      []BesideAnswer
}

// BesideAnswer is one of its answers.
type BesideAnswer struct {
	Status  int // 0: any other
	Doc     string
	Type    string       // media type; "": there is no body
	Body    reflect.Type // of JSON; nil: text
	Retried bool         // Retry-After says when to come again
}

func (b *Beside) document(doc *huma.OpenAPI, schema func(t reflect.Type, request bool) *huma.Schema) error {
	if b.Summary == "" || b.Tag == "" || len(b.Answers) == 0 {
		return errors.New("a summary, a tag and answers are needed")
	}
	op := &huma.Operation{OperationID: operationID(b.Method, b.Path), Summary: b.Summary, Tags: []string{b.Tag}, Parameters: pathParams(b.Path), Responses: map[string]*huma.Response{}}
	if b.Body != "" {
		op.RequestBody = &huma.RequestBody{Description: b.Body, Content: map[string]*huma.MediaType{"*/*": {Schema: &huma.Schema{}}}}
	}
	for _, a := range b.Answers {
		r := &huma.Response{Description: cmp.Or(a.Doc, http.StatusText(a.Status), "any other")}
		if a.Type != "" {
			s := &huma.Schema{Type: huma.TypeString}
			if a.Body != nil {
				s = schema(a.Body, false)
			}
			r.Content = map[string]*huma.MediaType{a.Type: {Schema: s}}
		}
		if b.Identified || a.Retried {
			r.Headers = map[string]*huma.Param{}
		}
		if b.Identified {
			r.Headers["X-Request-Id"] = requestIDParam()
		}
		if a.Retried {
			r.Headers["Retry-After"] = &huma.Param{Description: "seconds", Schema: &huma.Schema{Type: huma.TypeString}}
		}
		status := "default"
		if a.Status != 0 {
			status = strconv.Itoa(a.Status)
		}
		op.Responses[status] = r
	}
	item := doc.Paths[b.Path]
	if item == nil {
		item = &huma.PathItem{}
		doc.Paths[b.Path] = item
	}
	return place(item, b.Method, op)
}
