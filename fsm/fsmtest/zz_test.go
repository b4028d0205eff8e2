package fsmtest

import (
	"github.com/quorate/quorate/fsm"
	"testing"
)

func TestZZ(t *testing.T) {
	q := []byte("q")
	try := func(name string, mid func(tok fsm.Token) []fsm.Op, now int64) {
		for _, kind := range []string{"ack none", "ack same", "ack other", "nack", "release"} {
			p := NewPair(0, false)
			idx := uint64(0)
			do := func(now int64, ops ...fsm.Op) *fsm.Effects {
				idx++
				p.State.Apply(idx, p.encode(fsm.Entry{Now: now, Ops: ops}), &p.fx)
				return &p.fx
			}
			do(1000, &fsm.Bootstrap{Cluster: [16]byte{1}, Epoch: 1}, &fsm.Enqueue{Queue: q, AutoCreate: true, Messages: []fsm.Message{{TaskID: []byte("t")}}},
				&fsm.Lease{Queue: q, Max: 1, LeaseMillis: 1000, MaxBytes: 100})
			tok := p.fx.Leases[0].Token
			do(now, mid(tok)...)
			mids := ""
			for _, o := range p.fx.Outcomes {
				mids += outcomeText(o)
			}
			var op fsm.Op
			switch kind {
			case "ack none":
				op = &fsm.Ack{Token: tok}
			case "ack same":
				op = &fsm.Ack{Token: tok, HasResult: true, Result: fsm.Result{Output: []byte("R")}}
			case "ack other":
				op = &fsm.Ack{Token: tok, HasResult: true, Result: fsm.Result{Output: []byte("S")}}
			case "nack":
				op = &fsm.Nack{Token: tok, DelayMillis: -1}
			case "release":
				op = &fsm.Release{Token: tok}
			}
			do(now, op)
			a := outcomeText(p.fx.Outcomes[0])
			do(now, op)
			var in fsm.Info
			p.State.Task("q", []byte("t"), &in)
			t.Logf("%-20s mid %s; %s: %s then %s; state %d", name, mids, kind, a, outcomeText(p.fx.Outcomes[0]), in.State)
			p.Close()
		}
	}
	push := &fsm.PushResult{Queue: q, TaskID: []byte("t"), Result: fsm.Result{Output: []byte("R")}}
	try("push", func(tok fsm.Token) []fsm.Op { return []fsm.Op{push} }, 1000)
	try("expired push", func(tok fsm.Token) []fsm.Op { return []fsm.Op{push} }, 2000)
	try("released push", func(tok fsm.Token) []fsm.Op { return []fsm.Op{&fsm.Release{Token: tok}, push} }, 1000)
	try("nacked push", func(tok fsm.Token) []fsm.Op { return []fsm.Op{&fsm.Nack{Token: tok, DelayMillis: -1}, push} }, 1000)
	try("dead push", func(tok fsm.Token) []fsm.Op {
		return []fsm.Op{&fsm.Nack{Token: tok, DelayMillis: -1, Permanent: true}, push}
	}, 1000)
	try("push released", func(tok fsm.Token) []fsm.Op { return []fsm.Op{push, &fsm.Release{Token: tok}} }, 1000)
	try("push nacked", func(tok fsm.Token) []fsm.Op { return []fsm.Op{push, &fsm.Nack{Token: tok, DelayMillis: -1}} }, 1000)
	try("acked R", func(tok fsm.Token) []fsm.Op {
		return []fsm.Op{&fsm.Ack{Token: tok, HasResult: true, Result: fsm.Result{Output: []byte("R")}}}
	}, 1000)
	try("acked push", func(tok fsm.Token) []fsm.Op { return []fsm.Op{&fsm.Ack{Token: tok}, push} }, 1000)
}
