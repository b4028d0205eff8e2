//go:build !wasip1

package store

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// walFrames is what a segment file holds, found by reading all of it. raft-wal takes the first frame that it cannot read for
// the end of the log and checks no more than the last batch, which turns one flipped bit into lost entries; so nothing of
// it is opened before it was read here.
//
//	file:   magic 4 | 0 3 | version 1 | base index 8 | segment's id 8 | codec 8 | frames, little-endian
//	frame:  type 1 | 0 3 | length 4 | data, padded to 8
//	types:  1 an entry; 2 the index block: where each entry's frame begins, 4 each; the last thing before a seal's commit
//	        3 a commit: instead of a length, the CRC32C of everything since the commit before, or since the file's beginning
type walFrames struct {
	offsets []uint32 // of the frames of committed entries
	end     int64    // behind the last commit
	index   uint64   // where the index block's data begin, 0: not sealed
	rest    error    // what follows end, when it is neither zeros nor the end of the file
	later   bool     // a whole batch follows what cannot be read: that was no torn write
}

const (
	walMagic      = 0x58eb6b0d
	walFileHead   = 32
	walFrameHead  = 8
	walEntry      = 1
	walIndex      = 2
	walCommit     = 3
	walReadBuffer = 256 << 10
)

func walPadded(n int64) int64 { return (n + 7) &^ 7 }

// walHead is the head of a segment's file.
func walHead(info walSegmentInfo, codec uint64) []byte {
	b := make([]byte, walFileHead)
	binary.LittleEndian.PutUint32(b, walMagic)
	binary.LittleEndian.PutUint64(b[8:], info.Base)
	binary.LittleEndian.PutUint64(b[16:], info.ID)
	binary.LittleEndian.PutUint64(b[24:], codec)
	return b
}

// readWALFrames reads a segment's file. An error is one of reading; what the file says is judged by the caller.
func readWALFrames(f io.ReaderAt, info walSegmentInfo, codec uint64) (*walFrames, error) {
	w := &walFrames{}
	r := bufio.NewReaderSize(io.NewSectionReader(f, 0, 1<<62), walReadBuffer)
	head := make([]byte, walFileHead)
	if n, err := io.ReadFull(r, head); err != nil {
		if nonEOF(err) != nil {
			return nil, err
		}
		if n > 0 && !bytes.Equal(head, make([]byte, walFileHead)) {
			w.rest = fmt.Errorf("cut short at %d bytes", n)
		}
		return w, nil
	}
	if want := walHead(info, codec); !bytes.Equal(head, want) {
		if !bytes.Equal(head, make([]byte, walFileHead)) {
			w.rest = fmt.Errorf("head %x, want %x", head, want)
		}
		return w, nil
	}
	p := walParser{r: r, at: walFileHead, sum: crc32.Checksum(head, castagnoli)}
	for {
		b, err := p.batch()
		switch {
		case errors.Is(err, io.EOF):
			return w, nil
		case err != nil && p.failed != nil:
			return nil, p.failed
		case err != nil:
			if w.rest == nil {
				w.rest = fmt.Errorf("at byte %d: %w", p.at, err)
			}
			if !errors.Is(err, errWALSum) {
				return w, nil
			}
			continue // its frames can be walked: see whether another batch follows
		case w.rest != nil:
			w.later = true
			return w, nil
		}
		w.offsets, w.end, w.index = append(w.offsets, b.offsets...), p.at, b.index
		if b.index != 0 {
			return w, nil
		}
	}
}

var errWALSum = errors.New("a batch fails its checksum")

// walParser reads batch after batch.
type walParser struct {
	r      *bufio.Reader
	at     int64  // of what is read next
	sum    uint32 // of the batch so far
	failed error  // of reading
}

// walBatch is what one commit covers.
type walBatch struct {
	offsets []uint32
	index   uint64
}

// batch reads up to a commit. io.EOF is the end of what was written.
func (p *walParser) batch() (b walBatch, err error) {
	defer func() { p.sum = 0 }()
	for started := false; ; started = true {
		head, err := p.r.Peek(walFrameHead)
		if nonEOF(err) != nil {
			p.failed = err
			return b, err
		}
		if len(head) == 0 || bytes.Equal(head, make([]byte, len(head))) {
			if started {
				return b, errors.New("a batch without a commit")
			}
			return b, io.EOF
		}
		if len(head) < walFrameHead {
			return b, errors.New("a frame is cut short")
		}
		kind, length := head[0], binary.LittleEndian.Uint32(head[4:])
		if kind == walCommit {
			p.skip(walFrameHead)
			if length != p.sum {
				return b, errWALSum
			}
			return b, nil
		}
		if kind != walEntry && kind != walIndex || head[1]|head[2]|head[3] != 0 || b.index != 0 {
			return b, fmt.Errorf("no frame begins with %x", head)
		}
		p.sum = crc32.Update(p.sum, castagnoli, head)
		frame := p.at
		p.skip(walFrameHead)
		if kind == walEntry {
			b.offsets = append(b.offsets, uint32(frame))
		} else {
			b.index = uint64(frame) + walFrameHead
		}
		if err := p.data(walPadded(int64(length))); err != nil {
			return b, err
		}
	}
}

// data sums up n bytes.
func (p *walParser) data(n int64) error {
	for n > 0 {
		b, err := p.r.Peek(int(min(n, walReadBuffer)))
		if nonEOF(err) != nil {
			p.failed = err
			return err
		}
		if len(b) == 0 {
			return errors.New("a frame is cut short")
		}
		p.sum = crc32.Update(p.sum, castagnoli, b)
		p.skip(len(b))
		n -= int64(len(b))
	}
	return nil
}

// skip passes over bytes that were peeked at.
func (p *walParser) skip(n int) {
	_, _ = p.r.Discard(n) // they are in the buffer
	p.at += int64(n)
}
