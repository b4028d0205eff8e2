package sim

import (
	"bytes"
	"io"
	"os"
	"time"
)

// silence is what a node waits for within a request (cluster/link).
const silence = 5 * time.Second

// slow is a snapshot's bytes as they come in: mostly at once, or piece by piece, or not to the end. Raft's loop reads them.
func (p *post) slow(from string, body []byte) io.Reader {
	b := &slowBody{p: p, from: edge{from, p.host}, left: bytes.NewReader(body), piece: len(body)}
	if d := p.n.dice; p.w.faulty() && d.upTo(3) == 0 {
		b.piece, b.step = 1+len(body)/4, time.Duration(d.upTo(800))*time.Millisecond
		if d.upTo(3) == 0 {
			b.stop = int(d.upTo(int64(len(body))))
		}
	}
	return b
}

type slowBody struct {
	p     *post
	from  edge
	left  *bytes.Reader
	piece int           // bytes that come at once
	step  time.Duration // before each piece
	stop  int           // the connection ends when that many are left; 0: it does not
}

// Read implements io.Reader.
func (b *slowBody) Read(into []byte) (int, error) {
	if b.left.Len() > 0 && b.step > 0 {
		time.Sleep(b.step)
	}
	switch {
	case b.p.closed(), b.stop > 0 && b.left.Len() <= b.stop:
		return 0, io.ErrUnexpectedEOF
	case b.p.n.cut(b.from):
		time.Sleep(silence)
		return 0, os.ErrDeadlineExceeded
	}
	return b.left.Read(into[:min(len(into), b.piece)])
}
