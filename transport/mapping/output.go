package mapping

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Message is a message that an expression has made of another.
type Message struct {
	Body        []byte
	ContentType string
	Kind        string
	Key         []byte
	Priority    int
	Headers     []Header
	DelayMillis int64
	TTLMillis   int64
}

// Content types of what is made.
const (
	typeJSON = "application/json"
	typeText = "text/plain; charset=utf-8"
)

// Body makes the body of a message, of at most so many bytes. nil without an error: the expression came to nothing. Errors are an *Error, or
// ErrLate.
func (p *Program) Body(ctx context.Context, in *Input, most int) (body []byte, contentType string, err error) {
	err = p.run(ctx, in, func(r *run, v any) (err error) {
		body, contentType, err = r.body(v, most)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return body, contentType, nil
}

// body writes a value as the body of a message.
func (r *run) body(v any, most int) ([]byte, string, error) {
	if s, ok := v.(string); ok {
		if len(s) > most {
			return nil, "", fmt.Errorf("it makes a body of %d bytes; at most %d are allowed", len(s), most)
		}
		return append([]byte{}, s...), typeText, nil
	}
	e := encoder{r: r, most: most}
	if err := e.value(v, 0); err != nil {
		return nil, "", err
	}
	return e.b, typeJSON, nil
}

// Messages makes messages of one, with at most so many bytes of bodies together. Errors are an *Error, or ErrLate.
func (p *Program) Messages(ctx context.Context, in *Input, most int) (out []Message, err error) {
	err = p.run(ctx, in, func(r *run, v any) (err error) {
		list, several := listOf(v)
		if !several {
			list = []any{v}
		}
		if len(list) > MaxMessages {
			return fmt.Errorf("it makes %d messages; at most %d are allowed", len(list), MaxMessages)
		}
		for i, v := range list {
			m := Message{Kind: in.Kind, Key: in.Key, Priority: in.Priority, Headers: in.Headers}
			if err := r.message(v, &m, most); err != nil {
				if several {
					return fmt.Errorf("message %d: %w", i, err)
				}
				return err
			}
			most -= len(m.Body)
			out = append(out, m)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// message fills in what a value says of a message.
func (r *run) message(v any, m *Message, most int) (err error) {
	set, ok := v.(*made)
	if ok {
		v = set.body
	}
	if v == nil {
		return errors.New("nil is no body; a text or what can be JSON would be right")
	}
	if m.Body, m.ContentType, err = r.body(v, most); err != nil || !ok {
		return err
	}
	return set.apply(m)
}

// made is what send() makes: a body and the fields that are set anew.
type made struct {
	body   any
	fields map[string]any
}

// send is the function that gives a message fields of its own.
func (r *run) send(body any, fields ...any) (any, error) {
	m := &made{body: body}
	if err := r.pay(0); err != nil {
		return nil, err
	}
	switch len(fields) {
	case 0:
		return m, nil
	case 1:
		o, ok := objectOf(fields[0])
		if !ok {
			return nil, wants("send", fields[0], "a body and an object, such as {kind: \"bill\"},")
		}
		for k := range o {
			if !slices.Contains(sendFields, k) {
				return nil, fmt.Errorf("send has no field %.40q; %s are", k, strings.Join(sendFields, ", "))
			}
		}
		m.fields = o
		return m, nil
	}
	return nil, fmt.Errorf("send with %d arguments; a body and an object would be right", 1+len(fields))
}

var sendFields = []string{"content_type", "delay_ms", "headers", "key", "kind", "priority", "ttl_ms"}

// apply sets the fields.
func (s *made) apply(m *Message) error {
	text := func(field string, to *string) error {
		v, there := s.fields[field]
		if !there {
			return nil
		}
		t, ok := v.(string)
		if !ok {
			return fmt.Errorf("%s is %s; a text would be right", field, name(v))
		}
		*to = t
		return nil
	}
	number := func(field string, to *int64) error {
		v, there := s.fields[field]
		if !there {
			return nil
		}
		n, ok := v.(int)
		if !ok || n < 0 {
			return fmt.Errorf("%s is %s; an integer of 0 or more would be right", field, shown(v))
		}
		*to = int64(n)
		return nil
	}
	key, priority := string(m.Key), int64(m.Priority)
	for _, err := range []error{text("content_type", &m.ContentType), text("kind", &m.Kind), text("key", &key), number("priority", &priority),
		number("delay_ms", &m.DelayMillis), number("ttl_ms", &m.TTLMillis)} {
		if err != nil {
			return err
		}
	}
	if _, there := s.fields["key"]; there {
		m.Key = []byte(key)
	}
	m.Priority = int(min(priority, math.MaxInt32))
	if v, there := s.fields["headers"]; there {
		return m.setHeaders(v)
	}
	return nil
}

// setHeaders sets headers anew, and takes out those that are nil. Those that are left stay in order, new ones follow by name.
func (m *Message) setHeaders(v any) error {
	o, ok := objectOf(v)
	if !ok {
		return fmt.Errorf("headers is %s; an object of texts would be right", name(v))
	}
	var out []Header
	for _, h := range m.Headers {
		if _, set := o[h.Name]; !set {
			out = append(out, h)
		}
	}
	for _, k := range sortedKeys(o) {
		k := k.(string)
		switch v := o[k].(type) {
		case nil:
		case string:
			out = append(out, Header{k, v})
		default:
			return fmt.Errorf("header %.40q is %s; a text, or nil for none, would be right", k, name(v))
		}
	}
	m.Headers = out
	return nil
}

// encoder writes values as JSON, names in order, up to a length.
type encoder struct {
	r    *run
	b    []byte
	most int
}

func (e *encoder) value(v any, depth int) error {
	if depth > maxNesting {
		return fmt.Errorf("values nest deeper than %d", maxNesting)
	}
	if err := e.r.pay(0); err != nil {
		return err
	}
	switch x := v.(type) {
	case nil:
		e.b = append(e.b, "null"...)
	case bool:
		e.b = strconv.AppendBool(e.b, x)
	case int:
		e.b = strconv.AppendInt(e.b, int64(x), 10)
	case wide:
		if len(e.b)+len(x.text) > e.most {
			return e.tooLong()
		}
		e.b = append(e.b, x.text...)
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("%g cannot be JSON", x)
		}
		if x == math.Trunc(x) && math.Abs(x) < 1e15 {
			e.b = strconv.AppendFloat(e.b, x, 'f', -1, 64)
		} else {
			e.b = strconv.AppendFloat(e.b, x, 'g', -1, 64)
		}
	case string:
		if err := e.text(x); err != nil {
			return err
		}
	default:
		return e.nested(v, depth)
	}
	return e.fits()
}

func (e *encoder) text(s string) error {
	if len(e.b)+len(s) > e.most {
		return e.tooLong()
	}
	b, err := jsontext.AppendQuote(e.b, s)
	if err != nil {
		return fmt.Errorf("the text %.40q is not UTF-8, and cannot be in JSON; toBase64 of it can", s)
	}
	e.b = b
	return nil
}

func (e *encoder) nested(v any, depth int) error {
	if list, ok := listOf(v); ok {
		e.b = append(e.b, '[')
		for i, x := range list {
			if i > 0 {
				e.b = append(e.b, ',')
			}
			if err := e.value(x, depth+1); err != nil {
				return err
			}
		}
		e.b = append(e.b, ']')
		return e.fits()
	}
	o, ok := objectOf(v)
	if !ok {
		return fmt.Errorf("%s cannot be JSON", name(v))
	}
	e.b = append(e.b, '{')
	for i, k := range sortedKeys(o) {
		k := k.(string)
		if i > 0 {
			e.b = append(e.b, ',')
		}
		if err := e.text(k); err != nil {
			return err
		}
		e.b = append(e.b, ':')
		if err := e.value(o[k], depth+1); err != nil {
			return err
		}
	}
	e.b = append(e.b, '}')
	return e.fits()
}

func (e *encoder) fits() error {
	if len(e.b) > e.most {
		return e.tooLong()
	}
	return nil
}

func (e *encoder) tooLong() error {
	return fmt.Errorf("it makes more than %d bytes, the most that are allowed", e.most)
}
