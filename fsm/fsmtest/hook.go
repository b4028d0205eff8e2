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

// sweepLater begins to look for hooks whose messages a purge or deletion has taken.
func (m *Model) sweepLater() {
	if len(m.hooks) > 0 {
		m.sweeping, m.swept = true, fsm.ID{}
	}
}

// sweep looks at so many hooks, in the order of their messages, and ends those whose message is gone.
func (m *Model) sweep() {
	if !m.sweeping {
		return
	}
	there := map[fsm.ID]bool{}
	for _, q := range m.queues {
		for _, x := range q.messages {
			there[x.id] = true
		}
	}
	looked := 0
	for _, h := range slices.Clone(m.hooks) {
		if h.message.Compare(m.swept) <= 0 {
			continue
		}
		m.swept = h.message
		if !there[h.message] {
			m.sometimes("sweep: a hook whose message was purged")
			m.unhook(h, settledCancelled, nil)
			m.callbacks()
		}
		if looked++; looked == maxReclaims { // whether there are more is for the next entry to see
			m.sometimes("sweep: goes on in the next entry")
			return
		}
	}
	m.sweeping = false
}
