package mapping

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
)

// foreignWords are what no error may hold: Go's types and the library's parts.
var foreignWords = regexp.MustCompile(`interface|\[\]|map\[|reflect|float64|int64|uint8|\bfunc\b|runtime|strconv|regexp|mapping\.|Operator\(|Bracket\(|Identifier\(|EOF|__|goroutine|0xc0|%!|builtin|predicate|bytecode|nil pointer|array|syntax\.`)

// wellSaid judges an error of an expression by how it is said.
func wellSaid(t *testing.T, expression string, err error, placed bool) {
	t.Helper()
	var e *Error
	switch {
	case !errors.As(err, &e):
		t.Errorf("%q: %v, want an *Error", expression, err)
	case foreignWords.MatchString(e.Text):
		t.Errorf("%q: %q speaks of %q", expression, e.Text, foreignWords.FindString(e.Text))
	case strings.ContainsFunc(e.Text, unicode.IsControl) || len(e.Text) > maxText+len(loopHint) || e.Text == "":
		t.Errorf("%q: %q is of several lines, or of %d bytes", expression, e.Text, len(e.Text))
	case placed && (e.Line < 1 || e.Column < 1):
		t.Errorf("%q: %q has no place", expression, e.Text)
	}
}

// What is wrong with an expression is said in our words, on one line, with its place.
func TestWordsOfReading(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ expression, want string }{
		{`1 +`, `1:3: unexpected end of the expression`},
		{``, `1:1: unexpected end of the expression`},
		{`(1`, `unexpected end of the expression`},
		{"1 +\n\n *", `3:2: unexpected "*"`},
		{`[1 2]`, `1:4: unexpected "2"`},
		{`{a 1}`, `1:4: unexpected "1"`},
		{`{-1: 1}`, `1:2: unexpected "-" as a name in an object`},
		{`body.1`, ``},
		{`body.`, `1:5: `},
		{`@`, `1:1: the character U+0040 has no meaning here`},
		{`1a`, `1:2: "1a" is no number`},
		{`/* a`, `a comment that does not end`},
		{`"a`, `a text that does not end`},
		{"`a", `a text that does not end`},
		{`"\q"`, `an escape that is none`},
		{`"\u12"`, `an escape that is none`},
		{`b"bytes"`, `1:1: bytes are not to be had`},
		{`99999999999999999999`, `integer overflow: 99999999999999999999 is beyond 64 bits; a number with a point is a float`},
		{`0x1ffffffffffffffff`, `integer overflow: 0x1ffffffffffffffff is beyond 64 bits`},
		{`1e999`, `the number 1e999 is beyond the largest, 1.8e308`},
		{`1e`, `1e is no number`},
		{`map([1])`, `not enough arguments`},
		{`map([1], 1; 2)`, `several expressions in a loop; braces around them`},
		{`a ?? 1 + 2`, `?? and + are mixed; parentheses`},
		{strings.Repeat("1+", 700) + "1", `it has more than 1000 parts`},
		{`nobody`, `1:1: unknown name nobody`},
		{`message.secret`, `1:9: unknown field secret`},
		{`not "a"`, `1:1: not a text; a boolean would be right`},
		{`-"a"`, `1:1: - of a text; a number would be right`},
		{`true and "a"`, `1:6: a boolean and a text; two booleans would be right`},
		{`1 || true`, `1:3: a number or a boolean; two booleans would be right`},
		{`{} + 1`, `1:4: an object + a number; two numbers or two texts would be right`},
		{`1 < "a"`, `1:3: a number < a text; two numbers or two texts would be right`},
		{`1.5 % 2`, `1:5: a number % a number; two integers would be right`},
		{`"a".."b"`, `1:4: a text .. a text; two integers would be right`},
		{`[] * 2`, `1:4: a list * a number; two numbers would be right`},
		{`"a" == 1`, `1:5: a text == a number, which are never the same`},
		{`1 in 2`, `1:3: a number in a number; a value in a list or a text in an object`},
		{`1 in headers`, `a number in an object; a text would be right`},
		{`"a" in [1]`, `a text in a list of others`},
		{`1 contains "a"`, `1:3: a number contains a text; two texts would be right`},
		{`headers[1]`, `a number as an index of an object; a text would be right`},
		{`[1]["a"]`, `a list`},
		{`[1][1.5]`, `a number as an index of a list; an integer would be right`},
		{`(1)[0:1]`, `a part of a number; a text or a list would be right`},
		{`"abc"["a":]`, `a text as an end of a part; an integer would be right`},
		{`(nil).a`, `nil has no field a`},
		{`(1).a`, `a number has no field a`},
		{`upper.a`, `a function has no field a`},
		{`body.f()`, `only functions of the language can be called`},
		{`(1)(2)`, `unexpected "("`},
		{`let f = upper; f("a")`, `there is no function f here`},
		{`headers()`, `there is no function headers here`},
		{`nothing()`, `there is no function nothing here`},
		{`sortBy([1], #)`, `there is no function sortBy here`},
		{`upper("a", "b")`, `1:1: too many arguments for upper`},
		{`upper()`, `1:1: not enough arguments for upper`},
		{`map("abc", #)`, `map of a text; a list would be right`},
		{`filter([1], "a")`, `a text as a condition; a boolean would be right`},
		{`all([1], {{}})`, `an object as a condition`},
		{`count([1], 1)`, `a number as a condition`},
		{`find([1], nil)`, ``},
		{`1 ? 2 : 3`, `1:1: a number as a condition; a boolean would be right`},
		{`#`, ``},
		{`map([1], #acc)`, `unknown name #acc`},
		{`map([1], #nobody)`, `unknown name #nobody`},
		{`let body = 1; 2`, `the name body is taken`},
		{`let upper = 1; 2`, `the name upper is taken`},
		{`let a = 1; let a = 2; a`, `the name a is taken`},
		{`"a" matches "("`, `1:5: the pattern "(" cannot be read: missing closing )`},
		{`"a" matches "%d%s("`, `1:5: the pattern "%d%s(" cannot be read`},
		{`"a" matches "` + strings.Repeat("(a{50})", 20) + `"`, `instructions or more; at most 500 are allowed`},
		{`$env`, `$env is not to be had`},
		{`::len([1])`, `there is no function len here`},
		{"upper(1)\x00", `has no meaning here`},
		{strings.Repeat("nobody", 100), `unknown name nobody`},
		{strings.Repeat("(", 4000), ``},
		{"if 1 {2}", ``},
		{"if 1 {2} else {3}", `a number as a condition`},
	} {
		t.Run(cut(c.expression, 60), func(t *testing.T) {
			t.Parallel()
			_, err := Compile(c.expression, Body)
			if err == nil {
				t.Fatal("it is taken")
			}
			wellSaid(t, c.expression, err, true)
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// And what goes wrong with a message.
func TestWordsOfEvaluating(t *testing.T) {
	t.Parallel()
	const all = `{"n":1,"f":1.5,"t":"abc","b":true,"l":[1,"x"],"o":{"a":1},"w":123456789012345678901}`
	for _, c := range []struct{ expression, want string }{
		{`body.none.a`, `1:11: nil has no field a; ?. before it would be right where it may be missing`},
		{`body["none"]["a"]`, `nil has no field a`},
		{`body.n.a`, `1:8: a number has no field a`},
		{`body.f.a`, `a number has no field a`},
		{`body.b.a`, `a boolean has no field a`},
		{`body.w.text`, ``},
		{`body.w.a`, `an integer beyond 64 bits has no field a`},
		{`upper(body.t).a`, ``},
		{`body.t.a`, `a text as an index of a list`},
		{`body.l.a`, `a text as an index of a list; an integer would be right`},
		{`body.l[2]`, `index 2 of a list of 2`},
		{`body.l[-3]`, `of a list of 2`},
		{`body.l[nil]`, `nil as an index; an integer or a name`},
		{`body.l[true]`, `a boolean as an index`},
		{`body.l[body.o]`, `an object as an index`},
		{`body.o[1]`, `a number as an index of an object; a text would be right`},
		{`body.o[0:1]`, `1:7: a part of an object; a text or a list would be right`},
		{`body.n[0:1]`, `a part of a number`},
		{`body.none[:1]`, `a part of nil`},
		{`body.l[body.t:]`, `a text as an end of a part; an integer would be right`},
		{`not body.n`, `1:10: a number as a condition; a boolean would be right`},
		{`!body.none`, `nil as a condition`},
		{`body.n and true`, `a number as a condition`},
		{`true && body.t`, `a text as a condition`},
		{`false || body.o`, `an object as a condition`},
		{`body.n ? 1 : 2`, `1:6: a number as a condition`},
		{`if body.t { 1 } else { 2 }`, `a text as a condition`},
		{`-body.t`, `1:1: - of a text; a number would be right`},
		{`+body.t`, `1:1: + of a text; a number would be right`},
		{`body.t - 1`, `1:8: a text - a number; two numbers would be right`},
		{`body.l * 2`, `a list * a number; two numbers would be right`},
		{`body.t / body.o`, `a text / an object; two numbers would be right`},
		{`body.f % 2`, `1.5 % 2; two integers would be right`},
		{`body.t % 2`, `a text % a number`},
		{`body.t ** 2`, `a text ** a number`},
		{`body.t .. 2`, `a text..2; two integers would be right`},
		{`body.n < body.t`, `a number < a text; two numbers or two texts would be right`},
		{`body.none >= 1`, `nil >= a number`},
		{`body.n contains "a"`, `a number contains a text; two texts would be right`},
		{`body.none startsWith "a"`, `nil startsWith a text`},
		{`body.n matches "a"`, `a number matches a text`},
		{`"a" matches body.t + "("`, `the pattern "abc(" cannot be read: missing closing )`},
		{`1 in body.n`, `a number in a number`},
		{`map(body.t, #)`, `1:10: map of a text; a list would be right`},
		{`map(body.o, #)`, `map of an object; a list would be right`},
		{`filter(body.none, true)`, `filter of nil; a list would be right`},
		{`count(body.n)`, `count of a number; a list would be right`},
		{`sum(body.t)`, `sum of a text; a list would be right`},
		{`sum(body.l)`, `a number + a text; two numbers or two texts would be right`},
		{`reduce([], #acc + #)`, `reduce of an empty list without a value to begin with`},
		{`reduce(body.n, 1, 2)`, `reduce of a number; a list`},
		{`filter(body.l, #)`, `a number as a condition; a boolean would be right`},
		{`any(body.l, body.none)`, `nil as a condition`},
		{`find(body.l, "a" + "b")`, ``},
		{`{(body.n): 1}`, `1:8: a number as the name in an object; a text would be right`},
		{`len(body.n)`, `len of a number; a text, a list or an object would be right`},
		{`upper(body.none)`, `upper of nil; a text would be right`},
		{`fromJSON("{")`, `fromJSON: `},
		{`fromJSON(body.t)`, `fromJSON: `},
		{`fromBase64("*")`, `fromBase64 of the text "*"; base64`},
		{`int(body.o)`, `int of an object; a number or a text would be right`},
		{`map(1..1000, 1..1000)`, `it makes more than 500000 values of lists and objects`},
		{`map(1..1000, map(1..1000, [1]))`, `it makes more than 500000 values of lists and objects`},
		{`all(1..1000, all(1..1000, true))`, `more than 500000 steps`},
	} {
		t.Run(c.expression, func(t *testing.T) {
			t.Parallel()
			p, err := Compile(c.expression, Body)
			if err != nil && c.want == "" {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = p.Body(t.Context(), input(all), 1000)
			if err == nil {
				t.Fatal("it is taken")
			}
			wellSaid(t, c.expression, err, true)
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	for _, c := range []struct{ expression, want string }{ // of all of it
		{`upper`, `a function cannot be JSON`},
		{`[headers, len]`, `a function cannot be JSON`},
		{`[body.t[0]]`, `a byte of a text cannot be JSON`},
		{`[fromBase64("/w==")]`, `is not UTF-8`},
	} {
		p, err := Compile(c.expression, Body)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = p.Body(t.Context(), input(all), 1000)
		wellSaid(t, c.expression, err, false)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.expression, err, c.want)
		}
	}
}

// What is said of a text of megabytes is said at once.
func TestWordsOfLongTexts(t *testing.T) {
	t.Parallel()
	const long = `let s = join(map(1..10000, "aaaaaaaaaa"), ""); let t = join(map(1..200, s), ""); `
	for _, c := range []struct{ expression, want string }{
		{long + `body.none[t]`, "nil has no field aaa"},
		{long + `body.n[t]`, "a number has no field aaa"},
		{long + `body.l[t]`, "a text as an index of a list"},
		{long + `int(t)`, "int of the text"},
		{long + `"a" matches "(" + s`, "cannot be read: missing closing )"},
	} {
		p, err := Compile(c.expression, Body)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, _, err = p.Body(t.Context(), input(`{"n":1,"l":[1]}`), 100)
		if took := time.Since(began); took > 30*time.Second { // minutes, before
			t.Errorf("%s: it took %s", c.expression[len(long):], took)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) && !strings.Contains(err.Error(), "steps") {
			t.Errorf("%s: %.300v, want %q", c.expression[len(long):], err, c.want)
		}
		wellSaid(t, c.expression[len(long):], err, true)
	}
}

// A pattern that is written out is judged before the library reads it.
func TestWrittenPatternsAreBounded(t *testing.T) {
	t.Parallel()
	_, err := Compile(`"a" matches "`+strings.Repeat("a{1000}", 500)+`"`, Body)
	if err == nil || !strings.Contains(err.Error(), "1:5: the pattern \"a{1000}") || !strings.Contains(err.Error(), "at most 500 are allowed") {
		t.Errorf("%.300v, want too large a pattern", err)
	}
}

// Integers of any length are paid for when they are compared.
func TestWideOnesArePaidFor(t *testing.T) {
	t.Parallel()
	n := strings.Repeat("9", 400_000)
	for _, e := range []string{`all(1..100000, body.a == body.b)`, `all(1..100000, body.a >= body.b)`, `all(1..100000, max(body.a, body.b) != nil)`, `all(1..100000, body.a > 1e300)`} {
		p, err := Compile(e, Body)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := p.Body(t.Context(), input(`{"a":`+n+`,"b":`+n+`}`), 100); err == nil || !strings.Contains(err.Error(), "steps") {
			t.Errorf("%s: %v, want too many steps", e, err)
		}
	}
}

// What stands in the tree twice is paid for before anything walks it: a chain of a thousand doublings would never end.
func TestUnfoldedIsBounded(t *testing.T) {
	t.Parallel()
	nested := func(n int, open, end string) string { return strings.Repeat(open, n) + "1" + strings.Repeat(end, n) }
	for _, c := range []struct {
		name, expression string
		much             bool
	}{
		{"few chains", nested(3, "len([1 < ", " < 2])"), false},
		{"many chains", nested(150, "len([1 < ", " < 2])"), true},
		{"many that decide", nested(150, "(true == ", " ?: 2)"), true},
		{"one after another", strings.TrimSuffix(strings.Repeat("1 < 2 < 3 and ", 60), " and "), false},
		{"calculated in the middle", "1 < (1 + 2) + 3 < 9", false},
		{"a loop in the middle", "1 < sum(map([1], # + 1)) + count([true], #) < 9", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			p, err := Compile(c.expression, Body)
			if took := time.Since(began); took > 30*time.Second { // or for ever
				t.Errorf("it took %s", took)
			}
			if (err != nil) != c.much || err != nil && !strings.Contains(err.Error(), "more than 1000 parts") {
				t.Fatalf("%v, want too many parts: %t", err, c.much)
			}
			if err != nil {
				return
			}
			if _, _, err := p.Body(t.Context(), input("{}"), 100); err != nil {
				t.Error(err)
			}
		})
	}
}

// A turn costs more where more is repeated, so that what has no bound of its own ends by steps and never by time.
func TestTurnsCostWhatTheyRepeat(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, expression string }{
		{"numbers", `all(1..200000, #` + strings.Repeat("-1", 450) + ` < 999999)`},
		{"fields", `all(1..200000, body` + strings.Repeat(".a", 450) + ` == 1 or true)`},
		{"conditions", `all(1..200000, ` + strings.Repeat("true and ", 450) + ` true)`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, err := Compile(c.expression, Body)
			if err != nil {
				t.Fatal(err)
			}
			deep := strings.Repeat(`{"a":`, 150) + "1" + strings.Repeat("}", 150)
			_, _, err = p.Body(t.Context(), input(deep), 100)
			if err == nil || errors.Is(err, ErrLate) {
				t.Errorf("%v, want an error of the expression", err)
			}
			if c.name != "fields" && (err == nil || !strings.Contains(err.Error(), "steps")) {
				t.Errorf("%v, want too many steps", err)
			}
		})
	}
}
