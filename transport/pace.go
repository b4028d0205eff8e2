package transport

import (
	"context"
	"sync"
	"time"

	"github.com/quorate/quorate/fsm"
)

// pace remembers how many messages each queue had been given over the last minute. It looks at this node's own state, so that a new leader
// knows at once; of more than MetricQueues queues the first by name are watched.
type pace struct {
	srv *Server

	mu    sync.Mutex
	looks []look // guarded by mu: oldest first, the first one a minute or more ago once there have been so many
}

// look is what the queues had been given at a time.
type look struct {
	at       time.Time
	enqueued map[string]int64
}

const (
	paceEvery = 10 * time.Second
	paceOver  = time.Minute
)

// keep looks until ctx ends.
func (p *pace) keep(ctx context.Context) {
	t := time.NewTicker(paceEvery)
	defer t.Stop()
	for {
		p.look(ctx)
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// look holds the state for pageHold queues at a time.
func (p *pace) look(ctx context.Context) {
	l := look{at: time.Now(), enqueued: make(map[string]int64)}
	after, more := "", true
	for more && len(l.enqueued) < p.srv.cfg.MetricQueues {
		more = false
		held := 0
		_, err := p.srv.group("").Read(ctx, true, func(st *fsm.State) {
			st.Queues(after, func(n uint32, name string) bool {
				if held == pageTasksHold {
					more = true
					return false
				}
				held++
				after = name
				l.enqueued[name] = st.Stats(n).Enqueued
				return true
			})
		})
		if err != nil {
			return
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looks = append(p.looks, l)
	for len(p.looks) > 1 && l.at.Sub(p.looks[1].at) >= paceOver {
		p.looks = append(p.looks[:0], p.looks[1:]...)
	}
}

// lastMinute is how many of so many messages in all came within the last minute, or since this node has looked.
func (p *pace) lastMinute(queue string, enqueued int64) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.looks) == 0 {
		return 0
	}
	l := &p.looks[0]
	n := enqueued - l.enqueued[queue] // one that was not there then has been given all of its messages since
	if n < 0 {                        // it was deleted and made again
		n = enqueued
	}
	if d := time.Since(l.at); d > paceOver {
		n = int64(float64(n) * float64(paceOver) / float64(d))
	}
	return n
}
