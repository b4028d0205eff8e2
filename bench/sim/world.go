package sim

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/bench/chaos/history"
	"github.com/quorate/quorate/cluster/group"
)

var clusterID = [16]byte{'s', 'i', 'm'}

// world is all there is in a run.
type world struct {
	plan   *Plan
	dice   *dice
	trace  *trace
	net    *network
	nodes  []*node
	rec    *history.Recorder
	healed chan struct{} // closed when the faults end
	graves sync.WaitGroup
	change chan struct{} // holds a token while the membership changes
	keys   *keyed        // nil before there are any

	mu        sync.Mutex
	living    map[*node]bool                // guarded by mu: whose processes run, or are about to
	down      bool                          // guarded by mu: no majority of them
	entries   map[uint64]*history.LogEntry  // guarded by mu: as the first node applied them
	stored    map[place]uint32              // guarded by mu: sums of all entries, as the first node stored them
	led       map[uint64]raft.ServerAddress // guarded by mu: by term, who has sent entries
	sometimes map[string]int                // guarded by mu
	faults    map[string]int                // guarded by mu: carried out
	wrong     []string                      // guarded by mu
	broken    int                           // guarded by mu: how many wrongs there were
}

// place is where an entry is in a log, and names it: no two have the same.
type place struct{ index, term uint64 }

// shownWrongs is how many of a run's wrongs are kept.
const shownWrongs = 20

func newWorld(p *Plan) *world {
	w := &world{
		plan: p, dice: newDice(p.Seed), trace: newTrace(), rec: history.Keep(0), healed: make(chan struct{}), change: make(chan struct{}, 1),
		living: map[*node]bool{}, entries: map[uint64]*history.LogEntry{}, stored: map[place]uint32{}, led: map[uint64]raft.ServerAddress{},
		sometimes: map[string]int{}, faults: map[string]int{},
	}
	w.net = newNetwork(w.dice, w.trace, p.Net)
	for i := range p.Nodes { // doors answer HTTP at loopback alone, so that is what machines are called
		n := &node{w: w, slot: i, host: fmt.Sprintf("127.0.0.%d", i+1), clock: newClock(p.Clocks[i]), turn: make(chan struct{}, 1)}
		n.rename()
		base := &disk{dice: w.dice, most: p.Writes, gapless: p.Gapless[i], blame: w.blame, count: w.count, stores: w.stores, faulty: w.faulty}
		n.diskAt.Store(base.fresh(n.host))
		w.nodes = append(w.nodes, n)
	}
	return w
}

// faulty says whether things go wrong still.
func (w *world) faulty() bool {
	select {
	case <-w.healed:
		return false
	default:
		return true
	}
}

// blame notes something that must not be.
func (w *world) blame(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	w.trace.say("WRONG: %s", s)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken++
	if len(w.wrong) < shownWrongs {
		w.wrong = append(w.wrong, s)
	}
}

func (w *world) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sometimes[what]++
}

func (w *world) quorum() int { return len(w.nodes)/2 + 1 }

// falls notes that a node's process has ended, and in the history whether that leaves no majority.
func (w *world) falls(n *node) {
	w.trace.say("%s is down", n.id())
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.living, n)
	if len(w.living) < w.quorum() && !w.down {
		w.down = true
		w.rec.Add(history.Event{Kind: history.Mark, Note: history.Down})
	}
}

// rises notes that a node's process is about to begin.
func (w *world) rises(n *node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.living[n] = true
	if len(w.living) >= w.quorum() && w.down {
		w.down = false
		w.rec.Add(history.Event{Kind: history.Mark, Note: history.Up})
	}
}

func (w *world) killed(n *node, led bool) {
	w.trace.say("%s is killed; it led: %v", n.id(), led)
	w.rec.Add(history.Event{Kind: history.Mark, Note: history.Killed, Node: n.host, Leader: led})
}

// stores sees every entry that a node is about to store. Two with the same index and term are the same (Ongaro's dissertation, 3.5): where they
// are not, the nodes' states part unless one of them is cut off by chance.
func (w *world) stores(l *raft.Log) {
	sum := crc32.Update(uint32(l.Type), crc32.IEEETable, l.Data)
	at := place{l.Index, l.Term}
	w.mu.Lock()
	was, met := w.stored[at]
	if !met {
		w.stored[at] = sum
	}
	w.mu.Unlock()
	if met && was != sum {
		w.blame("G15: there are two entries of index %d and term %d", l.Index, l.Term)
	}
}

// sends sees every request for entries on its way to a follower: one node leads in a term, and what it says is committed is what was applied.
func (w *world) sends(from raft.ServerAddress, m *raft.AppendEntriesRequest) {
	var bad []uint64
	w.mu.Lock()
	was, met := w.led[m.Term]
	if !met {
		w.led[m.Term] = from
	}
	differs := func(index, term uint64) bool {
		e := w.entries[index]
		return e != nil && index <= m.LeaderCommitIndex && e.Term != term
	}
	if m.PrevLogEntry > 0 && differs(m.PrevLogEntry, m.PrevLogTerm) {
		bad = append(bad, m.PrevLogEntry)
	}
	for _, l := range m.Entries {
		if differs(l.Index, l.Term) {
			bad = append(bad, l.Index)
		}
	}
	w.mu.Unlock()
	if met && was != from {
		w.blame("G19: %s and %s both send entries of term %d", was, from, m.Term)
	}
	if len(bad) > 0 {
		w.blame("G15: %s sends as committed entries of other terms than were applied, %v", from, bad)
	}
}

// applied sees every entry that a process applies, before anybody is answered.
func (w *world) applied(p *process, index, term uint64, data []byte) {
	if p.dead.Load() {
		return
	}
	sum := crc32.ChecksumIEEE(data)
	w.trace.applied(string(p.id), index, term, uint64(sum))
	w.mu.Lock()
	was := w.entries[index]
	if was == nil {
		w.entries[index] = &history.LogEntry{Index: index, Term: term, Data: slices.Clone(data), From: string(p.id)}
	}
	w.mu.Unlock()
	switch {
	case was == nil:
		has := 0
		for _, n := range w.nodes {
			if d := n.disk(); d.has(index, term) {
				has++
			}
		}
		if has < w.quorum() && !p.dead.Load() {
			w.blame("G1: %s applies entry %d of term %d, which is on %d disks", p.id, index, term, has)
		}
	case was.Term != term || string(was.Data) != string(data):
		w.blame("G15: at index %d %s applies an entry of term %d and %d bytes, %s one of term %d and %d bytes",
			index, p.id, term, len(data), was.From, was.Term, len(was.Data))
	}
}

// clientAddr is where clients reach a member.
func (w *world) clientAddr(id raft.ServerID) string {
	for _, n := range w.nodes {
		if n.id() == id {
			return n.addr()
		}
	}
	return ""
}

// digests asks all that run.
func (w *world) digests(ctx context.Context, index uint64) (out []group.NodeDigest) {
	for _, n := range w.nodes {
		p := n.up.Load()
		if p == nil {
			continue
		}
		d := group.NodeDigest{ID: p.id}
		var err error
		if d.Digest, err = p.group.DigestAt(ctx, index); err != nil {
			d.Err = err.Error()
		}
		out = append(out, d)
	}
	return out
}

// dial is how a client's host reaches a node.
func (w *world) dial(host string) func(ctx context.Context, addr string) (net.Conn, error) {
	return func(ctx context.Context, addr string) (net.Conn, error) { return w.net.dial(ctx, host, addr) }
}

func (w *world) addrs() (out []string) {
	for _, n := range w.nodes {
		out = append(out, n.addr())
	}
	return out
}

// leader is the process that leads and serves, nil while there is none.
func (w *world) leader() *process {
	var l *process
	for _, n := range w.nodes {
		if p := n.up.Load(); p != nil {
			if s := p.group.Status(); s.Leader && (l == nil || s.Term > l.group.Status().Term) {
				l = p
			}
		}
	}
	return l
}

// leadsLater says whether another node than n leads, in a later term.
func (w *world) leadsLater(n *node, term uint64) bool {
	for _, o := range w.nodes {
		if p := o.up.Load(); o != n && p != nil {
			if r := p.group.Raft(); r.State() == raft.Leader && r.CurrentTerm() > term {
				return true
			}
		}
	}
	return false
}

// boot starts all nodes for the first time, as one cluster.
func (w *world) boot() error {
	var servers []raft.Server
	for _, n := range w.nodes {
		servers = append(servers, raft.Server{ID: n.id(), Address: raft.ServerAddress(n.id())})
	}
	for _, n := range w.nodes {
		if err := n.start(); err != nil {
			return fmt.Errorf("start %s: %w", n.host, err)
		}
	}
	for _, n := range w.nodes {
		// Others may have elected a leader meanwhile, who has sent it the configuration.
		if err := n.up.Load().group.Bootstrap(clusterID, servers); err != nil && !errors.Is(err, raft.ErrCantBootstrap) {
			return fmt.Errorf("bootstrap %s: %w", n.host, err)
		}
	}
	if !w.until(30*time.Second, func() bool { return w.leader() != nil }) {
		return errors.New("G7: a new cluster has no leader after 30 s")
	}
	return nil
}

// until waits for something, for at most d.
func (w *world) until(d time.Duration, ok func() bool) bool {
	for end := time.Now().Add(d); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// hold lets time pass, up to the end of the faults. It says whether they go on.
func (w *world) hold(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-w.healed:
		return false
	}
}

// shaken says whether a node's disk or network was made to stand still lately, so that its watchdog may end it.
func (w *world) shaken(n *node) bool {
	return time.Now().UnixNano() < n.stalled.Load()+int64(30*time.Second)
}

// shake notes that a node is made to stand still for d.
func (n *node) shake(d time.Duration) {
	n.stalled.Store(max(n.stalled.Load(), time.Now().Add(d).UnixNano()))
}

// endedItself puts away a process that asked for its own end, and starts the next.
func (w *world) endedItself(p *process, err error) {
	n := p.n
	n.take()
	if n.up.Load() != p {
		n.release()
		return
	}
	w.trace.say("%s ends itself: %v", p.id, err)
	if p.wants.Load() {
		w.count("stopped as it must")
	} else if errors.Is(err, group.ErrLogReplaced) {
		w.count("snapshot installed within the log")
	} else if !w.shaken(n) {
		w.blame("%s ended itself for no reason of ours: %v", p.id, err)
	}
	n.kill(false)
	n.release()
	w.hold(time.Duration(200+w.dice.upTo(2000)) * time.Millisecond)
	w.restart(n)
}

// restart starts a node if it is down and may be started.
func (w *world) restart(n *node) {
	n.take()
	defer n.release()
	if n.up.Load() != nil || n.damaged {
		return
	}
	for { // as often as a fault of the plan meets the process that is just beginning
		err := n.start()
		if !errors.As(err, new(wanted)) {
			if err != nil {
				w.blame("%s does not start: %v", n.id(), err)
			}
			return
		}
		w.trace.say("%s does not start, as it must: %v", n.id(), err)
		w.count("stopped as it must")
	}
}
