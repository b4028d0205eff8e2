package mapping

import (
	"errors"
	"reflect"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"unicode"

	"github.com/expr-lang/expr/file"
)

// What the library says is said anew: it speaks of Go's types, of tokens and of its own parts, and now and then over several lines. What is
// not known here is said without it. Our own errors come through the library as they are.

// saying is what the library says, and what is said instead: $1 and the like stand for a group, @1 and the like for what words makes of it.
type saying struct {
	said    *regexp.Regexp
	words   func(group string) string
	instead string
}

func say(said string, words func(string) string, instead string) saying {
	return saying{regexp.MustCompile(`(?s)^` + said + `$`), words, instead}
}

var sayings = []saying{
	// reading
	say(`unexpected token (.*)`, token, `unexpected @1`),
	say(`unexpected end of expression`, nil, `the expression ends too early`),
	say(`unrecognized character: (U\+[0-9A-F]+).*`, nil, `the character $1 has no meaning here`),
	say(`bad number syntax: (.*)`, nil, `$1 is no number`),
	say(`unclosed comment`, nil, `a comment that does not end; */ would be right`),
	say(`literal not terminated`, nil, `a text that does not end; a closing quote would be right`),
	say(`(?:invalid char escape|unable to unescape.*|too large string)`, nil, `an escape that is none; \n, \", \\ or \u0041 would be right`),
	say(`invalid float literal: .*parsing "(.*)": value out of range`, nil, `the number $1 is beyond the largest, 1.8e308`),
	say(`invalid \w+ literal: .*parsing "(.*)": value out of range`, nil, `integer overflow: $1 is beyond 64 bits; a number with a point is a float`),
	say(`invalid \w+ literal: .*parsing "(.*)": .*`, nil, `$1 is no number`),
	say(`(?:integer|float) literal is too large`, nil, `a number that is too large`),
	say(`expected at least (\d+) arguments`, nil, `not enough arguments`),
	say(`wrap predicate with brackets.*`, nil, `several expressions in a loop; braces around them would be right: {a; b}`),
	say(`a map key must be .*\(unexpected token (.*)\)`, token, `unexpected @1 as a name in an object; a name, a text, or an expression in parentheses would be right`),
	say(`expected name`, nil, `what follows the dot is no name`),
	say(`compilation failed: expression exceeds maximum allowed nodes`, nil, errNodes.Text),
	say(`Operator \((.*)\) and coalesce expressions .*`, nil, `?? and $1 are mixed; parentheses around one of them would be right`),
	// checking
	say(`unknown name (.*)`, nil, `unknown name $1`),
	say(`unknown field (.*)`, nil, `unknown field $1`),
	say(`invalid operation: (?:!|not) \(mismatched type (.*)\)`, kind, `not @1; a boolean would be right`),
	say(`invalid operation: ([-+]) \(mismatched type (.*)\)`, kind, `@1 of @2; a number would be right`),
	say(`invalid operation: (?:\|\||or) \(mismatched types (.*) and (.*)\)`, kind, `@1 or @2; two booleans would be right`),
	say(`invalid operation: (?:&&|and) \(mismatched types (.*) and (.*)\)`, kind, `@1 and @2; two booleans would be right`),
	say(`invalid operation: (\+|<=?|>=?) \(mismatched types (.*) and (.*)\)`, kind, `@2 @1 @3; two numbers or two texts would be right`),
	say(`invalid operation: (%|\.\.) \(mismatched types (.*) and (.*)\)`, kind, `@2 @1 @3; two integers would be right`),
	say(`invalid operation: ([-*/^]|\*\*) \(mismatched types (.*) and (.*)\)`, kind, `@2 @1 @3; two numbers would be right`),
	say(`invalid operation: (==|!=) \(mismatched types (.*) and (.*)\)`, kind, `@2 @1 @3, which are never the same; values of one kind would be right`),
	say(`invalid operation: in \(mismatched types (.*) and (.*)\)`, kind, `@1 in @2; a value in a list or a text in an object would be right`),
	say(`invalid operation: (\w+) \(mismatched types (.*) and (.*)\)`, kind, `@2 @1 @3; two texts would be right`),
	say(`cannot use (.*) as type .* in map key`, kind, `@1 in an object; a text would be right`),
	say(`cannot use (.*) as type (.*) in array`, kind, `@1 in a list of others; a value of their kind would be right`),
	say(`cannot use (.*) to get an element from (.*)`, kind, `@1 as an index of @2; a text would be right`),
	say(`array elements can only be selected using an integer \(got (.*)\)`, kind, `@1 as an index of a list; an integer would be right`),
	say(`cannot slice (.*)`, kind, `a part of @1; a text or a list would be right`),
	say(`non-integer slice index (.*)`, kind, `@1 as an end of a part; an integer would be right`),
	say(`type nil has no (?:field|method) (.*)`, nil, `nil has no field $1`),
	say(`type (.*) has no (?:field|method) (.*)`, kind, `@1 has no field $2`),
	say(`type (.*)\[(.*)\] is undefined`, kind, `@1 has no index, which is @2 here`),
	say(`(.*) is nil; cannot call nil as function`, nil, `$1 is no function`),
	say(`(.*) is not callable`, nil, `only functions of the language can be called`),
	say(`builtin (.*) takes only array \(got (.*)\)`, kind, `$1 of @2; a list would be right`),
	say(`predicate should return boolean \(got (.*)\)`, kind, `@1 as a condition; a boolean would be right`),
	say(`non-bool expression \(type (.*)\) used as condition`, kind, `@1 as a condition; a boolean would be right`),
	say(`(too many|not enough) arguments to call (\w+)`, nil, `$1 arguments for $2`),
	say(`cannot use pointer accessor outside predicate`, nil, `# is what a loop is at, and there is none here`),
	say(`unknown pointer #(.*)`, nil, `unknown name #$1; # is what a loop is at, #index its place in map and reduce, #acc what reduce has so far`),
	say(`cannot redeclare (?:function |builtin |variable )?(.*)`, nil, `the name $1 is taken; another would be right`),
	say(`empty sequence expression`, nil, `there is no expression`),
	// evaluating
	say(`cannot fetch (.*) from <nil>`, nil, `nil has no field $1; ?. before it would be right where it may be missing`),
	say(`cannot fetch (.*) from (.*)`, kind, `@2 has no field $1`),
	say(`index out of range: (.*) \(array length is (.*)\)`, nil, `index $1 of a list of $2`),
	say(`invalid operation: int\((.*)\)`, kind, `@1 as an index of a list; an integer would be right`),
	say(`reflect.Value.MapIndex: value of type (\S+) is not assignable.*`, kind, `@1 as an index of an object; a text would be right`),
	say(`memory budget exceeded`, nil, errValues.Error()),
	say(`reduce of empty array with no initial value`, nil, `reduce of an empty list without a value to begin with; one after the expression would be right`),
}

// inWords is what is said for what the library says, "" for what is not known.
func inWords(message string) string {
	for i := range sayings {
		s := &sayings[i]
		groups := s.said.FindStringSubmatch(message)
		if groups == nil {
			continue
		}
		var pairs []string
		for n, g := range groups[1:] {
			n := strconv.Itoa(n + 1)
			pairs = append(pairs, "$"+n, cut(g, 60))
			if s.words != nil {
				pairs = append(pairs, "@"+n, cut(s.words(g), 60))
			}
		}
		return strings.NewReplacer(pairs...).Replace(s.instead)
	}
	return ""
}

// token is what the library calls so, as it stands in the expression.
func token(t string) string {
	if t == "EOF" {
		return "end of the expression"
	}
	from := strings.IndexByte(t, '(')
	if from < 0 || !strings.HasSuffix(t, ")") {
		return "text"
	}
	s, err := strconv.Unquote(t[from+1 : len(t)-1])
	if err != nil {
		return "text"
	}
	return strconv.Quote(cut(s, 40))
}

var goTypes = map[string]string{
	"nil": "nil", "<nil>": "nil", "bool": "a boolean", "string": "a text", "int": "a number", "float64": "a number", "uint8": "a byte of a text",
	"mapping.wide": "an integer beyond 64 bits", "*mapping.made": "a message", "unknown": "a value", "interface {}": "a value",
}

// kind is what a type of Go's is called here, as name has it of values; what is none stays.
func kind(t string) string {
	switch words, known := goTypes[t]; {
	case known:
		return words
	case strings.HasPrefix(t, "[]"):
		return "a list"
	case strings.HasPrefix(t, "map["), strings.HasPrefix(t, "types."):
		return "an object"
	case strings.HasPrefix(t, "func("):
		return "a function"
	}
	return t
}

// errorOf is an error with its place, in our words.
func errorOf(err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	e := &Error{Text: line(err.Error())}
	var at *file.Error
	if !errors.As(err, &at) {
		return e
	}
	if at.Line > 0 {
		e.Line, e.Column = at.Line, at.Column+1
	}
	switch words := inWords(ends(at.Message)); {
	case words != "":
		e.Text = line(words)
	case at.Prev != nil && !foreign(at.Prev):
		e.Text = line(at.Prev.Error())
	default:
		e.Text = "this cannot be evaluated"
	}
	return e
}

// ends is a message without its middle: it may hold a text of megabytes, and what it is about is said before and behind that.
func ends(message string) string {
	const most = 1000
	if len(message) <= most {
		return message
	}
	return strings.ToValidUTF8(message[:most/2], "") + "…" + strings.ToValidUTF8(message[len(message)-most/2:], "")
}

// foreign says whether an error is of Go's own, about what the library has done: it names types.
func foreign(err error) bool {
	var r runtime.Error
	var v *reflect.ValueError
	return errors.As(err, &r) || errors.As(err, &v)
}

// line is a text on one line, of at most maxText bytes.
func line(text string) string {
	return cut(strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || c == '\u2028' || c == '\u2029' {
			return ' '
		}
		return c
	}, text), maxText)
}
