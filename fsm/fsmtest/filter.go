package fsmtest

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/quorate/quorate/fsm"
)

// DeadWhere lists those of Dead that pass a filter.
func (m *Model) DeadWhere(name string, w *fsm.DeadFilter) (list []fsm.Info) {
	for _, in := range m.Dead(name) {
		if (w.Reason == fsm.ReasonNone || w.Reason == in.Reason) && (len(w.Kind) == 0 || bytes.Equal(w.Kind, in.Kind)) &&
			(w.Since == 0 || in.EndedAt >= w.Since) && (w.Until == 0 || in.EndedAt <= w.Until) {
			list = append(list, in)
		}
	}
	return list
}

// compareFilters lists a queue's dead letters by reason, kind and time, each alone and together.
func (p *Pair) compareFilters(name string, n uint32, all []fsm.Info) error {
	if len(all) == 0 {
		return nil
	}
	one := all[len(all)/2]
	filters := []fsm.DeadFilter{{Since: one.EndedAt}, {Until: one.EndedAt}, {Since: one.EndedAt, Until: one.EndedAt}, {Since: one.EndedAt + 1, Until: one.EndedAt}}
	for reason := fsm.ReasonMaxAttempts; reason <= fsm.ReasonMapping; reason++ {
		filters = append(filters, fsm.DeadFilter{Reason: reason}, fsm.DeadFilter{Reason: reason, Since: one.EndedAt})
		for _, kind := range []string{"hash", "resize", string(one.Kind), "no such"} {
			filters = append(filters, fsm.DeadFilter{Reason: reason, Kind: []byte(kind)}, fsm.DeadFilter{Kind: []byte(kind), Until: one.EndedAt})
		}
	}
	var errs []error
	for _, w := range filters {
		want := p.Model.DeadWhere(name, &w)
		var got []fsm.ID
		at, after := int64(0), fsm.ID{}
		for {
			partialAt, partial := p.State.DeadWhere(n, &w, at, after, func(in *fsm.Info) bool { got = append(got, in.ID); return true })
			if partial.IsZero() {
				break
			}
			at, after = partialAt, partial
		}
		same := len(want) == len(got)
		for i := 0; same && i < len(got); i++ {
			same = want[i].ID == got[i]
		}
		if !same {
			errs = append(errs, fmt.Errorf("queue %s: dead letters of reason %d kind %q since %d until %d: want %d, got %d %v", name, w.Reason, w.Kind, w.Since, w.Until, len(want), len(got), got))
		}
	}
	return errors.Join(errs...)
}
