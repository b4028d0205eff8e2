package httpapi

import (
	"encoding/base64"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/quorate/quorate/wire"
)

// Values of body_encoding: how JSON carries the bytes of a body.
const (
	encJSON   = "json"   // the bytes are JSON text, and the field is that JSON
	encText   = "text"   // the bytes are UTF-8, and the field is a string of them
	encBase64 = "base64" // the field is a string of base64
)

// Any is any JSON value, kept as it was written. nil: there was none.
type Any []byte

// MarshalJSON is the value.
func (a Any) MarshalJSON() ([]byte, error) { return a, nil }

// UnmarshalJSON copies the value.
func (a *Any) UnmarshalJSON(b []byte) error {
	*a = append(Any{}, b...)
	return nil
}

// Schema is of anything: it names no type, for there are generators that take one of several only.
func (Any) Schema(huma.Registry) *huma.Schema { return &huma.Schema{Description: "any JSON value"} }

// bodyBytes reads a body and the encoding it came in; contentType is the one that it gets where none was given.
func bodyBytes(field string, body Any, encoding string) (b []byte, contentType string, f *wire.Fault) {
	text := func() (string, *wire.Fault) {
		var s string
		if body == nil {
			return "", nil
		}
		if jsontext.Value(body).Kind() != '"' {
			return "", wire.Invalid(field, "is no string; with body_encoding %s it is one", encoding)
		}
		u, err := jsontext.AppendUnquote(nil, []byte(body))
		if err != nil {
			return "", wire.Invalid(field, "%v", err)
		}
		s = string(u)
		return s, nil
	}
	switch encoding {
	case "", encJSON:
		if body == nil {
			return nil, "", nil
		}
		return body, "application/json", nil
	case encText:
		s, f := text()
		return []byte(s), "text/plain; charset=utf-8", f
	case encBase64:
		s, f := text()
		if f != nil {
			return nil, "", f
		}
		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			return nil, "", wire.Invalid(field, "not base64: %v", err)
		}
		return b, "", nil
	}
	return nil, "", wire.Invalid(field+"_encoding", "%.40q; json, text or base64 would be right", encoding)
}

// bodyJSON is a body for JSON: as what its content type says, if the bytes are that, else, or where asked for, in base64.
func bodyJSON(b []byte, contentType, want string) (Any, string) {
	if want != encBase64 {
		kind, _, err := mime.ParseMediaType(contentType)
		switch {
		case err != nil:
		case isJSONType(kind) && jsontext.Value(b).IsValid():
			return append(Any{}, b...), encJSON
		case strings.HasPrefix(kind, "text/") && utf8.Valid(b):
			return quoted(b), encText
		}
	}
	return quoted(base64.StdEncoding.AppendEncode(nil, b)), encBase64
}

func quoted(b []byte) Any {
	q, err := jsontext.AppendQuote(nil, b)
	if err != nil { // not UTF-8, which callers have looked at
		q = []byte(`""`)
	}
	return q
}

// keyBytes reads a key that is text, or base64 where it is not.
func keyBytes(field, text string, b64 *string) ([]byte, *wire.Fault) {
	switch {
	case b64 == nil:
		return []byte(text), nil
	case text != "":
		return nil, wire.Invalid(field, "given twice: %s or %s_base64 would be right", field, field)
	}
	b, err := base64.StdEncoding.DecodeString(*b64)
	if err != nil {
		return nil, wire.Invalid(field+"_base64", "not base64: %v", err)
	}
	return b, nil
}

// keyJSON is a key as text, or in base64 where it is not UTF-8.
func keyJSON(key []byte) (text string, b64 *string) {
	if utf8.Valid(key) {
		return string(key), nil
	}
	s := base64.StdEncoding.EncodeToString(key)
	return "", &s
}
