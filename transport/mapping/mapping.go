package mapping

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"
	"unicode/utf8"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"
)

// Bounds.
const (
	MaxBytes    = 4 << 10 // of an expression
	MaxMessages = 100     // that one message becomes

	maxNodes   = 1000
	maxSteps   = 500_000
	stepBytes  = 64
	maxMade    = 32 << 20
	maxValues  = 500_000
	maxNesting = 200
	maxTurns   = 4
	maxText    = 400 // bytes of an error
)

// maxTime is a variable for tests, which have all the time that steps take under a race detector on a busy machine.
var maxTime = 5 * time.Second

var turns = make(chan struct{}, maxTurns)

// Kind is what an expression is to make.
type Kind uint8

// The two kinds.
const (
	Body     Kind = iota // the body of one message
	Messages             // messages
)

// Error is an error of an expression.
type Error struct {
	Line, Column int // of the expression, from 1; 0: of all of it
	Text         string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Text
	}
	return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Text)
}

// ErrLate says that the evaluation has had no result in time, or that its context has ended. The expression may be fine.
var ErrLate = errors.New("mapping: not evaluated in time")

// Program is an expression ready for use, by several goroutines.
type Program struct {
	kind    Kind
	program *vm.Program
	bytes   int // about how much it takes
}

var (
	errUnreadable = &Error{Text: "it cannot be read as an expression"}
	errNodes      = &Error{Text: fmt.Sprintf("it has more than %d parts; fewer would be right (the middle of a < b < c counts twice, and what decides in a ?: b)", maxNodes)}
)

// The braces after the list of a loop are the loop's own: what is written as an object there goes wrong at its first colon,
// where one after a key is right in all other braces.
const (
	loopColon = `unexpected ":"` // what is said then
	loopHint  = ` (an object within a loop needs braces of its own: {{...}})`
)

var firstKey = regexp.MustCompile(`\{\s*(\w+|"[^"]*"|'[^']*')\s*$`)

// before is what of a text is before a place: both count from 1, columns in runes.
func before(text string, line, column int) string {
	for i := range text {
		switch {
		case line == 1 && column <= 1:
			return text[:i]
		case line == 1:
			column--
		case text[i] == '\n':
			line--
		}
	}
	return text
}

// Compile reads an expression. The error is an *Error.
func Compile(text string, kind Kind) (*Program, error) {
	switch {
	case len(text) > MaxBytes:
		return nil, &Error{Text: fmt.Sprintf("%d bytes; at most %d are allowed", len(text), MaxBytes)}
	case !utf8.ValidString(text):
		return nil, &Error{Text: "it is not UTF-8; text would be right"}
	}
	names := sample(kind)
	if err := measure(text, names); err != nil {
		return nil, hinted(text, errorOf(err))
	}
	g := newGuard(functionsOf(kind))
	program, err := compile(text, names, expr.Patch(g))
	if g.err != nil { // what follows from it says less
		return nil, g.place(text)
	}
	if err == nil { // and as it was written: with a visitor the library checks names and types once less
		_, err = compile(text, names)
	}
	if err != nil {
		return nil, errorOf(err)
	}
	return &Program{kind, program, programBytes + 2*len(text) + partBytes*parts(program.Node(), maxBytes/partBytes)}, nil
}

// hinted is an error of an expression that cannot be read, with what it may come of.
func hinted(text string, e *Error) *Error {
	if e.Text == loopColon && firstKey.MatchString(before(text, e.Line, e.Column)) {
		return &Error{e.Line, e.Column, e.Text + loopHint}
	}
	return e
}

// measure refuses what comes to too much once it is unfolded, before anything walks all of it.
func measure(text string, names types.Map) (err error) {
	defer func() {
		if recover() != nil { // of the library
			err = errUnreadable
		}
	}()
	c := conf.CreateNew()
	for _, o := range options(names) {
		o(c)
	}
	tree, err := parser.ParseWithConfig(text, c)
	if err != nil {
		return err
	}
	if parts(tree.Node, maxNodes) > maxNodes {
		return errNodes
	}
	p := &patterns{}
	if ast.Walk(&tree.Node, p); p.err != nil {
		return p.place(text)
	}
	return nil
}

func options(names types.Map, more ...expr.Option) []expr.Option {
	return append(more, expr.Env(names), expr.Optimize(false), expr.MaxNodes(maxNodes), expr.AsAny())
}

func compile(text string, names types.Map, more ...expr.Option) (p *vm.Program, err error) {
	defer func() {
		if recover() != nil { // of the library
			p, err = nil, errUnreadable
		}
	}()
	return expr.Compile(text, options(names, more...)...)
}

// run evaluates the expression over a message, and has use make of its value what is wanted, within the same budget.
func (p *Program) run(ctx context.Context, in *Input, use func(r *run, v any) error) error {
	select {
	case turns <- struct{}{}:
		defer func() { <-turns }()
	case <-ctx.Done():
		return ErrLate
	}
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	r := &run{ctx: ctx, in: in, steps: maxSteps, made: maxMade}
	env, err := r.env(p.kind)
	if err != nil {
		return errorOf(err)
	}
	machine := vm.VM{MemoryBudget: maxValues}
	v, err := machine.Run(p.program, env)
	if err == nil && v != nil {
		err = use(r, v)
	}
	switch {
	case r.late:
		return ErrLate
	case err != nil:
		return errorOf(err)
	}
	return nil
}

// cut shortens text to at most n bytes, on a rune.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// Outcome names how an evaluation ended, for metrics: mapped, nothing, failed or late.
func Outcome(something bool, err error) string {
	switch {
	case errors.Is(err, ErrLate):
		return "late"
	case err != nil:
		return "failed"
	case !something:
		return "nothing"
	}
	return "mapped"
}
