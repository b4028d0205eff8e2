package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

var errNotEqual = errors.New("the nodes' states differ")

func newCluster(c *cli) *cobra.Command {
	cmd := &cobra.Command{Use: "cluster", Short: "See and change the cluster's members", Args: noSuchVerb, RunE: needsVerb}
	cmd.AddCommand(newClusterStatus(c), newClusterVerify(c), newClusterRemove(c), newClusterTransfer(c))
	return cmd
}

func newClusterStatus(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the nodes, who leads and how far each is",
		Args:  cobra.NoArgs,
		RunE: c.with(func(ctx context.Context, cl *client.Client, _ []string) error {
			s, err := cl.ClusterStatus(ctx)
			if err != nil {
				return err
			}
			if c.asJSON() {
				nodes := make([]map[string]any, 0, len(s.Nodes))
				for _, n := range s.Nodes {
					nodes = append(nodes, map[string]any{"id": n.ID, "uuid": n.UUID, "role": n.Role, "voter": n.Voter, "alive": n.Alive,
						"client_addr": n.ClientAddr, "raft_addr": n.RaftAddr, "applied": n.Applied, "last_log": n.LastLog, "version": n.Version})
				}
				return c.json(map[string]any{"cluster_id": s.Cluster, "leader": s.Leader, "term": s.Term, "nodes": nodes})
			}
			if err := c.fields("cluster", s.Cluster, "leader", s.Leader, "term", fmt.Sprint(s.Term)); err != nil {
				return err
			}
			rows := make([][]string, 0, len(s.Nodes))
			for _, n := range s.Nodes {
				rows = append(rows, []string{n.ID, n.Role, yes(n.Voter), yes(n.Alive), n.ClientAddr, fmt.Sprint(n.Applied), n.Version})
			}
			return c.table([]string{"NODE", "ROLE", "VOTER", "ALIVE", "CLIENTS", "APPLIED", "VERSION"}, rows)
		}),
	}
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func newClusterVerify(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "verify",
		Short: "Compare the state hashes of all nodes at one log index",
		Args:  cobra.NoArgs,
		RunE: c.with(func(ctx context.Context, cl *client.Client, _ []string) error {
			v, err := cl.Verify(ctx)
			if err != nil {
				return err
			}
			if c.asJSON() {
				nodes := make([]map[string]any, 0, len(v.Nodes))
				for _, n := range v.Nodes {
					m := map[string]any{"id": n.ID, "digest": n.Digest}
					if n.Error != "" {
						m["error"] = n.Error
					}
					nodes = append(nodes, m)
				}
				if err := c.json(map[string]any{"index": v.Index, "equal": v.Equal, "nodes": nodes}); err != nil {
					return err
				}
			} else {
				rows := make([][]string, 0, len(v.Nodes))
				for _, n := range v.Nodes {
					rows = append(rows, []string{n.ID, n.Digest, n.Error})
				}
				if err := c.table([]string{"NODE", "DIGEST AT INDEX " + fmt.Sprint(v.Index), "ERROR"}, rows); err != nil {
					return err
				}
			}
			return verdict(v)
		}),
	}
}

// verdict tells nodes that differ from nodes that could not be asked.
func verdict(v client.Verified) error {
	first := ""
	silent := 0
	for _, n := range v.Nodes {
		switch {
		case n.Error != "":
			silent++
		case first == "":
			first = n.Digest
		case n.Digest != first:
			return errNotEqual
		}
	}
	if silent > 0 {
		return &exitError{code: exitUnavailable, err: fmt.Errorf("%d of %d nodes gave no digest; the others agree", silent, len(v.Nodes))}
	}
	return nil
}

func newClusterRemove(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "remove NODE",
		Short: "Remove a member by label or UUID; refused if it would cost the majority",
		Args:  cobra.ExactArgs(1),
		RunE: c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			if err := cl.Remove(ctx, args[0]); err != nil {
				return err
			}
			return c.done("removed " + args[0])
		}),
	}
}

func newClusterTransfer(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "transfer [NODE]",
		Short: "Hand leadership to a node, or to the one that is furthest",
		Args:  cobra.MaximumNArgs(1),
		RunE: c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			to := ""
			if len(args) == 1 {
				to = args[0]
			}
			began := time.Now()
			if err := cl.Transfer(ctx, to); err != nil {
				return err
			}
			return c.done(fmt.Sprintf("transferred in %d ms", time.Since(began).Milliseconds()))
		}),
	}
}
