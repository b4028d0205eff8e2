//go:build !wasip1

package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/raft-wal/types"
)

// walMeta is the file that says which segments are the log, and holds the stable values. It is replaced whole and durably
// at each change: a segment begun or dropped, a vote.
//
//	QWAL1 CRC32C of the rest, 8 hexadecimal digits
//	JSON
type walMeta struct {
	Node     UUID              `json:"node"`    // whose log it is
	NextID   uint64            `json:"next_id"` // of the next segment; none is used twice
	Segments []walSegmentInfo  `json:"segments"`
	Next     uint64            `json:"next,omitempty"` // id of a segment that was made ahead; entries behind the last of Segments may be in it
	Stable   map[string][]byte `json:"stable"`
}

// walSegmentInfo is one segment. All but the last are sealed: they end with an index block and are not written any more.
type walSegmentInfo struct {
	ID    uint64 `json:"id"`
	Base  uint64 `json:"base"`            // index of the first entry that was written to it
	Min   uint64 `json:"min"`             // of the first that counts: what is below was compacted away
	Max   uint64 `json:"max,omitempty"`   // of the last that counts: what is above was truncated; 0: not sealed
	Index uint64 `json:"index,omitempty"` // where the index block begins; 0: not sealed
}

const (
	walMetaFile  = "meta"
	walMetaMagic = "QWAL1 "
	walMetaHead  = len(walMetaMagic) + 8 + 1
)

func (s walSegmentInfo) sealed() bool { return s.Index != 0 }

// raftWAL is s in raft-wal's words. codec marks whose segments they are.
func (s walSegmentInfo) raftWAL(codec, limit uint64) types.SegmentInfo {
	return types.SegmentInfo{ID: s.ID, BaseIndex: s.Base, MinIndex: s.Min, MaxIndex: s.Max, IndexStart: s.Index, Codec: codec, SizeLimit: uint32(limit)}
}

// file is the name of the segment's file.
func (s walSegmentInfo) file() string { return fmt.Sprintf("%016x.wal", s.ID) }

func (m *walMeta) clone() walMeta {
	return walMeta{Node: m.Node, NextID: m.NextID, Segments: slices.Clone(m.Segments), Next: m.Next, Stable: maps.Clone(m.Stable)}
}

// write makes m durable.
func (m *walMeta) write(dir string) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	b := fmt.Appendf(make([]byte, 0, walMetaHead+len(body)), "%s%08x\n", walMetaMagic, crc32.Checksum(body, castagnoli))
	return WriteFile(filepath.Join(dir, walMetaFile), append(b, body...))
}

// readWALMeta reads it and checks that it is id's and that its segments follow each other.
func readWALMeta(dir string, id UUID) (m walMeta, err error) {
	path := filepath.Join(dir, walMetaFile)
	b, err := os.ReadFile(path)
	if err != nil {
		if os.IsNotExist(err) {
			return m, &DamageError{File: path, What: "it is missing, though this node has data"}
		}
		return m, err
	}
	if len(b) < walMetaHead {
		return m, &DamageError{File: path, What: fmt.Sprintf("it is cut short at %d bytes", len(b))}
	}
	head := fmt.Appendf(nil, "%s%08x\n", walMetaMagic, crc32.Checksum(b[walMetaHead:], castagnoli))
	if !bytes.Equal(head, b[:walMetaHead]) {
		return m, &DamageError{File: path, What: fmt.Sprintf("it begins with %q, its bytes give %q", b[:walMetaHead-1], head[:walMetaHead-1])}
	}
	if err := json.Unmarshal(b[walMetaHead:], &m); err != nil {
		return m, &DamageError{File: path, What: "it is not what this version writes", Err: err}
	}
	if m.Node != id {
		return m, &DamageError{File: path, What: fmt.Sprintf("it is the log of another node, %s; identity.json says %s", m.Node, id)}
	}
	if m.Next >= m.NextID {
		return m, &DamageError{File: path, What: fmt.Sprintf("segment %d is next, the newest is %d", m.Next, m.NextID-1)}
	}
	for i, s := range m.Segments {
		last := i == len(m.Segments)-1
		switch {
		case s.ID >= m.NextID, s.ID == m.Next, s.Base == 0, s.Min < s.Base, s.sealed() != (s.Max != 0), s.sealed() && s.Max < s.Min, !s.sealed() && !last:
			return m, &DamageError{File: path, What: fmt.Sprintf("segment %d cannot be: %+v", i, s)}
		case !last && m.Segments[i+1].Base != s.Max+1:
			return m, &DamageError{File: path, What: fmt.Sprintf("segment %d ends at entry %d, the next begins at %d", i, s.Max, m.Segments[i+1].Base)}
		}
	}
	if m.Stable == nil {
		m.Stable = map[string][]byte{}
	}
	return m, nil
}
