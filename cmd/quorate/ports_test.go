package main

import (
	"slices"
	"sync"
	"testing"

	"github.com/quorate/quorate/bench/proc"
)

var given struct {
	sync.Mutex
	ports []string // guarded by Mutex
}

// freePorts are loopback addresses for a node's clients, for raft and for gossip that nobody listens on. Tests run at once, and none is
// given to two of them.
func freePorts(t *testing.T) [3]string {
	t.Helper()
	given.Lock()
	defer given.Unlock()
	for {
		free, err := proc.FreePorts(3)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(free, func(addr string) bool { return slices.Contains(given.ports, addr) }) {
			given.ports = append(given.ports, free...)
			return [3]string(free)
		}
	}
}
