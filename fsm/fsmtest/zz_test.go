package fsmtest

import (
	"github.com/quorate/quorate/fsm"
	"strings"
	"testing"
)

func TestZZ(t *testing.T) {
	seed := uint64(29)
	p := NewPair(groupOf(seed), true)
	g := NewGenerator(seed, p.Model)
	qn := strings.Repeat("q", 128)
	for {
		i, e := g.Next()
		if i == 756094141987375 {
			for k, l := range p.Model.Live(qn, fsm.StateReady) {
				t.Logf("ready %d %+v", k, l)
			}
			for k, l := range p.Model.Live(qn, fsm.StateLeased) {
				t.Logf("leased %d %+v", k, l)
			}
			for k, l := range p.Model.Live(qn, fsm.StateScheduled) {
				t.Logf("sched %d %+v", k, l)
			}
			for _, s := range p.Model.sessions {
				t.Logf("%v %+v", s.id, s.outcomes[51])
			}
			_, err := p.Apply(i, e)
			t.Log(err, p.fx.Leases, p.Model.t)
			st, _ := p.Model.Stats(qn)
			t.Logf("%+v", st)
			return
		}
		fx, err := p.Apply(i, e)
		if err != nil {
			t.Fatal(err)
		}
		g.Saw(e, fx)
	}
}
