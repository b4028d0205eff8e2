//go:build chaos

package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"
)

// A chaos build serves the network that runs make for themselves, which no other build does (TestRefuseHarness in transport), and nothing
// else off loopback.
func TestNetworkSeam(t *testing.T) {
	for addr, refused := range map[string]bool{
		"192.0.2.3:0": false, "192.0.3.3:0": true, "0.0.0.0:0": true, "[2001:db8::1]:0": true, "10.0.0.1:0": true,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		var out bytes.Buffer
		// None of the addresses is here: who is let in fails when it listens.
		code := execute(ctx, []string{"serve", "--node-id", "n1", "--data-dir", t.TempDir(), "--client-addr", addr}, strings.NewReader(""), &out, &out)
		cancel()
		if got := strings.Contains(out.String(), "no authentication and no TLS"); got != refused || code == 0 {
			t.Errorf("%s: ended with %d, refused %v, want it %v:\n%s", addr, code, got, refused, out.String())
		}
	}
}
