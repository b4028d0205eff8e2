package schema

import (
	"fmt"
	"reflect"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Steps of judging a body: so many, and so many more for each of its bytes.
const (
	stepsBase = 10_000
	stepsByte = 64
)

// maxPattern is how many instructions a regular expression may have, and matchStep how many of them, times bytes, are one step.
const (
	maxPattern = 1000
	matchStep  = 64
)

// spent is what a meter panics with when a body has no steps left. It is caught where the steps were given.
type spent struct{}

// meter counts what one look of a schema at a body costs.
type meter struct{ left, most int }

func (m *meter) begin(bytes int) {
	m.most = stepsBase + stepsByte*bytes
	m.left = m.most
}

func (m *meter) pay(steps int) {
	if m.left -= steps; m.left < 0 {
		panic(spent{})
	}
}

// compiled is a compiled schema and what counts its steps; one goroutine uses it at a time.
type compiled struct {
	root  *jsonschema.Schema
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
}

// toll has a part pay before its branches are looked at, as many steps as it has of them.
func (m *meter) toll(s *jsonschema.Schema) {
	steps := 1 + len(s.AllOf) + len(s.AnyOf) + len(s.OneOf) + len(s.Properties) + len(s.PatternProperties) + len(s.Required) +
		len(s.Dependencies) + len(s.DependentRequired) + len(s.DependentSchemas) + len(s.PrefixItems)
	if s.Enum != nil {
		steps += len(s.Enum.Values)
	}
	own := s.Format
	s.Format = &jsonschema.Format{Validate: func(v any) error {
		m.pay(steps)
		if own != nil {
			return own.Validate(v)
		}
		return nil
	}}
	if own != nil {
		s.Format.Name = own.Name
	}
}

// pattern is the engine of regular expressions: RE2, bounded, and paid for.
func (m *meter) pattern(text string) (jsonschema.Regexp, error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	if len(prog.Inst) > maxPattern {
		return nil, fmt.Errorf("pattern %.100q has %d instructions; at most %d are allowed: fewer or smaller repetitions would be right", text, len(prog.Inst), maxPattern)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	return &pattern{re, m, len(prog.Inst)}, nil
}

type pattern struct {
	*regexp.Regexp
	meter *meter
	size  int
}

// MatchString pays for what a match may take at worst.
func (p *pattern) MatchString(s string) bool {
	p.meter.pay(1 + len(s)*p.size/matchStep)
	return p.Regexp.MatchString(s)
}
