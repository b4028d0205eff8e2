package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// part is a file of a data directory: of which sort, and where.
type part struct {
	sort string
	path string // below the data directory
}

// sortsOf are the sorts of files that a node with this log store has.
func sortsOf(store string) []string {
	log := map[string][]string{
		"bolt": {"raft.db"},
		"wal":  {"list of segments", "first segment", "middle segment", "newest segment", "segment ahead"},
	}[store]
	return slices.Concat(log, []string{"identity.json", "peers.json", "lock", "raft.tail", "older snapshot's state", "older snapshot's meta", "newest snapshot's state", "newest snapshot's meta"})
}

// parts are all files of a data directory that a damage is worth while: of the segments the first, one in the middle, the newest and the one
// ahead of it.
func parts(t *testing.T, dir string) (all []part) {
	t.Helper()
	add := func(sort, path string) {
		if _, err := os.Stat(filepath.Join(dir, path)); err == nil {
			all = append(all, part{sort, path})
		}
	}
	for _, name := range []string{"identity.json", "peers.json", "lock", "raft.tail", "raft.db"} {
		add(name, name)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "raft.wal", "meta")); err == nil {
		_, list, _ := bytes.Cut(b, []byte("\n"))
		var meta struct {
			Segments []struct{ ID uint64 }
			Next     uint64
		}
		if err := json.Unmarshal(list, &meta); err != nil || len(meta.Segments) < 2 {
			t.Fatalf("the list of segments in %s: %d of them, want 2 at least (%v)", dir, len(meta.Segments), err)
		}
		name := func(id uint64) string { return filepath.Join("raft.wal", fmt.Sprintf("%016x.wal", id)) }
		last := len(meta.Segments) - 1
		add("list of segments", filepath.Join("raft.wal", "meta"))
		add("first segment", name(meta.Segments[0].ID))
		if last > 1 {
			add("middle segment", name(meta.Segments[last/2].ID))
		}
		add("newest segment", name(meta.Segments[last].ID))
		add("segment ahead", name(meta.Next))
	}
	snaps, err := filepath.Glob(filepath.Join(dir, "snapshots", "*-*-*[0-9]")) // not one that is being written
	if err != nil || len(snaps) < 2 {
		t.Fatalf("snapshots %v (%v), want 2", snaps, err)
	}
	index := func(path string) int {
		n, err := strconv.Atoi(strings.Split(filepath.Base(path), "-")[1])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	slices.SortFunc(snaps, func(a, b string) int { return index(a) - index(b) })
	for i, which := range []string{"older", "newest"} {
		name := filepath.Base(snaps[len(snaps)-2+i])
		add(which+" snapshot's state", filepath.Join("snapshots", name, "state.bin"))
		add(which+" snapshot's meta", filepath.Join("snapshots", name, "meta.json"))
	}
	return all
}

// harm is a way to damage a file, of which b is the content and older what it, or another of its sort, was once. It returns what is to
// be there instead, nil: nothing, and ok is false where the file cannot be damaged so.
type harm struct {
	name string
	do   func(rng *rand.Rand, b []byte, older [][]byte) (instead []byte, what string, ok bool)
}

var harms = []harm{
	{"bit flipped", func(rng *rand.Rand, b []byte, _ [][]byte) ([]byte, string, bool) {
		if len(b) == 0 {
			return nil, "", false
		}
		b = slices.Clone(b)
		at, bit := somewhere(rng, b), rng.IntN(8)
		b[at] ^= 1 << bit
		return b, fmt.Sprintf("bit %d of byte %d of %d", bit, at, len(b)), true
	}},
	{"page zeroed", func(rng *rand.Rand, b []byte, _ [][]byte) ([]byte, string, bool) {
		const page = 4 << 10
		var full []int // pages that are not zeros already
		for at := 0; at < len(b); at += page {
			if len(bytes.Trim(b[at:min(at+page, len(b))], "\x00")) > 0 {
				full = append(full, at)
			}
		}
		if len(full) == 0 {
			return nil, "", false
		}
		b = slices.Clone(b)
		at := full[rng.IntN(len(full))]
		clear(b[at:min(at+page, len(b))])
		return b, fmt.Sprintf("page at byte %d of %d", at, len(b)), true
	}},
	{"cut short", func(rng *rand.Rand, b []byte, _ [][]byte) ([]byte, string, bool) {
		if len(b) == 0 {
			return nil, "", false
		}
		at := somewhere(rng, b)
		return b[:at:at], fmt.Sprintf("at byte %d of %d", at, len(b)), true
	}},
	{"put back", func(rng *rand.Rand, b []byte, older [][]byte) ([]byte, string, bool) {
		older = slices.DeleteFunc(slices.Clone(older), func(o []byte) bool { return bytes.Equal(o, b) })
		if len(older) == 0 {
			return nil, "", false
		}
		which := rng.IntN(len(older))
		return older[which], fmt.Sprintf("copy %d of %d, of %d bytes instead of %d", which+1, len(older), len(older[which]), len(b)), true
	}},
	{"removed", func(_ *rand.Rand, _ []byte, _ [][]byte) ([]byte, string, bool) { return nil, "", true }},
}

// somewhere is a place in a file: half of the time anywhere, else where something has been written.
func somewhere(rng *rand.Rand, b []byte) int {
	if written := len(bytes.TrimRight(b, "\x00")); written > 0 && rng.IntN(2) == 0 {
		return rng.IntN(written)
	}
	return rng.IntN(len(b))
}

// olderOf are older copies of a file, from copies of its data directory; of one that is never written again, as segments and snapshots are,
// others of its sort too.
func olderOf(t *testing.T, dir string, p part, copies []string) (older [][]byte) {
	t.Helper()
	add := func(path string) {
		if b, err := os.ReadFile(path); err == nil {
			older = append(older, b)
		}
	}
	for _, c := range copies {
		add(filepath.Join(c, p.path))
	}
	pattern := ""
	switch filepath.Ext(p.path) {
	case ".wal":
		pattern = filepath.Join("raft.wal", "*.wal")
	case ".bin", ".json":
		if strings.HasPrefix(p.path, "snapshots") {
			pattern = filepath.Join("snapshots", "*-*-*[0-9]", filepath.Base(p.path))
		}
	}
	if pattern == "" {
		return older
	}
	others, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range others {
		if o != filepath.Join(dir, p.path) {
			add(o)
		}
	}
	return older
}

// files lists the files below a folder.
func files(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			rel, err := filepath.Rel(dir, p)
			all = append(all, rel)
			return err
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// copyDir copies a data directory. What goes while it is copied, because its node runs, is left out.
func copyDir(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		at := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(at, 0o700)
		}
		b, err := os.ReadFile(p)
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return os.WriteFile(at, b, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}
