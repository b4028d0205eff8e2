package pattern

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// shortText is up to how many bytes a text is paid for at once, and payEach after how much work the payments are made of a longer one.
const (
	shortText = 256
	payEach   = 4096
)

// Pattern is a regular expression ready for use.
type Pattern struct {
	re   *regexp.Regexp
	size int // instructions
	kept int
}

// Size is how many instructions it has: a match takes as many steps of work for each byte, at worst.
func (p *Pattern) Size() int { return p.size }

// Kept is how much is kept of it, in instructions and what is as large.
func (p *Pattern) Kept() int { return p.kept }

// Compile reads a regular expression of at most so many instructions.
func Compile(text string, most int) (*Pattern, error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, said(text, err)
	}
	if n := estimate(parsed, 4*most); n > 4*most { // more than twice what becomes of it
		return nil, tooLarge(text, n, most)
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, said(text, err)
	}
	if len(prog.Inst) > most {
		return nil, tooLarge(text, len(prog.Inst), most)
	}
	p := &Pattern{size: len(prog.Inst), kept: len(prog.Inst)}
	for i := range prog.Inst {
		p.kept += len(prog.Inst[i].Rune) / 4
	}
	if p.re, err = regexp.Compile(text); err != nil {
		return nil, said(text, err)
	}
	return p, nil
}

func tooLarge(text string, n, most int) error {
	return fmt.Errorf("the pattern %s has %d instructions or more; at most %d are allowed: fewer or smaller repetitions would be right", quoted(text), n, most)
}

// said is what is wrong with a pattern.
func said(text string, err error) error {
	var at *syntax.Error
	if !errors.As(err, &at) {
		return fmt.Errorf("the pattern %s cannot be read; a regular expression of RE2 would be right", quoted(text))
	}
	if at.Expr == "" || at.Expr == text {
		return fmt.Errorf("the pattern %s cannot be read: %s", quoted(text), at.Code)
	}
	return fmt.Errorf("the pattern %s cannot be read: %s: %s", quoted(text), at.Code, quoted(at.Expr))
}

// quoted shows the beginning of a text, on one line.
func quoted(text string) string {
	const most = 100
	if len(text) <= most {
		return fmt.Sprintf("%q", text)
	}
	n := most
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return fmt.Sprintf("%q…", text[:n])
}

// estimate is how many instructions a parsed expression comes to, or more than most: repetitions are written out when it is built.
func estimate(re *syntax.Regexp, most int) int {
	n := 1
	switch re.Op {
	case syntax.OpLiteral:
		return max(1, len(re.Rune))
	case syntax.OpCapture:
		n = 2
	default:
		n += len(re.Sub)
	}
	for _, sub := range re.Sub {
		if n += estimate(sub, most); n > most {
			return n
		}
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return n
}

// Match says whether the pattern is found in a text, and pays for what it reads: work is instructions times bytes. What pay returns, or panics
// with, ends the match.
func (p *Pattern) Match(text string, pay func(work int) error) (bool, error) {
	if len(text) <= shortText {
		if err := pay((1 + len(text)) * p.size); err != nil {
			return false, err
		}
		return p.re.MatchString(text), nil
	}
	r := &reader{text: strings.NewReader(text), size: p.size, pay: pay}
	found := p.re.MatchReader(r)
	if r.err == nil {
		r.err = pay(r.owed)
	}
	return found && r.err == nil, r.err
}

// reader reads a text and pays for it.
type reader struct {
	text *strings.Reader
	size int
	owed int
	pay  func(work int) error
	err  error
}

func (r *reader) ReadRune() (rune, int, error) {
	if r.owed >= payEach && r.err == nil {
		r.err, r.owed = r.pay(r.owed), 0
	}
	if r.err != nil {
		return 0, 0, io.EOF
	}
	c, n, err := r.text.ReadRune()
	r.owed += n * r.size
	return c, n, err
}
