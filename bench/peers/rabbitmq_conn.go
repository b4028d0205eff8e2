package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/bench/load"
	"github.com/quorate/quorate/client"
)

var errNacked = errors.New("the broker refused the message (basic.nack)")

// rabbitConn is a connection with one channel: publisher confirms, or a prefetch and manual acks.
//
// AMQP has no answer to an ack. It counts as confirmed when it has been handed to the connection, which is the best that
// can be said for RabbitMQ; the queue's own count at the end of the run tells whether all of them arrived.
type rabbitConn struct {
	unused
	conn *amqp.Connection
	ch   *amqp.Channel

	publishing sync.Mutex // held from numbering a message until it is written, so that numbers are in the order of the channel
	next       uint64     // guarded by publishing

	mu      sync.Mutex
	pending map[uint64]func(client.Receipt, error) // guarded by mu; nil: closed
	ended   chan struct{}                          // confirmations are all taken
}

func (c *rabbitCluster) open() (load.Conn, error) {
	conn, err := c.dialAny()
	if err != nil {
		return nil, err
	}
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("open a channel: %w", err)
	}
	r := &rabbitConn{conn: conn, ch: ch, pending: make(map[uint64]func(client.Receipt, error)), ended: make(chan struct{})}
	go r.confirmations(ch.NotifyPublish(make(chan amqp.Confirmation, 2*load.DefaultOutstanding)))
	return r, nil
}

// confirmations takes them until the channel is closed; what is then without one has failed.
func (r *rabbitConn) confirmations(cs <-chan amqp.Confirmation) {
	defer close(r.ended)
	for c := range cs {
		r.mu.Lock()
		done := r.pending[c.DeliveryTag]
		delete(r.pending, c.DeliveryTag)
		r.mu.Unlock()
		if done == nil {
			continue
		}
		if c.Ack {
			done(client.Receipt{}, nil)
		} else {
			done(client.Receipt{}, errNacked)
		}
	}
	r.mu.Lock()
	left := r.pending
	r.pending = nil
	r.mu.Unlock()
	for _, done := range left {
		done(client.Receipt{}, amqp.ErrClosed)
	}
}

func (r *rabbitConn) CreateQueue(_ context.Context, name string, _ client.QueueOptions) error {
	return declare(r.ch, name)
}

func (r *rabbitConn) DeleteQueue(_ context.Context, name string) error {
	_, err := r.ch.QueueDelete(name, false, false, false)
	return err
}

func (r *rabbitConn) Enqueue(ctx context.Context, queue string, m client.Message) (client.Receipt, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer := make(chan error, 1)
	if err := r.EnqueueAsync(ctx, queue, m, func(_ client.Receipt, err error) { answer <- err }); err != nil {
		return client.Receipt{}, err
	}
	select {
	case err := <-answer:
		return client.Receipt{}, err
	case <-ctx.Done():
		return client.Receipt{}, ctx.Err()
	}
}

func (r *rabbitConn) EnqueueAsync(_ context.Context, queue string, m client.Message, done func(client.Receipt, error)) error {
	r.publishing.Lock()
	defer r.publishing.Unlock()
	tag := r.next + 1
	r.mu.Lock()
	if r.pending == nil {
		r.mu.Unlock()
		return amqp.ErrClosed
	}
	r.pending[tag] = done
	r.mu.Unlock()
	err := r.ch.Publish("", queue, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: m.Body})
	if err != nil {
		r.mu.Lock()
		_, mine := r.pending[tag]
		delete(r.pending, tag)
		r.mu.Unlock()
		if !mine {
			return nil // done has been told already
		}
		return err
	}
	r.next = tag
	return nil
}

func (r *rabbitConn) Subscribe(_ context.Context, queue string, credit int, deliver func(*client.Delivery)) (func(context.Context) error, error) {
	if err := r.ch.Qos(credit, 0, false); err != nil {
		return nil, fmt.Errorf("set the prefetch: %w", err)
	}
	ds, err := r.ch.Consume(queue, "w", false, false, false, false, nil)
	if err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for d := range ds {
			deliver(&client.Delivery{Body: d.Body, Token: strconv.FormatUint(d.DeliveryTag, 10)})
		}
	}()
	return func(ctx context.Context) error {
		if err := r.ch.Cancel("w", false); err != nil {
			return err
		}
		select {
		case <-ended:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}, nil
}

func (r *rabbitConn) AckAsync(_ context.Context, token string, _ client.AckOptions, done func(client.Acked, error)) error {
	tag, err := strconv.ParseUint(token, 10, 64)
	if err != nil {
		return fmt.Errorf("delivery tag: %w", err)
	}
	if err := r.ch.Ack(tag, false); err != nil {
		return err
	}
	done(client.Acked{}, nil)
	return nil
}

func (r *rabbitConn) Close(ctx context.Context) error {
	err := r.conn.Close()
	select {
	case <-r.ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
