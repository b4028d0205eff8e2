package group

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// forgetDisk is all that a node has on disk. A write takes a random time, and is there when it ends. crash makes the disk that
// the node finds after a power cut: what had ended, and perhaps the beginning of what had not. The node that has crashed goes
// on with the old one, which is no use to it, since nothing that it says is heard any more.
type forgetDisk struct {
	dead   atomic.Bool
	frozen atomic.Int64 // until then no write ends, Unix nanoseconds
	early  bool         // it answers before it has written: a disk that lies, or an Ahead that does not wait

	mu      sync.Mutex
	rng     *rand.Rand
	logs    map[uint64]*raft.Log
	kv      map[string][]byte
	snap    *raft.SnapshotMeta // nil: none
	state   []byte             // of snap
	pending [][]*raft.Log      // writes that have not ended
}

func newForgetDisk(rng *rand.Rand) *forgetDisk {
	return &forgetDisk{rng: rng, logs: map[uint64]*raft.Log{}, kv: map[string][]byte{}}
}

func (d *forgetDisk) crash() *forgetDisk {
	d.dead.Store(true) // before the copy: what is said from now on is not heard
	d.mu.Lock()
	defer d.mu.Unlock()
	n := newForgetDisk(rand.New(rand.NewSource(d.rng.Int63())))
	n.early = d.early
	n.logs, n.kv, n.snap, n.state = maps.Clone(d.logs), maps.Clone(d.kv), d.snap, d.state
	if len(d.pending) > 0 {
		torn := d.pending[0]
		for _, l := range torn[:d.rng.Intn(len(torn)+1)] {
			n.logs[l.Index] = l
		}
	}
	return n
}

// work takes as long as a write does.
func (d *forgetDisk) work() {
	d.mu.Lock()
	took := time.Duration(d.rng.Intn(3000)) * time.Microsecond
	d.mu.Unlock()
	pass(took)
	for wait := d.frozen.Load() - time.Now().UnixNano(); wait > 0; wait = d.frozen.Load() - time.Now().UnixNano() {
		pass(time.Duration(wait))
	}
}

func (d *forgetDisk) Seal(logs []*raft.Log) bool { return sealing{}.Seal(logs) }

func (d *forgetDisk) StoreLogs(logs []*raft.Log) error {
	d.Seal(logs)
	logs = slices.Clone(logs)
	d.mu.Lock()
	d.pending = append(d.pending, logs)
	d.mu.Unlock()
	end := func() {
		d.work()
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, l := range d.pending[0] {
			d.logs[l.Index] = l
		}
		d.pending = d.pending[1:]
	}
	if d.early {
		go end()
	} else {
		end()
	}
	return nil
}

func (d *forgetDisk) StoreLog(l *raft.Log) error { return d.StoreLogs([]*raft.Log{l}) }

// all is what is there for the node that writes, which with a disk that lies is more than what is on it. mu is held.
func (d *forgetDisk) all() map[uint64]*raft.Log {
	if len(d.pending) == 0 || !d.early {
		return d.logs
	}
	all := maps.Clone(d.logs)
	for _, p := range d.pending {
		for _, l := range p {
			all[l.Index] = l
		}
	}
	return all
}

func (d *forgetDisk) ends() (first, last uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.all() {
		if first == 0 || i < first {
			first = i
		}
		last = max(last, i)
	}
	return first, last
}

func (d *forgetDisk) FirstIndex() (uint64, error) { first, _ := d.ends(); return first, nil }
func (d *forgetDisk) LastIndex() (uint64, error)  { _, last := d.ends(); return last, nil }

func (d *forgetDisk) GetLog(index uint64, out *raft.Log) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.all()[index]
	if l == nil {
		return raft.ErrLogNotFound
	}
	*out = *l
	return nil
}

func (d *forgetDisk) DeleteRange(from, to uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.logs, func(i uint64, _ *raft.Log) bool { return from <= i && i <= to })
	return nil
}

// has says whether an entry is on disk, or in a snapshot.
func (d *forgetDisk) has(index, term uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.logs[index]
	return l != nil && l.Term == term || d.snap != nil && d.snap.Index >= index
}

func (d *forgetDisk) Set(key, val []byte) error {
	d.work()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kv[string(key)] = bytes.Clone(val)
	return nil
}

func (d *forgetDisk) Get(key []byte) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.kv[string(key)], nil
}

func (d *forgetDisk) SetUint64(key []byte, v uint64) error { return d.Set(key, fmt.Append(nil, v)) }

func (d *forgetDisk) GetUint64(key []byte) (v uint64, err error) {
	b, _ := d.Get(key)
	if len(b) > 0 {
		_, err = fmt.Sscan(string(b), &v)
	}
	return v, err
}

// forgetSnaps is a disk's snapshot: there is one, when it is whole.
type forgetSnaps struct{ *forgetDisk }

func (d forgetSnaps) Create(v raft.SnapshotVersion, index, term uint64, c raft.Configuration, ci uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	return &forgetSink{d: d.forgetDisk, meta: &raft.SnapshotMeta{Version: v, ID: fmt.Sprint(term, "-", index), Index: index, Term: term, Configuration: c, ConfigurationIndex: ci}}, nil
}

func (d forgetSnaps) List() ([]*raft.SnapshotMeta, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.snap == nil {
		return nil, nil
	}
	one := *d.snap
	return []*raft.SnapshotMeta{&one}, nil
}

func (d forgetSnaps) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.snap == nil || d.snap.ID != id {
		return nil, nil, fmt.Errorf("no snapshot %s", id)
	}
	one := *d.snap
	return &one, io.NopCloser(bytes.NewReader(d.state)), nil
}

type forgetSink struct {
	bytes.Buffer
	d      *forgetDisk
	meta   *raft.SnapshotMeta
	closed bool // who writes the state closes it, and raft after it: the second time does nothing, as with a file
}

func (s *forgetSink) ID() string    { return s.meta.ID }
func (s *forgetSink) Cancel() error { return nil }

func (s *forgetSink) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	s.d.work()
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	s.meta.Size = int64(s.Len())
	if s.d.snap == nil || s.d.snap.Index <= s.meta.Index {
		s.d.snap, s.d.state = s.meta, s.Bytes()
	}
	return nil
}

// forgetTransport is the transport of a node with a forgetDisk: when that is dead nothing more is sent, and no call answered.
type forgetTransport struct {
	*raft.InmemTransport
	disk *forgetDisk
	tell func(*raft.AppendEntriesRequest) // before it is sent
	out  chan raft.RPC
	end  chan struct{}
}

func newForgetTransport(in *raft.InmemTransport, d *forgetDisk, tell func(*raft.AppendEntriesRequest)) *forgetTransport {
	f := &forgetTransport{InmemTransport: in, disk: d, tell: tell, out: make(chan raft.RPC), end: make(chan struct{})}
	go func() {
		for {
			select {
			case rpc := <-in.Consumer():
				f.take(rpc)
			case <-f.end:
				return
			}
		}
	}()
	return f
}

func (f *forgetTransport) take(rpc raft.RPC) {
	answered := make(chan raft.RPCResponse, 1)
	none := raft.RPCResponse{Response: &raft.AppendEntriesResponse{}, Error: errDisk} // the connection breaks
	select {
	case f.out <- raft.RPC{Command: rpc.Command, Reader: rpc.Reader, RespChan: answered}:
	case <-f.end:
		rpc.RespChan <- none
		return
	}
	go func() {
		a := none
		select {
		case a = <-answered:
		case <-f.end:
		}
		if f.disk.dead.Load() {
			a = none
		}
		rpc.RespChan <- a
	}()
}

func (f *forgetTransport) Consumer() <-chan raft.RPC { return f.out }

func (f *forgetTransport) Close() error {
	close(f.end)
	return f.InmemTransport.Close()
}

func (f *forgetTransport) ok() error {
	if f.disk.dead.Load() {
		return errDisk
	}
	return nil
}

func (f *forgetTransport) AppendEntries(id raft.ServerID, at raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if err := f.ok(); err != nil {
		return err
	}
	f.tell(args)
	return f.InmemTransport.AppendEntries(id, at, args, resp)
}

func (f *forgetTransport) AppendEntriesPipeline(id raft.ServerID, at raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := f.InmemTransport.AppendEntriesPipeline(id, at)
	if err != nil {
		return nil, err
	}
	return forgetPipeline{p, f}, nil
}

func (f *forgetTransport) RequestVote(id raft.ServerID, at raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	if err := f.ok(); err != nil {
		return err
	}
	return f.InmemTransport.RequestVote(id, at, args, resp)
}

func (f *forgetTransport) InstallSnapshot(id raft.ServerID, at raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	if err := f.ok(); err != nil {
		return err
	}
	return f.InmemTransport.InstallSnapshot(id, at, args, resp, data)
}

type forgetPipeline struct {
	raft.AppendPipeline
	f *forgetTransport
}

func (p forgetPipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	if err := p.f.ok(); err != nil {
		return nil, err
	}
	p.f.tell(args)
	return p.AppendPipeline.AppendEntries(args, resp)
}
