package schema

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// foreignWords are what no error may hold: Go's types and packages, and where the library keeps things.
var foreignWords = regexp.MustCompile(`interface|\[\]|map\[|reflect|float64|int64|runtime|strconv|netip|net/url|2006|jsonschema validation|` + location + `|0xc0|%!`)

// What is wrong with a schema, or with a body, is said on one line, bounded, with its place.
func TestWords(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 3000)
	for _, c := range []struct{ name, schema, body, want string }{
		{"no JSON", `{`, "", "the schema is no JSON: it ends too early"},
		{"nothing", ``, "", "the schema is no JSON: it is empty"},
		{"no JSON on a line", "{\n  \"a\": x}", "", "the schema is no JSON: 2:8: invalid character 'x'"},
		{"two values", `{} {}`, "", "the schema is no JSON: "},
		{"no schema", `[]`, "", "the schema cannot be used: /: "},
		{"a number", `7`, "", "the schema cannot be used: /: "},
		{"a bad keyword", `{"properties":{"a":{"type":"objekt"}}}`, "", "the schema cannot be used: /properties/a/type: "},
		{"many bad keywords", `{"properties":{` + strings.TrimSuffix(strings.Repeat(`"a":{"type":1},"b":{"type":2},"c":{"minimum":"x"},"d":{"required":7},`, 1), ",") + `}}`, "", "/properties/"},
		{"a bad keyword of a long name", `{"properties":{"` + long + `":{"type":7}}}`, "", "the schema cannot be used: /properties/nnn"},
		{"a bad keyword of a name in lines", `{"properties":{"a\nb\u2028c":{"type":7}}}`, "", "the schema cannot be used: /properties/a b c/type: "},
		{"a pattern", `{"properties":{"a":{"pattern":"("}}}`, "", `the schema cannot be used: /properties/a/pattern: `},
		{"a pattern of a name", `{"patternProperties":{"a(":{}}}`, "", `the schema cannot be used: /patternProperties`},
		{"a large pattern", `{"not":{"pattern":"(a{900}b){9}"}}`, "", `/not/pattern: `},
		{"a file", `{"items":{"$ref":"file:///etc/passwd"}}`, "", `the schema cannot be used: /items/$ref: "file:///etc/passwd" is outside the schema`},
		{"an address", `{"$ref":"https://example.org/s.json#/a"}`, "", `/$ref: "https://example.org/s.json" is outside the schema`},
		{"a relative address", `{"$id":"https://example.org/a/","items":{"$ref":"b.json"}}`, "", `/items/$ref: "https://example.org/a/b.json" is outside the schema`},
		{"another language", `{"$schema":"https://example.org/meta"}`, "", `/$schema: "https://example.org/meta" is outside the schema`},
		{"another language within", `{"items":{"$id":"a","$schema":"http://json-schema.org/draft-07/schema#"}}`, "", ""},
		{"a reference to nothing", `{"items":[{"$ref":"#/$defs/a~1b"}],"$schema":"http://json-schema.org/draft-07/schema#"}`, "", `/items/0/$ref: nothing is at "/$defs/a~1b"`},
		{"a reference to no anchor", `{"allOf":[{"$ref":"#nobody"}]}`, "", `/allOf/0/$ref: there is no anchor "nobody"`},
		{"a reference that is none", `{"allOf":[{"$ref":"%zz"}]}`, "", `/allOf/0/$ref: `},
		{"a pointer that is none", `{"allOf":[{"$ref":"#/a~7"}]}`, "", `/allOf/0/$ref: `},
		{"an anchor twice", `{"$defs":{"a":{"$anchor":"x"},"b":{"$anchor":"x"}}}`, "", `the anchor "x" is that of`},
		{"an id twice", `{"$defs":{"a":{"$id":"x"},"b":{"$id":"x"}}}`, "", `the id is that of`},
		{"an id that is none", `{"$defs":{"a":{"$id":"%zz"}}}`, "", `/$defs/a`},
		{"a number out of range", `{"properties":{"a":{"const":1e999999999}}}`, "", "/properties/a/const: a number with exponent"},

		{"a body that ends", `true`, `{"a":`, "the body is no JSON: it ends too early"},
		{"a body that is empty", `true`, ``, "the body is no JSON: it is empty"},
		{"a body on lines", `true`, "{\n\"é\": é}", "the body is no JSON: 2:6: "},
		{"a name in lines", `{"additionalProperties":{"type":"null"}}`, `{"a\nb":1}`, "/a b: got number, want null"},
		{"missing names in lines", `{"required":["a\nb"]}`, `{}`, "/: missing property"},
		{"names in lines", `{"additionalProperties":false}`, `{"a\nb":1}`, "/: additional properties"},
		{"a long name", `{"additionalProperties":false}`, `{"` + long + `":1}`, "/: additional properties"},
		{"a date", `{"$schema":"http://json-schema.org/draft-07/schema#","format":"date"}`, `"a\nb"`, `/: "a\nb" is not valid date`},
		{"an address of four", `{"$schema":"http://json-schema.org/draft-07/schema#","format":"ipv4"}`, `"1.2.3.x"`, `/: "1.2.3.x" is not valid ipv4`},
		{"an address of six", `{"$schema":"http://json-schema.org/draft-07/schema#","format":"ipv6"}`, `"::x"`, `/: "::x" is not valid ipv6`},
		{"mail", `{"$schema":"http://json-schema.org/draft-07/schema#","format":"email"}`, `"x"`, `/: "x" is not valid email: missing @`},
		{"an address", `{"$schema":"http://json-schema.org/draft-07/schema#","format":"uri"}`, `":"`, `/: ":" is not valid uri`},
		{"a long value", `{"$schema":"http://json-schema.org/draft-07/schema#","format":"date"}`, `"` + long + `"`, `is not valid date`},
		{"a pattern of a body", `{"$schema":"http://json-schema.org/draft-07/schema#","format":"regex"}`, `"("`, `missing closing )`},
		{"an enum in lines", `{"enum":["a\nb"]}`, `1`, `value must be one of "a\nb"`},
		{"a long pattern", `{"pattern":"` + strings.Repeat("a|", 400) + `b"}`, `"x"`, `/: `},
		{"many", `{"items":{"type":"null"}}`, `[` + strings.Repeat("1,", 1000) + `1]`, "/0: got number, want null; /1: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, err := Compile(c.schema)
			if err == nil && c.body != "" || c.schema == "true" {
				err = s.Check(context.Background(), []byte(c.body))
			}
			if err == nil {
				if c.want != "" {
					t.Fatal("it is taken")
				}
				return
			}
			said := err.Error()
			if !strings.Contains(said, c.want) {
				t.Errorf("%q, want %q", said, c.want)
			}
			if foreignWords.MatchString(said) {
				t.Errorf("%q speaks of %q", said, foreignWords.FindString(said))
			}
			if strings.ContainsFunc(said, unicode.IsControl) || len(said) > maxSaid+100 {
				t.Errorf("%q is of several lines, or of %d bytes", said, len(said))
			}
		})
	}
}
