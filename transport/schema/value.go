package schema

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Bounds of values in bodies and schemas.
const (
	maxNesting  = 200
	maxNumber   = 100 // characters
	maxExponent = 400
)

// bounded judges a parsed value by what exact arithmetic and recursion can bear.
func bounded(v any) error {
	if m := over(v, 0); m != nil {
		return m
	}
	return nil
}

func over(v any, depth int) *misplaced {
	if depth > maxNesting {
		return &misplaced{what: fmt.Sprintf("values nest deeper than %d", maxNesting)}
	}
	switch v := v.(type) {
	case map[string]any:
		for name, x := range v {
			if m := over(x, depth+1); m != nil {
				return m.in(name)
			}
		}
	case []any:
		for i, x := range v {
			if m := over(x, depth+1); m != nil {
				return m.in(strconv.Itoa(i))
			}
		}
	case json.Number:
		return number(string(v))
	}
	return nil
}

// misplaced is an error about a value, and the way to it.
type misplaced struct {
	way  []string // inside out
	what string
}

func (e *misplaced) Error() string { return line(e.place(), 200) + ": " + e.what }

// place is the way as a JSON pointer.
func (e *misplaced) place() string {
	var b strings.Builder
	for i := len(e.way) - 1; i >= 0 && b.Len() < 200; i-- {
		b.WriteByte('/')
		b.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(e.way[i]))
	}
	if b.Len() == 0 {
		b.WriteByte('/')
	}
	return cut(b.String(), 200)
}

func (e *misplaced) in(name string) *misplaced {
	e.way = append(e.way, name)
	return e
}

// number judges a number that JSON allows.
func number(text string) *misplaced {
	if len(text) > maxNumber {
		return &misplaced{what: fmt.Sprintf("a number of %d characters; at most %d are allowed", len(text), maxNumber)}
	}
	at := strings.IndexAny(text, "eE")
	if at < 0 {
		return nil
	}
	if n, err := strconv.Atoi(text[at+1:]); err != nil || n > maxExponent || n < -maxExponent {
		return &misplaced{what: fmt.Sprintf("a number with exponent %s; -%d to %d are allowed", text[at+1:], maxExponent, maxExponent)}
	}
	return nil
}
