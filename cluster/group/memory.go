package group

import (
	"time"

	"github.com/quorate/quorate/fsm"
)

// The leader's door judges how much the state holds, by the bytes that the state accounts for: bodies, results, dead letters,
// the KV, schedules, the texts of schemas and mappings, and all tables. From memoryFull percent of Limits.MemoryBytes on, enqueues are refused before they are proposed;
// acks, nacks, deletions and all else go on, so that what is there can be worked off. It is no part of the log: the state
// applies what was proposed, on every node.
const (
	memoryFull = 85 // percent
	// The state is weighed every 100 ms, and 50 ms later for each thousand queues, which it walks, a second at most: ten thousand
	// take a millisecond and a half. What comes in meanwhile is less than the percents that are left.
	memoryWeighs       = 100 * time.Millisecond
	memoryWeighsQueue  = 50 * time.Microsecond
	memoryWeighsSeldom = time.Second
)

var errMemory = &Error{Code: CodeOverloaded, Message: "the messages and tables of this node fill 85 % of limits.memory_bytes: " +
	"wait until some are done, delete dead letters, or raise it", RetryAfter: time.Second}

// accounted is how many bytes a state holds.
func accounted(m fsm.Memory) int64 {
	return m.ArenaLive + m.TableBytes + m.SessionBytes + m.ScheduleBytes + m.MappingBytes
}

// weigh looks at the state's memory, so often as memoryWeighs says. The state lock is held.
func (g *Group) weigh(now time.Duration) {
	if g.limits.MemoryBytes <= 0 {
		return
	}
	if !g.serving { // who does not lead says so, and nothing else
		g.crowded.Store(false)
		return
	}
	if now < g.weighAt {
		return
	}
	m := g.st.Memory()
	g.weighAt = now + min(memoryWeighs+memoryWeighsQueue*time.Duration(m.Queues), memoryWeighsSeldom)
	g.crowded.Store(accounted(m) >= g.limits.MemoryBytes/100*memoryFull)
}

// turnAway is why a proposal is refused for want of memory or of room on disk, nil: it is not.
func (g *Group) turnAway(p *Proposal) *Error {
	switch {
	case fsm.OpNumber(p.Op) != opEnqueue:
		return nil
	case g.crowded.Load():
		return errMemory
	}
	return g.refusesForSpace()
}
