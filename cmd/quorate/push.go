package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/transport/push"
	"github.com/quorate/quorate/wire"
)

// pushing is what the configuration says of push.
type pushing struct {
	allow   []netip.Prefix
	secrets map[string][]byte
}

// loopback is where `quorate dev` may push to.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

func pushAllow(v any) error {
	_, err := push.ParseAllow(*v.(*[]string))
	return err
}

// maxPushSecrets is how many secrets a node knows.
const maxPushSecrets = 1000

func pushSecrets(v any) error {
	all := *v.(*[]string)
	if len(all) > maxPushSecrets {
		return fmt.Errorf("%d secrets; at most %d are allowed", len(all), maxPushSecrets)
	}
	seen := map[string]bool{}
	for _, text := range all {
		name, _, _, err := pushSecret(text)
		if err != nil {
			return err
		}
		if seen[name] {
			return fmt.Errorf("secret %q is there twice; once would be right", name)
		}
		seen[name] = true
	}
	return nil
}

// pushSecret reads NAME=env:VARIABLE or NAME=file:PATH. Whoever has put a secret in its place is not told it.
func pushSecret(text string) (name, kind, where string, err error) {
	name, source, ok := strings.Cut(text, "=")
	kind, where, split := strings.Cut(source, ":")
	switch {
	case !ok || !wire.PushSecretName(name):
		return "", "", "", errors.New("an entry does not begin with the name of a secret; NAME=env:VARIABLE or NAME=file:PATH would be right")
	case !split || kind != "env" && kind != "file" || where == "":
		return "", "", "", fmt.Errorf("secret %q; %s=env:VARIABLE or %s=file:PATH would be right", name, name, name)
	}
	return name, kind, where, nil
}

// push reads what the configuration names. The error names secret and source, never the secret.
func (r *resolved) push(getenv func(string) (string, bool)) (p pushing, err error) {
	if p.allow, err = push.ParseAllow(r.Push.Allow); err != nil {
		return p, fmt.Errorf("push.allow: %w", err)
	}
	p.secrets = make(map[string][]byte, len(r.Push.Secrets))
	for _, text := range r.Push.Secrets {
		name, kind, where, err := pushSecret(text)
		if err != nil {
			return p, fmt.Errorf("push.secrets: %w", err)
		}
		var value string
		if kind == "env" {
			v, ok := getenv(where)
			if !ok || v == "" {
				return p, fmt.Errorf("push.secrets: environment variable %.100q, which holds secret %q, is not set", where, name)
			}
			value = v
		} else {
			b, err := readBounded(where, maxSecretFile)
			if err != nil {
				return p, fmt.Errorf("push.secrets: secret %q: %w", name, err)
			}
			value = string(bytes.TrimRight(b, "\r\n"))
		}
		if p.secrets[name], err = push.ParseSecret(value); err != nil {
			return p, fmt.Errorf("push.secrets: secret %q from %s %.100q: %w", name, kind, where, err)
		}
	}
	return p, nil
}

// pushed is a node's Pusher and what it gets messages by.
type pushed struct {
	*push.Pusher
	inside *inside
	ran    chan struct{} // closed when the pusher has ended
}

// newPushed makes it; count is told of evaluations of maps.
func newPushed(node *cluster.Node, cfg pushing, c cluster.Config, addr string, count func(queue, outcome string)) (*pushed, error) {
	b := &pushed{inside: newInside(node, "quorate-push", "push:"+c.NodeID, c.Logger, addr), ran: make(chan struct{})}
	var err error
	b.Pusher, err = push.New(push.Config{Broker: b, Allow: cfg.allow, Secrets: cfg.secrets, Registry: c.Registry, Logger: c.Logger,
		UserAgent: "quorate/" + version, MaxResult: c.MaxMessageBytes, MaxBody: int(c.MaxMessageBytes), Mapped: count})
	return b, err
}

// start pushes until ctx ends.
func (b *pushed) start(ctx context.Context) {
	go func() {
		defer close(b.ran)
		b.Run(ctx)
	}()
}

// stop comes after the context of start has ended.
func (b *pushed) stop(ctx context.Context) { b.inside.stop(ctx, b.ran) }

// Leads says whether this node leads and serves.
func (b *pushed) Leads() bool { return b.inside.leads() }

// pushLook is how many queues are looked at in one hold of the state.
const pushLook = 500

// Targets reads the queues to push from this node's own state.
func (b *pushed) Targets(ctx context.Context, most int) (ts []push.Target) {
	for after, more := "", true; more; more = after != "" && len(ts) <= most {
		_, err := b.inside.node.Group(0).Read(ctx, true, func(st *fsm.State) {
			after = st.EachPush(after, pushLook, func(name string, o *fsm.QueueOptions) bool {
				n, _ := st.QueueNumber([]byte(name))
				ts = append(ts, push.Target{Map: o.Map, Generation: st.MappingGeneration(n), Queue: name, URL: o.PushURL, Concurrency: int(o.PushConcurrency), Timeout: durationMillis(o.PushTimeoutMillis),
					Secrets: o.PushSecrets, Permanent: o.PushPermanent, Headers: o.PushHeaders})
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
func (b *pushed) Consume(ctx context.Context, queue string, o push.Consume, handle func(ctx context.Context, m *push.Message) push.Verdict) error {
	cl := b.inside.client(ctx)
	if cl == nil {
		return nil
	}
	return cl.Consume(ctx, queue, client.ConsumeOptions{
		Concurrency: o.Concurrency, Prefetch: o.Concurrency, Lease: o.Lease, Worker: b.inside.worker, DrainTimeout: o.Drain,
	}, func(ctx context.Context, d *client.Delivery) (*client.Result, error) {
		m := &push.Message{ID: d.ID, TaskID: d.TaskID, Kind: d.Kind, ContentType: d.ContentType, Body: d.Body, Attempt: d.Attempt,
			Key: d.Key, Priority: d.Priority, Redrives: d.Redrives, EnqueuedAt: d.EnqueuedAt.UnixMilli()}
		for _, h := range d.Headers {
			m.Headers = append(m.Headers, push.Header{Name: h.Name, Value: h.Value})
		}
		switch v := handle(ctx, m); v.Do {
		case push.Ack:
			if v.Result == nil {
				return nil, nil
			}
			return &client.Result{Output: v.Result, ContentType: v.ContentType}, nil
		case push.Dead:
			return nil, client.Permanent(errors.New(v.Error))
		case push.Unmapped:
			_, err := cl.Nack(ctx, d.Token, client.NackOptions{Error: v.Error, Mapping: v.Generation})
			if err != nil && !errors.Is(err, client.ErrFailedPrecondition) {
				b.inside.log.Warn("a message that cannot be mapped stays", "queue", queue, "message", d.ID, "err", err)
			}
			return nil, client.ErrRelease // of what is not dead by now
		case push.Return:
			return nil, client.ErrRelease
		default:
			return nil, errors.New(v.Error)
		}
	})
}
