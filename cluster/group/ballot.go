package group

import (
	"github.com/hashicorp/raft"
)

// ballot has a vote asked for judged by the logs alone, as raft's safety wants it, and not by the voter's own configuration: who campaigns
// votes in a configuration of its own, which may be newer than the voter's. Raft (hashicorp/raft v1.8.0, raft.go, requestVote and
// requestPreVote) refuses those who do not vote in the configuration that it has: with one voter dead, and another behind the entry that
// made the third a voter, the third would get no vote for that, the other one none for its shorter log, and there would be no leader for as
// long as the dead one is away (Ongaro's dissertation, 4.1 and 4.2.2, has servers grant votes whatever configuration they have).
//
// Who was removed and has not heard of it disturbs nobody: a vote is refused while there is a leader, and to a log that lacks what a
// majority has, such as the removal.
//
// Requests are changed where they come in, and the sender's stay as they are. A request for a vote without an id is one that raft does not
// check against its configuration; one before a vote gets the id of somebody who votes there, since it is for nothing but this check.
func ballot(command any, voter func() raft.ServerID) any {
	switch req := command.(type) {
	case *raft.RequestVoteRequest:
		vote := *req
		vote.ID = nil
		return &vote
	case *raft.RequestPreVoteRequest:
		if id := voter(); id != "" {
			vote := *req
			vote.ID = []byte(id)
			return &vote
		}
	}
	return command
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
