package main

import (
	"bytes"
	"testing"
)

// A schema is shown line by line; what would move columns or the cursor is not.
func TestLinesOf(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, text, want string }{
		{"none", "", "a  b\n"},
		{"one line", `{"type":"object"}`, "a       b\nschema  {\"type\":\"object\"}\n"},
		{"lines", "{\n\t\"type\": \"object\"\r\n\n}\n", "a       b\nschema  {\n            \"type\": \"object\"\n        }\n"},
		{"a control character", "{\n\"title\": \"\u009b2J\"}", "a       b\nschema  {\n        \\\"title\\\": \\\"\\u009b2J\\\"}\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			if err := (&cli{stdout: &out}).fields(append([]string{"a", "b"}, linesOf("schema", tc.text)...)...); err != nil || out.String() != tc.want {
				t.Errorf("%q, %v; want %q", out.String(), err, tc.want)
			}
		})
	}
}

// A state that only repeats the name of its row says that it works; any other stays as it is.
func TestAtWork(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]string{
		"": "", "pushing": "at work", "mapping": "at work", "pushing; 3 failures in a row": "at work; 3 failures in a row",
		"rests: mapping": "rests: mapping", "mappings": "mappings", "waits: full": "waits: full",
	} {
		if got := atWork(state); got != want {
			t.Errorf("%q is shown as %q, want %q", state, got, want)
		}
	}
}
