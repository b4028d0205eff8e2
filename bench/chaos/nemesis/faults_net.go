package nemesis

import (
	"context"
	"fmt"
	"strings"
	"time"
)

func network(m Means) bool { return m.Network }

const lacksNetwork = "a network that faults can be put into (network namespaces, /dev/net/tun and nsenter: bench/chaos/netswitch)"

// networkFaults are those that a Network carries out. One is in it at a time.
var networkFaults = map[string]*faultKind{
	"isolate": {help: "the target is cut off from the other nodes, with clients also from clients, for that long", targets: oneNode, params: []string{"clients"},
		needs: network, lacks: lacksNetwork, run: onNetwork(func(s *strike, n Network) error { return n.Isolate(s.On[0], s.Clients) })},
	"cut": {help: "the first of two nodes, given by their labels, and the second do not reach each other for that long", pair: true,
		needs: network, lacks: lacksNetwork, run: onNetwork(func(s *strike, n Network) error { return n.Cut(s.pair()) })},
	"cut_one_way": {help: "what the first of two nodes, given by their labels, sends does not reach the second for that long", pair: true,
		needs: network, lacks: lacksNetwork, run: onNetwork(func(s *strike, n Network) error { return n.CutOneWay(s.pair()) })},
	"halves": {help: "the target is cut off from the rest for that long; clients reach both", targets: []string{"leader", "follower", "minority"},
		needs: network, lacks: lacksNetwork, run: onNetwork(func(s *strike, n Network) error { return n.Halves(s.On) })},
	"ring": {help: "each node hears a majority alone for that long, and no two the same: of five itself and its neighbours in a drawn order, of three itself and the one before it, so that no connection works",
		needs: network, lacks: lacksNetwork, run: onNetwork(func(s *strike, n Network) error { return n.Ring(s.order()) })},
	"bridge": {help: "two halves that only the target reaches both of, for that long", targets: oneNode,
		needs: network, lacks: lacksNetwork, run: onNetwork(func(s *strike, n Network) error { return n.Bridge(s.On[0]) })},
	"deaf": {help: "what the other nodes send does not reach the target for that long", targets: oneNode,
		needs: network, lacks: lacksNetwork, run: onNetwork(func(s *strike, n Network) error { return s.oneWay(n, false) })},
	"mute": {help: "what the target sends does not reach the other nodes for that long", targets: oneNode,
		needs: network, lacks: lacksNetwork, run: onNetwork(func(s *strike, n Network) error { return s.oneWay(n, true) })},
	"flap": {help: "the target is cut off and reached again, each for up to every, for that long", targets: oneNode, params: []string{"every"},
		needs: network, lacks: lacksNetwork, run: onNetwork(func(s *strike, n Network) error {
			return n.Flap(s.On[0], s.rng.Uint64(), 100*time.Millisecond, max(time.Duration(s.Every), 100*time.Millisecond))
		})},
	"swizzle": {help: "nodes are cut off one after the other and brought back in another order, again and again, in steps of every", params: []string{"every"},
		needs: network, lacks: lacksNetwork, run: onNetwork(func(s *strike, n Network) error { return n.Swizzle(s.rng.Uint64(), time.Duration(s.Every)) })},
	"shape": {help: "the network between all is as bad as net says for that long", params: []string{"net"},
		needs: network, lacks: lacksNetwork, run: onNetwork(func(s *strike, n Network) error { return n.Shape(s.shape()) })},
	"reset": {help: "the connections of the target end with a reset", targets: anyone,
		needs: network, lacks: lacksNetwork, run: onNetwork(func(s *strike, n Network) error {
			for _, label := range s.On {
				if err := n.Reset(label); err != nil {
					return err
				}
			}
			return nil
		})},
}

// onNetwork is a fault in the network: nodes go on, and may have other faults meanwhile.
func onNetwork(inject func(*strike, Network) error) func(*strike) error {
	return func(s *strike) error {
		e := s.engine
		ctx, cancel := context.WithTimeout(s.ctx, takeWithin)
		defer cancel()
		select {
		case <-e.net:
			defer func() { e.net <- struct{}{} }()
		case <-ctx.Done():
			return fmt.Errorf("%w: another fault was in the network for %s", errSkipped, takeWithin)
		}
		if s.Target != "" {
			_, giveBack, err := s.take()
			if err != nil {
				return err
			}
			giveBack() // who it is has been settled; the node itself is let alone
		}
		n := e.network
		_ = n.Told() // what was before is not this fault's
		if err := inject(s, n); err != nil {
			return err
		}
		s.begin()
		_ = s.last() // it is healed also where the run ends
		s.heal()
		err := n.Heal()
		s.Note = n.Told()
		return err
	}
}

// order is all nodes in a drawn order.
func (s *strike) order() (labels []string) {
	for _, i := range s.rng.Perm(len(s.engine.nodes)) {
		labels = append(labels, s.engine.nodes[i].Name)
	}
	return labels
}

// pair are the two labels of the target.
func (s *strike) pair() (string, string) {
	a, b, _ := strings.Cut(s.Target, ",")
	return a, b
}

// oneWay cuts one node from all others in one direction.
func (s *strike) oneWay(n Network, mute bool) error {
	for _, m := range s.engine.nodes {
		switch {
		case m.Name == s.On[0]:
		case mute:
			if err := n.CutOneWay(s.On[0], m.Name); err != nil {
				return err
			}
		default:
			if err := n.CutOneWay(m.Name, s.On[0]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *strike) shape() Shape {
	n := s.Net
	return Shape{
		DelayLow: time.Duration(n.DelayLow), DelayHigh: time.Duration(n.DelayHigh), Loss: n.Loss, Duplicate: n.Duplicate, Reorder: n.Reorder,
		Kbit: n.Kbit, Seed: s.rng.Uint64(),
	}
}
