package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// keyLines finds the line on which each dotted key of a TOML document that parses is set. A table of an array has its number
// behind the name (queue[0].lease_ms, queue[0].retry.kind); the line of its head is under the name alone.
func keyLines(doc []byte) map[string]int {
	lines := map[string]int{}
	p := unstable.Parser{}
	p.Reset(doc)
	table := ""
	count := map[string]int{}
	for p.NextExpression() {
		n := p.Expression()
		name, at := keyOf(&p, n)
		switch n.Kind {
		case unstable.ArrayTable:
			name, count[name] = fmt.Sprintf("%s[%d]", name, count[name]), count[name]+1
			lines[name] = 1 + bytes.Count(doc[:at], []byte{'\n'})
			table = name + "."
		case unstable.Table:
			if first, rest, ok := strings.Cut(name, "."); ok && count[first] > 0 {
				name = fmt.Sprintf("%s[%d].%s", first, count[first]-1, rest)
			}
			lines[name] = 1 + bytes.Count(doc[:at], []byte{'\n'})
			table = name + "."
		case unstable.KeyValue:
			lines[table+name] = 1 + bytes.Count(doc[:at], []byte{'\n'})
		}
	}
	return lines
}

// keyOf is the dotted name of an expression and the offset of its first part.
func keyOf(p *unstable.Parser, n *unstable.Node) (string, uint32) {
	var parts []string
	var at uint32
	for it := n.Key(); it.Next(); {
		k := it.Node()
		if len(parts) == 0 {
			at = p.Range(k.Data).Offset
		}
		parts = append(parts, string(k.Data))
	}
	return strings.Join(parts, "."), at
}
