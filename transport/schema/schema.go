package schema

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// MaxBytes is how long a queue's schema may be.
const MaxBytes = 64 << 10

// location names a schema for references within it; nothing is at that address.
const location = "quorate:schema"

// copies is how many bodies one schema judges at once, at most: each has a compiled copy of its own to count in. All of them together take
// copiesBytes, where one alone does not take more.
const (
	copies      = 4
	copiesBytes = 4 << 20
)

// maxTurns is how many bodies are parsed at once in this process.
const maxTurns = 4

var turns = make(chan struct{}, maxTurns)

// largeBody is from how many bytes on a body is judged while no other such one is: what looks at it fail may take hundreds of megabytes.
const largeBody = 16 << 10

var large = make(chan struct{}, 1)

// Schema is a JSON Schema ready for use, by several goroutines.
type Schema struct {
	text string
	size int            // estimated, of one copy, in bytes
	free chan *compiled // as many as there may be copies

	mu   sync.Mutex
	made int // guarded by mu
}

// noLoader keeps schemas from reading files or addresses.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%.100q is outside the schema; references within it alone are followed", url)
}

// Compile reads a JSON Schema. How long it may be is for the caller to judge.
func Compile(text string) (*Schema, error) {
	c, err := compile(text)
	if err != nil {
		return nil, err
	}
	most := min(max(copiesBytes/c.size, 1), copies)
	s := &Schema{text: text, size: c.size, free: make(chan *compiled, most), made: 1}
	s.free <- c
	return s, nil
}

// Bytes is about how much the schema takes, with all the copies that there may be.
func (s *Schema) Bytes() int { return len(s.text) + s.size*cap(s.free) }

func compile(text string) (c *compiled, err error) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("the schema is no JSON: %s", notJSON([]byte(text), err))
	}
	if err := bounded(doc); err != nil {
		return nil, unusable(doc, err)
	}
	var w weight
	if w.add(doc); w.parts > maxParts {
		return nil, fmt.Errorf("the schema cannot be used: it has more than %d parts; fewer would be right", maxParts)
	}
	c = new(compiled)
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	compiler.UseRegexpEngine(c.meter.pattern)
	if err := compiler.AddResource(location, doc); err != nil {
		return nil, unusable(doc, err)
	}
	c.meter.begin(context.Background(), len(text)) // it is itself judged by the schema of schemas, with its patterns
	defer func() {
		switch p := recover(); p.(type) {
		case nil:
		case spent:
			c, err = nil, errors.New("the schema cannot be used: its patterns are too much work")
		default:
			panic(p)
		}
	}()
	if c.root, err = compiler.Compile(location); err != nil {
		return nil, unusable(doc, err)
	}
	c.meter.install(c.root)
	c.size = w.bytes(len(text), c.meter.patterns)
	return c, nil
}

// take is a copy that nobody else uses; none: ctx has ended.
func (s *Schema) take(ctx context.Context) *compiled {
	select {
	case c := <-s.free:
		return c
	default:
	}
	s.mu.Lock()
	more := s.made < cap(s.free)
	if more {
		s.made++
	}
	s.mu.Unlock()
	if more {
		if c, err := compile(s.text); err == nil { // as it did before
			return c
		}
		s.mu.Lock()
		s.made--
		s.mu.Unlock()
	}
	select {
	case c := <-s.free:
		return c
	case <-ctx.Done():
		return nil
	}
}

// maxSaid is how much of what is wrong with a body is said, in bytes, and maxCauses how many things.
const (
	maxSaid   = 900
	maxCauses = 3
)

// ErrNotJSON is wrapped by the error of Check about a body that is none.
var ErrNotJSON = errors.New("the body is no JSON")

// ErrStopped says that ctx ended before a body was judged.
var ErrStopped = errors.New("schema: the body was not judged in time")

// Check judges a body, or ends soon after ctx does, with ErrStopped. The error says what is wrong, where, and what would be right; it holds no
// more of the body than names and short values.
func (s *Schema) Check(ctx context.Context, body []byte) error {
	if len(body) > largeBody {
		if !enter(ctx, large) {
			return ErrStopped
		}
		defer leave(large)
	}
	if !enter(ctx, turns) {
		return ErrStopped
	}
	defer leave(turns)
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%w: %s", ErrNotJSON, notJSON(body, err))
	}
	if err := bounded(v); err != nil {
		return err
	}
	c := s.take(ctx)
	if c == nil {
		return ErrStopped
	}
	defer func() { s.free <- c }()
	return c.check(ctx, v, len(body))
}

// enter waits for a place, until ctx ends.
func enter(ctx context.Context, places chan struct{}) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func leave(places chan struct{}) { <-places }

// check has the steps of a body of n bytes.
func (c *compiled) check(ctx context.Context, v any, n int) (err error) {
	defer func() {
		switch p := recover(); p.(type) {
		case nil:
		case spent:
			err = fmt.Errorf("the body is too much work for the schema: more than %d steps", c.meter.most)
		case stopped:
			err = ErrStopped
		default:
			panic(p)
		}
		c.meter.end()
	}()
	c.meter.begin(ctx, n)
	if err = c.root.Validate(v); err == nil {
		return nil
	}
	var failed *jsonschema.ValidationError
	if !errors.As(err, &failed) {
		return errors.New("it does not fit")
	}
	var said []string
	say(failed, "", &said)
	return errors.New(cut(strings.Join(said, "; "), maxSaid))
}

// cut shortens text to at most n bytes, on a rune.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
