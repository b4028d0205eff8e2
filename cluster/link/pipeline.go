package link

import (
	"sync"

	"github.com/hashicorp/raft"
)

// pipeline is raft's pipeline of AppendEntries to one follower without a deadlock that raft v1.8.0 has: its receiver stops
// at the first answer that is a refusal or of a later term, and when its sender, which has not heard of that yet, sends
// once more, nobody takes the answers and the sender waits for ever. The leader that was, then never ends: it goes on with
// heartbeats of an old term, and a shutdown waits for it in vain. Here such an answer closes the pipeline, which the
// sender notices.
type pipeline struct {
	raft.AppendPipeline
	out  chan raft.AppendFuture
	done chan struct{}
	once sync.Once
}

func newPipeline(inner raft.AppendPipeline) *pipeline {
	p := &pipeline{AppendPipeline: inner, out: make(chan raft.AppendFuture), done: make(chan struct{})}
	go p.pass()
	return p
}

// pass hands on what has been answered, until Close.
func (p *pipeline) pass() {
	for {
		select {
		case f := <-p.AppendPipeline.Consumer():
			last := f.Error() != nil || !f.Response().Success || f.Response().Term > f.Request().Term
			select {
			case p.out <- f:
			case <-p.done:
				return
			}
			if last {
				_ = p.AppendPipeline.Close()
			}
		case <-p.done:
			return
		}
	}
}

// Consumer implements raft.AppendPipeline.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.out }

// Close implements raft.AppendPipeline.
func (p *pipeline) Close() error {
	p.once.Do(func() { close(p.done) })
	return p.AppendPipeline.Close()
}
