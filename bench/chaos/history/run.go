package history

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Names of what a run leaves in its folder.
const (
	EventsFile  = "events.jsonl"
	EffectsFile = "effects.jsonl"
	TapsDir     = "taps"
)

// States are the digests of all nodes' states at one checkpoint: those of the last, for Judge.
type States struct {
	Index uint64
	Nodes []NodeState
}

// NodeState is one node's digest in hex, or why there is none.
type NodeState struct{ Node, Digest, Error string }

// Verdict is all that is said of a run.
type Verdict struct {
	History *History
	Report  *Report
	Opinion *Opinion
	Entries int // of the log
	Terms   int // in which entries were applied
	Took    time.Duration
}

// Err is nil for a run that broke nothing and was not vacuous.
func (v *Verdict) Err() error {
	err := v.Report.Err()
	if n := len(v.Opinion.Illegal); n > 0 {
		err = errors.Join(err, fmt.Errorf("%d messages whose answers no order explains", n))
	}
	return err
}

// Judge judges what a run has left in a folder: the recorder's events, and the taps of its nodes, which are held against each other index by
// index and applied to an empty state, whose digest must be that of every node. It leaves the effects beside them, for a later judgement.
// An error says that there is nothing to judge; that nodes applied different entries at an index is one (ErrDiffer).
func Judge(dir string, last States, cfg Config) (*Verdict, error) {
	began := time.Now()
	f, err := os.Open(filepath.Join(dir, EventsFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := &History{}
	if h.Events, err = ReadEvents(f); err != nil {
		return nil, err
	}
	entries, err := ReadTaps(filepath.Join(dir, TapsDir))
	if err != nil {
		return nil, err
	}
	var digests map[uint64][32]byte
	if h.Effects, digests, err = Replay(entries); err != nil {
		return nil, err
	}
	out, err := os.Create(filepath.Join(dir, EffectsFile))
	if err != nil {
		return nil, err
	}
	if err := errors.Join(WriteEffects(out, h.Effects), out.Close()); err != nil {
		return nil, err
	}
	v := &Verdict{History: h, Entries: len(entries)}
	terms := map[uint64]bool{}
	for i := range entries {
		terms[entries[i].Term] = true
	}
	v.Terms = len(terms)
	v.Report = Check(h, cfg)
	sum, ok := digests[last.Index]
	if !ok {
		v.Report.blame("G15", "", fmt.Sprintf("the nodes told their digests at index %d, where the taps have no checkpoint", last.Index))
	}
	for _, n := range last.Nodes {
		if ok && n.Digest != hex.EncodeToString(sum[:]) {
			v.Report.blame("G15", "", fmt.Sprintf("at index %d node %s has the digest %s %s, the log of the taps gives %x", last.Index, n.Node, n.Digest, n.Error, sum))
		}
	}
	v.Opinion = SecondOpinion(h.Events)
	v.Took = time.Since(began)
	return v, nil
}
