package client

import (
	"slices"
	"time"

	"github.com/quorate/quorate/wire"
)

// drain ends the consumer. It returns how many handlers did not come back.
func (k *consumer) drain() (left int) {
	c := k.c
	c.mu.Lock()
	k.draining = true
	k.untellLocked(k.s.telling)
	k.s.telling = k.s.telling[:0]
	kept := k.held[:0:0]
	for _, l := range k.held[k.heldHead:] {
		switch {
		case l.state != leaseHeld || l.lost != nil:
			c.dropLeaseLocked(l)
		case l.once:
			kept = append(kept, l) // nobody else will get it
		default:
			k.releaseLocked(l)
		}
	}
	k.held, k.heldHead = kept, 0
	k.s.credit = 0
	k.quiet = true
	if k.s.live && c.conn != nil && !c.closing {
		c.queueLocked(&call{
			typ: wire.TypeCredit, body: &wire.Credit{Sub: k.s.num}, size: 32, bound: c.conn,
			deadline: c.now() + int64(c.o.Timeout),
			notify: func(error) {
				c.mu.Lock()
				k.quiet = true
				k.changedLocked()
				c.mu.Unlock()
			},
		})
		k.quiet = false
	}
	c.mu.Unlock()

	none := func() bool { return len(k.s.out) == 0 && k.busy == 0 && k.quiet }
	if k.o.DrainTimeout < 0 || !k.await(k.o.DrainTimeout, none) {
		c.mu.Lock()
		k.over = true
		k.dropHeldLocked()
		var rs []run
		for _, l := range k.s.out {
			if f := l.cancel; f != nil && l.state == leaseRunning {
				rs = append(rs, func() { f(ErrDraining) })
			}
		}
		c.mu.Unlock()
		runAll(rs)
		k.await(drainGrace, func() bool { return k.busy == 0 })
		c.mu.Lock()
		for _, l := range slices.Clone(k.s.out) {
			if l.state == leaseRunning && l.lost == nil && !l.once {
				k.releaseLocked(l)
			}
		}
		c.mu.Unlock()
		k.await(drainGrace, func() bool { return k.settlingLeft() == 0 })
	}
	c.mu.Lock()
	left = k.busy
	var rs []run
	for _, l := range slices.Clone(k.s.out) {
		if cl := l.settle; cl != nil && cl.state != callDone {
			cl.cancelled = true
			if cl.state != callAnswered {
				rs = append(rs, c.endLocked(cl, ErrDraining))
			}
		}
		c.dropLeaseLocked(l)
	}
	c.unsubscribeLocked(k.s, ErrDraining)
	close(k.run)
	c.mu.Unlock()
	runAll(rs)
	if left == 0 {
		k.wg.Wait()
	}
	return left
}

// dropHeldLocked gives up at-most-once deliveries that no handler has taken by the end of a drain.
func (k *consumer) dropHeldLocked() {
	lost := 0
	for _, l := range k.held[k.heldHead:] {
		if l.state == leaseHeld {
			lost++
			k.c.dropLeaseLocked(l)
		}
	}
	k.held, k.heldHead = nil, 0
	if lost > 0 {
		k.log.Warn("at-most-once deliveries are lost: no handler had taken them by the end of the drain", "count", lost)
	}
}

func (k *consumer) settlingLeft() int {
	n := 0
	for _, l := range k.s.out {
		if l.state == leaseSettling {
			n++
		}
	}
	return n
}

// await waits until cond holds, looking after each change; false: it did not within d.
func (k *consumer) await(d time.Duration, cond func() bool) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		k.c.mu.Lock()
		ok := cond()
		k.c.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-k.changed:
		case <-t.C:
			return false
		}
	}
}
