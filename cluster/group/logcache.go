package group

import (
	"sync"

	"github.com/hashicorp/raft"
)

// LogCache keeps the newest entries of a log store in memory, so that followers and the state machine are served without
// a read of the disk. It is bounded by bytes, and compaction of the log's head only drops what compaction covers: raft's
// own cache counts entries, whatever their size, and is emptied at each compaction.
//
// Entries are kept as the store has left them (a store that fills in Extensions is seen doing so). Data is shared with
// raft and never changed.
type LogCache struct {
	store raft.LogStore
	limit int64

	mu    sync.RWMutex
	logs  []raft.Log // guarded by mu: ring of entries with rising, gapless indexes
	head  int        // guarded by mu: position of the oldest
	count int        // guarded by mu
	first uint64     // guarded by mu: index of the oldest, where count > 0
	bytes int64      // guarded by mu
}

// entryOverhead is what an entry costs beside its bytes.
const entryOverhead = 128

// NewLogCache puts a cache of at most limit bytes before store.
func NewLogCache(store raft.LogStore, limit int64) *LogCache {
	return &LogCache{store: store, limit: limit, logs: make([]raft.Log, 64)}
}

// IsMonotonic passes the store's answer on: raft drops the whole log after an install if the store cannot have gaps.
func (c *LogCache) IsMonotonic() bool {
	m, ok := c.store.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}

// FirstIndex is the store's.
func (c *LogCache) FirstIndex() (uint64, error) { return c.store.FirstIndex() }

// LastIndex is the store's.
func (c *LogCache) LastIndex() (uint64, error) { return c.store.LastIndex() }

// GetLog reads an entry from memory, or else from the store.
func (c *LogCache) GetLog(index uint64, log *raft.Log) error {
	c.mu.RLock()
	if c.count > 0 && index >= c.first && index-c.first < uint64(c.count) {
		*log = c.logs[(c.head+int(index-c.first))&(len(c.logs)-1)]
		c.mu.RUnlock()
		return nil
	}
	c.mu.RUnlock()
	return c.store.GetLog(index, log)
}

// StoreLog is StoreLogs for one.
func (c *LogCache) StoreLog(log *raft.Log) error { return c.StoreLogs([]*raft.Log{log}) }

// StoreLogs writes to the store and, if that has gone well, remembers the entries.
func (c *LogCache) StoreLogs(logs []*raft.Log) error {
	if err := c.store.StoreLogs(logs); err != nil {
		// What the store has now is not known: the cache must not know better.
		c.mu.Lock()
		c.clear()
		c.mu.Unlock()
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range logs {
		if c.count > 0 && l.Index != c.first+uint64(c.count) {
			c.clear() // a gap, or an overwrite that was not preceded by a delete
		}
		if c.count == 0 {
			c.first = l.Index
		}
		if c.count == len(c.logs) {
			c.grow()
		}
		c.logs[(c.head+c.count)&(len(c.logs)-1)] = *l
		c.count++
		c.bytes += size(l)
	}
	for c.bytes > c.limit && c.count > 0 {
		c.dropOldest()
	}
	return nil
}

// DeleteRange deletes from and to and what is between them, from the store and from memory.
func (c *LogCache) DeleteRange(from, to uint64) error {
	c.mu.Lock()
	switch {
	case c.count == 0 || to < c.first || from >= c.first+uint64(c.count):
	case from <= c.first:
		for c.count > 0 && c.first <= to {
			c.dropOldest()
		}
	case to >= c.first+uint64(c.count)-1:
		for c.count > 0 && c.first+uint64(c.count)-1 >= from {
			c.count--
			l := &c.logs[(c.head+c.count)&(len(c.logs)-1)]
			c.bytes -= size(l)
			*l = raft.Log{}
		}
	default:
		c.clear() // a hole in the middle; raft does not make one
	}
	c.mu.Unlock()
	return c.store.DeleteRange(from, to)
}

func (c *LogCache) dropOldest() {
	l := &c.logs[c.head]
	c.bytes -= size(l)
	*l = raft.Log{}
	c.head = (c.head + 1) & (len(c.logs) - 1)
	c.first++
	c.count--
}

func (c *LogCache) clear() {
	clear(c.logs)
	c.head, c.count, c.first, c.bytes = 0, 0, 0, 0
}

func (c *LogCache) grow() {
	logs := make([]raft.Log, 2*len(c.logs))
	for i := range c.count {
		logs[i] = c.logs[(c.head+i)&(len(c.logs)-1)]
	}
	c.logs, c.head = logs, 0
}

func size(l *raft.Log) int64 { return int64(len(l.Data)+len(l.Extensions)) + entryOverhead }
