package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/bench/load"
	"github.com/quorate/quorate/client"
)

// W7: many messages in a queue; all servers are killed and started again.
const (
	queuedProducers = 8
	restartTry      = 2 * time.Second // of one try to send, and one to receive
)

// queuedResult is what W7 finds.
type queuedResult struct {
	Messages   int     `json:"messages"`
	FillPerS   float64 `json:"fill_msgs_per_s"`
	RSS        []int64 `json:"rss_bytes"` // of each node, the queue full
	RestartS   float64 `json:"restart_s"` // from the start of the processes until a message was enqueued and one received
	RSSAfter   []int64 `json:"rss_bytes_after_restart"`
	DepthAfter int64   `json:"depth_after"`
}

func (b *bench) queued(ctx context.Context, t target, m *measurement) error {
	queue := fmt.Sprintf("bench.W7.%d", m.Repeat)
	q := &queuedResult{Messages: b.o.queued}
	begun := time.Now()
	run := rand.Uint64()
	if err := b.fill(ctx, t, queue, run); err != nil {
		return fmt.Errorf("fill the queue: %w", err)
	}
	q.FillPerS = float64(q.Messages) / time.Since(begun).Seconds()
	if err := b.expect(ctx, t, queue, int64(q.Messages)); err != nil {
		return err
	}
	q.RSS = resident(t)
	killAll(t.nodes()...)
	begun = time.Now()
	for _, p := range t.nodes() {
		if err := p.Start(); err != nil {
			return err
		}
	}
	tries, at, err := b.back(ctx, t, queue, run)
	if err != nil {
		return err
	}
	q.RestartS = at.Sub(begun).Seconds()
	q.RSSAfter = resident(t)
	m.Queued = q
	// All are there, and one more at least: each try may have added one.
	ctx, cancel := context.WithTimeoutCause(ctx, b.within.settle, fmt.Errorf("not so within %s", b.within.settle))
	defer cancel()
	low, high := int64(q.Messages)+1, int64(q.Messages)+tries
	return poll(ctx, 50*time.Millisecond, fmt.Sprintf("%d to %d messages are to be in the queue after the restart", low, high), func() (err error) {
		q.DepthAfter, err = t.depth(ctx, queue)
		if err == nil && (q.DepthAfter < low || q.DepthAfter > high) {
			err = fmt.Errorf("the system counts %d", q.DepthAfter)
		}
		return err
	})
}

func resident(t target) (rss []int64) {
	for _, p := range t.nodes() {
		rss = append(rss, p.RSS())
	}
	return rss
}

// fill makes the queue and enqueues, all confirmed at the end.
func (b *bench) fill(ctx context.Context, t target, queue string, run uint64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	admin, err := t.connect(ctx, "bench-admin")
	if err != nil {
		return err
	}
	err = admin.CreateQueue(ctx, queue, client.QueueOptions{})
	closeConn(admin)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	var next atomic.Int64
	for i := range queuedProducers {
		conn, err := t.connect(ctx, fmt.Sprintf("bench-producer-%d", i))
		if err != nil {
			cancel(err)
			return err
		}
		wg.Go(func() {
			defer closeConn(conn)
			room := make(chan struct{}, load.DefaultOutstanding)
			take := func() bool {
				select {
				case room <- struct{}{}:
					return true
				case <-ctx.Done():
					return false
				}
			}
			done := func(_ client.Receipt, err error) {
				if err != nil {
					cancel(err)
				}
				<-room
			}
			for take() {
				seq := next.Add(1) - 1
				if seq >= int64(b.o.queued) {
					<-room
					break
				}
				if err := conn.EnqueueAsync(ctx, queue, client.Message{Body: load.NewBody(run, uint64(seq), b.o.size)}, done); err != nil {
					cancel(err)
					return
				}
			}
			for range cap(room) { // all have their outcome
				if !take() {
					return
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// back waits until a message can be enqueued and one received, and says how many tries that took and when it was.
func (b *bench) back(ctx context.Context, t target, queue string, run uint64) (tries int64, at time.Time, err error) {
	within := 10 * b.within.back
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("not back within %s", within))
	defer cancel()
	in := &inspection{size: b.o.size, run: run, seen: make(map[uint64]bool), many: true}
	err = poll(ctx, 20*time.Millisecond, "enqueue after the restart", func() error {
		tries++
		return b.once(ctx, t, queue, load.NewBody(run, uint64(b.o.queued)+uint64(tries), b.o.size))
	})
	if err != nil {
		return tries, at, err
	}
	err = poll(ctx, 20*time.Millisecond, "receive after the restart", func() (err error) {
		at, err = b.readSome(ctx, t, queue, in)
		return err
	})
	return tries, at, err
}

// once tries to enqueue one message.
func (b *bench) once(ctx context.Context, t target, queue string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, restartTry)
	defer cancel()
	conn, err := t.connect(ctx, "bench-restart")
	if err != nil {
		return err
	}
	defer closeConn(conn)
	_, err = conn.Enqueue(ctx, queue, client.Message{Body: body})
	return err
}

// readSome tries to receive a message, and says when it did.
func (b *bench) readSome(ctx context.Context, t target, queue string, in *inspection) (at time.Time, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, restartTry, errors.New("nothing was received"))
	defer cancel()
	conn, err := t.connect(ctx, "bench-consumer-restart")
	if err != nil {
		return at, err
	}
	defer closeConn(conn)
	got := make(chan []byte, 1)
	stop, err := conn.Subscribe(ctx, queue, 1, func(d *client.Delivery) {
		select {
		case got <- d.Body:
		default:
		}
	})
	if err != nil {
		return at, err
	}
	defer func() { _ = stop(ctx) }() // the client is closed next
	select {
	case body := <-got:
		return time.Now(), in.look(body)
	case <-ctx.Done():
		return at, context.Cause(ctx)
	}
}
