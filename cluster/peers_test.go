package cluster

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/cluster/store"
)

func TestPeers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	me, a, b := store.NewUUID(), store.NewUUID(), store.NewUUID()
	p := newPeers(me, dir)
	at := func(raftAddr string) func(*peer) {
		return func(k *peer) { k.Label, k.Raft, k.Alive = "x", raftAddr, true }
	}
	if p.learn(me, 1, at("me:1")) || p.learn(store.UUID{}, 1, at("none:1")) {
		t.Error("it learned about itself, or nobody")
	}
	p.hear(a, 5, at("a:5"))
	p.hear(a, 4, at("a:4"))
	if k, _ := p.get(a); k.Raft != "a:5" || k.Incarnation != 5 {
		t.Errorf("gossip of an earlier start was believed: %+v", k)
	}
	p.hear(a, 1<<60, at("forged:1"))
	p.learn(a, 5, at("a:5"))
	p.hear(a, 5, at("a:6"))
	if addr, ok := p.locate(raft.ServerID(a.String())); !ok || addr != "a:6" {
		t.Errorf("a forged start outlives a handshake: %s", addr)
	}
	p.missed(a, "a:1")
	if _, ok := p.locate(raft.ServerID(a.String())); !ok {
		t.Error("another address was missed")
	}
	p.missed(a, "a:6")
	if _, ok := p.locate(raft.ServerID(a.String())); ok {
		t.Error("a missed address is still believed")
	}
	p.learn(b, 2, func(k *peer) { k.Label, k.Raft, k.Gossip, k.Client = "b", "b:1", "b:2", "b:3" })
	if err := p.save(); err != nil {
		t.Fatal(err)
	}
	q := newPeers(me, dir)
	if err := q.load(); err != nil {
		t.Fatal(err)
	}
	if k, ok := q.get(b); !ok || k.Raft != "b:1" || k.Gossip != "b:2" || k.Client != "b:3" || k.Incarnation != 2 || k.Proved != 2 || k.Alive {
		t.Errorf("after a restart: %+v", k)
	}
	if got := q.client(raft.ServerID(b.String())); got != "b:3" {
		t.Errorf("client address %q", got)
	}
	if err := os.WriteFile(filepath.Join(dir, peersFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := newPeers(me, dir).load(); err == nil {
		t.Error("a damaged file was read")
	}
}

// Of two addresses, what is known here and what raft's configuration has, the other one has its turn when nobody answers.
func TestOtherAddressHasItsTurn(t *testing.T) {
	t.Parallel()
	a := store.NewUUID()
	at := func(raftAddr string) func(*peer) { return func(k *peer) { k.Raft = raftAddr } }
	for _, c := range []struct {
		name string
		then func(p *peers)
		want string
	}{
		{"nothing has happened", func(*peers) {}, "known:1"},
		{"nobody answers", func(p *peers) { p.unreached(a, "known:1") }, "configured:1"},
		{"again", func(p *peers) { p.unreached(a, "known:1"); p.unreached(a, "known:1") }, "configured:1"},
		{"nobody answers there either", func(p *peers) { p.unreached(a, "known:1"); p.unreached(a, "configured:1") }, "known:1"},
		{"another node answers there", func(p *peers) { p.unreached(a, "known:1"); p.missed(a, "configured:1") }, "known:1"},
		{"nobody answers at an address that it had", func(p *peers) { p.unreached(a, "old:1") }, "known:1"},
		{"gossip says the same again", func(p *peers) { p.unreached(a, "known:1"); p.hear(a, 2, at("known:1")) }, "configured:1"},
		{"gossip knows another", func(p *peers) { p.unreached(a, "known:1"); p.hear(a, 2, at("new:1")) }, "new:1"},
		{"another node", func(p *peers) { p.unreached(store.NewUUID(), "known:1") }, "known:1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPeers(store.NewUUID(), "")
			p.learn(a, 1, at("known:1"))
			c.then(p)
			if got := p.where(raft.ServerID(a.String()), "configured:1"); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// A member is reached where raft's configuration has it, when what is known of its place is wrong and gossip does not get through; and what it says
// of its place itself counts, also where the configuration has it already.
func TestWrongPlaceIsNotForEver(t *testing.T) {
	t.Parallel()
	n := alone(t)
	f := newFake(t, n, "n2")
	wrong := func() {
		n.peers.hear(f.UUID, 1<<60, func(p *peer) { p.Label, p.Raft, p.Alive = "n2", "127.0.0.1:1", true })
	}
	wrong()
	must(t, n.group.Raft().AddVoter(f.id(), f.addr(), 0, 0).Error())
	must(t, n.group.Raft().Barrier(0).Error()) // it has to confirm that
	wrong()
	if a := f.announces(within(t, 10*time.Second), n, false); a.Code != "" {
		t.Errorf("answer %+v", a)
	}
	if addr, ok := n.peers.locate(f.id()); !ok || addr != f.l.Addr() {
		t.Errorf("it is thought to be at %q, and has said that it is at %s", addr, f.l.Addr())
	}
}

// A flipped bit anywhere in peers.json is noticed, or what is read is what was written: a node that believed a start nobody has made would
// refuse a peer that is well, and the peer would end.
func TestFlippedBitInPeers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := newPeers(store.NewUUID(), dir)
	for i := range uint64(2) {
		p.learn(store.NewUUID(), 11+i, func(k *peer) {
			k.Label, k.Raft, k.Gossip, k.Client = "n2", "10.0.0.2:7101", "10.0.0.2:7102", "10.0.0.2:7100"
		})
	}
	if err := p.save(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, peersFile)
	want, err := readPeers(path)
	if err != nil || len(want) != 2 {
		t.Fatalf("%+v, %v", want, err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := range 8 * len(whole) {
		b := slices.Clone(whole)
		b[at/8] ^= 1 << (at % 8)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := readPeers(path); err == nil && !slices.Equal(got, want) {
			t.Errorf("bit %d of byte %d: %+v, want %+v or an error", at%8, at/8, got, want)
		}
	}
}

func TestPeersAreBounded(t *testing.T) {
	t.Parallel()
	p := newPeers(store.NewUUID(), "")
	for range 3 * maxPeers {
		p.learn(store.NewUUID(), 1, func(*peer) {})
	}
	if n := len(p.list()); n != maxPeers {
		t.Errorf("%d peers, want %d", n, maxPeers)
	}
	q := newPeers(store.NewUUID(), "")
	for range maxPeers {
		q.learn(store.NewUUID(), 1, func(k *peer) { k.Alive = true })
	}
	if q.learn(store.NewUUID(), 1, func(*peer) {}) {
		t.Error("room was made by dropping a live one")
	}
}
