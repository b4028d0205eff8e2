package mapping

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"
)

func TestMain(m *testing.M) {
	maxTime = 2 * time.Minute // it is steps that end what is too much
	m.Run()
}

func input(body string) *Input {
	return &Input{
		Body: []byte(body), Headers: []Header{{"traceparent", "00-1"}, {"user_id", "u7"}}, ID: "ID", TaskID: "t-1", Queue: "orders", Kind: "ship",
		ContentType: "application/json", Key: []byte("k"), Priority: 4, Attempt: 2, Redrives: 1, EnqueuedAt: 1_700_000_000_123,
	}
}

const order = `{"id":7,"customer":{"name":"Ana","vip":true},"items":[{"sku":"a","n":2,"price":1.5},{"sku":"b","n":1,"price":10}],"note":null}`

func TestBody(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ expression, body, want string }{
		{`body.id`, order, `7`},
		{`body`, `{"b":1,"a":[true,null,"x",1.5]}`, `{"a":[true,null,"x",1.5],"b":1}`},
		{`{id: body.id, who: body.customer.name}`, order, `{"id":7,"who":"Ana"}`},
		{`body.customer.vip ? "first" : "later"`, order, `text:first`},
		{`body.customer?.address?.city`, order, `nil`},
		{`body.customer?.address?.city ?? "nowhere"`, order, `text:nowhere`},
		{`body.note`, order, `nil`},
		{`body.id > 5 and "vip" in body.customer ? body.id * 2 : nil`, order, `14`},
		{`map(body.items, .sku)`, order, `["a","b"]`},
		{`map(filter(body.items, .n > 1), {{sku: .sku, total: .n * .price}})`, order, `[{"sku":"a","total":3}]`},
		{`reduce(body.items, #acc + #.n * #.price, 0)`, order, `13`},
		{`sum(map(body.items, .n))`, order, `3`},
		{`count(body.items, .n == 1)`, order, `1`},
		{`any(body.items, .sku == "b") && all(body.items, .n >= 1) && none(body.items, .n > 9) && one(body.items, .n == 2)`, order, `true`},
		{`find(body.items, .sku == "b").price`, order, `10`},
		{`findIndex(body.items, .sku == "b")`, order, `1`},
		{`let n = len(body.items); {n: n}`, order, `{"n":2}`},
		{`headers.user_id + "/" + headers["traceparent"]`, order, `text:u7/00-1`},
		{`headers.none`, order, `text:`},
		{`[message.id, message.task_id, message.queue, message.kind, message.key, message.content_type]`, order, `["ID","t-1","orders","ship","k","application/json"]`},
		{`[message.priority, message.attempt, message.redrives, message.enqueued_at, message.size]`, `{}`, `[4,2,1,1700000000123,2]`},
		{`message`, `1`, `{"attempt":2,"content_type":"application/json","enqueued_at":1700000000123,"id":"ID","key":"k","kind":"ship","priority":4,"queue":"orders","redrives":1,"size":1,"task_id":"t-1"}`},
		{`upper("a") + lower("B") + trim(" c ") + trimPrefix("xd", "x") + trimSuffix("ey", "y")`, `1`, `text:Abcde`},
		{`join(split("a,b,c", ","), "-") + replace("aXbX", "X", "yy")`, `1`, `text:a-b-cayybyy`},
		{`keys({b: 1, a: 2})`, `1`, `["a","b"]`},
		{`[int("7"), int(7.9), float("1.5"), string(1.5) + string(2) + string(true)]`, `1`, `[7,7,1.5,"1.52true"]`},
		{`[abs(-3), floor(1.7), ceil(1.2), round(1.5), min(1, 2.5), max(1, 2.5)]`, `1`, `[3,1,2,2,1,2.5]`},
		{`fromJSON(toJSON({a: [1]})).a[0]`, `1`, `1`},
		{`fromBase64(toBase64("héllo"))`, `1`, `text:héllo`},
		{`len("héllo")`, `1`, `5`},
		{`body == {id: 1, l: [1, 2.0]} and body != 1 and not (1 in [2, 3]) and 2 in 1..3`, `{"l":[1,2],"id":1}`, `true`},
		{`"order-17" matches "^order-[0-9]+$" and "abc" contains "b" and "abc" startsWith "a" and "abc" endsWith "c"`, `1`, `true`},
		{`body[0] + body[-1]`, `[1,2,3]`, `4`},
		{`body[1:]`, `[1,2,3]`, `[2,3]`},
		{`[1 / 2, 7 % 4, 2 ** 3, -body]`, `5`, `[0.5,3,8,-5]`},
		{`body`, `12345678901234567`, `12345678901234567`},
		{`body`, `12345678901234567890123`, `12345678901234567890123`},
		{`"line\nbreak \"quoted\" <&>"`, `1`, "text:line\nbreak \"quoted\" <&>"},
		{`["<&>\u2028"]`, `1`, "[\"<&>\u2028\"]"},
	} {
		t.Run(c.expression, func(t *testing.T) {
			t.Parallel()
			p, err := Compile(c.expression, Body)
			if err != nil {
				t.Fatal(err)
			}
			b, contentType, err := p.Body(t.Context(), input(c.body), 1000)
			if err != nil {
				t.Fatal(err)
			}
			got := string(b)
			switch {
			case b == nil:
				got = "nil"
			case contentType == typeText:
				got = "text:" + got
			case contentType != typeJSON:
				t.Errorf("content type %q", contentType)
			}
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// What is paid for comes to what the library makes of it: operators and functions of ours in their place change nothing else.
func TestAsTheLibrary(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ expression, body string }{
		{`1 + 2 + 0.5 + body`, `7`}, {`"a" + "b" + body`, `"c"`}, {`body.a == body.b`, `{"a":[1,{"x":2}],"b":[1,{"x":2}]}`},
		{`body.a == body.b`, `{"a":[1,2],"b":[2,1]}`}, {`body.a != body.b`, `{"a":null,"b":false}`}, {`1 == 1.0 and body == 1`, `1.0`}, {`body == nil`, `null`},
		{`"x" in body and not ("y" in body) and "y" not in body`, `{"x":null}`}, {`2 in body`, `[1,2.0]`}, {`3 in 1..2`, `0`}, {`1 in body`, `null`},
		{`body matches "^a+$"`, `"aaa"`}, {`body contains "b" or body startsWith "a" or body endsWith "c"`, `"xbx"`},
		{`filter(body, # > 1)`, `[1,2,3]`}, {`map(body, # * 2)`, `[1,2,3]`}, {`all(body, # > 0)`, `[1,2]`}, {`any(body, # > 1)`, `[1,2]`}, {`none(body, # > 1)`, `[1,2]`},
		{`one(body, # == 1)`, `[1,2]`}, {`count(body, # > 1)`, `[1,2,3]`}, {`sum(body, # * 2)`, `[1,2,3]`}, {`find(body, # > 1)`, `[1,2,3]`}, {`findIndex(body, # > 1)`, `[1,2,3]`},
		{`findLast(body, # > 1)`, `[1,2,3]`}, {`findLastIndex(body, # > 1)`, `[1,2,3]`}, {`reduce(body, #acc + #, 10)`, `[1,2,3]`}, {`reduce(body, #acc * #)`, `[2,3]`},
		{`map(body, map(#, # + 1))`, `[[1],[2,3]]`}, {`let x = body; x ? 1 : 2`, `true`}, {`body?.a?.b ?? "none"`, `{}`}, {`body | filter(# > 1) | map(# + 1)`, `[1,2]`},
	} {
		t.Run(c.expression, func(t *testing.T) {
			t.Parallel()
			p, err := Compile(c.expression, Body)
			if err != nil {
				t.Fatal(err)
			}
			bare, err := compile(c.expression, sample(Body))
			if err != nil {
				t.Fatal(err)
			}
			evaluate := func(p *Program) string {
				b, _, err := p.Body(t.Context(), input(c.body), 1000)
				if err != nil {
					t.Fatal(err)
				}
				return string(b)
			}
			if got, want := evaluate(p), evaluate(&Program{kind: Body, program: bare}); got != want || got == "" {
				t.Errorf("%s, want %s as the library has it", got, want)
			}
		})
	}
}

// What the body is depends on what it says it is.
func TestBodyIsRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ contentType, body, want string }{
		{"application/json", `{"a":1}`, `{"a":1}`},
		{"application/cloudevents+json; charset=utf-8", `{"a":1}`, `{"a":1}`},
		{"application/json", `{"a":`, `error: the body, of application/json, is no JSON`},
		{"application/json", `1 2`, `error: the body, of application/json, is no JSON`},
		{"application/json", strings.Repeat("[", maxNesting+2) + strings.Repeat("]", maxNesting+2), `error: the body`},
		{"application/json", `1e999`, `error: the body`},
		{"", `{"a":1}`, `{"a":1}`},
		{"application/octet-stream", `7`, `7`},
		{"application/octet-stream", `seven`, `seven`},
		{"text/plain", `7`, `7`},
		{"application/octet-stream", "\xff\x00", "\xff\x00"},
		{"", ``, ``},
	} {
		p, err := Compile(`body`, Body)
		if err != nil {
			t.Fatal(err)
		}
		in := input(c.body)
		in.ContentType = c.contentType
		b, _, err := p.Body(t.Context(), in, 1000)
		got := string(b)
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != c.want && !(strings.HasPrefix(c.want, "error: ") && strings.HasPrefix(got, c.want)) {
			t.Errorf("%q of %q: %q, want %q", c.body, c.contentType, got, c.want)
		}
	}
}

// Errors say at which line and column.
func TestErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, expression, want string }{
		{"no expression", `body.`, "1:"},
		{"an unknown name", "body.a +\n  nobody", "2:3: "},
		{"an object for a loop", `map(body.items, {sku: .sku})`, `1:21: unexpected ":" (an object within a loop needs braces of its own: {{...}})`},
		{"an object for a fold", `reduce(body, {"n": #acc + 1}, 0)`, "braces of its own"},
		{"an unknown fact", `message.secret`, "1:"},
		{"an unknown name of an operator", "body ==\nnobody", "2:1: unknown name nobody"},
		{"an unknown name of a function", `upper(nobody)`, "1:7: unknown name nobody"},
		{"texts and numbers", `"a" + 1`, "1:5: "},
		{"a pattern that is none", `"a" matches "("`, "1:5: "},
		{"a condition that is none", `"a" ? 1 : 2`, "1:1: "},
		{"no clock", `now()`, "1:1: "},
		{"no dates", `date("2024-01-01")`, "1:1: "},
		{"no environment", `$env`, "1:1: $env is not to be had"},
		{"no inner names", `__add(1, 2)`, "1:1: __add is not to be had"},
		{"no function of a value", `body.f()`, "only functions of the language"},
		{"no sort", `sort(body)`, "1:1: "},
		{"a function's arguments", `upper()`, "1:"},
		{"send is for messages", `send(body)`, "1:1: "},
		{"too long", strings.Repeat("1+", MaxBytes), "bytes; at most 4096"},
		{"no text", "\"\xff\"", "not UTF-8"},
		{"too many nodes", strings.Repeat("[", 1500) + strings.Repeat("]", 1500), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := Compile(c.expression, Body)
			var e *Error
			if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want an *Error with %q", err, c.want)
			}
		})
	}
	for _, c := range []struct{ name, expression, want string }{
		{"a field of a number", `body.id.name`, "1:9: "},
		{"on the second line", "{\n  a: body.id.name\n}", "2:"},
		{"a text and a number", `"a" + body.id`, "1:5: a text + a number"},
		{"an operator's", `body.customer + 1`, "1:15: an object + a number"},
		{"a function's", `upper(body.id)`, "1:1: upper of a number; a text would be right"},
		{"an integer of words", `int("seven")`, "1:1: int of the text"},
		{"an index", `body.items[7]`, "1:"},
		{"no remainder of nothing", `1 % 0`, "1:"},
		{"a function is no body", `upper`, "cannot be JSON"},
		{"not a number", `0.0 / 0.0`, "1:5: division by zero"},
		{"bytes in JSON", `[fromBase64("/w==")]`, "not UTF-8"},
		{"in a loop", `map(body.items, .sku.x)`, "1:"},
		{"a pattern", `"a" matches "(" + "b"`, `1:5: the pattern "(b" cannot be read: missing closing )`},
		{"no pattern", `"a" matches body.id`, "1:5: a text matches a number"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, err := Compile(c.expression, Body)
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = p.Body(t.Context(), input(order), 1000)
			var e *Error
			if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want an *Error with %q", err, c.want)
			}
		})
	}
}

// Who has written an object where a loop has its own braces is told so, and nobody else whose colon is wrong.
func TestLoopHint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, expression string
		hint             bool
	}{
		{"map", `map(body, {a: 1})`, true},
		{"two keys", `map(body, {a: 1, b: 2})`, true},
		{"a quoted key", `reduce(body, { "n é" : 1}, 0)`, true},
		{"after a pipe", `body | filter({a: 1})`, true},
		{"on another line", "\"é\" in map(body, {\n  a: 1})", true},
		{"a colon too many", `{a: b: 1}`, false},
		{"a colon too many in a list", `[1, {a: body: 1}]`, false},
		{"no object", `body: 1`, false},
		{"after an object", `{a: 1}: 2`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := Compile(c.expression, Messages)
			if err == nil || strings.HasSuffix(err.Error(), loopHint) != c.hint {
				t.Errorf("%v, want a hint: %t", err, c.hint)
			}
		})
	}
}

// doubled is an expression that makes 2^n of something.
func doubled(n int, first, step, last string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "let a0 = %s; ", first)
	for i := range n {
		fmt.Fprintf(&b, "let a%d = %s; ", i+1, strings.ReplaceAll(step, "x", fmt.Sprint("a", i)))
	}
	return b.String() + strings.ReplaceAll(last, "x", fmt.Sprint("a", n))
}

// Whatever makes much of little is stopped, soon and without much memory.
func TestBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, expression string }{
		{"a text doubled", doubled(60, `"aa"`, `x + x`, `x`)},
		{"a text in a loop", `reduce(1..60, #acc + #acc, "aa")`},
		{"a list doubled and written", doubled(60, `[1]`, `[x, x]`, `x`)},
		{"a list doubled and compared", doubled(60, `[1]`, `[x, x]`, `x == [x[0], x[1]]`)},
		{"a list doubled and made a text", doubled(60, `[1]`, `[x, x]`, `toJSON(x)`)},
		{"an object doubled", doubled(40, `{a: 1}`, `{a: x, b: x}`, `x`)},
		{"loops in loops", `all(1..1000, all(1..1000, all(1..1000, true)))`},
		{"loops over one list", `let l = 1..1000; count(l, count(l, count(l, true) > 0) > 0)`},
		{"sums of a long list", `let x = 1..490000; map(1..255, [sum(x), sum(x), sum(x)])`},
		{"counts without a condition", `let x = map(1..100000, true); map(1..1000, count(x))`},
		{"a long range", `1..100000000`},
		{"ranges in a loop", `map(1..1000, 1..1000)`},
		{"replaced by much", `let s = join(map(1..10000, "aaaaaaaaaa"), ""); replace(s, "a", s)`},
		{"joined much", `let s = join(map(1..10000, "aaaaaaaaaa"), ""); join(map(1..10000, s), s)`},
		{"split into much", `let s = join(map(1..100000, "aaaaaaaaaa"), ""); map(1..100, split(s, ""))`},
		{"in a long list", `let l = 1..100000; count(l, -1 in l)`},
		{"patterns in a loop", `count(1..100000, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab" matches "(a?){30}a{30}")`},
		{"a large pattern", `"a" matches "(a{100}){6}" + "b"`},
		{"lower in a loop", `let s = join(map(1..10000, "aaaaaaaaaa"), ""); count(1..100000, lower(s) == s)`},
		{"a body too long", `join(map(1..200, "aaaaaaaaaa"), "")`},
		{"JSON too long", `map(1..2000, "a")`},
		{"nested too deep", `reduce(1..300, [#acc], 1)`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, err := Compile(c.expression, Body)
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = p.Body(t.Context(), input("{}"), 1000)
			var e *Error
			if !errors.As(err, &e) {
				t.Errorf("%v, want an *Error", err)
			}
		})
	}
}

// What ends for want of time, or since its caller has gone, is no fault of the expression.
func TestLate(t *testing.T) {
	t.Parallel()
	p, err := Compile(`count(1..10000, true)`, Body)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := p.Body(ctx, input("{}"), 1000); !errors.Is(err, ErrLate) {
		t.Errorf("%v, want ErrLate", err)
	}
}

func TestMessages(t *testing.T) {
	t.Parallel()
	plain := func(body string) Message {
		return Message{Body: []byte(body), ContentType: typeJSON, Kind: "ship", Key: []byte("k"), Priority: 4, Headers: input("").Headers}
	}
	with := func(m Message, change func(m *Message)) Message {
		change(&m)
		return m
	}
	for _, c := range []struct {
		expression string
		want       []Message
		err        string
	}{
		{`body.id`, []Message{plain(`7`)}, ""},
		{`nil`, nil, ""},
		{`[]`, nil, ""},
		{`body.id > 100 ? body : nil`, nil, ""},
		{`map(body.items, {{sku: .sku}})`, []Message{plain(`{"sku":"a"}`), plain(`{"sku":"b"}`)}, ""},
		{`[[1, 2]]`, []Message{plain(`[1,2]`)}, ""},
		{`send([1, 2])`, []Message{plain(`[1,2]`)}, ""},
		{`send("text", {kind: "bill", key: "", priority: 9, delay_ms: 5, ttl_ms: 6, content_type: "text/x"})`, []Message{
			with(plain("text"), func(m *Message) {
				m.Kind, m.Key, m.Priority, m.DelayMillis, m.TTLMillis, m.ContentType = "bill", []byte{}, 9, 5, 6, "text/x"
			})}, ""},
		{`send(1, {headers: {user_id: nil, b: "2", a: "1"}})`, []Message{
			with(plain("1"), func(m *Message) { m.Headers = []Header{{"traceparent", "00-1"}, {"a", "1"}, {"b", "2"}} })}, ""},
		{`[send(1, {kind: "a"}), 2]`, []Message{with(plain("1"), func(m *Message) { m.Kind = "a" }), plain("2")}, ""},
		{`[1, nil]`, nil, "message 1: nil is no body"},
		{`send(nil)`, nil, "nil is no body"},
		{`send(1, {knid: "a"})`, nil, `no field "knid"`},
		{`send(1, {kind: 7})`, nil, "kind is a number; a text"},
		{`send(1, {priority: 1.5})`, nil, "priority is 1.5; an integer"},
		{`send(1, {delay_ms: -1})`, nil, "delay_ms is -1"},
		{`send(1, {headers: {a: 1}})`, nil, `header "a" is a number`},
		{`send(1, {headers: "a"})`, nil, "headers is a text"},
		{`send(1, 2)`, nil, "send of a number"},
		{`send(1, {}, {})`, nil, "send with 3 arguments"},
		{`[1, send]`, nil, "message 1: "},
		{`1..101`, nil, "101 messages; at most 100"},
		{`map(1..100, join(map(1..100, "aaaa"), ""))`, nil, "bytes"},
		{`body.id.x`, nil, "1:9: "},
	} {
		t.Run(c.expression, func(t *testing.T) {
			t.Parallel()
			p, err := Compile(c.expression, Messages)
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.Messages(t.Context(), input(order), 10_000)
			if c.err != "" {
				var e *Error
				if !errors.As(err, &e) || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%v, want an *Error with %q", err, c.err)
				}
				return
			}
			if err != nil || len(got) != len(c.want) || len(got) > 0 && !reflect.DeepEqual(got, c.want) {
				t.Errorf("%+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

// A message is not changed by what is made of it, and comes to the same again.
func TestInputStays(t *testing.T) {
	t.Parallel()
	p, err := Compile(`map(body.items, send(., {headers: {a: .sku}, kind: "x"}))`, Messages)
	if err != nil {
		t.Skip(err)
	}
	in := input(order)
	first, err := p.Messages(t.Context(), in, 10_000)
	again, err2 := p.Messages(t.Context(), in, 10_000)
	if err != nil || err2 != nil || !reflect.DeepEqual(first, again) || !reflect.DeepEqual(in, input(order)) {
		t.Errorf("%+v, %v; again %+v, %v", first, err, again, err2)
	}
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"mapped": Outcome(true, nil), "nothing": Outcome(false, nil), "failed": Outcome(false, &Error{}), "late": Outcome(false, ErrLate),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// FuzzMapping compiles what may be an expression and evaluates it over what may be a body: an answer, in time, the same again.
func FuzzMapping(f *testing.F) {
	for _, e := range []string{
		`body.id`, `map(body.items, {{sku: .sku}})`, `reduce(body.items, #acc + #.n, 0)`, `body?.a ?? "x"`, doubled(8, `"aa"`, `x + x`, `x`),
		`send(body, {headers: {a: "b"}})`, `1 < body + 1 < 3`, `sum(body) * 9223372036854775807`, `body[1:] == -body ?: 7 % 0`, `"a" matches "b*"`, `let x = body; x[0:2]`, `body in [1, "2"] ? toJSON(body) : nil`, `1..10 | map(# * 2)`,
	} {
		f.Add(e, order)
	}
	f.Add(`body`, `[[[]]]`)
	f.Fuzz(func(t *testing.T, expression, body string) {
		if len(body) > 4<<10 {
			return
		}
		for _, kind := range []Kind{Body, Messages} {
			p, err := Compile(expression, kind)
			var e *Error
			if err != nil {
				if !errors.As(err, &e) || len(e.Text) > maxText+len(loopHint) || strings.ContainsFunc(e.Text, unicode.IsControl) {
					t.Fatalf("%v is no *Error, or long, or of several lines", err)
				}
				continue
			}
			evaluate := func() (string, error) {
				if kind == Body {
					b, contentType, err := p.Body(t.Context(), input(body), 10_000)
					return string(b) + contentType, err
				}
				ms, err := p.Messages(t.Context(), input(body), 10_000)
				return fmt.Sprintf("%+v", ms), err
			}
			first, err := evaluate()
			if err != nil && errors.As(err, &e) && (len(e.Text) > 2*maxText || strings.ContainsFunc(e.Text, unicode.IsControl)) {
				t.Fatalf("%v is long, or of several lines", err)
			}
			again, err2 := evaluate()
			if errors.Is(err, ErrLate) || errors.Is(err2, ErrLate) {
				t.Fatalf("not in time: %q", expression)
			}
			if err != nil && !errors.As(err, &e) || (err == nil) != (err2 == nil) || err == nil && first != again {
				t.Fatalf("%q, %v, and then %q, %v", first, err, again, err2)
			}
		}
	})
}
