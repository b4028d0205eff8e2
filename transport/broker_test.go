package transport

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/wire"
)

// A real node, in memory, behind the doors: what Broker needs and what a node gives are the same thing.
func TestNode(t *testing.T) {
	reg := prometheus.NewRegistry()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	n, err := cluster.Start(ctx, cluster.Config{
		NodeID: "dev", ClientAddr: "127.0.0.1:7340", Version: "v0", Registry: reg, Fatal: func(err error) { t.Errorf("fatal: %v", err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Broker: NodeBroker(n), Registry: reg, Version: "v0"})
	if err != nil {
		t.Fatal(err)
	}
	addr := serveFor(t, s)
	t.Cleanup(func() { // runs before the doors' own
		s.Drain()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := n.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	waitFor(t, func() bool { code, _, _ := get(t, "http://"+addr+"/readyz"); return code == 200 })
	waitFor(t, func() bool { return n.Group(0).Status().Leader })
	p, _ := session(t, addr)
	id := p.enqueue("q", wire.Message{Body: wire.Bytes("x")})
	if d := p.pull("q"); d.ID != id {
		t.Errorf("got %+v", d)
	}
	var is wire.ClusterIs
	p.ask(wire.TypeClusterStatus, &wire.ClusterStatus{}, wire.TypeClusterIs, &is)
	if is.Leader != "dev" || len(is.Nodes) != 1 || is.Nodes[0].ID != "dev" || is.Nodes[0].Role != "leader" || is.Nodes[0].ClientAddr != "127.0.0.1:7340" ||
		is.Nodes[0].Version != "v0" || len(is.Cluster) != 32 || is.Cluster != NodeBroker(n).Cluster() || is.At.Index == 0 {
		t.Errorf("cluster is %+v", is)
	}
	var v wire.Verified
	p.ask(wire.TypeClusterVerify, &wire.ClusterVerify{}, wire.TypeVerified, &v)
	if !v.Equal || len(v.Nodes) != 1 || v.Nodes[0].ID != "dev" {
		t.Errorf("verified %+v", v)
	}
	p.refused(wire.TypeClusterRemove, &wire.ClusterRemove{Node: "nobody"}, wire.CodeNotFound)
	f := p.refused(wire.TypeClusterRemove, &wire.ClusterRemove{Node: "dev"}, wire.CodeFailedPrecondition)
	t.Logf("removing the last node: %s", f.Message)
	if code, text, _ := get(t, "http://"+addr+"/metrics"); code != 200 || len(text) == 0 {
		t.Errorf("metrics: %d", code)
	}
}
