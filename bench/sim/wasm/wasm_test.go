//go:build !race

// The race detector sees nothing of what runs in wasm, and makes compiling it many times slower: `go test ./bench/sim/wasm`.

package wasm

import (
	"context"
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/sim"
)

var (
	seed   = flag.Uint64("wasm.seed", 1, "the first seed")
	length = flag.Duration("wasm.for", 4*time.Second, "fake time of a run while faults go on")
)

// The same plan gives the same run bit for bit, another seed another one, and the contract holds.
func TestRepeatable(t *testing.T) {
	m, err := Load(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	run := func(seed uint64) *sim.Result {
		began := time.Now()
		r, err := m.Run(t.Context(), sim.Draw(seed, *length), false)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("seed %d: %s, %d operations, trace %.16s", seed, Took(r, time.Since(began)), r.Operations, r.Trace)
		for _, what := range r.Wrong {
			t.Errorf("seed %d: %s", seed, what)
		}
		return r
	}
	one, again, other := run(*seed), run(*seed), run(*seed+1)
	if one.Trace != again.Trace || one.Operations != again.Operations {
		t.Errorf("seed %d gave %s and then %s", *seed, one.Trace, again.Trace)
	}
	if one.Trace == other.Trace {
		t.Errorf("seeds %d and %d gave the same run %s", *seed, *seed+1, one.Trace)
	}
}

// Faults that have nothing to do with what goes wrong are left out of a plan.
func TestShrink(t *testing.T) {
	fault := func(what string, at int64) sim.Fault { return sim.Fault{What: what, At: at} }
	guilty := func(p sim.Plan, all ...string) bool {
		for _, what := range all {
			if !slices.ContainsFunc(p.Faults, func(f sim.Fault) bool { return f.What == what }) {
				return false
			}
		}
		return true
	}
	for _, c := range []struct {
		name   string
		needed []string
	}{
		{"one fault", []string{"kill"}}, {"two that go together", []string{"cut", "power"}}, {"none", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := sim.Plan{Seed: 1, Minor: true}
			for i := range int64(40) {
				p.Faults = append(p.Faults, fault("storm", i))
			}
			for i, what := range c.needed {
				p.Faults = slices.Insert(p.Faults, 7+17*i, fault(what, 99))
			}
			wrong := &sim.Result{Broken: 1, Wrong: []string{"G1: lost"}}
			small, runs := Shrink(t.Context(), p, wrong, func(_ context.Context, q sim.Plan) (*sim.Result, error) {
				if guilty(q, c.needed...) {
					return wrong, nil
				}
				return &sim.Result{Broken: 1, Wrong: []string{"G7: something else"}}, nil
			})
			if len(small.Faults) != len(c.needed) || !guilty(small, c.needed...) || small.Minor {
				t.Errorf("left are %+v after %d runs, want %v", small, runs, c.needed)
			}
		})
	}
}
