package fsm

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

var (
	update   = flag.Bool("update", false, "rewrite the golden files in testdata")
	seedFlag = flag.Uint64("seed", 0, "seed of the random tests; 0 draws one")
)

// testSeed is the seed of a random test, printed so that a failure can be repeated with -seed.
func testSeed(t testing.TB) uint64 {
	t.Helper()
	s := *seedFlag
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("seed %d", s)
	return s
}

// golden compares got with testdata/name, or writes it there under -update.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (write it with -update)", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs: these bytes are in logs and snapshots and must not change\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}
