package mapping

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/expr-lang/expr/types"

	"github.com/quorate/quorate/transport/pattern"
)

// run is one evaluation: its message and what is left of its budget.
type run struct {
	ctx    context.Context // of this evaluation alone
	in     *Input
	steps  int
	made   int // bytes of text that may still be made
	values int // of ranges, that have been made
	calls  int
	late   bool

	patterns map[string]*pattern.Pattern // read so far, at most maxPatterns
}

var (
	errSteps  = fmt.Errorf("more than %d steps", maxSteps)
	errMade   = fmt.Errorf("it makes more than %d bytes of text", maxMade)
	errValues = fmt.Errorf("it makes more than %d values of lists and objects", maxValues)
	errLate   = errors.New("not in time")
)

// pay takes steps for a call that reads so many bytes.
func (r *run) pay(bytes int) error { return r.paySteps(1 + bytes/stepBytes) }

func (r *run) paySteps(n int) error {
	r.steps -= n
	if r.calls++; r.calls%256 == 0 && r.ctx.Err() != nil {
		r.late = true
		return errLate
	}
	if r.steps < 0 {
		return errSteps
	}
	return nil
}

// room takes room for so many bytes of text.
func (r *run) room(bytes int) error {
	if r.made -= bytes; r.made < 0 || bytes < 0 {
		return errMade
	}
	return r.pay(bytes)
}

// sample is what an expression is checked against: the types of what it will see.
func sample(kind Kind) types.Map {
	r := &run{ctx: context.Background(), in: &Input{}}
	m := types.Map{}
	for name, v := range r.names(kind, nil) {
		m[name] = types.TypeOf(v)
	}
	said := types.Map{}
	for name, v := range r.in.facts() {
		said[name] = types.TypeOf(v)
	}
	m["body"], m["message"] = types.Any, said
	return m
}

// functionsOf are the functions that can be called.
func functionsOf(kind Kind) map[string]bool {
	r := &run{ctx: context.Background(), in: &Input{}}
	all := map[string]bool{}
	for name, v := range r.names(kind, nil) {
		if v != nil && reflect.TypeOf(v).Kind() == reflect.Func && !strings.HasPrefix(name, "__") {
			all[name] = true
		}
	}
	return all
}

// env is what the expression sees of the message.
func (r *run) env(kind Kind) (map[string]any, error) {
	v, err := r.in.parse()
	if err != nil {
		return nil, err
	}
	return r.names(kind, v), nil
}

func (r *run) names(kind Kind, body any) map[string]any {
	env := map[string]any{
		"body": body, "headers": r.in.headers(), "message": r.in.facts(),
		"__turn": r.turn, "__test": r.test, "__condition": r.condition, "__list": r.list, "__index": r.index, "__label": r.label, "__slice": r.slice,
		"__equal": r.equal, "__differ": r.differ, "__in": r.within, "__matches": r.matches,
		"__contains": r.about("contains", strings.Contains), "__starts": r.about("startsWith", strings.HasPrefix), "__ends": r.about("endsWith", strings.HasSuffix),
		"__add": r.add, "__subtract": calculating(opSubtract), "__multiply": calculating(opMultiply), "__divide": calculating(opDivide),
		"__remainder": calculating(opRemainder), "__power": calculating(opPower), "__negate": r.negate, "__plus": r.plus, "__range": r.between,
		"__less": r.comparing("<", func(c int) bool { return c < 0 }), "__more": r.comparing(">", func(c int) bool { return c > 0 }),
		"__most": r.comparing("<=", func(c int) bool { return c <= 0 }), "__least": r.comparing(">=", func(c int) bool { return c >= 0 }),
	}
	r.functions(env)
	if kind == Messages {
		env["send"] = r.send
	}
	return env
}

// turnNodes is for how many parts of what a loop repeats a turn costs a step more: what has no bound of its own is paid for with the turn.
const turnNodes = 8

// turn is the end of a turn of a loop over so many parts.
func (r *run) turn(v any, parts int) (any, error) { return v, r.paySteps(1 + parts/turnNodes) }

// test is the end of a turn of a loop that asks for a condition.
func (r *run) test(v any, parts int) (bool, error) {
	if err := r.paySteps(1 + parts/turnNodes); err != nil {
		return false, err
	}
	return r.condition(v)
}

// condition is what decides.
func (r *run) condition(v any) (bool, error) {
	b, ok := v.(bool)
	if !ok {
		return false, fmt.Errorf("%s as a condition; a boolean would be right", name(v))
	}
	return b, nil
}

// list is what a loop walks.
func (r *run) list(v any, function string) (any, error) {
	switch v.(type) {
	case []any, []int:
		return v, nil
	}
	return nil, wants(function, v, "a list")
}

// index is what is between [ and ].
func (r *run) index(v any) (any, error) {
	switch x := v.(type) {
	case string, int:
		return v, nil
	case float64:
		if n, ok := whole(x); ok && x == math.Trunc(x) {
			return n, nil
		}
	}
	return nil, fmt.Errorf("%s as an index; an integer or a name would be right", shown(v))
}

// label is the name of an object's entry that is not written as it is.
func (r *run) label(v any) (string, error) {
	s, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("%s as the name in an object; a text would be right", name(v))
	}
	return s, nil
}

// slice is v[from:to] of a text, in bytes, or of a list; nil is the beginning and the end.
func (r *run) slice(v, from, to any) (any, error) {
	n := 0
	switch x := v.(type) {
	case string:
		n = len(x)
	case []any:
		n = len(x)
	case []int:
		n = len(x)
	default:
		return nil, wants("a part", v, "a text or a list")
	}
	at := func(v any, otherwise int) (int, error) {
		if v == nil {
			return otherwise, nil
		}
		i, ok := v.(int)
		if !ok {
			return 0, fmt.Errorf("%s as an end of a part; an integer would be right", shown(v))
		}
		if i < 0 {
			i += n // from the end
		}
		return min(max(i, 0), n), nil
	}
	a, err := at(from, 0)
	if err != nil {
		return nil, err
	}
	b, err := at(to, n)
	if err != nil {
		return nil, err
	}
	a = min(a, b)
	switch x := v.(type) {
	case string:
		return x[a:b], nil
	case []int:
		return x[a:b], nil
	}
	return v.([]any)[a:b], nil
}

func (r *run) equal(a, b any) (bool, error) { return r.same(a, b, 0) }

func (r *run) differ(a, b any) (bool, error) {
	same, err := r.same(a, b, 0)
	return !same, err
}

// same compares values as JSON: numbers by what they are, lists and objects by what is in them.
func (r *run) same(a, b any, depth int) (bool, error) {
	if depth > maxNesting {
		return false, fmt.Errorf("values nest deeper than %d", maxNesting)
	}
	if err := r.pay(0); err != nil {
		return false, err
	}
	switch x := a.(type) {
	case nil:
		return b == nil, nil
	case bool:
		y, ok := b.(bool)
		return ok && x == y, nil
	case string:
		y, ok := b.(string)
		if !ok || len(x) != len(y) {
			return false, nil
		}
		return x == y, r.pay(len(x))
	case int, float64, wide:
		if !isNumber(b) {
			return false, nil
		}
		c, err := r.order(a, b)
		return c == 0, err
	}
	if x, ok := listOf(a); ok {
		y, ok := listOf(b)
		if !ok || len(x) != len(y) {
			return false, r.pay(4 * (len(x) + len(y)))
		}
		for i := range x {
			if same, err := r.same(x[i], y[i], depth+1); !same || err != nil {
				return false, err
			}
		}
		return true, nil
	}
	x, ok := objectOf(a)
	y, ok2 := objectOf(b)
	if !ok || !ok2 || len(x) != len(y) {
		return false, nil
	}
	for k, v := range x {
		w, there := y[k]
		if !there {
			return false, nil
		}
		if same, err := r.same(v, w, depth+1); !same || err != nil {
			return false, err
		}
	}
	return true, nil
}

// within is in: an element of a list, or a name of an object.
func (r *run) within(a, b any) (bool, error) {
	if b == nil {
		return false, r.pay(0)
	}
	if list, ok := listOf(b); ok {
		if err := r.pay(4 * len(list)); err != nil {
			return false, err
		}
		for _, x := range list {
			if same, err := r.same(a, x, 0); same || err != nil {
				return same, err
			}
		}
		return false, nil
	}
	if o, ok := objectOf(b); ok {
		if k, ok := a.(string); ok {
			_, there := o[k]
			return there, r.pay(0)
		}
	}
	return false, fmt.Errorf("%s in %s; a value in a list or a text in an object would be right", name(a), name(b))
}

// Bounds of regular expressions: instructions of one, patterns that an evaluation keeps ready, what reading one costs beside its instructions,
// and how many instructions times bytes of text are one step.
const (
	maxPattern  = 500
	maxPatterns = 16
	readPattern = 100
	matchStep   = 32
)

// matches is the operator of that name. Patterns are RE2.
func (r *run) matches(a, b any) (bool, error) {
	text, ok := a.(string)
	written, ok2 := b.(string)
	if !ok || !ok2 {
		return false, fmt.Errorf("%s matches %s; two texts would be right", name(a), name(b))
	}
	p, err := r.pattern(written)
	if err != nil {
		return false, err
	}
	return p.Match(text, func(work int) error { return r.paySteps(1 + work/matchStep) })
}

// pattern reads a regular expression, or finds it read.
func (r *run) pattern(written string) (*pattern.Pattern, error) {
	if p := r.patterns[written]; p != nil {
		return p, r.pay(len(written))
	}
	if err := r.paySteps(readPattern + len(written)); err != nil { // it is much more than to read its bytes
		return nil, err
	}
	p, err := pattern.Compile(written, maxPattern)
	if err != nil {
		return nil, err
	}
	if err := r.paySteps(p.Size()); err != nil {
		return nil, err
	}
	if r.patterns == nil || len(r.patterns) >= maxPatterns {
		r.patterns = map[string]*pattern.Pattern{}
	}
	r.patterns[written] = p
	return p, nil
}

// about is an operator on two texts.
func (r *run) about(operator string, f func(a, b string) bool) func(a, b any) (bool, error) {
	return func(a, b any) (bool, error) {
		x, ok := a.(string)
		y, ok2 := b.(string)
		if !ok || !ok2 {
			return false, fmt.Errorf("%s %s %s; two texts would be right", name(a), operator, name(b))
		}
		return f(x, y), r.pay(len(x) + len(y))
	}
}

func listOf(v any) ([]any, bool) {
	switch v := v.(type) {
	case []any:
		return v, true
	case []int: // of a range
		list := make([]any, len(v))
		for i := range v {
			list[i] = v[i]
		}
		return list, true
	}
	return nil, false
}

func objectOf(v any) (map[string]any, bool) {
	switch v := v.(type) {
	case map[string]any:
		return v, true
	case map[string]string:
		o := make(map[string]any, len(v))
		for k, x := range v {
			o[k] = x
		}
		return o, true
	}
	return nil, false
}

// name is what a value is, in words.
func name(v any) string {
	switch v.(type) {
	case nil:
		return "nil"
	case bool:
		return "a boolean"
	case string:
		return "a text"
	case int, float64:
		return "a number"
	case wide:
		return "an integer beyond 64 bits"
	case made, *made:
		return "a message"
	case uint8:
		return "a byte of a text"
	}
	if _, ok := listOf(v); ok {
		return "a list"
	}
	if _, ok := objectOf(v); ok {
		return "an object"
	}
	if reflect.TypeOf(v).Kind() == reflect.Func {
		return "a function"
	}
	return "a value that is none of JSON's"
}
