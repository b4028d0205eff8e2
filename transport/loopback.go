package transport

import (
	"fmt"
	"net"
	"strings"
)

// RefuseOffLoopback is nil when addr ("host:port") is reachable from this machine alone. Until authentication and TLS
// exist, every listener of a node is held to it.
func RefuseOffLoopback(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("address %q: %w: host:port such as 127.0.0.1:7340 would be right", addr, err)
	}
	const why = "there is no authentication and no TLS yet, so only loopback is served: 127.0.0.1 or [::1] would be right"
	if host == "" {
		return fmt.Errorf("address %q listens on every interface: %s", addr, why)
	}
	if strings.EqualFold(host, "localhost") {
		return nil
	}
	if ip := net.ParseIP(host); ip != nil {
		if ip.IsLoopback() || harness(ip) {
			return nil
		}
		return fmt.Errorf("address %q is off loopback: %s", addr, why)
	}
	// A name is resolved by whoever binds it, later and perhaps otherwise: only literal addresses can be judged.
	return fmt.Errorf("address %q names a host: %s", addr, why)
}
