package fsmtest

import (
	"slices"

	"github.com/quorate/quorate/fsm"
)

// hook is what a message has to do when it ends.
type hook struct {
	message fsm.ID
	keys    [][]byte // that get the body if it dies
	batch   fsm.ID   // that counts its end
}

// settled says how a message has ended.
type settled int

const (
	settledDone settled = iota
	settledDead
	settledCancelled // purged and deleted ones too
)

// checkHook says why a message cannot have the keys and the batch that it names.
func (m *Model) checkHook(x *fsm.Message) fsm.Outcome {
	if !x.Batch.IsZero() {
		b := m.batchByID(x.Batch)
		switch {
		case b == nil:
			return refuse(fsm.NotFound, fsm.FieldBatchID)
		case b.sealed:
			return refuse(fsm.FailedPrecondition, fsm.FieldBatchID)
		case b.open >= maxMembers:
			return fsm.Outcome{Code: fsm.QueueFull, Field: fsm.FieldMembers, Limit: maxMembers}
		}
	}
	if n := len(x.Keys); n > 0 && m.kv.keys+m.kv.reserved+n > maxKVRecords {
		return fsm.Outcome{Code: fsm.QueueFull, Field: fsm.FieldKV, Limit: maxKVRecords}
	}
	return fsm.Outcome{}
}

// hookOn notes what a message that was accepted has to do at its end.
func (m *Model) hookOn(id fsm.ID, x *fsm.Message) {
	if len(x.Keys) == 0 && x.Batch.IsZero() {
		return
	}
	h := &hook{message: id, batch: x.Batch}
	for _, k := range x.Keys {
		h.keys = append(h.keys, slices.Clone(k))
	}
	m.kv.reserved += len(h.keys)
	if b := m.batchByID(x.Batch); b != nil {
		b.added++
		b.open++
	}
	m.hooks = append(m.hooks, h)
}

// settle does what a message has to do at its end; body is that of one that died.
func (m *Model) settle(id fsm.ID, how settled, body []byte) {
	for _, h := range m.hooks {
		if h.message == id {
			m.unhook(h, how, body)
			return
		}
	}
}

func (m *Model) unhook(h *hook, how settled, body []byte) {
	if m.sweep.at == h {
		m.sweep.at = m.hookBehind(h)
	}
	m.hooks = remove(m.hooks, h)
	m.kv.reserved -= len(h.keys)
	if how == settledDead {
		for _, k := range h.keys {
			m.kvWrite(k, body, h.message)
		}
	}
	if b := m.batchByID(h.batch); b != nil {
		m.memberEnded(b, how)
	} else if !h.batch.IsZero() {
		m.sometimes("batch: a member's batch has ended before it")
	}
}

// sweep is a walk over all hooks that were there when it began, to end those whose messages a purge or deletion has taken.
type sweep struct {
	at    *hook  // the next to look at; nil: no sweep is under way
	until fsm.ID // the last message to look at
	again bool   // there was a purge behind the sweep's back: it goes round again
}

// sweepLater begins a sweep, or makes sure that the one under way sees what has gone now.
func (m *Model) sweepLater() {
	switch w := &m.sweep; {
	case len(m.hooks) == 0:
	case w.at == nil, w.at == m.hooks[0]:
		w.at, w.until = m.hooks[0], m.hooks[len(m.hooks)-1].message
	default:
		m.sometimes("sweep: a purge while one is under way")
		w.again = true
	}
}

// hookBehind is the hook after another one.
func (m *Model) hookBehind(h *hook) *hook {
	if i := slices.Index(m.hooks, h) + 1; i < len(m.hooks) {
		return m.hooks[i]
	}
	return nil
}

// sweepHooks looks at so many hooks, in the order of their messages.
func (m *Model) sweepHooks() {
	w := &m.sweep
	if w.at == nil && !w.again {
		return
	}
	there := map[fsm.ID]bool{}
	for _, q := range m.queues {
		for _, x := range q.messages {
			there[x.id] = true
		}
	}
	for left := maxReclaims; left > 0 && w.at != nil; left-- {
		h := w.at
		past := h.message.Compare(w.until) > 0
		if !past {
			w.at = m.hookBehind(h)
			if !there[h.message] {
				m.sometimes("sweep: a hook whose message was purged")
				m.unhook(h, settledCancelled, nil)
				m.callbacks()
			}
		}
		if past || w.at == nil {
			m.sweepRound()
		}
	}
	if w.at == nil { // those ahead ended by themselves
		m.sweepRound()
	}
	if w.at != nil {
		m.sometimes("sweep: goes on in the next entry")
	}
}

// sweepRound ends a round of the sweep.
func (m *Model) sweepRound() {
	again := m.sweep.again
	m.sweep = sweep{}
	if again {
		m.sweepLater()
	}
}
