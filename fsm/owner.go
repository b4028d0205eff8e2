package fsm

import "github.com/quorate/quorate/fsm/arena"

type ref = arena.Ref

// ownerRef is where the owner of a blob keeps its ref, nil where the slot is free.
func (s *State) ownerRef(o uint64, write bool) *ref {
	sl := int32(uint32(o))
	switch o >> 32 {
	case ownMessage:
		if !s.messages.Live(sl) {
			return nil
		}
		if write {
			return &s.messages.Mut(sl).body
		}
		return &s.messages.Get(sl).body
	case ownHistory:
		if !s.sides.Live(sl) {
			return nil
		}
		if write {
			return &s.sides.Mut(sl).history
		}
		return &s.sides.Get(sl).history
	case ownResult:
		if !s.results.Live(sl) {
			return nil
		}
		if write {
			return &s.results.Mut(sl).blob
		}
		return &s.results.Get(sl).blob
	case ownWorker:
		if !s.workers.Live(sl) {
			return nil
		}
		if write {
			return &s.workers.Mut(sl).text
		}
		return &s.workers.Get(sl).text
	case ownKey:
		if !s.keys.Live(sl) {
			return nil
		}
		if write {
			return &s.keys.Mut(sl).text
		}
		return &s.keys.Get(sl).text
	case ownMove:
		if !s.moves.Live(sl) {
			return nil
		}
		if write {
			return &s.moves.Mut(sl).history
		}
		return &s.moves.Get(sl).history
	case ownKVKey:
		if !s.kv.keys.Live(sl) {
			return nil
		}
		if write {
			return &s.kv.keys.Mut(sl).key
		}
		return &s.kv.keys.Get(sl).key
	case ownKVValue:
		if !s.kv.values.Live(sl) {
			return nil
		}
		if write {
			return &s.kv.values.Mut(sl).blob
		}
		return &s.kv.values.Get(sl).blob
	case ownBatch:
		if !s.batches.recs.Live(sl) {
			return nil
		}
		if write {
			return &s.batches.recs.Mut(sl).callback
		}
		return &s.batches.recs.Get(sl).callback
	case ownHook:
		if !s.hooks.recs.Live(sl) {
			return nil
		}
		if write {
			return &s.hooks.recs.Mut(sl).keys
		}
		return &s.hooks.recs.Get(sl).keys
	case ownIdemNote:
		if !s.idems.answers.Live(sl) {
			return nil
		}
		if write {
			return &s.idems.answers.Mut(sl).note
		}
		return &s.idems.answers.Get(sl).note
	}
	return nil
}
