package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/quorate/quorate/client"
)

func Example() {
	ctx := context.Background()
	c, err := client.Open(ctx, client.Options{Addrs: []string{"127.0.0.1:7340", "127.0.0.1:7350", "127.0.0.1:7360"}})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = c.Close(ctx) }()

	r, err := c.Enqueue(ctx, "thumbnails", client.Message{Body: []byte("cat.jpg"), Kind: "resize"})
	if err != nil {
		log.Fatal(err)
	}
	res, err := c.WaitResult(ctx, "thumbnails", r.TaskID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Status, string(res.Result.Output))
}

// A worker that finishes what it has begun when it is told to stop.
func ExampleClient_Consume() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	c, err := client.Open(ctx, client.Options{Addrs: []string{"127.0.0.1:7340"}})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()

	err = c.Consume(ctx, "thumbnails", client.ConsumeOptions{Concurrency: 8, DrainTimeout: 10 * time.Second},
		func(ctx context.Context, d *client.Delivery) (*client.Result, error) {
			switch out, err := resize(ctx, d.Body); {
			case errors.Is(err, errNoPicture):
				return nil, client.Permanent(err) // a dead letter at once
			case errors.Is(err, errBusy):
				return nil, client.RetryAfter(err, time.Minute)
			case err != nil:
				return nil, err // again, as the queue's retry policy says
			default:
				return &client.Result{Output: out, ContentType: "image/webp"}, nil
			}
		})
	if err != nil {
		log.Fatal(err)
	}
}

var errNoPicture, errBusy = errors.New("not a picture"), errors.New("busy")

func resize(context.Context, []byte) ([]byte, error) { return nil, nil }

// Sending the same thing twice: the dedup key makes the second a duplicate of the first.
func ExampleClient_Enqueue() {
	ctx := context.Background()
	c, err := client.Open(ctx, client.Options{Addrs: []string{"127.0.0.1:7340"}})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = c.Close(ctx) }()
	m := client.Message{
		Body: []byte(`{"order":4711}`), ContentType: "application/json", DedupKey: []byte("order-4711"),
		Priority: client.Priority(9), Delay: 5 * time.Second,
		Retry: &client.RetryPolicy{Kind: "exponential", Initial: time.Second, Max: time.Minute, MaxAttempts: 8},
	}
	for range 2 {
		r, err := c.Enqueue(ctx, "orders", m)
		switch {
		case errors.Is(err, client.ErrQueueFull):
			log.Fatal("the queue is full: nothing was stored")
		case client.Unknown(err):
			log.Fatal("perhaps stored; the dedup key makes it safe to send it again: ", err)
		case err != nil:
			log.Fatal(err)
		}
		fmt.Println(r.ID, r.Duplicate)
	}
}

// Many messages without waiting for each: done runs for every one, and Close waits for the answers.
func ExampleClient_EnqueueAsync() {
	ctx := context.Background()
	c, err := client.Open(ctx, client.Options{Addrs: []string{"127.0.0.1:7340"}, MaxPending: 4096})
	if err != nil {
		log.Fatal(err)
	}
	for i := range 100_000 {
		err := c.EnqueueAsync(ctx, "numbers", client.Message{Body: fmt.Append(nil, i)}, func(_ client.Receipt, err error) {
			if err != nil {
				log.Print(i, ": ", err)
			}
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	if err := c.Close(ctx); err != nil {
		log.Fatal(err)
	}
}

// Chaining without loss or duplication: the next step is enqueued in the log entry that ends this one.
func ExampleClient_Ack() {
	ctx := context.Background()
	c, err := client.Open(ctx, client.Options{Addrs: []string{"127.0.0.1:7340"}})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = c.Close(ctx) }()
	ds, err := c.Lease(ctx, "step1", client.LeaseOptions{Max: 10, Wait: 30 * time.Second, Lease: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	for _, d := range ds {
		_, err := c.Ack(ctx, d.Token, client.AckOptions{
			Result: &client.Result{Output: []byte("done")},
			Then:   []client.Then{{Queue: "step2", Message: client.Message{Body: d.Body}}},
		})
		if errors.Is(err, client.ErrLeaseLost) {
			continue // it took too long: somebody else has it
		}
		if err != nil {
			log.Fatal(err)
		}
	}
}
