package nemesis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/bench/chaos/history"
)

// takeWithin is how long a fault waits for nodes that another one has, or for a leader. After that it is not carried out.
const takeWithin = 10 * time.Second

// errSkipped says why a fault was not carried out, which is nobody's fault.
var errSkipped = errors.New("not carried out")

// Strike is a fault and what came of it.
type Strike struct {
	Fault
	Number  int      `json:"number"`         // in the schedule
	On      []string `json:"on,omitempty"`   // the nodes that it hit
	Led     string   `json:"led,omitempty"`  // of those, the one that led
	Note    string   `json:"note,omitempty"` // what is to be said
	Skipped string   `json:"skipped,omitempty"`
	// Times in seconds since clients began, by the history's clock.
	Began  float64 `json:"began"`
	Healed float64 `json:"healed"`
	Over   float64 `json:"over"` // nodes that were down are ready again
	// What clients saw, filled in from the history: the longest time without a success from its beginning until the first success
	// after it was healed, and how long that took from when it was healed, both in seconds; Recovery is -1 where there was none.
	Gap      float64 `json:"gap"`
	Recovery float64 `json:"recovery"`

	engine *engine
	ctx    context.Context
	rng    *rand.Rand
}

type strike = Strike

func (s *strike) now() float64 { return (s.engine.rec.Elapsed() - s.engine.began).Seconds() }

// carryOut carries the fault out.
func (s *strike) carryOut() {
	e := s.engine
	s.Began = s.now()
	err := faultKinds[s.Kind].run(s)
	s.Over = s.now()
	if s.Healed == 0 {
		s.Healed = s.Over
	}
	switch {
	case errors.Is(err, errSkipped):
		s.Skipped = err.Error()
	case err != nil && s.ctx.Err() == nil:
		e.problem("fault %d (%s of %s %s, from %.1f s on): %v", s.Number, s.Kind, s.Target, strings.Join(s.On, ","), s.Began, err)
	}
	e.cfg.Log("%6.1f s  %-13s %-9s %-9s %5.1f s  %s%s", s.Began, s.Kind, s.Target, strings.Join(s.On, ","), s.Healed-s.Began, s.Note, s.Skipped)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.done = append(e.done, s)
}

// begin notes that the fault is in force from now on.
func (s *strike) begin() {
	s.Began = s.now()
	s.engine.rec.Add(history.Event{Kind: history.Mark, Note: "fault begins", Code: s.Kind, Node: strings.Join(s.On, ",")})
}

// last lets the fault last.
func (s *strike) last() error { return pause(s.ctx, time.Duration(s.For)) }

// heal notes that what it did is about to be undone.
func (s *strike) heal() {
	s.Healed = s.now()
	s.engine.rec.Add(history.Event{Kind: history.Mark, Note: "fault ends", Code: s.Kind, Node: strings.Join(s.On, ",")})
}

// take gets the nodes that the target means for this fault alone, until it gives them back. It waits while others have them.
func (s *strike) take() (ms []*member, giveBack func(), err error) {
	ctx, cancel := context.WithTimeout(s.ctx, takeWithin)
	defer cancel()
	for {
		ms = s.pick(ctx)
		if len(ms) > 0 {
			break
		}
		if pause(ctx, 20*time.Millisecond) != nil {
			return nil, nil, fmt.Errorf("%w: no %s could be had within %s", errSkipped, s.Target, takeWithin)
		}
	}
	s.On = nil
	for _, m := range ms {
		s.On = append(s.On, m.Name)
		if m.Running() && s.leads(s.ctx, m) {
			s.Led = m.Name
		}
	}
	return ms, func() {
		for _, m := range ms {
			m.token <- struct{}{}
		}
	}, nil
}

// pick takes the tokens of the nodes that the target means, none if not all are to be had.
func (s *strike) pick(ctx context.Context) []*member {
	e := s.engine
	n := len(e.nodes)
	from := s.rng.Perm(n)
	var got []*member
	try := func(m *member) bool {
		select {
		case <-m.token:
			got = append(got, m)
			return true
		default:
			return false
		}
	}
	var want int
	switch s.Target {
	case "leader", "follower":
		var leader *member
		for _, m := range e.nodes {
			if m.Running() && len(m.token) == 1 && s.leads(ctx, m) {
				leader = m
			}
		}
		if s.Target == "leader" {
			if leader != nil {
				try(leader)
			}
			return got
		}
		for _, i := range from {
			if m := e.nodes[i]; m != leader && m.Running() && try(m) {
				return got
			}
		}
		return nil
	case "minority":
		want = (n - 1) / 2
	case "majority":
		want = n/2 + 1
	case "all":
		want = n
	default:
		labels := strings.Split(s.Target, ",")
		want = len(labels)
		from = slices.DeleteFunc(from, func(i int) bool { return !slices.Contains(labels, e.nodes[i].Name) })
	}
	for _, i := range from {
		if len(got) < want {
			try(e.nodes[i])
		}
	}
	if len(got) < want {
		for _, m := range got {
			m.token <- struct{}{}
		}
		return nil
	}
	return got
}

// leads asks a node, which may stand still.
func (s *strike) leads(ctx context.Context, m *member) bool {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	return m.Leads(ctx)
}

// quorum says whether what is left of the cluster without some nodes cannot decide. At most one node is no member at any time, and it is
// taken by whoever made it so.
func (s *strike) quorum(ms []*member) bool { return len(ms) > len(s.engine.nodes)/2 }

// mark notes something of the run for the checker.
func (s *strike) mark(note string) {
	s.engine.rec.Add(history.Event{Kind: history.Mark, Note: note})
}
