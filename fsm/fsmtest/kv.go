package fsmtest

import (
	"bytes"
	"slices"
	"sort"

	"github.com/quorate/quorate/fsm"
)

// Numbers of the contract for the KV and for batches.
const (
	maxKVRecords   = 1_000_000
	maxKVDeletions = 10_000
	maxKeys        = 16
	kvTTL          = 30 * day
	kvTombTTL      = int64(3600 * 1000)
)

// kv is the keys that undelivered messages have left behind, and what has become of keys.
type kv struct {
	records                            []*kvRecord // in the order of their last change
	keys                               int         // of these, living ones that are not reclaimed
	reserved                           int
	position                           uint64
	oldest                             uint64 // changes behind it can be told
	written, deleted, expired, dropped int64
}

// kvRecord is a key, or the memory of its deletion.
type kvRecord struct {
	key     []byte
	value   []byte
	message fsm.ID
	at, end int64
	rev     uint64
	deleted bool
	expired bool
}

// validKVKey judges the encoding of a key by the strings that it stands for.
func validKVKey(key []byte) bool {
	parts := fsm.KVKeyParts(key)
	if len(parts) < 1 || len(parts) > maxKeys || !bytes.Equal(fsm.AppendKVKey(nil, parts...), key) {
		return false
	}
	for _, p := range parts {
		if !validText([]byte(p), 256) {
			return false
		}
	}
	return true
}

func (k *kv) find(key []byte) *kvRecord {
	for _, r := range k.records {
		if bytes.Equal(r.key, key) {
			return r
		}
	}
	return nil
}

// change puts a record at the end of the order of changes, in place of what there was of its key.
func (m *Model) kvChange(r *kvRecord) {
	k := &m.kv
	if was := k.find(r.key); was != nil {
		k.records = remove(k.records, was)
		if !was.deleted {
			k.keys--
		}
	}
	k.position++
	r.rev, r.at = k.position, m.t
	if r.deleted {
		r.end = m.t + kvTombTTL
	} else {
		r.end = m.t + kvTTL
		k.keys++
	}
	k.records = append(k.records, r)
	m.fx.KV = true
	if !r.deleted {
		return
	}
	var first *kvRecord
	n := 0
	for _, r := range k.records {
		if r.deleted {
			if n++; first == nil {
				first = r
			}
		}
	}
	if n > maxKVDeletions {
		m.kvForget(first)
		k.dropped++
	}
}

// kvForget drops a deletion that nobody can be told of any more.
func (m *Model) kvForget(r *kvRecord) {
	m.kv.records = remove(m.kv.records, r)
	m.kv.oldest = max(m.kv.oldest, r.rev)
}

func (m *Model) kvWrite(key, body []byte, id fsm.ID) {
	if was := m.kv.find(key); was != nil {
		if was.deleted {
			m.sometimes("kv: a deleted key is written again")
		} else {
			m.sometimes("kv: a key is overwritten")
		}
	}
	m.kv.written++
	m.kvChange(&kvRecord{key: slices.Clone(key), value: body, message: id})
}

func (m *Model) kvDelete(op *fsm.KVDelete) fsm.Outcome {
	if !validKVKey(op.Key) {
		return refuse(fsm.InvalidArgument, fsm.FieldKV)
	}
	r := m.kv.find(op.Key)
	if r == nil || r.deleted || m.ended(r.end) {
		return refuse(fsm.NotFound, fsm.FieldKV)
	}
	m.kv.deleted++
	m.kvChange(&kvRecord{key: slices.Clone(op.Key), deleted: true})
	return fsm.Outcome{}
}

// kvReclaim is the end of a key's time, or of the memory of its deletion.
func (m *Model) kvReclaim(r *kvRecord) {
	if r.deleted {
		m.sometimes("kv: a deletion is forgotten")
		m.kvForget(r)
		return
	}
	m.sometimes("kv: a key ends")
	m.kv.expired++
	m.kvChange(&kvRecord{key: r.key, deleted: true, expired: true})
}

// hasPrefix says whether a key begins with the strings of a prefix.
func hasPrefix(key []byte, prefix []string) bool {
	parts := fsm.KVKeyParts(key)
	return len(parts) >= len(prefix) && slices.Equal(parts[:len(prefix)], prefix)
}

// KVList lists the living keys that begin with the given strings: string by string, bytes by bytes.
func (m *Model) KVList(prefix []string) (list []fsm.KVEntry) {
	for _, r := range m.kv.records {
		if !r.deleted && !m.ended(r.end) && hasPrefix(r.key, prefix) {
			list = append(list, r.entry())
		}
	}
	sort.Slice(list, func(i, j int) bool {
		return slices.Compare(fsm.KVKeyParts(list[i].Key), fsm.KVKeyParts(list[j].Key)) < 0
	})
	return list
}

// KVChanges lists the last changes of keys behind a position; not ok where deletions behind it may be forgotten.
func (m *Model) KVChanges(prefix []string, after uint64) (list []fsm.KVEntry, ok bool) {
	if after < m.kv.oldest || after > m.kv.position {
		return nil, false
	}
	for _, r := range m.kv.records {
		if over := !r.deleted && m.ended(r.end); over && r.rev > after {
			m.sometimes("kv: a key is over and not yet reclaimed")
		} else if r.rev > after && hasPrefix(r.key, prefix) { // the end of one that is over is told when it is reclaimed
			list = append(list, r.entry())
		}
	}
	return list, true
}

func (r *kvRecord) entry() fsm.KVEntry {
	e := fsm.KVEntry{Key: r.key, At: r.at, Rev: r.rev, Deleted: r.deleted, Expired: r.expired}
	if !r.deleted {
		e.Value, e.Message, e.EndsAt = r.value, r.message, r.end
	}
	return e
}

// KVStats counts as fsm.State.KVStats does, but for bytes.
func (m *Model) KVStats() fsm.KVStats {
	k := &m.kv
	s := fsm.KVStats{
		Keys: int64(k.keys), Reserved: int64(k.reserved), Position: k.position, Oldest: k.oldest,
		Written: k.written, Deleted: k.deleted, Expired: k.expired, DeletionsDropped: k.dropped,
	}
	s.Deletions = int64(len(k.records) - k.keys)
	values := map[fsm.ID]bool{}
	for _, r := range k.records {
		if !r.deleted {
			values[r.message] = true
		}
	}
	s.Values = int64(len(values))
	return s
}

// validKeys judges keys_if_undelivered.
func validKeys(keys [][]byte) bool {
	for i, k := range keys {
		if !validKVKey(k) || slices.ContainsFunc(keys[:i], func(other []byte) bool { return bytes.Equal(k, other) }) {
			return false
		}
	}
	return len(keys) <= maxKeys
}
