package nemesis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// setClock makes a node's wall clock differ from the machine's.
func setClock(ctx context.Context, m *member, skew time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	url := fmt.Sprintf("http://%s/debug/clock?skew_ms=%d", m.ClientAddr, skew.Milliseconds())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("set the clock of %s: %w", m.Name, err)
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(io.LimitReader(res.Body, 1<<10)); err != nil || res.StatusCode != http.StatusOK {
		return fmt.Errorf("set the clock of %s: %s %s (%w)", m.Name, res.Status, b, err)
	}
	return nil
}

// setClocks sets those of some nodes.
func setClocks(ctx context.Context, ms []*member, skew time.Duration) error {
	var err error
	for _, m := range ms {
		err = errors.Join(err, setClock(ctx, m, skew))
	}
	return err
}

// jumpClocks moves wall clocks: whoever leads then or becomes the leader may make time jump, which must shorten no lease; nor may time go
// back.
func jumpClocks(s *strike) error {
	ms, giveBack, err := s.take()
	if err != nil {
		return err
	}
	defer giveBack()
	if err := setClocks(s.ctx, ms, time.Duration(s.Skew)); err != nil {
		return err
	}
	s.begin()
	if s.last() != nil {
		return nil
	}
	s.heal()
	return setClocks(s.ctx, ms, 0)
}

func strobeClocks(s *strike) error {
	ms, giveBack, err := s.take()
	if err != nil {
		return err
	}
	defer giveBack()
	s.begin()
	for began, skew := time.Now(), time.Duration(s.Skew); time.Since(began) < time.Duration(s.For); skew = time.Duration(s.Skew) - skew {
		if err := setClocks(s.ctx, ms, skew); err != nil {
			return err
		}
		if pause(s.ctx, time.Duration(s.Every)) != nil {
			return nil
		}
	}
	s.heal()
	return setClocks(s.ctx, ms, 0)
}

// jumpMono starts nodes with other monotonic clocks, as machines have them that were booted at other times. They keep them until they are
// started again by another fault.
func jumpMono(s *strike) error {
	ms, giveBack, err := s.take()
	if err != nil {
		return err
	}
	defer giveBack()
	s.down(ms)
	for _, m := range ms {
		m.mono = time.Duration(s.Skew)
	}
	defer func() {
		for _, m := range ms {
			m.mono = 0
		}
	}()
	if s.last() != nil {
		return nil
	}
	return s.up(ms)
}
