package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/transport/mapper"
	"github.com/quorate/quorate/transport/mapping"
)

// mapped is a node's Mapper and what it gets messages by: the SDK, from within the node, as a pusher does.
type mapped struct {
	*mapper.Mapper
	inside *inside
	ran    chan struct{} // closed when the mapper has ended
}

func newMapped(node *cluster.Node, c cluster.Config, addr string) (*mapped, error) {
	b := &mapped{inside: newInside(node, "quorate-mapper", "mapper:"+c.NodeID, c.Logger, addr), ran: make(chan struct{})}
	var err error
	b.Mapper, err = mapper.New(mapper.Config{Broker: b, Registry: c.Registry, Logger: c.Logger, MaxBytes: int(c.MaxMessageBytes)})
	return b, err
}

// start maps until ctx ends.
func (b *mapped) start(ctx context.Context) {
	go func() {
		defer close(b.ran)
		b.Run(ctx)
	}()
}

// stop comes after the context of start has ended.
func (b *mapped) stop(ctx context.Context) { b.inside.stop(ctx, b.ran) }

// Leads says whether this node leads and serves.
func (b *mapped) Leads() bool { return b.inside.leads() }

// Targets reads the queues that are mapped from this node's own state.
func (b *mapped) Targets(ctx context.Context, most int) (ts []mapper.Target) {
	for after, more := "", true; more; more = after != "" && len(ts) <= most {
		_, err := b.inside.node.Group(0).Read(ctx, true, func(st *fsm.State) {
			after = st.EachMapTo(after, pushLook, func(name string, o *fsm.QueueOptions, generation uint64) bool {
				ts = append(ts, mapper.Target{Queue: name, To: o.MapTo.Queue, Expression: o.MapTo.Expression, Generation: generation})
				return len(ts) <= most
			})
		})
		if err != nil {
			return nil
		}
	}
	return ts
}

// Consume leases messages through the SDK.
func (b *mapped) Consume(ctx context.Context, queue string, concurrency int, lease time.Duration, handle func(ctx context.Context, m *mapper.Message) mapper.Verdict) error {
	cl := b.inside.client(ctx)
	if cl == nil {
		return nil
	}
	return cl.Consume(ctx, queue, client.ConsumeOptions{
		Concurrency: concurrency, Prefetch: concurrency, Lease: lease, Worker: b.inside.worker, DrainTimeout: -1,
	}, func(ctx context.Context, d *client.Delivery) (*client.Result, error) {
		m := &mapper.Message{Token: d.Token, Input: mapping.Input{
			Body: d.Body, ID: d.ID, TaskID: d.TaskID, Queue: queue, Kind: d.Kind, ContentType: d.ContentType, Key: d.Key,
			Priority: d.Priority, Attempt: d.Attempt, Redrives: d.Redrives, EnqueuedAt: d.EnqueuedAt.UnixMilli(),
		}}
		for _, h := range d.Headers {
			m.Headers = append(m.Headers, mapping.Header(h))
		}
		switch v := handle(ctx, m); v.Do {
		case mapper.Retry:
			return nil, errors.New(v.Error)
		default: // the SDK knows what is settled
			return nil, client.ErrRelease
		}
	})
}

// Ack ends a message's lease and enqueues what was made of it.
func (b *mapped) Ack(ctx context.Context, token, to string, generation uint64, made []mapping.Message) error {
	o := client.AckOptions{Mapping: generation, Then: make([]client.Then, len(made))}
	for i := range made {
		m := &made[i]
		t := client.Message{
			Body: m.Body, ContentType: m.ContentType, Kind: m.Kind, Key: m.Key, Priority: client.Priority(m.Priority),
			Delay: durationMillis(m.DelayMillis), TTL: durationMillis(m.TTLMillis),
		}
		for _, h := range m.Headers {
			t.Headers = append(t.Headers, client.Header(h))
		}
		o.Then[i] = client.Then{Queue: to, Message: t}
	}
	_, err := b.inside.sdk.cl.Ack(ctx, token, o)
	return refused(err)
}

// Unmapped makes a message a dead letter.
func (b *mapped) Unmapped(ctx context.Context, token string, generation uint64, text string) error {
	_, err := b.inside.sdk.cl.Nack(ctx, token, client.NackOptions{Error: text, Mapping: generation})
	return refused(err)
}

// refused sorts the errors of an ack or a nack: see mapper.Broker.
func refused(err error) error {
	var e *client.Error
	if !errors.As(err, &e) || e.Unknown {
		return err
	}
	switch {
	case errors.Is(err, client.ErrFailedPrecondition) && e.Field == "mapping":
		return mapper.ErrStale
	case errors.Is(err, client.ErrLeaseLost), errors.Is(err, client.ErrCancelled), errors.Is(err, client.ErrNotFound) && e.Field != "then":
		return err
	case errors.Is(err, client.ErrInvalidArgument), errors.Is(err, client.ErrTooLarge):
		return &mapper.Refusal{Text: e.Message}
	}
	return &mapper.Refusal{Text: fmt.Sprintf("%s: %s", e.Code, e.Message), Later: true}
}
