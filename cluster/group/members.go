package group

import (
	"io"
	"sync"

	"github.com/hashicorp/raft"
)

// members is the newest committed configuration that this node knows of. Raft v1.8.0 tells nobody: what GetConfiguration answers is the latest
// one, committed or not, and its index there is always 0 (api.go).
type members struct {
	mu      sync.Mutex
	servers []raft.Server
	index   uint64
}

// committed takes in a configuration that is committed.
func (m *members) committed(c raft.Configuration, index uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if index > m.index {
		m.servers, m.index = c.Servers, index
	}
}

// Members is the newest configuration that is committed as far as this node knows, and its index, which raft takes for the one a change is
// made upon (prevIndex). A leader that answers reads has gone through all that earlier terms have committed; what its own has may be
// on its way here, and raft refuses a change that is made upon what came before it. The log's first entry, by which the cluster was made,
// counts as committed wherever it is; index 0: there is not even that. Read only.
func (g *Group) Members() (servers []raft.Server, index uint64) {
	g.members.mu.Lock()
	servers, index = g.members.servers, g.members.index
	g.members.mu.Unlock()
	var first raft.Log
	if index == 0 && g.cache.GetLog(1, &first) == nil && first.Type == raft.LogConfiguration {
		return raft.DecodeConfiguration(first.Data).Servers, 1
	}
	return servers, index
}

// noted tells members of the configuration in each snapshot that raft opens, to restore it or to send it: it was committed.
type noted struct {
	raft.SnapshotStore
	members *members
}

// Open implements raft.SnapshotStore.
func (s noted) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, r, err := s.SnapshotStore.Open(id)
	if err == nil {
		s.members.committed(meta.Configuration, meta.ConfigurationIndex)
	}
	return meta, r, err
}
