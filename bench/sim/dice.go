package sim

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"math/rand/v2"
	"sync"
	"time"
)

// dice are what everything that is drawn while a run goes on is drawn with. Where the scheduler is repeatable, so is the row.
type dice struct {
	mu sync.Mutex
	r  *rand.Rand
}

func newDice(seed uint64) *dice { return &dice{r: rand.New(rand.NewPCG(seed, 0xd1ce))} }

// upTo draws from 0 to n-1; 0 where n is no more than that.
func (d *dice) upTo(n int64) int64 {
	if n <= 1 {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.Int64N(n)
}

// lines is how many lines of a run's story are kept.
const lines = 5000

// trace is all that happened, in order: each message that arrived, each entry that a node applied, each fault. Two runs of which
// the sums are equal were the same.
type trace struct {
	start time.Time

	mu    sync.Mutex
	sum   hash.Hash
	buf   []byte
	story []string
}

func newTrace() *trace { return &trace{start: time.Now(), sum: sha256.New()} }

func (t *trace) record(kind byte, from, to string, ns ...uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := append(t.buf[:0], kind)
	b = binary.BigEndian.AppendUint64(b, uint64(time.Since(t.start)))
	b = append(append(append(append(b, from...), 0), to...), 0)
	for _, n := range ns {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	t.buf = b
	t.sum.Write(b)
}

func (t *trace) message(e edge, what byte, size int) {
	t.record(1, e.from, e.to, uint64(what), uint64(size))
}

func (t *trace) applied(node string, index, term, sum uint64) {
	t.record(2, node, "", index, term, sum)
}

// say tells a step of the story.
func (t *trace) say(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	t.record(3, s, "")
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.story) < lines {
		t.story = append(t.story, fmt.Sprintf("%9.3f s  %s", time.Since(t.start).Seconds(), s))
	}
}

// add takes in bytes that stand for what happened elsewhere.
func (t *trace) add(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum.Write(b)
}

func (t *trace) hex() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return hex.EncodeToString(t.sum.Sum(nil))
}

// clock is a node's: its wall is off and may jump, and it runs at a pace of its own.
type clock struct {
	mu   sync.Mutex
	at   time.Time     // when mono was
	mono time.Duration // what it showed then
	wall int64         // ms to be added for the wall clock
	ppm  int64
}

func newClock(t Tick) *clock {
	now := time.Now()
	return &clock{at: now, mono: time.Hour, wall: now.Add(-time.Hour).UnixMilli() + t.OffsetMS, ppm: t.PPM}
}

// Mono implements group.Clock.
func (c *clock) Mono() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read()
}

func (c *clock) read() time.Duration {
	passed := time.Since(c.at)
	return c.mono + passed + time.Duration(int64(passed)/1_000_000*c.ppm)
}

// WallMillis implements group.Clock.
func (c *clock) WallMillis() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read().Milliseconds() + c.wall
}

// jump moves the wall clock.
func (c *clock) jump(ms int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall += ms
}

// run has it go at another pace from now on.
func (c *clock) run(ppm int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mono, c.at = c.read(), time.Now()
	c.ppm = ppm
}
