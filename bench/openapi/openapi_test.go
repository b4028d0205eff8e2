package openapi

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/oapi-codegen/runtime" // what is generated imports it
	"github.com/quorate/quorate/bench/proc"
)

// command runs a program to its end and gives what it said.
func command(ctx context.Context, t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// A program that knows the API by a generated client enqueues, leases, acks and reads the result, at a node that does not lead.
func TestGeneratedClient(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	bin := filepath.Join(t.TempDir(), "quorate")
	command(ctx, t, "../..", "go", "build", "-o", bin, "./cmd/quorate")
	c, err := proc.New(proc.Config{Binary: bin, Nodes: 3, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	leader, err := c.Leader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	server := "http://" + c.Nodes[0].ClientAddr
	if c.Nodes[0] == leader {
		server = "http://" + c.Nodes[1].ClientAddr
	}

	dir, err := os.MkdirTemp(".", "generated-") // within the module, for what the client imports
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Mkdir(filepath.Join(dir, "api"), 0o755); err != nil {
		t.Fatal(err)
	}
	doc := filepath.Join(dir, "openapi.json")
	write(t, doc, fetch(ctx, t, server+"/v1/openapi.json"))
	command(ctx, t, ".", "go", "tool", "oapi-codegen", "-generate", "types,client", "-package", "api", "-o", filepath.Join(dir, "api", "api.go"), doc)
	program, err := os.ReadFile("testdata/program.go.txt")
	if err != nil {
		t.Fatal(err)
	}
	module := path.Join("github.com/quorate/quorate/bench/openapi", filepath.Base(dir))
	write(t, filepath.Join(dir, "main.go"), strings.ReplaceAll(string(program), "MODULE", module))
	t.Log(command(ctx, t, ".", "go", "run", "./"+filepath.Base(dir), server))
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func fetch(ctx context.Context, t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s, %v", url, resp.Status, err)
	}
	return string(b)
}
