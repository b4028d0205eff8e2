package mapping

import (
	"fmt"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
)

// guard is the visitor that keeps expressions to what is allowed and has them pay for what they do. The library walks the tree with it
// once, children first, so what it puts in is not visited.
type guard struct {
	err   error // the first thing that is not allowed
	where file.Location
}

// loops are the functions of the language that walk lists. All others are ours.
var loops = map[string]bool{
	"all": true, "any": true, "one": true, "none": true, "filter": true, "map": true, "count": true, "sum": true,
	"find": true, "findIndex": true, "findLast": true, "findLastIndex": true, "reduce": true,
}

// operators are those that pay, by the functions in their place.
var operators = map[string]string{
	"+": "__add", "==": "__equal", "!=": "__differ", "in": "__in", "matches": "__matches",
	"contains": "__contains", "startsWith": "__starts", "endsWith": "__ends",
}

// Visit judges one node.
func (g *guard) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		if n.Value == "$env" || strings.HasPrefix(n.Value, "__") {
			g.refuse(n, "%s is not to be had; body, headers and message are", n.Value)
		}
	case *ast.BuiltinNode:
		if !loops[n.Name] {
			g.refuse(n, "there is no function %s here", n.Name)
		}
		if len(n.Arguments) == 1 { // sum(list), count(list): without a predicate there is no turn that pays
			item := &ast.PointerNode{}
			item.SetLocation(n.Location())
			each := &ast.PredicateNode{Node: call("__turn", n, item)}
			each.SetLocation(n.Location())
			n.Arguments = append(n.Arguments, each)
		}
	case *ast.PredicateNode:
		n.Node = call("__turn", n.Node, n.Node)
	case *ast.BinaryNode:
		if f := operators[n.Operator]; f != "" {
			ast.Patch(node, call(f, n, n.Left, n.Right))
		}
	case *ast.CallNode:
		if _, ok := n.Callee.(*ast.IdentifierNode); !ok {
			g.refuse(n, "only functions of the language can be called")
		}
	}
}

// call is a call of a function of ours, placed where at stands.
func call(name string, at ast.Node, args ...ast.Node) *ast.CallNode {
	callee := &ast.IdentifierNode{Value: name}
	callee.SetLocation(at.Location())
	c := &ast.CallNode{Callee: callee, Arguments: args}
	c.SetLocation(at.Location())
	return c
}

func (g *guard) refuse(n ast.Node, format string, args ...any) {
	if g.err == nil {
		g.err, g.where = fmt.Errorf(format, args...), n.Location()
	}
}

// place is the error with its place in the text.
func (g *guard) place(text string) *Error {
	e := &file.Error{Location: g.where, Message: g.err.Error()}
	return errorOf(e.Bind(file.NewSource(text)))
}
