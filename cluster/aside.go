package cluster

import "runtime"

// asideNice is by how much a thread that does something aside lowers its priority: about a tenth of what others get where
// they leave it no more.
const asideNice = 10

// aside runs f on a thread of its own with a lower priority and returns when f has: what a node that comes back has to catch up
// with is to leave the CPU to the nodes that serve, where they share a machine, and to whatever else does. The thread ends
// with it, since a priority that was lowered may not be raised again. Where priorities are not a thread's own, or cannot be
// lowered, f just runs.
func aside(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked
		if mainThread() {      // which cannot end, and whose priority is shown as the process's
			defer runtime.UnlockOSThread()
			aside(f) // on another, since this one is taken
			return
		}
		lowerPriority(asideNice)
		f()
	}()
	<-done
}
