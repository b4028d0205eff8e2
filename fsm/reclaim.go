package fsm

// reclaim removes what time has ended, at most the format's number of records, by (table, end, position). Until then such
// records show nowhere but count against the maximum of their table.
func (s *State) reclaim() {
	left := s.lim.reclaim
	for _, k := range [...]int{clockDedup, clockResult, clockTomb} {
		left = s.reclaimTable(k, left)
	}
	left = s.reclaimSessions(left)
	left = s.reclaimTable(clockDead, left)
	left = s.reclaimKV(left)
	left = s.reclaimBatches(left)
	left = s.reclaimTable(clockDebt, left)
	left = s.reclaimIdems(left)
	s.behind = left <= 0
}

// over says whether an end in clock k has passed at T. A dedup key holds at its last millisecond still.
func (s *State) over(k int, end int64) bool {
	if k == clockDedup {
		return end < s.now
	}
	if k == clockDebt {
		return paid(end, s.now)
	}
	return end <= s.now
}

func (s *State) reclaimTable(k, left int) int {
	for ; left > 0; left-- {
		end, qs, ok := s.clocks[k].Min()
		if !ok || !s.over(k, end) {
			break
		}
		q := s.queues[qs]
		switch k {
		case clockDedup:
			_, sl, _ := q.dedups.Pop()
			s.dropDedup(q, sl)
			s.tallies.Mut(qs).dedups--
		case clockResult:
			_, sl, _ := q.results.Pop()
			t := s.tallies.Mut(qs)
			t.results--
			t.resultBytes -= s.resultCost(s.results.Get(sl))
			q.order.remove(s.results.Get(sl).seq)
			s.dropResult(sl)
		case clockTomb:
			s.dropTomb(q)
		case clockDead:
			s.dropDead(q, q.dead.head)
		case clockDebt:
			s.reclaimDebt(q)
		}
		s.clockFix(k, q)
	}
	return left
}

func (s *State) reclaimSessions(left int) int {
	for left > 0 {
		listed, sl, ok := s.idle.Min()
		if !ok || listed > s.now {
			break
		}
		// The heap knows a bound that was right when the session was last looked at.
		if end := s.sessions.Get(sl).end(); end != listed {
			s.idle.Fix(0, end)
			continue
		}
		s.idle.Pop()
		s.dropSession(sl)
		left--
	}
	return left
}
