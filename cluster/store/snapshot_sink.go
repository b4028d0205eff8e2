//go:build !wasip1

package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
)

// Create implements raft.SnapshotStore.
func (s *Snapshots) Create(version raft.SnapshotVersion, index, term uint64, c raft.Configuration, configIndex uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	if err := s.halt.hold(); err != nil {
		return nil, err
	}
	if version != raft.SnapshotVersionMax {
		return nil, fmt.Errorf("create a snapshot: it is to be of version %d, want %d", version, raft.SnapshotVersionMax)
	}
	k, err := s.create(version, index, term, c, configIndex)
	if err != nil {
		return nil, s.fail("create a snapshot", err)
	}
	return k, nil
}

func (s *Snapshots) create(version raft.SnapshotVersion, index, term uint64, c raft.Configuration, configIndex uint64) (*snapSink, error) {
	k := &snapSink{s: s, meta: raft.SnapshotMeta{Version: version, Index: index, Term: term, Configuration: c, ConfigurationIndex: configIndex}}
	for at := time.Now().UnixMilli(); ; at++ { // the clock may have been turned back
		k.meta.ID = fmt.Sprintf("%d-%d-%d", term, index, at)
		k.dir = filepath.Join(s.dir, k.meta.ID)
		if _, err := os.Lstat(k.dir); err == nil {
			continue
		}
		err := os.Mkdir(k.dir+unfinished, 0o700)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	var err error
	if k.state, err = createSnapFile(filepath.Join(k.dir+unfinished, snapshotState)); err != nil {
		return nil, err
	}
	head := snapHead(index, term, configIndex, c)
	if _, err := k.state.Write(head); err != nil {
		return nil, errors.Join(err, k.state.Drop())
	}
	k.sum = crc32.Checksum(head, castagnoli)
	return k, nil
}

// snapSink writes one snapshot, in a folder that gets its name when all of it is durable.
type snapSink struct {
	s      *Snapshots
	dir    string // as it will be called
	meta   raft.SnapshotMeta
	state  *snapFile
	length int64 // of the state
	sum    uint32
	closed bool
}

// ID implements raft.SnapshotSink.
func (k *snapSink) ID() string { return k.meta.ID }

// Write implements raft.SnapshotSink. Pieces of 64 KiB and more are what it is meant for: each is checksummed by itself.
func (k *snapSink) Write(p []byte) (int, error) {
	if err := k.s.halt.hold(); err != nil {
		return 0, err
	}
	n, err := k.state.Write(p)
	if err != nil {
		return n, k.s.fail("write a snapshot", err)
	}
	k.sum = crc32.Update(k.sum, castagnoli, p)
	k.length += int64(n)
	return n, nil
}

// errOlder is a snapshot that nobody needs any more.
var errOlder = errors.New("a newer snapshot has been finished meanwhile: this one is dropped")

// Close makes the snapshot durable: files, directory and the directory above it. What is older than the newest few
// goes with the same sync. A snapshot that is older than the newest is dropped, with an error that is no failure of the disk: raft would take
// the one that is finished last for its newest.
func (k *snapSink) Close() error {
	if k.closed {
		return nil
	}
	k.closed = true
	if err := k.s.halt.hold(); err != nil {
		return errors.Join(err, k.state.Drop())
	}
	err := k.finish()
	if errors.Is(err, errOlder) {
		if err := os.RemoveAll(k.dir + unfinished); err != nil {
			return k.s.fail("drop a snapshot", err)
		}
		return err
	}
	if err != nil {
		return k.s.fail("finish a snapshot", err)
	}
	return nil
}

func (k *snapSink) finish() error {
	if _, err := k.state.Write(snapFoot(uint64(k.length), k.sum)); err != nil {
		return errors.Join(err, k.state.Drop())
	}
	if err := k.state.Close(); err != nil {
		return err
	}
	k.meta.Size = snapHeadLen + k.length + snapFootLen
	b, err := json.Marshal(&k.meta)
	if err != nil {
		return err
	}
	if err := writeSynced(filepath.Join(k.dir+unfinished, snapshotMeta), b); err != nil {
		return err
	}
	if err := syncDir(k.dir + unfinished); err != nil {
		return err
	}
	old, err := k.name()
	if err != nil {
		return err
	}
	for _, m := range old {
		if err := os.RemoveAll(filepath.Join(k.s.dir, m.ID+unfinished)); err != nil {
			return err
		}
	}
	return nil
}

// name gives the snapshot its name, durably, and takes theirs from those that are too old, which it returns. Where there is a newer one, the error
// is errOlder.
func (k *snapSink) name() (old []*raft.SnapshotMeta, err error) {
	k.s.names.Lock()
	defer k.s.names.Unlock()
	metas, err := k.s.verify()
	if err != nil {
		return nil, err
	}
	if len(metas) > 0 && byAge(metas[0], &k.meta) < 0 {
		return nil, fmt.Errorf("%w: index %d, the newest has %d", errOlder, k.meta.Index, metas[0].Index)
	}
	err = changeDir(k.s.dir, func() error {
		if err := os.Rename(k.dir+unfinished, k.dir); err != nil {
			return err
		}
		metas, err := k.s.verify()
		if err != nil {
			return err
		}
		// What is too old loses its name first, durably: wherever the process or the machine ends, nothing is left that is called a
		// snapshot and has lost a file.
		old = metas[min(len(metas), keepSnapshots):]
		for _, m := range old {
			if err := os.Rename(filepath.Join(k.s.dir, m.ID), filepath.Join(k.s.dir, m.ID+unfinished)); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		k.s.newest.Store(&k.meta)
	}
	return old, err
}

// Cancel gives an unfinished snapshot up.
func (k *snapSink) Cancel() error {
	if k.closed {
		return nil
	}
	k.closed = true
	err := k.state.Drop()
	if err := k.s.halt.hold(); err != nil {
		return err
	}
	if err := errors.Join(err, os.RemoveAll(k.dir+unfinished)); err != nil {
		return k.s.fail("drop a snapshot", err)
	}
	return nil
}

func writeSynced(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
