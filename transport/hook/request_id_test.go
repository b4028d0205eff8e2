package hook

import (
	"regexp"
	"strings"
	"testing"
)

// A request's id is the sender's, where it can stand in a header and a line of a log, else one that is made; it is in every answer, and in the line that
// tells of a refusal.
func TestRequestID(t *testing.T) {
	t.Parallel()
	s := serveHooks(t, Config{}, githubHook("gh"))
	made := regexp.MustCompile(`^[0-9a-f]{24}$`)
	for _, tc := range []struct{ name, given, want string }{
		{"given", "delivery-17", "delivery-17"},
		{"none", "", ""},
		{"with a space", "a b", ""},
		{"not ASCII", "\xc3\xa9", ""},
		{"too long", strings.Repeat("x", 129), ""},
		{"the longest", strings.Repeat("x", 128), strings.Repeat("x", 128)},
	} {
		for _, head := range [][]string{signed("x", "X-GitHub-Delivery", tc.name), nil} {
			if tc.given != "" {
				head = append(head, "X-Request-Id", tc.given)
			}
			resp, v := s.post("/hook/gh", "x", head...)
			id := resp.Header.Get("X-Request-Id")
			if tc.want != "" && id != tc.want || tc.want == "" && !made.MatchString(id) {
				t.Errorf("%s: %d with X-Request-Id %q, want %q", tc.name, resp.StatusCode, id, tc.want)
			}
			if resp.StatusCode >= 400 && v["request_id"] != id {
				t.Errorf("%s: %v, want request_id %q", tc.name, v, id)
			}
			if resp.Header.Get("X-Content-Type-Options") != "nosniff" || resp.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: headers %v", tc.name, resp.Header)
			}
		}
	}
	if !strings.Contains(s.logs.String(), "request=delivery-17") {
		t.Errorf("no line with the id: %s", s.logs)
	}
}
