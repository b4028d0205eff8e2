package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestStrayEnvironment(t *testing.T) {
	for _, c := range []struct {
		name string
		env  []string
		want []string // how the lines go on behind "quorate: the environment's "
	}{
		{"none", []string{"PATH=/bin", "quorate_addr=x", "MYQUORATE_X=1"}, nil},
		{"all that are known", func() (all []string) {
			for _, s := range settings {
				all = append(all, s.env()+"=x")
			}
			return append(all, "QUORATE_ADDR=x", "QUORATE_TOKEN=x", "QUORATE_HEADER_SOURCE=x", "QUORATE_CHAOS_TAP=x")
		}(), nil},
		{"a service of Kubernetes", []string{"QUORATE_SERVICE_HOST=1", "QUORATE_PORT=tcp://1", "QUORATE_PORT_7340_TCP_ADDR=1"}, nil},
		{"misspelt", []string{"QUORATE_ADR=x", "QUORATE_LIMITS_MEMORY_BYTE=1", "QUORATE_NODEID=1"}, []string{
			"QUORATE_ADR means nothing and is ignored; did you mean QUORATE_ADDR?",
			"QUORATE_LIMITS_MEMORY_BYTE means nothing and is ignored; did you mean QUORATE_LIMITS_MEMORY_BYTES?",
			"QUORATE_NODEID means nothing and is ignored; did you mean QUORATE_NODE_ID?",
		}},
		{"something else", []string{"QUORATE_COLOUR=red"}, []string{`QUORATE_COLOUR means nothing and is ignored; those of the settings are in "quorate serve --help"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			warnStray(&out, c.env)
			var got []string
			for line := range strings.Lines(out.String()) {
				got = append(got, strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "quorate: the environment's "))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("said %q, want %q", got, c.want)
			}
		})
	}
}

func TestStrayEnvironmentIsSaid(t *testing.T) {
	t.Setenv("QUORATE_ADR", "127.0.0.1:1")
	var out, errs bytes.Buffer
	if code := execute(t.Context(), []string{"version"}, strings.NewReader(""), &out, &errs); code != 0 {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	if !strings.Contains(errs.String(), "did you mean QUORATE_ADDR?") {
		t.Errorf("stderr is %q", errs.String())
	}
}
