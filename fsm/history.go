package fsm

import "encoding/binary"

// A history blob holds the last error and up to MaxHistory failed attempts, oldest first:
//
//	uvarint length, last error | { uvarint T, uvarint number, uvarint length, worker, uvarint length, error } …

// addFailure notes the failed attempt of a message that has just come back.
func (s *State) addFailure(sl int32, text []byte) {
	sd := s.sides.Mut(sl)
	old := s.blob(sd.history)
	_, attempts := chunk(old)
	if countAttempts(attempts) >= MaxHistory {
		attempts = skipAttempt(attempts)
	}
	b := appendChunk(s.hist[:0], CutText(text, MaxError))
	b = append(b, attempts...)
	b = binary.AppendUvarint(b, uint64(s.now))
	b = binary.AppendUvarint(b, uint64(sd.attempts))
	b = appendChunk(b, s.workerText(sd.worker))
	b = appendChunk(b, CutText(text, MaxAttemptError))
	s.hist = b
	s.arena.Free(sd.history)
	sd.history = s.arena.PutBytes(owner(ownHistory, sl), b)
}

// nextAttempt takes the first attempt off.
func nextAttempt(b []byte) (a Attempt, rest []byte) {
	v, b := uvarint(b)
	a.At = int64(v)
	v, b = uvarint(b)
	a.Number = int32(v)
	a.Worker, b = chunk(b)
	a.Error, b = chunk(b)
	return a, b
}

func skipAttempt(b []byte) []byte {
	_, b = nextAttempt(b)
	return b
}

func countAttempts(b []byte) (n int) {
	for ; len(b) > 0; n++ {
		b = skipAttempt(b)
	}
	return n
}

// decodeHistory gives the last error and appends the attempts; all alias b.
func decodeHistory(b []byte, to []Attempt) (last []byte, attempts []Attempt) {
	if len(b) == 0 {
		return nil, to
	}
	last, b = chunk(b)
	for len(b) > 0 {
		var a Attempt
		a, b = nextAttempt(b)
		to = append(to, a)
	}
	return last, to
}

// validHistory checks a history blob from a snapshot.
func validHistory(b []byte) bool {
	last, as := decodeHistory(b, nil)
	if len(last) > MaxError || len(as) < 1 || len(as) > MaxHistory {
		return false
	}
	again := appendChunk(nil, last)
	for _, a := range as {
		if a.At < 0 || a.At > MaxTime || a.Number < 0 || len(a.Worker) > MaxWorker || len(a.Error) > MaxAttemptError {
			return false
		}
		again = binary.AppendUvarint(again, uint64(a.At))
		again = binary.AppendUvarint(again, uint64(a.Number))
		again = appendChunk(again, a.Worker)
		again = appendChunk(again, a.Error)
	}
	return string(again) == string(b)
}

// workerText is a worker's text, nil for none.
func (s *State) workerText(w int32) []byte {
	if w == none {
		return nil
	}
	return s.arena.Get(s.workers.Get(w).text)
}
