package schema

import "sync"

// Cache keeps schemas ready, the ones that were asked for last. It is for several goroutines.
type Cache struct {
	most int

	mu  sync.Mutex
	all map[string]*entry // guarded by mu: by text
	use uint64            // guarded by mu: of the entry used last
}

type entry struct {
	schema *Schema
	err    error
	used   uint64 // guarded by the cache's mu
}

// NewCache makes one for so many schemas, at least one.
func NewCache(most int) *Cache { return &Cache{most: max(most, 1), all: map[string]*entry{}} }

// Get is the schema of a text, compiled unless it is at hand. An error is kept too.
func (c *Cache) Get(text string) (*Schema, error) {
	c.mu.Lock()
	c.use++
	e := c.all[text]
	if e != nil {
		e.used = c.use
	}
	c.mu.Unlock()
	if e != nil {
		return e.schema, e.err
	}
	s, err := Compile(text) // twice where two come at once, which does no harm
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.all) >= c.most && c.all[text] == nil {
		oldest := ""
		for t, e := range c.all {
			if o := c.all[oldest]; o == nil || e.used < o.used {
				oldest = t
			}
		}
		delete(c.all, oldest)
	}
	c.all[text] = &entry{schema: s, err: err, used: c.use}
	return s, err
}
