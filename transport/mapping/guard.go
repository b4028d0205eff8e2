package mapping

import (
	"fmt"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"

	"github.com/quorate/quorate/transport/pattern"
)

// guard is the visitor that keeps expressions to what is allowed, has them pay for what they do, and puts operators of ours in the place of
// the library's, which wrap integers, walk without end, and speak of Go's types. The library walks the tree with it once, children first, so
// what it puts in is not visited, but for the middle of a < b < c, which stands in the tree twice.
type guard struct {
	functions map[string]bool // that can be called
	err       error           // the first thing that is not allowed
	where     file.Location

	done map[ast.Node]bool     // ours, or visited before
	now  map[ast.Node]ast.Node // what stands in the place of those that were replaced
}

func newGuard(functions map[string]bool) *guard {
	return &guard{functions: functions, done: map[ast.Node]bool{}, now: map[ast.Node]ast.Node{}}
}

// loops are the functions of the language that walk lists, and whether they ask for a condition. All others are ours.
var loops = map[string]bool{
	"all": true, "any": true, "one": true, "none": true, "filter": true, "map": false, "count": true, "sum": false,
	"find": true, "findIndex": true, "findLast": true, "findLastIndex": true, "reduce": false,
}

// operators of two values are functions of ours.
var operators = map[string]string{
	"+": "__add", "-": "__subtract", "*": "__multiply", "/": "__divide", "%": "__remainder", "**": "__power", "^": "__power", "..": "__range",
	"==": "__equal", "!=": "__differ", "<": "__less", "<=": "__most", ">": "__more", ">=": "__least",
	"in": "__in", "matches": "__matches", "contains": "__contains", "startsWith": "__starts", "endsWith": "__ends",
}

// decides are those of ours that come to a boolean.
var decides = map[string]bool{
	"__equal": true, "__differ": true, "__less": true, "__most": true, "__more": true, "__least": true,
	"__in": true, "__matches": true, "__contains": true, "__starts": true, "__ends": true, "__condition": true, "__test": true,
}

// Visit judges one node.
func (g *guard) Visit(node *ast.Node) {
	n := *node
	if to := g.now[n]; to != nil {
		*node = to
		return
	}
	if g.done[n] {
		return
	}
	g.done[n] = true
	switch n := n.(type) {
	case *ast.IdentifierNode:
		if n.Value == "$env" || strings.HasPrefix(n.Value, "__") {
			g.refuse(n, "%s is not to be had; body, headers and message are", n.Value)
		}
	case *ast.BytesNode:
		g.refuse(n, "bytes are not to be had; a text without the b before it would be right")
	case *ast.BuiltinNode:
		g.loop(n)
	case *ast.BinaryNode:
		g.binary(node, n)
	case *ast.UnaryNode:
		switch n.Operator {
		case "-":
			g.replace(node, "__negate", n.Node)
		case "+":
			g.replace(node, "__plus", n.Node)
		default:
			n.Node = g.condition(n.Node)
		}
	case *ast.ConditionalNode:
		n.Cond = g.condition(n.Cond)
	case *ast.MemberNode:
		if _, ok := n.Property.(*ast.StringNode); !ok {
			n.Property = g.call("__index", n.Property, n.Property)
		}
	case *ast.SliceNode:
		g.replace(node, "__slice", n.Node, g.orNil(n.From, n), g.orNil(n.To, n))
	case *ast.PairNode:
		if _, ok := n.Key.(*ast.StringNode); !ok {
			n.Key = g.call("__label", n.Key, n.Key)
		}
	case *ast.CallNode:
		g.called(n)
	}
}

// loop has each turn of a loop pay, its condition be one, and what it walks be a list.
func (g *guard) loop(n *ast.BuiltinNode) {
	conditional, ok := loops[n.Name]
	if !ok {
		g.refuse(n, "there is no function %s here", n.Name)
		return
	}
	if len(n.Arguments) == 0 { // the library says so
		return
	}
	n.Arguments[0] = g.call("__list", n.Arguments[0], n.Arguments[0], g.text(n.Name, n))
	if len(n.Arguments) == 1 { // sum(list), count(list): without a predicate there is no turn that pays
		n.Arguments = append(n.Arguments, g.own(&ast.PredicateNode{Node: g.own(&ast.PointerNode{}, n)}, n))
	}
	each, ok := n.Arguments[1].(*ast.PredicateNode)
	if !ok {
		return
	}
	turn := "__turn"
	if conditional {
		turn = "__test"
	}
	if n.Name == "sum" { // the library's would wrap
		n.Name = "reduce"
		n.Arguments = append(n.Arguments, g.own(&ast.IntegerNode{}, n))
		each.Node = g.call("__add", n, g.own(&ast.PointerNode{Name: "acc"}, n), each.Node)
	}
	each.Node = g.call(turn, each.Node, each.Node, g.own(&ast.IntegerNode{Value: parts(each.Node, 4*maxNodes)}, n))
}

func (g *guard) binary(node *ast.Node, n *ast.BinaryNode) {
	switch n.Operator {
	case "and", "&&", "or", "||":
		n.Left, n.Right = g.condition(n.Left), g.condition(n.Right)
		return
	}
	if f := operators[n.Operator]; f != "" {
		g.replace(node, f, n.Left, n.Right)
	}
}

// called judges a call. A function of a value would be one of the library's own.
func (g *guard) called(n *ast.CallNode) {
	id, ok := n.Callee.(*ast.IdentifierNode)
	switch {
	case !ok:
		g.refuse(n, "only functions of the language can be called")
	case !g.functions[id.Value] && !strings.HasPrefix(id.Value, "__"):
		g.refuse(n, "there is no function %.40s here", id.Value)
	}
}

// condition is a node that is asked whether it holds.
func (g *guard) condition(n ast.Node) ast.Node {
	switch c := n.(type) {
	case *ast.BoolNode:
		return n
	case *ast.UnaryNode:
		if c.Operator == "!" || c.Operator == "not" {
			return n
		}
	case *ast.BinaryNode:
		switch c.Operator {
		case "and", "&&", "or", "||":
			return n
		}
	case *ast.CallNode:
		if id, ok := c.Callee.(*ast.IdentifierNode); ok && decides[id.Value] {
			return n
		}
	}
	return g.call("__condition", n, n)
}

// replace puts a call of a function of ours in the place of a node.
func (g *guard) replace(node *ast.Node, name string, args ...ast.Node) {
	was := *node
	*node = g.call(name, was, args...)
	g.now[was] = *node
}

// call is a call of a function of ours, placed where at stands.
func (g *guard) call(name string, at ast.Node, args ...ast.Node) ast.Node {
	return g.own(&ast.CallNode{Callee: g.own(&ast.IdentifierNode{Value: name}, at), Arguments: args}, at)
}

// own is a node of ours, placed where at stands.
func (g *guard) own(n, at ast.Node) ast.Node {
	n.SetLocation(at.Location())
	g.done[n] = true
	return n
}

func (g *guard) text(s string, at ast.Node) ast.Node { return g.own(&ast.StringNode{Value: s}, at) }

func (g *guard) orNil(n, at ast.Node) ast.Node {
	if n == nil {
		return g.own(&ast.NilNode{}, at)
	}
	return n
}

func (g *guard) refuse(n ast.Node, format string, args ...any) {
	if g.err == nil {
		g.err, g.where = fmt.Errorf(format, args...), n.Location()
	}
}

// place is the error with its place in the text.
func (g *guard) place(text string) *Error {
	e := &file.Error{Location: g.where}
	e = e.Bind(file.NewSource(text))
	return &Error{Line: e.Line, Column: e.Column + 1, Text: line(g.err.Error())}
}

// counter counts nodes, those twice that stand in the tree twice, until there are more than most.
type counter struct{ n, most int }

type tooMany struct{}

func (c *counter) Visit(*ast.Node) {
	if c.n++; c.n > c.most {
		panic(tooMany{})
	}
}

// patterns looks at those that are written out, before the library does, which reads them whatever they come to.
type patterns struct{ guard }

func (p *patterns) Visit(node *ast.Node) {
	n, ok := (*node).(*ast.BinaryNode)
	if !ok || n.Operator != "matches" || p.err != nil {
		return
	}
	if s, ok := n.Right.(*ast.StringNode); ok {
		if _, err := pattern.Compile(s.Value, maxPattern); err != nil {
			p.refuse(n, "%v", err)
		}
	}
}

// parts is how many nodes a tree has, or one more than most. The middle of a < b < c, and what decides in a ?: b, is evaluated, checked and
// compiled twice, and so is all that is in it, what is the middle of that four times.
func parts(n ast.Node, most int) int {
	c := counter{most: most}
	func() {
		defer func() {
			if p := recover(); p != nil {
				if _, ours := p.(tooMany); !ours {
					panic(p)
				}
			}
		}()
		ast.Walk(&n, &c)
	}()
	return c.n
}
