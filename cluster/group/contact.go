package group

import (
	"sync"

	"github.com/hashicorp/raft"
)

// contacts knows how lately the other nodes have followed this leader. Raft's own check of its leadership counts every
// answer that comes in while it waits, also those to requests that were sent long before it began: a process that was stopped
// for a while finds such answers in its sockets, when another has long been elected. What counts here was sent after the
// check began. Only requests that are answered one by one are looked at; each check has raft send some of those.
type contacts struct {
	mu    sync.Mutex
	mark  uint64 // guarded by mu: of the newest check
	heard map[raft.ServerID]contact
}

// contact is the newest request that a node has answered as a follower of ours.
type contact struct {
	term uint64
	mark uint64 // the newest check that had begun when it was sent
}

// maxContacts bounds how many nodes are remembered; more than a cluster has, those that have left included.
const maxContacts = 256

// begin starts a check.
func (c *contacts) begin() (mark uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mark++
	return c.mark
}

func (c *contacts) now() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mark
}

// answered notes that a node has followed a request of this term, sent when now was mark.
func (c *contacts) answered(id raft.ServerID, term, mark uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.heard == nil || len(c.heard) >= maxContacts {
		c.heard = map[raft.ServerID]contact{}
	}
	old := c.heard[id]
	if term > old.term || term == old.term && mark > old.mark {
		c.heard[id] = contact{term, mark}
	}
}

// majority says whether a majority of the voters, self being one if it is among them, have followed a request of this term that
// was sent after the check began.
func (c *contacts) majority(self raft.ServerID, servers []raft.Server, term, mark uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	voters, with := 0, 0
	for _, s := range servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		if h := c.heard[s.ID]; s.ID == self || h.term == term && h.mark >= mark {
			with++
		}
	}
	return with > voters/2
}

// contactTransport tells contacts of the answers to requests that are answered one by one.
type contactTransport struct {
	raft.Transport
	contacts *contacts
}

// AppendEntries implements raft.Transport.
func (t contactTransport) AppendEntries(id raft.ServerID, at raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	mark := t.contacts.now()
	err := t.Transport.AppendEntries(id, at, args, resp)
	if err == nil && resp.Success && resp.Term == args.Term {
		t.contacts.answered(id, args.Term, mark)
	}
	return err
}

// transport is t with contacts told, and all else that raft looks for in it.
func (c *contacts) transport(t raft.Transport) raft.Transport {
	w := contactTransport{t, c}
	if p, ok := t.(raft.WithPreVote); ok {
		return struct {
			contactTransport
			raft.WithPreVote
		}{w, p}
	}
	return w
}

// Close implements raft.WithClose.
func (t contactTransport) Close() error {
	if c, ok := t.Transport.(raft.WithClose); ok {
		return c.Close()
	}
	return nil
}
