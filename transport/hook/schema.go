package hook

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorate/quorate/transport/schema"
)

// fits checks a body against the hook's schema.
func (h *hook) fits(ctx context.Context, body []byte) error {
	if h.schema == nil {
		return nil
	}
	switch err := h.schema.Check(ctx, body); {
	case errors.Is(err, schema.ErrNotJSON):
		return errors.New("the body is no JSON, which the hook's schema asks for")
	case err != nil:
		return fmt.Errorf("the body does not fit the hook's schema: %w", err)
	}
	return nil
}
