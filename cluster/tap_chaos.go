//go:build chaos

package cluster

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/quorate/quorate/cluster/group"
)

// Environment of a chaos build. A harness that asks for a tap must get one: what cannot be written ends the node.
const (
	// EnvTap names a folder into which the node writes every entry that it applies, a file for each start:
	//
	//	length of the data u32 │ CRC32C of what follows u32 │ index u64 │ term u64 │ data        big endian, one write each
	//
	// A node that is killed leaves at most its last record cut short, and applies that entry again at its next start.
	EnvTap = "QUORATE_CHAOS_TAP"
	// EnvSnapshot is how many bytes of log lie between two snapshots, half of which stay behind one, so that nodes that
	// come back are sent snapshots. Default: as in any build.
	EnvSnapshot = "QUORATE_CHAOS_SNAPSHOT_BYTES"
)

// tapped adds what the environment asks for.
func (n *Node) tapped(c group.Config) (group.Config, error) {
	if s := os.Getenv(EnvSnapshot); s != "" {
		bytes, err := strconv.ParseInt(s, 10, 64)
		if err != nil || bytes < 2 {
			return c, fmt.Errorf("%s is %q, want a number of bytes above 1", EnvSnapshot, s)
		}
		c.Limits.SnapshotBytes, c.Limits.TrailingBytes = bytes, bytes/2
	}
	dir := os.Getenv(EnvTap)
	if dir == "" {
		return c, nil
	}
	name := filepath.Join(dir, fmt.Sprintf("%s-%d.tap", n.cfg.NodeID, time.Now().UnixNano()))
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return c, fmt.Errorf("tap: %w", err)
	}
	var rec []byte // Tap is called under the state lock alone
	c.Tap = func(index, term uint64, data []byte) {
		rec = append(rec[:0], make([]byte, 8)...)
		rec = binary.BigEndian.AppendUint64(rec, index)
		rec = binary.BigEndian.AppendUint64(rec, term)
		rec = append(rec, data...)
		binary.BigEndian.PutUint32(rec, uint32(len(data)))
		binary.BigEndian.PutUint32(rec[4:], crc32.Checksum(rec[8:], crc32.MakeTable(crc32.Castagnoli)))
		if _, err := f.Write(rec); err != nil {
			n.fatal(fmt.Errorf("tap: %w", err))
		}
	}
	return c, nil
}
