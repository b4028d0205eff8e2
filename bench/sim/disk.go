package sim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/cluster/store"
)

var errNotFound = errors.New("not found") // the text that raft looks for

// disk is what a node has on disk, below the product's own Log and Stable. A write takes a time and is there when it ends; until
// then a power cut takes it, or leaves the beginning of it. crash makes the disk that the next start finds; what died goes on with
// the old one, of which nothing is seen any more.
type disk struct {
	name    string
	dice    *dice
	most    int64 // µs that a write takes at most
	gapless bool
	blame   func(format string, args ...any)
	count   func(what string)
	stores  func(l *raft.Log) // sees every entry that is about to be written
	faulty  func() bool       // things go wrong still; nil: they do not

	mu      sync.Mutex
	dead    bool
	stalled time.Time // no write ends before
	fail    error     // of the next write that is for failAt
	failAt  string    // a key of Set, entries or removal; "": any
	failed  time.Time // when one failed
	logs    map[uint64]*raft.Log
	first   uint64
	last    uint64
	kv      map[string][]byte
	snaps   []*snapshot // the newest last
	pending [][]*raft.Log
	several chan struct{} // closed when several entries are being written at once; nil: nobody waits for that
}

// snapshot is one that is whole.
type snapshot struct {
	meta  raft.SnapshotMeta
	state []byte
}

func (d *disk) fresh(name string) *disk {
	return &disk{
		name: name, dice: d.dice, most: d.most, gapless: d.gapless, blame: d.blame, count: d.count, stores: d.stores, faulty: d.faulty,
		logs: map[uint64]*raft.Log{}, kv: map[string][]byte{},
	}
}

// crash ends this disk and makes the one that is found next. power: what was being written is lost, or torn.
func (d *disk) crash(power bool) *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.fresh(d.name)
	n.stalled = d.stalled
	n.logs, n.kv, n.snaps, n.first, n.last = maps.Clone(d.logs), maps.Clone(d.kv), slices.Clone(d.snaps), d.first, d.last
	if !d.dead && len(d.pending) > 0 {
		torn := d.pending[0]
		keep := len(torn)
		if power {
			keep = int(d.dice.upTo(int64(len(torn) + 1)))
			if keep > 0 && keep < len(torn) {
				d.count("batch torn")
			}
		}
		n.put(torn[:keep])
	}
	d.dead = true
	return n
}

// copied is an entry that nobody else has a hand on.
func copied(l *raft.Log) *raft.Log {
	c := *l
	c.Data, c.Extensions = bytes.Clone(l.Data), bytes.Clone(l.Extensions)
	return &c
}

// put stores entries. mu is held.
func (d *disk) put(logs []*raft.Log) {
	for _, l := range logs {
		d.logs[l.Index] = l
		if d.first == 0 || l.Index < d.first {
			d.first = l.Index
		}
		d.last = max(d.last, l.Index)
	}
}

// keep has entries at once. It is for a process that is dead, which may look for what it takes for stored.
func (d *disk) keep(logs []*raft.Log) {
	mine := make([]*raft.Log, len(logs))
	for i, l := range logs {
		mine[i] = copied(l)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.put(mine)
}

// What writes there are, beside keys of Set.
const (
	entries = "entries"
	removal = "removal" // of entries
)

// write takes as long as a write does, and says whether it fails.
func (d *disk) write(what string) error {
	d.work()
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.fail
	if err == nil || d.dead || d.failAt != "" && d.failAt != what {
		return nil
	}
	d.fail, d.failed = nil, time.Now()
	return err
}

// work takes as long as a write does.
func (d *disk) work() {
	time.Sleep(time.Duration(20+d.dice.upTo(d.most)) * time.Microsecond)
	for {
		d.mu.Lock()
		wait := time.Until(d.stalled)
		if d.dead {
			wait = 0
		}
		d.mu.Unlock()
		if wait <= 0 {
			return
		}
		time.Sleep(min(wait, 100*time.Millisecond))
	}
}

// busy takes a while, once in some calls, as long as things go wrong: up to most ms.
func (d *disk) busy(once, most int64) {
	if d.faulty == nil || !d.faulty() || d.dice.upTo(once) > 0 {
		return
	}
	d.mu.Lock()
	dead := d.dead
	d.mu.Unlock()
	if !dead {
		time.Sleep(time.Duration(1+d.dice.upTo(most)) * time.Millisecond)
	}
}

// StoreLogs implements raft.LogStore.
func (d *disk) StoreLogs(logs []*raft.Log) error {
	mine := make([]*raft.Log, len(logs))
	for i, l := range logs {
		if err := store.Verify(l); err != nil {
			d.blame("G16: %s stores entry %d though it is damaged: %v", d.name, l.Index, err)
		}
		mine[i] = copied(l)
	}
	d.mu.Lock()
	if !d.dead {
		for _, l := range mine {
			d.stores(l)
		}
	}
	if d.gapless && d.last != 0 && logs[0].Index != d.last+1 {
		defer d.mu.Unlock()
		return fmt.Errorf("entry %d does not follow entry %d", logs[0].Index, d.last)
	}
	d.pending = append(d.pending, mine)
	if len(mine) > 1 && d.several != nil {
		close(d.several)
		d.several = nil
	}
	d.mu.Unlock()
	err := d.write(entries)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pending = slices.DeleteFunc(d.pending, func(p []*raft.Log) bool { return &p[0] == &mine[0] })
	if err != nil {
		d.put(mine[:d.dice.upTo(int64(len(mine)+1))])
		return err
	}
	d.put(mine)
	return nil
}

// StoreLog implements raft.LogStore.
func (d *disk) StoreLog(l *raft.Log) error { return d.StoreLogs([]*raft.Log{l}) }

// FirstIndex implements raft.LogStore.
func (d *disk) FirstIndex() (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.first, nil
}

// LastIndex implements raft.LogStore.
func (d *disk) LastIndex() (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last, nil
}

// GetLog implements raft.LogStore.
func (d *disk) GetLog(index uint64, out *raft.Log) error {
	d.busy(64, 50)
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.logs[index]
	if l == nil {
		return raft.ErrLogNotFound
	}
	*out = *copied(l)
	return nil
}

// DeleteRange implements raft.LogStore.
func (d *disk) DeleteRange(from, to uint64) error {
	if err := d.write(removal); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.dead && from > d.first && to >= d.last && d.last >= from {
		d.count("log truncated")
	}
	d.first, d.last = 0, 0
	for i := range d.logs {
		if from <= i && i <= to {
			delete(d.logs, i)
			continue
		}
		if d.first == 0 || i < d.first {
			d.first = i
		}
		d.last = max(d.last, i)
	}
	return nil
}

// IsMonotonic implements raft.MonotonicLogStore.
func (d *disk) IsMonotonic() bool { return d.gapless }

// end is the index of the last entry.
func (d *disk) end() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last
}

// has says whether an entry is on disk, or in a snapshot.
func (d *disk) has(index, term uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.logs[index]; l != nil && l.Term == term {
		return true
	}
	return len(d.snaps) > 0 && d.snaps[len(d.snaps)-1].meta.Index >= index
}

// Set implements raft.StableStore.
func (d *disk) Set(key, val []byte) error {
	val = bytes.Clone(val)
	if err := d.write(string(key)); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kv[string(key)] = val
	return nil
}

// Get implements raft.StableStore.
func (d *disk) Get(key []byte) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v, ok := d.kv[string(key)]
	if !ok {
		return nil, errNotFound
	}
	return bytes.Clone(v), nil
}

// SetUint64 implements raft.StableStore. The product's Stable stores bytes alone.
func (d *disk) SetUint64([]byte, uint64) error { return errors.New("sim: numbers are not stored") }

// GetUint64 implements raft.StableStore.
func (d *disk) GetUint64([]byte) (uint64, error) { return 0, errors.New("sim: numbers are not stored") }

// batch is closed as soon as several entries begin to be written at once.
func (d *disk) batch() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.several == nil {
		d.several = make(chan struct{})
	}
	return d.several
}

// stall has no write end for a while.
func (d *disk) stall(until time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if until.After(d.stalled) {
		d.stalled = until
	}
}

// flow ends a stall.
func (d *disk) flow() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stalled, d.fail = time.Time{}, nil
}

// breakNext has the next write fail; what "": whatever it is for.
func (d *disk) breakNext(what string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail, d.failAt = err, what
}

// broke says when a write failed, zero: none has.
func (d *disk) broke() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

// flip damages one bit of what a start reads, and says where; "" where there is nothing.
func (d *disk) flip() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v := d.kv["CurrentTerm"]; len(v) > 0 && d.dice.upTo(8) == 0 {
		v = bytes.Clone(v)
		at := d.dice.upTo(int64(len(v) * 8))
		v[at/8] ^= 1 << (at % 8)
		d.kv["CurrentTerm"] = v
		return fmt.Sprintf("bit %d of CurrentTerm", at)
	}
	low := d.first
	if n := len(d.snaps); n > 0 {
		low = max(low, d.snaps[n-1].meta.Index+1) // raft reads what follows the snapshot
	}
	if d.last == 0 || low > d.last {
		return ""
	}
	index := low + uint64(d.dice.upTo(int64(d.last-low+1)))
	l := d.logs[index]
	if l == nil {
		return ""
	}
	l = copied(l)
	switch b := l.Data; {
	case len(b) > 0:
		at := d.dice.upTo(int64(len(b) * 8))
		b[at/8] ^= 1 << (at % 8)
	default:
		l.Term ^= 1 << d.dice.upTo(8)
	}
	d.logs[index] = l
	return fmt.Sprintf("a bit of entry %d", index)
}

// snaps is a disk's raft.SnapshotStore: two are kept, each is there when it is whole.
type snaps struct{ *disk }

// newest is the last entry that is in the newest one.
func (d snaps) newest() (index, term uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.snaps) == 0 {
		return 0, 0
	}
	m := &d.snaps[len(d.snaps)-1].meta
	return m.Index, m.Term
}

// Create implements raft.SnapshotStore.
func (d snaps) Create(v raft.SnapshotVersion, index, term uint64, c raft.Configuration, ci uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	d.busy(16, 1000)
	meta := raft.SnapshotMeta{Version: v, ID: fmt.Sprintf("%d-%d-%d", term, index, time.Now().UnixNano()), Index: index, Term: term, Configuration: c, ConfigurationIndex: ci}
	return &sink{d: d.disk, snap: &snapshot{meta: meta}}, nil
}

// List implements raft.SnapshotStore.
func (d snaps) List() (out []*raft.SnapshotMeta, err error) {
	d.busy(16, 1000)
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := len(d.snaps) - 1; i >= 0; i-- {
		m := d.snaps[i].meta
		out = append(out, &m)
	}
	return out, nil
}

// Open implements raft.SnapshotStore.
func (d snaps) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	d.busy(4, 3000)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.snaps {
		if s.meta.ID == id {
			m := s.meta
			return &m, io.NopCloser(bytes.NewReader(s.state)), nil
		}
	}
	return nil, nil, fmt.Errorf("there is no snapshot %s", id)
}

var errOvertaken = errors.New("sim: there is a newer snapshot")

type sink struct {
	bytes.Buffer
	d      *disk
	snap   *snapshot
	closed bool
}

func (s *sink) ID() string    { return s.snap.meta.ID }
func (s *sink) Cancel() error { return nil }

// Close is for whoever writes the snapshot, and once more, for nothing, for raft.
func (s *sink) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	s.d.busy(4, 3000)
	s.d.work() // what fails is a write of the log: the product's snapshot store, which would stop the node, is not here
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if n := len(s.d.snaps); n > 0 && s.d.snaps[n-1].meta.Index > s.snap.meta.Index {
		s.d.count("snapshot overtaken by another one")
		return errOvertaken // as the product's
	}
	s.snap.meta.Size, s.snap.state = int64(s.Len()), s.Bytes()
	s.d.snaps = append(s.d.snaps, s.snap)
	if n := len(s.d.snaps); n > 2 {
		s.d.snaps = slices.Clone(s.d.snaps[n-2:])
	}
	return nil
}
