//go:build !chaos

package transport

import (
	"strings"
	"testing"
)

// The networks of chaos runs are let in by their builds alone.
func TestRefuseHarness(t *testing.T) {
	for _, addr := range []string{"192.0.2.1:7340", "[::ffff:192.0.2.1]:7340"} {
		if err := RefuseOffLoopback(addr); err == nil || !strings.Contains(err.Error(), "off loopback") {
			t.Errorf("%s: %v, which does not say that it is off loopback", addr, err)
		}
	}
}
