package group

import (
	"context"
	"fmt"
	"sync"

	"github.com/quorate/quorate/fsm"
)

// Bounds of the digests: how many are kept, and how many views wait to be hashed (each pins what the state changes
// meanwhile).
const (
	digestsKept    = 16
	digestsPending = 2
)

// digests are the hashes of the state at checkpoints: the view is taken in Apply, at the same index on every node, and
// hashed by a goroutine of its own.
type digests struct {
	mu      sync.Mutex
	have    []digest      // guarded by mu; oldest first
	pending []*fsm.View   // guarded by mu
	hashing uint64        // guarded by mu; index in work, 0: none
	changed chan struct{} // guarded by mu; closed and replaced when have changes
	wake    chan struct{}
	done    chan struct{}
}

type digest struct {
	index uint64
	sum   [32]byte
	err   error
}

func (d *digests) init() {
	d.changed, d.wake, d.done = make(chan struct{}), make(chan struct{}, 1), make(chan struct{})
}

func (d *digests) stop() { close(d.done) }

// take takes the view. The state lock is held.
func (d *digests) take(index uint64, st *fsm.State) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.pending) >= digestsPending {
		old := d.pending[0]
		d.pending = d.pending[1:]
		d.add(digest{index: old.Index(), err: fmt.Errorf("checkpoint %d was overtaken by newer ones", old.Index())})
		old.Release()
	}
	d.pending = append(d.pending, st.View())
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

func (d *digests) add(one digest) {
	if len(d.have) >= digestsKept {
		d.have = append(d.have[:0], d.have[1:]...)
	}
	d.have = append(d.have, one)
	d.tell()
}

// tell has those who wait look again. mu is held.
func (d *digests) tell() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// overtaken is for a state that has been replaced by a later one: the checkpoints between do not come any more.
func (d *digests) overtaken() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tell()
}

// hashCheckpoints hashes the views of checkpoints. One goroutine.
func (g *Group) hashCheckpoints() {
	d := &g.digests
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, v := range d.pending {
			v.Release()
		}
		d.pending = nil
	}()
	for {
		select {
		case <-d.wake:
		case <-d.done:
			return
		}
		for {
			d.mu.Lock()
			if len(d.pending) == 0 {
				d.mu.Unlock()
				break
			}
			v := d.pending[0]
			d.pending = d.pending[1:]
			d.hashing = v.Index()
			d.mu.Unlock()

			one := digest{index: v.Index(), sum: v.Digest()}
			v.Release()

			d.mu.Lock()
			d.hashing = 0
			d.add(one)
			d.mu.Unlock()
		}
	}
}

// DigestAt is the digest of the state at the checkpoint with that index. It waits for the entry to be applied and hashed;
// an index that this node does not have (it was reached by a snapshot, is older than the last 16, or was no checkpoint)
// is an error.
func (g *Group) DigestAt(ctx context.Context, index uint64) ([32]byte, error) {
	d := &g.digests
	for {
		passed := g.applied.Load() >= index // before looking: the view is taken before the index is reached
		d.mu.Lock()
		for _, one := range d.have {
			if one.index == index {
				d.mu.Unlock()
				return one.sum, one.err
			}
		}
		coming := d.hashing == index
		for _, v := range d.pending {
			coming = coming || v.Index() == index
		}
		changed := d.changed
		d.mu.Unlock()
		if passed && !coming {
			return [32]byte{}, fmt.Errorf("no digest at index %d: this node has passed it without a checkpoint, or keeps it no longer", index)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return [32]byte{}, fmt.Errorf("digest at index %d: %w", index, ctx.Err())
		case <-d.done:
			return [32]byte{}, fmt.Errorf("digest at index %d: the group has stopped", index)
		}
	}
}

// Verify writes a checkpoint and collects every member's digest of the state at its index. They must be equal.
func (g *Group) Verify(ctx context.Context) (index uint64, d []NodeDigest, at Stamp, err *Error) {
	op := fsm.AppendOp(nil, &fsm.Checkpoint{Nonce: uint64(g.clock.Mono())})
	if at, err = g.do(ctx, op); err != nil {
		return 0, nil, at, err
	}
	if g.cfg.Digests != nil {
		d = g.cfg.Digests(ctx, at.Index)
	}
	for _, one := range d {
		if one.ID == g.cfg.LocalID {
			return at.Index, d, at, nil
		}
	}
	own := NodeDigest{ID: g.cfg.LocalID}
	var failed error
	if own.Digest, failed = g.DigestAt(ctx, at.Index); failed != nil {
		own.Err = failed.Error()
	}
	return at.Index, append([]NodeDigest{own}, d...), at, nil
}

// waiting is a Completer for a caller that waits and wants no outcome.
type waiting struct {
	at  Stamp
	err *Error
	end chan struct{}
}

// Complete notes the end.
func (w *waiting) Complete(_ *Proposal, _ *fsm.State, at Stamp, _ []fsm.Outcome, _ []fsm.Leased, err *Error) {
	w.at, w.err = at, err
	close(w.end)
}

// do proposes one operation and waits for its end.
func (g *Group) do(ctx context.Context, op []byte) (Stamp, *Error) {
	w := &waiting{end: make(chan struct{})}
	g.Propose(&Proposal{Op: op, Done: w})
	select {
	case <-w.end:
		return w.at, w.err
	case <-ctx.Done():
		return Stamp{}, errDeadline
	}
}
