package group

import (
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/fsm"
)

const (
	// A snapshot rests twice as long as it has worked, after each stint: it takes three times as long and leaves two thirds of the
	// processor and the disk, which three nodes on one machine share, to the entries. The rests end for good when the log has grown by
	// half of what the next snapshot is due at or by snapshotHurry, since what a snapshot pins stays in memory, and the log is read at a
	// start.
	snapshotStint   = 8 * time.Millisecond // timers are a millisecond late
	snapshotRests   = 2
	snapshotHurry   = 256 << 20
	snapshotLongest = 100 * time.Millisecond // of a rest, however long the disk took
)

// snapshot is a view on its way to a sink.
type snapshot struct {
	view *fsm.View
	pace *pace         // nil: no rests
	took func(n int)   // told of each write; nil: nobody
	done func(n int64) // told how many bytes a snapshot that was written has; nil: nobody
}

func (g *Group) newSnapshot(view *fsm.View) *snapshot {
	until := g.logBytes.Load() + min(g.snapshotDue()/2, snapshotHurry)
	return &snapshot{
		view: view,
		pace: &pace{mono: g.clock.Mono, stop: g.stopSnapshot, hurry: func() bool { return g.logBytes.Load() >= until }},
		took: func(n int) { g.claimed.Add(-int64(n)) },
		done: g.snapshotSize.Store,
	}
}

// Persist streams the view. The sink is closed, or cancelled on an error.
func (s *snapshot) Persist(sink raft.SnapshotSink) error {
	s.pace.begin()
	n, err := s.view.WriteTo(&paced{w: sink, pace: s.pace, took: s.took})
	if err != nil {
		_ = sink.Cancel()
		return fmt.Errorf("write snapshot: %w", err)
	}
	if err := sink.Close(); err != nil {
		return err
	}
	if s.done != nil {
		s.done(n)
	}
	return nil
}

// Release lets go of the view.
func (s *snapshot) Release() { s.view.Release() }

// paced rests between writes, which a view makes of 64 KiB and more.
type paced struct {
	w    io.Writer
	pace *pace
	took func(n int)
}

func (p *paced) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	if p.took != nil {
		p.took(n)
	}
	p.pace.rest()
	return n, err
}

// pace makes the writing of a snapshot rest. A nil one does not.
type pace struct {
	mono  func() time.Duration
	stop  <-chan struct{} // closed: no more rests
	hurry func() bool     // says that there are to be no more rests
	from  time.Duration   // of the stint
	over  bool
}

func (p *pace) begin() {
	if p != nil {
		p.from = p.mono()
	}
}

// rest rests if the stint was long enough.
func (p *pace) rest() {
	if p == nil || p.over {
		return
	}
	worked := p.mono() - p.from
	if worked < snapshotStint {
		return
	}
	if p.over = p.hurry(); p.over {
		return
	}
	t := time.NewTimer(min(snapshotRests*worked, snapshotLongest))
	defer t.Stop()
	select {
	case <-t.C:
	case <-p.stop:
		p.over = true
	}
	p.from = p.mono()
}

// counted counts what is read.
type counted struct {
	r io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
