package schema

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// matching is a schema that matches one text by a pattern so many times.
func matching(n int, pattern string) string {
	return `{"allOf":[` + strings.TrimSuffix(strings.Repeat(`{"$ref":"#/$defs/p"},`, n), ",") + `],"$defs":{"p":{"pattern":"` + pattern + `"}}}`
}

// What matching comes to is bounded by the steps, counted here and not timed: all the steps that any body has are 16 million instructions times
// bytes. The pattern matches nowhere and ends nowhere, so each match of it reads all of the text with each instruction.
func TestMatchesAreCharged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bytes, repeated int
		judged          int // how many matches the steps are enough for, by hand: steps*16 / (bytes*instructions), less what the looks and paying in parts take
	}{
		{1000, 50, 5},     // 74,192 steps; 203 instructions
		{20_000, 5, 33},   // 1,000,000 steps; 23
		{20_000, 50, 3},   // 203
		{20_000, 200, 0},  // 803
		{200_000, 50, 0},  // 203
		{200_000, 5, 3},   // 23
		{1_000_000, 2, 1}, // 11
	} {
		t.Run(fmt.Sprintf("%d bytes %d times", c.bytes, c.repeated), func(t *testing.T) {
			t.Parallel()
			text := fmt.Sprintf("(a?){%d}$", c.repeated)
			body := []byte(`"` + strings.Repeat("a", c.bytes) + `b"`)
			for n, much := range map[int]bool{c.judged: false, c.judged + 1: true} {
				if n == 0 {
					continue
				}
				s, err := compile(matching(n, text))
				if err != nil {
					t.Fatal(err)
				}
				err = s.check(t.Context(), string(body[1:len(body)-1]), len(body))
				if (err != nil && strings.Contains(err.Error(), "too much work")) != much {
					t.Errorf("%d matches: %v, want too much work: %t", n, err, much)
				}
				if most := matchStep * s.meter.most; s.meter.worked > most || most > 16_000_000 {
					t.Errorf("%d matches came to %d, and the steps to %d", n, s.meter.worked, most)
				}
			}
		})
	}
}

// A pattern costs what is read: those that fail at the first byte are no work, however many they are and however long the text.
func TestPatternsThatFailAtOnceAreCheap(t *testing.T) {
	t.Parallel()
	var ways []string
	for i := range 50 {
		ways = append(ways, fmt.Sprintf(`{"pattern":"^b%d[0-9a-z]{20}$"}`, i))
	}
	s := mustCompile(t, `{"anyOf":[`+strings.Join(ways, ",")+`,{"type":"string"}]}`)
	if err := s.Check(context.Background(), []byte(`"`+strings.Repeat("a", 200_000)+`"`)); err != nil {
		t.Error(err)
	}
}

// Patterns that bodies have, under "format": "regex", are none of the schema's: they are bounded one by one, paid for, and not kept.
func TestPatternsOfBodies(t *testing.T) {
	t.Parallel()
	s := mustCompile(t, `{"$schema":"http://json-schema.org/draft-07/schema#","items":{"format":"regex"}}`)
	for i := range 3 * maxPatterns / 500 {
		if err := s.Check(context.Background(), []byte(`["(a{490}|b)"]`)); err != nil {
			t.Fatalf("body %d: %v", i, err)
		}
	}
	for _, c := range []struct{ name, body, want string }{
		{"none", `["("]`, "/0: "},
		{"much of little", `["` + strings.Repeat("a{1000}", 10) + `"]`, "instructions or more"},
		{"many", "[" + strings.TrimSuffix(strings.Repeat(`"a{900}",`, 1000), ",") + "]", "too much work"},
		{"as long as it may be", `["` + strings.Repeat("a|", 100) + `"]`, ""},
	} {
		if err := s.Check(context.Background(), []byte(c.body)); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// BenchmarkMatchAtWorst is how long all the steps take that a body may have, spent on matching.
func BenchmarkMatchAtWorst(b *testing.B) {
	s, err := compile(matching(500, "(a?){50}$"))
	if err != nil {
		b.Fatal(err)
	}
	text := strings.Repeat("a", 31_000) + "b"
	for b.Loop() {
		if err := s.check(context.Background(), text, len(text)+2); err == nil || !strings.Contains(err.Error(), "too much work") {
			b.Fatal(err)
		}
	}
}
