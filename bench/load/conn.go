package load

import (
	"context"
	"errors"

	"github.com/quorate/quorate/client"
)

// Conn is what the workloads need of a client. Callbacks run on the goroutine that reads the connection, are short and
// do not block.
type Conn interface {
	CreateQueue(ctx context.Context, name string, o client.QueueOptions) error
	DeleteQueue(ctx context.Context, name string) error
	Enqueue(ctx context.Context, queue string, m client.Message) (client.Receipt, error)
	EnqueueAsync(ctx context.Context, queue string, m client.Message, done func(client.Receipt, error)) error
	// Subscribe delivers with a window of credit until stop is called.
	Subscribe(ctx context.Context, queue string, credit int, deliver func(*client.Delivery)) (stop func(context.Context) error, err error)
	Lease(ctx context.Context, queue string, o client.LeaseOptions) ([]*client.Delivery, error)
	AckAsync(ctx context.Context, token string, o client.AckOptions, done func(client.Acked, error)) error
	Close(ctx context.Context) error
}

// sdk is the real client.
type sdk struct{ *client.Client }

func (s sdk) CreateQueue(ctx context.Context, name string, o client.QueueOptions) error {
	err := s.Client.CreateQueue(ctx, name, o)
	if errors.Is(err, client.ErrAlreadyExists) {
		return nil // with options of its own
	}
	return err
}

func (s sdk) Subscribe(ctx context.Context, queue string, credit int, deliver func(*client.Delivery)) (func(context.Context) error, error) {
	sub, err := s.Client.Subscribe(ctx, queue, client.SubscribeOptions{Credit: credit, Lease: leaseTime}, deliver)
	if err != nil {
		return nil, err
	}
	return sub.Close, nil
}

// openSDK connects to a cluster.
func openSDK(cfg *Config) func(ctx context.Context, name string) (Conn, error) {
	return func(ctx context.Context, name string) (Conn, error) {
		c, err := client.Open(ctx, client.Options{
			Addrs: cfg.Addrs, Name: name, Logger: cfg.Logger, Timeout: cfg.CallTimeout,
			MaxPending: max(cfg.Outstanding, 1), Seed: cfg.Seed,
		})
		if err != nil {
			return nil, err
		}
		if cfg.HTTP == 0 {
			return sdk{c}, nil
		}
		over, err := overHTTP(ctx, sdk{c}, cfg)
		if err != nil {
			closeConn(sdk{c})
			return nil, err
		}
		return over, nil
	}
}
