package mapping

import (
	"fmt"
	"sync"
)

// What a program takes, measured and rounded up: some, and so much for each part of it, ours included.
const (
	programBytes = 2 << 10
	partBytes    = 160
	maxBytes     = 1 << 20 // none takes so much
)

// maxHeld is how many bytes the programs take that are kept in this process, all together.
const maxHeld = 64 << 20

var held struct {
	mu       sync.Mutex
	programs int // guarded by mu
	bytes    int // guarded by mu
}

// Bytes is about how much the program takes.
func (p *Program) Bytes() int { return p.bytes }

// Keep counts a program in that is to be kept, until Drop, or says that there is no room for it.
func (p *Program) Keep() error {
	held.mu.Lock()
	defer held.mu.Unlock()
	if held.bytes+p.bytes > maxHeld {
		return fmt.Errorf("the mappings of this node take %d bytes, and all of them may take %d: fewer or shorter ones would be right", held.bytes, maxHeld)
	}
	held.programs++
	held.bytes += p.bytes
	return nil
}

// Drop counts it out.
func (p *Program) Drop() {
	held.mu.Lock()
	defer held.mu.Unlock()
	held.programs--
	held.bytes -= p.bytes
}

// Held is how many programs are kept in this process, and about how many bytes they take.
func Held() (programs, bytes int) {
	held.mu.Lock()
	defer held.mu.Unlock()
	return held.programs, held.bytes
}
