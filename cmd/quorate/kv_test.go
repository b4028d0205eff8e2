package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/client"
)

func TestParseKey(t *testing.T) {
	for _, c := range []struct {
		in   string
		want client.Key
		text string // "": as in
	}{
		{"a", client.Key{"a"}, ""},
		{"a/b/c", client.Key{"a", "b", "c"}, ""},
		{"a//", client.Key{"a", "", ""}, ""},
		{`["a/b","c"]`, client.Key{"a/b", "c"}, ""},
		{`[""]`, client.Key{""}, ""},
		{`["a"]`, client.Key{"a"}, "a"},
		{`["[x"]`, client.Key{"[x"}, ""},
		{"", nil, ""},
		{`["a"`, nil, ""},
		{`[1]`, nil, ""},
	} {
		got, err := parseKey(c.in)
		if (err != nil) != (c.want == nil) || !slices.Equal(got, c.want) {
			t.Errorf("%q is %q, %v; want %q", c.in, got, err, c.want)
			continue
		}
		want := c.text
		if want == "" {
			want = c.in
		}
		if err == nil && keyText(got) != want {
			t.Errorf("%q is written %q, want %q", c.in, keyText(got), want)
		}
	}
}

func TestKVCommands(t *testing.T) {
	t.Parallel()
	addr := devNode(t)
	kill := func() {
		t.Helper()
		type leased struct{ Token string }
		ms := decode[[]leased](t, must(t, addr, "", "lease", "q", "-o", "json"))
		must(t, addr, "", "nack", ms[0].Token, "--permanent")
	}
	must(t, addr, "", "enqueue", "q", "first", "--key-if-undelivered", "lost/1", "--key-if-undelivered", `["lost","a/b"]`)
	kill()
	if got := must(t, addr, "", "kv", "get", "lost/1"); got != "first" {
		t.Errorf("got %q", got)
	}
	must(t, addr, "", "enqueue", "q", "second", "--key-if-undelivered", "other")
	kill()
	list := must(t, addr, "", "kv", "list")
	for _, want := range []string{"lost/1", `["lost","a/b"]`, "other"} {
		if !strings.Contains(list, want) {
			t.Errorf("the list lacks %s:\n%s", want, list)
		}
	}
	type entry struct {
		Key      []string
		Value    []byte
		Position uint64
		Deleted  bool
	}
	es := decode[[]entry](t, must(t, addr, "", "kv", "list", "lost", "--values", "-o", "json"))
	if len(es) != 2 || string(es[0].Value) != "first" || es[1].Key[1] != "a/b" {
		t.Errorf("listed %+v", es)
	}
	if out := must(t, addr, "", "kv", "watch", "--from", "0", "--limit", "3"); !strings.HasPrefix(out, "1\tlost/1\tset\tfirst\n") || strings.Count(out, "\n") != 3 {
		t.Errorf("watched %q", out)
	}
	must(t, addr, "", "kv", "delete", "other")
	if got := decode[entry](t, must(t, addr, "", "kv", "watch", "--from", "3", "--limit", "1", "-o", "json")); !got.Deleted || got.Key[0] != "other" || got.Position != 4 {
		t.Errorf("the deletion is watched as %+v", got)
	}
	if code, _, errs := cliRun(t, addr, "", "kv", "get", "other"); code != exitNotFound || !strings.Contains(errs, "no key") {
		t.Errorf("get of what is gone: exit %d, %s", code, errs)
	}
	if code, _, errs := cliRun(t, addr, "", "kv", "delete", "other"); code != exitNotFound {
		t.Errorf("delete of what is gone: exit %d, %s", code, errs)
	}
	if code, _, errs := cliRun(t, addr, "", "kv", "watch", "--from", "99"); code != exitFailed || !strings.Contains(errs, "list again") {
		t.Errorf("watch from what is not yet: exit %d, %s", code, errs)
	}
	if out := must(t, addr, "", "kv", "delete", "--prefix", "lost"); strings.Count(out, "deleted") != 2 {
		t.Errorf("deleted by prefix: %q", out)
	}
	if out := must(t, addr, "", "kv", "list", "-o", "json"); strings.TrimSpace(out) != "[]" {
		t.Errorf("what is left: %s", out)
	}
	for _, bad := range [][]string{
		{"kv", "get"}, {"kv", "get", ""}, {"kv", "get", "[1]"}, {"kv", "watch", "--from", "-2"}, {"kv", "list", "--limit", "-1"},
		{"enqueue", "q", "x", "--key-if-undelivered", "[1]"},
	} {
		if code, _, errs := cliRun(t, addr, "", bad...); code != exitUsage || errs == "" {
			t.Errorf("quorate %s: exit %d, %s", strings.Join(bad, " "), code, errs)
		}
	}
}
