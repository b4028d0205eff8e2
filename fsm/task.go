package fsm

// found is what a task's name leads to; slots, none where there is nothing. A message that is out or dead may have a
// pushed result beside it.
type found struct{ message, result, tomb int32 }

func (f found) any() bool { return f.message != none || f.result != none || f.tomb != none }

// resolve finds a task: by queue and task id, or by a broker id's text, with a queue or (q nil) without. strict takes an
// id only for a task that has it as its name, which is what uniqueness asks; else any message is found by its id.
func (s *State) resolve(q *queue, task []byte, strict bool) found {
	f := found{none, none, none}
	if q != nil {
		if slot, ok := s.findTask(q, task); ok {
			f.message = slot
		}
		if s.resultTk.Len()+s.tombTk.Len() > 0 {
			h := HashTask(q.meta.name, task)
			if sl, ok := s.findResultTask(&h); ok {
				f.result = sl
			}
			if sl, ok := s.findTombTask(&h); ok {
				f.tomb = sl
			}
		}
	}
	id, ok := ParseIDBytes(task)
	if !ok || id.IsZero() {
		return f
	}
	if f.any() && f.result == none {
		// The task was redriven, and its result pushed while it was still named by its id alone.
		if sl, ok := s.findResult(id); ok {
			if r := s.results.Get(sl); r.queue == q.slot && r.flags&resultHasTask == 0 {
				f.result = sl
			}
		}
	}
	if !f.any() {
		if slot, ok := s.find(id); ok {
			if m := s.messages.Get(slot); (q == nil || m.queue == q.slot) && (!strict || m.bits&hasTask == 0) && m.flags&flagCancelled == 0 {
				f.message = slot
			}
		}
		if sl, ok := s.findResult(id); ok {
			if r := s.results.Get(sl); (q == nil || r.queue == q.slot) && (!strict || r.flags&resultHasTask == 0) {
				f.result = sl
			}
		}
		if sl, ok := s.findTomb(id); ok && s.tombs.Get(sl).outcome() != tombClosed {
			if t := s.tombs.Get(sl); (q == nil || t.queue == q.slot) && (!strict || t.task == [16]byte{}) {
				f.tomb = sl
			}
		}
	}
	if !f.any() && q == nil {
		if slot, ok := s.findOrigin(id); ok {
			f.message = slot
		}
		if sl, ok := s.findResultOrigin(id); ok {
			f.result = sl
		}
	}
	if !f.any() && !strict {
		// A dead letter that was moved is found by the id that it had.
		if slot, ok := s.findMoved(id); ok && (q == nil || s.homeNumber(s.messages.Get(slot)) == q.meta.number) {
			f.message = slot
		}
	}
	if f.message != none && f.result == none {
		// A redriven task may have a result that was pushed under an id it had before.
		if m := s.messages.Get(f.message); m.flags&flagPushed != 0 {
			f.result = s.resultOf(m)
		}
	}
	return f
}

// answerOf is what already_exists says about a task: who holds its name, and whether a result is recorded.
func (s *State) answerOf(f found) (holder, task ID, hasResult bool) {
	switch {
	case f.message != none:
		holder = s.messages.Get(f.message).id
	case f.result != none:
		holder = s.results.Get(f.result).id
	default:
		holder = s.tombs.Get(f.tomb).id
	}
	if f.result != none {
		task, hasResult = s.results.Get(f.result).id, true
	}
	return holder, task, hasResult
}
