package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Values are the same as JSON Schema has it: numbers by what they are, lists and objects by what is in them.

// among says whether a value is one of these.
func (m *meter) among(v any, values []any) bool {
	return slices.ContainsFunc(values, func(w any) bool { return m.same(v, w) })
}

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
		return ok && (x == y || normal(x) == normal(y))
	}
	return a == b
}

// decimal takes a number of JSON apart: what it is, is its digits, without zeros at either end, times ten to the exponent. 0 has no digits.
func decimal(text string) (negative bool, digits string, exponent int) {
	text, negative = strings.CutPrefix(text, "-")
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		exponent, _ = strconv.Atoi(text[at+1:]) // in bounds: see number
		text = text[:at]
	}
	if whole, fraction, ok := strings.Cut(text, "."); ok {
		text = whole + fraction
		exponent -= len(fraction)
	}
	text = strings.TrimLeft(text, "0")
	digits = strings.TrimRight(text, "0")
	exponent += len(text) - len(digits)
	if digits == "" {
		return false, "", 0
	}
	return negative, digits, exponent
}

// normal is a number in the one way in which it is the same text as each that is the same number.
func normal(n json.Number) string {
	negative, digits, exponent := decimal(string(n))
	sign := ""
	if negative {
		sign = "-"
	}
	return sign + digits + "e" + strconv.Itoa(exponent)
}

// distinct finds two items that are the same, by a text for each that is the same for no others. The library looks them up by hashes in which
// lists within lists are all alike.
func (m *meter) distinct(list []any) error {
	seen := make(map[string]int, len(list))
	var b []byte
	for i, v := range list {
		b = m.spell(b[:0], v)
		if at, twice := seen[string(b)]; twice {
			return &alike{at, i}
		}
		seen[string(b)] = i
	}
	return nil
}

// spell appends a value's text.
func (m *meter) spell(b []byte, v any) []byte {
	m.pay(1)
	switch v := v.(type) {
	case map[string]any:
		names := make([]string, 0, len(v))
		for k := range v {
			names = append(names, k)
		}
		slices.Sort(names)
		m.pay(len(names))
		b = append(b, '{')
		for _, k := range names {
			b = append(strconv.AppendInt(b, int64(len(k)), 10), ':')
			b = m.spell(append(b, k...), v[k])
		}
		return append(b, '}')
	case []any:
		b = append(b, '[')
		for _, x := range v {
			b = m.spell(b, x)
		}
		return append(b, ']')
	case string:
		m.pay(len(v) / textStep)
		return append(append(strconv.AppendInt(append(b, '"'), int64(len(v)), 10), ':'), v...)
	case json.Number:
		return append(append(append(b, '#'), normal(v)...), ';')
	case bool:
		return strconv.AppendBool(b, v)
	}
	return append(b, "null"...)
}

// alike says that two items are the same where none may be.
type alike struct{ a, b int }

func (e *alike) Error() string { return fmt.Sprintf("items at %d and %d are equal", e.a, e.b) }

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
