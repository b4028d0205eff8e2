package group

import "time"

// Space is what a node tells of the room on its disk. Where there is too little the leader's door refuses enqueues before they are proposed,
// so that what room there is serves the acks, nacks and deletions by which some comes back; and snapshots are taken as soon as they give
// back more than they take, since the log of those alone grows slowly, and what was deleted is on disk until then.
type Space struct {
	Refuse string // why enqueues are refused while this node leads, "": they are taken
	Low    bool   // there is little on this node's own disk
	Free   int64  // bytes that are left there
	Keep   int64  // bytes that should be
}

// space is what was said last.
type space struct {
	Space
	refusal *Error
}

// SetSpace says how much room there is on disk. A group that has not been told has enough.
func (g *Group) SetSpace(s Space) {
	if old := g.space.Load(); old != nil && old.Space == s {
		return
	}
	now := &space{Space: s}
	if s.Refuse != "" {
		now.refusal = &Error{Code: CodeNoSpace, Message: s.Refuse, RetryAfter: time.Second}
	}
	g.space.Store(now)
}

// SpaceClaimed is how many bytes a snapshot that is being written has still to write, about: they are as good as taken.
func (g *Group) SpaceClaimed() int64 { return max(g.claimed.Load(), 0) }

// refusesForSpace is why an enqueue is refused for want of room, nil: it is not. Who does not lead says so, and nothing else.
func (g *Group) refusesForSpace() *Error {
	if s := g.space.Load(); s != nil && s.refusal != nil && g.leads.Load() {
		return s.refusal
	}
	return nil
}

// lowSpace says whether there is little room on this node's disk.
func (g *Group) lowSpace() bool {
	s := g.space.Load()
	return s != nil && s.Low
}

// weight is how many bytes the state has, which is somewhat more than its snapshot.
func (g *Group) weight() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return accounted(g.st.Memory())
}

// claim takes the room for a snapshot, false where there is none: one that fails ends the node. What should be left is left, but for where it
// is not anyway and the snapshot is to give some back: then half is.
func (g *Group) claim() bool {
	s := g.space.Load()
	if s == nil {
		return true
	}
	w, most := g.weight(), s.Free-s.Keep
	if s.Low {
		most = s.Free / 2
	}
	if w > most {
		g.log.Warn("no snapshot for want of room on disk", "bytes", w, "free_bytes", s.Free)
		return false
	}
	g.claimed.Store(w)
	return true
}
