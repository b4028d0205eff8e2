package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// mistreatedWAL is what can happen to the files of a WAL alone.
func mistreatedWAL(put func(dir, file string, b []byte) error) []mistreatment {
	wal := func(d string) string { return filepath.Join(d, WALDir) }
	return []mistreatment{
		{"list gone", func(_ *testing.T, d string) error { return os.Remove(filepath.Join(wal(d), walMetaFile)) }, "missing", walMetaFile, true},
		{"list emptied", func(_ *testing.T, d string) error { return put(wal(d), walMetaFile, nil) }, "cut short", walMetaFile, true},
		{"list of another version", func(_ *testing.T, d string) error {
			b, err := os.ReadFile(filepath.Join(wal(d), walMetaFile))
			if err != nil {
				return err
			}
			return put(wal(d), walMetaFile, bytes.Replace(b, []byte("QWAL1"), []byte("QWAL2"), 1))
		}, "QWAL2", walMetaFile, true},
		{"list that begins with the newest segment", func(t *testing.T, d string) error {
			id, err := readIdentity(filepath.Join(d, identityFile))
			if err != nil {
				return err
			}
			m, err := readWALMeta(wal(d), id.UUID)
			if err != nil {
				return err
			}
			m.Segments = m.Segments[len(m.Segments)-1:]
			return m.write(wal(d))
		}, "those between are gone", WALDir, true},
		{"first segment gone", func(t *testing.T, d string) error { return os.Remove(segmentsOf(t, d)[0]) }, "is missing", ".wal", true},
		{"last segment gone", func(t *testing.T, d string) error {
			all := segmentsOf(t, d)
			return os.Remove(all[len(all)-1])
		}, "is missing", ".wal", true},
		{"sealed segment cut", func(t *testing.T, d string) error { return os.Truncate(segmentsOf(t, d)[1], 30_000) }, "its entries end at", ".wal", true},
		{"sealed segment emptied", func(t *testing.T, d string) error { return os.Truncate(segmentsOf(t, d)[1], 0) }, "its entries end at", ".wal", true},
		{"last segment cut", func(t *testing.T, d string) error {
			all := segmentsOf(t, d)
			return os.Truncate(all[len(all)-1], 5000)
		}, "entry 400 was stored", ".wal", true},
		{"last segment emptied", func(t *testing.T, d string) error {
			all := segmentsOf(t, d)
			return os.Truncate(all[len(all)-1], 0)
		}, "entry 400 was stored", ".wal", true},
		{"last segment zeroed", func(t *testing.T, d string) error {
			all := segmentsOf(t, d)
			return os.WriteFile(all[len(all)-1], make([]byte, testSegment), 0o600)
		}, "entry 400 was stored", ".wal", true},
		{"segments exchanged", func(t *testing.T, d string) error {
			all := segmentsOf(t, d)
			return errors.Join(os.Rename(all[0], all[0]+"x"), os.Rename(all[1], all[0]), os.Rename(all[0]+"x", all[1]))
		}, "head", ".wal", true},
		{"segment of another node", func(t *testing.T, d string) error {
			o := filepath.Join(t.TempDir(), "o")
			fill(t, o, WAL, true)
			return os.Rename(segmentsOf(t, o)[1], segmentsOf(t, d)[1])
		}, "head", ".wal", true},
		{"newest batch damaged, its mark lost with the power", func(t *testing.T, d string) error {
			// The mark is behind, as after a power cut; but a whole batch follows the damaged one, so that one was synced.
			all := segmentsOf(t, d)
			last := all[len(all)-1]
			b, err := os.ReadFile(last)
			if err != nil {
				return err
			}
			b[walFileHead+walFrameHead+walEntryHead+20] ^= 4 // in an entry's data
			tl, err := openTail(filepath.Join(d, TailFile), false)
			if err != nil {
				return err
			}
			return errors.Join(tl.setLast(binary.LittleEndian.Uint64(b[8:])-1, false), tl.close(), os.WriteFile(last, b, 0o600))
		}, "others follow", ".wal", true},
	}
}
