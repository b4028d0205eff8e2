package group

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/fsm"
)

// held is what the leader's state accounts for.
func (nd *node) held() (bytes int64, m fsm.Memory) {
	nd.g.mu.Lock()
	defer nd.g.mu.Unlock()
	m = nd.g.st.Memory()
	return accounted(m), m
}

// fill enqueues n small messages with dedup keys.
func (nd *node) fill(t *testing.T, many int) {
	t.Helper()
	body := []byte(strings.Repeat("x", 400))
	for i := 0; i < many; i += 500 {
		op := &fsm.Enqueue{Queue: []byte("q")}
		for j := range 500 {
			m := fsm.Message{Body: body, HasDedup: true, DedupKey: fsm.HashDedup(fmt.Append(nil, i+j))}
			op.Messages = append(op.Messages, m)
		}
		nd.do(t, op)
	}
}

// A full node lets nothing in, and nothing else comes: what a purge has left, and what time ends, is given back all the same, on
// every node, and then enqueues go on.
func TestTidiesWithoutEntries(t *testing.T) {
	const many = 6000
	for _, c := range []struct {
		name string
		act  func(t *testing.T, l *node)
	}{
		{"after a purge", func(t *testing.T, l *node) { l.do(t, &fsm.PurgeQueue{Name: []byte("q")}) }},
		{"after a deletion", func(t *testing.T, l *node) { l.do(t, &fsm.DeleteQueue{Name: []byte("q")}) }},
		{"after what is dead has ended", func(t *testing.T, l *node) {
			for range many / 1000 {
				l.do(t, &fsm.Lease{Queue: []byte("q"), Max: 1000})
			}
			pass(2 * time.Second) // every lease ends, and each was the last
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				limit := int64(0)
				cl := newCluster(t, 3, func(cfg *Config) { cfg.Limits.MemoryBytes = 1 << 40 })
				defer cl.stop()
				l := cl.leader()
				l.do(t, &fsm.CreateQueue{Name: []byte("q"), Options: fsm.QueueOptions{
					LeaseMillis: 1000, DedupWindowMillis: 1000, DeadRetentionMillis: 3000,
					Retry: fsm.RetryPolicy{Kind: fsm.RetryFixed, MaxAttempts: 1},
				}})
				l.fill(t, many)
				limit, _ = l.held()
				l.g.mu.Lock()
				l.g.limits.MemoryBytes = limit * 100 / 90 // what is there is 90 % of it
				l.g.mu.Unlock()
				cl.until(time.Second, "full", func() bool {
					a := l.send(enqueue("q", "x")).wait(t)
					return a.err != nil && strings.Contains(a.err.Message, "memory_bytes")
				})
				c.act(t, l)
				before := l.g.applied.Load()
				cl.until(20*time.Second, "room again", func() bool { return l.send(enqueue("q", "x")).wait(t).err == nil })
				cl.until(20*time.Second, "all given back, on each node", func() bool {
					for _, n := range cl.nodes {
						if _, m := n.held(); m.Garbage+m.Dead+m.DedupKeys > 0 {
							return false
						}
					}
					return true
				})
				if n := l.g.applied.Load() - before; n > 60 {
					t.Errorf("%d entries were written", n)
				}
				// And then nothing more is written.
				pass(2 * time.Second)
				before = l.g.applied.Load()
				pass(10 * time.Second)
				if n := l.g.applied.Load() - before; n > 0 {
					t.Errorf("%d entries were written while there was nothing to do", n)
				}
			})
		})
	}
}
