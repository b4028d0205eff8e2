//go:build !wasip1

package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const (
	// TailFile has the marks beside the log (see tail).
	TailFile = "raft.tail"
	// markKey holds who the log belongs to: UUID, incarnation.
	markKey = "quorate/node"
)

// Disk is the pair of durable stores of one group in the data directory.
type Disk struct {
	Log    *Log
	Stable *Stable

	kind   Kind
	engine engine
	tail   *tail
	path   string
}

// path is where a log of this kind is, in a data directory.
func (k Kind) path(dir string) string {
	if k == WAL {
		return filepath.Join(dir, WALDir)
	}
	return filepath.Join(dir, LogFile)
}

// create makes an empty log of this kind at path, where there is nothing.
func (k Kind) create(path string, id UUID, segment uint64) (engine, error) {
	if k == WAL {
		return createWAL(path, id, segment)
	}
	return openBolt(path)
}

// open opens the log of a node, whose entries end at last at least. It is checked first, and what an earlier process has written and not
// synced, or tried to, is made durable before anybody is told of it.
func (k Kind) open(path string, id UUID, segment, last uint64) (engine, error) {
	if k == WAL {
		return openWAL(path, id, segment, last)
	}
	if err := renewBolt(path); err != nil && !errors.Is(err, os.ErrNotExist) { // checkBolt has the words for that
		return nil, err
	}
	if err := checkBolt(path); err != nil {
		return nil, err
	}
	return openBolt(path)
}

// check reads the structure of a log and changes nothing.
func (k Kind) check(path string, id UUID, last uint64) error {
	if k == WAL {
		_, _, err := checkWAL(path, id, last, false)
		return err
	}
	return checkBolt(path)
}

// remove removes a log of this kind, if there is one.
func (k Kind) remove(dir string) error { return os.RemoveAll(k.path(dir)) }

// ErrOtherStore is a data directory whose log is of another kind than the node is configured for.
var ErrOtherStore = errors.New("this data directory has a log store of another kind")

// choose is the kind of log that a node opens: the one that is there, or for a new one the one it was told.
func choose(d *Dir, told Kind, fresh bool) (Kind, error) {
	if fresh {
		if told == "" {
			told = DefaultKind
		}
		return told, nil
	}
	have := d.Identity().Kind()
	if told != "" && told != have {
		return "", fmt.Errorf("%w: the log in %s is a %q one, raft.log_store is %q: run `quorate log convert --data-dir %s --to %s` while the node is stopped, or set raft.log_store to %q, or to \"\" for whatever is there",
			ErrOtherStore, d.path, have, told, d.path, told, have)
	}
	return have, nil
}

// OpenDisk opens the log of the node that id describes and raises the incarnation in both, so that a log, or an identity,
// that was put back from an older copy is told from the one that belongs here. The log is made when the identity says that
// there is no data yet, or that the node belongs to no cluster. One of another kind than o.Kind is ErrOtherStore.
func OpenDisk(d *Dir, halt *Halt, o LogOptions) (_ *Disk, err error) {
	id := d.Identity()
	fresh := id.empty()
	kind, err := choose(d, o.Kind, fresh)
	if err != nil {
		return nil, err
	}
	tailPath := filepath.Join(d.path, TailFile)
	if fresh {
		for _, k := range Kinds {
			if err := k.remove(d.path); err != nil { // of a start that was not finished
				return nil, err
			}
		}
	}
	t, err := openTail(tailPath, fresh)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = t.close()
		}
	}()
	if !fresh {
		if err := t.renew(); err != nil {
			return nil, fmt.Errorf("write %s once more: %w", tailPath, err)
		}
	}
	var e engine
	if fresh {
		e, err = kind.create(kind.path(d.path), id.UUID, o.segment)
	} else {
		last, _ := t.marks()
		e, err = kind.open(kind.path(d.path), id.UUID, o.segment, last)
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = e.Close()
		}
	}()
	disk := newDisk(e, kind, kind.path(d.path), t, halt, o)
	if fresh {
		err = disk.Stable.prepare()
	} else {
		if err = disk.resume(id); err == nil {
			err = disk.Log.Settle()
		}
		if err == nil {
			err = errors.Join(e.sweep(), disk.vouch())
		}
	}
	if err != nil {
		return nil, err
	}
	if err := disk.Stable.Set([]byte(markKey), mark(id.UUID, id.Incarnation+1)); err != nil {
		return nil, err
	}
	id.Incarnation++
	id.HasData = true
	id.setKind(kind)
	if err := d.Save(id); err != nil {
		return nil, err
	}
	return disk, removeOthers(d.path, kind)
}

// removeOthers removes what a conversion has left: of the log that was converted, or of one that it did not finish.
func removeOthers(dir string, kind Kind) error {
	for _, k := range Kinds {
		if k != kind {
			if err := errors.Join(k.remove(dir), os.RemoveAll(k.path(dir)+convertSuffix)); err != nil {
				return err
			}
		}
	}
	return nil
}

// convertSuffix is what the path of a log has that a conversion has not finished.
const convertSuffix = ".converting"

func newDisk(e engine, kind Kind, path string, t *tail, halt *Halt, o LogOptions) *Disk {
	o.File, o.tail = path, t
	if kind == WAL {
		o.slice = 1 << 62 // it drops whole files: a compaction in one piece is as quick as a small one
	}
	k := &Disk{Log: NewLog(e, halt, o), Stable: NewStable(e, halt, path), kind: kind, engine: e, tail: t, path: path}
	if w, ok := e.(*walStore); ok {
		w.fatal = func(err error) { _ = halt.trip(err) }
	}
	k.Log.fileOf = e.fileOf
	k.Stable.tail = t
	return k
}

func mark(id UUID, incarnation uint64) []byte {
	return binary.BigEndian.AppendUint64(append([]byte(nil), id[:]...), incarnation)
}

// resume compares the log with the identity and with the marks.
func (k *Disk) resume(id Identity) error {
	if err := k.Stable.resume(markKey); err != nil {
		return err
	}
	m, _, err := k.Stable.get([]byte(markKey))
	if err != nil {
		return err
	}
	if len(m) != 24 || UUID(m[:16]) != id.UUID {
		return &DamageError{File: k.path, What: fmt.Sprintf("it is the log of another node, identity.json says %s", id.UUID)}
	}
	// A start writes the mark first and the identity second.
	switch n := binary.BigEndian.Uint64(m[16:]); {
	case n < id.Incarnation:
		return &DamageError{File: k.path, What: fmt.Sprintf("it is an older copy: its last start was number %d, identity.json counts %d", n, id.Incarnation)}
	case n > id.Incarnation+1:
		return &DamageError{File: identityFile, What: fmt.Sprintf("it is an older copy: it counts %d starts, %s counts %d", id.Incarnation, k.path, n)}
	}
	last, err := k.Log.LastIndex()
	if err != nil {
		return err
	}
	if want, _ := k.tail.marks(); last < want {
		return &DamageError{File: k.path, Index: last + 1, What: fmt.Sprintf("its entries end at %d, but entry %d was stored: the newest are gone", last, want)}
	}
	first, err := k.Log.FirstIndex()
	if err != nil {
		return err
	}
	if floor, _ := k.Log.floor(); last > floor && first > floor+1 {
		return &DamageError{File: k.path, Index: floor + 1, What: fmt.Sprintf("its entries begin at %d, but the newest snapshot ends at %d: those between are gone", first, floor)}
	}
	return nil
}

// vouch raises the end mark to what a start has found, which a power cut may have left behind: what has been told of from now on is missed if it
// is gone, also where nothing more is stored.
func (k *Disk) vouch() error {
	last, err := k.Log.LastIndex()
	if err != nil {
		return err
	}
	if marked, _ := k.tail.marks(); last <= marked {
		return nil
	}
	if err := k.tail.setLast(last, true); err != nil {
		return fmt.Errorf("write the end mark of %s: %w", k.path, err)
	}
	return nil
}

// Kind is the sort of log store that is open.
func (k *Disk) Kind() Kind { return k.kind }

// Bytes is what the log takes on disk.
func (k *Disk) Bytes() int64 { return k.engine.size() }

// Close closes the files. Calls that come later, or are under way, fail and change nothing in the log.
func (k *Disk) Close() error {
	err := guard(k.path, k.engine.Close)
	return errors.Join(err, k.tail.close())
}
