package push

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	connectTimeout   = 5 * time.Second // TCP, and then TLS
	idleConns        = 512
	idleConnsPerHost = 64
	idleFor          = 30 * time.Second
	maxHead          = 64 << 10 // bytes of an answer's head
)

// errGuarded is wrapped by the error of a connection to an address that is not permitted.
var errGuarded = errors.New("the address is not permitted")

// notGlobal are the networks within the global unicast space, and IPv4's, that are no public host's. IPv6 outside 2000::/3 is refused
// altogether: loopback, unique local, link-local, multicast, and IPv4 translated (64:ff9b::/96).
var notGlobal = func() (all []netip.Prefix) {
	for _, text := range []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
		"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
		"168.63.129.16/32", // a metadata service in public space
		"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
	} {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}()

var globalUnicast6 = netip.MustParsePrefix("2000::/3")

// permitted says whether an address may be connected to. An IPv4 address in IPv6 form is judged as IPv4.
func permitted(addr netip.Addr, allow []netip.Prefix) bool {
	addr = addr.Unmap().WithZone("")
	if !addr.IsValid() {
		return false
	}
	for _, p := range allow {
		if p.Contains(addr) {
			return true
		}
	}
	if addr.Is6() && !globalUnicast6.Contains(addr) {
		return false
	}
	for _, p := range notGlobal {
		if p.Contains(addr) {
			return false
		}
	}
	return true
}

// ParseAllow reads networks, such as 10.0.0.0/8, or single addresses.
func ParseAllow(texts []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			var a netip.Addr
			if a, err = netip.ParseAddr(text); err == nil {
				p = netip.PrefixFrom(a.WithZone(""), a.BitLen())
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%.60q is no network; one such as 10.0.0.0/8 or ::1/128 would be right", text)
		}
		if p.Addr().Is4In6() {
			return nil, fmt.Errorf("%.60q is IPv4 in IPv6 form; its IPv4 form would be right", text)
		}
		all = append(all, p.Masked())
	}
	return all, nil
}

// dialer connects to permitted addresses. It counts those that are not.
func dialer(allow []netip.Prefix, resolver *net.Resolver, refused prometheus.Counter) *net.Dialer {
	return &net.Dialer{
		Timeout: connectTimeout, Resolver: resolver,
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil || !permitted(at.Addr(), allow) {
				refused.Inc()
				return fmt.Errorf("%w: push.allow of the configuration does not have %s", errGuarded, at.Addr())
			}
			return nil
		},
	}
}

// endpointClient sends requests over connections of d, and nothing else.
func endpointClient(d *net.Dialer, t *tls.Config) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy: nil, DialContext: d.DialContext, TLSClientConfig: t, TLSHandshakeTimeout: connectTimeout,
			TLSNextProto:       map[string]func(string, *tls.Conn) http.RoundTripper{}, // HTTP/1.1 alone
			DisableCompression: true, MaxResponseHeaderBytes: maxHead,
			MaxIdleConns: idleConns, MaxIdleConnsPerHost: idleConnsPerHost, IdleConnTimeout: idleFor,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// knock says whether an endpoint can be connected to, without a request.
func knock(ctx context.Context, d *net.Dialer, t *tls.Config, u *url.URL) error {
	ctx, cancel := context.WithTimeout(ctx, 2*connectTimeout)
	defer cancel()
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return err
	}
	defer c.Close()
	if u.Scheme != "https" {
		return nil
	}
	own := t.Clone()
	own.ServerName = u.Hostname()
	return tls.Client(c, own).HandshakeContext(ctx)
}
