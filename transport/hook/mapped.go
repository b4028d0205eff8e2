package hook

import (
	"context"
	"errors"

	"github.com/quorate/quorate/transport/mapping"
	"github.com/quorate/quorate/wire"
)

// mapped has the hook's expression make the body of a message. false: it came to nothing, and there is nothing to enqueue.
func (v *visit) mapped(ctx context.Context, m *wire.Message) (bool, *wire.Fault) {
	h := v.h
	if h.program == nil {
		return true, nil
	}
	in := &mapping.Input{Body: m.Body, Queue: h.Queue, Kind: m.Kind, ContentType: m.ContentType, Priority: wire.DefaultPriority}
	for _, x := range m.Headers {
		in.Headers = append(in.Headers, mapping.Header{Name: x.Name, Value: x.Value})
	}
	body, contentType, err := h.program.Body(ctx, in, int(v.s.cfg.MaxMessageBytes))
	switch {
	case errors.Is(err, mapping.ErrLate):
		return false, wire.NewFault(wire.CodeOverloaded, "this node had no time to map the body: try again")
	case err != nil:
		return false, wire.Invalid("body", "the hook's map fails at %v", err)
	case body == nil:
		return false, nil
	}
	m.Body, m.ContentType = body, contentType
	return true, nil
}
