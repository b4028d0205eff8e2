//go:build !wasip1

package store

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	identityFile = "identity.json"
	lockFile     = "lock"
	// Format is the version of everything in a data directory: identity, log envelope, stable values, snapshots.
	Format = 1
	// formatWAL is that of the identity of a node whose log is not a bbolt file: builds that know of no other must not start
	// on it. It concerns nobody but the node itself.
	formatWAL = 2
)

// UUID names a node or a cluster for ever; zero is none.
type UUID [16]byte

// NewUUID makes a random one (version 4).
func NewUUID() (u UUID) {
	_, _ = rand.Read(u[:]) // never fails (package documentation)
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return u
}

// IsZero tells whether u names nothing.
func (u UUID) IsZero() bool { return u == UUID{} }

func (u UUID) String() string {
	h := hex.EncodeToString(u[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// ParseUUID reads what String writes.
func ParseUUID(s string) (u UUID, err error) {
	if len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-' {
		if _, err := hex.Decode(u[:], []byte(s[:8]+s[9:13]+s[14:18]+s[19:23]+s[24:])); err == nil {
			return u, nil
		}
	}
	return UUID{}, fmt.Errorf("%q is not a UUID like 01234567-89ab-4cde-8f01-23456789abcd", s)
}

// MarshalText implements encoding.TextMarshaler.
func (u UUID) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (u *UUID) UnmarshalText(b []byte) (err error) {
	*u, err = ParseUUID(string(b))
	return err
}

// Identity is who a node is. It is kept in identity.json and never changes but for what is said here.
type Identity struct {
	Format      int    `json:"format"`
	UUID        UUID   `json:"uuid"`                // raft's ServerID
	Label       string `json:"label"`               // node_id of the configuration
	Cluster     UUID   `json:"cluster"`             // zero until the node belongs to one, then fixed
	Incarnation uint64 `json:"incarnation"`         // starts of the process, from 1; raised at each
	HasData     bool   `json:"has_data"`            // raft.db exists: an empty or missing one is damage
	Founding    bool   `json:"founding"`            // it is making its cluster: nobody else knows of it, the log may not say so yet
	Removed     bool   `json:"removed"`             // the cluster has removed this node: it never starts again
	LogStore    Kind   `json:"log_store,omitempty"` // sort of its log; empty: Bolt, which was all there was once
}

// Kind is the sort of log that the node has.
func (id Identity) Kind() Kind {
	if id.LogStore == "" {
		return Bolt
	}
	return id.LogStore
}

func (id *Identity) setKind(k Kind) {
	id.LogStore = k
	if k == Bolt {
		id.Format = Format
	} else {
		id.Format = formatWAL
	}
}

type identityOnDisk struct {
	Identity
	Sum string `json:"crc32c"` // over the JSON of Identity
}

func (id Identity) sum() (string, error) {
	b, err := json.Marshal(id)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%08x", crc32.Checksum(b, castagnoli)), nil
}

// ErrRemoved is what a node that the cluster has removed meets at its start.
var ErrRemoved = errors.New("this node was removed from its cluster")

// ErrInUse is a data directory that another process holds.
var ErrInUse = errors.New("in use by another process")

// Dir is a data directory that this process holds.
type Dir struct {
	path string
	lock *os.File

	mu sync.Mutex
	id Identity
}

// OpenDir takes hold of a data directory, makes it (mode 0700) and its identity when there are none, and refuses one that is
// held by another process, belongs to another label, was written by a newer format, can be read by others, or is damaged.
func OpenDir(path, label string) (_ *Dir, err error) {
	if st, err := os.Lstat(path); err == nil && st.Mode()&os.ModeSymlink != 0 {
		return nil, fmt.Errorf("data directory %s is a symbolic link: name the directory itself", path)
	}
	if err := makeDirs(path); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if !st.IsDir() {
		return nil, fmt.Errorf("data directory %s is not a directory", path)
	}
	if perm := st.Mode().Perm(); perm&0o077 != 0 {
		if _, err := os.Stat(filepath.Join(path, identityFile)); err == nil {
			return nil, fmt.Errorf("data directory %s can be read by others (mode %04o): chmod 700 it", path, perm)
		}
		if err := os.Chmod(path, 0o700); err != nil {
			return nil, fmt.Errorf("data directory: %w", err)
		}
	}
	lock, err := os.OpenFile(filepath.Join(path, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	defer func() {
		if err != nil {
			lock.Close()
		}
	}()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("data directory %s is %w: give each node its own data_dir", path, ErrInUse)
		}
		return nil, fmt.Errorf("lock data directory %s: %w", path, err)
	}
	d := &Dir{path: path, lock: lock}
	d.id, err = readIdentity(filepath.Join(path, identityFile))
	found := err == nil
	switch {
	case errors.Is(err, os.ErrNotExist):
		for _, f := range []string{LogFile, WALDir, snapshotDir} {
			if _, err := os.Lstat(filepath.Join(path, f)); err == nil {
				return nil, &DamageError{File: filepath.Join(path, identityFile), What: fmt.Sprintf("it is missing beside %s", f)}
			}
		}
		// A start that made the directory may have been killed before its name was durable.
		if err := syncDir(filepath.Dir(filepath.Clean(path))); err != nil {
			_ = errors.Join(os.Remove(lock.Name()), os.Remove(path)) // there is nothing in it, and it has to be made again (makeDirs)
			return nil, fmt.Errorf("data directory: %w", err)
		}
		if err := d.Save(Identity{Format: Format, UUID: NewUUID(), Label: label}); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	case d.id.Label != label:
		return nil, fmt.Errorf("data directory %s belongs to node %q, this node is configured as %q: start it with node_id = %q, or give it another data_dir", path, d.id.Label, label, d.id.Label)
	case d.id.Removed:
		return nil, fmt.Errorf("%w: data directory %s, node %s (%s) of cluster %s; empty the directory and start it again, and it joins as a new member", ErrRemoved, path, d.id.Label, d.id.UUID, d.id.Cluster)
	}
	if err := checkEmpty(path, d.id); err != nil {
		return nil, err
	}
	if found {
		// The newest may be in the cache alone, where the sync that it ended with has failed. Nothing is made beside one that may go.
		err := d.Save(d.id)
		if errors.Is(err, unix.ENOSPC) && d.makeRoom() == nil {
			err = d.Save(d.id)
		}
		if err != nil {
			return nil, err
		}
	}
	return d, nil
}

// makeRoom removes what an interrupted snapshot or conversion has left, which the start would come to later: it may be what fills the disk, and
// nothing can be written before it is gone. A file system may count as taken what a power cut would bring back, so the folders are synced.
func (d *Dir) makeRoom() error {
	return changeDir(d.path, func() error {
		snaps := filepath.Join(d.path, snapshotDir)
		err := changeDir(snaps, func() error { return dropUnfinished(snaps) })
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		for _, k := range Kinds {
			err = errors.Join(err, os.RemoveAll(k.path(d.path)+convertSuffix))
		}
		return err
	})
}

// empty says whether a node of this identity has stored nothing yet that anybody relies on: until it belongs to a cluster it has neither
// voted nor taken an entry.
func (id Identity) empty() bool { return !id.HasData || id.Cluster.IsZero() }

// checkEmpty refuses an empty node's identity beside what only a member has: it was put back from an older copy, and a start that believed
// it would make the log anew and vote a second time in terms that the node has voted in.
func checkEmpty(dir string, id Identity) error {
	if !id.empty() {
		return nil
	}
	damage := func(what string, a ...any) error {
		return &DamageError{File: filepath.Join(dir, identityFile), What: "it is an older copy: it says that this node belongs to no cluster yet, but " + fmt.Sprintf(what, a...)}
	}
	// A first start that was cut off may have left a file that cannot be read.
	if t, err := openTail(filepath.Join(dir, TailFile), false); err == nil {
		last, _ := t.marks()
		if err := t.close(); err != nil {
			return err
		}
		if last > 0 {
			return damage("%s says that entry %d was stored", TailFile, last)
		}
	}
	snaps, err := os.ReadDir(filepath.Join(dir, snapshotDir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("data directory: %w", err)
	}
	for _, s := range snaps {
		if s.IsDir() && !strings.HasSuffix(s.Name(), unfinished) {
			return damage("there is %s", filepath.Join(snapshotDir, s.Name()))
		}
	}
	return nil
}

// makeDirs makes a directory, and those above it that are missing, each with a durable name before there is anything in it: a power
// cut could take it away else, with whatever was synced in it.
func makeDirs(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	above := filepath.Dir(path)
	if err := makeDirs(above); err != nil {
		return err
	}
	made := false
	err := changeDir(above, func() error {
		err := os.Mkdir(path, 0o700)
		made = err == nil
		if errors.Is(err, os.ErrExist) {
			err = nil
		}
		return err
	})
	if err != nil && made {
		_ = os.Remove(path) // the next start would find it, with a name that no sync makes durable any more
	}
	return err
}

func readIdentity(path string) (Identity, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Identity{}, fmt.Errorf("read identity: %w", err)
	}
	var on identityOnDisk
	if err := json.Unmarshal(b, &on); err != nil {
		return Identity{}, &DamageError{File: path, What: "it is not JSON", Err: err}
	}
	sum, err := on.Identity.sum()
	if err != nil {
		return Identity{}, err
	}
	if on.Format > formatWAL {
		return Identity{}, fmt.Errorf("%s was written by a newer quorate (format %d, this one reads %d): start the newer one; going back is not possible", path, on.Format, formatWAL)
	}
	if sum != on.Sum || on.Format < 1 || on.UUID.IsZero() {
		return Identity{}, &DamageError{File: path, What: fmt.Sprintf("checksum is %q, its fields give %q", on.Sum, sum)}
	}
	if _, err := ParseKind(string(on.LogStore)); err != nil {
		return Identity{}, fmt.Errorf("%s: %w", path, err)
	}
	return on.Identity, nil
}

// Space is how many bytes this user may still write to the file system that the directory is on, and how many it has in all.
func (d *Dir) Space() (free, size int64, err error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(d.path, &fs); err != nil {
		return 0, 0, fmt.Errorf("free space of %s: %w", d.path, err)
	}
	return int64(fs.Bavail) * fs.Bsize, int64(fs.Blocks) * fs.Bsize, nil
}

// Identity is the identity as it is on disk.
func (d *Dir) Identity() Identity {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.id
}

// Save makes id durable and current. What may not change is compared.
func (d *Dir) Save(id Identity) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.id.UUID.IsZero() && (d.id.UUID != id.UUID || id.Incarnation < d.id.Incarnation || (!d.id.Cluster.IsZero() && !d.id.Founding && d.id.Cluster != id.Cluster)) {
		return fmt.Errorf("identity %+v cannot become %+v", d.id, id)
	}
	sum, err := id.sum()
	if err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	b, err := json.MarshalIndent(identityOnDisk{Identity: id, Sum: sum}, "", "  ")
	if err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	if err := WriteFile(filepath.Join(d.path, identityFile), append(b, '\n')); err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	d.id = id
	return nil
}

// WriteFile replaces a file (mode 0600) whole and durably.
func WriteFile(path string, b []byte) (err error) {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return changeDir(filepath.Dir(path), func() error { return os.Rename(tmp, path) })
}

// Close lets go of the directory.
func (d *Dir) Close() error { return unlock(d.lock) }

// unlock gives a lock up and closes its file. Closing alone would leave the lock to a process that is just being started, as long as that has
// a copy of the descriptor.
func unlock(f *os.File) error {
	return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
}
