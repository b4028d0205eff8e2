package group

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// Ahead is a log store that has a leader's entries on their way to its followers while its own disk still writes them:
// the two take as long as the longer of them, and not as both together.
//
// Raft counts what StoreLogs has taken as being on this node's disk, and Ahead takes the new entries of a leader before
// they are. What raft then calls committed may thus be on one disk less than a majority. It is kept from everybody until
// this node's disk has it, by which time it is on a majority's:
//
//   - the state machine waits for it (ApplyBatch), so nothing is applied, answered, read or snapshotted before;
//   - followers are told a commit index no higher than what is written here (aheadTransport), so that they apply nothing before;
//   - the membership, whose changes raft acts on by itself, is in entries that are no commands, which are never taken ahead,
//     and neither is a batch with one in it: the disk has them, and all that came before, when StoreLogs returns;
//   - nothing is said in a later term before it is written: a change of term is a write to the stable store, which waits for
//     the log first (ballotBox). So a deposed leader neither answers for nor votes by what it does not have.
//
// A crash before the write loses entries that nobody was told of, as it always could.
//
// Entries are written by one goroutine, in order, all that have come up at once. Memory is bounded by what the proposer
// lets be in flight.
type Ahead struct {
	store raft.LogStore
	seal  func([]*raft.Log) bool // makes entries final before they are sent; false: they must be written first

	written atomic.Uint64 // what is on disk ends here; it falls when the log's end is cut off

	mu      sync.Mutex
	queue   []*raft.Log   // guarded by mu: not yet given to the store
	last    uint64        // guarded by mu: the index of the newest entry that was taken
	busy    bool          // guarded by mu: the writer has some in hand
	direct  bool          // guarded by mu: some are being written by who stores them
	err     error         // guarded by mu: why nothing is written any more
	changed *sync.Cond    // on mu: written, busy or err
	wake    chan struct{} // one token: the queue is not empty
	done    chan struct{} // closed when the writer has ended
	ended   bool          // guarded by mu
}

// sealer is a log store that completes entries, with a checksum say, before they are stored: what goes to followers must be
// what is stored here. It says whether all of them are of this node's own making.
type sealer interface {
	Seal([]*raft.Log) (own bool)
}

// NewAhead puts one before a store whose log ends at last. Close it.
func NewAhead(store raft.LogStore, last uint64) *Ahead {
	a := &Ahead{store: store, wake: make(chan struct{}, 1), last: last, done: make(chan struct{})}
	a.written.Store(last)
	a.changed = sync.NewCond(&a.mu)
	if s, ok := store.(sealer); ok {
		a.seal = s.Seal
	}
	go a.write()
	return a
}

// Close ends the writer when the queue is written. The store must still answer.
func (a *Ahead) Close() {
	a.mu.Lock()
	if !a.ended {
		a.ended = true
		close(a.wake)
	}
	a.mu.Unlock()
	<-a.done
}

// takes says whether entries may be sent before they are written: commands that this node, as a leader, has made.
func (a *Ahead) takes(logs []*raft.Log) bool {
	if a.seal == nil {
		return false
	}
	for _, l := range logs {
		if l.Type != raft.LogCommand {
			return false
		}
	}
	return a.seal(logs)
}

// StoreLogs implements raft.LogStore.
func (a *Ahead) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	newest := logs[len(logs)-1].Index
	if a.takes(logs) && a.enqueue(logs) {
		return nil
	}
	if err := a.flush(); err != nil {
		return err
	}
	a.writes(true)
	defer a.writes(false)
	if err := a.store.StoreLogs(logs); err != nil {
		return err
	}
	a.reached(newest)
	return nil
}

func (a *Ahead) writes(directly bool) {
	a.mu.Lock()
	a.direct = directly
	a.mu.Unlock()
}

// enqueue gives entries to the writer; false: it writes no more.
func (a *Ahead) enqueue(logs []*raft.Log) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil || a.ended {
		return false
	}
	a.queue = append(a.queue, logs...)
	a.last = logs[len(logs)-1].Index
	select {
	case a.wake <- struct{}{}:
	default:
	}
	return true
}

// StoreLog implements raft.LogStore.
func (a *Ahead) StoreLog(l *raft.Log) error { return a.StoreLogs([]*raft.Log{l}) }

// write is the writer.
func (a *Ahead) write() {
	defer close(a.done)
	var batch []*raft.Log
	for range a.wake {
		// Those who send to the followers have been woken too, and should be through before the disk takes the processor:
		// with one of them a system call keeps it until the runtime notices.
		runtime.Gosched()
		a.mu.Lock()
		batch, a.queue = a.queue, batch[:0]
		a.busy = len(batch) > 0
		a.mu.Unlock()
		if len(batch) == 0 {
			continue
		}
		err := a.store.StoreLogs(batch)
		a.mu.Lock()
		a.busy, a.err = false, err
		if err == nil {
			a.written.Store(batch[len(batch)-1].Index)
		}
		if err != nil {
			a.queue = slices.Concat(batch, a.queue) // for GetLog
		}
		a.changed.Broadcast()
		a.mu.Unlock()
		if err != nil {
			return
		}
		clear(batch)
	}
}

// reached notes how far the disk has come when nothing is queued.
func (a *Ahead) reached(index uint64) {
	a.mu.Lock()
	a.written.Store(index)
	a.last = index
	a.mu.Unlock()
}

// flush waits until what has been taken is written.
func (a *Ahead) flush() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	want := a.last
	for a.err == nil && (len(a.queue) > 0 || a.busy) && a.written.Load() < want {
		a.changed.Wait()
	}
	return a.err
}

// Wait returns when the entry is on this node's disk; an error: it never will be.
func (a *Ahead) Wait(index uint64) error {
	if a.written.Load() >= index {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.err == nil && index > a.written.Load() && index <= a.last && (len(a.queue) > 0 || a.busy) {
		a.changed.Wait()
	}
	return a.err
}

// progress is how far this node's disk has the log, and whether it has something to write.
func (a *Ahead) progress() (written uint64, behind bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.written.Load(), a.busy || len(a.queue) > 0 || a.direct
}

// commit is how much may be said to be committed of what raft says is: no more than is on this node's disk.
func (a *Ahead) commit(index uint64) uint64 { return min(index, a.written.Load()) }

// GetLog implements raft.LogStore. The log cache before it has what is not yet written, but for an entry too large for it. What never
// will be written is read from memory: raft would end the process with a panic over an error, in the middle of being stopped, and a read
// promises nothing.
func (a *Ahead) GetLog(index uint64, log *raft.Log) error {
	err := a.Wait(index)
	if err == nil {
		return a.store.GetLog(index, log)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.queue {
		if l.Index == index {
			*log = *l
			return nil
		}
	}
	return err
}

// FirstIndex implements raft.LogStore.
func (a *Ahead) FirstIndex() (uint64, error) {
	if err := a.flush(); err != nil {
		return 0, err
	}
	return a.store.FirstIndex()
}

// LastIndex implements raft.LogStore.
func (a *Ahead) LastIndex() (uint64, error) {
	if err := a.flush(); err != nil {
		return 0, err
	}
	return a.store.LastIndex()
}

// DeleteRange implements raft.LogStore.
func (a *Ahead) DeleteRange(from, to uint64) error {
	if err := a.flush(); err != nil {
		return err
	}
	if err := a.store.DeleteRange(from, to); err != nil {
		return err
	}
	a.mu.Lock()
	if to >= a.last && a.last >= from { // a suffix
		a.last = from - 1
		a.written.Store(min(a.written.Load(), from-1))
	}
	a.mu.Unlock()
	return nil
}

// IsMonotonic passes the store's answer on.
func (a *Ahead) IsMonotonic() bool {
	m, ok := a.store.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}

// Stable is the stable store for raft to use, over s.
func (a *Ahead) Stable(s raft.StableStore) raft.StableStore {
	return &ballotBox{StableStore: s, log: a}
}

// aheadTransport is the transport of a node whose log is ahead.
type aheadTransport struct {
	raft.Transport
	log *Ahead
}

// voting is aheadTransport where the transport knows pre-votes.
type voting struct {
	aheadTransport
	raft.WithPreVote
}

// Transport is the transport for raft to use, over t.
func (a *Ahead) Transport(t raft.Transport) raft.Transport {
	if p, ok := t.(raft.WithPreVote); ok {
		return voting{aheadTransport{t, a}, p}
	}
	return aheadTransport{t, a}
}

// AppendEntries implements raft.Transport. The request stays as it is: raft's heartbeats are one request sent again and again, and one that
// was given up after its time-out may still be read at the other end of a transport in memory.
func (t aheadTransport) AppendEntries(id raft.ServerID, at raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	own := *args
	own.LeaderCommitIndex = t.log.commit(args.LeaderCommitIndex)
	return t.Transport.AppendEntries(id, at, &own, resp)
}

// AppendEntriesPipeline implements raft.Transport.
func (t aheadTransport) AppendEntriesPipeline(id raft.ServerID, at raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := t.Transport.AppendEntriesPipeline(id, at)
	if err != nil {
		return nil, err
	}
	return aheadPipeline{p, t.log}, nil
}

// Close implements raft.WithClose.
func (t aheadTransport) Close() error {
	if c, ok := t.Transport.(raft.WithClose); ok {
		return c.Close()
	}
	return nil
}

type aheadPipeline struct {
	raft.AppendPipeline
	log *Ahead
}

// AppendEntries implements raft.AppendPipeline.
func (p aheadPipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	args.LeaderCommitIndex = p.log.commit(args.LeaderCommitIndex)
	return p.AppendPipeline.AppendEntries(args, resp)
}
