package cluster

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"
)

// Each of many join addresses has its turn: a node that knows of one that lives finds it, wherever in the list it stands.
func TestEveryJoinAddressIsDialled(t *testing.T) {
	t.Parallel()
	n := single(t)
	var join []string
	for i := range maxRedials + 1 {
		join = append(join, fmt.Sprintf("127.0.0.1:%d", 1+i)) // nobody listens there
	}
	joiner, err := Start(within(t, 10*time.Second), Config{
		NodeID: "n2", RaftAddr: "127.0.0.1:0", GossipAddr: "127.0.0.1:0", DataDir: filepath.Join(t.TempDir(), "n2"), Join: append(join, n.GossipAddr()),
		Fatal: func(err error) { t.Errorf("fatal: %v", err) },
	})
	must(t, err)
	defer stops(t, joiner)
	until(t, "a node to find the cluster by the last of its join addresses", func() bool { return joiner.Cluster() == n.Cluster() })
}
