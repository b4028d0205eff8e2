package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Ports that cannot be are refused before anything is started or written.
func TestForegroundPort(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		port int
	}{{"none", 0}, {"negative", -1}, {"no room for the others", 65514}, {"beyond all", 70000}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			err := foreground(t.Context(), options{port: tc.port, data: t.TempDir(), binary: "no such program"})
			if err == nil || !strings.Contains(err.Error(), "want 1 to 65513") {
				t.Errorf("it says %v", err)
			}
		})
	}
}

// Ports that somebody has are said to be somebody's, with others that would do.
func TestForegroundPortTaken(t *testing.T) {
	t.Parallel()
	const port = 65500                           // nothing is bound: the node is a script
	binary := filepath.Join(t.TempDir(), "node") // what a node says whose client port is taken
	if err := os.WriteFile(binary, []byte("#!/bin/sh\necho 'bind: address already in use' >&2\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	err := foreground(t.Context(), options{port: port, data: t.TempDir(), binary: binary})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("make cluster PORT=%d", elsewhere(port))) || elsewhere(port) == port {
		t.Errorf("it says %v", err)
	}
}
