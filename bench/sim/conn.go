package sim

import (
	"context"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// pipeRoom is how many bytes may be on their way in one direction before a write waits.
const pipeRoom = 256 << 10

// resend is when a lost piece of a stream is sent again.
const resend = 200 * time.Millisecond

// piece is what one write put on its way.
type piece struct {
	at   time.Time // not before
	data []byte
	end  error // io.EOF or a reset, after data
}

// pipe is one direction of a connection: bytes in order, late, and not at all while its edge is cut. What it is given while that
// is so arrives when the cut is healed, as TCP would send it again.
type pipe struct {
	n *network
	e edge

	mu     sync.Mutex
	pieces []piece
	size   int
	last   time.Time
	gone   error         // why its reader reads no more
	shut   error         // why its writer writes no more
	deaf   bool          // the reader has closed: what comes is dropped
	wake   chan struct{} // closed and replaced when anything changes
}

func newPipe(n *network, e edge) *pipe { return &pipe{n: n, e: e, wake: make(chan struct{})} }

// changed wakes who waits. mu is held.
func (p *pipe) changed() {
	close(p.wake)
	p.wake = make(chan struct{})
}

func (p *pipe) put(data []byte, end error) {
	at := time.Now().Add(p.n.delay(p.e))
	if p.n.lost() {
		at = at.Add(resend)
	}
	if at.Before(p.last) {
		at = p.last
	}
	p.last = at
	p.pieces = append(p.pieces, piece{at, data, end})
	p.size += len(data)
	p.changed()
}

func (p *pipe) write(b []byte, d *deadline) (int, error) {
	for {
		if d.past() {
			return 0, os.ErrDeadlineExceeded
		}
		p.mu.Lock()
		switch {
		case p.shut != nil:
			defer p.mu.Unlock()
			return 0, p.shut
		case p.deaf:
			p.mu.Unlock()
			return len(b), nil
		case p.size < pipeRoom:
			p.put(slices.Clone(b), nil)
			p.mu.Unlock()
			return len(b), nil
		}
		wake := p.wake
		p.mu.Unlock()
		select {
		case <-wake:
		case <-d.wait():
		}
	}
}

func (p *pipe) read(b []byte, d *deadline) (int, error) {
	for {
		if d.past() {
			return 0, os.ErrDeadlineExceeded
		}
		topology := p.n.topology()
		p.mu.Lock()
		if p.gone != nil || p.deaf {
			defer p.mu.Unlock()
			if p.gone != nil {
				return 0, p.gone
			}
			return 0, net.ErrClosed
		}
		var late <-chan time.Time
		var timer *time.Timer
		if len(p.pieces) > 0 {
			first := &p.pieces[0]
			if wait := time.Until(first.at); wait > 0 {
				timer = time.NewTimer(wait)
				late = timer.C
			} else if !p.n.cut(p.e) {
				n := copy(b, first.data)
				first.data = first.data[n:]
				p.size -= n
				end := first.end
				if len(first.data) == 0 && end == nil {
					p.pieces = p.pieces[1:]
				}
				p.changed()
				p.mu.Unlock()
				if n == 0 && end != nil {
					return 0, end
				}
				return n, nil
			}
		}
		wake := p.wake
		p.mu.Unlock()
		select {
		case <-wake:
		case <-late:
		case <-topology:
		case <-d.wait():
		}
		if timer != nil {
			timer.Stop()
		}
	}
}

// finish ends what is written, which the reader learns in its turn; end nil: it never does.
func (p *pipe) finish(why, end error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shut != nil {
		return
	}
	p.shut = why
	if end != nil {
		p.put(nil, end)
	} else {
		p.changed()
	}
}

// fail ends the pipe for its reader.
func (p *pipe) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone == nil {
		p.gone = err
		p.changed()
	}
}

// ignore has what comes be dropped.
func (p *pipe) ignore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf, p.pieces, p.size = true, nil, 0
	p.changed()
}

// address of one end.
type address string

func (address) Network() string  { return "sim" }
func (a address) String() string { return string(a) }

// conn is one end of a connection.
type conn struct {
	n            *network
	local, other address
	in, out      *pipe
	rd, wd       deadline
	once         sync.Once
}

func (c *conn) Read(b []byte) (int, error)        { return c.in.read(b, &c.rd) }
func (c *conn) Write(b []byte) (int, error)       { return c.out.write(b, &c.wd) }
func (c *conn) LocalAddr() net.Addr               { return c.local }
func (c *conn) RemoteAddr() net.Addr              { return c.other }
func (c *conn) SetReadDeadline(t time.Time) error { c.rd.set(t); return nil }
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.wd.set(t)
	return nil
}

func (c *conn) SetDeadline(t time.Time) error {
	c.rd.set(t)
	c.wd.set(t)
	return nil
}

// CloseWrite says that nothing more will be sent.
func (c *conn) CloseWrite() error {
	c.out.finish(net.ErrClosed, io.EOF)
	return nil
}

// Close ends the connection; the other end learns it from the end of what was sent.
func (c *conn) Close() error {
	c.once.Do(func() {
		c.out.finish(net.ErrClosed, io.EOF)
		c.in.ignore()
		c.n.forget(c)
	})
	return nil
}

// die ends the connection for a process that is dead. With its machine alive the other end hears of it; else it is left to wait.
func (c *conn) die(told bool) {
	var end error
	if told {
		end = syscall.ECONNRESET
	}
	c.out.finish(syscall.ECONNRESET, end)
	c.in.fail(syscall.ECONNRESET)
	c.n.forget(c)
}

// deadline is that of reads or of writes.
type deadline struct {
	mu    sync.Mutex
	timer *time.Timer
	over  chan struct{} // closed when it has passed
}

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.over // the timer is about to close it
	}
	d.timer = nil
	if d.over == nil {
		d.over = make(chan struct{})
	}
	passed := false
	select {
	case <-d.over:
		passed = true
	default:
	}
	if t.IsZero() || time.Until(t) > 0 {
		if passed {
			d.over = make(chan struct{})
		}
		if !t.IsZero() {
			over := d.over
			d.timer = time.AfterFunc(time.Until(t), func() { close(over) })
		}
		return
	}
	if !passed {
		close(d.over)
	}
}

func (d *deadline) wait() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over == nil {
		d.over = make(chan struct{})
	}
	return d.over
}

func (d *deadline) past() bool {
	select {
	case <-d.wait():
		return true
	default:
		return false
	}
}

// listener is a node's door.
type listener struct {
	n    *network
	addr address
	in   chan *conn
	done chan struct{}
	once sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.in:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Addr() net.Addr { return l.addr }

func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.done)
		l.n.unlisten(l)
	})
	return nil
}

// dial connects a host to an address, when it can: a cut is waited for as long as ctx lives.
func (n *network) dial(ctx context.Context, from string, to string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(to)
	if err != nil {
		return nil, err
	}
	there, back := edge{from, host}, edge{host, from}
	timer := time.NewTimer(n.delay(there) + n.delay(back))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for {
		topology := n.topology()
		if !n.cut(there) && !n.cut(back) {
			break
		}
		select {
		case <-topology:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	l := n.listening(to)
	if l == nil {
		return nil, &net.OpError{Op: "dial", Net: "sim", Addr: address(to), Err: syscall.ECONNREFUSED}
	}
	local := address(n.port(from))
	up, down := newPipe(n, there), newPipe(n, back)
	near := &conn{n: n, local: local, other: l.addr, in: down, out: up}
	far := &conn{n: n, local: l.addr, other: local, in: up, out: down}
	n.remember(near, far)
	select {
	case l.in <- far:
		return near, nil
	case <-l.done:
	case <-ctx.Done():
	}
	_ = near.Close()
	_ = far.Close()
	return nil, &net.OpError{Op: "dial", Net: "sim", Addr: address(to), Err: syscall.ECONNREFUSED}
}
