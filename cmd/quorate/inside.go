package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cluster"
)

// inside is a worker in the node itself: the SDK, which finds the leader and follows it, opened when the first queue needs it.
type inside struct {
	node   *cluster.Node
	worker string
	addr   string // the node's own
	log    *slog.Logger

	sdk  *producer
	open sync.Once
	life context.Context // of what opens the client
	end  context.CancelFunc
	up   sync.WaitGroup
}

func newInside(node *cluster.Node, name, worker string, log *slog.Logger, addr string) *inside {
	b := &inside{node: node, worker: worker, addr: addr, log: log, sdk: newProducer(name)}
	b.life, b.end = context.WithCancel(context.Background())
	return b
}

// insideStop bounds what comes after the work has ended.
const insideStop = 3 * time.Second

// stop waits for ran, and closes the client.
func (b *inside) stop(ctx context.Context, ran <-chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, insideStop)
	defer cancel()
	select {
	case <-ran:
	case <-ctx.Done():
	}
	b.end()
	b.up.Wait()
	_ = b.sdk.close(ctx) // what has no answer by now comes back when its lease ends
}

// leads says whether this node leads and serves.
func (b *inside) leads() bool {
	st := b.node.Group(0).Status()
	return st.Leader && st.Ready
}

// client is the SDK's; nil: ctx has ended.
func (b *inside) client(ctx context.Context) *client.Client {
	b.open.Do(func() { b.up.Go(func() { b.sdk.run(b.life, b.log, b.addr) }) })
	select {
	case <-b.sdk.ready:
		return b.sdk.cl
	case <-ctx.Done():
		return nil
	}
}
