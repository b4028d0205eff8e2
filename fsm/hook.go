package fsm

import (
	"github.com/quorate/quorate/fsm/arena"
	"github.com/quorate/quorate/fsm/table"
)

// hook is what is to happen when a message ends, for the few that have such a thing: the keys that get its body if it dies,
// the batch that counts its end.
// It exists while the message lives, and is found by the message's id.
type hook struct {
	id    ID
	batch ID        // of which it is a member; zero: none
	keys  arena.Ref // chunks of encoded keys; 0: none
	prev  int32     // all hooks by message id
	next  int32
	count uint8 // keys
}

// hooks is the table of them. What a purge or a deletion takes leaves its hooks behind, since that must be done in one step;
// a sweep goes over all hooks then, so many an entry, and ends those whose message is gone. Which messages are gone is seen
// through their ids, so that it makes no difference how far their records have been given back.
type hooks struct {
	recs  table.Pages[hook]
	index table.Index // by message id
	all   list
	sweep sweep
}

// sweep is a walk over the hooks.
type sweep struct {
	at    int32 // the hook to look at next; none: no sweep is under way
	until ID    // the last one to look at
	again bool  // something else went meanwhile: once more from the first
}

// memberEnd says how a message with a hook ended.
type memberEnd uint8

const (
	endedDone      memberEnd = iota // acked, or a result was pushed
	endedDead                       // it died, whatever becomes of the dead letter
	endedCancelled                  // cancelled, purged, or deleted with its queue
)

func (h *hooks) bytes() int64 { return h.recs.Bytes() + h.index.Bytes() }

func (s *State) findHook(id ID) (int32, bool) {
	return s.hooks.index.Find(hashID(id), func(v int32) bool { return s.hooks.recs.Get(v).id == id })
}

// hooked says whether a message is to get a hook.
func (m *Message) hooked() bool { return len(m.Keys) > 0 || !m.Batch.IsZero() }

// checkHook says whether there is room for what a message's hook reserves; before are messages of the same ack.
func (s *State) checkHook(m *Message, before []ThenMessage) Outcome {
	if !m.Batch.IsZero() {
		if o := s.checkMember(m.Batch, before); o.Code != OK {
			return o
		}
	}
	if n := int64(len(m.Keys)); n > 0 && s.kv.counts.live+s.kv.reserved+s.pendingKeys+n > s.lim.kvKeys {
		return refuse(QueueFull, FieldKV, s.lim.kvKeys)
	}
	return Outcome{}
}

// hook gives a new message its hook.
func (s *State) hook(slot int32, m *Message) {
	b := s.meta[:0]
	for _, k := range m.Keys {
		b = appendChunk(b, k)
	}
	s.meta = b
	s.addHook(hook{id: s.messages.Get(slot).id, batch: m.Batch, count: uint8(len(m.Keys))}, b)
	if !m.Batch.IsZero() {
		s.addMember(m.Batch)
	}
	s.messages.Mut(slot).flags |= flagHooked
}

// addHook enters a hook; ids rise.
func (s *State) addHook(r hook, keys []byte) {
	h := &s.hooks
	sl := h.recs.Alloc()
	if len(keys) > 0 {
		r.keys = s.arena.PutBytes(owner(ownHook, sl), keys)
	}
	r.prev, r.next = h.all.tail, none
	if r.prev != none {
		h.recs.Mut(r.prev).next = sl
	} else {
		h.all.head = sl
	}
	h.all.tail = sl
	*h.recs.Mut(sl) = r
	h.index.Insert(hashID(r.id), sl)
	s.kv.reserved += int64(r.count)
}

// unhook does what a message's hook says, for a message that ends now. Its body is still there.
func (s *State) unhook(slot int32, how memberEnd) {
	m := s.messages.Get(slot)
	if m.flags&flagHooked == 0 {
		return
	}
	sl, ok := s.findHook(m.id)
	s.messages.Mut(slot).flags &^= flagHooked
	if !ok {
		return
	}
	m = s.messages.Get(slot)
	if r := s.hooks.recs.Get(sl); how == endedDead && r.count > 0 {
		var f fields
		f.parse(m.bits, s.arena.Get(m.body))
		s.kvWrite(m.id, s.arena.Get(r.keys), f.body)
	}
	s.dropHook(sl, how)
}

// dropHook gives a hook back with what it reserved, and counts the end of a batch's member.
func (s *State) dropHook(sl int32, how memberEnd) {
	h := &s.hooks
	r := *h.recs.Get(sl)
	if h.sweep.at == sl {
		h.sweep.at = r.next
	}
	if r.prev != none {
		h.recs.Mut(r.prev).next = r.next
	} else {
		h.all.head = r.next
	}
	if r.next != none {
		h.recs.Mut(r.next).prev = r.prev
	} else {
		h.all.tail = r.prev
	}
	h.index.Delete(hashID(r.id), sl)
	if r.keys != 0 {
		s.arena.Free(r.keys)
	}
	h.recs.Free(sl)
	s.kv.reserved -= int64(r.count)
	if !r.batch.IsZero() {
		s.endMember(r.batch, how)
	}
}

// startSweep begins a sweep, or has the one under way go round again: messages have gone without a word to their hooks.
func (s *State) startSweep() {
	w := &s.hooks.sweep
	switch {
	case s.hooks.all.head == none:
	case w.at == s.hooks.all.head: // it has none behind it: one sweep sees all that has gone
		w.until = s.hooks.recs.Get(s.hooks.all.tail).id
	case w.at != none:
		w.again = true
	default:
		w.at, w.until = s.hooks.all.head, s.hooks.recs.Get(s.hooks.all.tail).id
	}
}

// sweepHooks looks at the next hooks of a sweep, at most the format's number of records that an entry reclaims.
func (s *State) sweepHooks() {
	h := &s.hooks
	for left := s.lim.reclaim; left > 0 && h.sweep.at != none; left-- {
		sl := h.sweep.at
		r := h.recs.Get(sl)
		id, past := r.id, r.id.Compare(h.sweep.until) > 0
		if !past {
			h.sweep.at = r.next
			if _, ok := s.find(id); !ok {
				s.dropHook(sl, endedCancelled)
				s.fireBatches()
			}
		}
		if past || h.sweep.at == none {
			s.endRound()
		}
	}
	if h.sweep.at == none {
		s.endRound() // the hooks ahead of it ended by themselves
	}
}

func (s *State) endRound() {
	again := s.hooks.sweep.again
	s.hooks.sweep = sweep{at: none}
	if again {
		s.startSweep()
	}
}
