package fsmtest

import (
	"bytes"
	"fmt"

	"github.com/quorate/quorate/fsm"
)

// heldView is a view that is written by another goroutine while the state goes on.
type heldView struct {
	view    *fsm.View
	digest  [32]byte // when it was taken
	written chan error
	out     bytes.Buffer
}

func holdView(s *fsm.State) *heldView {
	h := &heldView{view: s.View(), written: make(chan error, 1)}
	h.digest = h.view.Digest()
	go func() {
		_, err := h.view.WriteTo(&h.out)
		h.written <- err
	}()
	return h
}

// done waits for the writer and checks that what it wrote is the state as it was when the view was taken.
func (h *heldView) done(group uint16) error {
	defer h.view.Release()
	if err := <-h.written; err != nil {
		return fmt.Errorf("write held view: %w", err)
	}
	if now := h.view.Digest(); now != h.digest {
		return fmt.Errorf("a held view changed: digest was %x, is %x", h.digest, now)
	}
	restored, err := fsm.Restore(group, &h.out)
	if err != nil {
		return fmt.Errorf("restore of a held view: %w", err)
	}
	defer restored.Close()
	if got := digest(restored); got != h.digest {
		return fmt.Errorf("a held view was written with digest %x, is %x", got, h.digest)
	}
	if err := restored.Check(); err != nil {
		return fmt.Errorf("check of a restored held view: %w", err)
	}
	return nil
}
