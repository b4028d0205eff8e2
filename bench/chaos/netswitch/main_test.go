//go:build linux

package netswitch

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"
)

var seedFlag = flag.Uint64("seed", 0, "seed of what is drawn; 0 draws one")

func TestMain(m *testing.M) {
	flag.Parse()
	if status, done := Enclose(); done {
		os.Exit(status)
	}
	if os.Getenv(envVictim) != "" {
		victim()
		return
	}
	os.Exit(m.Run())
}

// seed is printed.
func seed(t *testing.T) uint64 {
	s := *seedFlag
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("seed %d (repeat with -seed)", s)
	return s
}

// patience bounds what must come.
const patience = 20 * time.Second

// begin makes a switch with some nodes that is closed when the test ends.
func begin(t *testing.T, nodes int) *Switch {
	t.Helper()
	if err := Available(); err != nil {
		t.Skipf("there can be no switch here: %v", err)
	}
	var names []string
	for i := range nodes {
		names = append(names, fmt.Sprintf("n%d", i+1))
	}
	s, err := New(Options{Nodes: names, Life: 2 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// eventually polls the kernel and other goroutines, whom no signal tells of.
func eventually(t *testing.T, what func() string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		missing := what()
		if missing == "" {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within %s: %s", patience, missing)
		}
	}
}

// udp opens a socket at a place.
func udp(t *testing.T, s *Switch, at string) *net.UDPConn {
	t.Helper()
	var c *net.UDPConn
	err := s.At(at, func() (err error) {
		c, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(s.Host(at)), Port: 7000})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// target is where udp listens at a place.
func target(s *Switch, at string) *net.UDPAddr {
	return &net.UDPAddr{IP: net.ParseIP(s.Host(at)), Port: 7000}
}

// echo answers everything that comes, over UDP and TCP, until the test ends.
func echo(t *testing.T, s *Switch, at string) {
	t.Helper()
	u := udp(t, s, at)
	go func() {
		buf := make([]byte, 2048)
		for {
			n, from, err := u.ReadFrom(buf)
			if err != nil {
				return
			}
			if _, err := u.WriteTo(buf[:n], from); err != nil {
				return
			}
		}
	}()
	var l net.Listener
	err := s.At(at, func() (err error) {
		l, err = net.Listen("tcp4", s.Host(at)+":7000")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf := make([]byte, 32<<10)
				for {
					n, err := c.Read(buf)
					if err != nil {
						return
					}
					if _, err := c.Write(buf[:n]); err != nil {
						return
					}
				}
			}()
		}
	}()
}

// dial connects from one place to the echo at another.
func dial(t *testing.T, s *Switch, from, to string) net.Conn {
	t.Helper()
	c, err := tryDial(s, from, to, patience)
	if err != nil {
		t.Fatalf("dial from %s to %s: %v", from, to, err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

func tryDial(s *Switch, from, to string, within time.Duration) (c net.Conn, err error) {
	err = s.At(from, func() (err error) {
		c, err = net.DialTimeout("tcp4", s.Host(to)+":7000", within)
		return err
	})
	return c, err
}

// roundTrip sends a byte there and back.
func roundTrip(t *testing.T, c net.Conn) time.Duration {
	t.Helper()
	began := time.Now()
	if _, err := c.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

// seen waits until an edge has seen as many packets.
func seen(t *testing.T, s *Switch, from, to string, packets int64) {
	t.Helper()
	eventually(t, func() string {
		if c := s.Counts(from, to); c.Seen < packets {
			return fmt.Sprintf("of %d packets from %s to %s the switch has seen %d", packets, from, to, c.Seen)
		}
		return ""
	})
}
