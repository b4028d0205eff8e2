package main

import (
	"bytes"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// keyLines finds the line on which each dotted key of a TOML document that parses is set.
func keyLines(doc []byte) map[string]int {
	lines := map[string]int{}
	p := unstable.Parser{}
	p.Reset(doc)
	table := ""
	for p.NextExpression() {
		n := p.Expression()
		name, at := keyOf(&p, n)
		switch n.Kind {
		case unstable.Table, unstable.ArrayTable:
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
