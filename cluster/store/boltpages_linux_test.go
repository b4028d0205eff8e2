package store

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// resident is how much of the mapped file is in memory, bytes.
func resident(t *testing.T, path string) (n int64) {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := false
	for sc := bufio.NewScanner(f); sc.Scan(); {
		line := sc.Text()
		if fields := strings.Fields(line); !strings.HasSuffix(fields[0], ":") { // the head of a mapping
			in = strings.HasSuffix(line, path)
		}
		var kib int64
		if _, err := fmt.Sscanf(line, "Rss: %d kB", &kib); err == nil && in {
			n += kib << 10
		}
	}
	return n
}

// However much of a bbolt file was read and written, little of it stays in memory, and all of it can be read.
func TestBoltPagesAreLetGo(t *testing.T) {
	path := filepath.Join(t.TempDir(), LogFile)
	b, err := openBolt(path)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if b.pages.db == nil {
		t.Fatal("the database in a raft-boltdb store was not found: this release keeps it elsewhere")
	}
	const entries, size = 1600, 64 << 10
	data := make([]byte, size)
	for i := uint64(1); i <= entries; i += 16 {
		var logs []*raft.Log
		for k := range uint64(16) {
			logs = append(logs, &raft.Log{Index: i + k, Term: 1, Data: data})
		}
		if err := b.StoreLogs(logs); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string) {
		t.Helper()
		n := resident(t, path)
		t.Logf("%s: %d MiB of %d are resident", what, n>>20, b.size()>>20)
		if n > boltTouched*3/2 {
			t.Errorf("%s: %d MiB of the file are resident, want at most %d", what, n>>20, boltTouched*3/2>>20)
		}
	}
	check("written")
	var l raft.Log
	for i := uint64(1); i <= entries; i++ {
		if err := b.GetLog(i, &l); err != nil || len(l.Data) != size {
			t.Fatalf("entry %d: %d bytes, %v", i, len(l.Data), err)
		}
	}
	check("read")
	for i := uint64(1); i < entries-100; i += 128 {
		if err := b.DeleteRange(i, min(i+127, entries-100)); err != nil {
			t.Fatal(err)
		}
	}
	check("compacted")
	if err := b.GetLog(entries, &l); err != nil {
		t.Error(err)
	}
}
