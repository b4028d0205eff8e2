package store

import (
	"cmp"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/quorate/quorate/fsm/mutant"
)

// ErrReleased is what a store call that was held by a tripped Halt returns once the owner has let it go.
var ErrReleased = errors.New("store stopped after a failure")

// Halt is the fail-stop switch that the log, stable and snapshot store of one node share. The first failure trips it: from
// then on no call of any of them returns before Release, so that nothing that was written after the failure can be
// acknowledged, whatever the caller would have done with the error.
type Halt struct {
	mu       sync.Mutex
	err      error
	armed    bool
	fatal    func(error)
	tripped  chan struct{}
	released chan struct{}
	once     sync.Once
}

// NewHalt makes a switch that calls fatal, once and on a goroutine of its own, when it trips after Arm. fatal is expected
// to end the process.
func NewHalt(fatal func(error)) *Halt {
	return &Halt{fatal: fatal, tripped: make(chan struct{}), released: make(chan struct{})}
}

// Arm says that the node is up: from now on a failure is fatal. Before it, who opens the stores watches Tripped instead and
// reports the error itself. A failure that came in between is made fatal now.
func (h *Halt) Arm() {
	h.mu.Lock()
	h.armed = true
	err := h.err
	h.mu.Unlock()
	if err != nil {
		go h.fatal(err)
	}
}

// Tripped is closed at the first failure.
func (h *Halt) Tripped() <-chan struct{} { return h.tripped }

// Err is the first failure, nil while there was none.
func (h *Halt) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// Release lets go of the calls that a failure has stopped; they return ErrReleased, but for the two over whose errors raft panics
// (Log.GetLog, Stable.SetUint64; group.Ahead does likewise). For the owner alone, when the node is being taken down and nobody listens to its answers any more.
func (h *Halt) Release() { h.once.Do(func() { close(h.released) }) }

// trip records err and holds the caller until Release.
func (h *Halt) trip(err error) error {
	if mutant.ContinuesAfterEIO {
		return err
	}
	select {
	case <-h.released:
		return fmt.Errorf("%w: %w", ErrReleased, cmp.Or(err, h.Err()))
	default:
	}
	h.mu.Lock()
	first := h.err == nil
	if first {
		h.err = err
		close(h.tripped)
	}
	armed := h.armed
	h.mu.Unlock()
	if first && armed {
		go h.fatal(err)
	}
	<-h.released
	return fmt.Errorf("%w: %w", ErrReleased, h.Err())
}

// hold stops a call that arrives after the switch has tripped.
func (h *Halt) hold() error {
	select {
	case <-h.tripped:
		return h.trip(nil)
	default:
		return nil
	}
}

// do runs f, which touches file (see guard), unless the switch has tripped, and holds its result where it trips meanwhile: a sync that passes
// after one that has failed proves nothing.
func (h *Halt) do(file string, f func() error) error {
	if err := h.hold(); err != nil {
		return err
	}
	err := guard(file, f)
	if held := h.hold(); held != nil {
		return held
	}
	return err
}

// wait is hold for a call that has no error to give: it goes on after Release.
func (h *Halt) wait() {
	select {
	case <-h.tripped:
		<-h.released
	default:
	}
}

// guard runs f, which touches file, and turns a panic or a memory fault in it (a damaged bbolt file shows itself in both
// ways) into an error that names the file.
func guard(file string, f func() error) (err error) {
	// A page beyond the end of a file that was cut short faults; as a panic it can be told with the file's name.
	old := debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(old)
	defer func() {
		if p := recover(); p != nil {
			err = &DamageError{File: file, What: fmt.Sprintf("unreadable structure (%v)", p)}
		}
	}()
	return f()
}
