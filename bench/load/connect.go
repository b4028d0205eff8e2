package load

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/client"
)

// Connect opens one of the clients that the workloads use, for those that send or receive beside them.
func Connect(ctx context.Context, o client.Options) (Conn, error) {
	c, err := client.Open(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return sdk{c}, nil
}
