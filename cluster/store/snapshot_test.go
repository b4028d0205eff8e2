package store

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

func openSnapshots(t *testing.T) (*Snapshots, string) {
	t.Helper()
	d, err := OpenDir(filepath.Join(t.TempDir(), "n"), "n1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	s, err := OpenSnapshots(d, NewHalt(func(err error) { t.Errorf("halt: %v", err) }))
	if err != nil {
		t.Fatal(err)
	}
	return s, filepath.Join(d.path, snapshotDir)
}

// The newest two stay, the newest first, by term and then index, with all that was said of them; what is given up leaves nothing.
func TestSnapshotsAreKept(t *testing.T) {
	t.Parallel()
	s, dir := openSnapshots(t)
	servers := raft.Configuration{Servers: []raft.Server{{ID: "a", Address: "n1@h:1"}, {ID: "b", Address: "n2@h:2", Suffrage: raft.Nonvoter}}}
	for _, at := range [][2]uint64{{9, 1}, {100, 2}, {12, 3}, {13, 3}} { // index, term
		k, err := s.Create(raft.SnapshotVersionMax, at[0], at[1], servers, 5, nil)
		if err != nil {
			t.Fatal(err)
		}
		if list, err := s.List(); err != nil || len(list) > 0 && list[0].Index == at[0] {
			t.Fatalf("a snapshot that is being written is listed: %v, %v", list, err)
		}
		if _, err := k.Write(bytes.Repeat([]byte{byte(at[0])}, 3<<20+int(at[0]))); err != nil {
			t.Fatal(err)
		}
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
		if err := k.Close(); err != nil {
			t.Errorf("closed again: %v", err)
		}
	}
	gone, err := s.Create(raft.SnapshotVersionMax, 50, 4, servers, 5, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gone.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := gone.Cancel(); err != nil {
			t.Error(err)
		}
	}
	list, err := s.List()
	if err != nil || len(list) != 2 || list[0].Index != 13 || list[1].Index != 12 {
		t.Fatalf("%d snapshots, %v; want those at 13 and 12: %+v", len(list), err, list)
	}
	m := list[0]
	if m.Term != 3 || m.ConfigurationIndex != 5 || configurationSum(m.Configuration) != configurationSum(servers) || m.Size != 3<<20+13 {
		t.Errorf("listed as %+v", m)
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 2 {
		t.Errorf("%v is left in the folder, want two snapshots", names)
	}
	opened, r, err := s.Open(m.ID)
	if err != nil || opened.Size != m.Size || opened.ID != m.ID {
		t.Fatalf("opened %+v, %v", opened, err)
	}
	state, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(state, bytes.Repeat([]byte{13}, 3<<20+13)) {
		t.Errorf("%d bytes, %v; not those that were written", len(state), err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// A follower that is behind has its leader list the snapshots again and again. That another one is finished meanwhile, and takes the oldest
// away, is no damage.
func TestListBesideAFinish(t *testing.T) {
	t.Parallel()
	h, fatal := testHalt(t)
	d, err := OpenDir(filepath.Join(t.TempDir(), "n"), "n1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	s, err := OpenSnapshots(d, h)
	if err != nil {
		t.Fatal(err)
	}
	finish := func(index uint64) error {
		k, err := s.Create(raft.SnapshotVersionMax, index, 1, raft.Configuration{}, 1, nil)
		if err != nil {
			return err
		}
		return k.Close()
	}
	for index := range uint64(2) {
		if err := finish(index + 1); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error, 1)
	s.listed = func() {
		s.listed = nil
		if s.names.TryLock() { // nothing keeps it from being finished here
			s.names.Unlock()
			done <- finish(3)
			return
		}
		go func() { done <- finish(3) }()
	}
	listed := make(chan error, 1)
	go func() { // a call that has tripped the halt does not return
		list, err := s.List()
		if err == nil && len(list) != 2 {
			err = fmt.Errorf("%d snapshots, want two", len(list))
		}
		listed <- err
	}()
	select {
	case err := <-fatal:
		t.Fatalf("the node ends: %v", err)
	case err := <-listed:
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if list, err := s.List(); err != nil || len(list) != 2 || list[0].Index != 3 || list[1].Index != 2 {
		t.Errorf("%+v, %v; want those at 3 and 2", list, err)
	}
}

// A snapshot that takes long is overtaken by one that is installed. It is dropped when it is whole, and that is no failure of the disk; one
// of the same index is kept.
func TestOlderSnapshotIsDropped(t *testing.T) {
	t.Parallel()
	s, dir := openSnapshots(t)
	create := func(index, term uint64) raft.SnapshotSink {
		t.Helper()
		k, err := s.Create(raft.SnapshotVersionMax, index, term, raft.Configuration{}, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.Write([]byte("state")); err != nil {
			t.Fatal(err)
		}
		return k
	}
	older, term, same, newest := create(7, 2), create(99, 1), create(12, 2), create(12, 2)
	if err := newest.Close(); err != nil {
		t.Fatal(err)
	}
	for _, k := range []raft.SnapshotSink{older, term} {
		if err := k.Close(); err == nil || !strings.Contains(err.Error(), "newer snapshot") {
			t.Errorf("%s: %v, want an error that says that there is a newer one", k.ID(), err)
		}
		if err := k.Cancel(); err != nil { // as raft does after any error
			t.Error(err)
		}
	}
	list, err := s.List()
	index, of := s.Newest()
	if err != nil || len(list) != 1 || list[0].ID != newest.ID() || index != 12 || of != 2 || s.halt.Err() != nil {
		t.Errorf("%+v, %v, newest at %d of term %d, halt: %v; want the one that was installed, alone", list, err, index, of, s.halt.Err())
	}
	if err := same.Close(); err != nil {
		t.Error(err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 2 {
		t.Errorf("%v, %v are in the folder, want two snapshots", names, err)
	}
}

// Two snapshots of one index, made when the clock says the same, have different names.
func TestSnapshotNamesDoNotMeet(t *testing.T) {
	t.Parallel()
	s, _ := openSnapshots(t)
	seen := map[string]bool{}
	for range 20 {
		k, err := s.Create(raft.SnapshotVersionMax, 7, 2, raft.Configuration{}, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if seen[k.ID()] {
			t.Fatalf("%s is the name of two", k.ID())
		}
		seen[k.ID()] = true
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSnapshotOfAnotherVersion(t *testing.T) {
	t.Parallel()
	s, _ := openSnapshots(t)
	if _, err := s.Create(0, 7, 2, raft.Configuration{}, 1, nil); err == nil || !strings.Contains(err.Error(), "version 0, want 1") {
		t.Errorf("error %v, want one that names the version", err)
	}
}
