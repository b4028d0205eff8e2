package httpapi

import "github.com/quorate/quorate/wire"

const verifyPath = "/v1/cluster/verify"

// Cluster is who is in the cluster and how they do.
type Cluster struct {
	ClusterID string       `json:"cluster_id"`
	Leader    string       `json:"leader" doc:"node label; empty: there is none"`
	Term      uint64       `json:"term"`
	Nodes     []NodeStatus `json:"nodes"`
}

// NodeStatus is one member.
type NodeStatus struct {
	ID         string `json:"id" doc:"label"`
	UUID       string `json:"uuid"`
	Role       string `json:"role" doc:"leader, follower or candidate; empty: not reached"`
	Voter      bool   `json:"voter"`
	Alive      bool   `json:"alive"`
	ClientAddr string `json:"client_addr"`
	RaftAddr   string `json:"raft_addr"`
	Applied    uint64 `json:"applied" doc:"log index that its state is at"`
	LastLog    uint64 `json:"last_log" doc:"log index that its log reaches to"`
	Version    string `json:"version"`
}

type clusterTransfer struct {
	Node string `json:"node,omitzero" required:"false" doc:"label; absent: the voter that is furthest"`
}

type clusterVerified struct {
	Index uint64       `json:"index"`
	Equal bool         `json:"equal"`
	Nodes []nodeDigest `json:"nodes"`
}

type nodeDigest struct {
	ID     string `json:"id"`
	Digest string `json:"digest,omitzero" required:"false" doc:"64 hex digits"`
	Error  string `json:"error,omitzero" required:"false" doc:"why there is none"`
}

func clusterRoutes() []*route {
	return []*route{
		plain(route{method: "GET", path: "/v1/cluster", summary: "Who is in the cluster and how they do, as the node that is asked sees it", local: true}, func(x *exchange) (*Cluster, *wire.Fault) {
			c, f := call[wire.ClusterIs](x, wire.TypeClusterStatus, &wire.ClusterStatus{})
			if f != nil {
				return nil, f
			}
			a := &Cluster{ClusterID: c.Cluster, Leader: c.Leader, Term: c.Term, Nodes: make([]NodeStatus, len(c.Nodes))}
			for i, n := range c.Nodes {
				a.Nodes[i] = NodeStatus{ID: n.ID, UUID: n.UUID, Role: n.Role, Voter: n.Voter, Alive: n.Alive, ClientAddr: n.ClientAddr, RaftAddr: n.RaftAddr,
					Applied: n.Applied, LastLog: n.LastLog, Version: n.Version}
			}
			return a, nil
		}),
		plain(route{method: "POST", path: verifyPath, summary: "Compare the state hashes of all nodes at one log index", unlogged: true}, func(x *exchange) (*clusterVerified, *wire.Fault) {
			v, f := call[wire.Verified](x, wire.TypeClusterVerify, &wire.ClusterVerify{})
			if f != nil {
				return nil, f
			}
			a := &clusterVerified{Index: v.Index, Equal: v.Equal, Nodes: make([]nodeDigest, len(v.Nodes))}
			for i, n := range v.Nodes {
				a.Nodes[i] = nodeDigest{ID: n.ID, Digest: n.Digest, Error: n.Error}
			}
			return a, nil
		}),
		with(route{method: "POST", path: "/v1/cluster/transfer", summary: "Hand leadership over", optional: true, unlogged: true}, func(x *exchange, in *clusterTransfer) (*done, *wire.Fault) {
			return x.okay(wire.TypeClusterTransfer, &wire.ClusterTransfer{Node: in.Node})
		}),
		plain(route{method: "DELETE", path: "/v1/cluster/members/{id}", summary: "Remove a member by label or UUID", unlogged: true}, func(x *exchange) (*done, *wire.Fault) {
			return x.okay(wire.TypeClusterRemove, &wire.ClusterRemove{Node: x.path["id"]})
		}),
	}
}
