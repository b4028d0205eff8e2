//go:build chaos

package cluster

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/fsm"
)

func TestChaosSeams(t *testing.T) {
	t.Parallel()
	n := single(t)
	before := n.cfg.Clock.WallMillis()
	if err := n.ShiftWall(-time.Hour); err != nil {
		t.Fatal(err)
	}
	if d := n.cfg.Clock.WallMillis() - before; d > -3_500_000 {
		t.Errorf("the wall clock moved by %d ms, want an hour back", d)
	}
	index, digests, _, gerr := n.group.Verify(context.Background())
	if gerr != nil || len(digests) != 1 {
		t.Fatalf("verify: %v, %v", digests, gerr)
	}
	if d, err := n.StateHash(context.Background(), index); err != nil || d != digests[0].Digest {
		t.Errorf("hash %x, %v, want %x", d, err, digests[0].Digest)
	}
}

// The environment can set the wall clock from the start on.
func TestSkewSeam(t *testing.T) {
	t.Setenv(EnvSkew, "-3600000")
	c := newMachineClock()
	if d := time.Now().UnixMilli() - c.WallMillis(); d < 3_500_000 || d > 3_700_000 {
		t.Errorf("the wall clock is %d ms behind, want an hour", d)
	}
}

// What a node of a chaos build applies is in its tap, from the first entry on; a tap that cannot be written stops the start.
func TestTapSeam(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(EnvTap, dir)
	n := single(t)
	if _, _, _, gerr := n.group.Verify(t.Context()); gerr != nil {
		t.Fatal(gerr)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.tap"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v: want one tap", files, err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	entries := 0
	for last := uint64(0); len(b) > 0; entries++ {
		size := int(binary.BigEndian.Uint32(b))
		index, data := binary.BigEndian.Uint64(b[8:]), b[24:24+size]
		if _, err := fsm.DecodeEntry(data); err != nil || index <= last {
			t.Fatalf("entry %d after %d: %v", index, last, err)
		}
		if got, want := crc32.Checksum(b[8:24+size], crc32.MakeTable(crc32.Castagnoli)), binary.BigEndian.Uint32(b[4:]); got != want {
			t.Fatalf("entry %d has the checksum %08x, want %08x", index, want, got)
		}
		last, b = index, b[24+size:]
	}
	if entries < 2 { // the bootstrap and the checkpoint
		t.Errorf("%d entries", entries)
	}
	for name, env := range map[string][2]string{
		"no folder": {EnvTap, filepath.Join(dir, "missing")}, "no number": {EnvSnapshot, "much"}, "too few": {EnvSnapshot, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(env[0], env[1])
			n := &Node{cfg: Config{NodeID: "n"}}
			if _, err := n.tapped(group.Config{}); err == nil {
				t.Error("no error")
			}
		})
	}
}
