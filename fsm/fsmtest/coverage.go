package fsmtest

import (
	"fmt"
	"reflect"
	"sort"

	"github.com/quorate/quorate/fsm"
)

// Answer is a kind of answer to an operation: a run that never saw one of those that its test names proves less than it
// seems to.
type Answer struct {
	Op    string // the operation's type
	Code  fsm.Code
	Field fsm.Field
}

// Coverage counts what runs have seen: answers by their kind, and branches of the model by name.
type Coverage struct {
	Answers  map[Answer]int
	Branches map[string]int
}

// NewCoverage has seen nothing.
func NewCoverage() *Coverage {
	return &Coverage{Answers: map[Answer]int{}, Branches: map[string]int{}}
}

// Add takes over what another one has seen.
func (c *Coverage) Add(other *Coverage) {
	for a, n := range other.Answers {
		c.Answers[a] += n
	}
	for b, n := range other.Branches {
		c.Branches[b] += n
	}
}

// answered notes the outcomes of an entry.
func (c *Coverage) answered(e fsm.Entry, fx *fsm.Effects) {
	from := int32(0)
	for i, op := range e.Ops {
		for _, o := range fx.Outcomes[from:fx.OpEnd[i]] {
			c.Answers[Answer{reflect.TypeOf(op).Elem().Name(), o.Code, o.Field}]++
		}
		from = fx.OpEnd[i]
	}
}

// Missing lists which of the named answers and branches were never seen.
func (c *Coverage) Missing(answers []Answer, branches []string) (missing []string) {
	for _, a := range answers {
		if c.Answers[a] == 0 {
			missing = append(missing, fmt.Sprintf("%s: code %d field %d", a.Op, a.Code, a.Field))
		}
	}
	for _, b := range branches {
		if c.Branches[b] == 0 {
			missing = append(missing, b)
		}
	}
	sort.Strings(missing)
	return missing
}

// sometimes notes that the model went through a branch that a run must reach.
func (m *Model) sometimes(branch string) { m.seen.Branches[branch]++ }
