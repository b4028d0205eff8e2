package fsm

import "bytes"

// kvExamine is how many records a listing or a look at changes goes over in one call.
const kvExamine = 5000

// KVEntry is a key as a reader gets it; slices alias the state.
type KVEntry struct {
	Key     []byte // encoded, see KVKeyParts
	Value   []byte
	Message ID     // whose body it is
	At      int64  // T of the change
	EndsAt  int64  // T from which on the key is gone
	Rev     uint64 // position of the change
	Deleted bool   // in changes: the key is gone; value, message and end are unset
	Expired bool   // with Deleted: by the end of its time
}

// KVStats are the counters of the KV. Those under Totals only grow and are state.
type KVStats struct {
	Keys, Deletions, Reserved, Values int64 // not yet reclaimed; Reserved: keys that living messages may yet write
	Bytes                             int64 // of tables; keys and values are in the arena
	Position                          uint64
	Oldest                            uint64 // changes can be watched from this position on

	// Totals.
	Written, Deleted, Expired, DeletionsDropped int64
}

// KVStats are the KV's counters.
func (s *State) KVStats() KVStats {
	k := &s.kv
	c := &k.counts
	return KVStats{
		Keys: c.live, Deletions: c.tombs, Reserved: k.reserved, Values: int64(k.values.Len()),
		Bytes:    k.bytes() + s.hooks.bytes(),
		Position: c.rev, Oldest: c.lost,
		Written: c.written, Deleted: c.deleted, Expired: c.expired, DeletionsDropped: c.dropped,
	}
}

func (k *kv) bytes() int64 {
	return k.keys.Bytes() + k.values.Bytes() + k.index.Bytes() + k.byKey.Bytes() + k.byRev.Bytes()
}

// KVPosition is the position of the last change of the KV.
func (s *State) KVPosition() uint64 { return s.kv.counts.rev }

func (s *State) kvEntry(sl int32, e *KVEntry) {
	r := s.kv.keys.Get(sl)
	*e = KVEntry{Key: s.arena.Get(r.key), At: r.at, Rev: r.rev}
	if r.value == none {
		e.Deleted, e.Expired = true, r.ended
		return
	}
	v := s.kv.values.Get(r.value)
	e.Value, e.Message, e.EndsAt = s.arena.Get(v.blob), v.id, r.at+KVTTLMillis
}

// KVGet reads one key.
func (s *State) KVGet(key []byte, e *KVEntry) bool {
	sl, ok := s.kvFind(key)
	if !ok || !s.kvThere(s.kv.keys.Get(sl)) {
		return false
	}
	s.kvEntry(sl, e)
	return true
}

// KVList calls f for the keys that begin with prefix, in their order and behind after (nil: from the first), until it
// returns false. partial is the key to go on behind where the call has looked at as many records as it may, else nil; it
// aliases the state.
func (s *State) KVList(prefix, after []byte, f func(e *KVEntry) bool) (partial []byte) {
	k := &s.kv
	at := k.byKey.Seek(func(v int32) bool {
		text := s.kvText(v)
		return bytes.Compare(text, prefix) < 0 || after != nil && bytes.Compare(text, after) <= 0
	})
	var e KVEntry
	for range kvExamine {
		sl, ok := k.byKey.Next(&at)
		if !ok || !bytes.HasPrefix(s.kvText(sl), prefix) {
			return nil
		}
		partial = s.kvText(sl)
		if !s.kvThere(k.keys.Get(sl)) {
			continue
		}
		s.kvEntry(sl, &e)
		if !f(&e) {
			return nil
		}
	}
	return partial
}

// KVChanges calls f for the last change of each key under prefix that was changed behind the position after, in the order
// of positions, until it returns false. A key that was changed more than once shows its last change alone. It returns the
// position up to which everything has been looked at. ok is false, and nothing is called, where a deletion behind after is
// not kept any more, or after lies behind the last change: who watches must list again.
func (s *State) KVChanges(prefix []byte, after uint64, f func(e *KVEntry) bool) (upTo uint64, ok bool) {
	k := &s.kv
	if after < k.counts.lost || after > k.counts.rev {
		return after, false
	}
	at := k.byRev.Seek(func(v int32) bool { return k.keys.Get(v).rev <= after })
	upTo = after
	var e KVEntry
	for range kvExamine {
		sl, more := k.byRev.Next(&at)
		if !more {
			return k.counts.rev, true
		}
		r := k.keys.Get(sl)
		if bytes.HasPrefix(s.kvText(sl), prefix) && (r.value == none || s.kvThere(r)) {
			s.kvEntry(sl, &e)
			if !f(&e) {
				return upTo, true
			}
		}
		upTo = r.rev
	}
	return upTo, true
}
