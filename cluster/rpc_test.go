package cluster

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/quorate/quorate/cluster/link"
	"github.com/quorate/quorate/cluster/store"
)

// single is a cluster of one on disk, ready.
func single(t *testing.T) *Node {
	t.Helper()
	return singleAs(t, func(*Config) {})
}

// singleAs is single with another configuration.
func singleAs(t *testing.T, change func(*Config)) *Node {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cfg := Config{
		NodeID: "n1", DataDir: filepath.Join(t.TempDir(), "n1"), RaftAddr: "127.0.0.1:0", GossipAddr: "127.0.0.1:0", BootstrapExpect: 1,
		Fatal: func(err error) { t.Errorf("fatal: %v", err) },
	}
	change(&cfg)
	n, err := Start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	for tick := time.NewTicker(5 * time.Millisecond); ; <-tick.C {
		if ok, why := n.Ready(); ok {
			return n
		} else if ctx.Err() != nil {
			t.Fatal(why)
		}
	}
}

// outsider is a node process that is only a door.
func outsider(t *testing.T, s link.Self) *link.Link {
	t.Helper()
	l, err := link.Listen(link.Config{Addr: "127.0.0.1:0", Self: func() link.Self { return s }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// TestJoinRefusals: C22, C26, G19. Nothing of it changes the membership.
func TestJoinRefusals(t *testing.T) {
	t.Parallel()
	n := single(t)
	stranger := func(label string) link.Self {
		return link.Self{UUID: store.NewUUID(), Label: label, Incarnation: 1, Nonce: 1}
	}
	member := stranger("n8")
	member.Cluster = n.self().Cluster
	good := announcement{Raft: "127.0.0.1:7341", Format: store.Format, Entry: entryFormat}
	with := func(f func(*announcement)) *request { a := good; f(&a); return &request{Op: opJoin, Join: &a} }
	cases := []struct {
		name string
		self link.Self
		q    *request
		code string
		want string
	}{
		{"label taken", stranger("n1"), with(func(*announcement) {}), codeRefused, "quorate cluster remove n1"},
		{"older entry format", stranger("n2"), with(func(a *announcement) { a.Entry = 0 }), codeRefused, "newer version"},
		{"other data format", stranger("n2"), with(func(a *announcement) { a.Format = 99 }), codeRefused, "format 99"},
		{"no address", stranger("n2"), with(func(a *announcement) { a.Raft = "" }), codeRefused, "host:port"},
		{"bad address", stranger("n2"), with(func(a *announcement) { a.Raft = "127.0.0.1:0" }), codeRefused, "port"},
		{"a member that the cluster does not have", member, with(func(*announcement) {}), codeRemoved, "no member"},
		{"a stranger's digest", stranger("n2"), &request{Op: opDigest, Digest: 1}, codeRefused, "belongs to no cluster"},
		{"a stranger's adoption", stranger("n2"), &request{Op: opAdopt, Cluster: &clusterProposal{ID: store.NewUUID()}}, codeRefused, "speak for"},
		{"a new cluster", stranger("n2"), &request{Op: opPrepare, Cluster: &clusterProposal{ID: store.NewUUID()}}, codeRefused, "belongs to cluster"},
		{"an unknown operation", member, &request{Op: 99}, codeRefused, "operation 99"},
		{"join without a place", stranger("n2"), &request{Op: opJoin}, codeRefused, "belongs to no cluster"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			a, _, err := callOver(ctx, outsider(t, c.self), n.RaftAddr(), n.self().UUID, c.q)
			if err != nil {
				t.Fatal(err)
			}
			if a.Code != c.code || !strings.Contains(a.Message, c.want) {
				t.Errorf("answer %q %q, want %q with %q", a.Code, a.Message, c.code, c.want)
			}
			if servers, err := n.servers(); err != nil || len(servers) != 1 {
				t.Errorf("members %v, %v", servers, err)
			}
		})
	}
}

// TestGarbageRequests: a peer that has passed the handshake and then sends nonsense loses its connection, nothing else.
func TestGarbageRequests(t *testing.T) {
	t.Parallel()
	n := single(t)
	frame := func(b []byte) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...) }
	status, err := cbor.Marshal(request{Op: opStatus})
	if err != nil {
		t.Fatal(err)
	}
	for name, send := range map[string][]byte{
		"too long":         binary.BigEndian.AppendUint32(nil, maxFrame+1),
		"four gigabytes":   {0xff, 0xff, 0xff, 0xff},
		"empty":            frame(nil),
		"no cbor":          frame([]byte{0xff, 0xff}),
		"another type":     frame([]byte{0x63, 'a', 'b', 'c'}),
		"duplicate key":    frame([]byte{0xa2, 1, 1, 1, 1}),
		"bytes behind it":  frame(append(bytes.Clone(status), 0)),
		"indefinite":       frame([]byte{0xbf, 1, 1, 0xff}),
		"a huge array":     frame([]byte{0xa1, 4, 0x9b, 0, 0, 0, 1, 0, 0, 0, 0}),
		"deep nesting":     frame(append([]byte{0xa1, 2}, bytes.Repeat([]byte{0x81}, 1000)...)),
		"cut in the frame": frame(status)[:5],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			l := outsider(t, link.Self{UUID: store.NewUUID(), Label: "x", Incarnation: 1, Nonce: 1})
			c, _, err := l.Dial(ctx, n.RaftAddr(), store.UUID{}, link.KindRPC, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Write(send); err != nil {
				t.Fatal(err)
			}
			if name == "cut in the frame" {
				if w, ok := c.(interface{ CloseWrite() error }); ok {
					_ = w.CloseWrite()
				} else {
					return
				}
			}
			_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
			if b, err := io.ReadAll(c); len(b) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("answered %x, %v", b, err)
			}
			if ok, why := n.Ready(); !ok {
				t.Errorf("not ready: %s", why)
			}
		})
	}
}

func TestStatusRoundTrip(t *testing.T) {
	t.Parallel()
	n := single(t)
	p, err := Probe(context.Background(), n.RaftAddr())
	if err != nil || p.Label != "n1" || p.UUID != n.UUID() || p.Cluster != n.Cluster() || p.Role != "leader" || !p.Ready || p.Format != store.Format || p.WallMillis == 0 {
		t.Errorf("probe %+v, %v", p, err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err := Probe(ctx, ln.Addr().String()); err == nil {
		t.Error("a silent port answered")
	}
}

func FuzzRequest(f *testing.F) {
	for _, q := range []request{
		{Op: opStatus}, {Op: opDigest, Digest: 9}, {Op: opJoin, Join: &announcement{Raft: "a:1"}},
		{Op: opPrepare, Cluster: &clusterProposal{ID: store.UUID{1}, Members: []store.UUID{{1}, {2}}}},
	} {
		b, err := cbor.Marshal(q)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var q request
		if rpcDecoder.Unmarshal(b, &q) != nil {
			return
		}
		again, err := cbor.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		var q2 request
		if err := rpcDecoder.Unmarshal(again, &q2); err != nil {
			t.Errorf("%x was read, but what it means cannot be written and read: %v", b, err)
		}
	})
}

func FuzzGossipMeta(f *testing.F) {
	b, err := cbor.Marshal(gossipMeta{UUID: store.UUID{1}, Incarnation: 1, Label: "n1", Raft: "127.0.0.1:1"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := readMeta(b)
		if err == nil && (m.UUID.IsZero() || link.CheckLabel(m.Label) != nil) {
			t.Errorf("%x was taken for %+v", b, m)
		}
	})
}

func TestGossipMetaFits(t *testing.T) {
	t.Parallel()
	b, err := cbor.Marshal(gossipMeta{
		UUID: store.NewUUID(), Incarnation: 1 << 63, Label: strings.Repeat("l", link.MaxLabel), Cluster: store.NewUUID(),
		Raft: strings.Repeat("r", 128), Client: strings.Repeat("c", maxClientAddr), Version: strings.Repeat("v", maxGossipVersion), Format: 1000, Expect: maxMembers,
	})
	if err != nil || len(b) > 512 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}
