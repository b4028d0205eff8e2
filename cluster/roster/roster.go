// Package roster is how a cluster's members look from outside: plain values that a node fills in and the doors show. It
// stands apart from package cluster so that the doors need no node with disks and sockets behind them, and can be built for
// a simulation.
package roster

// Member is one node of a cluster as it was found.
type Member struct {
	Label, UUID string
	Role        string // leader, follower, candidate; "" when it does not answer
	Voter       bool
	Alive       bool   // it answered
	RaftAddr    string // host:port
	ClientAddr  string // "" if unknown
	Applied     uint64 // index of the last entry applied
	LastLog     uint64 // index of the last entry in its log
	Ready       bool
	Reason      string // why it is not ready, or does not answer; of one that is ready, what it cannot serve
	Version     string
}

// Members is a cluster at a glance.
type Members struct {
	Cluster string // id
	Leader  string // label, "" if unknown
	Term    uint64
	Nodes   []Member // in the order of raft's configuration
}
