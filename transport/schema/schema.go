package schema

import (
	"bytes"
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

// copies is how many bodies one schema judges at once: each has a compiled copy of its own to count in.
const copies = 4

// maxTurns is how many bodies are parsed at once in this process.
const maxTurns = 4

var turns = make(chan struct{}, maxTurns)

// largeBody is from how many bytes on a body is judged while no other such one is: what looks at it fail may take hundreds of megabytes.
const largeBody = 16 << 10

var large sync.Mutex

// Schema is a JSON Schema ready for use, by several goroutines.
type Schema struct {
	text string
	free chan *compiled // at most copies

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
	s := &Schema{text: text, free: make(chan *compiled, copies), made: 1}
	s.free <- c
	return s, nil
}

func compile(text string) (c *compiled, err error) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("the schema is no JSON: %s", notJSON([]byte(text), err))
	}
	if err := bounded(doc); err != nil {
		return nil, unusable(doc, err)
	}
	c = new(compiled)
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	compiler.UseRegexpEngine(c.meter.pattern)
	if err := compiler.AddResource(location, doc); err != nil {
		return nil, unusable(doc, err)
	}
	c.meter.begin(len(text)) // it is itself judged by the schema of schemas, with its patterns
	defer func() {
		if p := recover(); p != nil {
			if _, ours := p.(spent); !ours {
				panic(p)
			}
			c, err = nil, errors.New("the schema cannot be used: its patterns are too much work")
		}
	}()
	if c.root, err = compiler.Compile(location); err != nil {
		return nil, unusable(doc, err)
	}
	c.meter.install(c.root)
	return c, nil
}

// take is a copy that nobody else uses.
func (s *Schema) take() *compiled {
	select {
	case c := <-s.free:
		return c
	default:
	}
	s.mu.Lock()
	more := s.made < copies
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
	return <-s.free
}

// maxSaid is how much of what is wrong with a body is said, in bytes, and maxCauses how many things.
const (
	maxSaid   = 900
	maxCauses = 3
)

// ErrNotJSON is wrapped by the error of Check about a body that is none.
var ErrNotJSON = errors.New("the body is no JSON")

// Check judges a body. The error says what is wrong, where, and what would be right; it holds no more of the body than names and short values.
func (s *Schema) Check(body []byte) error {
	if len(body) > largeBody {
		large.Lock()
		defer large.Unlock()
	}
	turns <- struct{}{}
	defer func() { <-turns }()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%w: %s", ErrNotJSON, notJSON(body, err))
	}
	if err := bounded(v); err != nil {
		return err
	}
	c := s.take()
	defer func() { s.free <- c }()
	return c.check(v, len(body))
}

// check has the steps of a body of n bytes.
func (c *compiled) check(v any, n int) (err error) {
	defer func() {
		if p := recover(); p != nil {
			if _, ours := p.(spent); !ours {
				panic(p)
			}
			err = fmt.Errorf("the body is too much work for the schema: more than %d steps", c.meter.most)
		}
	}()
	c.meter.begin(n)
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
