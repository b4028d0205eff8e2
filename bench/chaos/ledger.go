package chaos

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/client"
)

// Ledger accounts for the messages of one run. Safe for concurrent use.
type Ledger struct {
	mu        sync.Mutex
	sent      map[uint64]*entry // by number
	next      uint64
	pending   int
	phantoms  []string
	confirms  int
	lastOK    time.Time
	gap       time.Duration
	gapOpen   bool
	delivered int
	repeated  int
}

type entry struct {
	id        string
	confirmed bool
	unknown   bool
	refused   bool
	seen      int
	sum       [32]byte
}

// NewLedger is an empty ledger.
func NewLedger() *Ledger { return &Ledger{sent: map[uint64]*entry{}} }

// Clone is a ledger that goes on from what l knows, for another run from the same data. Nothing may be under way.
func (l *Ledger) Clone() *Ledger {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &Ledger{
		sent: make(map[uint64]*entry, len(l.sent)), next: l.next, phantoms: slices.Clone(l.phantoms), confirms: l.confirms,
		lastOK: l.lastOK, gap: l.gap, gapOpen: l.gapOpen, delivered: l.delivered, repeated: l.repeated,
	}
	for n, e := range l.sent {
		e := *e
		c.sent[n] = &e
	}
	return c
}

// body makes the next body of the given size (≥ 16): number, padding, CRC32C.
func (l *Ledger) body(size int) (uint64, []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	b := make([]byte, size)
	binary.BigEndian.PutUint64(b, l.next)
	for i := 8; i < size-4; i++ {
		b[i] = byte(l.next>>(8*(i%8))) ^ byte(i)
	}
	binary.BigEndian.PutUint32(b[size-4:], crc32.Checksum(b[:size-4], crc32.MakeTable(crc32.Castagnoli)))
	l.sent[l.next] = &entry{sum: sha256.Sum256(b)}
	l.pending++
	return l.next, b
}

// Produce enqueues messages of the given size until ctx ends, with at most window unanswered, and returns once all are
// answered. Refusals and unknown outcomes are noted; any other error ends it.
func (l *Ledger) Produce(ctx context.Context, cl *client.Client, queue string, size, window int) error {
	return l.ProduceAt(ctx, cl, queue, size, window, math.Inf(1), func(time.Duration) {})
}

// ProduceAt is Produce with so many a second, evenly; what could not go when it was due, for want of answers, goes later.
// confirmed is told how long each confirmation took.
func (l *Ledger) ProduceAt(ctx context.Context, cl *client.Client, queue string, size, window int, rate float64, confirmed func(time.Duration)) error {
	slots := make(chan struct{}, window)
	began := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		if wait := time.Duration(float64(i)/rate*float64(time.Second)) - time.Since(began); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				continue
			}
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			continue
		}
		n, b := l.body(size)
		from := time.Now()
		// The call has its own time: the end of the run must not turn what is under way into unknowns.
		err := cl.EnqueueAsync(context.WithoutCancel(ctx), queue, client.Message{Body: b}, func(r client.Receipt, err error) {
			l.answered(n, r, err)
			if err == nil {
				confirmed(time.Since(from))
			}
			<-slots
		})
		if err != nil {
			l.answered(n, client.Receipt{}, err)
			<-slots
			return fmt.Errorf("enqueue: %w", err)
		}
	}
	for range window {
		slots <- struct{}{}
	}
	return nil
}

func (l *Ledger) answered(n uint64, r client.Receipt, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.sent[n]
	l.pending--
	switch {
	case err == nil:
		e.id, e.confirmed = r.ID, true
		l.confirms++
		now := time.Now()
		if l.gapOpen {
			l.gap = max(l.gap, now.Sub(l.lastOK))
		}
		l.lastOK, l.gapOpen = now, true
	case client.Unknown(err):
		e.unknown = true
	default:
		e.refused = true
	}
}

// Handle is a client.Handler: it checks the body and answers its SHA-256.
func (l *Ledger) Handle(_ context.Context, d *client.Delivery) (*client.Result, error) {
	sum := sha256.Sum256(d.Body)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delivered++
	if len(d.Body) < 16 {
		l.phantoms = append(l.phantoms, fmt.Sprintf("%s: a body of %d bytes", d.ID, len(d.Body)))
		return nil, errors.New("not ours")
	}
	e := l.sent[binary.BigEndian.Uint64(d.Body)]
	if e == nil || e.sum != sum {
		l.phantoms = append(l.phantoms, fmt.Sprintf("%s: bytes that were never sent", d.ID))
		return nil, errors.New("not ours")
	}
	if e.id == "" {
		e.id = d.ID // confirmed later, or unknown and now found
	} else if e.id != d.ID {
		l.phantoms = append(l.phantoms, fmt.Sprintf("message %d is both %s and %s", binary.BigEndian.Uint64(d.Body), e.id, d.ID))
	}
	if e.seen++; e.seen > 1 {
		l.repeated++
	}
	return &client.Result{Output: sum[:]}, nil
}

// Report is what a run came to.
type Report struct {
	Confirmed, Refused, Unknown, Recovered int
	Delivered, Repeated                    int
	Lost, Phantom                          []string
	LongestGap                             time.Duration // between two confirmed enqueues
}

// Check reads every result and counts. Call it after the queue is drained and producers and consumers have ended.
func (l *Ledger) Check(ctx context.Context, cl *client.Client, queue string) (Report, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := Report{Confirmed: l.confirms, Delivered: l.delivered, Repeated: l.repeated, Phantom: l.phantoms, LongestGap: l.gap}
	type job struct {
		n uint64
		e *entry
	}
	jobs := make(chan job)
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex // guards r and first
		first error
	)
	for range 64 {
		wg.Go(func() {
			for j := range jobs {
				bad, err := judge(ctx, cl, queue, j.n, j.e)
				mu.Lock()
				if err != nil && first == nil {
					first = err
				}
				if bad != "" {
					r.Lost = append(r.Lost, bad)
				}
				mu.Unlock()
			}
		})
	}
	for n, e := range l.sent {
		switch {
		case e.refused:
			r.Refused++
			if e.seen > 0 {
				r.Phantom = append(r.Phantom, fmt.Sprintf("message %d was refused, yet delivered", n))
			}
		case e.unknown:
			r.Unknown++
			if e.seen > 0 {
				r.Recovered++
			}
		}
		if e.confirmed || e.unknown && e.seen > 0 {
			jobs <- job{n, e}
		}
	}
	close(jobs)
	wg.Wait()
	return r, first
}

// judge says what is wrong with one message that must have a result, "" if nothing is.
func judge(ctx context.Context, cl *client.Client, queue string, n uint64, e *entry) (string, error) {
	res, err := cl.Result(ctx, queue, e.id)
	switch {
	case errors.Is(err, client.ErrNotFound):
		return fmt.Sprintf("message %d (%s) has no result", n, e.id), nil
	case err != nil:
		return "", fmt.Errorf("result of %s: %w", e.id, err)
	case res.Dead != nil:
		return fmt.Sprintf("message %d (%s) is dead: %s", n, e.id, res.Dead.Error), nil
	case string(res.Result.Output) != string(e.sum[:]):
		return fmt.Sprintf("message %d (%s) has a result that is not its own", n, e.id), nil
	}
	return "", nil
}

// Confirmed is how many enqueues have been confirmed so far.
func (l *Ledger) Confirmed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.confirms
}

// Undelivered are the ids of messages that were confirmed and never delivered. Call it after the queue is drained and producers and
// consumers have ended.
func (l *Ledger) Undelivered() (ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.sent {
		if e.confirmed && e.seen == 0 {
			ids = append(ids, e.id)
		}
	}
	return ids
}
