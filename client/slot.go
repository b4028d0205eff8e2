package client

import (
	"context"
	"slices"
	"time"
)

// slot is a caller that waits until fewer than MaxPending messages are pending.
type slot struct {
	ch    chan struct{}
	woken bool
}

// waitSlotLocked gives up the lock while it waits.
func (c *Client) waitSlotLocked(ctx context.Context, deadline int64) error {
	s := &slot{ch: make(chan struct{})}
	c.slots = append(c.slots, s)
	c.mu.Unlock()
	var timeout <-chan time.Time
	if deadline != 0 {
		t := time.NewTimer(time.Duration(deadline - c.now()))
		defer t.Stop()
		timeout = t.C
	}
	var err error
	select {
	case <-s.ch:
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-timeout:
		err = errCallTimeout
	}
	c.mu.Lock()
	if err == nil {
		return nil
	}
	if s.woken { // pass it on
		c.wakeSlotsLocked(1)
	} else if i := slices.Index(c.slots, s); i >= 0 {
		c.slots = slices.Delete(c.slots, i, i+1)
	}
	return ended(err, false, c.conn != nil, nil, c.lastErr)
}

// freeLocked gives back n slots.
func (c *Client) freeLocked(n int) {
	c.pending -= n
	c.wakeSlotsLocked(n)
	c.idleLocked()
}

func (c *Client) wakeSlotsLocked(n int) {
	n = min(n, len(c.slots))
	for _, s := range c.slots[:n] {
		s.woken = true
		close(s.ch)
	}
	c.slots = slices.Delete(c.slots, 0, n)
}
