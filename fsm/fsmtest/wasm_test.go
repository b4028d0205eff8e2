//go:build !wasip1

package fsmtest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/fsm/mutant"
)

// wasmTests are what is shown on the second architecture: the states of the golden log, digest by digest and byte by byte.
const wasmTests = "^TestGolden$"

// A build for another architecture, of another word size and without threads, comes to the same states: the golden log's digests.
func TestWasm(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the package for wasip1")
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	binary := filepath.Join(t.TempDir(), "fsmtest.wasm")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-tags", mutant.Tag(), "-o", binary, ".")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build for wasip1: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(ctx, "go", "run", "./wasip1", binary, "-test.v", "-test.run", wasmTests).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestGolden") {
		t.Fatalf("run on wasip1: %v\n%s", err, out)
	}
}
