package mapping

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// functions are those of expressions, beside the ones of the language that walk lists. What is not of the kind that they want is an error.
//
//	len(v)                     of a text in characters, of a list or an object in entries
//	string(v) int(v) float(v)  of numbers, texts and booleans: int cuts a fraction off, float takes the nearest one
//	lower(s) upper(s) trim(s)
//	trimPrefix(s, p) trimSuffix(s, p)
//	split(s, sep)              a list of texts
//	join(list, sep)            a text
//	replace(s, old, new)       each old
//	keys(o)                    names of an object, sorted
//	abs(n) floor(n) ceil(n) round(n) min(a, b) max(a, b)
//	toJSON(v) fromJSON(s) toBase64(s) fromBase64(s)
func (r *run) functions(env map[string]any) {
	env["len"] = r.length
	env["string"], env["int"], env["float"] = r.toText, r.toInt, r.toFloat
	env["lower"], env["upper"] = r.text("lower", strings.ToLower), r.text("upper", strings.ToUpper)
	env["trim"] = r.text("trim", strings.TrimSpace)
	env["trimPrefix"], env["trimSuffix"] = r.texts("trimPrefix", strings.TrimPrefix), r.texts("trimSuffix", strings.TrimSuffix)
	env["split"], env["join"], env["replace"], env["keys"] = r.split, r.join, r.replace, r.keys
	env["abs"], env["floor"], env["ceil"], env["round"] = r.abs, r.rounding("floor", math.Floor), r.rounding("ceil", math.Ceil), r.rounding("round", math.Round)
	env["min"], env["max"] = r.pick("min", -1), r.pick("max", 1)
	env["toJSON"], env["fromJSON"] = r.toJSON, r.fromJSON
	env["toBase64"], env["fromBase64"] = r.toBase64, r.fromBase64
}

func wants(function string, v any, what string) error {
	return fmt.Errorf("%s of %s; %s would be right", function, name(v), what)
}

func (r *run) length(v any) (int, error) {
	if s, ok := v.(string); ok {
		return utf8.RuneCountInString(s), r.pay(len(s))
	}
	switch list := v.(type) {
	case []any:
		return len(list), r.pay(0)
	case []int: // of a range: not copied for this
		return len(list), r.pay(0)
	}
	if o, ok := objectOf(v); ok {
		return len(o), r.pay(0)
	}
	return 0, wants("len", v, "a text, a list or an object")
}

func (r *run) toText(v any) (string, error) {
	switch x := v.(type) {
	case string:
		return x, r.pay(0)
	case bool:
		return strconv.FormatBool(x), r.pay(0)
	case int:
		return strconv.Itoa(x), r.pay(0)
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64), r.pay(0)
	case wide:
		return x.text, r.pay(len(x.text))
	}
	return "", wants("string", v, "a text, a number or a boolean, and toJSON of all else")
}

func (r *run) toInt(v any) (int, error) {
	if err := r.pay(0); err != nil {
		return 0, err
	}
	switch x := v.(type) {
	case int:
		return x, nil
	case float64:
		if n, ok := whole(x); ok {
			return n, nil
		}
		return 0, beyond("int(%s)", shown(x))
	case wide:
		return 0, beyond("int(%s)", shown(x))
	case string:
		n, err := strconv.Atoi(x)
		if errors.Is(err, strconv.ErrRange) {
			return 0, beyond("int of the text %.40q", x)
		}
		if err != nil {
			return 0, fmt.Errorf("int of the text %.40q; an integer would be right", x)
		}
		return n, nil
	}
	return 0, wants("int", v, "a number or a text")
}

// whole is a float without its fraction, if that is an integer of 64 bits.
func whole(f float64) (int, bool) {
	if f >= -1<<63 && f < 1<<63 {
		return int(f), true
	}
	return 0, false
}

func (r *run) toFloat(v any) (float64, error) {
	if err := r.pay(0); err != nil {
		return 0, err
	}
	text := ""
	switch x := v.(type) {
	case int:
		return float64(x), nil
	case float64:
		return x, nil
	case wide:
		text = x.text
	case string:
		text = x
	default:
		return 0, wants("float", v, "a number or a text")
	}
	if err := r.pay(len(text)); err != nil {
		return 0, err
	}
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("float of %.40q, which is beyond the largest number, 1.8e308", text)
	case err != nil || math.IsNaN(f) || math.IsInf(f, 0):
		return 0, fmt.Errorf("float of the text %.40q; a number would be right", text)
	}
	return f, nil
}

// text is a function of one text that makes another about as long.
func (r *run) text(function string, f func(string) string) func(any) (string, error) {
	return func(v any) (string, error) {
		s, ok := v.(string)
		if !ok {
			return "", wants(function, v, "a text")
		}
		if err := r.room(len(s)); err != nil {
			return "", err
		}
		return f(s), nil
	}
}

func (r *run) texts(function string, f func(s, t string) string) func(any, any) (string, error) {
	return func(a, b any) (string, error) {
		s, ok := a.(string)
		t, ok2 := b.(string)
		if !ok || !ok2 {
			return "", fmt.Errorf("%s of %s and %s; two texts would be right", function, name(a), name(b))
		}
		return f(s, t), r.pay(len(t))
	}
}

func (r *run) split(a, b any) ([]any, error) {
	s, ok := a.(string)
	sep, ok2 := b.(string)
	if !ok || !ok2 {
		return nil, fmt.Errorf("split of %s and %s; two texts would be right", name(a), name(b))
	}
	if err := r.room(len(s)); err != nil {
		return nil, err
	}
	n := utf8.RuneCountInString(s)
	if sep != "" {
		n = strings.Count(s, sep) + 1
	}
	if n > maxValues {
		return nil, fmt.Errorf("split into %d texts; at most %d are allowed", n, maxValues)
	}
	if err := r.room(32 * n); err != nil { // what a text in a list takes
		return nil, err
	}
	parts := strings.Split(s, sep)
	list := make([]any, len(parts))
	for i := range parts {
		list[i] = parts[i]
	}
	return list, nil
}

func (r *run) join(a, b any) (string, error) {
	list, ok := listOf(a)
	sep, ok2 := b.(string)
	if !ok || !ok2 {
		return "", fmt.Errorf("join of %s and %s; a list and a text would be right", name(a), name(b))
	}
	var out strings.Builder
	for i, v := range list {
		s, err := r.toText(v)
		if err != nil {
			return "", err
		}
		if i > 0 {
			s = sep + s
		}
		if err := r.room(len(s)); err != nil {
			return "", err
		}
		out.WriteString(s)
	}
	return out.String(), nil
}

func (r *run) replace(v, old, with any) (string, error) {
	s, ok := v.(string)
	o, ok2 := old.(string)
	w, ok3 := with.(string)
	if !ok || !ok2 || !ok3 {
		return "", fmt.Errorf("replace of %s, %s and %s; three texts would be right", name(v), name(old), name(with))
	}
	if err := r.pay(len(s)); err != nil {
		return "", err
	}
	n := strings.Count(s, o) // at most 16 Mi times 32 MiB: it fits in an int
	if err := r.room(len(s) + n*max(0, len(w)-len(o))); err != nil {
		return "", err
	}
	return strings.ReplaceAll(s, o, w), nil
}

func (r *run) keys(v any) ([]any, error) {
	o, ok := objectOf(v)
	if !ok {
		return nil, wants("keys", v, "an object")
	}
	if err := r.room(32 * len(o)); err != nil {
		return nil, err
	}
	return sortedKeys(o), nil
}

func sortedKeys(o map[string]any) []any {
	names := make([]string, 0, len(o))
	for k := range o {
		names = append(names, k)
	}
	slices.Sort(names)
	list := make([]any, len(names))
	for i := range names {
		list[i] = names[i]
	}
	return list
}

func (r *run) abs(v any) (any, error) {
	switch x := v.(type) {
	case int:
		if x < 0 {
			return r.negate(x)
		}
		return x, r.pay(0)
	case float64:
		return math.Abs(x), r.pay(0)
	case wide:
		if x.negative() {
			return r.negate(x)
		}
		return x, r.pay(0)
	}
	return nil, wants("abs", v, "a number")
}

// rounding is a function that makes a number one without fraction.
func (r *run) rounding(function string, f func(float64) float64) func(any) (any, error) {
	return func(v any) (any, error) {
		switch x := v.(type) {
		case int, wide:
			return x, r.pay(0)
		case float64:
			return r.toInt(f(x))
		}
		return nil, wants(function, v, "a number")
	}
}

// pick is min (-1) or max (1).
func (r *run) pick(function string, sign int) func(a, b any) (any, error) {
	return func(a, b any) (any, error) {
		for _, v := range []any{a, b} {
			if !isNumber(v) {
				return nil, wants(function, v, "two numbers")
			}
		}
		c, err := r.order(b, a)
		if err != nil {
			return nil, err
		}
		if c == sign {
			return b, r.pay(0)
		}
		return a, r.pay(0)
	}
}

func (r *run) toJSON(v any) (string, error) {
	e := encoder{r: r, most: r.made}
	if err := e.value(v, 0); err != nil {
		return "", err
	}
	return string(e.b), r.room(len(e.b))
}

func (r *run) fromJSON(v any) (any, error) {
	s, ok := v.(string)
	if !ok {
		return nil, wants("fromJSON", v, "a text")
	}
	if err := r.room(32 * len(s)); err != nil { // what it takes in memory, at worst
		return nil, err
	}
	x, err := parseJSON([]byte(s))
	if err != nil {
		return nil, fmt.Errorf("fromJSON: %s", cut(err.Error(), 200))
	}
	return x, nil
}

func (r *run) toBase64(v any) (string, error) {
	s, ok := v.(string)
	if !ok {
		return "", wants("toBase64", v, "a text")
	}
	if err := r.room(base64.StdEncoding.EncodedLen(len(s))); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString([]byte(s)), nil
}

func (r *run) fromBase64(v any) (string, error) {
	s, ok := v.(string)
	if !ok {
		return "", wants("fromBase64", v, "a text")
	}
	if err := r.room(len(s)); err != nil {
		return "", err
	}
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return "", fmt.Errorf("fromBase64 of the text %.40q; base64 (RFC 4648, with padding) would be right", s)
	}
	return string(b), nil
}
