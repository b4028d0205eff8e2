//go:build !wasip1

package store

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

const (
	snapshotDir   = "snapshots"
	snapshotMeta  = "meta.json"
	snapshotState = "state.bin"
	unfinished    = ".tmp" // behind the name of a snapshot that is being written
	// keepSnapshots is how many snapshots stay on disk.
	keepSnapshots = 2

	snapMagic   = "QRSNAP01" // the last two characters are the version
	snapEnd     = "QRSNPEND"
	snapHeadLen = 8 + 8 + 8 + 8 + 4 + 4
	snapFootLen = 8 + 8 + 4 + 4
)

// Snapshots is a raft.SnapshotStore of files, in the layout of raft's own. That one leaves the metadata unchecked, falls back to an
// older snapshot when the newest is damaged, and sums the state up with a CRC64 that takes longer than all else. Here state.bin
// carries a header that repeats the metadata and a footer with length and checksum; whatever disagrees trips the Halt, before raft
// can look further (semantics G16).
//
//	state.bin: "QRSNAP01" | index 8 | term 8 | configuration index 8 | CRC32C of the configuration 4 | CRC32C of this header 4
//	           state …
//	           "QRSNPEND" | length of the state 8 | CRC32C of header and state 4 | CRC32C of this footer 4
type Snapshots struct {
	halt   *Halt
	dir    string
	newest atomic.Pointer[raft.SnapshotMeta] // nil: there is none
	// names is held for writing while a snapshot gets or loses its name, and for reading from the look at names until what they name is
	// open: raft lists and opens for its followers while another goroutine finishes one, which takes the oldest away.
	names  sync.RWMutex
	listed func() // between the names and what they name, for tests; nil: nothing
}

// OpenSnapshots opens the snapshots below the data directory and removes what an interrupted one has left.
func OpenSnapshots(d *Dir, halt *Halt) (*Snapshots, error) {
	dir := filepath.Join(d.path, snapshotDir)
	if d.Identity().empty() {
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("snapshot directory: %w", err)
	}
	if err := dropUnfinished(dir); err != nil {
		return nil, fmt.Errorf("snapshot directory: %w", err)
	}
	s := &Snapshots{halt: halt, dir: dir}
	metas, err := s.verify()
	if err != nil {
		return nil, err
	}
	if len(metas) > 0 {
		s.newest.Store(metas[0])
	}
	return s, nil
}

// dropUnfinished removes what interrupted snapshots have left below dir.
func dropUnfinished(dir string) error {
	// The names that were given last may be in the cache alone. The log is compacted by what is found.
	if err := renewSnapshots(dir); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), unfinished) {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return fmt.Errorf("remove an unfinished snapshot: %w", err)
			}
		}
	}
	return nil
}

// Newest is the last entry that is in the newest whole snapshot, 0 without one.
func (s *Snapshots) Newest() (index, term uint64) {
	if m := s.newest.Load(); m != nil {
		return m.Index, m.Term
	}
	return 0, 0
}

// configurationSum covers every field of the servers.
func configurationSum(c raft.Configuration) uint32 {
	var b []byte
	for _, v := range c.Servers {
		b = append(b, byte(v.Suffrage))
		b = binary.AppendUvarint(b, uint64(len(v.ID)))
		b = append(b, v.ID...)
		b = binary.AppendUvarint(b, uint64(len(v.Address)))
		b = append(b, v.Address...)
	}
	return crc32.Checksum(b, castagnoli)
}

func snapHead(index, term, configIndex uint64, c raft.Configuration) []byte {
	b := make([]byte, 0, snapHeadLen)
	b = append(b, snapMagic...)
	b = binary.BigEndian.AppendUint64(b, index)
	b = binary.BigEndian.AppendUint64(b, term)
	b = binary.BigEndian.AppendUint64(b, configIndex)
	b = binary.BigEndian.AppendUint32(b, configurationSum(c))
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func snapFoot(length uint64, sum uint32) []byte {
	b := make([]byte, 0, snapFootLen)
	b = append(b, snapEnd...)
	b = binary.BigEndian.AppendUint64(b, length)
	b = binary.BigEndian.AppendUint32(b, sum)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// verify checks metadata, header, footer and sizes of every snapshot on disk, not yet the state's own bytes. The newest comes first. names
// is held where others know of s.
func (s *Snapshots) verify() ([]*raft.SnapshotMeta, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	if s.listed != nil {
		s.listed()
	}
	var metas []*raft.SnapshotMeta
	for _, e := range entries {
		if !e.IsDir() || strings.HasSuffix(e.Name(), unfinished) || strings.HasSuffix(e.Name(), again) {
			continue
		}
		m, err := s.verifyOne(e.Name())
		if err != nil {
			return nil, err
		}
		metas = append(metas, m)
	}
	slices.SortFunc(metas, func(a, b *raft.SnapshotMeta) int {
		return cmp.Or(byAge(a, b), strings.Compare(b.ID, a.ID))
	})
	return metas, nil
}

// byAge is below 0 where a is the newer one.
func byAge(a, b *raft.SnapshotMeta) int {
	return cmp.Or(cmp.Compare(b.Term, a.Term), cmp.Compare(b.Index, a.Index))
}

func (s *Snapshots) verifyOne(id string) (*raft.SnapshotMeta, error) {
	metaPath, statePath := filepath.Join(s.dir, id, snapshotMeta), filepath.Join(s.dir, id, snapshotState)
	var m raft.SnapshotMeta
	b, err := os.ReadFile(metaPath)
	if err != nil {
		return nil, &DamageError{File: metaPath, What: "it cannot be read", Err: err}
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, &DamageError{File: metaPath, What: "it is not JSON", Err: err}
	}
	f, err := os.Open(statePath)
	if err != nil {
		return nil, &DamageError{File: statePath, What: "it cannot be read", Err: err}
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, &DamageError{File: statePath, What: "it cannot be read", Err: err}
	}
	var head [snapHeadLen]byte
	var foot [snapFootLen]byte
	if st.Size() < snapHeadLen+snapFootLen {
		return nil, &DamageError{File: statePath, What: fmt.Sprintf("it is cut short at %d bytes", st.Size())}
	}
	if _, err := f.ReadAt(head[:], 0); err != nil {
		return nil, &DamageError{File: statePath, What: "it cannot be read", Err: err}
	}
	if _, err := f.ReadAt(foot[:], st.Size()-snapFootLen); err != nil {
		return nil, &DamageError{File: statePath, What: "it cannot be read", Err: err}
	}
	if string(head[:8]) != snapMagic || crc32.Checksum(head[:snapHeadLen-4], castagnoli) != binary.BigEndian.Uint32(head[snapHeadLen-4:]) {
		return nil, &DamageError{File: statePath, What: "its header fails its checksum, or is of another version than " + snapMagic}
	}
	if string(foot[:8]) != snapEnd || crc32.Checksum(foot[:snapFootLen-4], castagnoli) != binary.BigEndian.Uint32(foot[snapFootLen-4:]) {
		return nil, &DamageError{File: statePath, What: "its footer fails its checksum, or the file is cut short"}
	}
	if n := binary.BigEndian.Uint64(foot[8:]); n != uint64(st.Size()-snapHeadLen-snapFootLen) {
		return nil, &DamageError{File: statePath, What: fmt.Sprintf("its state has %d bytes, %d were written", st.Size()-snapHeadLen-snapFootLen, n)}
	}
	if m.ID != id || m.Size != st.Size() || m.Version != raft.SnapshotVersionMax || string(snapHead(m.Index, m.Term, m.ConfigurationIndex, m.Configuration)) != string(head[:]) {
		return nil, &DamageError{File: metaPath, Index: m.Index, What: "it disagrees with the header of " + snapshotState}
	}
	return &m, nil
}

// fail trips the halt unless err comes from it.
func (s *Snapshots) fail(what string, err error) error {
	var d *DamageError
	if !errors.As(err, &d) {
		err = fmt.Errorf("%s in %s: %w", what, s.dir, err)
	}
	return s.halt.trip(err)
}

// List implements raft.SnapshotStore. Size counts the state alone.
func (s *Snapshots) List() ([]*raft.SnapshotMeta, error) {
	if err := s.halt.hold(); err != nil {
		return nil, err
	}
	s.names.RLock()
	metas, err := s.verify()
	s.names.RUnlock()
	if err != nil {
		return nil, s.fail("list snapshots", err)
	}
	metas = metas[:min(len(metas), keepSnapshots)]
	for _, m := range metas {
		m.Size -= snapHeadLen + snapFootLen
	}
	return metas, nil
}

// Open implements raft.SnapshotStore. The state's bytes have all been checked when it returns, and are again while they
// are read.
func (s *Snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	if err := s.halt.hold(); err != nil {
		return nil, nil, err
	}
	path := filepath.Join(s.dir, id, snapshotState)
	m, f, err := s.find(id, path)
	if err != nil {
		return nil, nil, s.fail("open a snapshot", err)
	}
	m.Size -= snapHeadLen + snapFootLen
	r := &snapReader{s: s, f: f, path: path}
	buf := make([]byte, snapCheck)
	if err = r.begin(m.Size); err == nil {
		for err == nil {
			_, err = r.Read(buf)
		}
		if err == io.EOF { //nolint:errorlint // straight from Read
			err = r.begin(m.Size)
		}
	}
	if err != nil {
		_ = f.Close() // only read
		return nil, nil, err
	}
	return m, r, nil
}

// find checks a snapshot as verify does and opens its state, which can be read from then on though it lose its name.
func (s *Snapshots) find(id, path string) (*raft.SnapshotMeta, *os.File, error) {
	s.names.RLock()
	defer s.names.RUnlock()
	m, err := s.verifyOne(id)
	if err != nil {
		return nil, nil, err
	}
	f, err := os.Open(path)
	return m, f, err
}

// snapCheck is how much is read at once to check a snapshot before it is used.
const snapCheck = 1 << 20

// snapReader hands out the state and checks the footer when it comes to its end.
type snapReader struct {
	s      *Snapshots
	f      *os.File
	path   string
	left   int64
	length int64
	sum    uint32
	done   bool
}

// begin goes to the beginning of a state of so many bytes.
func (r *snapReader) begin(size int64) error {
	head := make([]byte, snapHeadLen)
	if _, err := r.f.ReadAt(head, 0); err != nil {
		return r.s.fail("read a snapshot", fmt.Errorf("%s: %w", r.path, err))
	}
	if _, err := r.f.Seek(snapHeadLen, io.SeekStart); err != nil {
		return r.s.fail("read a snapshot", fmt.Errorf("%s: %w", r.path, err))
	}
	r.left, r.length, r.sum, r.done = size, size, crc32.Checksum(head, castagnoli), false
	return nil
}

func (r *snapReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		if !r.done {
			foot := make([]byte, snapFootLen)
			if _, err := io.ReadFull(r.f, foot); err != nil {
				return 0, r.s.fail("read a snapshot", fmt.Errorf("%s: %w", r.path, err))
			}
			if string(foot) != string(snapFoot(uint64(r.length), r.sum)) {
				return 0, r.s.fail("read a snapshot", &DamageError{File: r.path, What: "its bytes fail the checksum in its footer"})
			}
			r.done = true
		}
		return 0, io.EOF
	}
	if int64(len(p)) > r.left {
		p = p[:r.left]
	}
	n, err := r.f.Read(p)
	r.sum = crc32.Update(r.sum, castagnoli, p[:n])
	r.left -= int64(n)
	if err != nil && (err != io.EOF || n == 0) {
		return n, r.s.fail("read a snapshot", fmt.Errorf("%s: %w", r.path, err))
	}
	return n, nil
}

func (r *snapReader) Close() error { return r.f.Close() }
