package nemesis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/quorate/quorate/bench/chaos/forgetfs"
	"github.com/quorate/quorate/bench/chaos/history"
)

const (
	// struckWithin is how long a trap waits for the node to come by; endsWithin how long a node may go on whose disk has failed.
	struckWithin = 5 * time.Second
	endsWithin   = 10 * time.Second
	// logTail is how much of the end of a log must say why a node has ended.
	logTail = 3000
)

func disks(m Means) bool { return m.Disks }

const lacksDisks = "disks of bench/chaos/forgetfs (/dev/fuse, and the right to mount)"

// diskFaults are those of disks that forget.
var diskFaults = map[string]*faultKind{
	"disk_eio": {
		help: "every sync of the target's disks fails with EIO: its nodes must end, and are started again after for, half of the time on the same machine; sometimes the power goes when they are ready", targets: anyone,
		needs: disks, lacks: lacksDisks, run: failDisk(forgetfs.Syncs, syscall.EIO),
	},
	"disk_full": {
		help: "every write to the target's disks fails with ENOSPC: its nodes must end, and are started again after for", targets: anyone,
		needs: disks, lacks: lacksDisks, run: failDisk(forgetfs.Writes, syscall.ENOSPC),
	},
	"disk_readonly": {
		help: "every change of the target's disks fails with EROFS: its nodes must end, and are started again after for", targets: anyone,
		needs: disks, lacks: lacksDisks, run: failDisk(append(slices.Clone(forgetfs.Writes), forgetfs.Remove), syscall.EROFS),
	},
	"disk_stall": {
		help: "the next sync of each of the target's disks takes that long", targets: anyone, needs: disks, lacks: lacksDisks, run: onDisks(stallDisk),
	},
	"power": {
		help: "the power of the target's nodes is cut at once: what was not synced is gone, or a part of it; they start again after for", targets: anyone,
		needs: disks, lacks: lacksDisks, run: onDisks(cutPower),
	},
}

// struck waits until the traps have struck.
func (s *strike) struck(traps []<-chan struct{}) error {
	late := time.NewTimer(struckWithin)
	defer late.Stop()
	for _, t := range traps {
		select {
		case <-t:
		case <-late.C:
			return fmt.Errorf("%w: the disk was not used within %s", errSkipped, struckWithin)
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
	return nil
}

// onDisks is what is done to the disks of the nodes that the target means.
func onDisks(run func(*strike, []*member) error) func(*strike) error {
	return func(s *strike) error {
		ms, giveBack, err := s.take()
		if err != nil {
			return err
		}
		defer giveBack()
		return run(s, ms)
	}
}

// failDisk has disks fail: a node whose disk has failed must end with an error that names what failed, and answer nothing more.
func failDisk(on []forgetfs.Op, errno syscall.Errno) func(*strike) error {
	return onDisks(func(s *strike, ms []*member) error {
		var traps []<-chan struct{}
		for _, m := range ms {
			m.doomed.Store(true)
			traps = append(traps, m.disk.Set(forgetfs.Trap{On: on, N: 1, Do: forgetfs.Fail, Err: errno}))
			defer m.disk.Clear()
		}
		s.begin()
		if err := s.struck(traps); err != nil {
			// Some may have been struck: all go down.
			s.engine.kill(ms)
			for _, m := range ms {
				m.disk.Clear()
			}
			return errors.Join(err, s.engine.startReady(s.ctx, ms))
		}
		ctx, cancel := context.WithTimeout(s.ctx, endsWithin)
		defer cancel()
		for _, m := range ms {
			if err := s.ends(ctx, m, errno); err != nil {
				s.engine.problem("G17: %v", err)
			}
		}
		s.engine.kill(ms) // who did not end
		if s.quorum(ms) {
			s.mark(history.Down)
		}
		if s.last() != nil {
			return nil
		}
		for _, m := range ms {
			m.disk.Clear()
			// What the failed call should have written is lost, and the machine's cache has it still, unless the machine is started again too.
			if s.rng.IntN(2) == 0 {
				cut := forgetfs.Draw(s.rng, forgetfs.All, forgetfs.Some, forgetfs.Torn)
				s.Note += fmt.Sprintf("%s: machine started again, %s; ", m.Name, cut)
				if _, err := m.disk.Cut(cut); err != nil {
					return err
				}
			}
		}
		if s.rng.IntN(2) == 0 {
			// What they tell others when they are back must be there after a power cut.
			if s.quorum(ms) {
				s.mark(history.Up)
			}
			if err := s.engine.startReady(s.ctx, ms); err != nil {
				return err
			}
			if err := s.cut(ms); err != nil {
				return err
			}
			if s.quorum(ms) {
				s.mark(history.Down)
			}
		}
		return s.up(ms)
	})
}

// ends demands that a node ends as it must on a disk that fails.
func (s *strike) ends(ctx context.Context, m *member, errno syscall.Errno) error {
	code, err := m.Exited(ctx)
	if err != nil {
		return fmt.Errorf("the disk of node %s has failed at %s, and it goes on", m.Name, m.disk.Struck())
	}
	b, err := os.ReadFile(m.LogFile)
	if err != nil {
		return err
	}
	last := string(b[max(0, len(b)-logTail):])
	if code <= 0 || !strings.Contains(last, errno.Error()) || !strings.Contains(last, m.DataDir) {
		return fmt.Errorf("the disk of node %s has failed at %s: it ended with code %d, want a positive one, and a file and %q named; its log ends:\n%s",
			m.Name, m.disk.Struck(), code, errno.Error(), last)
	}
	return nil
}

// stallDisk has one sync take long.
func stallDisk(s *strike, ms []*member) error {
	var traps []<-chan struct{}
	for _, m := range ms {
		traps = append(traps, m.disk.Set(forgetfs.Trap{On: forgetfs.Syncs, N: 1, Do: forgetfs.Stall, For: time.Duration(s.For)}))
		defer m.disk.Clear()
	}
	if err := s.struck(traps); err != nil {
		return err
	}
	s.begin()
	_ = s.last() // the stall ends with the trap in any case
	s.heal()
	return nil
}

// cutPower cuts the power of nodes at once.
func cutPower(s *strike, ms []*member) error {
	if err := s.cut(ms); err != nil {
		return err
	}
	s.down(ms)
	if s.last() != nil {
		return nil
	}
	return s.up(ms)
}

// cut cuts the power of nodes that run, at once.
func (s *strike) cut(ms []*member) error {
	var cuts []forgetfs.Cut
	for _, m := range ms {
		cuts = append(cuts, forgetfs.Draw(s.rng, forgetfs.All, forgetfs.Some, forgetfs.Some, forgetfs.Torn, forgetfs.Kept))
		m.doomed.Store(true)
		m.disk.Hold()
	}
	errs := make([]error, len(ms))
	var wg sync.WaitGroup
	for i, m := range ms {
		wg.Go(func() { _, errs[i] = m.disk.Cut(cuts[i], &m.Process) })
	}
	wg.Wait()
	for i, m := range ms {
		s.Note += fmt.Sprintf("%s: %s; ", m.Name, cuts[i])
	}
	return errors.Join(errs...)
}
