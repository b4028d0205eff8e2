package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/cluster/store"
)

const (
	peersFile = "peers.json"
	// maxPeers bounds what strangers can make a node remember: members and as many joining and removed ones again.
	maxPeers = 4 * maxMembers
)

// peer is what this node knows of another one, by gossip, handshake or answer. Facts of a later start replace those of an
// earlier one.
type peer struct {
	UUID        store.UUID `json:"uuid"`
	Label       string     `json:"label"`
	Incarnation uint64     `json:"-"`      // latest start that anybody has told of
	Proved      uint64     `json:"proved"` // latest start that a handshake has proved
	Raft        string     `json:"raft"`   // where its node port was last, host:port
	Gossip      string     `json:"gossip"` // the same of its gossip port
	Client      string     `json:"client"` // what its clients dial

	Cluster store.UUID `json:"-"` // zero: it belongs to none
	Version string     `json:"-"`
	Expect  int        `json:"-"` // its bootstrap_expect
	HasData bool       `json:"-"`
	Alive   bool       `json:"-"` // by gossip
	Away    bool       `json:"-"` // nobody answered at Raft when it was dialled last, and not at another address since
}

// peers is the table of them. It is kept in peers.json, so that a restarted node finds the others where they were last.
type peers struct {
	self store.UUID
	path string // "": not kept

	mu    sync.Mutex
	all   map[store.UUID]*peer
	dirty bool
}

func newPeers(self store.UUID, dir string) *peers {
	p := &peers{self: self, all: map[store.UUID]*peer{}}
	if dir != "" {
		p.path = filepath.Join(dir, peersFile)
	}
	return p
}

// peersOnDisk is peers.json. Its checksum is over the JSON of the list: a start that nobody has made, believed after a flipped bit, would
// have this node refuse a peer that is well, and the peer end its process.
type peersOnDisk struct {
	Peers []peer `json:"peers"`
	Sum   string `json:"crc32c"`
}

func sumOfPeers(list []peer) (string, error) {
	b, err := json.Marshal(list)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%08x", crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))), nil
}

// readPeers reads the peers.json at path, nil if there is none.
func readPeers(path string) ([]peer, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read known peers: %w", err)
	}
	var on peersOnDisk
	if err := json.Unmarshal(b, &on); err != nil {
		return nil, fmt.Errorf("known peers in %s are lost: %w", path, err)
	}
	sum, err := sumOfPeers(on.Peers)
	if err != nil {
		return nil, err
	}
	if sum != on.Sum {
		return nil, fmt.Errorf("known peers in %s are lost: checksum is %q, the peers give %q", path, on.Sum, sum)
	}
	return on.Peers[:min(len(on.Peers), maxPeers)], nil
}

// load reads peers.json. The file is a hint: a damaged one is said and forgotten.
func (t *peers) load() error {
	list, err := readPeers(t.path)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range list {
		if !p.UUID.IsZero() && p.UUID != t.self {
			p.Incarnation = p.Proved
			t.all[p.UUID] = &p
		}
	}
	return nil
}

// KnownPeer is another node as a data directory remembers it.
type KnownPeer struct {
	Label string // node_id
	Raft  string // where its node port was last, host:port; "": not known
}

// KnownPeers reads which nodes a data directory remembers, at most 128. None, or no directory, is no error; a damaged list is one,
// which the node itself only warns of, since it finds its peers by gossip too.
func KnownPeers(dataDir string) ([]KnownPeer, error) {
	list, err := readPeers(filepath.Join(dataDir, peersFile))
	known := make([]KnownPeer, len(list))
	for i, p := range list {
		known[i] = KnownPeer{Label: p.Label, Raft: p.Raft}
	}
	return known, err
}

// save writes peers.json when something of it has changed.
func (t *peers) save() error {
	t.mu.Lock()
	if !t.dirty || t.path == "" {
		t.mu.Unlock()
		return nil
	}
	t.dirty = false
	list := make([]peer, 0, len(t.all))
	for _, p := range t.all {
		list = append(list, *p)
	}
	t.mu.Unlock()
	slices.SortFunc(list, func(a, b peer) int { return compareUUID(a.UUID, b.UUID) })
	sum, err := sumOfPeers(list)
	if err != nil {
		return err
	}
	b, err := json.MarshalIndent(peersOnDisk{Peers: list, Sum: sum}, "", "  ")
	if err != nil {
		return err
	}
	return store.WriteFile(t.path, append(b, '\n'))
}

func compareUUID(a, b store.UUID) int { return slices.Compare(a[:], b[:]) }

// hear changes what is known of a node with f by what gossip tells, which anybody may say: facts of an earlier start than is
// known are left aside. Full: false.
func (t *peers) hear(id store.UUID, incarnation uint64, f func(*peer)) bool {
	return t.change(id, func(p *peer) bool {
		if incarnation < p.Incarnation {
			return false
		}
		p.Incarnation = incarnation
		f(p)
		return true
	})
}

// learn is hear for what comes from the node itself, by a connection whose handshake has proved the start, even when gossip
// has claimed a later one.
func (t *peers) learn(id store.UUID, incarnation uint64, f func(*peer)) bool {
	return t.change(id, func(p *peer) bool {
		p.Incarnation, p.Proved = incarnation, incarnation
		f(p)
		return true
	})
}

// missed forgets an address at which another node answered; the next best is raft's configuration.
func (t *peers) missed(id store.UUID, addr string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p, ok := t.all[id]; ok && p.Raft == addr {
		p.Raft, t.dirty = "", true
	} else if ok {
		p.Away = false
	}
}

// unreached hears that nobody answered at addr. Then raft's configuration has its turn, and where nobody answers there either, what is known here
// again: which of the two is older nobody can say, when the node is down or gossip does not get through.
func (t *peers) unreached(id store.UUID, addr string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p, ok := t.all[id]; ok {
		p.Away = p.Raft == addr
	}
}

func (t *peers) change(id store.UUID, f func(*peer) bool) bool {
	if id == t.self || id.IsZero() {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.all[id]
	if !ok {
		if len(t.all) >= maxPeers && !t.evict() {
			return false
		}
		p = &peer{UUID: id}
		t.all[id] = p
	}
	old := *p
	if !f(p) {
		return false
	}
	p.Away = p.Away && old.Raft == p.Raft
	t.dirty = t.dirty || old.Proved != p.Proved || old.Label != p.Label || old.Raft != p.Raft || old.Gossip != p.Gossip || old.Client != p.Client
	return true
}

// evict drops a node that is not alive, to make room; t.mu is held.
func (t *peers) evict() bool {
	for id, p := range t.all {
		if !p.Alive {
			delete(t.all, id)
			return true
		}
	}
	return false
}

// get returns a copy.
func (t *peers) get(id store.UUID) (peer, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p, ok := t.all[id]; ok {
		return *p, true
	}
	return peer{}, false
}

// list returns copies, by UUID.
func (t *peers) list() []peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]peer, 0, len(t.all))
	for _, p := range t.all {
		list = append(list, *p)
	}
	slices.SortFunc(list, func(a, b peer) int { return compareUUID(a.UUID, b.UUID) })
	return list
}

// forget drops a node that is gone for good.
func (t *peers) forget(id store.UUID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.all[id]; ok {
		delete(t.all, id)
		t.dirty = true
	}
}

// locate is where raft dials a node; false: where its configuration says.
func (t *peers) locate(id raft.ServerID) (string, bool) {
	u, err := store.ParseUUID(string(id))
	if err != nil {
		return "", false
	}
	p, ok := t.get(u)
	return p.Raft, ok && p.Raft != "" && !p.Away
}

// where is locate with the address that raft's configuration has.
func (t *peers) where(id raft.ServerID, configured string) string {
	if addr, ok := t.locate(id); ok {
		return addr
	}
	return configured
}

// client is where clients reach a node.
func (t *peers) client(id raft.ServerID) string {
	u, err := store.ParseUUID(string(id))
	if err != nil {
		return ""
	}
	p, _ := t.get(u)
	return p.Client
}
