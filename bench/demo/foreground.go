package main

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/bench/proc"
)

// foreground runs three nodes on the default ports, ten apart, until ctx ends; then it stops them in order. A second
// start finds the data again.
func foreground(ctx context.Context, o options) error {
	if o.data == "" {
		o.data = "data"
	}
	c, err := proc.New(proc.Config{Binary: o.binary, Nodes: 3, Dir: o.data, Base: 7340})
	if err != nil {
		return err
	}
	defer c.Kill()
	sctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := c.Start(sctx); err != nil {
		return err
	}
	for _, n := range c.Nodes {
		fmt.Printf("node %s: clients http://%s (WebSocket /v1/ws, /healthz, /readyz, /metrics), data %s, log %s\n", n.Name, n.ClientAddr, n.DataDir, n.LogFile)
	}
	fmt.Printf("try: bin/quorate cluster status --addr %s\nCtrl-C stops all three\n", c.Nodes[0].ClientAddr)
	<-ctx.Done()
	fmt.Println("stopping")
	return c.Stop()
}
