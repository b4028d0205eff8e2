package transport

import (
	"context"
	"time"

	"github.com/quorate/quorate/wire"
)

// errand is a slow request: one that reads pages of the state, waits, or asks other nodes. It has a goroutine of its own, at
// most MaxSlow of them a connection, and a deadline of CallTimeout beyond the request's own wait. It is cancelled when the
// connection ends, which waits for it.
type errand struct {
	c    *conn
	turn chan struct{} // that it holds a place in
}

// run carries a request out: the answer's type and body, or a fault.
type run func(ctx context.Context, e *errand) (wire.Type, any, *wire.Fault)

// slowly starts an errand. A request that holds much memory while it waits takes more than one seat of MaxSlow.
func (c *conn) slowly(tag uint64, wait time.Duration, seats int, do run) bool {
	most := c.srv.cfg.MaxSlow
	if seats = min(seats, most); int(c.seats.Add(int32(seats))) > most {
		c.seats.Add(int32(-seats))
		f := wire.NewFault(wire.CodeOverloaded, "as many reads and waits of this connection are under way as may be, up to %d: wait for answers", most)
		f.RetryAfterMillis = 100
		return c.fault(tag, f)
	}
	c.slow.Go(func() {
		defer c.seats.Add(int32(-seats))
		ctx, cancel := context.WithTimeout(c.ctx, wait+c.srv.cfg.CallTimeout)
		defer cancel()
		e := &errand{c: c}
		defer e.leaveTurn()
		t, body, f := do(ctx, e)
		if f != nil {
			c.fault(tag, f)
			return
		}
		c.push(t, tag, body)
	})
	return true
}

// takeTurn waits for one of the server's turns to copy out of the state; it is kept until the answer is in the outbox. So
// the copies that exist outside of outboxes are few, however many ask. Reads of local state have turns of their own, for
// when there is no majority and the others wait in vain.
func (e *errand) takeTurn(ctx context.Context, stale bool) *wire.Fault {
	turn := e.c.srv.turns
	if stale {
		turn = e.c.srv.staleTurns
	}
	select {
	case turn <- struct{}{}:
		e.turn = turn
		return nil
	case <-ctx.Done():
		f := wire.NewFault(wire.CodeTimeout, "too many reads were before this one")
		f.Unknown = false
		return f
	}
}

func (e *errand) leaveTurn() {
	if e.turn != nil {
		<-e.turn
		e.turn = nil
	}
}

// waiting is ctx for a wait that the request asks for. It ends before its time where a visit's waits end.
func (e *errand) waiting(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	w, cancel := context.WithTimeout(ctx, wait)
	if e.c.visit == nil {
		return w, cancel
	}
	stop := context.AfterFunc(e.c.visit, cancel)
	return w, func() {
		stop()
		cancel()
	}
}
