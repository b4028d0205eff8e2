package nemesis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/quorate/quorate/client"
)

// memberWithin bounds each step of a change of the membership, whatever other faults there are meanwhile.
const memberWithin = 30 * time.Second

// refusedText is what a node logs that the cluster does not let in.
const refusedText = "the cluster does not take this node"

// memberFaults change who belongs to the cluster.
var memberFaults = map[string]*faultKind{
	"transfer": {help: "leadership goes to the target", targets: []string{"follower"}, run: transfer},
	"remove":   {help: "the target is removed, and joins emptied after for", targets: oneNode, run: removeNode},
	"replace":  {help: "the target is killed, removed, and joins emptied after for", targets: oneNode, run: replaceNode},
	"wiped": {
		help:    "the target is killed, emptied and started under its old name, and must be refused for that long; then its old self is removed",
		targets: oneNode, run: wipeNode,
	},
}

// transfer gives leadership to a node.
func transfer(s *strike) error {
	ms, giveBack, err := s.take()
	if err != nil {
		return err
	}
	defer giveBack()
	s.begin()
	ctx, cancel := context.WithTimeout(s.ctx, takeWithin)
	defer cancel()
	for {
		err := s.engine.admin.Transfer(ctx, ms[0].Name)
		switch {
		case err == nil:
			return nil
		case s.leads(s.ctx, ms[0]):
			s.Note = "it led already"
			return nil
		case !errors.Is(err, client.ErrFailedPrecondition):
			s.Note = "no telling: " + err.Error() // the leader may be gone
			return nil
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			return fmt.Errorf("%w: %w", errSkipped, err)
		}
	}
}

// alone waits until no other fault has taken a node out of the cluster: where one of three is out and its disk empty, the other two decide
// together, and whoever takes one of them away for good has ended the cluster.
func (s *strike) alone() (done func(), err error) {
	ctx, cancel := context.WithTimeout(s.ctx, takeWithin)
	defer cancel()
	select {
	case <-s.engine.members:
		return func() { s.engine.members <- struct{}{} }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: another node was out of the cluster for %s", errSkipped, takeWithin)
	}
}

// takeAlone takes nodes while no other fault has one out of the cluster.
func (s *strike) takeAlone() (ms []*member, done func(), err error) {
	free, err := s.alone()
	if err != nil {
		return nil, nil, err
	}
	ms, giveBack, err := s.take()
	if err != nil {
		free()
		return nil, nil, err
	}
	return ms, func() { giveBack(); free() }, nil
}

// expel removes a node, through whatever else happens meanwhile.
func (s *strike) expel(m *member) error {
	e := s.engine
	ctx, cancel := context.WithTimeout(s.ctx, memberWithin)
	defer cancel()
	for {
		err := e.admin.Remove(ctx, m.Name)
		if err == nil || errors.Is(err, client.ErrNotFound) { // the latter where an attempt before has succeeded unheard
			return nil
		}
		if errors.Is(err, client.ErrFailedPrecondition) && m.Running() && s.leads(ctx, m) {
			_ = e.admin.Transfer(ctx, "") // the next attempt tells
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			return fmt.Errorf("node %s could not be removed within %s: %w", m.Name, memberWithin, err)
		}
	}
}

// rejoin starts a node that was removed on an empty disk, and returns when it votes.
func (s *strike) rejoin(m *member) error {
	s.engine.kill([]*member{m})
	if err := m.wipe(s.ctx); err != nil {
		return err
	}
	s.heal()
	if err := s.engine.startReady(s.ctx, []*member{m}); err != nil {
		return err
	}
	return s.votes(m)
}

// votes waits until a node is an alive voter.
func (s *strike) votes(m *member) error {
	ctx, cancel := context.WithTimeout(s.ctx, memberWithin)
	defer cancel()
	for {
		status, err := s.engine.admin.ClusterStatus(ctx)
		for _, n := range status.Nodes {
			if err == nil && n.ID == m.Name && n.Voter && n.Alive {
				return nil
			}
		}
		if pause(ctx, 50*time.Millisecond) != nil {
			return fmt.Errorf("node %s joined and does not vote within %s: %+v (%w)", m.Name, memberWithin, status, err)
		}
	}
}

// removeNode removes a node that lives. It ends its process when it hears of it.
func removeNode(s *strike) error {
	ms, done, err := s.takeAlone()
	if err != nil {
		return err
	}
	defer done()
	m := ms[0]
	m.doomed.Store(true)
	s.begin()
	if err := s.expel(m); err != nil {
		return err
	}
	if s.last() != nil {
		return nil
	}
	return s.rejoin(m)
}

// replaceNode removes a node that is dead.
func replaceNode(s *strike) error {
	ms, done, err := s.takeAlone()
	if err != nil {
		return err
	}
	defer done()
	s.down(ms)
	if s.last() != nil {
		return nil
	}
	if err := s.expel(ms[0]); err != nil {
		return err
	}
	return s.rejoin(ms[0])
}

// wipeNode has a node lose its disk and come back under its old name. It has forgotten what it voted and what it said it had, so that
// the cluster must not count it as the one that it was.
func wipeNode(s *strike) error {
	ms, done, err := s.takeAlone()
	if err != nil {
		return err
	}
	defer done()
	e, m := s.engine, ms[0]
	s.down(ms)
	if err := m.wipe(s.ctx); err != nil {
		return err
	}
	before, err := os.ReadFile(m.LogFile)
	if err != nil {
		return err
	}
	if err := e.start(m); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.ctx, time.Duration(s.For))
	defer cancel()
	if m.WaitReady(ctx) == nil {
		return fmt.Errorf("node %s lost its disk, came back under its old name, and was taken for the one that it was", m.Name)
	}
	if s.ctx.Err() != nil {
		return nil
	}
	if !m.Running() {
		return fmt.Errorf("node %s lost its disk and ended where it should wait to be let in: %s", m.Name, m.LastLog())
	}
	after, err := os.ReadFile(m.LogFile)
	if err != nil {
		return err
	}
	if strings.Contains(string(after[min(len(before), len(after)):]), refusedText) {
		s.Note = wipedRefused
	}
	if err := s.expel(m); err != nil {
		return err
	}
	s.heal()
	rctx, cancelReady := context.WithTimeout(s.ctx, readyWithin)
	defer cancelReady()
	if err := m.WaitReady(rctx); err != nil {
		return err
	}
	return s.votes(m)
}

// wipedRefused is the note of a node without its disk that asked to be let in and was not.
const wipedRefused = "refused under its old name"
