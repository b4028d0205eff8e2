package group

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/quorate/quorate/fsm"
)

// Group is one Raft group on one node: its raft, its state, and, while this node leads, the proposer, the dispatcher and
// the timers. It is safe for use by several goroutines.
//
// There are two locks. mu, the state lock, guards the state and everything that the leader remembers beside it; intake.mu
// guards the queue of proposals. Neither is held while the other is taken, nor while raft is called.
type Group struct {
	cfg     Config
	limits  Limits
	maxOp   int64
	log     *slog.Logger
	clock   Clock
	raft    *raft.Raft
	cache   *LogCache
	ahead   *Ahead
	metrics *Metrics
	began   time.Duration // when it was made, on Clock.Mono

	mu           sync.Mutex
	st           *fsm.State    // guarded by mu, as is the rest of this block
	fx           fsm.Effects   // of the entry applied last
	time         logTime       //
	dispatch     dispatcher    //
	flights      flights       //
	recorded     recorded      // guarded by mu
	deaths       deaths        //
	tasks        tasks         //
	watchers     watchers      //
	serving      bool          // leader, past the barrier: all entries of earlier terms are applied
	term         uint64        // of the leadership that serves
	holdUntil    time.Duration // nothing is proposed before; raft has just refused
	refusedSince time.Duration // raft refuses for a transfer since then; 0: it does not
	refusedLast  time.Duration // when it did so last; 0 with refusedSince
	committedAt  time.Duration // when an entry of ours was last applied
	electedAt    time.Duration // since when raft leads and we do not serve; 0: it does not, or we do
	appliedSeen  uint64        // applied, when the watchdog looked last
	sparedAt     time.Duration // when the watchdog last let a leader be
	writtenSeen  uint64        // what was on this node's disk when the watchdog looked last
	writtenAt    time.Duration // when that rose, or nothing was to be written; 0: this node did not lead then
	orphans      []orphan      // to be failed by keepTime
	pullNext     time.Duration // no pull waits for less; 0: none waits
	pullAsked    bool          // endPulls waits for leadership to be confirmed
	dueArmed     int64         // T for which keepTime has been woken
	cluster      [16]byte      // to be written into an empty log
	closed       bool          // the state is gone

	intake        intake
	packer        packer // the proposer's
	kicks         chan struct{}
	watching      chan watched
	inFlight      atomic.Int64
	inFlightBytes atomic.Int64

	flushes   flushes // the apply goroutine's
	responses []any   // the apply goroutine's: nils

	applied    atomic.Uint64 // index of the last entry that reached the state machine
	wanted     atomic.Uint64 // index that the reader goroutine waits for
	arrived    chan struct{}
	logBytes   atomic.Int64 // applied since the last snapshot, taken or installed
	logEntries atomic.Int64 // the same
	// snapshotSize is how many bytes the last snapshot had that was written or read here.
	snapshotSize atomic.Int64

	leads    atomic.Bool // serving, readable without the lock
	broken   atomic.Bool // Fatal was called
	stopping atomic.Bool
	running  atomic.Bool // raft has been started

	reads        reads
	contacts     contacts
	members      members
	digests      digests
	timerWake    chan struct{}
	scheduleWake chan struct{}
	tripped      atomic.Bool           // the watchdog is at it
	movedAt      atomic.Int64          // Clock.Mono when entries were last applied here, or taken by a follower, or a snapshot sent to one
	crowded      atomic.Bool           // the state is near its memory limit: enqueues are refused
	space        atomic.Pointer[space] // nil: the node has said nothing
	schemas      atomic.Uint64         // see SchemaVersion
	schemasSeen  uint64                // of the state; guarded by mu
	claimed      atomic.Int64          // what a snapshot that is being written has still to write, about
	tidy         bool                  // an entry is called for though nothing is due: see tidyUp; guarded by mu
	tidyAt       time.Duration         // when the next may be; guarded by mu
	weighAt      time.Duration         // when it is looked at next, on Clock.Mono; guarded by mu

	stopOnce     sync.Once
	stopErr      error
	stopSnapshot chan struct{}
	stopTimer    chan struct{}
	stopLead     chan struct{}
	stopReads    chan struct{}
	stopGate     chan struct{} // closed when raft has ended, or is waited for no longer
	stopProposer chan struct{}
	wg           sync.WaitGroup // watch and propose
	loops        sync.WaitGroup // the other loops
	gate         *gate
	gates        sync.WaitGroup // of the gate: the last to end
}

var errBroken = errors.New("the group has failed and does nothing more")

// New starts a group on the given stores. It does not bootstrap: a group with empty stores waits for Bootstrap, or to be
// added by a leader. It restores the newest snapshot before it returns.
func New(cfg Config) (*Group, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.ClientAddr == nil {
		cfg.ClientAddr = func(raft.ServerID) string { return "" }
	}
	g := &Group{
		cfg: cfg, limits: cfg.Limits, maxOp: cfg.maxOp(), clock: cfg.Clock, metrics: cfg.Metrics, cluster: cfg.Cluster,
		log:          cfg.Logger.With("component", "group", "group", cfg.Number),
		kicks:        make(chan struct{}, 1),
		watching:     make(chan watched, 4*maxInFlight),
		arrived:      make(chan struct{}, 1),
		timerWake:    make(chan struct{}, 1),
		scheduleWake: make(chan struct{}, 1),
		stopSnapshot: make(chan struct{}),
		stopTimer:    make(chan struct{}),
		stopLead:     make(chan struct{}),
		stopReads:    make(chan struct{}),
		stopGate:     make(chan struct{}),
		stopProposer: make(chan struct{}),
	}
	g.limits.defaults()
	g.began = g.clock.Mono()
	g.st = fsm.New(cfg.Number)
	g.time.clock = cfg.Clock
	g.dispatch.reset()
	g.tasks.reset()
	g.recorded.reset()
	g.deaths.reset()
	g.watchers.reset()
	g.reads.init()
	g.digests.init()
	last, err := cfg.Logs.LastIndex()
	if err != nil {
		return nil, fmt.Errorf("read the log's last index: %w", err)
	}
	g.ahead = NewAhead(cfg.Logs, last)
	g.cache = NewLogCache(g.ahead, g.limits.CacheBytes)

	started := false
	defer func() { // also when raft panics, as it does over an entry that it cannot read
		if !started {
			g.ahead.Close()
			g.st.Close()
		}
	}()
	g.gate = newGate(g.ahead.Transport(g.contacts.transport(cfg.Transport)), g.clock.Mono, g.fatal, g.moved, cfg.Failed, g.stopGate)
	r, err := raft.NewRaft(cfg.RaftConfig(), machine{g}, g.cache, g.ahead.Stable(cfg.Stable), noted{cfg.Snapshots, &g.members}, g.gate.transport())
	if err != nil {
		return nil, fmt.Errorf("start raft: %w", err)
	}
	started = true
	g.raft = r
	g.gate.open(r)
	g.running.Store(true)

	g.wg.Add(2)
	go g.watch()
	go g.propose()
	g.gates.Go(func() { g.gate.pass(g.voter) })
	for _, loop := range []func(){g.lead, g.keepTime, g.keepSchedules, g.verifyReads, g.keepSnapshots, g.hashCheckpoints} {
		g.loops.Go(loop)
	}
	return g, nil
}

// Raft is the group's raft, for membership operations, which are the node's. Entries must go through Propose.
func (g *Group) Raft() *raft.Raft { return g.raft }

// Number is the group's number.
func (g *Group) Number() uint16 { return g.cfg.Number }

// Bootstrap makes the initial configuration of a new cluster. Every founding member may call it, with the same arguments;
// stores that are not empty refuse it (raft.ErrCantBootstrap). The first leader writes the cluster id, with epoch 1, as the
// log's first operation.
func (g *Group) Bootstrap(cluster [16]byte, servers []raft.Server) error {
	g.mu.Lock()
	g.cluster = cluster
	g.mu.Unlock()
	if err := g.raft.BootstrapCluster(raft.Configuration{Servers: servers}).Error(); err != nil {
		return fmt.Errorf("bootstrap group %d: %w", g.cfg.Number, err)
	}
	return nil
}

// Cluster is the cluster's id as the state has it; zero before the first operation has been applied.
func (g *Group) Cluster() [16]byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return g.cluster
	}
	return g.st.Cluster()
}

// Status is how the group stands on this node, cheap to ask for.
type Status struct {
	Leader     bool          // this node leads and serves
	LeaderID   raft.ServerID // "" while there is none
	LeaderAddr string        // its client address, "" if unknown
	Term       uint64
	Applied    uint64 // index of the last entry in the state
	Commit     uint64
	LastLog    uint64
	Ready      bool // there is a leader, and this node has applied what it knows to be committed, but for a few entries
}

// readyLag is how many entries a ready node may be behind.
const readyLag = 1024

// Status reports how the group stands.
func (g *Group) Status() Status {
	_, id := g.raft.LeaderWithID()
	s := Status{
		Leader: g.leads.Load(), LeaderID: id, Term: g.raft.CurrentTerm(),
		Applied: g.applied.Load(), Commit: g.raft.CommitIndex(), LastLog: g.raft.LastIndex(),
	}
	if id != "" {
		s.LeaderAddr = g.cfg.ClientAddr(id)
	}
	leads := id != "" && (id != g.cfg.LocalID || s.Leader)
	s.Ready = leads && g.caughtUp(&s) && !g.stopping.Load() && !g.broken.Load()
	return s
}

// caughtUp says whether the state is at most about readyLag entries behind what is committed. Raft's own entries never come to it, and in a
// cluster in which nobody writes there may be any number of them: where raft has passed on all, and nothing waits for the state, it has what
// there is.
func (g *Group) caughtUp(s *Status) bool {
	if s.Commit == 0 || s.Commit <= s.Applied+readyLag {
		return s.Commit > 0
	}
	return s.Commit <= g.raft.AppliedIndex()+readyLag && g.raft.Stats()["fsm_pending"] == "0"
}

// notLeading is the refusal for what only a leader does: where to go instead.
func (g *Group) notLeading() *Error {
	if g.stopping.Load() {
		return errStopping
	}
	_, id := g.raft.LeaderWithID()
	switch id {
	case "":
		return errElection
	case g.cfg.LocalID:
		return errStarting
	}
	addr := g.cfg.ClientAddr(id)
	if addr == "" {
		return &Error{Code: CodeNotLeader, Message: "another node leads the group; its client address is not known yet",
			RetryAfter: retryLeader}
	}
	return &Error{Code: CodeNotLeader, Message: "the leader is at " + addr, Leader: addr}
}

// fatal ends the group and asks for the process to end.
func (g *Group) fatal(err error) {
	if g.broken.Swap(true) {
		return
	}
	g.log.Error("group failed", "err", err)
	go g.cfg.Fatal(err)
}

// Stop ends the group in order: sessions are told to move and nothing more is taken, what is in flight is waited for,
// leadership is handed away, the loops end, raft ends. The stores may be closed afterwards. If ctx ends first, the rest is
// done without waiting and ctx's error comes back; goroutines of raft may still be running then. Later calls answer the
// same.
func (g *Group) Stop(ctx context.Context) error {
	g.stopOnce.Do(func() { g.stopErr = g.stop(ctx) })
	return g.stopErr
}

func (g *Group) stop(ctx context.Context) error {
	g.stopping.Store(true)
	led := g.leads.Load()
	g.farewell()
	g.waitUntil(ctx, g.limits.TransferWithin, func() bool { return g.inFlight.Load() == 0 })
	if led && g.raft.State() == raft.Leader && g.peers() > 0 {
		if err := g.handOver(ctx); err != nil {
			g.log.Warn("leadership not handed away", "err", err)
		}
	}
	close(g.stopSnapshot)
	close(g.stopTimer)
	close(g.stopLead)
	close(g.stopReads)
	close(g.stopProposer)
	g.digests.stop()
	var err error
	if !within(ctx, 0, func() { g.loops.Wait(); g.wg.Wait() }) {
		err = fmt.Errorf("stop group %d: loops: %w", g.cfg.Number, ctx.Err())
	}
	g.lose(errStopping, RedirectStopping)
	var down error
	if !within(ctx, 0, func() { down = g.raft.Shutdown().Error() }) {
		close(g.stopGate)
		return fmt.Errorf("stop group %d: raft: %w", g.cfg.Number, ctx.Err())
	}
	if down != nil {
		err = errors.Join(err, fmt.Errorf("stop raft: %w", down))
	}
	close(g.stopGate)
	g.gates.Wait()
	if !within(ctx, 0, g.ahead.Close) {
		return fmt.Errorf("stop group %d: log: %w", g.cfg.Number, ctx.Err())
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.st.Close()
	return err
}

// peers is how many other voters there are.
func (g *Group) peers() (n int) {
	f := g.raft.GetConfiguration()
	if f.Error() != nil {
		return 0
	}
	for _, s := range f.Configuration().Servers {
		if s.ID != g.cfg.LocalID && s.Suffrage == raft.Voter {
			n++
		}
	}
	return n
}

// within runs f and waits for it, but not longer than ctx and, if positive, d allow. It says whether f has ended.
func within(ctx context.Context, d time.Duration, f func()) bool {
	if d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// waitUntil polls for a condition for at most d; for the way down only.
func (g *Group) waitUntil(ctx context.Context, d time.Duration, ok func() bool) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
