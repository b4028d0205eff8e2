package client

import (
	"bytes"
	"context"
	"log/slog"
	"testing"

	"github.com/quorate/quorate/wire"
)

// An ack whose answer is lost is sent again with its token, though the resumed server calls its lease lost: it was the
// ack that ended it. Nobody is told of a lost lease.
func TestLostAck(t *testing.T) {
	f := newFake(t, 1)
	var logged bytes.Buffer
	c := open(t, f, Options{Logger: slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	defer func() {
		_ = c.Close(t.Context())
		if logged.Len() > 0 {
			t.Errorf("logged %s", &logged)
		}
	}()
	f.do(func() { f.hook = nth(wire.TypeAck, 2, loseHang) })
	f.put("q", numbers(5)...)
	if err := c.Consume(t.Context(), "q", ConsumeOptions{Concurrency: 2, StopWhenEmpty: true}, func(context.Context, *Delivery) (*Result, error) {
		return nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := f.state("q"); got != "done 5" {
		t.Errorf("state %s", got)
	}
}
