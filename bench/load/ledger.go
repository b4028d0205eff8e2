package load

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// ledger knows of every message of a run what became of it: sent with which bytes, confirmed, delivered how often,
// acknowledged. Entries are made in order and never go; memory is 8 bytes a message, taken in chunks. All methods may be
// called from any goroutine.
type ledger struct {
	next   atomic.Uint64
	chunks [maxChunks]atomic.Pointer[chunk]
	mu     sync.Mutex // serialises making chunks

	sent, confirmed, refused, unknown         atomic.Int64
	delivered, distinct, settled, acked       atomic.Int64
	arrived                                   atomic.Int64 // confirmed and delivered, in whichever order
	duplicates, answeredTwice, unexpectedSeen atomic.Int64
}

const (
	chunkMessages = 1 << 16
	maxChunks     = 4096 // 268 million messages
	maxMessages   = chunkMessages * maxChunks
)

type chunk struct {
	sum   [chunkMessages]uint32
	state [chunkMessages]atomic.Uint32
}

// Bits of a message's state.
const (
	wasSent uint32 = 1 << iota
	wasConfirmed
	wasRefused
	wasUnknown
	wasDelivered
	wasAcked
)

// open takes the next sequence number, before the message is built. It fails when the ledger is full.
func (l *ledger) open() (seq uint64, err error) {
	seq = l.next.Add(1) - 1
	if seq >= maxMessages {
		return 0, fmt.Errorf("a run may send %d messages and no more: shorten it", maxMessages)
	}
	if l.chunks[seq/chunkMessages].Load() == nil {
		l.mu.Lock()
		if l.chunks[seq/chunkMessages].Load() == nil {
			l.chunks[seq/chunkMessages].Store(new(chunk))
		}
		l.mu.Unlock()
	}
	return seq, nil
}

func (l *ledger) at(seq uint64) (*chunk, uint64) {
	return l.chunks[seq/chunkMessages].Load(), seq % chunkMessages
}

// send notes the bytes of a message that is about to be sent.
func (l *ledger) send(seq uint64, sum uint32) {
	c, i := l.at(seq)
	c.sum[i] = sum
	c.state[i].Store(wasSent) // publishes sum
	l.sent.Add(1)
}

// outcome of an enqueue.
type outcome uint8

const (
	outConfirmed outcome = iota
	outRefused
	outUnknown
)

// settle notes how the enqueue of a message ended.
func (l *ledger) settle(seq uint64, o outcome) {
	c, i := l.at(seq)
	bit := [...]uint32{wasConfirmed, wasRefused, wasUnknown}[o]
	old := c.state[i].Or(bit)
	if old&(wasConfirmed|wasRefused|wasUnknown) != 0 {
		l.answeredTwice.Add(1)
	}
	if o == outConfirmed && old&wasDelivered != 0 {
		l.arrived.Add(1)
	}
	[...]*atomic.Int64{&l.confirmed, &l.refused, &l.unknown}[o].Add(1)
	l.settled.Add(1)
}

// deliver notes a received message and reports whether it is the first time. A message that was never sent, or with other
// bytes, or that was refused, is an error.
func (l *ledger) deliver(seq uint64, sum uint32) (first bool, err error) {
	if seq >= l.next.Load() {
		return false, l.unexpected("message %d was received; only %d were sent", seq, l.next.Load())
	}
	c, i := l.at(seq)
	if c == nil {
		return false, l.unexpected("message %d was received and never sent", seq)
	}
	old := c.state[i].Or(wasDelivered)
	switch {
	case old&wasSent == 0:
		return false, l.unexpected("message %d was received and never sent", seq)
	case c.sum[i] != sum:
		return false, l.unexpected("message %d was sent with checksum %08x and received with %08x", seq, c.sum[i], sum)
	case old&wasRefused != 0:
		return false, l.unexpected("message %d was received though its enqueue was refused", seq)
	}
	l.delivered.Add(1)
	if old&wasDelivered != 0 {
		l.duplicates.Add(1)
		return false, nil
	}
	l.distinct.Add(1)
	if old&wasConfirmed != 0 {
		l.arrived.Add(1)
	}
	return true, nil
}

func (l *ledger) unexpected(format string, args ...any) error {
	l.unexpectedSeen.Add(1)
	return fmt.Errorf(format, args...)
}

// ack notes a confirmed acknowledgement and reports whether it is the message's first.
func (l *ledger) ack(seq uint64) bool {
	c, i := l.at(seq)
	if c.state[i].Or(wasAcked)&wasAcked != 0 {
		return false
	}
	l.acked.Add(1)
	return true
}

// lost counts the messages that were confirmed and not delivered; unanswered those whose enqueue had no outcome at all;
// recovered those of unknown outcome that were delivered. It walks everything: call it at the end.
func (l *ledger) lost() (lost, unanswered, recovered int64) {
	n := min(l.next.Load(), maxMessages)
	for seq := range n {
		c, i := l.at(seq)
		if c == nil {
			continue
		}
		s := c.state[i].Load()
		switch {
		case s&wasSent == 0:
		case s&(wasConfirmed|wasRefused|wasUnknown) == 0:
			unanswered++
		case s&wasConfirmed != 0 && s&wasDelivered == 0:
			lost++
		case s&wasUnknown != 0 && s&wasDelivered != 0:
			recovered++
		}
	}
	return lost, unanswered, recovered
}
