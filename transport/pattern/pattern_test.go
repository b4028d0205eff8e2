package pattern

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

var errSpent = errors.New("spent")

// budget pays out of so much work.
func budget(left *int) func(int) error {
	return func(work int) error {
		if *left -= work; *left < 0 {
			return errSpent
		}
		return nil
	}
}

// Work is paid for as it is done, and no more than a few bytes of it are done unpaid.
func TestMatchPays(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 20_000)
	for _, c := range []struct {
		name, pattern, text string
		left                int
		found               bool
		spent               int // at least; at most an eighth more
		err                 error
	}{
		{"a short text at once", "^a+$", "aaa", 1000, true, 24, nil},
		{"a short text that costs too much", "(a?){100}$", strings.Repeat("a", 200), 1000, false, 1000, errSpent},
		{"all of a long text", "^a+$", long, 1 << 20, true, 20_000 * 6, nil},
		{"a long text that fails at once", "^b+$", long, 1000, false, 6, nil},
		{"a long text up to what is found", "ab", strings.Repeat("a", 999) + "b" + long, 1 << 20, true, 4 * 1000, nil},
		{"a long text, as far as it goes", "(a?){50}b", long, 100_000, false, 100_000, errSpent},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, err := Compile(c.pattern, 1000)
			if err != nil {
				t.Fatal(err)
			}
			left := c.left
			found, err := p.Match(c.text, budget(&left))
			if found != c.found || !errors.Is(err, c.err) {
				t.Errorf("%t, %v; want %t, %v", found, err, c.found, c.err)
			}
			if spent := c.left - left; spent < c.spent || c.err == nil && spent > c.spent+c.spent/8+3*p.Size() {
				t.Errorf("%d spent, want %d", spent, c.spent)
			} else if c.err != nil && len(c.text) > shortText && spent > c.left+2*payEach {
				t.Errorf("%d spent of %d", spent, c.left)
			}
		})
	}
}

func TestCompile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, pattern, want string }{
		{"fine", "^o-[0-9]+$", ""},
		{"as large as may be", "a{990}", ""},
		{"none", "(", `the pattern "(" cannot be read: missing closing )`},
		{"part of it", "a[b-a]c", `the pattern "a[b-a]c" cannot be read: invalid character class range: "b-a"`},
		{"look-ahead", "(?=a)", "cannot be read"},
		{"too large", "a{500}b{500}c", "the pattern \"a{500}b{500}c\" has 1003 instructions or more; at most 1000 are allowed"},
		{"much of little", strings.Repeat("a{1000}", 1000), "instructions or more; at most 1000"},
		{"much of little, nested", strings.Repeat("((a{10}){10}){9}", 400), "instructions or more; at most 1000"},
		{"alternatives", strings.Repeat("ab|c{9}|", 2000), "instructions or more; at most 1000"},
		{"on two lines", "(\n", `the pattern "(\n" cannot be read`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := Compile(c.pattern, 1000)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want %q", err, c.want)
			}
			if err != nil && (strings.ContainsAny(err.Error(), "\n") || len(err.Error()) > 500 || !utf8.ValidString(err.Error())) {
				t.Errorf("%q is long, of several lines, or no text", err)
			}
		})
	}
}

// What is not built is known to be large: nothing that fits is refused for its estimate.
func TestEstimateIsNoMoreThanFourTimes(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"a{3}", "(a?){99}", "a*b+c?", "(a|b|cd)*", "[a-z]{2,9}", "a{2,}", "(?i)abc", "", "(((a)))", "^$", "x(ab|cd){4}?", "(?:a|b)", "((a{2}){3}){4}"} {
		p, err := Compile(s, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Compile(s, p.Size()); err != nil {
			t.Errorf("%q has %d instructions: %v", s, p.Size(), err)
		}
	}
}

// FuzzPattern matches as the library does, or says that it was too much.
func FuzzPattern(f *testing.F) {
	f.Add("^a+$", "aaa")
	f.Add("(a?){9}é", strings.Repeat("a", 300)+"é")
	f.Add("\\bx\\B|$", strings.Repeat("\xff", 300))
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > 200 || len(text) > 2000 {
			return
		}
		p, err := Compile(pattern, 500)
		if err != nil {
			return
		}
		if p.Size() > 500 {
			t.Fatalf("%d instructions", p.Size())
		}
		left := 1 << 30
		found, err := p.Match(text, budget(&left))
		if want := regexp.MustCompile(pattern).MatchString(text); err != nil || found != want {
			t.Fatalf("%t, %v; want %t", found, err, want)
		}
	})
}

func BenchmarkMatchAtWorst(b *testing.B) {
	p, err := Compile("(a?){99}$", 1000)
	if err != nil {
		b.Fatal(err)
	}
	text := strings.Repeat("a", 2000) + "b"
	work := 0
	for b.Loop() {
		if _, err := p.Match(text, func(n int) error { work += n; return nil }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(work), "ns/work")
}
