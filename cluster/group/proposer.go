package group

import (
	"slices"

	"github.com/hashicorp/raft"
	"github.com/quorate/quorate/fsm"
)

// propose is the proposer: one goroutine that packs what has arrived into entries. No timer waits for more to come: while
// entries are in flight arrivals pile up and the next entry is larger for it (see room); when none are, an operation goes
// at once.
func (g *Group) propose() {
	defer g.wg.Done()
	defer close(g.watching)
	for {
		select {
		case <-g.kicks:
		case <-g.stopProposer:
			return
		}
		for g.pack() {
		}
	}
}

// kick tells the proposer that there may be something to do.
func (g *Group) kick() {
	select {
	case g.kicks <- struct{}{}:
	default:
	}
}

// packer is what the proposer uses again from entry to entry; it alone touches it.
type packer struct {
	props   []*Proposal
	buf     []byte
	decoder fsm.Decoder
	enqueue fsm.Enqueue
	ack     fsm.Ack
	nack    fsm.Nack
	release fsm.Release
}

// keepBuffer is the largest buffer that is kept for the next entry.
const keepBuffer = 1 << 20

// What has to wait before an entry is proposed while another is in flight: so much of a full one.
const (
	fairOps   = 8 // a part of Limits.EntryOps
	fairBytes = 4 // a part of Limits.EntryBytes
)

// room says whether an entry may be proposed now. While one is in flight, the next waits until it is worth its writes: every
// entry costs each node a sync of its disk, which the one in flight is waiting for.
func (g *Group) room() bool {
	n := g.inFlight.Load()
	if n >= int64(g.limits.InFlight) || g.inFlightBytes.Load() >= g.limits.InFlightBytes {
		return false
	}
	if n == 0 {
		return true
	}
	count, bytes := g.intake.size()
	return count >= g.limits.EntryOps/fairOps || bytes >= int64(g.limits.EntryBytes/fairBytes)
}

// pack proposes one entry if there is a reason to and room; true: look again.
func (g *Group) pack() bool {
	if !g.room() {
		return false
	}
	pk := &g.packer
	var late batch
	now := g.clock.Mono()

	g.mu.Lock()
	if !g.serving || now < g.holdUntil {
		g.mu.Unlock()
		return false
	}
	g.mu.Unlock()

	pk.props = g.intake.take(pk.props[:0], g.limits.EntryOps, g.limits.EntryBytes-fsm.EntryHeaderSize)
	pk.buf = fsm.AppendEntryHeader(pk.buf[:0], 0, 0)
	live, ops := pk.props[:0], 0
	for _, p := range pk.props {
		if p.Deadline > 0 && p.Deadline <= now {
			late.fail(p, errTooLate)
			continue
		}
		live = append(live, p)
		ops += p.ops()
		pk.buf = append(pk.buf, p.Op...)
	}
	took := len(pk.props)
	if !pk.sound(ops) {
		live = pk.sieve(live, &late)
	}

	g.mu.Lock()
	var entry []byte
	var number uint64
	f := g.assemble(live, &late)
	if f != nil { // which may end, and be used again, as soon as the lock is free
		entry, number = f.data, f.number
	}
	g.mu.Unlock()

	clear(pk.props)
	if cap(pk.buf) > keepBuffer {
		pk.buf = nil
	}
	g.finish(&late)
	if entry == nil {
		return took > 0
	}
	g.watching <- watched{number: number, future: g.raft.ApplyLog(raft.Log{Data: entry}, 0)}
	return true
}

// sound reads the entry under construction as every node will, and counts its operations: an entry that cannot be read
// would stop all nodes for ever, so no such thing is proposed, whoever encoded it.
func (pk *packer) sound(want int) bool {
	if pk.decoder.Reset(pk.buf) != nil {
		return false
	}
	n := 0
	for pk.decoder.Next() {
		pk.decoder.Skip()
		n++
	}
	return pk.decoder.Err() == nil && n == want
}

// sieve builds the entry again without the proposals that are not exactly the operations that they say.
func (pk *packer) sieve(props []*Proposal, bad *batch) []*Proposal {
	good := props[:0]
	var one []byte
	for _, p := range props {
		one = fsm.AppendEntryHeader(one[:0], 0, 0)
		one = append(one, p.Op...)
		pk.buf = one
		if pk.sound(p.ops()) {
			good = append(good, p)
		} else {
			bad.fail(p, errEncoding)
		}
	}
	pk.buf = fsm.AppendEntryHeader(nil, 0, 0)
	for _, p := range good {
		pk.buf = append(pk.buf, p.Op...)
	}
	return good
}

// assemble completes the entry in the packer's buffer with what the leader itself has to say, stamps it and registers its
// flight; nil if there is nothing to propose. The state lock is held.
func (g *Group) assemble(props []*Proposal, failed *batch) *flight {
	pk, d := &g.packer, &g.dispatch
	if !g.serving {
		for _, p := range props {
			failed.fail(p, g.notLeading())
		}
		return nil
	}
	f := g.flights.begin()
	for _, p := range props {
		f.ops = append(f.ops, flightOp{kind: opClient, p: p})
		for range p.ops() - 1 {
			f.ops = append(f.ops, flightOp{kind: opClient, tail: true})
		}
		if p.Deadline > 0 && (f.deadline == 0 || p.Deadline < f.deadline) {
			f.deadline = p.Deadline
		}
	}
	d.foresee(g.st, pk, f)
	t, _ := g.time.now()
	due := g.isDue()
	if due && d.waiting > 0 && (len(f.ops) > 0 || len(g.flights.list) == 0) {
		d.foreseeDue(g.st, t, f)
	}
	pk.buf = d.giveBack(g.st, pk.buf, f)
	if len(f.ops) > 0 {
		d.refills.due(d, t) // those that ride along cost no entry
	}
	d.packing = g.clock.Mono()
	lends := d.lend(g.st, t, f)
	pk.buf = d.deal(g.st, t, pk.buf, f, g.limits.EntryBytes)
	if lends {
		d.withdraw(f)
	}
	if d.refills.sooner {
		d.refills.sooner = false
		g.wakeTimer()
	}
	if len(f.ops) == 0 && (!due && !g.tidy || len(g.flights.list) > 0) {
		g.unbook(f)
		g.flights.recycle(f)
		return nil
	}
	g.tidied()
	g.inFlight.Add(1)
	now, shift := g.time.stamp()
	fsm.SetEntryTime(pk.buf, now, shift)
	// The bytes belong to raft, its log cache and its followers from here on, for an unknown time: never used again.
	f.data = slices.Clone(pk.buf)
	f.packed = g.time.anchorM
	g.flights.list = append(g.flights.list, f)
	g.inFlightBytes.Add(int64(len(f.data)))
	g.metrics.packed(f)
	return f
}

// isDue says whether something is due. If nothing else is on its way that would see to it, that calls for an entry by
// itself. The state lock is held.
func (g *Group) isDue() bool {
	due, ok := g.st.NextDue()
	if !ok {
		return false
	}
	now, _ := g.time.now()
	return due <= now
}
