package transport

import (
	"context"
	"encoding/hex"
	"errors"

	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/wire"
)

// clusterStatus asks every member how it does.
func (c *conn) clusterStatus(raw wire.Raw) bool {
	req := new(wire.ClusterStatus)
	if ok, alive := taken(c, raw, req, func(*wire.ClusterStatus) *wire.Fault { return nil }); !ok {
		return alive
	}
	return c.slowly(raw.Tag, 0, 1, func(ctx context.Context, _ *errand) (wire.Type, any, *wire.Fault) {
		m, err := c.srv.cfg.Broker.Members(ctx)
		if err != nil {
			return 0, nil, nodeFault(err)
		}
		rep := &wire.ClusterIs{Cluster: c.srv.cfg.Broker.Cluster(), Leader: m.Leader, Term: m.Term, Nodes: make([]wire.Node, len(m.Nodes))}
		for i, n := range m.Nodes {
			rep.Nodes[i] = wire.Node{
				ID: n.Label, UUID: n.UUID, Role: n.Role, Voter: n.Voter, Alive: n.Alive, ClientAddr: n.ClientAddr,
				RaftAddr: n.RaftAddr, Applied: n.Applied, Version: n.Version, LastLog: n.LastLog,
			}
		}
		if at, f := c.readState(ctx, true, func(*fsm.State) {}); f == nil {
			rep.At = at
		}
		return wire.TypeClusterIs, rep, nil
	})
}

// clusterVerify compares the state digests of all nodes at one index.
func (c *conn) clusterVerify(raw wire.Raw) bool {
	req := new(wire.ClusterVerify)
	if ok, alive := taken(c, raw, req, func(*wire.ClusterVerify) *wire.Fault { return nil }); !ok {
		return alive
	}
	return c.slowly(raw.Tag, verifyWait, 1, func(ctx context.Context, _ *errand) (wire.Type, any, *wire.Fault) {
		labels := make(map[string]string)
		if m, err := c.srv.cfg.Broker.Members(ctx); err == nil {
			for _, n := range m.Nodes {
				labels[n.UUID] = n.Label
			}
		} // else the digests stand under the nodes' UUIDs
		index, digests, at, gerr := c.srv.group("").Verify(ctx)
		if gerr != nil {
			return 0, nil, faultOf(gerr)
		}
		rep := &wire.Verified{Index: index, Equal: len(digests) > 0, Nodes: make([]wire.NodeDigest, len(digests)), At: wire.At(at)}
		for i, d := range digests {
			w := &rep.Nodes[i]
			if w.ID = labels[string(d.ID)]; w.ID == "" {
				w.ID = string(d.ID)
			}
			if w.Error = wire.CutText(d.Err, wire.MaxFaultBytes); w.Error != "" {
				rep.Equal = false
				continue
			}
			w.Digest = hex.EncodeToString(d.Digest[:])
			rep.Equal = rep.Equal && d.Digest == digests[0].Digest
		}
		return wire.TypeVerified, rep, nil
	})
}

func (c *conn) clusterTransfer(raw wire.Raw) bool {
	req := new(wire.ClusterTransfer)
	if ok, alive := taken(c, raw, req, (*wire.ClusterTransfer).Validate); !ok {
		return alive
	}
	return c.slowly(raw.Tag, 0, 1, func(ctx context.Context, _ *errand) (wire.Type, any, *wire.Fault) {
		return c.clusterDone(ctx, c.srv.cfg.Broker.Transfer(ctx, req.Node))
	})
}

func (c *conn) clusterRemove(raw wire.Raw) bool {
	req := new(wire.ClusterRemove)
	if ok, alive := taken(c, raw, req, (*wire.ClusterRemove).Validate); !ok {
		return alive
	}
	return c.slowly(raw.Tag, 0, 1, func(ctx context.Context, _ *errand) (wire.Type, any, *wire.Fault) {
		return c.clusterDone(ctx, c.srv.cfg.Broker.Remove(ctx, req.Node))
	})
}

func (c *conn) clusterDone(ctx context.Context, err error) (wire.Type, any, *wire.Fault) {
	if err != nil {
		return 0, nil, nodeFault(err)
	}
	rep := new(wire.OK)
	if at, f := c.readState(ctx, true, func(*fsm.State) {}); f == nil {
		rep.At = at
	}
	return wire.TypeOK, rep, nil
}

// nodeFault turns an error of the node into a fault. What carries no code of its own is a refusal of what was asked.
func nodeFault(err error) *wire.Fault {
	var gerr *group.Error
	switch {
	case errors.As(err, &gerr):
		return faultOf(gerr)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return wire.NewFault(wire.CodeTimeout, "the cluster did not answer in time: %v", err)
	}
	return wire.NewFault(wire.CodeFailedPrecondition, "%v", err)
}
