package cluster

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/cluster/link"
	"github.com/quorate/quorate/cluster/store"
)

// Probed is a node as a stranger sees it from outside.
type Probed struct {
	Label, UUID, Cluster string // Cluster is "" while it belongs to none
	Role                 string
	Ready                bool
	Reason               string // why it is not ready
	Version              string
	Format               int   // of its data directory
	WallMillis           int64 // its wall clock when it answered
}

// Probe asks the node at a node address (host:port) how it is, without being a node. For tools; ctx should have a deadline,
// there is one of two seconds at most.
func Probe(ctx context.Context, addr string) (Probed, error) {
	ctx, cancel := context.WithTimeout(ctx, rpcCall)
	defer cancel()
	id := store.NewUUID()
	l, err := link.Listen(link.Config{Addr: "127.0.0.1:0", Self: func() link.Self {
		return link.Self{UUID: id, Label: "probe", Incarnation: 1, Nonce: 1}
	}})
	if err != nil {
		return Probed{}, err
	}
	defer func() { _ = l.Close() }()
	a, p, err := callOver(ctx, l, addr, store.UUID{}, &request{Op: opStatus})
	if err != nil {
		return Probed{}, err
	}
	if a.Status == nil {
		return Probed{}, fmt.Errorf("node at %s answers without its status: %s", addr, a.Message)
	}
	out := Probed{
		Label: p.Label, UUID: p.UUID.String(), Role: a.Status.Role, Ready: a.Status.Ready, Reason: a.Status.Why,
		Version: a.Status.Place.Version, Format: a.Status.Place.Format, WallMillis: a.Status.Wall,
	}
	if !p.Cluster.IsZero() {
		out.Cluster = p.Cluster.String()
	}
	return out, nil
}
