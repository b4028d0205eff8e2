package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
)

func dialError(addr string, cause error) error {
	tcp, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		panic(err)
	}
	return fmt.Errorf("connect to %s: %w", addr, &net.OpError{Op: "dial", Net: "tcp", Addr: tcp, Err: cause})
}

// What a client heard is told once, the same of several addresses together and in one order, with what to do about it.
func TestHeard(t *testing.T) {
	t.Parallel()
	refused := os.NewSyscallError("connect", syscall.ECONNREFUSED)
	for _, tc := range []struct {
		name   string
		err    error
		text   string
		advice string
	}{
		{"nothing", nil, "", "start a node"},
		{"nobody", dialError("127.0.0.1:1", refused), "nothing listens at 127.0.0.1:1", "start a node"},
		{"nobody anywhere", errors.Join(dialError("127.0.0.1:2", refused), dialError("127.0.0.1:1", refused), dialError("127.0.0.1:2", refused)),
			"nothing listens at 127.0.0.1:1, 127.0.0.1:2", "start a node"},
		{"silence", errors.Join(dialError("127.0.0.1:2", os.ErrDeadlineExceeded), dialError("127.0.0.1:1", refused)),
			"nothing listens at 127.0.0.1:1; no answer from 127.0.0.1:2", "start a node"},
		{"a node that stands still", fmt.Errorf("connect to 127.0.0.1:1: %w", &net.OpError{Op: "read", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, Err: net.ErrClosed}),
			"no answer from 127.0.0.1:1", "start a node"},
		{"nodes without a leader", errors.Join(errors.New("127.0.0.1:3 (n3) does not lead"), dialError("127.0.0.1:1", refused)),
			"nothing listens at 127.0.0.1:1; 127.0.0.1:3 (n3) does not lead", "a majority"},
		{"no such host", fmt.Errorf("connect to nosuch:1: %w", &net.DNSError{Err: "no such host", Name: "nosuch", IsNotFound: true}), `there is no host "nosuch"`, "start a node"},
		{"another server", errors.New("connect to 127.0.0.1:9: websocket: bad handshake: status 404 Not Found"),
			"connect to 127.0.0.1:9: websocket: bad handshake: status 404 Not Found (is it the client address of a node?)", "start a node"},
		{"a connection that broke", errors.New("connection to 127.0.0.1:1: EOF"), "connection to 127.0.0.1:1: EOF", "start a node"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := heard(tc.err)
			if a.text() != tc.text || !strings.HasPrefix(a.advice(), tc.advice) {
				t.Errorf("%q, %q; want %q, %q", a.text(), a.advice(), tc.text, tc.advice)
			}
		})
	}
}

// A command that lost its leader says so in one sentence of its own, keeps its exit code and what stood before, and leaves all else alone.
func TestPlain(t *testing.T) {
	t.Parallel()
	c := &cli{addr: "127.0.0.1:1", timeout: 30 * time.Second, wait: newWaiting(new(bytes.Buffer), "", time.Minute, time.Minute)}
	defer c.wait.end()
	c.wait.lost(dialError("127.0.0.1:1", os.NewSyscallError("connect", syscall.ECONNREFUSED)))
	const nobody = "no leader was found at 127.0.0.1:1 within 30s: nothing listens at 127.0.0.1:1; start a node there (quorate dev, quorate serve), " +
		"or name the client addresses of others with --addr or QUORATE_ADDR"
	gone := fmt.Errorf("%w: %w (last: connect to 127.0.0.1:1: x)", client.ErrUnavailable, context.DeadlineExceeded)
	late := &client.Error{Code: client.ErrTimeout.Code, Message: "no answer in time", Unknown: true}
	for _, tc := range []struct {
		name string
		err  error
		code int
		want string
	}{
		{"none", nil, 0, ""},
		{"no leader", gone, exitUnavailable, nobody},
		{"no leader for one of many", fmt.Errorf("message 7: %w", gone), exitUnavailable, "message 7: " + nobody},
		{"a refusal", &client.Error{Code: client.ErrNotFound.Code, Message: "no queue"}, exitNotFound, "not_found: no queue"},
		{"an unknown outcome of another kind", late, exitTimeout, late.Error()},
		{"interrupted", fmt.Errorf("%w: %w", client.ErrUnavailable, context.Canceled), exitUnavailable, client.ErrUnavailable.Error() + ": context canceled"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := c.plain(failed(tc.err))
			if tc.err == nil {
				if err != nil {
					t.Errorf("it is %v", err)
				}
				return
			}
			var x *exitError
			if !errors.As(err, &x) || x.code != tc.code || err.Error() != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("%v\nwant %s", err, tc.want)
			}
		})
	}
}

// Nodes that run and have no leader are told apart from nodes that do not run.
func TestNoMajorityIsSaid(t *testing.T) {
	t.Parallel()
	ports := freePorts(t)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan int, 1)
	var out bytes.Buffer
	go func() {
		done <- execute(ctx, []string{"serve", "--node-id", "alone", "--data-dir", t.TempDir(), "--client-addr", ports[0], "--raft-addr", ports[1], "--gossip-addr", ports[2],
			"--gossip-bootstrap-expect", "3", "--gossip-join", "127.0.0.1:1"}, strings.NewReader(""), &out, &out)
	}()
	t.Cleanup(func() {
		stop()
		if code := <-done; code != 0 {
			t.Errorf("serve ended with %d: %s", code, out.String())
		}
	})
	var errs string
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); { // until it listens
		var code int
		if code, _, errs = cliRun(t, ports[0], "", "queue", "list", "--call-timeout", "300ms"); code != exitUnavailable {
			t.Fatalf("exit %d, %s", code, errs)
		}
		if strings.Contains(errs, ports[0]+" (alone) does not lead; a majority of the cluster's nodes must run") {
			return
		}
	}
	t.Errorf("it says %q", errs)
}
