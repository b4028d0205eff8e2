package nemesis

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/quorate/quorate/bench/chaos/netswitch"
)

// Network is what the nodes of a run, places by their labels, and their clients reach each other through, where faults can be put into it.
// What is cut lets nothing pass and tells nobody: connections stay, and go on once it is healed. Cuts add to those that are there; Heal ends all.
// Methods return when the fault is in force. The engine has one fault in it at a time, so that the methods that inject are not called
// side by side; Close ends everything at any moment.
type Network interface {
	// Host is the address of a node, without a port, as other nodes and clients of this process reach it.
	Host(node string) string
	// Wrap is the program and its flags under which a node's binary is started so that it is at its place; nil: none is needed.
	// What it starts must keep the process id, so that signals reach the node.
	Wrap(node string) []string

	Cut(a, b string) error               // between two places, both ways
	CutOneWay(from, to string) error     // what from sends does not reach to
	Isolate(node string, all bool) error // one node from the other nodes; all: and from the clients
	Halves(some []string) error          // some nodes from the rest; clients reach both
	Ring(order []string) error           // each node hears a majority, itself and those around it in the order, and no two the same
	Bridge(node string) error            // two halves that this node alone reaches both of
	// Flap cuts a node from the others and heals it again and again, each for a time drawn between the two, until Heal.
	Flap(node string, seed uint64, low, high time.Duration) error
	// Swizzle cuts off, from clients too, one node after the other in a drawn order, and brings them back in another, again and again, until Heal.
	Swizzle(seed uint64, step time.Duration) error
	// Shape is how bad the network is between all places, in both directions, until Heal.
	Shape(s Shape) error
	// Reset ends every connection that goes to or comes from a node with a TCP reset.
	Reset(node string) error

	Heal() error
	// Told is what has become of packets since it was asked last, in words.
	Told() string
	Close() error
}

// Shape is a bad network. The zero value is a good one.
type Shape struct {
	DelayLow, DelayHigh time.Duration // each packet, drawn between the two: what differs comes out of order
	Loss                int           // percent of packets, 0 to 100
	Duplicate           int           // percent
	Reorder             int           // percent of packets that are held back for another delay
	Kbit                int           // kbit/s of each direction of each pair; 0: no limit
	Seed                uint64
}

// fetchWithin bounds the fetching of what a build needs.
const fetchWithin = 5 * time.Minute

// Enclose is netswitch.Enclose, which see: runs with faults in the network need a process whose main or TestMain begins with it. Nothing can
// be fetched from inside, so that what Build will need is, before.
func Enclose() (status int, done bool) {
	if netswitch.Available() == nil && netswitch.Ready() != nil {
		ctx, cancel := context.WithTimeout(context.Background(), fetchWithin)
		defer cancel()
		// What it cannot fetch Build will miss, and name.
		_ = exec.CommandContext(ctx, "go", "list", "-deps", "-tags", "chaos", nodesPackage).Run()
	}
	return netswitch.Enclose()
}

// switched is a netswitch.Switch as a Network.
type switched struct {
	*netswitch.Switch

	packets netswitch.Counts // when Told was asked last
	resets  int64            // the same
}

// Shape implements Network.
func (s *switched) Shape(how Shape) error { return s.ShapeAll(netswitch.Shape(how)) }

// Told implements Network.
func (s *switched) Told() string {
	packets, resets := s.Total(), s.Resets()
	c := packets.Less(s.packets)
	words := fmt.Sprintf("%d packets", c.Seen)
	for _, w := range []struct {
		n    int64
		what string
	}{{c.Cut, "cut"}, {c.Lost, "lost"}, {c.Doubled, "doubled"}, {c.Held, "held back"}, {c.Full, "without room"}, {resets - s.resets, "resets"}} {
		if w.n > 0 {
			words += fmt.Sprintf(", %d %s", w.n, w.what)
		}
	}
	s.packets, s.resets = packets, resets
	return words
}

// openNetwork makes the network of a run. This process must be an enclosed one (Enclose).
func openNetwork(nodes int, life time.Duration) (Network, error) {
	var labels []string
	for i := range nodes {
		labels = append(labels, fmt.Sprintf("n%d", i+1))
	}
	s, err := netswitch.New(netswitch.Options{Nodes: labels, Life: life})
	if err != nil {
		return nil, fmt.Errorf("make a network: %w", err)
	}
	return &switched{Switch: s}, nil
}
