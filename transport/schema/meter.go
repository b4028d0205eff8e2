package schema

import (
	"context"
	"fmt"
	"reflect"

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
