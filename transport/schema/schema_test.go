package schema

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

func mustCompile(t testing.TB, text string) *Schema {
	t.Helper()
	s, err := Compile(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const orders = `{
	"type": "object", "required": ["id", "items"],
	"properties": {
		"id": {"type": "string", "pattern": "^o-[0-9]+$"},
		"items": {"type": "array", "maxItems": 3, "items": {"$ref": "#/$defs/item"}}
	},
	"$defs": {"item": {"type": "object", "required": ["price"], "properties": {"price": {"type": "number", "minimum": 0}}}}
}`

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, schema, body string
		want               []string // of the error; none: it fits
	}{
		{"fits", orders, `{"id":"o-1","items":[{"price":1.5}]}`, nil},
		{"no JSON", orders, `{"id":`, []string{"the body is no JSON"}},
		{"nothing", orders, ``, []string{"the body is no JSON"}},
		{"two values", orders, `{} {}`, []string{"the body is no JSON"}},
		{"another type", orders, `[]`, []string{"/: ", "array", "object"}},
		{"what is missing", orders, `{"id":"o-1"}`, []string{"/: ", "items"}},
		{"deep down", orders, `{"id":"o-1","items":[{"price":1},{"price":"2"}]}`, []string{"/items/1/price: ", "string", "number"}},
		{"a pattern", orders, `{"id":"x","items":[]}`, []string{"/id: "}},
		{"several", orders, `{"id":7,"items":[{}]}`, []string{"/id: ", "/items/0: ", "; "}},
		{"a name with a slash", `{"properties":{"a/b":{"type":"null"}}}`, `{"a/b":1}`, []string{"/a~1b: "}},
		{"everything", `true`, `1`, nil},
		{"nothing fits", `false`, `1`, []string{"/: "}},
		{"draft 7", `{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}]}`, `[1]`, []string{"/0: "}},
		{"a number too long", `true`, `{"a":[` + strings.Repeat("1", maxNumber+1) + `]}`, []string{"/a/0: a number of 101 characters"}},
		{"an exponent too large", `{"multipleOf":0.01}`, `1e401`, []string{"/: a number with exponent 401"}},
		{"an exponent at its limit", `true`, `1e400`, nil},
		{"nested too deep", `true`, strings.Repeat("[", maxNesting+2) + strings.Repeat("]", maxNesting+2), []string{"nest deeper than 200"}},
		{"nested as deep as may be", `true`, strings.Repeat("[", maxNesting) + strings.Repeat("]", maxNesting), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := mustCompile(t, c.schema).Check(context.Background(), []byte(c.body))
			if (err == nil) != (c.want == nil) {
				t.Fatalf("%v, want %q", err, c.want)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q in it", err, want)
				}
			}
			if err != nil && len(err.Error()) > maxSaid+100 {
				t.Errorf("%d bytes are said", len(err.Error()))
			}
			if (c.want != nil && strings.HasPrefix(c.want[0], "the body is no JSON")) != errors.Is(err, ErrNotJSON) {
				t.Errorf("%v: ErrNotJSON or not", err)
			}
		})
	}
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, schema, want string }{
		{"no JSON", `{`, "the schema is no JSON"},
		{"no schema", `[]`, "cannot be used"},
		{"a bad keyword", `{"type":"objekt"}`, "cannot be used"},
		{"a file", `{"$ref":"file:///etc/passwd"}`, "outside the schema"},
		{"an address", `{"$ref":"https://example.org/s.json"}`, "outside the schema"},
		{"another language", `{"$schema":"https://example.org/meta"}`, "outside the schema"},
		{"a reference to nothing", `{"$ref":"#/$defs/a"}`, "cannot be used"},
		{"look-ahead", `{"pattern":"(?=a)"}`, "cannot be used"},
		{"a large pattern", `{"pattern":"` + strings.Repeat("(a{500}b)", 3) + `"}`, "instructions"},
		{"a number out of range", `{"const":1e999999999}`, "exponent"},
		{"nested too deep", strings.Repeat(`{"not":`, maxNesting+1) + "true" + strings.Repeat("}", maxNesting+1), "nest deeper"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if _, err := Compile(c.schema); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// branching is a schema that looks 2^n times at a value.
func branching(n int, way, leaf string) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/a0","$defs":{`)
	for i := range n {
		fmt.Fprintf(&b, `"a%d":{"%s":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]},`, i, way, i+1, i+1)
	}
	fmt.Fprintf(&b, `"a%d":%s}}`, n, leaf)
	return b.String()
}

// chain is a schema whose items are looked at by so many, each of which asks the next.
func chain(n int) string {
	var b strings.Builder
	b.WriteString(`{"items":{"$ref":"#/$defs/c0"},"$defs":{`)
	for i := range n {
		fmt.Fprintf(&b, `"c%d":{"$ref":"#/$defs/c%d"},`, i, i+1)
	}
	fmt.Fprintf(&b, `"c%d":{"type":"number"}}}`, n)
	return b.String()
}

// numbers are so many, with commas.
func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d,", i)
	}
	return strings.TrimSuffix(b.String(), ",")
}

// object has so many members.
func object(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"m%d":1,`, i)
	}
	return "{" + strings.TrimSuffix(b.String(), ",") + "}"
}

// What is compiled is kept, so that patterns are bounded together too.
func TestPatternsAreBoundedTogether(t *testing.T) {
	var b strings.Builder
	for i := range 100 {
		fmt.Fprintf(&b, `"p%d":{"pattern":"a{900}"},`, i)
	}
	_, err := Compile(`{"properties":{` + strings.TrimSuffix(b.String(), ",") + `}}`)
	if err == nil || !strings.Contains(err.Error(), "patterns of the schema") {
		t.Errorf("%v, want the patterns refused", err)
	}
}

// Constants are compared as JSON Schema does, by what numbers are, and what would be right is said.
func TestConstants(t *testing.T) {
	for _, c := range []struct{ schema, body, says string }{
		{`{"enum":[1,"a",null,[1,{"b":2}]]}`, `1.0`, ""},
		{`{"enum":[1,"a",null,[1,{"b":2}]]}`, `[1e0,{"b":2.0}]`, ""},
		{`{"enum":[1,"a",null]}`, `null`, ""},
		{`{"enum":[1,"a",null]}`, `"b"`, `value must be one of 1, "a", null`},
		{`{"const":{"a":1}}`, `{"a":1,"b":2}`, `value must be {"a":1}`},
		{`{"const":null}`, `null`, ""},
		{`{"const":null}`, `0`, `value must be null`},
		{`{"not":{"const":1}}`, `1.0`, "/: "},
		{`{"const":true}`, `1`, `value must be true`},
	} {
		s, err := Compile(c.schema)
		if err != nil {
			t.Fatal(err)
		}
		if err = s.Check(context.Background(), []byte(c.body)); (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s, %s: %v, want %q", c.schema, c.body, err, c.says)
		}
	}
}

// A schema that makes much of little is stopped, whatever way it goes, and its next body is judged as if nothing had been.
func TestWorkIsBounded(t *testing.T) {
	t.Parallel()
	deep := `{"items":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}`
	for _, c := range []struct{ name, schema, body string }{
		{"all of two", branching(40, "allOf", `{"type":"number"}`), `1`},
		{"any of two that fail", branching(40, "anyOf", `{"type":"string"}`), `1`},
		{"none of two that fail", `{"not":` + strings.ReplaceAll(branching(40, "anyOf", `{"type":"string"}`), "#/$defs/", "#/not/$defs/") + `}`, `1`},
		{"one of two", branching(40, "oneOf", `{"type":"number"}`), `1`},
		{"twice an item", deep, strings.Repeat("[", 60) + strings.Repeat("]", 60)},
		{"by an anchor", `{"$id":"quorate:schema","$dynamicAnchor":"n","items":{"allOf":[{"$dynamicRef":"#n"},{"$dynamicRef":"#n"}]}}`,
			strings.Repeat("[", 60) + strings.Repeat("]", 60)},
		{"many items, thirty ways that fail", `{"items":{"anyOf":[` + strings.Repeat(`{"type":"string"},`, 29) + `{"type":"string"}]}}`,
			"[" + strings.Repeat("1,", 200_000) + "1]"},
		{"many items, none of many values", `{"items":{"enum":[` + numbers(10_000) + `]}}`, "[" + strings.Repeat("-1,", 300) + "-1]"},
		{"many constants", `{"items":{"anyOf":[` + strings.Repeat(`{"$ref":"#/$defs/c"},`, 499) + `{"$ref":"#/$defs/c"}]},"$defs":{"c":{"enum":[` + numbers(2000) + `]}}}`, "[" + strings.Repeat("-1,", 1000) + "-1]"},
		{"types that fail", `{"allOf":[` + strings.Repeat(`{"items":{"type":"string"}},`, 99) + `{"items":{"type":"string"}}]}`, "[" + strings.Repeat("1,", 200_000) + "1]"},
		{"items that are anything", `{"allOf":[` + strings.Repeat(`{"items":true},`, 99) + `{"items":true}]}`, "[" + strings.Repeat("1,", 200_000) + "1]"},
		{"names of anything", `{"allOf":[` + strings.Repeat(`{"additionalProperties":true},`, 99) + `{"additionalProperties":true}]}`, object(20_000)},
		{"names that nobody asks for", `{"allOf":[` + strings.Repeat(`{"minProperties":1},`, 999) + `{"minProperties":1}]}`, object(20_000)},
		{"unique, again and again", `{"allOf":[` + strings.Repeat(`{"uniqueItems":true},`, 99) + `{"uniqueItems":true}]}`, "[" + numbers(50_000) + "]"},
		{"multiples of little", `{"items":{"allOf":[` + strings.Repeat(`{"multipleOf":1e-399},`, 199) + `{"multipleOf":1e-399}]}}`, "[" + strings.Repeat("1.234567e400,", 3000) + "1]"},
		{"integers that are none", `{"items":{"anyOf":[` + strings.Repeat(`{"type":"integer"},`, 199) + `{"type":"integer"}]}}`, "[" + strings.Repeat("1.234567e-400,", 3000) + "1]"},
		{"one after the other", chain(900), "[" + strings.Repeat("1,", 3000) + "1]"},
		{"what is not evaluated", `{"unevaluatedProperties":false,"allOf":[` + strings.Repeat(`{"minProperties":1},`, 1999) + `{"minProperties":1}]}`, object(20_000)},
		{"a long text and a large pattern", `{"allOf":[` + strings.TrimSuffix(strings.Repeat(`{"$ref":"#/$defs/p"},`, 200), ",") + `],"$defs":{"p":{"pattern":"(a?){100}$"}}}`, `"` + strings.Repeat("a", 2000) + `b"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, err := Compile(c.schema)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			for range 2 { // by the same copy
				if err := s.Check(context.Background(), []byte(c.body)); err == nil || !strings.Contains(err.Error(), "too much work") {
					t.Fatalf("%v, want too much work", err)
				}
			}
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("that took %s", took)
			}
			if err := s.Check(context.Background(), []byte(`{}`)); err != nil && strings.Contains(err.Error(), "too much work") && !strings.Contains(c.schema, "a40") {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// A large body is judged by a schema that does no more than it must.
func TestLargeBody(t *testing.T) {
	t.Parallel()
	s := mustCompile(t, `{"type":"array","items":{"anyOf":[{"type":"integer"},{"type":"object","properties":{"a":{"type":"string"}}}]}}`)
	body := "[" + strings.TrimSuffix(strings.Repeat(`1,{"a":"b"},`, 50_000), ",") + "]"
	if err := s.Check(context.Background(), []byte(body)); err != nil {
		t.Fatal(err)
	}
}

// One schema serves many at once.
func TestTogether(t *testing.T) {
	t.Parallel()
	s := mustCompile(t, orders)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for n := range 50 {
				body, fits := `{"id":"o-1","items":[]}`, true
				if (i+n)%2 == 0 {
					body, fits = `{"id":"o-1"}`, false
				}
				if err := s.Check(context.Background(), []byte(body)); (err == nil) != fits {
					t.Errorf("%s: %v", body, err)
				}
			}
		})
	}
	wg.Wait()
}

// FuzzSchema compiles what may be a schema and judges what may be a body: an answer, in time, without a panic.
func FuzzSchema(f *testing.F) {
	f.Add(orders, `{"id":"o-1","items":[{"price":1}]}`)
	f.Add(branching(5, "allOf", `{"type":"number"}`), `1`)
	f.Add(`{"pattern":"^a+$","format":"date"}`, `"aaa"`)
	f.Add(`{"uniqueItems":true,"contains":{"const":1},"unevaluatedItems":false}`, `[1,2,3]`)
	f.Add(`{"if":{"required":["a"]},"then":false,"else":{"$ref":"#"}}`, `{"b":1}`)
	f.Fuzz(func(t *testing.T, schema, body string) {
		if len(schema) > 4<<10 || len(body) > 4<<10 {
			return
		}
		s, err := Compile(schema)
		if err != nil {
			return
		}
		first := s.Check(context.Background(), []byte(body))
		if again := s.Check(context.Background(), []byte(body)); (first == nil) != (again == nil) {
			t.Fatalf("%v, and then %v", first, again)
		}
	})
}
