package proc

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Node is one Quorate node: a folder, three ports, and at most one process.
type Node struct {
	Process
	ClientAddr, RaftAddr, GossipAddr string
	DataDir                          string
}

// WaitReady waits until /readyz says yes; it fails at once when the process ends.
func (n *Node) WaitReady(ctx context.Context) error {
	for {
		if !n.Running() {
			return fmt.Errorf("node %s ended before it was ready: %s", n.Name, n.LastLog())
		}
		if code, _ := n.get(ctx, "/readyz"); code == http.StatusOK {
			return nil
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return fmt.Errorf("node %s is not ready: %w; last log: %s", n.Name, err, n.LastLog())
		}
	}
}

// Leads asks the node whether it leads (the "leader" field of /readyz).
func (n *Node) Leads(ctx context.Context) bool {
	_, body := n.get(ctx, "/readyz")
	var r struct {
		Leader bool `json:"leader"`
	}
	return json.Unmarshal(body, &r) == nil && r.Leader
}

func (n *Node) get(ctx context.Context, path string) (int, []byte) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.ClientAddr+path, nil)
	if err != nil {
		return 0, nil
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	if err != nil {
		return 0, nil
	}
	return res.StatusCode, b
}
