package proc

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Node is one Quorate node: a folder, three ports, and at most one process.
type Node struct {
	Process
	ClientAddr, RaftAddr, GossipAddr string
	DataDir                          string
}

// maxBody bounds what is read of an answer. /metrics is the longest: some kilobytes a queue.
const maxBody = 16 << 20

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

// Metric is the value of one of the node's metrics, of those without labels; ok is false where it cannot be had.
func (n *Node) Metric(ctx context.Context, name string) (v float64, ok bool) {
	v, ok = n.Metrics(ctx)[name]
	return v, ok
}

// Metrics are all of the node's metrics by name and labels, as they are written in the exposition format; nil where they cannot be had.
func (n *Node) Metrics(ctx context.Context) map[string]float64 {
	code, body := n.get(ctx, "/metrics")
	if code != http.StatusOK {
		return nil
	}
	all := map[string]float64{}
	for line := range strings.Lines(string(body)) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || line[0] == '#' {
			continue
		}
		if v, err := strconv.ParseFloat(line[at+1:], 64); err == nil {
			all[line[:at]] = v
		}
	}
	return all
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
	b, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	if err != nil {
		return 0, nil
	}
	return res.StatusCode, b
}
