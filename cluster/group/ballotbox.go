package group

import (
	"github.com/hashicorp/raft"
)

// Raft's keys (hashicorp/raft v1.8.0, raft.go) of the term that a node is in, and of the vote that it gave last: in which term, and whom.
const (
	termKey     = "CurrentTerm"
	voteTermKey = "LastVoteTerm"
	voteKey     = "LastVoteCand"
)

// ballotBox is the stable store of a node whose log is ahead: term and vote are written after the log.
//
// A vote is two writes. Raft writes the term first, and a node that ends between the two has voted in it for whom it voted before that: him it
// would then tell so without a look at his log (hashicorp/raft#661). Here the candidate is written first. Where it ends between, it has voted
// for him in an older term, in which nobody is given a vote any more, since the term that the node is in was written before (raft.go,
// requestVote and electSelf).
//
// Raft's loop alone writes.
type ballotBox struct {
	raft.StableStore
	log *Ahead

	term uint64 // of the vote that is being written, its candidate to come; 0: none is
}

// Set implements raft.StableStore.
func (b *ballotBox) Set(key, val []byte) error {
	term := uint64(0)
	if string(key) == voteKey {
		term, b.term = b.term, 0
	}
	if err := b.log.flush(); err != nil {
		return err
	}
	if err := b.StableStore.Set(key, val); err != nil || term == 0 {
		return err
	}
	return b.StableStore.SetUint64([]byte(voteTermKey), term)
}

// SetUint64 implements raft.StableStore. The log has an error to give only where its disk has failed and the node is being taken down
// (Config.Logs). Of the term raft wants none then: it would panic. A term that is on no disk is no promise, since the votes and entries of that
// term are, and they fail.
func (b *ballotBox) SetUint64(key []byte, val uint64) error {
	if string(key) == voteTermKey {
		b.term = val // Set writes it
		return nil
	}
	if err := b.log.flush(); err != nil {
		if string(key) == termKey {
			return nil
		}
		return err
	}
	return b.StableStore.SetUint64(key, val)
}
