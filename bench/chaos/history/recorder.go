package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// MaxEvents is how many events a recorder takes, about two gigabytes of file; what is beyond is an error of the run.
const MaxEvents = 10_000_000

// Recorder writes events to a file as they happen, a line of JSON each, or keeps them. Safe for concurrent use; an event costs
// a few microseconds and a system call every 64 KiB.
type Recorder struct {
	start time.Time

	mu    sync.Mutex // guards what follows; it is also what makes At rise through the file
	f     *os.File   // nil: they are kept, or it is closed
	w     *bufio.Writer
	enc   *json.Encoder
	kept  []Event
	count int
	calls uint64
	limit int
	err   error // the first; nothing is written after it
}

// ErrFull says that a recorder has taken all it takes.
var ErrFull = errors.New("history is full")

// Record begins a file; limit is how many events it takes, 0 for MaxEvents.
func Record(file string, limit int) (*Recorder, error) {
	if limit <= 0 || limit > MaxEvents {
		limit = MaxEvents
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("record a history: %w", err)
	}
	w := bufio.NewWriterSize(f, 64<<10)
	return &Recorder{start: time.Now(), f: f, w: w, enc: json.NewEncoder(w), limit: limit}, nil
}

// Keep begins a history in memory, of at most limit events, 0 for MaxEvents.
func Keep(limit int) *Recorder {
	if limit <= 0 || limit > MaxEvents {
		limit = MaxEvents
	}
	return &Recorder{start: time.Now(), limit: limit}
}

// Kept are the events of a recorder that was made by Keep. Nothing may be added any more.
func (r *Recorder) Kept() ([]Event, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kept, r.err
}

// Call notes that a request is about to be sent, and draws the number that ties its return to it. Note the return only
// when the answer has been read: the order of the two clocks is what real time means here.
func (r *Recorder) Call(e Event) (call uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	e.Kind, e.Call = Call, r.calls
	r.add(&e)
	return e.Call
}

// Add notes any other event.
func (r *Recorder) Add(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(&e)
}

func (r *Recorder) add(e *Event) {
	if r.err != nil {
		return
	}
	if r.count >= r.limit {
		r.err = fmt.Errorf("%w: %d events", ErrFull, r.count)
		return
	}
	r.count++
	e.At = time.Since(r.start).Microseconds()
	if r.enc == nil {
		r.kept = append(r.kept, *e)
		return
	}
	r.err = r.enc.Encode(e)
}

// Elapsed is how long ago the recorder began: the time that an event would bear now.
func (r *Recorder) Elapsed() time.Duration { return time.Since(r.start) }

// Count is how many events there are.
func (r *Recorder) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}

// Close ends the file. Its error is the first of all.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.f == nil {
		return r.err
	}
	if err := r.w.Flush(); r.err == nil {
		r.err = err
	}
	if err := r.f.Close(); r.err == nil {
		r.err = err
	}
	r.f = nil
	return r.err
}

// ReadEvents loads what a Recorder wrote.
func ReadEvents(r io.Reader) ([]Event, error) { return readLines[Event](r, "event") }

// ReadEffects loads what WriteEffects wrote.
func ReadEffects(r io.Reader) ([]Effect, error) { return readLines[Effect](r, "effect") }

// WriteEffects writes effects, a line of JSON each.
func WriteEffects(w io.Writer, fx []Effect) error { return writeLines(w, fx) }

// WriteEvents writes events, a line of JSON each.
func WriteEvents(w io.Writer, es []Event) error { return writeLines(w, es) }

func readLines[T any](r io.Reader, what string) (all []T, err error) {
	d := json.NewDecoder(bufio.NewReaderSize(r, 64<<10))
	d.DisallowUnknownFields()
	for {
		var v T
		switch err := d.Decode(&v); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("%s %d: %w", what, len(all)+1, err)
		case len(all) == MaxEvents:
			return nil, fmt.Errorf("%w: more than %d", ErrFull, MaxEvents)
		}
		all = append(all, v)
	}
}

func writeLines[T any](w io.Writer, all []T) error {
	b := bufio.NewWriterSize(w, 64<<10)
	e := json.NewEncoder(b)
	for i := range all {
		if err := e.Encode(&all[i]); err != nil {
			return err
		}
	}
	return b.Flush()
}
