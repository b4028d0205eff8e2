package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/redis/rueidis"

	"github.com/quorate/quorate/bench/load"
	"github.com/quorate/quorate/client"
)

const (
	redisField   = "b"                    // of a stream's entry: the body
	redisBatch   = load.DefaultWindow / 2 // commands of a pipeline, and messages of a read: two of each fill a window
	redisLines   = 2                      // pipelines of a kind under way at once, so that one is filled while another is answered
	redisBacklog = 65536                  // the load generator's own bound is below it
	redisBlockMS = 200                    // a reader looks this often whether it is to end
)

// redisConn puts what is waiting into pipelines: two of XADD and two of XACK with XDEL, 128 messages each at most. It
// receives through a consumer of the group that reads up to 128 at once while its window lasts.
type redisConn struct {
	unused
	name string
	c    rueidis.Client

	sub      *redisSub // the one subscription of this client
	begin    sync.Once
	enqueues chan redisEnqueue
	acks     chan redisAck
	quit     chan struct{}
	wg       sync.WaitGroup
	closing  sync.Once
}

type redisEnqueue struct {
	queue string
	body  []byte
	done  func(client.Receipt, error)
}

type redisAck struct {
	id   string
	done func(client.Acked, error)
}

func (r *redisServer) open(name string) (load.Conn, error) {
	c, err := r.dial()
	if err != nil {
		return nil, err
	}
	return &redisConn{
		name: name, c: c, enqueues: make(chan redisEnqueue, redisBacklog), acks: make(chan redisAck, redisBacklog), quit: make(chan struct{}),
	}, nil
}

// start starts the goroutines that fill pipelines.
func (r *redisConn) start() {
	r.begin.Do(func() {
		for range redisLines {
			r.wg.Go(func() { pipeline(r, r.enqueues, r.add) })
			r.wg.Go(func() { pipeline(r, r.acks, r.settle) })
		}
	})
}

// pipeline gives run all that waits in ch, up to a batch, again and again.
func pipeline[T any](r *redisConn, ch <-chan T, run func([]T)) {
	batch := make([]T, 0, redisBatch)
	for {
		batch = batch[:0]
		select {
		case x := <-ch:
			batch = append(batch, x)
		case <-r.quit:
			return
		}
	more:
		for len(batch) < redisBatch {
			select {
			case x := <-ch:
				batch = append(batch, x)
			default:
				break more
			}
		}
		run(batch)
	}
}

func (r *redisConn) xadd(queue string, body []byte) rueidis.Completed {
	return r.c.B().Xadd().Key(queue).Id("*").FieldValue().FieldValue(redisField, rueidis.BinaryString(body)).Build()
}

func (r *redisConn) add(batch []redisEnqueue) {
	cmds := make(rueidis.Commands, len(batch))
	for i := range batch {
		cmds[i] = r.xadd(batch[i].queue, batch[i].body)
	}
	for i, res := range r.c.DoMulti(context.Background(), cmds...) { // bounded by the connection's time-out
		batch[i].done(client.Receipt{}, res.Error())
	}
}

// settle acknowledges each message by itself, and deletes it: an acknowledged entry would stay in the stream for ever.
func (r *redisConn) settle(batch []redisAck) {
	cmds := make(rueidis.Commands, 0, 2*len(batch))
	for i := range batch {
		a := &batch[i]
		cmds = append(cmds, r.c.B().Xack().Key(r.sub.queue).Group(workers).Id(a.id).Build(),
			r.c.B().Xdel().Key(r.sub.queue).Id(a.id).Build())
	}
	res := r.c.DoMulti(context.Background(), cmds...)
	for i := range batch {
		n, err := res[2*i].AsInt64()
		if err == nil && n != 1 {
			err = errors.New("XACK: the message is not this group's")
		}
		if _, e := res[2*i+1].AsInt64(); err == nil {
			err = e
		}
		r.sub.give(1)
		batch[i].done(client.Acked{}, err)
	}
}

func (r *redisConn) CreateQueue(ctx context.Context, name string, _ client.QueueOptions) error {
	return r.c.Do(ctx, r.c.B().XgroupCreate().Key(name).Group(workers).Id("0").Mkstream().Build()).Error()
}

func (r *redisConn) DeleteQueue(ctx context.Context, name string) error {
	return r.c.Do(ctx, r.c.B().Del().Key(name).Build()).Error()
}

func (r *redisConn) Enqueue(ctx context.Context, queue string, m client.Message) (client.Receipt, error) {
	return client.Receipt{}, r.c.Do(ctx, r.xadd(queue, m.Body)).Error()
}

func (r *redisConn) EnqueueAsync(_ context.Context, queue string, m client.Message, done func(client.Receipt, error)) error {
	r.start()
	r.enqueues <- redisEnqueue{queue, m.Body, done}
	return nil
}

// redisSub is a subscription: how many more messages it may have out.
type redisSub struct {
	queue string
	mu    sync.Mutex
	room  int           // guarded by mu
	poke  chan struct{} // one token: there is room again
	quit  chan struct{}
	ended chan struct{}
}

func (s *redisSub) give(n int) {
	s.mu.Lock()
	s.room += n
	s.mu.Unlock()
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

// take waits for room and takes up to a batch of it; 0 means that the subscription ends.
func (s *redisSub) take() int {
	for {
		s.mu.Lock()
		n := min(s.room, redisBatch)
		s.room -= n
		s.mu.Unlock()
		select {
		case <-s.quit:
			return 0
		default:
		}
		if n > 0 {
			return n
		}
		select {
		case <-s.poke:
		case <-s.quit:
			return 0
		}
	}
}

func (r *redisConn) Subscribe(ctx context.Context, queue string, credit int, deliver func(*client.Delivery)) (func(context.Context) error, error) {
	r.start()
	if err := r.c.Do(ctx, r.c.B().Xlen().Key(queue).Build()).Error(); err != nil {
		return nil, fmt.Errorf("look at stream %s: %w", queue, err)
	}
	if r.sub != nil {
		return nil, errors.New("this client has a subscription")
	}
	s := &redisSub{queue: queue, room: credit, poke: make(chan struct{}, 1), quit: make(chan struct{}), ended: make(chan struct{})}
	r.sub = s
	go r.read(s, deliver)
	var once sync.Once
	return func(ctx context.Context) error {
		once.Do(func() { close(s.quit) })
		select {
		case <-s.ended:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}, nil
}

// read reads until the subscription or the connection ends.
func (r *redisConn) read(s *redisSub, deliver func(*client.Delivery)) {
	defer close(s.ended)
	for {
		n := s.take()
		if n == 0 {
			return
		}
		cmd := r.c.B().Xreadgroup().Group(workers, r.name).Count(int64(n)).Block(redisBlockMS).Streams().Key(s.queue).Id(">").Build()
		streams, err := r.c.Do(context.Background(), cmd).AsXReadSlices()
		if err != nil && !rueidis.IsRedisNil(err) {
			return // closed, or the server is gone: the load generator misses what is not delivered
		}
		entries := streams[s.queue]
		s.give(n - len(entries))
		for _, e := range entries {
			for _, f := range e.FieldValues {
				if f.Field == redisField {
					deliver(&client.Delivery{Body: []byte(f.Value), Token: e.ID})
				}
			}
		}
	}
}

func (r *redisConn) AckAsync(_ context.Context, token string, _ client.AckOptions, done func(client.Acked, error)) error {
	r.acks <- redisAck{token, done}
	return nil
}

func (r *redisConn) Close(context.Context) error {
	r.closing.Do(func() {
		close(r.quit)
		r.c.Close() // what is under way fails at once
		r.wg.Wait()
	})
	return nil
}
