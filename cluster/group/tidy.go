package group

import "time"

// What time has ended, and what a purge or a deletion has left, is given back a bounded number of records an entry. Where no
// entries come, or the door lets none in for want of memory, the leader proposes empty ones: one a second while something has
// ended, and one a beat while there is more than an entry does.
const tidyEvery = time.Second

// tidyUp calls for an entry if the state has something to give back and none has come for a while. The state lock is held.
func (g *Group) tidyUp(now time.Duration) {
	if !g.serving || g.tidy {
		return
	}
	t, _ := g.time.now()
	some, much := g.st.Untidy(t)
	g.tidy = much || some && now >= g.tidyAt
}

// tidied notes that an entry is on its way, which does what an empty one would. The state lock is held.
func (g *Group) tidied() {
	g.tidy = false
	g.tidyAt = g.clock.Mono() + tidyEvery
}
