package group

import (
	"github.com/hashicorp/raft"
)

// ballots has votes asked for judged by the logs alone, as raft's safety wants it, and not by the voter's own configuration: who campaigns
// votes in a configuration of its own, which may be newer than the voter's. Raft (hashicorp/raft v1.8.0, raft.go, requestVote and
// requestPreVote) refuses those who do not vote in the configuration that it has: with one voter dead, and another behind the entry that
// made the third a voter, the third would get no vote for that, the other one none for its shorter log, and there would be no leader for as
// long as the dead one is away (Ongaro's dissertation, 4.1 and 4.2.2, has servers grant votes whatever configuration they have).
//
// Who was removed and has not heard of it disturbs nobody: a vote is refused while there is a leader, and to a log that lacks what a
// majority has, such as the removal.
//
// Requests are changed where they come in. A request for a vote without an id is one that raft does not check against its configuration;
// one before a vote gets the id of somebody who votes there, since it is for nothing but this check.
type ballots struct {
	raft.Transport
	out chan raft.RPC
}

func newBallots(t raft.Transport) *ballots { return &ballots{t, make(chan raft.RPC)} }

// transport is for raft to use; it has all that raft looks for in the one below.
func (b *ballots) transport() raft.Transport {
	if p, ok := b.Transport.(raft.WithPreVote); ok {
		return struct {
			*ballots
			raft.WithPreVote
		}{b, p}
	}
	return b
}

// Consumer implements raft.Transport.
func (b *ballots) Consumer() <-chan raft.RPC { return b.out }

// Close implements raft.WithClose.
func (b *ballots) Close() error {
	if c, ok := b.Transport.(raft.WithClose); ok {
		return c.Close()
	}
	return nil
}

// pass hands on what comes in until end is closed. voter is somebody who votes, "" where nobody is known to.
func (b *ballots) pass(voter func() raft.ServerID, end <-chan struct{}) {
	for {
		select {
		case rpc := <-b.Transport.Consumer():
			switch req := rpc.Command.(type) {
			case *raft.RequestVoteRequest:
				vote := *req
				vote.ID = nil
				rpc.Command = &vote
			case *raft.RequestPreVoteRequest:
				if id := voter(); id != "" {
					vote := *req
					vote.ID = []byte(id)
					rpc.Command = &vote
				}
			}
			select {
			case b.out <- rpc:
			case <-end: // nobody answers it, as with those that raft has not taken when it ends
				return
			}
		case <-end:
			return
		}
	}
}

// voter is one of those who vote in this node's configuration.
func (g *Group) voter() raft.ServerID {
	f := g.raft.GetConfiguration()
	if f.Error() != nil {
		return ""
	}
	for _, s := range f.Configuration().Servers {
		if s.Suffrage == raft.Voter {
			return s.ID
		}
	}
	return ""
}
