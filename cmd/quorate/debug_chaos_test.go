//go:build chaos

package main

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// A chaos build tells the state's digest at an index and moves its clock; what verify saw is what the seam says.
func TestDebugSeams(t *testing.T) {
	addr := devNode(t)
	type verified struct {
		Index uint64
		Nodes []struct{ Digest string }
	}
	v := decode[verified](t, must(t, addr, "", "cluster", "verify", "-o", "json"))
	ask := func(method, path string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, strings.TrimSpace(string(b))
	}
	if code, sum := ask("GET", "/debug/statehash?at="+strconv.FormatUint(v.Index, 10)); code != 200 || sum != v.Nodes[0].Digest {
		t.Errorf("statehash: %d %s, verify says %s", code, sum, v.Nodes[0].Digest)
	}
	if code, _ := ask("GET", "/debug/statehash?at=1"); code != 404 {
		t.Errorf("an index without a checkpoint: %d", code)
	}
	if code, text := ask("POST", "/debug/clock?skew_ms=3600000"); code != 200 {
		t.Errorf("clock: %d %s", code, text)
	}
	if code, _ := ask("POST", "/debug/clock?skew_ms=soon"); code != 400 {
		t.Errorf("not a number: %d", code)
	}
}
