package link

import "testing"

// A refusal names the other side where nothing else does.
func TestRefusalText(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  RefusedError
		want string
	}{
		{"of whom we called", RefusedError{Reason: "busy", Addr: "127.0.0.1:7341"}, "handshake with 127.0.0.1:7341 refused: busy"},
		{"of who called us", RefusedError{Reason: "busy"}, "handshake refused: busy"},
	} {
		if got := tc.err.Error(); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}
