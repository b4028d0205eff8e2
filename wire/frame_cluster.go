package wire

// ClusterStatus has no fields.
type ClusterStatus struct{}

// ClusterIs answers ClusterStatus.
type ClusterIs struct {
	Cluster string `cbor:"1,keyasint"`
	Leader  string `cbor:"2,keyasint"` // node label, empty if none
	Term    uint64 `cbor:"3,keyasint"`
	Nodes   []Node `cbor:"4,keyasint"`
	At      At     `cbor:"5,keyasint"`
}

// Node is one member.
type Node struct {
	ID         string `cbor:"1,keyasint"` // label
	UUID       string `cbor:"2,keyasint"`
	Role       string `cbor:"3,keyasint"` // leader follower candidate; empty when not reached
	Voter      bool   `cbor:"4,keyasint"`
	Alive      bool   `cbor:"5,keyasint"`
	ClientAddr string `cbor:"6,keyasint"`
	RaftAddr   string `cbor:"7,keyasint"`
	Applied    uint64 `cbor:"8,keyasint"`  // log index its state is at
	Version    string `cbor:"9,keyasint"`  // of its binary
	LastLog    uint64 `cbor:"10,keyasint"` // log index its log reaches to
}

// ClusterVerify has no fields.
type ClusterVerify struct{}

// Verified answers ClusterVerify: all digests at one index.
type Verified struct {
	Index uint64       `cbor:"1,keyasint"`
	Equal bool         `cbor:"2,keyasint"`
	Nodes []NodeDigest `cbor:"3,keyasint"`
	At    At           `cbor:"4,keyasint"`
}

// NodeDigest is one node's state hash; Error says why there is none.
type NodeDigest struct {
	ID     string `cbor:"1,keyasint"`
	Digest string `cbor:"2,keyasint,omitempty"` // 64 hex digits
	Error  string `cbor:"3,keyasint,omitempty"`
}

// ClusterTransfer hands leadership to Node (empty: the most caught-up voter).
type ClusterTransfer struct {
	Node string `cbor:"1,keyasint,omitempty"`
}

// ClusterRemove removes a member by label or UUID.
type ClusterRemove struct {
	Node string `cbor:"1,keyasint"`
}
