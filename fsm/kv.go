package fsm

import (
	"bytes"

	"github.com/quorate/quorate/fsm/arena"
	"github.com/quorate/quorate/fsm/table"
)

// kvKey is a key with what it was last changed to: a value, or its deletion, which is kept for a while for those who watch.
type kvKey struct {
	rev   uint64 // position of the last change; 0: the record is free
	at    int64  // T of it
	key   arena.Ref
	value int32 // none: deleted
	prev  int32 // the list of living keys, or that of deletions, both by position
	next  int32
	ended bool // deleted by the end of its time
}

// kvValue is the body of a message that died, for all its keys.
type kvValue struct {
	id   ID // of the message
	blob arena.Ref
	refs int32 // keys
}

// kv is the table of keys, with what it takes to find them.
type kv struct {
	keys   table.Pages[kvKey]
	values table.Pages[kvValue]
	index  table.Index // by key
	byKey  table.Order // living keys
	byRev  table.Order // living keys and deletions
	living list
	gone   list
	counts kvCounts

	reserved int64 // keys that living messages may yet write
}

// kvCounts are the numbers of the KV that are state.
type kvCounts struct {
	rev   uint64 // position of the last change
	lost  uint64 // the highest position of a deletion that is not kept any more
	live  int64  // keys not yet reclaimed
	tombs int64  // deletions kept
	// Totals, which only grow.
	written, deleted, expired, dropped int64
}

func (s *State) initKV() {
	k := &s.kv
	k.living, k.gone = emptyList, emptyList
	k.byKey.Less = func(a, b int32) bool { return bytes.Compare(s.kvText(a), s.kvText(b)) < 0 }
	k.byRev.Less = func(a, b int32) bool { return k.keys.Get(a).rev < k.keys.Get(b).rev }
}

// kvText is the encoded key in a slot.
func (s *State) kvText(sl int32) []byte { return s.arena.Get(s.kv.keys.Get(sl).key) }

// kvFind is the record of a key, living or deleted.
func (s *State) kvFind(key []byte) (int32, bool) {
	return s.kv.index.Find(s.hashText(key), func(v int32) bool { return bytes.Equal(s.kvText(v), key) })
}

// kvThere says whether a key can be read at T.
func (s *State) kvThere(r *kvKey) bool { return r.value != none && r.at+KVTTLMillis > s.now }

func (k *kv) list(r *kvKey) *list {
	if r.value == none {
		return &k.gone
	}
	return &k.living
}

// kvLink enters a record with its newest position at the end of its list.
func (s *State) kvLink(sl int32) {
	k := &s.kv
	r := k.keys.Mut(sl)
	l := k.list(r)
	r.prev, r.next = l.tail, none
	if l.tail != none {
		k.keys.Mut(l.tail).next = sl
	} else {
		l.head = sl
	}
	l.tail = sl
	k.byRev.Insert(sl)
	if r.value == none {
		k.counts.tombs++
		return
	}
	k.values.Mut(r.value).refs++
	k.counts.live++
	k.byKey.Insert(sl)
}

// kvUnlink takes a record out of everything but the index.
func (s *State) kvUnlink(sl int32) {
	k := &s.kv
	k.byRev.Remove(sl)
	r := *k.keys.Get(sl)
	l := k.list(&r)
	if r.prev != none {
		k.keys.Mut(r.prev).next = r.next
	} else {
		l.head = r.next
	}
	if r.next != none {
		k.keys.Mut(r.next).prev = r.prev
	} else {
		l.tail = r.prev
	}
	if r.value == none {
		k.counts.tombs--
		return
	}
	k.counts.live--
	k.byKey.Remove(sl)
	v := k.values.Mut(r.value)
	if v.refs--; v.refs == 0 {
		s.arena.Free(v.blob)
		k.values.Free(r.value)
	}
}

// kvChange gives a record its new value, or none, at the next position.
func (s *State) kvChange(sl, value int32, ended bool) {
	k := &s.kv
	k.counts.rev++
	r := k.keys.Mut(sl)
	r.rev, r.at, r.value, r.ended = k.counts.rev, s.now, value, ended
	s.kvLink(sl)
	s.fx.KV = true
}

// kvPut writes a value under a key.
func (s *State) kvPut(key []byte, value int32) {
	k := &s.kv
	sl, ok := s.kvFind(key)
	if ok {
		s.kvUnlink(sl)
	} else {
		sl = k.keys.Alloc()
		k.keys.Mut(sl).key = s.arena.PutBytes(owner(ownKVKey, sl), key)
		k.index.Insert(s.hashText(key), sl)
	}
	s.kvChange(sl, value, false)
	k.counts.written++
}

// kvRemove deletes a living key; the deletion stays for those who watch, and pushes out the oldest where there are many.
func (s *State) kvRemove(sl int32, ended bool) {
	k := &s.kv
	s.kvUnlink(sl)
	s.kvChange(sl, none, ended)
	if ended {
		k.counts.expired++
	} else {
		k.counts.deleted++
	}
	if k.counts.tombs > s.lim.kvTombs {
		s.kvForget(k.gone.head)
		k.counts.dropped++
	}
}

// kvForget gives the record of a deletion back.
func (s *State) kvForget(sl int32) {
	k := &s.kv
	k.counts.lost = max(k.counts.lost, k.keys.Get(sl).rev)
	s.kvUnlink(sl)
	s.kvFree(sl)
}

func (s *State) kvFree(sl int32) {
	k := &s.kv
	text := s.kvText(sl)
	k.index.Delete(s.hashText(text), sl)
	s.arena.Free(k.keys.Get(sl).key)
	k.keys.Free(sl)
}

// kvWrite writes the body of a message that died under its keys, a blob of chunks.
func (s *State) kvWrite(id ID, keys, body []byte) {
	k := &s.kv
	v := k.values.Alloc()
	*k.values.Mut(v) = kvValue{id: id, blob: s.arena.PutBytes(owner(ownKVValue, v), body)}
	for len(keys) > 0 {
		var key []byte
		key, keys = chunk(keys)
		s.kvPut(key, v)
	}
}

func (s *State) kvDelete(op *KVDelete) Outcome {
	if !ValidKVKey(op.Key) {
		return refuse(InvalidArgument, FieldKV, 0)
	}
	sl, ok := s.kvFind(op.Key)
	if !ok || !s.kvThere(s.kv.keys.Get(sl)) {
		return refuse(NotFound, FieldKV, 0)
	}
	s.kvRemove(sl, false)
	return Outcome{}
}

// reclaimKV ends keys and forgets deletions whose time is over: both lists are in the order of T.
func (s *State) reclaimKV(left int) int {
	k := &s.kv
	for ; left > 0 && k.living.head != none; left-- {
		if k.keys.Get(k.living.head).at+KVTTLMillis > s.now {
			break
		}
		s.kvRemove(k.living.head, true)
	}
	for ; left > 0 && k.gone.head != none; left-- {
		if k.keys.Get(k.gone.head).at+KVTombMillis > s.now {
			break
		}
		s.kvForget(k.gone.head)
	}
	return left
}
