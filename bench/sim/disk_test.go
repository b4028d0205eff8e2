package sim

import (
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"
)

// A snapshot is closed by whoever wrote it, and once more by raft. The second time is nothing: neither is the snapshot there twice, in place of
// the one before it, nor does a process that is dead by then write what the next one reads.
func TestSnapshotIsClosedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := (&disk{dice: newDice(1), most: 100, count: func(string) {}}).fresh("n1")
		write := func(s snaps, index uint64) raft.SnapshotSink {
			k, err := s.Create(1, index, 1, raft.Configuration{}, 1, nil)
			if err == nil {
				_, err = k.Write([]byte("state"))
			}
			if err == nil {
				err = k.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			return k
		}
		first := write(snaps{d}, 10)
		if err := first.Close(); err != nil {
			t.Errorf("the second close: %v", err)
		}
		second := write(snaps{d}, 20)
		if err := first.Close(); err != nil {
			t.Errorf("the second close, with a newer snapshot there: %v", err)
		}
		done := make(chan error)
		go func() { done <- second.Close() }() // of what is left of a process that ends now
		kept, err := snaps{d.crash(true)}.List()
		if err != nil {
			t.Fatal(err)
		}
		if len(kept) != 2 || kept[0].Index != 20 || kept[1].Index != 10 {
			t.Errorf("there are %d snapshots, want those of 20 and 10: %+v", len(kept), kept)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
