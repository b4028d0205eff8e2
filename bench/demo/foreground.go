package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/quorate/quorate/bench/proc"
)

// portsTaken is from the first node's client port to the last port of the third node, ten apart.
const portsTaken = 22

// elsewhere is another place for the ports of a cluster, clear of those from port on.
func elsewhere(port int) int {
	if port+100 > 65535-portsTaken {
		return port - 100
	}
	return port + 100
}

// foreground runs three nodes, their ports ten apart, until ctx ends; then it stops them in order. A second start finds
// the data again, on whatever ports.
func foreground(ctx context.Context, o options) error {
	if o.port < 1 || o.port > 65535-portsTaken {
		return fmt.Errorf("port %d: want 1 to %d, since %d behind it are used too", o.port, 65535-portsTaken, portsTaken)
	}
	if o.data == "" {
		o.data = "data"
	}
	c, err := proc.New(proc.Config{Binary: o.binary, Nodes: 3, Dir: o.data, Base: o.port})
	if err != nil {
		return err
	}
	defer c.Kill()
	sctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := c.Start(sctx); err != nil {
		if strings.Contains(err.Error(), "address already in use") { // of a node's client port, which quorate dev may have
			return fmt.Errorf("%w; of a cluster: make cluster PORT=%d", err, elsewhere(o.port))
		}
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
