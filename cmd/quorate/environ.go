package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Variables named QUORATE_… that this binary knows beside those of the settings: its own, those that "quorate work" gives to its
// commands, and those of test builds.
var knownEnv = []string{
	"QUORATE_ADDR",
	"QUORATE_ID", "QUORATE_TASK_ID", "QUORATE_TOKEN", "QUORATE_QUEUE", "QUORATE_ATTEMPT", "QUORATE_KIND", "QUORATE_KEY",
	"QUORATE_PRIORITY", "QUORATE_CONTENT_TYPE", "QUORATE_TEST_LOG",
}

// strayEnv are the variables named QUORATE_… in an environment that mean nothing here. Those that a Kubernetes service called
// quorate leaves in every container are not among them.
func strayEnv(environ []string) (stray []string) {
	known := slices.Clone(knownEnv)
	for _, s := range settings {
		known = append(known, s.env())
	}
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		switch {
		case !strings.HasPrefix(name, "QUORATE_"), slices.Contains(known, name):
		case strings.HasPrefix(name, "QUORATE_HEADER_"), strings.HasPrefix(name, "QUORATE_CHAOS_"):
		case name == "QUORATE_PORT", strings.HasPrefix(name, "QUORATE_PORT_"), strings.HasPrefix(name, "QUORATE_SERVICE_"):
		default:
			stray = append(stray, name)
		}
	}
	slices.Sort(stray)
	return stray
}

// warnStray says which variables are ignored, and which were perhaps meant: a setting that has no effect must not go unseen, but
// what others put into the environment must not keep a node from starting.
func warnStray(w io.Writer, environ []string) {
	for _, name := range strayEnv(environ) {
		hint := `those of the settings are in "quorate serve --help"`
		best := 3 // more differences are another word
		for _, s := range settings {
			if d := distance(name, s.env()); d < best {
				best, hint = d, "did you mean "+s.env()+"?"
			}
		}
		if d := distance(name, "QUORATE_ADDR"); d < best {
			hint = "did you mean QUORATE_ADDR?"
		}
		fmt.Fprintf(w, "quorate: the environment's %s means nothing and is ignored; %s\n", name, hint)
	}
}
