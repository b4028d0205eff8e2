package nemesis

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/bench/chaos/netswitch"
)

// Network is what the nodes of a run, places by their labels, and their clients reach each other through, where faults can be put into it. What is cut lets
// nothing pass and tells nobody: connections stay, and go on once it is healed. Cuts add to those that are there; Heal ends all.
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
	Ring(order []string) error           // each node reaches its neighbours alone: of five a majority, and no two the same
	Bridge(node string) error            // two halves that this node alone reaches both of
	// Flap cuts a node from the others and heals it again and again, each for a time drawn between the two, until Heal.
	Flap(node string, seed uint64, low, high time.Duration) error
	// Swizzle cuts off one node after the other in a drawn order, and brings them back in another, again and again, until Heal.
	Swizzle(seed uint64, step time.Duration) error
	// Shape is how bad the network is between all places, in both directions, until Heal.
	Shape(s Shape) error
	// Reset ends every connection that goes to or comes from a node with a TCP reset.
	Reset(node string) error

	Heal() error
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

// switched is a netswitch.Switch as a Network.
type switched struct{ *netswitch.Switch }

// Shape implements Network.
func (s switched) Shape(how Shape) error { return s.ShapeAll(netswitch.Shape(how)) }

// openNetwork makes the network of a run. This process must be an enclosed one (netswitch.Enclose).
func openNetwork(nodes int, life time.Duration) (Network, error) {
	var labels []string
	for i := range nodes {
		labels = append(labels, fmt.Sprintf("n%d", i+1))
	}
	s, err := netswitch.New(netswitch.Options{Nodes: labels, Life: life})
	if err != nil {
		return nil, fmt.Errorf("make a network: %w", err)
	}
	return switched{s}, nil
}
