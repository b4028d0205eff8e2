package sim

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/raft"
)

// How long raft waits for an answer: a short request, and a snapshot.
const (
	rpcWithin     = time.Second
	installWithin = 5 * time.Second
)

// Requests.
const (
	rpcAppend byte = iota
	rpcVote
	rpcPreVote
	rpcInstall
	rpcTimeoutNow
	rpcAnswer
)

var (
	errSilence = errors.New("sim: no answer")
	errGone    = errors.New("sim: the transport is closed")
)

// msgpack is the encoding that raft's own transport has. It is written once, here.
var msgpack = func() *codec.MsgpackHandle {
	h := &codec.MsgpackHandle{}
	h.TimeNotBuiltin = true
	return h
}()

// encode is a message's bytes: nothing is handed over by reference.
func encode(v any) []byte {
	var b []byte
	if err := codec.NewEncoderBytes(&b, msgpack).Encode(v); err != nil {
		panic(fmt.Sprintf("sim: encode %T: %v", v, err))
	}
	return b
}

func decode(b []byte, v any) error { return codec.NewDecoderBytes(b, msgpack).Decode(v) }

// post is one node's raft.Transport: a message for each request and for each answer, each of which may be lost, doubled, late
// and overtaken.
type post struct {
	of   *process
	w    *world
	n    *network
	host string
	addr raft.ServerAddress
	in   chan raft.RPC
	done chan struct{}
	once sync.Once

	mu    sync.Mutex
	beat  func(raft.RPC)    // guarded by mu
	given map[delivered]int // guarded by mu: how often a process has said that it has a snapshot
}

// delivered is a snapshot that a process was sent.
type delivered struct {
	to    *post
	term  uint64
	index uint64
}

func newPost(of *process) *post {
	w, host, addr := of.n.w, of.n.host, raft.ServerAddress(of.id)
	n := w.net
	p := &post{of: of, w: w, n: n, host: host, addr: addr, in: make(chan raft.RPC), done: make(chan struct{}), given: map[delivered]int{}}
	n.mu.Lock()
	n.posts[addr] = p
	n.mu.Unlock()
	return p
}

// Close ends it: nothing is sent, taken in or answered any more.
func (p *post) Close() error {
	p.once.Do(func() {
		close(p.done)
		p.n.mu.Lock()
		if p.n.posts[p.addr] == p {
			delete(p.n.posts, p.addr)
		}
		p.n.mu.Unlock()
	})
	return nil
}

func (p *post) closed() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// send puts a request on its way; the answer comes to the channel, if it comes.
func (p *post) send(target raft.ServerAddress, what byte, args any, body []byte) (<-chan []byte, error) {
	if p.closed() {
		return nil, errGone
	}
	to := p.n.post(target)
	if to == nil {
		return nil, fmt.Errorf("sim: connect to %s: nobody is there", target)
	}
	req := encode(args)
	answers := make(chan []byte, 2)
	p.n.carry(edge{p.host, to.host}, what, len(req)+len(body), func() {
		to.receive(p.host, what, req, body, func(b []byte) {
			p.n.carry(edge{to.host, p.host}, rpcAnswer, len(b), func() {
				select {
				case answers <- b:
				default: // it has been answered already
				}
			})
		})
	})
	return answers, nil
}

// call sends a request and waits for the answer.
func (p *post) call(target raft.ServerAddress, what byte, args, resp any, body []byte, within time.Duration) error {
	answers, err := p.send(target, what, args, body)
	if err != nil {
		return err
	}
	return p.await(answers, resp, within)
}

func (p *post) await(answers <-chan []byte, resp any, within time.Duration) error {
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case b := <-answers:
		if b[0] != 0 {
			return errors.New(string(b[1:]))
		}
		return decode(b[1:], resp)
	case <-t.C:
		return errSilence
	case <-p.done:
		return errGone
	}
}

// receive hands a request to raft and its answer back.
func (p *post) receive(from string, what byte, req, body []byte, answer func([]byte)) {
	if p.closed() {
		return
	}
	got := make(chan raft.RPCResponse, 1)
	rpc := raft.RPC{RespChan: got}
	beat := false
	switch what {
	case rpcAppend:
		m := new(raft.AppendEntriesRequest)
		mustDecode(req, m)
		if len(m.Entries) > 0 {
			p.n.arrived(p.of, m)
		}
		beat = len(m.Entries) == 0 && m.PrevLogEntry == 0 && m.PrevLogTerm == 0 && m.LeaderCommitIndex == 0
		rpc.Command = m
	case rpcVote:
		rpc.Command = new(raft.RequestVoteRequest)
	case rpcPreVote:
		rpc.Command = new(raft.RequestPreVoteRequest)
	case rpcInstall:
		rpc.Command, rpc.Reader = new(raft.InstallSnapshotRequest), p.slow(from, body)
	case rpcTimeoutNow:
		rpc.Command = new(raft.TimeoutNowRequest)
	}
	if what != rpcAppend {
		mustDecode(req, rpc.Command)
	}
	p.mu.Lock()
	handler := p.beat
	p.mu.Unlock()
	if beat && handler != nil {
		handler(rpc)
	} else {
		select {
		case p.in <- rpc:
		case <-p.done:
			return
		}
	}
	select {
	case r := <-got:
		if p.closed() {
			return
		}
		if r.Error != nil {
			answer(append([]byte{1}, r.Error.Error()...))
			return
		}
		answer(append([]byte{0}, encode(r.Response)...))
	case <-p.done:
	}
}

func mustDecode(b []byte, v any) {
	if err := decode(b, v); err != nil {
		panic(fmt.Sprintf("sim: decode %T: %v", v, err))
	}
}

// Consumer implements raft.Transport.
func (p *post) Consumer() <-chan raft.RPC { return p.in }

// LocalAddr implements raft.Transport.
func (p *post) LocalAddr() raft.ServerAddress { return p.addr }

// AppendEntries implements raft.Transport.
func (p *post) AppendEntries(_ raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	p.w.sends(p.addr, args)
	return p.call(to, rpcAppend, args, resp, nil, rpcWithin)
}

// RequestVote implements raft.Transport.
func (p *post) RequestVote(_ raft.ServerID, to raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	return p.call(to, rpcVote, args, resp, nil, rpcWithin)
}

// RequestPreVote implements raft.WithPreVote.
func (p *post) RequestPreVote(_ raft.ServerID, to raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return p.call(to, rpcPreVote, args, resp, nil, rpcWithin)
}

// TimeoutNow implements raft.Transport.
func (p *post) TimeoutNow(_ raft.ServerID, to raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	return p.call(to, rpcTimeoutNow, args, resp, nil, rpcWithin)
}

// InstallSnapshot implements raft.Transport.
func (p *post) InstallSnapshot(_ raft.ServerID, to raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	body, err := io.ReadAll(io.LimitReader(data, args.Size))
	if err != nil {
		return err
	}
	p.stray(to, encode(args), body)
	if err := p.call(to, rpcInstall, args, resp, body, installWithin); err != nil {
		return err
	}
	if resp.Success {
		p.w.count("snapshot installed during writes")
		p.gave(to, args)
	}
	return nil
}

// gave notes that a process has a snapshot. Who has it needs what follows it, and not the same again and again.
func (p *post) gave(target raft.ServerAddress, args *raft.InstallSnapshotRequest) {
	to := p.n.post(target)
	if to == nil {
		return
	}
	p.mu.Lock()
	what := delivered{to, args.Term, args.LastLogIndex}
	p.given[what]++
	times := p.given[what]
	p.mu.Unlock()
	if times == 3 {
		p.w.blame("G7: %s has taken the snapshot up to entry %d from %s three times", target, args.LastLogIndex, p.addr)
	}
}

// stray has every second snapshot come once more, seconds later: from a connection that its sender has given up, to the same process.
func (p *post) stray(target raft.ServerAddress, req, body []byte) {
	to, sum := p.n.post(target), crc32.ChecksumIEEE(body)
	if to == nil || sum%2 == 0 {
		return
	}
	time.AfterFunc(time.Second+time.Duration(sum%4096)*time.Millisecond, func() {
		if to.closed() || p.n.cut(edge{p.host, to.host}) {
			return
		}
		p.w.count("snapshot came again, late")
		p.n.trace.message(edge{p.host, to.host}, rpcInstall, len(req)+len(body))
		to.receive(p.host, rpcInstall, req, body, func([]byte) {})
	})
}

// held is how many requests of raft's are put together for one in which the goroutine that does so is kept from running for a while.
const held = 24

// EncodePeer implements raft.Transport. Raft calls it while it puts a request together, between two looks at what it has: where the log ends
// is known, and what is committed not yet. A processor may be taken from it there for longer than the others need to go on.
func (p *post) EncodePeer(_ raft.ServerID, a raft.ServerAddress) []byte {
	if p.w.faulty() && p.n.dice.upTo(held) == 0 && !p.closed() {
		most := int64(100)
		if p.n.dice.upTo(16) == 0 {
			most = 3 * p.w.plan.Raft // others may be elected meanwhile
		}
		time.Sleep(time.Duration(1+p.n.dice.upTo(most)) * time.Millisecond)
	}
	return []byte(a)
}

// DecodePeer implements raft.Transport.
func (p *post) DecodePeer(b []byte) raft.ServerAddress { return raft.ServerAddress(b) }

// SetHeartbeatHandler implements raft.Transport.
func (p *post) SetHeartbeatHandler(f func(raft.RPC)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beat = f
}

// pipelined is how many requests a pipeline has on their way, where the plan does not say.
const pipelined = 32

// AppendEntriesPipeline implements raft.Transport.
func (p *post) AppendEntriesPipeline(_ raft.ServerID, to raft.ServerAddress) (raft.AppendPipeline, error) {
	if p.closed() || p.n.post(to) == nil {
		return nil, fmt.Errorf("sim: connect to %s: nobody is there", to)
	}
	room := pipelined
	if n := p.w.plan.Pipe; n > 0 {
		room = n - 1 // and one that is waited for
	}
	l := &pipeline{p: p, to: to, work: make(chan *appending, room), out: make(chan raft.AppendFuture), done: make(chan struct{})}
	go l.run()
	return l, nil
}

// pipeline is raft's pipeline to one follower. Like the product's, it ends with the first answer that is a refusal, an error or of
// a later term (see cluster/link).
type pipeline struct {
	p    *post
	to   raft.ServerAddress
	work chan *appending
	out  chan raft.AppendFuture
	done chan struct{}
	once sync.Once
}

type appending struct {
	began   time.Time
	args    *raft.AppendEntriesRequest
	resp    *raft.AppendEntriesResponse
	answers <-chan []byte
	err     error
	end     chan struct{}
}

func (l *pipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	a := &appending{began: time.Now(), args: args, resp: resp, end: make(chan struct{})}
	select {
	case <-l.done:
		return nil, raft.ErrPipelineShutdown
	default:
	}
	l.p.w.sends(l.p.addr, args)
	var err error
	if a.answers, err = l.p.send(l.to, rpcAppend, args, nil); err != nil {
		return nil, err
	}
	select {
	case l.work <- a:
		return a, nil
	case <-l.done:
		return nil, raft.ErrPipelineShutdown
	}
}

func (l *pipeline) run() {
	for {
		var a *appending
		select {
		case a = <-l.work:
		case <-l.done:
			return
		}
		a.err = l.p.await(a.answers, a.resp, rpcWithin)
		close(a.end)
		select {
		case l.out <- a:
		case <-l.done:
			return
		}
		if a.err != nil || !a.resp.Success || a.resp.Term > a.args.Term {
			_ = l.Close()
			return
		}
	}
}

func (l *pipeline) Consumer() <-chan raft.AppendFuture { return l.out }

func (l *pipeline) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (a *appending) Error() error {
	<-a.end
	return a.err
}

func (a *appending) Start() time.Time                      { return a.began }
func (a *appending) Request() *raft.AppendEntriesRequest   { return a.args }
func (a *appending) Response() *raft.AppendEntriesResponse { return a.resp }
