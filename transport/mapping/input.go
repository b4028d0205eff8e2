package mapping

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"strings"
)

// Input is a message that is mapped. Nothing of it is changed.
type Input struct {
	Body        []byte
	Headers     []Header
	ID          string
	TaskID      string
	Queue       string
	Kind        string
	ContentType string
	Key         []byte
	Priority    int
	Attempt     int
	Redrives    int
	EnqueuedAt  int64 // Unix ms
}

// Header is a header of a message.
type Header struct{ Name, Value string }

// facts are what an expression sees as message.
func (in *Input) facts() map[string]any {
	return map[string]any{
		"id": in.ID, "task_id": in.TaskID, "queue": in.Queue, "kind": in.Kind, "content_type": in.ContentType, "key": string(in.Key),
		"priority": in.Priority, "attempt": in.Attempt, "redrives": in.Redrives, "enqueued_at": int(in.EnqueuedAt), "size": len(in.Body),
	}
}

func (in *Input) headers() map[string]string {
	hs := make(map[string]string, len(in.Headers))
	for _, h := range in.Headers {
		hs[h.Name] = h.Value
	}
	return hs
}

// parse is what the body says: JSON, or text. A body that says it is JSON and is not is an error; of other kinds, but for text/…, what is
// JSON is taken as such.
func (in *Input) parse() (any, error) {
	kind, _, err := mime.ParseMediaType(in.ContentType)
	if err != nil {
		kind = strings.ToLower(in.ContentType)
	}
	isJSON := kind == "application/json" || kind == "text/json" || strings.HasSuffix(kind, "+json")
	if !isJSON && strings.HasPrefix(kind, "text/") {
		return string(in.Body), nil
	}
	v, err := parseJSON(in.Body)
	switch {
	case err == nil:
		return v, nil
	case isJSON:
		return nil, &Error{Text: fmt.Sprintf("the body, of %s, is no JSON: %s", cut(kind, 100), cut(err.Error(), 200))}
	}
	return string(in.Body), nil
}

func parseJSON(b []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	switch err := d.Decode(&v); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("it is empty")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errors.New("it ends too early")
	case err != nil:
		return nil, err
	}
	if d.More() {
		return nil, fmt.Errorf("something follows its value at byte %d", d.InputOffset())
	}
	return plain(v, 0)
}

// plain has the numbers of a parsed value as int, float64 or wide, in place.
func plain(v any, depth int) (any, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("values nest deeper than %d", maxNesting)
	}
	var err error
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if v[k], err = plain(x, depth+1); err != nil {
				return nil, err
			}
		}
	case []any:
		for i, x := range v {
			if v[i], err = plain(x, depth+1); err != nil {
				return nil, err
			}
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return int(n), nil
		}
		if !strings.ContainsAny(string(v), ".eE") {
			return wide{string(v)}, nil
		}
		f, err := v.Float64()
		if err != nil {
			return nil, fmt.Errorf("number %s is out of range", cut(string(v), 40))
		}
		return f, nil
	}
	return v, nil
}
