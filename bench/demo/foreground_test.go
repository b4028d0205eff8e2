package main

import (
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
