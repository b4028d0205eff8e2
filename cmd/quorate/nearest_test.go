package main

import "testing"

func TestNearest(t *testing.T) {
	t.Parallel()
	words := []string{"addr", "at", "dead-letter-queue", "lease", "max-bytes", "max-depth", "priority"}
	for _, tc := range []struct{ name, word, want string }{
		{"a letter too few", "adr", "addr"},
		{"a letter too many", "leasee", "lease"},
		{"another letter", "priorety", "priority"},
		{"two letters", "dead-leter-quee", "dead-letter-queue"},
		{"three letters", "prrrrrty", ""},
		{"a beginning", "prio", "priority"},
		{"the beginning of two", "max", ""},
		{"too short to say", "a", ""},
		{"something else", "colour", ""},
		{"nothing", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := nearest(tc.word, words); got != tc.want {
				t.Errorf("nearest(%q) is %q, want %q", tc.word, got, tc.want)
			}
		})
	}
}
