package push

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestPermitted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		addr string
		want bool
	}{
		{"93.184.215.14", true}, {"8.8.8.8", true}, {"1.1.1.1", true}, {"223.255.255.255", true}, {"172.15.255.255", true}, {"172.32.0.0", true},
		{"100.63.255.255", true}, {"100.128.0.0", true}, {"2606:4700::1111", true}, {"2a00:1450:4001::1", true}, {"::ffff:8.8.8.8", true},
		{"0.0.0.0", false}, {"0.1.2.3", false}, {"10.0.0.1", false}, {"10.255.255.255", false}, {"100.64.0.0", false}, {"100.100.100.200", false},
		{"100.127.255.255", false}, {"127.0.0.1", false}, {"127.255.255.254", false}, {"169.254.169.254", false}, {"172.16.0.1", false},
		{"172.31.255.255", false}, {"192.0.0.192", false}, {"192.0.2.1", false}, {"192.88.99.1", false}, {"192.168.1.1", false}, {"198.18.0.1", false},
		{"198.19.255.255", false}, {"198.51.100.1", false}, {"203.0.113.1", false}, {"224.0.0.1", false}, {"239.255.255.255", false}, {"240.0.0.1", false},
		{"255.255.255.255", false}, {"168.63.129.16", false},
		{"::", false}, {"::1", false}, {"::ffff:127.0.0.1", false}, {"::ffff:169.254.169.254", false}, {"::ffff:10.0.0.1", false}, {"::127.0.0.1", false},
		{"64:ff9b::7f00:1", false}, {"64:ff9b:1::1", false}, {"100::1", false}, {"2001::1", false}, {"2001:db8::1", false}, {"2002:7f00:1::1", false},
		{"3fff::1", false}, {"fc00::1", false}, {"fd00:ec2::254", false}, {"fe80::1", false}, {"fe80::1%lo", false}, {"fec0::1", false}, {"ff02::1", false},
		{"4000::1", false},
	} {
		if got := permitted(netip.MustParseAddr(c.addr), nil); got != c.want {
			t.Errorf("%s: permitted is %t, want %t", c.addr, got, c.want)
		}
	}
	if permitted(netip.Addr{}, nil) {
		t.Error("no address is permitted")
	}
	allow, err := ParseAllow([]string{"10.1.0.0/16", "fd00::/8", "127.0.0.2", "fe80::/10"})
	if err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[string]bool{
		"10.1.2.3": true, "10.2.0.0": false, "::ffff:10.1.2.3": true, "fd12::1": true, "fc00::1": false, "127.0.0.2": true, "127.0.0.1": false,
		"fe80::1%eth0": true, "8.8.8.8": true,
	} {
		if got := permitted(netip.MustParseAddr(addr), allow); got != want {
			t.Errorf("%s, with networks allowed: permitted is %t, want %t", addr, got, want)
		}
	}
	for _, bad := range []string{"", "localhost", "10.0.0.0/33", "10.0.0", "::ffff:10.0.0.0/104"} {
		if _, err := ParseAllow([]string{bad}); err == nil || !strings.Contains(err.Error(), "right") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// nameServer answers queries for A by what it is told, by turns, and all others by nothing.
func nameServer(t *testing.T, answers ...string) *net.Resolver {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pc.Close() })
	go func() {
		b := make([]byte, 1500)
		asked := 0
		for {
			n, from, err := pc.ReadFrom(b)
			if err != nil {
				return
			}
			q := b[:n]
			at := 12
			for at < n && q[at] != 0 {
				at += int(q[at]) + 1
			}
			at += 5 // the end of the name, type and class
			if n < 17 || at > n {
				continue
			}
			r := append(append([]byte(nil), q[:2]...), 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0)
			r = append(r, q[12:at]...)
			if binary.BigEndian.Uint16(q[at-4:]) == 1 {
				ip := netip.MustParseAddr(answers[min(asked, len(answers)-1)]).As4()
				asked++
				r[7] = 1
				r = append(append(r, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4), ip[:]...)
			}
			_, _ = pc.WriteTo(r, from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", pc.LocalAddr().String())
	}}
}

// A name that is public when it is looked at and private when it is connected to is refused at that moment, whoever resolves it how often.
func TestRebinding(t *testing.T) {
	t.Parallel()
	var hits atomic.Int64
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		hits.Add(1)
		w.Header().Set("Connection", "close") // each request resolves anew
	})
	port := s.Listener.Addr().(*net.TCPAddr).Port
	// 127.0.0.2 stands for a public address: it is permitted, and what the server listens on is not.
	other, err := net.Listen("tcp", fmt.Sprintf("127.0.0.2:%d", port))
	if err != nil {
		t.Skipf("no second loopback address: %v", err)
	}
	public := &http.Server{Handler: s.Config.Handler}
	go func() { _ = public.Serve(other) }()
	t.Cleanup(func() { public.Close() })
	b := newBroker(Target{Queue: "q", URL: fmt.Sprintf("http://rebind.test:%d/in", port), Concurrency: 1})
	p, _ := start(t, Config{Broker: b, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}, Resolver: nameServer(t, "127.0.0.2", "127.0.0.1"), Clock: newClock()})
	b.queue("q") <- &Message{ID: "1"}
	if s := b.next(t); s.verdict.Do != Ack {
		t.Fatalf("to the permitted address: %+v", s.verdict)
	}
	b.queue("q") <- &Message{ID: "2"}
	for range breakAfter {
		if s := b.next(t); s.verdict.Do != Return {
			t.Fatalf("to the other address: %+v", s.verdict)
		}
	}
	says(t, p, "q", "push.allow of the configuration does not have 127.0.0.1")
	if n := hits.Load(); n != 1 {
		t.Errorf("%d requests have come, want the one to the permitted address", n)
	}
}

// Whatever form an address is written in, nothing comes to a server on loopback.
func TestGuardedForms(t *testing.T) {
	t.Parallel()
	var conns atomic.Int64
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ConnState = func(_ net.Conn, st http.ConnState) {
		if st == http.StateNew {
			conns.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	port := s.Listener.Addr().(*net.TCPAddr).Port
	refused := prometheus.NewCounter(prometheus.CounterOpts{Name: "x"})
	cl := endpointClient(dialer(nil, nameServer(t, "127.0.0.1"), refused), &tls.Config{})
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "127.1", "2130706433", "0x7f.1", "0", "0.0.0.0", "[::]", "017700000001", "loop.test"} {
		resp, err := cl.Post(fmt.Sprintf("http://%s:%d/", host, port), "", nil)
		if err == nil {
			resp.Body.Close()
			t.Errorf("%s: answered %s", host, resp.Status)
		}
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := knock(t.Context(), dialer(nil, nil, refused), nil, u); err == nil {
		t.Error("a knock is not refused")
	}
	if n := conns.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

// Certificates are verified: an endpoint whose issuer is not known is not sent anything, one that is known is, and knocks say the same.
func TestTLS(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	known := x509.NewCertPool()
	known.AddCert(s.Certificate())
	for name, c := range map[string]struct {
		roots *x509.CertPool
		do    Do
		why   string
	}{"known": {known, Ack, ""}, "unknown": {x509.NewCertPool(), Return, "no connection: "}} {
		b := newBroker(Target{Queue: "q", URL: s.URL, Concurrency: 1})
		p, stop := start(t, Config{Broker: b, Allow: loopbacks, Roots: c.roots, Clock: newClock()})
		b.queue("q") <- &Message{ID: "1"}
		if got := b.next(t); got.verdict.Do != c.do {
			t.Errorf("%s: %+v", name, got.verdict)
		}
		if err := knock(t.Context(), p.dialer, p.tls, u); (err == nil) != (c.why == "") {
			t.Errorf("%s: a knock says %v", name, err)
		}
		if c.why != "" {
			says(t, p, "q", c.why)
		}
		stop()
	}
	if p, _ := start(t, Config{Broker: newBroker()}); p.http.Transport.(*http.Transport).Proxy != nil || p.tls.InsecureSkipVerify || p.tls.MinVersion != tls.VersionTLS12 {
		t.Error("a proxy is used, or TLS is not verified")
	}
}
