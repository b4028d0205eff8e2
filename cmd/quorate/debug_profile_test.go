//go:build profile && !chaos

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestProfileHandler: what bench/profile asks a node for is there, and bad rates are refused with what would be right.
func TestProfileHandler(t *testing.T) {
	s := httptest.NewServer(debugHandler(nil))
	defer s.Close()
	for _, tc := range []struct {
		method, path string
		code         int
		want         string
	}{
		{http.MethodGet, "/debug/pprof/allocs", 200, ""},
		{http.MethodGet, "/debug/pprof/profile?seconds=1", 200, ""},
		{http.MethodGet, "/debug/pprof/trace?seconds=0.01", 200, ""},
		{http.MethodPost, "/debug/rates?block_ns=10000&mutex=10", 200, ""},
		{http.MethodGet, "/debug/pprof/block", 200, ""},
		{http.MethodGet, "/debug/pprof/mutex", 200, ""},
		{http.MethodPost, "/debug/rates?block_ns=0&mutex=0", 200, ""},
		{http.MethodPost, "/debug/rates?block_ns=-1&mutex=0", 400, "block_ns: a number from 0"},
		{http.MethodPost, "/debug/rates?block_ns=1&mutex=9999999999", 400, "mutex: a number from 0"},
		{http.MethodPost, "/debug/rates", 400, "block_ns"},
		{http.MethodGet, "/debug/statehash?at=1", 404, ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tc.method, s.URL+tc.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != tc.code || len(body) == 0 && tc.method == http.MethodGet || !strings.Contains(string(body), tc.want) {
			t.Errorf("%s %s: %d (%v), %.100q; want %d and %q", tc.method, tc.path, res.StatusCode, err, body, tc.code, tc.want)
		}
	}
}
