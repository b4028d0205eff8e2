package main

import (
	"fmt"
	"strings"
)

// created says what a create did: made it, or found it as it was to be.
func (c *cli) created(name string, existed bool) error {
	switch {
	case c.asJSON():
		return c.json(map[string]any{"ok": true, "created": !existed})
	case existed:
		return c.done(name + " exists already and is the same: nothing is changed")
	}
	return c.done("created " + name)
}

// maxDiffering bounds what is said of something that exists and is another: so many values, and so many bytes of each.
const maxDiffering, maxDifferingValue = 8, 60

// another says why something is not created that exists: in what it is not as the flags would have it. refused is the cluster's own word.
func another(kind, name string, refused error, want, actual map[string]any) error {
	var said []string
	for _, d := range compare(kind, name, want, actual) {
		if len(said) == maxDiffering {
			said = append(said, "and more")
			break
		}
		said = append(said, fmt.Sprintf("%s is %s, not %s", d.key, shown(d.actual), shown(d.declared)))
	}
	if len(said) == 0 {
		return refused
	}
	text := fmt.Sprintf("already_exists: %s %q exists and is another: %s; to change it: quorate %s set %s", kind, name, strings.Join(said, "; "), kind, name)
	return &exitError{code: codeOf(refused), err: &worded{text, refused}}
}

// shown is a value in a sentence.
func shown(v string) string {
	switch {
	case v == "" || v == "[]" || v == "{}" || v == "null":
		return "none"
	case len(v) > maxDifferingValue:
		return strings.ToValidUTF8(v[:maxDifferingValue], "") + "…"
	}
	return printable(v)
}
