package schema

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/quorate/quorate/transport/pattern"
)

// Steps of judging a body: so many, and so many more for each of its bytes.
const (
	stepsBase = 10_000
	stepsByte = 64
	// stepsMost is what no body takes of a sound schema, be it as long as bodies may be: a step that fails is half a microsecond, and some 250
	// bytes of error that are kept until the end.
	stepsMost = 1_000_000
)

// Of regular expressions.
const (
	maxPattern  = 1000   // instructions of one
	maxPatterns = 20_000 // of all of a schema: about 2 MB
	// matchStep is how many instructions times bytes a match may look at for one step: 5 to 20 ns each, so that stepsMost take a quarter of a second.
	matchStep = 16
	// A pattern that a body has takes 100 ns for each instruction, and seven bytes may be a thousand of them.
	readPattern = 100
	readByte    = 100
)

// textStep is how many bytes of text are measured, or compared, for one step.
const textStep = 64

// ratSteps is what comparing two numbers that are written otherwise costs, with exponents up to maxExponent.
const ratSteps = 16

// spent is what a meter panics with when a body has no steps left. It is caught where the steps were given.
type spent struct{}

// stopped is what it panics with when whoever waits has gone.
type stopped struct{}

// stepsLook is after how many steps it is looked at whether somebody waits still: a millisecond or two.
const stepsLook = 4096

// meter counts what one look of a schema at a body costs.
type meter struct {
	left, most int
	ctx        context.Context // of the judgement under way
	look       int             // at ctx, when so many are left
	patterns   int             // instructions and classes of all patterns
	worked     int             // what matches have come to, instructions times bytes, for tests
	installed  bool            // the schema is compiled: patterns that come now are of bodies
	marks      bool            // some part has unevaluated…: each look at a list or an object notes all that is in it
}

func (m *meter) begin(ctx context.Context, bytes int) {
	m.most = min(stepsBase+stepsByte*bytes, stepsMost)
	m.left, m.look, m.ctx = m.most, m.most, ctx
}

// end lets go of what has been judged.
func (m *meter) end() { m.ctx = nil }

func (m *meter) pay(steps int) {
	if m.left -= steps; m.left < 0 {
		panic(spent{})
	}
	if m.left <= m.look {
		if m.look = m.left - stepsLook; m.ctx.Err() != nil {
			panic(stopped{})
		}
	}
}

// compiled is a compiled schema and what counts its steps; one goroutine uses it at a time.
type compiled struct {
	root  *jsonschema.Schema
	size  int // estimated, in bytes
	meter meter
}

// install has every part of a schema pay for each look at a value. The library asks a part for its format before it goes on to its
// branches, so that is where the toll is. Parts are found by reflection, since some are behind fields that are not exported.
func (m *meter) install(root *jsonschema.Schema) {
	seen := map[*jsonschema.Schema]bool{}
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if v.IsNil() {
				return
			}
			if v.Type() != reflect.TypeFor[*jsonschema.Schema]() {
				if v.Type() == reflect.TypeFor[*jsonschema.DynamicRef]() {
					walk(v.Elem())
				}
				return
			}
			s := (*jsonschema.Schema)(v.UnsafePointer())
			if seen[s] {
				return
			}
			seen[s] = true
			walk(v.Elem())
			m.toll(s)
		case reflect.Interface:
			if !v.IsNil() {
				walk(v.Elem())
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i))
			}
		case reflect.Map:
			for at := v.MapRange(); at.Next(); {
				walk(at.Value())
			}
		case reflect.Struct:
			if t := v.Type(); t == reflect.TypeFor[jsonschema.Schema]() || t == reflect.TypeFor[jsonschema.DynamicRef]() {
				for i := range v.NumField() {
					switch t.Field(i).Name {
					case "Const", "Enum", "Default", "Examples", "Format", "Extensions": // values, not schemas
					default:
						walk(v.Field(i))
					}
				}
			}
		}
	}
	walk(reflect.ValueOf(root))
	m.installed = true
}

// toll has a part pay before its branches are looked at, as many steps as it has of them.
func (m *meter) toll(s *jsonschema.Schema) {
	steps := 1 + len(s.AllOf) + len(s.AnyOf) + len(s.OneOf) + len(s.Properties) + len(s.PatternProperties) + len(s.Required) +
		len(s.Dependencies) + len(s.DependentRequired) + len(s.DependentSchemas) + len(s.PrefixItems)
	m.marks = m.marks || s.UnevaluatedProperties != nil || s.UnevaluatedItems != nil
	// The library compares with const and enum before it asks for the format, and each time by exact arithmetic: both are done here.
	var values []any
	what := ""
	switch {
	case s.Const != nil:
		values, what = []any{*s.Const}, "value must be "
	case s.Enum != nil:
		values, what = s.Enum.Values, "value must be one of "
	}
	s.Const, s.Enum = nil, nil
	own := s.Format
	s.Format = &jsonschema.Format{Validate: func(v any) error {
		m.pay(steps * (1 + m.size(v))) // each branch may measure it, or note what is in it
		if what != "" && !slices.ContainsFunc(values, func(w any) bool { return m.same(v, w) }) {
			return &unequal{what, values}
		}
		if own != nil {
			return own.Validate(v)
		}
		return nil
	}}
	if own != nil {
		s.Format.Name = own.Name
	}
}

// size is what a look at a value costs beside its branches: a text is measured, and of a list or an object it may be noted what is in it.
func (m *meter) size(v any) int {
	switch v := v.(type) {
	case string:
		return len(v) / textStep
	case []any:
		if m.marks {
			return len(v)
		}
	case map[string]any:
		if m.marks {
			return len(v)
		}
	}
	return 0
}

// same compares values as JSON Schema does: numbers by what they are.
func (m *meter) same(a, b any) bool {
	m.pay(1)
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for k, v := range x {
			if w, there := y[k]; !there || !m.same(v, w) {
				return false
			}
		}
		return true
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, m.same)
	case string:
		y, ok := b.(string)
		if ok && len(x) == len(y) {
			m.pay(len(x) / textStep)
		}
		return ok && x == y
	case json.Number:
		y, ok := b.(json.Number)
		if !ok || x == y {
			return ok
		}
		m.pay(ratSteps)
		p, ok1 := new(big.Rat).SetString(string(x))
		q, ok2 := new(big.Rat).SetString(string(y))
		return ok1 && ok2 && p.Cmp(q) == 0
	}
	return a == b
}

// unequal says that a value is none of those of const or enum.
type unequal struct {
	what   string
	values []any
}

func (e *unequal) Error() string {
	var b strings.Builder
	b.WriteString(e.what)
	for i, v := range e.values {
		if i > 0 {
			b.WriteString(", ")
		}
		if b.Len() > 200 {
			b.WriteString("…")
			break
		}
		text, _ := json.Marshal(v)
		b.Write(text)
	}
	return b.String()
}

// pattern is the engine of regular expressions: those of the schema are kept and counted, those that a body has under "format": "regex" are
// read and forgotten, and paid for.
func (m *meter) pattern(text string) (jsonschema.Regexp, error) {
	if m.installed {
		m.pay(readPattern + len(text)*readByte)
	}
	p, err := pattern.Compile(text, maxPattern)
	if err != nil {
		return nil, err
	}
	if m.installed {
		return &matcher{p, m, text}, nil
	}
	if m.patterns += p.Kept(); m.patterns > maxPatterns {
		return nil, fmt.Errorf("the patterns of the schema have more than %d instructions and classes together; fewer would be right", maxPatterns)
	}
	return &matcher{p, m, text}, nil
}

// matcher is a pattern that pays for its matches.
type matcher struct {
	*pattern.Pattern
	meter *meter
	text  string
}

func (p *matcher) String() string { return p.text }

func (p *matcher) MatchString(s string) bool {
	found, _ := p.Match(s, p.meter.work)
	return found
}

// work pays for matching, and never returns an error: what it cannot pay ends all of the judgement.
func (m *meter) work(n int) error {
	m.pay(1 + n/matchStep)
	m.worked += n
	return nil
}
