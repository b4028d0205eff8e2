package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMachineMemory(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		p := filepath.Join(dir, name)
		if text != "" {
			if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return p
	}
	const info = "MemTotal:       16384 kB\nMemFree:        1 kB\n"
	for i, c := range []struct {
		name, info, cgroup string
		want               int64
	}{
		{"machine", info, "", 16 << 20},
		{"cgroup without a limit", info, "max\n", 16 << 20},
		{"cgroup with less", info, "1048576\n", 1 << 20},
		{"cgroup with more", info, "999999999999\n", 16 << 20},
		{"cgroup alone", "", "1048576\n", 1 << 20},
		{"neither", "", "", 0},
		{"nonsense", "MemTotal: x kB\n", "-5\n", 0},
	} {
		got := machineMemory(file("info"+string(rune('a'+i)), c.info), file("max"+string(rune('a'+i)), c.cgroup))
		if got != c.want {
			t.Errorf("%s: %d bytes, want %d", c.name, got, c.want)
		}
	}
	if got := memoryLimit(5); got != 5 {
		t.Errorf("given 5: %d", got)
	}
}
