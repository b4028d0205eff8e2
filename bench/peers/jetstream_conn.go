package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/quorate/quorate/bench/load"
	"github.com/quorate/quorate/client"
)

// jetstreamConn publishes asynchronously and receives through a pull consumer that keeps its window full. An ack carries a
// reply subject, on which the server confirms it: what the library's DoubleAck does, without a goroutine waiting for each.
type jetstreamConn struct {
	unused
	c  *jetstreamCluster
	nc *nats.Conn
	js jetstream.JetStream

	mu        sync.Mutex
	published map[*nats.Msg]func(client.Receipt, error) // guarded by mu
	acks      map[uint64]func(client.Acked, error)      // guarded by mu
	lastAck   uint64                                    // guarded by mu
	inbox     string                                    // with the final dot
}

func (c *jetstreamCluster) open() (load.Conn, error) {
	j := &jetstreamConn{c: c, published: make(map[*nats.Msg]func(client.Receipt, error)), acks: make(map[uint64]func(client.Acked, error))}
	nc, js, err := c.dial(
		jetstream.WithPublishAsyncMaxPending(2*load.DefaultOutstanding), // the load generator's own bound is half of it
		jetstream.WithPublishAsyncAckHandler(func(_ jetstream.JetStream, m *nats.Msg, _ *jetstream.PubAck) { j.confirmed(m, nil) }),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, m *nats.Msg, err error) { j.confirmed(m, err) }),
	)
	if err != nil {
		return nil, err
	}
	j.nc, j.js, j.inbox = nc, js, nats.NewInbox()+"."
	if _, err := nc.Subscribe(j.inbox+"*", j.acked); err != nil {
		nc.Close()
		return nil, fmt.Errorf("subscribe for acks: %w", err)
	}
	return j, nil
}

func (j *jetstreamConn) CreateQueue(ctx context.Context, name string, _ client.QueueOptions) error {
	if err := createStream(ctx, j.js, name); err != nil {
		return err
	}
	i, err := j.c.leaderIndex(ctx, name)
	if err == nil {
		j.c.near.Store(&j.c.urls[i])
	}
	return err
}

func (j *jetstreamConn) DeleteQueue(ctx context.Context, name string) error {
	return j.js.DeleteStream(ctx, streamOf(name))
}

func (j *jetstreamConn) Enqueue(ctx context.Context, queue string, m client.Message) (client.Receipt, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := j.js.Publish(ctx, queue, m.Body)
	return client.Receipt{}, err
}

func (j *jetstreamConn) EnqueueAsync(_ context.Context, queue string, m client.Message, done func(client.Receipt, error)) error {
	msg := &nats.Msg{Subject: queue, Data: m.Body}
	j.mu.Lock()
	j.published[msg] = done
	j.mu.Unlock()
	if _, err := j.js.PublishMsgAsync(msg); err != nil {
		j.mu.Lock()
		delete(j.published, msg)
		j.mu.Unlock()
		return err
	}
	return nil
}

func (j *jetstreamConn) confirmed(m *nats.Msg, err error) {
	j.mu.Lock()
	done := j.published[m]
	delete(j.published, m)
	j.mu.Unlock()
	if done != nil {
		done(client.Receipt{}, err)
	}
}

func (j *jetstreamConn) Subscribe(ctx context.Context, queue string, credit int, deliver func(*client.Delivery)) (func(context.Context) error, error) {
	consumer, err := j.js.Consumer(ctx, streamOf(queue), workers)
	if err != nil {
		return nil, err
	}
	cc, err := consumer.Consume(func(m jetstream.Msg) {
		deliver(&client.Delivery{Body: m.Data(), Token: m.Reply()})
	}, jetstream.PullMaxMessages(credit))
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		cc.Stop()
		select {
		case <-cc.Closed():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}, nil
}

func (j *jetstreamConn) AckAsync(_ context.Context, token string, _ client.AckOptions, done func(client.Acked, error)) error {
	j.mu.Lock()
	j.lastAck++
	id := j.lastAck
	j.acks[id] = done
	j.mu.Unlock()
	if err := j.nc.PublishRequest(token, j.inbox+strconv.FormatUint(id, 10), []byte("+ACK")); err != nil {
		j.mu.Lock()
		delete(j.acks, id)
		j.mu.Unlock()
		return err
	}
	return nil
}

// acked takes the server's answer to an ack.
func (j *jetstreamConn) acked(m *nats.Msg) {
	id, err := strconv.ParseUint(m.Subject[len(j.inbox):], 10, 64)
	if err != nil {
		return // not one of ours
	}
	j.mu.Lock()
	done := j.acks[id]
	delete(j.acks, id)
	j.mu.Unlock()
	if done == nil {
		return
	}
	if s := m.Header.Get("Status"); s != "" {
		err = errors.New("ack answered with status " + s)
	}
	done(client.Acked{}, err)
}

func (j *jetstreamConn) Close(context.Context) error {
	j.nc.Close()
	return nil
}
