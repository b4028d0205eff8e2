package chaos

import (
	"testing"
	"time"

	"github.com/quorate/quorate/client"
)

// A client pointed at a follower, or at a dead node and two live ones, works without its user noticing. (C24)
func TestClientFindsTheLeader(t *testing.T) {
	c := start(t, 3)
	leader, err := c.Leader(within(t, 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	var follower string
	for _, n := range c.Nodes {
		if n != leader {
			follower = n.ClientAddr
		}
	}
	use := func(t *testing.T, addrs ...string) {
		t.Helper()
		cl := open(t, addrs...)
		r, err := cl.Enqueue(within(t, 20*time.Second), "q", client.Message{Body: []byte("hello")})
		if err != nil {
			t.Fatal(err)
		}
		ds, err := cl.Lease(within(t, 20*time.Second), "q", client.LeaseOptions{Max: 1, Wait: 5 * time.Second})
		if err != nil || len(ds) != 1 || ds[0].ID != r.ID {
			t.Fatalf("leased %v, %v; want %s", ds, err, r.ID)
		}
		if _, err := cl.Ack(within(t, 20*time.Second), ds[0].Token, client.AckOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("a follower alone", func(t *testing.T) { use(t, follower) })
	t.Run("nothing listens at the first address", func(t *testing.T) { use(t, "127.0.0.1:1", follower) })
	leader.Kill()
	t.Run("the dead leader first", func(t *testing.T) { use(t, leader.ClientAddr, follower) })
}
