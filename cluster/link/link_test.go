package link

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/bench/leaks"
	"github.com/quorate/quorate/cluster/store"
)

func TestMain(m *testing.M) { leaks.Main(m) }

var update = flag.Bool("update", false, "rewrite golden files")

var (
	clusterA = store.UUID{0xc1, 1}
	clusterB = store.UUID{0xc2, 2}
	nodeA    = store.UUID{0xa, 1}
	nodeB    = store.UUID{0xb, 2}
	nodeC    = store.UUID{0xc, 3}
)

func self(cluster, id store.UUID, label string, incarnation, nonce uint64) Self {
	return Self{Cluster: cluster, UUID: id, Label: label, Incarnation: incarnation, Nonce: nonce}
}

// listen opens a link of a node whose Serve echoes one byte.
func listen(t *testing.T, s Self, change func(*Config)) *Link {
	t.Helper()
	cfg := Config{
		Addr: "127.0.0.1:0", Self: func() Self { return s },
		Serve: func(_ context.Context, _ Peer, c net.Conn) {
			b := make([]byte, 1)
			if _, err := io.ReadFull(c, b); err == nil {
				_, _ = c.Write(b)
			}
		},
	}
	if change != nil {
		change(&cfg)
	}
	l, err := Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func dial(t *testing.T, from *Link, to string, target store.UUID, kind Kind, group uint16) (net.Conn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, _, err := from.Dial(ctx, to, target, kind, group)
	return c, err
}

func TestHandshake(t *testing.T) {
	t.Parallel()
	type call struct {
		from   Self
		target store.UUID
		kind   Kind
		group  uint16
	}
	good := call{self(clusterA, nodeB, "b", 3, 30), nodeA, KindRaft, 0}
	with := func(f func(*call)) call { c := good; f(&c); return c }
	cases := []struct {
		name   string
		server Self
		call   call
		code   Code // Accepted: passes
		want   string
	}{
		{"raft between members", self(clusterA, nodeA, "a", 1, 1), good, Accepted, ""},
		{"rpc between members", self(clusterA, nodeA, "a", 1, 1), with(func(c *call) { c.kind = KindRPC }), Accepted, ""},
		{"rpc to whoever lives there", self(clusterA, nodeA, "a", 1, 1), with(func(c *call) { c.kind, c.target = KindRPC, store.UUID{} }), Accepted, ""},
		{"a stranger's rpc", self(clusterA, nodeA, "a", 1, 1), with(func(c *call) { c.kind, c.from.Cluster = KindRPC, store.UUID{} }), Accepted, ""},
		{"a member's rpc to a stranger", self(store.UUID{}, nodeA, "a", 1, 1), with(func(c *call) { c.kind = KindRPC }), Accepted, ""},
		{"raft to whoever lives there", self(clusterA, nodeA, "a", 1, 1), with(func(c *call) { c.target = store.UUID{} }), WrongTarget, "lives here"},
		{"raft of another cluster", self(clusterA, nodeA, "a", 1, 1), with(func(c *call) { c.from.Cluster = clusterB }), WrongCluster, clusterB.String()},
		{"rpc of another cluster", self(clusterA, nodeA, "a", 1, 1), with(func(c *call) { c.from.Cluster, c.kind = clusterB, KindRPC }), WrongCluster, clusterA.String()},
		{"a stranger's raft", self(clusterA, nodeA, "a", 1, 1), with(func(c *call) { c.from.Cluster = store.UUID{} }), WrongCluster, "belongs to cluster"},
		{"raft to a stranger", self(store.UUID{}, nodeA, "a", 1, 1), good, NotReady, "no cluster yet"},
		{"raft between strangers", self(store.UUID{}, nodeA, "a", 1, 1), with(func(c *call) { c.from.Cluster = store.UUID{} }), NotReady, "no cluster yet"},
		{"another node's address", self(clusterA, nodeC, "c", 1, 1), good, WrongTarget, nodeC.String()},
		{"to itself", self(clusterA, nodeB, "b", 1, 1), with(func(c *call) { c.target = nodeB }), SecondProcess, "itself"},
		{"unknown group", self(clusterA, nodeA, "a", 1, 1), with(func(c *call) { c.group = 7 }), NoSuchService, "no group 7"},
		{"unknown kind", self(clusterA, nodeA, "a", 1, 1), with(func(c *call) { c.kind = 9 }), NoSuchService, "kind 9"},
		{"an earlier start", self(clusterA, nodeA, "a", 1, 1), with(func(c *call) { c.from.Incarnation = 2 }), OldIncarnation, "start 3 of node"},
		{"a second copy", self(clusterA, nodeA, "a", 1, 1), with(func(c *call) { c.from.Nonce = 31 }), SecondProcess, "two copies"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := listen(t, c.server, nil)
			if _, err := server.open(0); err != nil {
				t.Fatal(err)
			}
			superseded := make(chan error, 1)
			if c.code == OldIncarnation || c.code == SecondProcess && c.call.target != nodeB {
				first := listen(t, good.from, nil)
				conn, err := dial(t, first, server.Addr(), c.call.target, KindRPC, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
			}
			client := listen(t, c.call.from, func(k *Config) { k.Superseded = func(err error) { superseded <- err } })
			conn, err := dial(t, client, server.Addr(), c.call.target, c.call.kind, c.call.group)
			if c.code == Accepted {
				if err != nil {
					t.Fatal(err)
				}
				conn.Close()
				return
			}
			var r *RefusedError
			if !errors.As(err, &r) || r.Code != c.code || !strings.Contains(err.Error(), c.want) || r.Addr != server.Addr() {
				t.Fatalf("error %v, want code %d and %q", err, c.code, c.want)
			}
			select {
			case err := <-superseded:
				if c.name == "to itself" || c.code != OldIncarnation && c.code != SecondProcess {
					t.Errorf("superseded: %v", err)
				}
			default:
				if (c.code == OldIncarnation || c.code == SecondProcess) && c.name != "to itself" {
					t.Error("not told that it is superseded")
				}
			}
		})
	}
}

// TestLaterStartEndsEarlierConnections: the newest process of a node takes the place of an older one.
func TestLaterStartEndsEarlierConnections(t *testing.T) {
	t.Parallel()
	served := make(chan struct{}, 2)
	server := listen(t, self(clusterA, nodeA, "a", 1, 1), func(c *Config) {
		c.Serve = func(_ context.Context, _ Peer, c net.Conn) {
			served <- struct{}{}
			_, _ = io.Copy(io.Discard, c)
		}
	})
	old := listen(t, self(clusterA, nodeB, "b", 3, 30), nil)
	c1, err := dial(t, old, server.Addr(), nodeA, KindRPC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer c1.Close()
	<-served
	newer := listen(t, self(clusterA, nodeB, "b", 4, 40), nil)
	c2, err := dial(t, newer, server.Addr(), nodeA, KindRPC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer c2.Close()
	_ = c1.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := c1.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the older process is still connected: %v", err)
	}
	server.Remember(nodeC, 9)
	stale := listen(t, self(clusterA, nodeC, "c", 8, 80), nil)
	if _, err := dial(t, stale, server.Addr(), nodeA, KindRPC, 0); err == nil || !strings.Contains(err.Error(), "start 9") {
		t.Errorf("a start earlier than remembered: %v", err)
	}
}

// TestGarbage: whatever comes first on a connection that is no hello ends it, within the time and the bytes allowed. (C26)
func TestGarbage(t *testing.T) {
	t.Parallel()
	whole := hello{version: Version, kind: KindRPC, target: nodeA, self: self(clusterA, nodeB, "b", 1, 1)}.append(nil)
	flip := func(i int) []byte { b := bytes.Clone(whole); b[i] ^= 1; return b }
	cases := []struct {
		name string
		send []byte
		hold bool // keep the connection open without sending more
	}{
		{"nothing", nil, true},
		{"half a hello", whole[:40], true},
		{"http", []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n" + strings.Repeat("x", 200)), false},
		{"raft's own bytes", append([]byte{1}, bytes.Repeat([]byte{0x87}, 200)...), false},
		{"wrong checksum", flip(len(whole) - 1), false},
		{"flipped sender", flip(30), false},
		{"empty label", func() []byte { b := bytes.Clone(whole); b[helloFixed-1] = 0; return b }(), false},
		{"label too long", func() []byte {
			b := bytes.Clone(whole)
			b[helloFixed-1] = 255
			return append(b, make([]byte, 400)...)
		}(), false},
		{"no sender", hello{version: Version, kind: KindRPC, target: nodeA, self: self(clusterA, store.UUID{}, "b", 1, 1)}.append(nil), false},
		{"bad label", hello{version: Version, kind: KindRPC, target: nodeA, self: self(clusterA, nodeB, "b b", 1, 1)}.append(nil), false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := listen(t, self(clusterA, nodeA, "a", 1, 1), func(c *Config) { c.Handshake = 200 * time.Millisecond })
			start := time.Now() // before the server's time begins, which is when it accepts
			conn, err := net.Dial("tcp", server.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := conn.Write(c.send); err != nil {
				t.Fatal(err)
			}
			_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
			b, err := io.ReadAll(conn)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal("the connection was not closed")
			}
			if len(b) > 0 {
				t.Errorf("answered %q", b)
			}
			if took := time.Since(start); c.hold && took < 150*time.Millisecond {
				t.Errorf("closed after %v, before the time-out", took)
			}
		})
	}
}

func TestOtherVersionIsTold(t *testing.T) {
	t.Parallel()
	server := listen(t, self(clusterA, nodeA, "a", 1, 1), nil)
	conn, err := net.Dial("tcp", server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(helloMagic + "\x07")); err != nil {
		t.Fatal(err)
	}
	a, err := readAnswer(conn)
	if err != nil || a.code != BadVersion || !strings.Contains(a.reason, "you speak 7") {
		t.Errorf("answer %+v, %v", a, err)
	}
	_, err = readAnswer(strings.NewReader(helloMagic + "\x07"))
	var r *RefusedError
	if !errors.As(err, &r) || r.Code != BadVersion {
		t.Errorf("an answer of version 7: %v", err)
	}
}

// TestBounds: connections over the limit are closed, and room comes back.
func TestBounds(t *testing.T) {
	t.Parallel()
	server := listen(t, self(clusterA, nodeA, "a", 1, 1), func(c *Config) { c.Conns, c.Handshakes, c.RPCs = 8, 3, 2 })
	var idle []net.Conn
	closed := make(chan struct{}, 16)
	var wg sync.WaitGroup
	defer wg.Wait()
	for range 6 {
		conn, err := net.Dial("tcp", server.Addr())
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, conn)
		wg.Go(func() {
			_, _ = io.Copy(io.Discard, conn)
			closed <- struct{}{}
		})
	}
	for range 3 {
		select {
		case <-closed:
		case <-time.After(10 * time.Second):
			t.Fatal("connections beyond the handshake limit stay open")
		}
	}
	for _, c := range idle {
		c.Close()
	}
	client := listen(t, self(clusterA, nodeB, "b", 1, 1), nil)
	until := time.Now().Add(10 * time.Second)
	var held []net.Conn
	for len(held) < 2 {
		c, err := dial(t, client, server.Addr(), nodeA, KindRPC, 0)
		if err == nil {
			held = append(held, c)
		} else if time.Now().After(until) {
			t.Fatalf("no room after the idle ones went: %v", err)
		}
	}
	var r *RefusedError
	until = time.Now().Add(10 * time.Second)
	for r == nil { // a handshake of before may hold its place for a moment, and then this one is closed without a word
		c, err := dial(t, client, server.Addr(), nodeA, KindRPC, 0)
		if err == nil {
			c.Close()
			t.Fatal("a third request connection is taken")
		}
		if !errors.As(err, &r) && time.Now().After(until) {
			t.Fatalf("a third request connection: %v", err)
		}
	}
	if r.Code != Busy {
		t.Errorf("a third request connection: %v", r)
	}
	for _, c := range held {
		c.Close()
	}
}

// TestDiallerChecksWhoAnswers: a node that takes every hello is not believed to be another.
func TestDiallerChecksWhoAnswers(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			if _, err := readHello(c); err == nil {
				_, _ = c.Write(answer{self: self(clusterA, nodeC, "c", 1, 1)}.append(nil))
			}
			c.Close()
		}
	}()
	missed := make(chan string, 1)
	client := listen(t, self(clusterA, nodeB, "b", 1, 1), func(c *Config) {
		c.Missed = func(id store.UUID, addr string) { missed <- id.String() + "@" + addr }
	})
	_, err = dial(t, client, ln.Addr().String(), nodeA, KindRaft, 0)
	var r *RefusedError
	if !errors.As(err, &r) || r.Code != WrongTarget {
		t.Fatalf("error %v, want wrong target", err)
	}
	if got, want := <-missed, nodeA.String()+"@"+ln.Addr().String(); got != want {
		t.Errorf("missed %s, want %s", got, want)
	}
}

// The dialler hears of an address at which nobody answers: a closed port, and one that says nothing; and not of who refuses it.
func TestUnreached(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	server := listen(t, self(clusterA, nodeA, "a", 1, 1), nil)
	for _, c := range []struct {
		name, addr string
		want       int
	}{
		{"a closed port", "127.0.0.1:1", 1},
		{"a silent one", silent.Addr().String(), 1},
		{"a refusal", server.Addr(), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var heard []string
			client := listen(t, self(clusterB, nodeB, "b", 1, 1), func(k *Config) {
				k.Handshake = 100 * time.Millisecond
				if c.want == 0 {
					k.Handshake = 10 * time.Second
				}
				k.Unreached = func(id store.UUID, addr string) { heard = append(heard, id.String()+"@"+addr) }
			})
			if _, err := dial(t, client, c.addr, nodeA, KindRaft, 0); err == nil {
				t.Error("no error")
			}
			if len(heard) != c.want || c.want > 0 && heard[0] != nodeA.String()+"@"+c.addr {
				t.Errorf("heard %v", heard)
			}
		})
	}
}

// TestTransportDialsByID: raft reaches a node where it is, whatever address the configuration has, and nobody else.
func TestTransportDialsByID(t *testing.T) {
	t.Parallel()
	a, b, c := listen(t, self(clusterA, nodeA, "a", 1, 1), nil), listen(t, self(clusterA, nodeB, "b", 1, 1), nil), listen(t, self(clusterA, nodeC, "c", 1, 1), nil)
	where := map[raft.ServerID]string{}
	var trans []*Transport
	done := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(done)
	for _, l := range []*Link{a, b, c} {
		tr, err := l.NewTransport(0, func(id raft.ServerID) (string, bool) { s, ok := where[id]; return s, ok }, hclog.NewNullLogger())
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		trans = append(trans, tr)
		wg.Go(func() {
			for {
				select {
				case r := <-tr.Consumer():
					r.Respond(&raft.RequestVoteResponse{Term: 7, Granted: true}, nil)
				case <-done:
					return
				}
			}
		})
	}
	where[raft.ServerID(nodeB.String())] = b.Addr()
	var resp raft.RequestVoteResponse
	id := raft.ServerID(nodeB.String())
	if err := trans[0].RequestVote(id, "b@127.0.0.1:1", &raft.RequestVoteRequest{}, &resp); err != nil || resp.Term != 7 {
		t.Errorf("at its known address: %+v, %v", resp, err)
	}
	delete(where, id)
	if err := trans[0].RequestVote(id, ServerAddress("b", b.Addr()), &raft.RequestVoteRequest{}, &resp); err != nil {
		t.Errorf("at the configuration's address: %v", err)
	}
	if err := trans[0].RequestVote(id, ServerAddress("b", c.Addr()), &raft.RequestVoteRequest{}, &resp); err == nil || !strings.Contains(err.Error(), "lives here") {
		t.Errorf("where another node lives: %v", err)
	}
	if got := trans[0].LocalAddr(); got != ServerAddress("a", a.Addr()) {
		t.Errorf("local address %s", got)
	}
	if _, err := a.NewTransport(0, nil, hclog.NewNullLogger()); err == nil {
		t.Error("a second transport of one group")
	}
	if _, err := (&Stream{l: a}).Dial("127.0.0.1:1", time.Second); err == nil || !strings.Contains(err.Error(), "no node id") {
		t.Errorf("an address without an id: %v", err)
	}
}

// twoTransports are group 0 on nodeA and on nodeB, where the first finds the second. They are closed with the test.
func twoTransports(t *testing.T, more func(*Config)) (from, to *Transport) {
	t.Helper()
	a, b := listen(t, self(clusterA, nodeA, "a", 1, 1), more), listen(t, self(clusterA, nodeB, "b", 1, 1), more)
	locate := func(raft.ServerID) (string, bool) { return b.Addr(), true }
	open := func(l *Link) *Transport {
		tr, err := l.NewTransport(0, locate, hclog.NewNullLogger())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tr.Close() })
		return tr
	}
	return open(a), open(b)
}

// TestPipelineEndsAtARefusal: whoever sends into a pipeline whose receiver has stopped at a refusal gets an error instead of
// waiting for ever.
func TestPipelineEndsAtARefusal(t *testing.T) {
	t.Parallel()
	for name, resp := range map[string]raft.AppendEntriesResponse{
		"refusal":    {Term: 3, Success: false},
		"later term": {Term: 4, Success: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := twoTransports(t, nil)
			done := make(chan struct{})
			var wg sync.WaitGroup
			defer wg.Wait()
			defer close(done)
			wg.Go(func() {
				for {
					select {
					case r := <-to.Consumer():
						answer := resp
						r.Respond(&answer, nil)
					case <-done:
						return
					}
				}
			})
			p, err := from.AppendEntriesPipeline(raft.ServerID(nodeB.String()), "")
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			failed := make(chan error, 1)
			go func() {
				for range 100 {
					if _, err := p.AppendEntries(&raft.AppendEntriesRequest{Term: 3}, new(raft.AppendEntriesResponse)); err != nil {
						failed <- err
						return
					}
				}
				failed <- nil
			}()
			<-p.Consumer() // and no more, as raft does
			select {
			case err := <-failed:
				if err == nil {
					t.Error("a hundred requests were sent and nobody took the answers")
				}
			case <-time.After(10 * time.Second):
				t.Error("the sender waits for ever")
			}
		})
	}
}

func TestGolden(t *testing.T) {
	t.Parallel()
	s := self(clusterA, nodeB, "node-b", 3, 0x1122334455667788)
	for name, b := range map[string][]byte{
		"hello":   hello{version: Version, kind: KindRaft, group: 2, target: nodeA, self: s}.append(nil),
		"answer":  answer{self: s}.append(nil),
		"refusal": answer{code: WrongCluster, reason: "not ours", self: s}.append(nil),
	} {
		path := filepath.Join("testdata", name+".hex")
		got := hex.Dump(b)
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil || string(want) != got {
			t.Errorf("%s changed on the wire (%v):\n%s", name, err, got)
		}
	}
}

func FuzzReadHello(f *testing.F) {
	f.Add(hello{version: Version, kind: KindRPC, target: nodeA, self: self(clusterA, nodeB, "b", 1, 1)}.append(nil))
	f.Add([]byte(helloMagic + "\x02"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		h, err := readHello(r)
		if err != nil || h.version != Version {
			return
		}
		n := len(b) - r.Len()
		if again := h.append(nil); !bytes.Equal(again, b[:n]) {
			t.Errorf("read %x as %+v, which is written %x", b[:n], h, again)
		}
	})
}

func FuzzReadAnswer(f *testing.F) {
	f.Add(answer{self: self(clusterA, nodeB, "b", 1, 1)}.append(nil))
	f.Add(answer{code: Busy, reason: "busy", self: self(clusterA, nodeB, "b", 1, 1)}.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		a, err := readAnswer(r)
		if err != nil {
			return
		}
		n := len(b) - r.Len()
		if again := a.append(nil); !bytes.Equal(again, b[:n]) {
			t.Errorf("read %x as %+v, which is written %x", b[:n], a, again)
		}
	})
}
