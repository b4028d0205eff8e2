package schema

import (
	"errors"
	"sync"
)

// Cache keeps schemas ready, the ones that were asked for last. It is for several goroutines.
type Cache struct {
	most, mostBytes int

	mu    sync.Mutex
	all   map[string]*entry // guarded by mu: by text
	bytes int               // guarded by mu: of all
	use   uint64            // guarded by mu: of the entry used last
}

type entry struct {
	text   string
	once   sync.Once // compiles it
	schema *Schema
	err    error

	used  uint64 // guarded by the cache's mu
	bytes int    // guarded by the cache's mu: 0 as long as it is being compiled
}

// errorBytes is what an error is counted as that is kept.
const errorBytes = 2 << 10

var errPanicked = errors.New("the schema cannot be used")

// NewCache makes one for so many schemas, at least one, of so many bytes together, by what they are estimated to take. One that is larger is
// kept alone.
func NewCache(most, mostBytes int) *Cache {
	return &Cache{most: max(most, 1), mostBytes: mostBytes, all: map[string]*entry{}}
}

// Get is the schema of a text, compiled unless it is at hand. Those who ask at once wait for one to compile it. An error is kept too.
func (c *Cache) Get(text string) (*Schema, error) {
	c.mu.Lock()
	c.use++
	e := c.all[text]
	if e == nil {
		e = &entry{text: text}
		c.all[text] = e
	}
	e.used = c.use
	c.shrink(e)
	c.mu.Unlock()
	e.once.Do(func() {
		e.err = errPanicked // as long as it is not known to be otherwise
		e.schema, e.err = Compile(text)
		bytes := len(text) + errorBytes
		if e.schema != nil {
			bytes = e.schema.Bytes()
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.all[text] == e { // nobody has pushed it out meanwhile
			e.bytes = bytes
			c.bytes += bytes
			c.shrink(e)
		}
	})
	return e.schema, e.err
}

// shrink lets those go that were used longest ago until there is room. mu is held, and keep stays.
func (c *Cache) shrink(keep *entry) {
	for len(c.all) > 1 && (len(c.all) > c.most || c.bytes > c.mostBytes) {
		var oldest *entry
		for _, e := range c.all {
			if e != keep && (oldest == nil || e.used < oldest.used) {
				oldest = e
			}
		}
		delete(c.all, oldest.text)
		c.bytes -= oldest.bytes
	}
}

// Held is how many schemas are ready, and about how many bytes they take.
func (c *Cache) Held() (n, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all), c.bytes
}
