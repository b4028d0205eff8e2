//go:build chaos

package transport

import "net"

// harness says that an address is one of the networks that a chaos run makes in network namespaces of its own: TEST-NET-1 of RFC 5737,
// which no machine has. What listens there is as far from everybody else as on loopback.
func harness(ip net.IP) bool {
	ip4 := ip.To4()
	return ip4 != nil && ip4[0] == 192 && ip4[1] == 0 && ip4[2] == 2
}
