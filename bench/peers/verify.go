package main

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/bench/load"
	"github.com/quorate/quorate/client"
)

// expect waits until the system itself says that a queue holds so many messages.
func (b *bench) expect(ctx context.Context, t target, queue string, want int64) error {
	ctx, cancel := context.WithTimeoutCause(ctx, b.within.settle, fmt.Errorf("not so within %s", b.within.settle))
	defer cancel()
	return poll(ctx, 50*time.Millisecond, fmt.Sprintf("%d messages are to be left in the queue", want), func() error {
		n, err := t.depth(ctx, queue)
		if err == nil && n != want {
			err = fmt.Errorf("the system counts %d", n)
		}
		return err
	})
}

// inspection checks messages that are read back: bytes, size, run, and none twice.
type inspection struct {
	size int
	run  uint64
	seen map[uint64]bool
	many bool // repeated messages are fine, and counted
	twos int64
}

func (in *inspection) look(body []byte) error {
	run, seq, err := load.ReadBody(body, in.size)
	switch {
	case err != nil:
		return err
	case len(in.seen) == 0 && in.run == 0:
		in.run = run
	case run != in.run:
		return fmt.Errorf("a message of another run was received (%x, this is %x)", run, in.run)
	}
	if in.seen[seq] {
		in.twos++
		if !in.many {
			return fmt.Errorf("message %d was received twice", seq)
		}
	}
	in.seen[seq] = true
	return nil
}

// sample reads messages back and checks them.
func (b *bench) sample(ctx context.Context, t target, queue string, n int64) error {
	if n == 0 {
		return nil
	}
	in := &inspection{size: b.o.size, seen: make(map[uint64]bool)}
	return b.readBack(ctx, t, queue, int(n), func() bool { return int64(len(in.seen)) >= n }, in)
}

// readBack receives messages, acknowledging each, until enough says that these were enough, or one is wrong.
func (b *bench) readBack(ctx context.Context, t target, queue string, credit int, enough func() bool, in *inspection) error {
	ctx, cancel := context.WithTimeoutCause(ctx, b.within.readBack, fmt.Errorf("not received within %s", b.within.readBack))
	defer cancel()
	conn, err := t.connect(ctx, "bench-consumer-sample")
	if err != nil {
		return err
	}
	defer closeConn(conn)
	bodies := make(chan *client.Delivery, 65536) // more than any window
	stop, err := conn.Subscribe(ctx, queue, credit, func(d *client.Delivery) {
		select {
		case bodies <- d:
		default: // nobody reads them any more
		}
	})
	if err != nil {
		return fmt.Errorf("read messages back: %w", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = stop(ctx) // the client is closed next
	}()
	for !enough() {
		select {
		case d := <-bodies:
			if err := in.look(d.Body); err != nil {
				return fmt.Errorf("read messages back: %w", err)
			}
			if err := conn.AckAsync(ctx, d.Token, client.AckOptions{}, func(client.Acked, error) {}); err != nil {
				return fmt.Errorf("read messages back: ack: %w", err)
			}
		case <-ctx.Done():
			return fmt.Errorf("read messages back: %d received: %w", len(in.seen), context.Cause(ctx))
		}
	}
	return nil
}
